package stripe

import (
	"cmp"
	"fmt"

	stripego "github.com/stripe/stripe-go/v82"

	"paygrid/psprouter"
	"paygrid/psprouter/wire"
)

// settler fills in what an object settles in an event of one type.
type settler func(content, *psprouter.Notice)

// settlers say what an event's type settles. Types that are not in the table settle nothing: disputes, payouts, transfers, and
// events that only repeat what another says (charge.refunded shows a charge, not which refund it was).
var settlers = map[string]settler{
	"payment_intent.amount_capturable_updated": capturable,
	"payment_intent.succeeded":                 succeeded,
	"payment_intent.payment_failed":            failed,
	"payment_intent.canceled":                  canceled,
	"payment_intent.requires_action":           actionRequired,
	"charge.succeeded":                         chargeSucceeded,
	"charge.captured":                          chargeCaptured,
	"charge.expired":                           chargeExpired,
	"refund.created":                           refunded,
	"refund.updated":                           refunded,
	"refund.failed":                            refunded,
	"charge.refund.updated":                    refunded, // the name of before 2024-10-28

	// Not Stripe's: the generic payment {id, reference, amount, currency} of simple gateways behind the same envelope.
	"payment.authorized": alias(false),
	"payment.captured":   alias(true),
}

// settle fills in what the event says; reference and attempt even if it settles nothing.
func settle(kind string, c content, n *psprouter.Notice) {
	n.Reference, n.Original = c.ID, string(c.PaymentIntent)
	n.Attempt = ours(c.Metadata[metaAttempt], c.key)
	if settler := settlers[kind]; settler != nil {
		settler(c, n)
	}
}

// ours returns the first that has the form of an attempt ID of ours.
func ours(candidates ...string) string {
	for _, text := range candidates {
		if id := wire.AttemptID(text); id != "" {
			return id
		}
	}
	return ""
}

func approve(n *psprouter.Notice, operation, reference string, captured bool) {
	n.Operation, n.Reference, n.Outcome = operation, reference, psprouter.ApprovedAs(reference)
	n.Outcome.Captured = captured
}

func doubt(n *psprouter.Notice, operation, why string) {
	n.Operation, n.Outcome = operation, psprouter.Contradiction(why)
	n.Outcome.Reference = n.Reference
}

// capturable: a manual payment was authorized; or, where several captures are on, one of them left a rest.
func capturable(c content, n *psprouter.Notice) {
	switch {
	case c.Status != string(stripego.PaymentIntentStatusRequiresCapture):
	case c.AmountReceived > 0:
		captured(c, n)
	case c.AmountCapturable != c.Amount:
		doubt(n, psprouter.OpAuthorize, fmt.Sprintf("authorized %d of %d", c.AmountCapturable, c.Amount))
	default:
		approve(n, psprouter.OpAuthorize, c.ID, false)
	}
}

func succeeded(c content, n *psprouter.Notice) {
	switch {
	case c.Status != string(stripego.PaymentIntentStatusSucceeded):
	case c.CaptureMethod != "automatic" && c.CaptureMethod != "automatic_async":
		captured(c, n)
	case c.AmountReceived != c.Amount:
		doubt(n, psprouter.OpAuthorize, fmt.Sprintf("captured %d of %d", c.AmountReceived, c.Amount))
	default:
		approve(n, psprouter.OpAuthorize, c.ID, true)
	}
}

// captured: the metadata still name the authorization's attempt, and the latest capture's beside it.
func captured(c content, n *psprouter.Notice) {
	approve(n, psprouter.OpCapture, cmp.Or(string(c.LatestCharge), c.ID), true)
	n.Original, n.Attempt = c.ID, ours(c.Metadata[metaCaptureAttempt], c.key)
}

func failed(c content, n *psprouter.Notice) {
	if c.Status != string(stripego.PaymentIntentStatusRequiresPaymentMethod) || c.LastPaymentError == nil || c.AmountReceived != 0 {
		return
	}
	f := c.LastPaymentError
	n.Operation, n.Outcome = psprouter.OpAuthorize, psprouter.DeclinedWith(cmp.Or(f.DeclineCode, f.Code, f.Type), f.Message)
	n.Outcome.Reference = c.ID
}

// canceled is our void, or the end of an authorization by time. The metadata name the authorization's attempt, never the
// void's: that one is only in the key of the request.
func canceled(c content, n *psprouter.Notice) {
	switch {
	case c.Status != string(stripego.PaymentIntentStatusCanceled):
	case c.CancellationReason == "automatic" || c.CancellationReason == "expired":
		n.Expired = true
	case c.AmountReceived != 0:
		n.Original, n.Attempt = c.ID, ours(c.key)
		doubt(n, psprouter.OpVoid, fmt.Sprintf("canceled with %d captured", c.AmountReceived))
	default:
		approve(n, psprouter.OpVoid, c.ID, false)
		n.Original, n.Attempt = c.ID, ours(c.key)
	}
}

func actionRequired(c content, n *psprouter.Notice) {
	if c.Status != string(stripego.PaymentIntentStatusRequiresAction) || c.NextAction == nil || c.NextAction.RedirectToURL == nil ||
		c.NextAction.RedirectToURL.URL == "" {
		return
	}
	n.Operation, n.Outcome = psprouter.OpAuthorize, psprouter.RedirectTo(c.ID, c.NextAction.RedirectToURL.URL)
}

// chargeSucceeded: the charge of an intent was authorized, and captured at once or not. Our reference is the intent.
func chargeSucceeded(c content, n *psprouter.Notice) {
	if c.Status != "succeeded" || c.PaymentIntent == "" {
		return
	}
	approve(n, psprouter.OpAuthorize, string(c.PaymentIntent), c.Captured)
	n.Original = ""
}

// chargeCaptured is only sent for a charge that was authorized first.
func chargeCaptured(c content, n *psprouter.Notice) {
	if !c.Captured || c.PaymentIntent == "" {
		return
	}
	approve(n, psprouter.OpCapture, c.ID, true)
	n.Attempt = ours(c.key)
}

func chargeExpired(_ content, n *psprouter.Notice) { n.Expired = true }

// refunded: a refund that failed takes a success back, unless the event itself says that there was none yet.
func refunded(c content, n *psprouter.Notice) {
	switch stripego.RefundStatus(c.Status) {
	case stripego.RefundStatusSucceeded:
		approve(n, psprouter.OpRefund, c.ID, false)
	case stripego.RefundStatusPending, stripego.RefundStatusRequiresAction:
		n.Operation, n.Outcome = psprouter.OpRefund, psprouter.AcceptedAs(c.ID)
	case stripego.RefundStatusFailed, stripego.RefundStatusCanceled:
		n.Operation, n.Outcome = psprouter.OpRefund, psprouter.DeclinedWith(cmp.Or(c.FailureReason, c.Status), "the refund "+c.Status)
		n.Outcome.Reference = c.ID
		before := c.previous.Status
		n.Reversed = before == nil || *before == string(stripego.RefundStatusSucceeded)
	}
}

func alias(captured bool) settler {
	return func(c content, n *psprouter.Notice) {
		approve(n, psprouter.OpAuthorize, c.ID, captured)
		n.Attempt = ours(c.Reference)
	}
}
