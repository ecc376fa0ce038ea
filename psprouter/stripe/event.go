package stripe

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"paygrid/psprouter"
)

// event is what we read of an event object.
type event struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Type     string `json:"type"`
	Account  string `json:"account"`
	Livemode bool   `json:"livemode"`
	Request  *struct {
		IdempotencyKey string `json:"idempotency_key"`
	} `json:"request"`
	Data struct {
		Object   json.RawMessage `json:"object"`
		Previous json.RawMessage `json:"previous_attributes"`
	} `json:"data"`
}

// content is what an event is about, and what changed of it.
type content struct {
	object
	previous previous
	key      string // of the request that caused the event, "" if there was none or it is not told
}

// content reads the parts of the event that we know. Stripe has more kinds of objects than we do: one that does not read as ours
// is no fault of the event's.
func (e event) content() (c content, err error) {
	if len(e.Data.Object) > 0 {
		err = json.Unmarshal(e.Data.Object, &c.object)
	}
	if err == nil && len(e.Data.Previous) > 0 {
		err = json.Unmarshal(e.Data.Previous, &c.previous)
	}
	if e.Request != nil {
		c.key = e.Request.IdempotencyKey
	}
	return c, err
}

// object is what we read of the payment intent, charge, refund or whatever else an event is about: one type for all, since
// their fields agree where they have the same name.
type object struct {
	ID       string            `json:"id"`
	Object   string            `json:"object"`
	Status   string            `json:"status"`
	Amount   int64             `json:"amount"`
	Currency string            `json:"currency"`
	Metadata map[string]string `json:"metadata"`

	AmountCapturable   int64     `json:"amount_capturable"`   // of an intent, as the next five
	AmountReceived     int64     `json:"amount_received"`     //
	CaptureMethod      string    `json:"capture_method"`      //
	CancellationReason string    `json:"cancellation_reason"` //
	LatestCharge       reference `json:"latest_charge"`       //
	LastPaymentError   *refusal  `json:"last_payment_error"`  //
	NextAction         *next     `json:"next_action"`         //
	PaymentIntent      reference `json:"payment_intent"`      // of a charge, refund or dispute
	AmountCaptured     int64     `json:"amount_captured"`     // of a charge
	Captured           bool      `json:"captured"`            // of a charge
	FailureReason      string    `json:"failure_reason"`      // of a refund
	Reference          string    `json:"reference"`           // of the generic payment, see aliases
}

// previous holds the values of before, as far as they changed.
type previous struct {
	Status         *string `json:"status"`
	AmountReceived *int64  `json:"amount_received"`
	AmountCaptured *int64  `json:"amount_captured"`
}

type refusal struct {
	Type        string `json:"type"`
	Code        string `json:"code"`
	DeclineCode string `json:"decline_code"`
	Message     string `json:"message"`
}

type next struct {
	RedirectToURL *struct {
		URL string `json:"url"`
	} `json:"redirect_to_url"`
}

// reference is an ID, or the object itself where it is expanded.
type reference string

// UnmarshalJSON keeps the ID.
func (r *reference) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '{' {
		var expanded struct {
			ID string `json:"id"`
		}
		err := json.Unmarshal(raw, &expanded)
		*r = reference(expanded.ID)
		return err
	}
	return json.Unmarshal(raw, (*string)(r))
}

func readEvent(body []byte) (event, error) {
	var e event
	err := json.Unmarshal(body, &e)
	if err == nil && (e.Object != "event" || e.ID == "" || e.Type == "") {
		err = errors.New("no event: object, id or type is missing")
	}
	if err != nil {
		return event{}, &psprouter.WebhookError{Why: psprouter.WebhookMalformed, Err: err}
	}
	return e, nil
}

// ReadWebhook returns the one notice of an event.
func (a *Adapter) ReadWebhook(body []byte) ([]psprouter.Notice, error) {
	e, err := readEvent(body)
	if err != nil {
		return nil, err
	}
	n := psprouter.Notice{EventID: e.ID, Kind: e.Type, Foreign: a.foreign(e)}
	c, err := e.content()
	if err != nil {
		n.AmountProblem = "the event's object is not one that we know: " + err.Error()
		return []psprouter.Notice{n}, nil
	}
	settle(e.Type, c, &n)
	if moved, told := a.moved(c, n); told && c.Currency != "" {
		n.Amount, n.AmountProblem = a.units.table().Notice(moved, strings.ToUpper(c.Currency))
	}
	return []psprouter.Notice{n}, nil
}

// moved is what the notice says moved, in Stripe's unit. Of captures Stripe tells sums: where there may be several, only the
// difference to before is one capture's, and without it the notice tells no amount.
func (a *Adapter) moved(c content, n psprouter.Notice) (int64, bool) {
	sum, before := c.AmountReceived, c.previous.AmountReceived
	if c.Object == "charge" {
		sum, before = c.AmountCaptured, c.previous.AmountCaptured
	}
	switch {
	case n.Operation != psprouter.OpCapture:
		return c.Amount, true
	case before != nil:
		return sum - *before, true
	}
	return sum, !a.several
}

func (a *Adapter) foreign(e event) string {
	switch {
	case e.Livemode != a.live:
		return fmt.Sprintf("livemode is %t, this account's is %t", e.Livemode, a.live)
	case e.Account != "":
		return fmt.Sprintf("the event is of the connected account %.60q", e.Account)
	}
	return ""
}
