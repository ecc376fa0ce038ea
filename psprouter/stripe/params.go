package stripe

import (
	stripego "github.com/stripe/stripe-go/v82"

	"paygrid/psprouter"
)

// authorizeParams asks for a card payment in one call. Without a return URL a payment that needs the buyer cannot go on,
// so Stripe is told to decline it rather than to leave it open.
func authorizeParams(r psprouter.AuthorizeRequest, amount int64) *stripego.PaymentIntentCreateParams {
	method := "manual"
	if r.AutoCapture {
		method = "automatic"
	}
	p := &stripego.PaymentIntentCreateParams{
		Amount:             stripego.Int64(amount),
		Currency:           stripego.String(wireCurrency(r.Amount)),
		CaptureMethod:      stripego.String(method),
		Confirm:            stripego.Bool(true),
		PaymentMethod:      stripego.String(r.Token),
		PaymentMethodTypes: stripego.StringSlice([]string{"card"}),
		Metadata:           authorizeMetadata(r.Attempt, r.Recovery),
		// The charge says until when the authorization holds.
		Expand: stripego.StringSlice([]string{"latest_charge"}),
	}
	if r.ReturnURL != "" {
		p.ReturnURL = stripego.String(r.ReturnURL)
	} else {
		p.ErrorOnRequiresAction = stripego.Bool(true)
	}
	p.SetIdempotencyKey(r.Attempt)
	return p
}

// captureParams keeps the rest of the authorization open if open is set; Stripe's default releases it. The intent carries the
// recovery data since its authorization, so only the capture's own attempt is added.
func captureParams(r psprouter.CaptureRequest, amount int64, open bool) *stripego.PaymentIntentCaptureParams {
	p := &stripego.PaymentIntentCaptureParams{
		AmountToCapture: stripego.Int64(amount),
		Metadata:        map[string]string{metaCaptureAttempt: r.Attempt},
	}
	if open {
		p.FinalCapture = stripego.Bool(false)
	}
	p.SetIdempotencyKey(r.Attempt)
	return p
}

// voidParams: cancel takes no metadata; the attempt is only in the idempotency key.
func voidParams(r psprouter.VoidRequest) *stripego.PaymentIntentCancelParams {
	p := &stripego.PaymentIntentCancelParams{CancellationReason: stripego.String("requested_by_customer")}
	p.SetIdempotencyKey(r.Attempt)
	return p
}

func refundParams(r psprouter.RefundRequest, amount int64) *stripego.RefundCreateParams {
	p := &stripego.RefundCreateParams{
		PaymentIntent: stripego.String(r.PaymentRef),
		Amount:        stripego.Int64(amount),
		Metadata:      refundMetadata(r.Attempt, r.Refund, r.Recovery),
	}
	p.SetIdempotencyKey(r.Attempt)
	return p
}
