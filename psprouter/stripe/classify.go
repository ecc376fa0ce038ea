package stripe

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	stripego "github.com/stripe/stripe-go/v82"

	"paygrid/psprouter"
)

// answer is all that one call showed, as a value, so that judging it is pure.
type answer struct {
	unsent string          // why provably nothing was sent; "" = something may have been
	status int             // HTTP status; 0 = no answer
	header http.Header     // of the answer
	fault  *stripego.Error // the decoded error body of a status >= 400
	broken error           // why there is no readable answer
}

// asked is what an authorization asked for, in Stripe's unit and spelling.
type asked struct {
	attempt  string
	amount   int64
	currency string
	captured bool
}

// askedCapture: received is the sum of all captures after this one; open = the rest was to stay capturable.
type askedCapture struct {
	attempt, intent, currency string
	authorized, received      int64
	open                      bool
}

type askedVoid struct {
	intent   string
	amount   int64
	currency string
}

type askedRefund struct {
	attempt, intent string
	amount          int64
	currency        string
}

// judge turns answers into outcomes. Its rules are a list of what is positively recognised; the rest is Unknown.
type judge struct{ notProcessedHeader string }

// Codes of Stripe that mean: what was asked may have been done before. They are never a failure.
const (
	codeUnexpectedState  = "payment_intent_unexpected_state"
	codeAlreadyCaptured  = "charge_already_captured"
	codeAlreadyRefunded  = "charge_already_refunded"
	codeResourceConflict = "resource_already_exists"
)

// limiterReasons are the values of Stripe-Rate-Limited-Reason: the limiter runs before anything is executed.
var limiterReasons = []string{
	"global-rate", "global-concurrency", "endpoint-rate", "endpoint-concurrency", "resource-specific",
}

func (j judge) authorize(a answer, intent *stripego.PaymentIntent, want asked) psprouter.Outcome {
	if out, done := j.unanswered(a); done {
		return out
	}
	if a.fault != nil {
		return authorizeFault(a, want)
	}
	if why := intentMismatch(intent, want.amount, want.currency); why != "" {
		return contradiction(intent.ID, why)
	}
	if got := intent.Metadata[metaAttempt]; got != want.attempt {
		return contradiction(intent.ID, fmt.Sprintf("the answer is of attempt %.80q, not of %q", got, want.attempt))
	}
	return authorizeStatus(intent, want)
}

// authorizeStatus judges an intent that is known to be ours.
func authorizeStatus(intent *stripego.PaymentIntent, want asked) psprouter.Outcome {
	switch intent.Status {
	case stripego.PaymentIntentStatusRequiresCapture:
		if want.captured || intent.AmountCapturable != want.amount || intent.AmountReceived != 0 {
			return contradiction(intent.ID, fmt.Sprintf("authorized with %d capturable and %d captured; asked for %d, captured at once: %t",
				intent.AmountCapturable, intent.AmountReceived, want.amount, want.captured))
		}
		return approved(intent, false)
	case stripego.PaymentIntentStatusSucceeded:
		if !want.captured || intent.AmountReceived != want.amount {
			return contradiction(intent.ID, fmt.Sprintf("captured %d; asked for %d, captured at once: %t",
				intent.AmountReceived, want.amount, want.captured))
		}
		return approved(intent, true)
	case stripego.PaymentIntentStatusProcessing:
		return psprouter.AcceptedAs(intent.ID)
	case stripego.PaymentIntentStatusRequiresAction:
		if to := redirectURL(intent); to != "" {
			return psprouter.RedirectTo(intent.ID, to)
		}
		return psprouter.UnknownBecause("the buyer must act, but there is no redirect")
	case stripego.PaymentIntentStatusCanceled:
		return contradiction(intent.ID, "a new payment is canceled")
	}
	return psprouter.UnknownBecause(fmt.Sprintf("a new payment in status %.40q", intent.Status))
}

func approved(intent *stripego.PaymentIntent, captured bool) psprouter.Outcome {
	out := psprouter.ApprovedAs(intent.ID)
	out.Captured = captured
	if !captured {
		out.ExpiresAt = captureBefore(intent.LatestCharge)
	}
	return out
}

// captureBefore is when the authorization ends; zero if the charge does not say or was not expanded.
func captureBefore(c *stripego.Charge) time.Time {
	if c == nil || c.PaymentMethodDetails == nil || c.PaymentMethodDetails.Card == nil || c.PaymentMethodDetails.Card.CaptureBefore == 0 {
		return time.Time{}
	}
	return time.Unix(c.PaymentMethodDetails.Card.CaptureBefore, 0).UTC()
}

