package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// The types of Stripe's errors.
const (
	typeAPI         = "api_error"
	typeCard        = "card_error"
	typeIdempotency = "idempotency_error"
	typeInvalid     = "invalid_request_error"
)

// stripeError is the error object of Stripe's API.
type stripeError struct {
	Type          string      `json:"type"`
	Code          string      `json:"code,omitempty"`
	DeclineCode   string      `json:"decline_code,omitempty"`
	Message       string      `json:"message"`
	Param         string      `json:"param,omitempty"`
	Charge        string      `json:"charge,omitempty"`
	PaymentIntent *wireIntent `json:"payment_intent,omitempty"`
}

// fail returns an error answer that is not kept.
func fail(status int, e stripeError) *answer {
	return &answer{status: status, body: encode(map[string]stripeError{"error": e})}
}

// invalid returns the 400 of a bad parameter.
func invalid(code, param, message string) *answer {
	return fail(http.StatusBadRequest, stripeError{Type: typeInvalid, Code: code, Param: param, Message: message})
}

func missing(kind, id string) *answer {
	return fail(http.StatusNotFound, stripeError{Type: typeInvalid, Code: "resource_missing", Param: "id",
		Message: fmt.Sprintf("No such %s: '%s'", kind, id)})
}

// encode cannot fail: all that we encode is strings and integers.
func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("simulator: encoding %T: %v", v, err))
	}
	return body
}

// wireIntent is a payment intent on the wire; absent values are null, as at Stripe.
type wireIntent struct {
	ID                 string            `json:"id"`
	Object             string            `json:"object"`
	Amount             int64             `json:"amount"`
	AmountCapturable   int64             `json:"amount_capturable"`
	AmountReceived     int64             `json:"amount_received"`
	CanceledAt         *int64            `json:"canceled_at"`
	CancellationReason *string           `json:"cancellation_reason"`
	CaptureMethod      string            `json:"capture_method"`
	ClientSecret       string            `json:"client_secret"`
	ConfirmationMethod string            `json:"confirmation_method"`
	Created            int64             `json:"created"`
	Currency           string            `json:"currency"`
	Customer           *string           `json:"customer"`
	LastPaymentError   *stripeError      `json:"last_payment_error"`
	LatestCharge       any               `json:"latest_charge"` // ID, object if expanded, null before a charge
	Livemode           bool              `json:"livemode"`
	Metadata           map[string]string `json:"metadata"`
	NextAction         *wireAction       `json:"next_action"`
	PaymentMethod      *string           `json:"payment_method"`
	PaymentMethodTypes []string          `json:"payment_method_types"`
	Status             string            `json:"status"`
}

type wireAction struct {
	Type          string       `json:"type"`
	RedirectToURL wireRedirect `json:"redirect_to_url"`
}

type wireRedirect struct {
	ReturnURL *string `json:"return_url"`
	URL       string  `json:"url"`
}

// wireCharge is the card's side of a payment.
type wireCharge struct {
	ID                   string            `json:"id"`
	Object               string            `json:"object"`
	Amount               int64             `json:"amount"`
	AmountCaptured       int64             `json:"amount_captured"`
	AmountRefunded       int64             `json:"amount_refunded"`
	BillingDetails       wireBilling       `json:"billing_details"`
	Captured             bool              `json:"captured"`
	Created              int64             `json:"created"`
	Currency             string            `json:"currency"`
	Disputed             bool              `json:"disputed"`
	Livemode             bool              `json:"livemode"`
	Metadata             map[string]string `json:"metadata"`
	Paid                 bool              `json:"paid"`
	PaymentIntent        string            `json:"payment_intent"`
	PaymentMethodDetails wireMethodDetails `json:"payment_method_details"`
	Refunded             bool              `json:"refunded"`
	Status               string            `json:"status"`
}

// wireBilling is a buyer whom nobody told us of: Stripe's document demands the members all the same.
type wireBilling struct {
	Address *string `json:"address"`
	Email   *string `json:"email"`
	Name    *string `json:"name"`
	Phone   *string `json:"phone"`
	TaxID   *string `json:"tax_id"`
}

type wireMethodDetails struct {
	Type string   `json:"type"`
	Card wireCard `json:"card"`
}

