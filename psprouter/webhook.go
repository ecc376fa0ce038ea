package psprouter

import (
	"net/http"
	"time"

	"paygrid/ledger"
)

// WebhookReader is how an adapter takes a PSP's notices. Checking and reading are two steps: a notice is checked when it
// arrives, over the exact bytes and by the clock of that moment, stored as it came, and read later.
type WebhookReader interface {
	// CheckWebhook checks signature and age (both ways) and returns a *WebhookError if they do not hold. It parses nothing
	// before the signature holds, as far as the PSP's scheme allows.
	CheckWebhook(header http.Header, body []byte, now time.Time) error
	// ReadWebhook reads the notices in a body that was checked. A body that is no notice at all is a *WebhookError; what
	// is a notice of a kind that we do not know comes as a Notice without Operation.
	ReadWebhook(body []byte) ([]Notice, error)
	// WebhookAnswer is what the PSP wants to hear once the notices are stored: content type and body.
	WebhookAnswer() (contentType string, body []byte)
}

// Notice is one event of a PSP, as far as it concerns us.
type Notice struct {
	// EventID tells one event from another; a redelivery has the same. Where a PSP has no event IDs it is made of what
	// identifies the event there.
	EventID string
	// Kind is the PSP's own word, for people.
	Kind string
	// Attempt is our attempt ID, "" if the notice names none. Only an ID of ours counts, never an order's.
	Attempt string
	// Reference is the PSP's ID of what the notice is about, Original of the payment that it modifies ("" for the payment
	// itself). They find an attempt when Attempt is "".
	Reference, Original string
	// Operation is what the outcome belongs to (OpAuthorize, …); "" if the notice settles no attempt.
	Operation string
	// Outcome is what the notice says of that attempt.
	Outcome Outcome
	// CaptureImplied says that the PSP takes the money of an automatic payment by itself once it is authorized, so that
	// this notice of an authorization is the notice of its capture as well.
	CaptureImplied bool
	// Reversed says that the PSP takes back a success that it told before (a failed capture, a returned refund).
	Reversed bool
	// Expired says that the PSP released an authorization by time.
	Expired bool
	// Amount is what the notice says moved, in our units; zero if it says none. AmountProblem says why it could not be
	// read in our units.
	Amount        ledger.Money
	AmountProblem string
	// Foreign says why the notice is not for this cluster: another mode or account. Such a notice is kept and changes
	// nothing.
	Foreign string
}

// WebhookError is a webhook that is not taken. Its text goes to our log; the sender hears only that it was refused.
type WebhookError struct {
	Why WebhookFault
	Err error
}

// WebhookFault says what is wrong with a webhook.
type WebhookFault string

// The faults.
const (
	WebhookUnsigned  WebhookFault = "signature" // missing, malformed or wrong
	WebhookStale     WebhookFault = "age"       // too old, or from the future
	WebhookMalformed WebhookFault = "malformed" // no notice
)

func (e *WebhookError) Error() string {
	if e.Err == nil {
		return "webhook refused: " + string(e.Why)
	}
	return "webhook refused: " + string(e.Why) + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *WebhookError) Unwrap() error { return e.Err }
