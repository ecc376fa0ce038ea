package main

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"paygrid/payment"
)

// refund6000 is what a refund of 6000 of the standard body posts.
var refund6000 = lines{"psp_receivable:stripe": -6000, "seller_payable:s-ann": 3780, "seller_payable:s-bob": 1530, "commission_revenue": 690}

// charge10 charges the standard body and returns the path of the payment.
func charge10(t *testing.T, c caller, name string) (id, path string) {
	t.Helper()
	p := c.pay(t, "k-"+name, p10("o-"+name, "pm_ok", "automatic")).want(t, http.StatusCreated)
	p.wantState(t, "CAPTURED", 10000, 0)
	return p.ID, "/v1/payments/" + p.ID
}

// TestC016: two refunds at once, together more than was captured.
func TestC016(t *testing.T) {
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		a := g.callers[0]
		n := rounds(100)
		for round := range n {
			id, path := charge10(t, a, fmt.Sprintf("c016-%d", round))
			var replies [2]reply
			together(2, func(i int) {
				replies[i] = g.callers[i].post(t, path+"/refunds", fmt.Sprintf("k-c016-%d", i+1), eur(6000))
			})
			good, bad := replies[0], replies[1]
			if bad.ok() {
				good, bad = bad, good
			}
			good.want(t, http.StatusCreated)
			bad.wantCode(t, http.StatusUnprocessableEntity, payment.CodeRefundExceeds)
			if bad.Remaining == nil || *bad.Remaining != 4000 {
				t.Errorf("round %d: want 4000 remaining: %s", round, bad)
			}
			view := a.ledger(t, id)
			if got := linesOf(t, view.Entries[1:]...); len(view.Entries) != 2 || !got.equal(refund6000) {
				t.Errorf("round %d: %d entries, the refund posted %v", round, len(view.Entries), got)
			}
			g.callers[round%2].post(t, path+"/refunds", "k-c016-3", eur(4000)).want(t, http.StatusCreated)
			a.get(t, path).wantState(t, "REFUNDED", 10000, 10000)
			a.wantLines(t, id, 3, lines{})
		}
		if got := g.tally(); got != (tally{Authorized: n, Charges: n, Refunds: 2 * n, Calls: 3 * n}) {
			t.Errorf("the PSP saw %+v", got)
		}
	})
}

// TestC018: partial capture, then "refund all". Part (b), a capture made at the PSP, waits for webhooks.
func TestC018(t *testing.T) {
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		a, b := g.callers[0], g.callers[1]
		p := a.pay(t, "k-c018", body("o-c018", "pm_ok", "manual", `{"minor":2294,"currency":"EUR"}`,
			`[{"sellerId":"s-ann","minor":2294,"commissionMinor":230}]`)).want(t, http.StatusCreated)
		path := "/v1/payments/" + p.ID
		b.post(t, path+"/capture", "k-1", eur(1000)).want(t, http.StatusOK).wantState(t, "PARTIALLY_CAPTURED", 1000, 0)
		r := a.post(t, path+"/refunds", "k-2", eur(2294)).wantCode(t, http.StatusUnprocessableEntity, payment.CodeRefundExceeds)
		if r.Remaining == nil || *r.Remaining != 1000 {
			t.Errorf("want 1000 remaining: %s", r)
		}
		if all := b.post(t, path+"/refunds", "k-3", "{}").want(t, http.StatusCreated); all.Amount.Minor != 1000 {
			t.Errorf("want a refund of 1000, got %s", all)
		}
		end := a.get(t, path).want(t, http.StatusOK)
		if end.Amount.Minor != 2294 || end.Captured != 1000 || end.Refunded != 1000 || end.Capturable != 1294 || end.Refundable != 0 {
			t.Errorf("at the end %s", end)
		}
		a.wantLines(t, p.ID, 2, lines{})
		books := g.Sim.Books().Payments[0]
		if books.CapturedMinor != 1000 || books.RefundedMinor != 1000 || len(books.Refunds) != 1 {
			t.Errorf("the PSP captured %d and refunded %d", books.CapturedMinor, books.RefundedMinor)
		}
	})
}

