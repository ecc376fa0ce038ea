package router

import (
	"errors"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"

	"paygrid/payment"
)

// problem is the body of every refusal: RFC 9457 with members of our own.
type problem struct {
	Type       string       `json:"type"` // urn:paygrid:problem:<code>
	Title      string       `json:"title"`
	Status     int          `json:"status"`
	Detail     string       `json:"detail,omitempty"`
	Code       payment.Code `json:"code"`
	Field      string       `json:"field,omitempty"`
	Remedy     string       `json:"remedy,omitempty"`
	RequestID  string       `json:"requestId"`
	PaymentID  string       `json:"paymentId,omitempty"`
	Reference  string       `json:"reference,omitempty"`
	Remaining  *int64       `json:"remaining,omitempty"` // minor units still possible
	RetryAfter int64        `json:"retryAfter,omitzero"` // seconds, as the header
}

// refuse answers with err as a problem and ends the request. The cause goes to the request's one log record.
func (r *Router) refuse(c *gin.Context, err error) {
	if fault := (*payment.PanicError)(nil); errors.As(err, &fault) {
		r.panicked(c, fault, nil) // its stack is in the log
		return
	}
	refusal, x := asRefusal(err), exchangeOf(c)
	rule := rulingOf(refusal.Code)
	x.code, x.cause = refusal.Code, refusal.Err
	p := problem{
		Type:  "urn:paygrid:problem:" + string(refusal.Code),
		Title: rule.title, Status: rule.status, Detail: refusal.Detail,
		Code: refusal.Code, Field: refusal.Field, Remedy: refusal.Remedy,
		RequestID: x.requestID, PaymentID: x.paymentID,
		Reference: refusal.Reference, Remaining: refusal.Remaining,
		RetryAfter: wholeSeconds(max(rule.retry, refusal.RetryIn)),
	}
	if p.RetryAfter > 0 {
		c.Header("Retry-After", strconv.FormatInt(p.RetryAfter, 10))
	}
	c.Abort()
	r.writeJSON(c, rule.status, "application/problem+json", p)
}

// wholeSeconds rounds up: a caller that comes back too early is refused again.
func wholeSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}

// writeJSON encodes v; all its types are ours and always encode.
func (r *Router) writeJSON(c *gin.Context, status int, mediaType string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // observe answers 500 and logs it
	}
	c.Data(status, mediaType, body)
}

func (r *Router) noRoute(c *gin.Context) {
	r.refuse(c, &payment.Error{Code: CodeRouteNotFound, Detail: "there is nothing at this path", Remedy: "see /openapi.yaml"})
}

// noMethod answers for a path that is there; gin has set the Allow header.
func (r *Router) noMethod(c *gin.Context) {
	r.refuse(c, &payment.Error{Code: CodeMethodNotAllowed, Detail: "the path does not have this method",
		Remedy: "use one of Allow: " + c.Writer.Header().Get("Allow")})
}

// internal answers for a panic.
func (r *Router) internal(c *gin.Context) {
	r.refuse(c, &payment.Error{Code: CodeInternal, Detail: "a fault of ours, and no outcome is known",
		Remedy: "send the same request with the same Idempotency-Key again, and tell us the requestId"})
}
