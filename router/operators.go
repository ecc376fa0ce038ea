package router

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"paygrid/psprouter"
)

// PSPList is the answer of GET /v1/operator/psps.
type PSPList struct {
	PSPs []PSPStatus `json:"psps"`
}

// PSPStatus is one operation of one PSP as one router sees it. Counts and rates are of the approval window.
type PSPStatus struct {
	PSP       string `json:"psp"`
	Operation string `json:"operation"`
	Breaker   string `json:"breaker"`              // closed, half-open, open, or none
	RetryInMS int64  `json:"retryInMs"`            // until the breaker lets a call through; 0 if it is not open
	Answered  int64  `json:"answered"`             // calls with a definite answer
	Failed    int64  `json:"failed"`               // calls with none
	Ours      int64  `json:"ours"`                 // calls that say nothing of the PSP
	Errors    int64  `json:"errorPermille"`        // failed of failed and answered; -1 of nothing
	Approvals int64  `json:"approvalPermille"`     // approved of approved and declined; -1 of nothing
	Drained   bool   `json:"drained"`              // no new payments go there
	Reason    string `json:"drainReason,omitzero"` // the operator's
}

// operatorOnly lets operators in, whom the API's clients are not, and notes who came. It checks no right beyond that: what
// takes two people is decided where it is done.
func (r *Router) operatorOnly(c *gin.Context) {
	r.admit(c, r.operators)
}

// pspStatus tells how this router sees its PSPs; another router can see them otherwise.
func (r *Router) pspStatus(c *gin.Context) {
	list := PSPList{PSPs: []PSPStatus{}}
	for _, s := range r.cfg.PSPs() {
		list.PSPs = append(list.PSPs, pspStatusOf(s))
	}
	r.writeJSON(c, http.StatusOK, "application/json", list)
}

func pspStatusOf(s psprouter.Status) PSPStatus {
	return PSPStatus{PSP: s.PSP, Operation: s.Operation, Breaker: s.Breaker, RetryInMS: s.RetryIn.Milliseconds(), Answered: s.Answered,
		Failed: s.Failed, Ours: s.Ours, Errors: s.ErrorPermille, Approvals: s.ApprovalPermille, Drained: s.Drained, Reason: s.DrainReason}
}

// Operator is a person who may run the cluster, and the hash of one of their tokens. Whoever stands in the list several
// times, with another token each, is one person.
type Operator struct {
	ID          string
	TokenSHA256 string // SHA-256 of the token, 64 hexadecimal digits
}

// OperatorOf names the operator of a token; ok is false if nobody has it. It compares as the API does: with every
// credential, in constant time.
func OperatorOf(operators []Operator, token string) (id string, ok bool, err error) {
	creds, err := credentials("Operators", operatorKeys(operators))
	if err != nil {
		return "", false, err
	}
	id, ok = holderOf(creds, token)
	return id, ok, nil
}

func operatorKeys(operators []Operator) []Client {
	out := make([]Client, len(operators))
	for i, o := range operators {
		out[i] = Client{ID: o.ID, KeySHA256: o.TokenSHA256}
	}
	return out
}
