package simulator

import (
	"bytes"
)

// stripeAPIVersion is what events are rendered in.
const stripeAPIVersion = "2025-08-27.basil"

// wireEvent is an event on the wire.
type wireEvent struct {
	ID              string            `json:"id"`
	Object          string            `json:"object"`
	APIVersion      string            `json:"api_version"`
	Created         int64             `json:"created"`
	Data            wireEventData     `json:"data"`
	Livemode        bool              `json:"livemode"`
	PendingWebhooks int               `json:"pending_webhooks"`
	Request         *wireEventRequest `json:"request"` // null if no call caused it
	Type            string            `json:"type"`
}

type wireEventData struct {
	Object any `json:"object"`
}

type wireEventRequest struct {
	ID             *string `json:"id"`
	IdempotencyKey *string `json:"idempotency_key"`
}

// notice tells of a change as Stripe does: with the whole object as it is now.
func (s *stripeDialect) notice(c change, id string) (event, bool) {
	kind := stripeEventType(c)
	if kind == "" {
		return event{}, false
	}
	w := wireEvent{ID: id, Object: "event", APIVersion: stripeAPIVersion, Created: s.opts.Now().Unix(), Livemode: s.opts.Live,
		PendingWebhooks: 1, Type: kind}
	key := c.move.key
	w.Data.Object = renderIntent(c.p, false)
	if c.refund != nil {
		key = c.refund.key
		w.Data.Object = renderRefund(c.refund)
	}
	if s.during != nil {
		w.Request = &wireEventRequest{ID: textOrNull("req_" + id), IdempotencyKey: textOrNull(key)}
	}
	return event{id: id, kind: kind, body: encode(w)}, true
}

// stripeEventType returns the word for a change; "" if Stripe sends nothing.
func stripeEventType(c change) string {
	switch c.kind {
	case changeWaiting:
		return "payment_intent." + c.p.status
	case changeAuthorization, changeCapture:
		switch {
		case !c.ok && c.kind == changeCapture:
			return "" // the authorization is as it was
		case !c.ok:
			return "payment_intent.payment_failed"
		case c.p.status == statusAuthorized:
			return "payment_intent.amount_capturable_updated"
		}
		return "payment_intent.succeeded"
	case changeCaptureReversed:
		return "payment_intent.payment_failed"
	case changeVoid, changeTechnicalCancel, changeExpiry:
		if c.p.status != statusCanceled {
			return ""
		}
		return "payment_intent.canceled"
	}
	switch {
	case c.kind == changeRefund && c.ok:
		return "refund.created"
	case c.kind == changeRefundEnd && c.ok:
		return "refund.updated"
	case c.kind == changeRefundEnd, c.kind == changeRefundReversed:
		return "refund.failed"
	}
	return ""
}

// twin is the same content under another ID.
func (s *stripeDialect) twin(e event) event {
	id := s.newID("evt_", 12, len(idAlphabet))
	e.body = bytes.Replace(e.body, []byte(`"id":"`+e.id+`"`), []byte(`"id":"`+id+`"`), 1)
	e.id = id
	return e
}

// forgedStripe makes an event worth a forger's while: a success, whatever it was.
func forgedStripe(body []byte) []byte {
	for _, failure := range []string{"payment_intent.payment_failed", "payment_intent.processing", "payment_intent.requires_action"} {
		body = bytes.ReplaceAll(body, []byte(failure), []byte("payment_intent.succeeded"))
	}
	return bytes.ReplaceAll(body, []byte(`"status":"processing"`), []byte(`"status":"succeeded"`))
}
