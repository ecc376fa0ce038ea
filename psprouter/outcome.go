package psprouter

import "time"

// Class says what one call to a PSP told us. It is closed: everything that decides, decides on one of these six.
type Class uint8

// The zero value is Unknown, so that an answer nobody classified can never pass for a failure or a success.
const (
	// Unknown: we asked and have no answer we positively recognise. It is not a failure; the attempt stays pending.
	Unknown Class = iota
	// Approved: the money was authorized, captured, voided or refunded as asked.
	Approved
	// Accepted: the PSP took the request; the result comes later. The attempt stays pending.
	Accepted
	// Declined: a definite and final no (the card's, or the PSP's to a capture, void or refund). Never tried elsewhere.
	Declined
	// ActionRequired: the buyer must act first (3-D Secure redirect).
	ActionRequired
	// NotSent: provably nothing happened at the PSP. The only class that may go to another PSP, as a new attempt.
	NotSent
)

var classNames = [...]string{"UNKNOWN", "APPROVED", "ACCEPTED", "DECLINED", "ACTION_REQUIRED", "NOT_SENT"}

// String is the word stored on the attempt.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return classNames[Unknown]
}

// Outcome is the whole answer of a PSP call as our domain sees it. Its class is set by the constructors alone; the zero
// Outcome is Unknown.
type Outcome struct {
	class Class
	ours  bool // the class is our own doing and says nothing of the PSP's health

	// Reference is the PSP's ID of the payment (authorize) or of the modification (capture, void, refund); may be
	// empty unless Approved, Accepted or ActionRequired.
	Reference string
	// Code is the PSP's stable word for a decline or a refusal ("insufficient_funds"), "" otherwise.
	Code string
	// Reason is for people: why this class was chosen. It never holds card data.
	Reason string
	// RedirectURL is where the buyer must go; only with ActionRequired.
	RedirectURL string
	// Captured tells an approved authorization that was captured in the same call.
	Captured bool
	// ExpiresAt is when the PSP releases an authorization; zero if it did not say.
	ExpiresAt time.Time
	// Rejected tells a NotSent that the PSP refused as malformed or not allowed (our request must change), from one
	// that merely could not be served now.
	Rejected bool
	// Alert asks for a person's eyes: an answer that contradicts what we asked.
	Alert bool
}

// Class returns what the call told us.
func (o Outcome) Class() Class { return o.class }

// UnknownBecause returns an Unknown outcome; why is for people.
func UnknownBecause(why string) Outcome { return Outcome{Reason: why} }

// UnknownByUs returns an Unknown outcome that says nothing of the PSP's health: our caller gave up, or an earlier request
// of ours under the same key is still under way there.
func UnknownByUs(why string) Outcome { return Outcome{Reason: why, ours: true} }

// Contradiction returns an Unknown outcome that asks for a person's eyes: the answer does not fit the question.
func Contradiction(why string) Outcome { return Outcome{Reason: why, Alert: true} }

// ApprovedAs returns an Approved outcome under the PSP's reference.
func ApprovedAs(reference string) Outcome { return Outcome{class: Approved, Reference: reference} }

// AcceptedAs returns an Accepted outcome: the result comes later.
func AcceptedAs(reference string) Outcome { return Outcome{class: Accepted, Reference: reference} }

// DeclinedWith returns a Declined outcome with the PSP's code.
func DeclinedWith(code, reason string) Outcome {
	return Outcome{class: Declined, Code: code, Reason: reason}
}

// RedirectTo returns an ActionRequired outcome.
func RedirectTo(reference, url string) Outcome {
	return Outcome{class: ActionRequired, Reference: reference, RedirectURL: url}
}

// NotSentBecause returns a NotSent outcome: provably nothing happened, another try later may work.
func NotSentBecause(why string) Outcome { return Outcome{class: NotSent, Reason: why} }

// RejectedWith returns a NotSent outcome for a request that the PSP refused before doing anything: it must change first.
func RejectedWith(code, why string) Outcome {
	return Outcome{class: NotSent, Code: code, Reason: why, Rejected: true}
}

// NotAsked returns a NotSent outcome for a call that we ourselves did not make: our limiter, a breaker, a race that was
// lost before the call.
func NotAsked(why string) Outcome { return Outcome{class: NotSent, Reason: why, ours: true} }

// NotSentProof is the right to try a payment at another PSP. Only NotSent makes one; the zero value proves nothing.
type NotSentProof struct{ proven bool }

// NotSent returns the proof that nothing happened at the PSP and that another may be asked. No other class gives one, nor
// does a rejection: what one PSP calls malformed is ours to mend, not another's to try.
func (o Outcome) NotSent() (NotSentProof, bool) {
	if o.class != NotSent || o.Rejected {
		return NotSentProof{}, false
	}
	return NotSentProof{proven: true}, true
}