func redirectURL(intent *stripego.PaymentIntent) string {
	if intent.NextAction == nil || intent.NextAction.RedirectToURL == nil {
		return ""
	}
	return intent.NextAction.RedirectToURL.URL
}

// authorizeFault judges a readable error. A card's no needs the intent as proof that it is back at its start.
func authorizeFault(a answer, want asked) psprouter.Outcome {
	f := a.fault
	switch {
	case f.Type == stripego.ErrorTypeIdempotency:
		return idempotencyMisuse(f)
	case a.status == http.StatusPaymentRequired && f.Type == stripego.ErrorTypeCard && f.PaymentIntent != nil:
		if got := f.PaymentIntent.Metadata[metaAttempt]; got != want.attempt {
			return contradiction(f.PaymentIntent.ID, fmt.Sprintf("the decline is of attempt %.80q, not of %q", got, want.attempt))
		}
		if f.PaymentIntent.Status == stripego.PaymentIntentStatusRequiresPaymentMethod {
			return declined(f)
		}
	case refusedRequest(a, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound):
		if !movedMoney(f.PaymentIntent) && !maybeDone(f) {
			return psprouter.RejectedWith(code(f), f.Msg)
		}
	}
	return unrecognised(a)
}

// movedMoney tells whether an intent inside an error may hold money, which no rejection of a new payment leaves behind.
func movedMoney(intent *stripego.PaymentIntent) bool {
	if intent == nil {
		return false
	}
	switch intent.Status {
	case stripego.PaymentIntentStatusRequiresPaymentMethod, stripego.PaymentIntentStatusRequiresConfirmation:
		return intent.AmountReceived != 0
	}
	return true
}

func (j judge) capture(a answer, intent *stripego.PaymentIntent, want askedCapture) psprouter.Outcome {
	if out, done := j.unanswered(a); done {
		return out
	}
	if a.fault != nil {
		return modificationFault(a, stripego.PaymentIntentStatusSucceeded)
	}
	if why := intentMismatch(intent, want.authorized, want.currency); why != "" {
		return contradiction(intent.ID, why)
	}
	if intent.ID != want.intent || intent.Metadata[metaCaptureAttempt] != want.attempt {
		return contradiction(intent.ID, fmt.Sprintf("the answer is of capture %.80q of %.80q", intent.Metadata[metaCaptureAttempt], intent.ID))
	}
	return captureStatus(intent, want)
}

func captureStatus(intent *stripego.PaymentIntent, want askedCapture) psprouter.Outcome {
	status := stripego.PaymentIntentStatusSucceeded
	capturable := int64(0)
	if want.open {
		status, capturable = stripego.PaymentIntentStatusRequiresCapture, want.authorized-want.received
	}
	switch intent.Status {
	case stripego.PaymentIntentStatusProcessing:
		return psprouter.AcceptedAs(intent.ID)
	case status:
		if intent.AmountReceived == want.received && intent.AmountCapturable == capturable {
			out := psprouter.ApprovedAs(chargeID(intent))
			out.Captured = true
			return out
		}
	case stripego.PaymentIntentStatusSucceeded, stripego.PaymentIntentStatusRequiresCapture, stripego.PaymentIntentStatusCanceled:
	default:
		return psprouter.UnknownBecause(fmt.Sprintf("a captured payment in status %.40q", intent.Status))
	}
	return contradiction(intent.ID, fmt.Sprintf("%s with %d captured and %d capturable; asked for %s with %d and %d",
		intent.Status, intent.AmountReceived, intent.AmountCapturable, status, want.received, capturable))
}

// chargeID names what was captured: settlement lines refer to the charge.
func chargeID(intent *stripego.PaymentIntent) string {
	if intent.LatestCharge != nil && intent.LatestCharge.ID != "" {
		return intent.LatestCharge.ID
	}
	return intent.ID
}

func (j judge) void(a answer, intent *stripego.PaymentIntent, want askedVoid) psprouter.Outcome {
	if out, done := j.unanswered(a); done {
		return out
	}
	if a.fault != nil {
		return modificationFault(a, stripego.PaymentIntentStatusCanceled)
	}
	if why := intentMismatch(intent, want.amount, want.currency); why != "" {
		return contradiction(intent.ID, why)
	}
	switch {
	case intent.ID != want.intent:
		return contradiction(intent.ID, "the answer is of another payment")
	case intent.Status == stripego.PaymentIntentStatusProcessing:
		return psprouter.AcceptedAs(intent.ID)
	case intent.Status == stripego.PaymentIntentStatusCanceled && intent.AmountReceived == 0:
		return psprouter.ApprovedAs(intent.ID)
	}
	return contradiction(intent.ID, fmt.Sprintf("a voided payment is %.40q with %d captured", intent.Status, intent.AmountReceived))
}

