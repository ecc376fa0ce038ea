package psptest

import (
	"bytes"
	"errors"
	"net/http"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
)

func webhooks(t *testing.T, h Harness) {
	a := newAdapter(t, h, "http://127.0.0.1:1", patient)
	event := Event{ID: "evt-1", Attempt: Calls()[0].Attempt, PaymentRef: "PSPREF0000000001", Amount: 1000, Currency: "EUR"}
	t.Run("signature", func(t *testing.T) { signatures(t, h, a, event) })
	t.Run("age", func(t *testing.T) { age(t, h, a, event) })
	t.Run("content", func(t *testing.T) { content(t, h, a, event) })
	t.Run("malformed", func(t *testing.T) { malformed(t, a) })
	if kind, body := a.WebhookAnswer(); kind == "" || len(body) == 0 {
		t.Error("the PSP is told nothing")
	}
}

func faultOf(err error) psprouter.WebhookFault {
	var refused *psprouter.WebhookError
	if !errors.As(err, &refused) {
		return ""
	}
	return refused.Why
}

// signatures: both secrets hold, nothing else does, and nothing that is signed can be changed.
func signatures(t *testing.T, h Harness, a Adapter, event Event) {
	for secret, valid := range []bool{true, true, false} {
		header, body := h.Sign(h.Notice(event), at, secret)
		if err := a.CheckWebhook(header, body, at); (err == nil) != valid || !valid && faultOf(err) != psprouter.WebhookUnsigned {
			t.Errorf("secret %d: %v", secret, err)
		}
	}
	if err := a.CheckWebhook(http.Header{}, h.Notice(event), at); faultOf(err) != psprouter.WebhookUnsigned {
		t.Errorf("unsigned: %v", err)
	}
	header, body := h.Sign(h.Notice(event), at, 0)
	for old, changed := range map[string]string{"1000": "1001", "EUR": "USD", "eur": "usd", event.Attempt: event.Attempt[:34] + "9", event.PaymentRef: "PSPREF0000000002"} {
		other := bytes.ReplaceAll(body, []byte(old), []byte(changed))
		if bytes.Equal(other, body) {
			continue // this PSP writes it otherwise
		}
		if err := a.CheckWebhook(header, other, at); faultOf(err) != psprouter.WebhookUnsigned {
			t.Errorf("%s changed to %s: %v", old, changed, err)
		}
	}
}

// age is judged by the clock of arrival, both ways, where the time is signed.
func age(t *testing.T, h Harness, a Adapter, event Event) {
	for offset, want := range map[time.Duration]psprouter.WebhookFault{
		0: "", 299 * time.Second: "", -299 * time.Second: "", 301 * time.Second: psprouter.WebhookStale, -301 * time.Second: psprouter.WebhookStale,
	} {
		header, body := h.Sign(h.Notice(event), at.Add(offset), 0)
		if !h.SignsTime {
			want = ""
		}
		if err := a.CheckWebhook(header, body, at); faultOf(err) != want {
			t.Errorf("%v from now: %v, want %q", offset, err, want)
		}
	}
}

func content(t *testing.T, h Harness, a Adapter, event Event) {
	n := read(t, a, h.Notice(event))
	want := ledger.Money{Minor: 1000, Currency: "EUR"}
	if n.Attempt != event.Attempt || n.Operation != psprouter.OpAuthorize || n.Outcome.Class() != psprouter.Approved || n.Amount != want ||
		n.Reference != event.PaymentRef || n.Outcome.Reference != event.PaymentRef || n.Foreign != "" || n.EventID == "" || n.Kind == "" {
		t.Errorf("%+v", n)
	}
	if again := read(t, a, h.Notice(event)); again.EventID != n.EventID {
		t.Errorf("a redelivery is another event: %q, %q", n.EventID, again.EventID)
	}
	order := event
	order.Attempt = "o-c036"
	if n := read(t, a, h.Notice(order)); n.Attempt != "" {
		t.Errorf("an order passes for attempt %q", n.Attempt)
	}
	foreign := event
	foreign.Foreign = true
	if n := read(t, a, h.Notice(foreign)); n.Foreign == "" {
		t.Error("a notice of another mode passes for ours")
	}
	if n := read(t, a, h.Unheard); n.Operation != "" || n.Outcome.Class() != psprouter.Unknown || n.EventID == "" {
		t.Errorf("an unheard-of kind settles something: %+v", n)
	}
	odd := event
	odd.Currency = "XXX"
	if n := read(t, a, h.Notice(odd)); n.AmountProblem == "" || n.Amount.Minor != 0 {
		t.Errorf("XXX is read as %v", n.Amount)
	}
}

func malformed(t *testing.T, a Adapter) {
	for _, body := range []string{"", " ", "null", "[]", "{}", "7", `"x"`, "<html>", `{"id":`, `{"notificationItems":[]}`, "\x00\xff"} {
		if _, err := a.ReadWebhook([]byte(body)); faultOf(err) != psprouter.WebhookMalformed {
			t.Errorf("%q reads as a notice: %v", body, err)
		}
		if err := a.CheckWebhook(http.Header{}, []byte(body), at); err == nil {
			t.Errorf("%q passes unsigned", body)
		}
	}
}