type wireCard struct {
	Brand         string `json:"brand"`
	Last4         string `json:"last4"`
	ExpMonth      int    `json:"exp_month"`
	ExpYear       int    `json:"exp_year"`
	Country       string `json:"country"`
	Funding       string `json:"funding"`
	CaptureBefore *int64 `json:"capture_before,omitempty"` // only while an authorization is open
}

type wireRefund struct {
	ID            string            `json:"id"`
	Object        string            `json:"object"`
	Amount        int64             `json:"amount"`
	Charge        string            `json:"charge"`
	Created       int64             `json:"created"`
	Currency      string            `json:"currency"`
	FailureReason string            `json:"failure_reason,omitempty"`
	Metadata      map[string]string `json:"metadata"`
	PaymentIntent string            `json:"payment_intent"`
	Reason        *string           `json:"reason"`
	Status        string            `json:"status"`
}

// wireList is the envelope of lists; search uses the same with other words.
type wireList struct {
	Object   string  `json:"object"`
	URL      string  `json:"url"`
	HasMore  bool    `json:"has_more"`
	NextPage *string `json:"next_page,omitempty"`
	Data     any     `json:"data"`
}

// renderIntent shows a payment as it is now. The caller holds the lock.
func renderIntent(p *payment, expandCharge bool) *wireIntent {
	w := &wireIntent{Livemode: p.live,
		ID: p.ref, Object: "payment_intent", Amount: p.amount, AmountCapturable: p.capturable(), AmountReceived: p.captured,
		CanceledAt: unixOrNull(p.canceledAt), CancellationReason: textOrNull(p.cancelReason),
		CaptureMethod: captureMethod(p), ClientSecret: p.ref + "_secret_sim", ConfirmationMethod: "automatic",
		Created: p.created.Unix(), Currency: p.currency, Metadata: p.metadata, Status: p.status,
		PaymentMethod: textOrNull(p.token), PaymentMethodTypes: []string{"card"},
	}
	if p.declined != nil {
		w.LastPaymentError = declineError(p, nil)
		w.PaymentMethod = nil
	}
	if p.status == statusNeedsAction {
		w.NextAction = &wireAction{Type: "redirect_to_url", RedirectToURL: wireRedirect{
			ReturnURL: textOrNull(p.returnURL), URL: "https://hooks.example/3ds/" + p.ref}}
	}
	if p.charge != "" {
		w.LatestCharge = p.charge
		if expandCharge {
			w.LatestCharge = renderCharge(p)
		}
	}
	return w
}

func captureMethod(p *payment) string {
	if p.manual {
		return "manual"
	}
	return "automatic"
}

func declineError(p *payment, intent *wireIntent) *stripeError {
	return &stripeError{Type: typeCard, Code: p.declined.code, DeclineCode: p.declined.declineCode,
		Message: p.declined.message, Charge: p.charge, PaymentIntent: intent}
}

func renderCharge(p *payment) wireCharge {
	w := wireCharge{
		ID: p.charge, Object: "charge", Livemode: p.live, Amount: p.amount, AmountCaptured: p.captured, AmountRefunded: p.refunding,
		Captured: p.captured > 0, Created: p.created.Unix(), Currency: p.currency, Metadata: p.metadata,
		Paid: p.authorized > 0, PaymentIntent: p.ref, Refunded: p.captured > 0 && p.refundable() == 0, Status: "succeeded",
		PaymentMethodDetails: wireMethodDetails{Type: "card", Card: wireCard{
			Brand: "visa", Last4: "4242", ExpMonth: 12, ExpYear: 2034, Country: "US", Funding: "credit"}},
	}
	switch {
	case p.declined != nil:
		w.Status = "failed"
	case p.pending != nil && p.authorized == 0:
		w.Status = "pending"
	case p.status == statusAuthorized:
		w.PaymentMethodDetails.Card.CaptureBefore = unixOrNull(p.expires)
	}
	return w
}

func renderRefund(r *refund) wireRefund {
	w := wireRefund{ID: r.ref, Object: "refund", Amount: r.amount, Charge: r.payment.charge, Created: r.created.Unix(),
		Currency: r.payment.currency, Metadata: r.metadata, PaymentIntent: r.payment.ref, Status: r.status}
	if r.status == refundFailed {
		w.FailureReason = "declined"
	}
	return w
}

func unixOrNull(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	seconds := t.Unix()
	return &seconds
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
