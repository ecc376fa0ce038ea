package adyen

import (
	"testing"

	"paygrid/psprouter"
)

// The buyer is back: what was brought ends the payment, once, and says so again when it is handed over again.
func TestConfirm(t *testing.T) {
	for _, row := range []struct {
		result string
		auto   bool
		class  psprouter.Class
	}{
		{"ok", false, psprouter.Approved},
		{"ok", true, psprouter.Approved},
		{"fail", false, psprouter.Declined},
	} {
		b := newBench(t, nil)
		attempt, redirect := b.authorize("pm_3ds", row.auto)
		b.want("authorize", redirect, psprouter.ActionRequired)
		q := psprouter.Inquiry{Attempt: attempt, Operation: psprouter.OpAuthorize, Amount: eur(10000), AutoCapture: row.auto}
		for range 2 {
			out := b.Confirm(t.Context(), q, map[string]string{"redirectResult": row.result + "_" + redirect.Reference})
			b.want(row.result, out, row.class)
			if out.Class() == psprouter.Approved && (out.Reference != redirect.Reference || out.Captured != row.auto) {
				t.Errorf("%+v", out)
			}
		}
		if n := len(b.sim.Books().Payments); n != 1 {
			t.Errorf("%d payments", n)
		}
	}
}

// A hand-over that Adyen refuses, or that does not arrive, says nothing about the payment.
func TestConfirmThatFails(t *testing.T) {
	b := newBench(t, nil)
	attempt, redirect := b.authorize("pm_3ds", false)
	q := psprouter.Inquiry{Attempt: attempt, Operation: psprouter.OpAuthorize, Amount: eur(10000)}
	b.want("no such payment", b.Confirm(t.Context(), q, map[string]string{"redirectResult": "ok_NOPE"}), psprouter.Unknown)
	q.Amount = eur(9999)
	out := b.Confirm(t.Context(), q, map[string]string{"redirectResult": "ok_" + redirect.Reference})
	b.want("another amount than was asked", out, psprouter.Unknown)
	if !out.Alert {
		t.Error("a contradiction without an alert")
	}
}

func TestDetailsKey(t *testing.T) {
	a := detailsKey("att_1", map[string]string{"x": "1", "y": "2"})
	if a != detailsKey("att_1", map[string]string{"y": "2", "x": "1"}) || a == detailsKey("att_2", map[string]string{"x": "1", "y": "2"}) ||
		a == detailsKey("att_1", map[string]string{"x": "1", "y": "3"}) || len(a) > 64 {
		t.Errorf("%q", a)
	}
}