// TestC022: a pending refund is not a failed refund, however old; a lost one is found.
func TestC022(t *testing.T) {
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		a, b := g.callers[0], g.callers[1]
		id, path := charge10(t, a, "c022")
		script(t, g, "refund", "pending")
		first := a.post(t, path+"/refunds", "k-1", eur(4000)).want(t, http.StatusAccepted)
		g.clock.advance(25 * time.Hour)
		g.work(t)
		r := b.post(t, path+"/refunds", "k-2", eur(7000)).wantCode(t, http.StatusUnprocessableEntity, payment.CodeRefundExceeds)
		if r.Remaining == nil || *r.Remaining != 6000 {
			t.Errorf("want 6000 remaining: %s", r)
		}
		if again := b.post(t, path+"/refunds", "k-1", eur(4000)).want(t, http.StatusAccepted); again.ID != first.ID || again.Status != "PROCESSING" {
			t.Errorf("want the same refund, still open: %s", again)
		}
		if p := a.get(t, path); p.Refunding != 4000 || p.Refunded != 0 {
			t.Errorf("want 4000 pending: %s", p)
		}
		a.wantCAP10(t, id)

		lost, path := charge10(t, a, "c022b")
		script(t, g, "refund", "drop_after")
		first = b.post(t, path+"/refunds", "k-1", eur(4000)).want(t, http.StatusAccepted)
		for n := range 3 {
			if again := g.callers[n%2].post(t, path+"/refunds", "k-1", eur(4000)).want(t, http.StatusAccepted); again.ID != first.ID {
				t.Errorf("want the same refund %s: %s", first.ID, again)
			}
		}
		a.wantCAP10(t, lost)

		if !g.Sim.Settle(g.Sim.Books().Payments[0].Refunds[0].Ref, true) {
			t.Error("the refund was not pending at the PSP")
		}
		g.finish(t)
		for _, id := range []string{id, lost} {
			path := "/v1/payments/" + id
			b.post(t, path+"/refunds", "k-1", eur(4000)).want(t, http.StatusCreated)
			if p := a.get(t, path); p.Refunding != 0 || p.Refunded != 4000 || len(a.ledger(t, id).Entries) != 2 {
				t.Errorf("want 4000 refunded by one entry: %s", p)
			}
		}
		for _, p := range g.Sim.Books().Payments {
			if len(p.Refunds) != 1 {
				t.Errorf("%d refunds at the PSP for %s", len(p.Refunds), p.Ref)
			}
		}
	})
}

func script(t *testing.T, g *testGrid, on, fault string) {
	t.Helper()
	if err := g.Sim.Script(on, fault, "", 1); err != nil {
		t.Fatal(err)
	}
}

// TestC043: one reversal, asked for twice, by the service's own call: the HTTP side of corrections comes with approvals.
func TestC043(t *testing.T) {
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		for round := range rounds(100) {
			id, _ := charge10(t, g.callers[round%2], fmt.Sprintf("c043-%d", round))
			entry := g.callers[0].ledger(t, id).Entries[0].ID
			var errs [2]error
			var made [2]string
			together(2, func(i int) {
				reversal, err := g.Nodes[i].service.Reverse(t.Context(), id, entry, "charged in error", "u-kim")
				errs[i], made[i] = err, reversal.ID
			})
			winner := 0
			if errs[0] != nil {
				winner = 1
			}
			wantReversed(t, errs[winner], errs[1-winner], made[winner])
			_, err := g.Nodes[winner].service.Reverse(t.Context(), id, entry, "once more", "u-lee")
			wantReversed(t, nil, err, made[winner])

			view := g.callers[1].ledger(t, id)
			if len(view.Entries) != 2 || len(view.Entries[0].Lines) != 4 || len(view.Entries[1].Lines) != 4 || view.Entries[1].Reverses != entry {
				t.Fatalf("round %d: entries %+v", round, view.Entries)
			}
			if sum := linesOf(t, view.Entries...); !sum.equal(lines{}) {
				t.Errorf("round %d: entry and reversal sum to %v", round, sum)
			}
		}
	})
}

// wantReversed checks that one call reversed and the other was told by which entry.
func wantReversed(t *testing.T, first, second error, reversal string) {
	t.Helper()
	var refused *payment.Error
	if first != nil || !errors.As(second, &refused) || refused.Code != payment.CodeAlreadyReversed || refused.Reference != reversal {
		t.Errorf("want one reversal %s and one %s; got %v and %v", reversal, payment.CodeAlreadyReversed, first, second)
	}
}
