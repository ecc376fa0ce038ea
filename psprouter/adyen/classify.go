package adyen

import (
	"fmt"
	"net/http"
	"strings"

	"paygrid/psprouter"
)

// send tells a request that leaves for the first time from one that was sent before: then a refusal says nothing about the
// first.
type send bool

const (
	firstSend  send = false
	sentBefore send = true
)

// askedPayment is what an authorization asked for, in Adyen's unit.
type askedPayment struct {
	attempt  string
	amount   amount
	captured bool // at once
}

// askedModification: payment is the pspReference of what is modified; amount is nil for a cancellation.
type askedModification struct {
	attempt, payment string
	amount           *amount
}

// paymentAnswer is what we read of a 200 to POST /payments. Adyen leaves out what does not apply.
type paymentAnswer struct {
	PSPReference      string  `json:"pspReference"`
	ResultCode        string  `json:"resultCode"`
	RefusalReason     string  `json:"refusalReason"`
	RefusalReasonCode string  `json:"refusalReasonCode"`
	MerchantReference string  `json:"merchantReference"`
	Amount            *amount `json:"amount"`
	Action            *action `json:"action"`
}

type action struct {
	Type   string `json:"type"`
	URL    string `json:"url"`
	Method string `json:"method"`
}

// modificationAnswer is what we read of a 201 to a modification.
type modificationAnswer struct {
	MerchantAccount     string  `json:"merchantAccount"`
	PaymentPSPReference string  `json:"paymentPspReference"`
	PSPReference        string  `json:"pspReference"`
	Reference           string  `json:"reference"`
	Status              string  `json:"status"`
	Amount              *amount `json:"amount"`
}

// fault is Adyen's error body.
type fault struct {
	Status  int    `json:"status"`
	Code    string `json:"errorCode"`
	Message string `json:"message"`
	Type    string `json:"errorType"`
}

// judge turns answers into outcomes. Its rules are a list of what is positively recognised; the rest is Unknown.
type judge struct{ account, notProcessedHeader string }

func (j judge) payment(a answer, s send, want askedPayment) psprouter.Outcome {
	if out, done := j.unanswered(a); done {
		return out
	}
	if a.status != http.StatusOK {
		return j.refused(a, s, func(f fault) psprouter.Outcome { return psprouter.RejectedWith(f.Code, f.text()) })
	}
	var got paymentAnswer
	if err := readJSON(a.body, &got); err != nil {
		return psprouter.UnknownBecause("an answer that cannot be read: " + err.Error())
	}
	if got.PSPReference == "" {
		return psprouter.UnknownBecause("an answer without a pspReference")
	}
	if why := mismatch(got.MerchantReference, want.attempt, got.Amount, &want.amount); why != "" {
		return contradiction(got.PSPReference, why)
	}
	return paymentResult(got, want)
}

// paymentResult judges an answer that is known to be ours, by resultCode first and refusalReasonCode second.
func paymentResult(got paymentAnswer, want askedPayment) psprouter.Outcome {
	switch got.ResultCode {
	case "Authorised":
		out := psprouter.ApprovedAs(got.PSPReference)
		out.Captured = want.captured
		return out
	case "PartiallyAuthorised":
		return contradiction(got.PSPReference, "authorized only in part")
	case "Refused", "Cancelled":
		return declined(got, got.ResultCode)
	case "Error":
		// Adyen calls it final. A success that is told later all the same comes as a notice, and is given back.
		return declined(got, "an error that Adyen calls final")
	case "Pending", "Received":
		return psprouter.AcceptedAs(got.PSPReference)
	case "RedirectShopper":
		if redirects(got.Action) {
			return psprouter.RedirectTo(got.PSPReference, got.Action.URL)
		}
		return psprouter.UnknownBecause("the buyer must act, but there is no redirect")
	}
	return psprouter.UnknownBecause(fmt.Sprintf("resultCode %.40q", got.ResultCode))
}

// redirects tells whether a buyer can be sent on by an address alone; a form that must be posted cannot.
func redirects(a *action) bool {
	return a != nil && a.Type == "redirect" && a.URL != "" && (a.Method == "" || strings.EqualFold(a.Method, "GET"))
}

func declined(got paymentAnswer, what string) psprouter.Outcome {
	out := psprouter.DeclinedWith(refusalWord(got.RefusalReasonCode), what+": "+got.RefusalReason)
	out.Reference = got.PSPReference
	return out
}

