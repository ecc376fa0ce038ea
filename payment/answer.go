package payment

import (
	"encoding/json"
	"time"
)

// Kind is what a command's answer amounts to; the router maps each to one HTTP status.
type Kind string

// The kinds of answers. All but Processing are final and stored with the idempotency key.
const (
	KindAuthorized     Kind = "AUTHORIZED"      // reserved
	KindCharged        Kind = "CHARGED"         // authorized and captured in one (captureMode automatic)
	KindActionRequired Kind = "REQUIRES_ACTION" // the buyer must act first
	KindDeclined       Kind = "DECLINED"        // the card's no
	KindUnavailable    Kind = "UNAVAILABLE"     // provably not sent: no PSP could be reached; the payment is FAILED
	KindRejected       Kind = "REJECTED"        // the PSP refused the request as malformed or not allowed
	KindCaptured       Kind = "CAPTURED"        // captured, in full or in part
	KindVoided         Kind = "VOIDED"          // released
	KindRefunded       Kind = "REFUNDED"        // given back
	KindRefused        Kind = "REFUSED"         // the PSP's definite no to a capture, void or refund
	KindProcessing     Kind = "PROCESSING"      // no answer yet; never stored
)

// Answer is what a command answers its caller.
type Answer struct {
	Kind      Kind
	Body      json.RawMessage // the resource as JSON; a replay has the same bytes
	Replayed  bool            // the stored first answer of this key
	PaymentID string          // for logs
	PSPTime   time.Duration   // spent waiting for the PSP, so that our own share can be told apart
}