func (j judge) refund(a answer, refund *stripego.Refund, want askedRefund) psprouter.Outcome {
	if out, done := j.unanswered(a); done {
		return out
	}
	if a.fault != nil {
		return refundFault(a)
	}
	if refund == nil || refund.Object != "refund" || refund.ID == "" {
		return psprouter.UnknownBecause("the answer is not a refund")
	}
	return refundStatus(refund, want)
}

// refundStatus judges a refund that was answered or looked up.
func refundStatus(refund *stripego.Refund, want askedRefund) psprouter.Outcome {
	if why := refundMismatch(refund, want); why != "" {
		return contradiction(refund.ID, why)
	}
	switch refund.Status {
	case stripego.RefundStatusSucceeded:
		return psprouter.ApprovedAs(refund.ID)
	case stripego.RefundStatusPending, stripego.RefundStatusRequiresAction:
		return psprouter.AcceptedAs(refund.ID)
	case stripego.RefundStatusFailed, stripego.RefundStatusCanceled:
		out := psprouter.DeclinedWith(cmp.Or(string(refund.FailureReason), string(refund.Status)), "the refund was made and failed at once")
		out.Reference = refund.ID
		return out
	}
	return psprouter.UnknownBecause(fmt.Sprintf("a refund in status %.40q", refund.Status))
}

func refundMismatch(refund *stripego.Refund, want askedRefund) string {
	switch {
	case refund.Amount != want.amount || string(refund.Currency) != want.currency:
		return fmt.Sprintf("the refund is of %d %.8s, not of %d %s", refund.Amount, refund.Currency, want.amount, want.currency)
	case refund.PaymentIntent == nil || refund.PaymentIntent.ID != want.intent:
		return "the refund is of another payment"
	case refund.Metadata[metaAttempt] != want.attempt:
		return fmt.Sprintf("the refund is of attempt %.80q, not of %q", refund.Metadata[metaAttempt], want.attempt)
	}
	return ""
}

// unanswered judges what is common to all calls: nothing sent, nothing readable, not executed.
func (j judge) unanswered(a answer) (psprouter.Outcome, bool) {
	switch {
	case a.unsent != "":
		return psprouter.NotSentBecause(a.unsent), true
	case a.broken != nil:
		return psprouter.UnknownBecause(fmt.Sprintf("status %d: %v", a.status, a.broken)), true
	case j.notExecuted(a):
		return psprouter.NotSentBecause(fmt.Sprintf("status %d: not processed", a.status)), true
	case a.fault == nil && a.status != http.StatusOK:
		return psprouter.UnknownBecause(fmt.Sprintf("status %d", a.status)), true
	}
	return psprouter.Outcome{}, false
}

// notExecuted recognises the two promises that nothing was done. A replay is an answer to an earlier send, so it can
// promise nothing; a 429 for a lock comes from beyond the limiter.
func (j judge) notExecuted(a answer) bool {
	if a.fault == nil || a.header.Get("Idempotent-Replayed") != "" {
		return false
	}
	switch a.status {
	case http.StatusTooManyRequests:
		return a.fault.Code != stripego.ErrorCodeLockTimeout && slices.Contains(limiterReasons, a.header.Get("Stripe-Rate-Limited-Reason"))
	case http.StatusServiceUnavailable:
		return j.notProcessedHeader != "" && a.header.Get(j.notProcessedHeader) == "true"
	}
	return false
}

// modificationFault judges a readable error to a capture or void. done is the payment's status if what we asked for had
// already happened: perhaps by us, so it is for people and never a failure.
func modificationFault(a answer, done stripego.PaymentIntentStatus) psprouter.Outcome {
	f := a.fault
	switch {
	case f.Type == stripego.ErrorTypeIdempotency:
		return idempotencyMisuse(f)
	case refusedRequest(a, http.StatusUnauthorized, http.StatusForbidden):
		return psprouter.NotSentBecause(code(f) + ": " + f.Msg)
	case f.Code == codeUnexpectedState:
		return unexpectedState(a, done)
	case maybeDone(f):
		return contradiction(intentID(f), code(f)+": "+f.Msg)
	case refusedRequest(a, http.StatusBadRequest, http.StatusNotFound):
		return declined(f)
	case a.status == http.StatusPaymentRequired && f.Type == stripego.ErrorTypeCard && f.PaymentIntent != nil:
		switch f.PaymentIntent.Status {
		case stripego.PaymentIntentStatusRequiresCapture, stripego.PaymentIntentStatusRequiresPaymentMethod:
			return declined(f)
		}
	}
	return unrecognised(a)
}