func (j judge) modification(a answer, s send, want askedModification) psprouter.Outcome {
	if out, done := j.unanswered(a); done {
		return out
	}
	if a.status != http.StatusCreated {
		return j.refused(a, s, func(f fault) psprouter.Outcome {
			if a.status == http.StatusUnauthorized || a.status == http.StatusForbidden {
				return psprouter.NotSentBecause(f.text()) // our account's trouble, not the payment's
			}
			return psprouter.DeclinedWith(f.Code, f.text())
		})
	}
	var got modificationAnswer
	if err := readJSON(a.body, &got); err != nil {
		return psprouter.UnknownBecause("an answer that cannot be read: " + err.Error())
	}
	if got.Status != "received" || got.PSPReference == "" {
		return psprouter.UnknownBecause(fmt.Sprintf("a modification in status %.40q as %.40q", got.Status, got.PSPReference))
	}
	if why := j.foreign(got, want); why != "" {
		return contradiction(got.PSPReference, why)
	}
	return psprouter.AcceptedAs(got.PSPReference)
}

// foreign says why a modification's answer does not fit the question; "" if it does.
func (j judge) foreign(got modificationAnswer, want askedModification) string {
	switch {
	case got.PaymentPSPReference != want.payment:
		return fmt.Sprintf("the answer is of payment %.80q", got.PaymentPSPReference)
	case got.MerchantAccount != "" && got.MerchantAccount != j.account:
		return fmt.Sprintf("the answer is of account %.80q", got.MerchantAccount)
	}
	return mismatch(got.Reference, want.attempt, got.Amount, want.amount)
}

// mismatch compares what an answer echoes; what it leaves out proves nothing either way.
func mismatch(reference, attempt string, got, want *amount) string {
	switch {
	case reference != "" && reference != attempt:
		return fmt.Sprintf("the answer is of reference %.80q, not of %q", reference, attempt)
	case got != nil && want != nil && *got != *want:
		return fmt.Sprintf("the answer is of %d %.8s, not of %d %s", got.Value, got.Currency, want.Value, want.Currency)
	}
	return ""
}

// unanswered judges calls without a whole answer, and the answers that mean the same.
func (j judge) unanswered(a answer) (psprouter.Outcome, bool) {
	switch {
	case a.unsent != "":
		return psprouter.NotSentBecause(a.unsent), true
	case a.broken != nil:
		return psprouter.UnknownBecause(fmt.Sprintf("status %d: %v", a.status, a.broken)), true
	case a.status == 0:
		return psprouter.UnknownBecause("no answer"), true
	case a.status == http.StatusServiceUnavailable && j.notProcessedHeader != "" && a.header.Get(j.notProcessedHeader) == "true":
		return psprouter.NotSentBecause("HTTP 503 with the promise that nothing was processed"), true
	}
	return psprouter.Outcome{}, false
}

// The error codes with a meaning of their own, whatever their status: Adyen says 422 in some places and 409 in others.
const (
	codeInProgress   = "704" // the same key is being processed, or was
	codeKeyStoreDown = "703"
)

// refused judges an answer that is no success. Only a readable refusal of a first send is a no; definite says which.
func (j judge) refused(a answer, s send, definite func(fault) psprouter.Outcome) psprouter.Outcome {
	var f fault
	if err := readJSON(a.body, &f); err != nil {
		return psprouter.UnknownBecause(fmt.Sprintf("status %d with a body that cannot be read: %v", a.status, err))
	}
	if s == sentBefore {
		return psprouter.UnknownBecause(fmt.Sprintf("a refusal of the second send says nothing of the first: status %d, %s", a.status, f.text()))
	}
	if !f.refuses(a) {
		return psprouter.UnknownBecause(fmt.Sprintf("status %d, %s", a.status, f.text()))
	}
	return definite(f)
}

// refuses tells whether Adyen refused the request as such before doing anything.
func (f fault) refuses(a answer) bool {
	if f.Code == "" || f.Code == codeInProgress || f.Code == codeKeyStoreDown || a.header.Get("transient-error") != "" ||
		f.Status != 0 && f.Status != a.status {
		return false
	}
	switch a.status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusUnauthorized, http.StatusForbidden:
		return f.Type == "validation" || f.Type == "security" || f.Type == "configuration"
	}
	return false
}

func (f fault) text() string {
	return fmt.Sprintf("%.40s error %.40s: %.200s", f.Type, f.Code, f.Message)
}

func contradiction(reference, why string) psprouter.Outcome {
	out := psprouter.Contradiction(why)
	out.Reference = reference
	return out
}
