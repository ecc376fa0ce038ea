package stripe

import (
	"fmt"

	stripego "github.com/stripe/stripe-go/v82"

	"paygrid/psprouter"
)

// judgeIntent says what a payment that was read tells of the call that q asks about.
func judgeIntent(intent *stripego.PaymentIntent, ref string, q psprouter.Inquiry, want wanted) psprouter.Finding {
	whole := want.amount
	if q.Operation == psprouter.OpCapture {
		whole = want.authorized
	}
	why := intentMismatch(intent, whole, want.currency)
	switch {
	case why == "" && intent.ID != ref:
		why = "the answer is of another payment"
	case why == "" && q.Operation == psprouter.OpAuthorize && intent.Metadata[metaAttempt] != q.Attempt:
		why = fmt.Sprintf("the payment is of attempt %.80q", intent.Metadata[metaAttempt])
	}
	if why != "" {
		return psprouter.Finding{Outcome: contradiction(intent.ID, why)}
	}
	switch q.Operation {
	case psprouter.OpAuthorize:
		return psprouter.Finding{Outcome: foundAuthorization(intent, q, want)}
	case psprouter.OpCapture:
		return foundCapture(intent, q, want)
	case psprouter.OpVoid:
		return foundVoid(intent)
	}
	return notFound("no such operation: " + q.Operation)
}

// foundAuthorization: a payment that was read shows two ends that the call's own answer cannot: the decline that the answer
// told as an error, and a cancellation since.
func foundAuthorization(intent *stripego.PaymentIntent, q psprouter.Inquiry, want wanted) psprouter.Outcome {
	switch {
	case intent.Status == stripego.PaymentIntentStatusRequiresPaymentMethod && intent.LastPaymentError != nil && intent.AmountReceived == 0:
		return declinedAs(intent, code(intent.LastPaymentError), intent.LastPaymentError.Msg)
	case intent.Status == stripego.PaymentIntentStatusCanceled && intent.AmountReceived == 0:
		return declinedAs(intent, "canceled", fmt.Sprintf("the payment was canceled since: %.60s", intent.CancellationReason))
	}
	return authorizeStatus(intent, asked{attempt: q.Attempt, amount: want.amount, currency: want.currency, captured: q.AutoCapture})
}

func declinedAs(intent *stripego.PaymentIntent, code, reason string) psprouter.Outcome {
	out := psprouter.DeclinedWith(code, reason)
	out.Reference = intent.ID
	return out
}

// foundCapture judges by the metadata, which name the latest capture, and by what was captured against what was to be.
func foundCapture(intent *stripego.PaymentIntent, q psprouter.Inquiry, want wanted) psprouter.Finding {
	received := want.before + want.amount
	open := intent.Status == stripego.PaymentIntentStatusRequiresCapture && !q.Final && received < want.authorized
	if intent.Metadata[metaCaptureAttempt] == q.Attempt {
		return psprouter.Finding{Outcome: captureStatus(intent, askedCapture{
			attempt: q.Attempt, intent: intent.ID, currency: want.currency, authorized: want.authorized, received: received, open: open,
		})}
	}
	switch {
	case intent.Status == stripego.PaymentIntentStatusRequiresCapture && intent.AmountReceived == want.before:
		return psprouter.AbsentBecause("the payment is still capturable and names no capture of this attempt")
	case intent.Status == stripego.PaymentIntentStatusCanceled && intent.AmountReceived == 0 && want.before == 0:
		return psprouter.Finding{Outcome: declinedAs(intent, "canceled", "the payment was canceled: it can no longer be captured")}
	case intent.Status == stripego.PaymentIntentStatusProcessing:
		return notFound("the payment is processing, and does not say what")
	}
	return psprouter.Finding{Outcome: contradiction(intent.ID, fmt.Sprintf("%s with %d captured, by capture %.80q",
		intent.Status, intent.AmountReceived, intent.Metadata[metaCaptureAttempt]))}
}

// foundVoid judges by the status alone: a cancellation carries nothing of ours, and whoever canceled it, it is released.
func foundVoid(intent *stripego.PaymentIntent) psprouter.Finding {
	switch {
	case intent.Status == stripego.PaymentIntentStatusCanceled && intent.AmountReceived == 0:
		return psprouter.Finding{Outcome: psprouter.ApprovedAs(intent.ID)}
	case intent.Status == stripego.PaymentIntentStatusRequiresCapture && intent.AmountReceived == 0:
		return psprouter.AbsentBecause("the payment is still authorized")
	case intent.Status == stripego.PaymentIntentStatusSucceeded:
		return psprouter.Finding{Outcome: declinedAs(intent, codeUnexpectedState, "the payment was captured: it can no longer be voided")}
	case intent.Status == stripego.PaymentIntentStatusProcessing:
		return psprouter.Finding{Outcome: psprouter.AcceptedAs(intent.ID)}
	case intent.AmountReceived > 0:
		return psprouter.Finding{Outcome: contradiction(intent.ID, fmt.Sprintf("a payment to be voided is %.40q with %d captured",
			intent.Status, intent.AmountReceived))}
	}
	return notFound(fmt.Sprintf("a payment to be voided in status %.40q", intent.Status))
}
