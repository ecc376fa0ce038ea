package psptest

import (
	"errors"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
)

// amounts walks the exponent table: to the wire, refused before the wire, and back by a notice in the PSP's unit.
func amounts(t *testing.T, h Harness) {
	p := newPeer(t, answering(func(request) Response { return Response{Status: 500, Body: "{}"} }))
	a := newAdapter(t, h, p.base, patient)
	for _, row := range h.Amounts {
		m := ledger.Money{Minor: row.Minor, Currency: row.Currency}
		c := Calls()[0]
		c.Amount = m
		err := a.Supports(m)
		out := c.send(t.Context(), a)
		requests := p.take()
		if row.Refused {
			var wrong *psprouter.AmountError
			if !errors.As(err, &wrong) || wrong.Why == "" || wrong.PSP != a.Name() {
				t.Errorf("%d %s: supported (%v), want an AmountError", m.Minor, m.Currency, err)
			}
			if out.Class() != psprouter.NotSent || !out.Rejected || len(requests) != 0 {
				t.Errorf("%d %s: %v with %d requests, want a rejection before any", m.Minor, m.Currency, out.Class(), len(requests))
			}
			continue
		}
		if err != nil || len(requests) != 1 {
			t.Errorf("%d %s: %v, %d requests", m.Minor, m.Currency, err, len(requests))
			continue
		}
		if amount, currency := h.WireAmount(requests[0].body); amount != row.Wire || currency != string(row.Currency) {
			t.Errorf("%d %s: %d %s on the wire, want %d", m.Minor, m.Currency, amount, currency, row.Wire)
		}
		back := read(t, a, h.Notice(Event{ID: "e-1", Attempt: c.Attempt, PaymentRef: "PSPREF0000000001", Amount: row.Wire, Currency: string(row.Currency)}))
		if back.Amount != m || back.AmountProblem != "" {
			t.Errorf("%d %s: comes back as %v %q", m.Minor, m.Currency, back.Amount, back.AmountProblem)
		}
	}
}

func read(t *testing.T, a Adapter, body []byte) psprouter.Notice {
	t.Helper()
	notices, err := a.ReadWebhook(body)
	if err != nil || len(notices) != 1 {
		t.Fatalf("%d notices, %v, in %s", len(notices), err, body)
	}
	return notices[0]
}

// at is the moment of the suite's notices.
var at = time.Unix(1_767_225_600, 0)