// unexpectedState looks at where the payment stands. Only an end that rules our request out is a no.
func unexpectedState(a answer, done stripego.PaymentIntentStatus) psprouter.Outcome {
	f := a.fault
	if !refusedRequest(a, http.StatusBadRequest) || f.PaymentIntent == nil {
		return unrecognised(a)
	}
	status := f.PaymentIntent.Status
	switch {
	case status == done:
		return contradiction(f.PaymentIntent.ID, fmt.Sprintf("the payment is already %s: perhaps by this very attempt", status))
	case status == stripego.PaymentIntentStatusCanceled && f.PaymentIntent.AmountReceived == 0,
		status == stripego.PaymentIntentStatusSucceeded:
		return declined(f)
	}
	return psprouter.UnknownBecause(fmt.Sprintf("%s: the payment is %.40q", code(f), status))
}

func refundFault(a answer) psprouter.Outcome {
	f := a.fault
	switch {
	case f.Type == stripego.ErrorTypeIdempotency:
		return idempotencyMisuse(f)
	case refusedRequest(a, http.StatusUnauthorized, http.StatusForbidden):
		return psprouter.NotSentBecause(code(f) + ": " + f.Msg)
	case f.Code == codeUnexpectedState:
		return unrecognised(a)
	case maybeDone(f):
		return contradiction(intentID(f), code(f)+": "+f.Msg)
	case refusedRequest(a, http.StatusBadRequest, http.StatusNotFound),
		a.status == http.StatusPaymentRequired && f.Type == stripego.ErrorTypeCard:
		return declined(f)
	}
	return unrecognised(a)
}

// refusedRequest tells whether Stripe refused the request as such, with one of the given statuses.
func refusedRequest(a answer, statuses ...int) bool {
	return a.fault.Type == stripego.ErrorTypeInvalidRequest && slices.Contains(statuses, a.status) &&
		a.fault.Code != stripego.ErrorCodeLockTimeout && a.fault.Code != stripego.ErrorCodeIdempotencyKeyInUse
}

// maybeDone recognises refusals that an earlier success of the same request would also cause.
func maybeDone(f *stripego.Error) bool {
	switch string(f.Code) {
	case codeUnexpectedState, codeAlreadyCaptured, codeAlreadyRefunded, codeResourceConflict:
		return true
	}
	return false
}

// intentMismatch says why an intent is not a readable payment of that amount; "" if it is.
func intentMismatch(intent *stripego.PaymentIntent, amount int64, currency string) string {
	switch {
	case intent.Object != "payment_intent" || intent.ID == "":
		return "the answer is not a payment intent"
	case intent.Amount != amount || string(intent.Currency) != currency:
		return fmt.Sprintf("the answer is of %d %.8s, not of %d %s", intent.Amount, intent.Currency, amount, currency)
	}
	return ""
}

// idempotencyMisuse: our key was used before with another request, which stands. Nothing may follow from this answer.
func idempotencyMisuse(f *stripego.Error) psprouter.Outcome {
	return psprouter.Contradiction("the idempotency key was used for another request, which stands: " + f.Msg)
}

func unrecognised(a answer) psprouter.Outcome {
	return psprouter.UnknownBecause(fmt.Sprintf("status %d, type %.40q, code %.60q: %s", a.status, a.fault.Type, a.fault.Code, a.fault.Msg))
}

func contradiction(reference, why string) psprouter.Outcome {
	out := psprouter.Contradiction(why)
	out.Reference = reference
	return out
}

func declined(f *stripego.Error) psprouter.Outcome {
	out := psprouter.DeclinedWith(code(f), f.Msg)
	out.Reference = intentID(f)
	return out
}

func intentID(f *stripego.Error) string {
	if f.PaymentIntent == nil {
		return ""
	}
	return f.PaymentIntent.ID
}

// code is the most telling stable word of an error; its type is the only one that is always there.
func code(f *stripego.Error) string {
	return cmp.Or(string(f.DeclineCode), string(f.Code), string(f.Type))
}
