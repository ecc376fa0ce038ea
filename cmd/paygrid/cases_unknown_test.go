package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestC009: the PSP says 500, or says nothing, and has charged.
func TestC009(t *testing.T) {
	inBothLevels(t, gridOptions{PSPTimeout: time.Second}, func(t *testing.T, g *testGrid) {
		a, b := g.callers[0], g.callers[1]
		charged := p10("o-c009a", "pm_500_charged", "automatic")
		first := a.pay(t, "k-c009a", charged).want(t, http.StatusAccepted)
		again := b.pay(t, "k-c009a", charged).want(t, http.StatusAccepted)
		other := a.pay(t, "k-c009a2", p10("o-c009a", "pm_ok", "automatic")).want(t, http.StatusCreated)
		if first.ID == "" || again.ID != first.ID || other.ID == first.ID || first.Status != "PROCESSING" {
			t.Errorf("first %s, again %s, other %s", first, again, other)
		}
		silent := b.pay(t, "k-c009b", p10("o-c009b", "pm_timeout_charged", "automatic")).want(t, http.StatusAccepted)
		for _, id := range []string{first.ID, silent.ID} {
			a.wantLines(t, id, 0, lines{})
		}
		a.wantCAP10(t, other.ID)
		g.finish(t)
		for _, id := range []string{first.ID, silent.ID} {
			b.get(t, "/v1/payments/"+id).wantState(t, "CAPTURED", 10000, 0)
			b.wantCAP10(t, id)
		}
		if n := g.sum(t, `SELECT count(*) FROM outbox WHERE type LIKE '%failed%' OR payload->>'status' = 'FAILED'`); n > 0 {
			t.Errorf("FAILED stands in %d events", n)
		}
		if got := g.tally(); got.Charges != 3 || got.Voids != 0 {
			t.Errorf("the PSP saw %+v", got)
		}
		for key, calls := range keysOf(g.Sim.Books(), "authorize") {
			if calls != 1 {
				t.Errorf("the PSP was called %d times under %s", calls, key)
			}
		}
	})
}

// TestC010: a capture repeated while the first is in doubt.
func TestC010(t *testing.T) {
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		p := g.callers[0].pay(t, "k-c010", p10("o-c010", "pm_ok", "manual")).want(t, http.StatusCreated)
		if err := g.Sim.Script("capture", "drop_after", "", 1); err != nil {
			t.Fatal(err)
		}
		path, capture := "/v1/payments/"+p.ID+"/capture", ""
		for n := range 4 {
			r := g.callers[n%2].post(t, path, "k-cap", eur(10000)).want(t, http.StatusAccepted)
			if capture == "" {
				capture = r.CaptureID
			}
			if r.CaptureID != capture || !strings.HasPrefix(capture, "att_") {
				t.Errorf("try %d: capture %q, before %q", n, r.CaptureID, capture)
			}
		}
		g.callers[1].post(t, path, "k-cap2", eur(10000)).wantCode(t, http.StatusConflict, "CAPTURE_IN_DOUBT")
		keys := keysOf(g.Sim.Books(), "capture")
		if len(keys) != 1 || keys[capture] != 1 {
			t.Errorf("captures at the PSP by key: %v, want one under %s", keys, capture)
		}
		g.callers[0].wantLines(t, p.ID, 0, lines{})
		g.finish(t)
		g.callers[0].post(t, path, "k-cap", eur(10000)).want(t, http.StatusOK).wantState(t, "CAPTURED", 10000, 0)
		g.callers[1].wantCAP10(t, p.ID)
		if got := g.tally(); got != (tally{Authorized: 1, Charges: 1, Calls: 2}) {
			t.Errorf("the PSP saw %+v", got)
		}
	})
}

// TestC012: the caller hangs up after the PSP was asked; and the router is told to end meanwhile: it drains, so no payment
// stays open and nothing waits for the resolver. One that is killed leaves its payment to the resolver.
func TestC012(t *testing.T) {
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		order := p10("o-c012", "pm_slow_ok_1s", "automatic")
		hangUp(t, g.callers[0], "k-c012", order)
		g.wantCaptured(t, "k-c012", "o-c012", order)

		dying := startChild(t, childSpec{Config: g.ConfigPath})
		order = p10("o-c012b", "pm_slow_ok_2s", "automatic")
		hangUp(t, newCaller(t, dying.URL), "k-c012b", order)
		eventually(t, "the payment is under way", func() bool { return len(g.callers[0].byOrder(t, "o-c012b")) == 1 })
		dying.signal(t, syscall.SIGTERM)
		if code := dying.wait(t).ExitCode(); code != exitOK {
			t.Errorf("the drained router ended with %d", code)
		}
		g.wantCaptured(t, "k-c012b", "o-c012b", order)
		c012Killed(t, g)
		if n := g.sum(t, `SELECT count(*) FROM payments WHERE status = 'AUTH_PENDING'`); n > 0 {
			t.Errorf("%d payments are still open", n)
		}
	})
}

// c012Killed: the router dies once the PSP has said yes, a second after the caller asked.
func c012Killed(t *testing.T, g *testGrid) {
	order, charges := p10("o-c012c", "pm_slow_ok_1s", "automatic"), g.tally().Charges
	dying := startChild(t, childSpec{Config: g.ConfigPath, Die: "authorize.sent"})
	hangUp(t, newCaller(t, dying.URL), "k-c012c", order)
	dying.wait(t)
	if n := g.tally().Charges - charges; n != 1 {
		t.Errorf("the PSP took the money %d times", n)
	}
	if found := g.callers[0].byOrder(t, "o-c012c"); len(found) != 1 || found[0].Status != "PROCESSING" {
		t.Errorf("before the resolver: %+v", found)
	}
	g.finish(t)
	g.wantCaptured(t, "k-c012c", "o-c012c", order)
}

// hangUp sends a payment and leaves after 300 ms.
func hangUp(t *testing.T, c caller, key, order string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/payments", strings.NewReader(order))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set("Content-Type", "application/json")
	if r := c.do(request); !errors.Is(r.err, context.DeadlineExceeded) {
		t.Fatalf("answered before the caller left: %s", r)
	}
}

// wantCaptured waits for the one payment of an order to be captured, and checks its books, its event and its replay.
func (g *testGrid) wantCaptured(t *testing.T, key, orderID, order string) {
	t.Helper()
	c := g.callers[1]
	eventually(t, orderID+" is captured", func() bool {
		found := c.byOrder(t, orderID)
		return len(found) == 1 && found[0].Status == "CAPTURED"
	})
	r := c.pay(t, key, order).want(t, http.StatusCreated)
	if !r.replayed {
		t.Errorf("want a replay, got %s", r)
	}
	c.wantCAP10(t, r.ID)
	if n := g.sum(t, `SELECT count(*) FROM outbox WHERE payment_id = $1 AND type = 'payment.captured'`, r.ID); n != 1 {
		t.Errorf("%d payment.captured events", n)
	}
	charges := 0
	for _, p := range g.Sim.Books().Payments {
		if p.Metadata["order"] == orderID || p.Metadata["payment"] == r.ID {
			charges += p.Charges
		}
	}
	if charges != 1 {
		t.Errorf("%s was charged %d times", orderID, charges)
	}
}

// TestOutcomes: what each thing that a PSP can do to an authorization means to the caller, the payment and the books.
func TestOutcomes(t *testing.T) {
	cases := []struct {
		token         string
		status        int
		state         string
		charges, kept int // at the PSP: money taken, payments that it knows of
	}{
		{"pm_ok", http.StatusCreated, "CAPTURED", 1, 1},
		{"pm_decline", http.StatusPaymentRequired, "DECLINED", 0, 1},
		{"pm_card_chargeDeclinedExpiredCard", http.StatusPaymentRequired, "DECLINED", 0, 1},
		{"pm_ok_drop", http.StatusAccepted, "PROCESSING", 1, 1},
		{"pm_hidden_1s", http.StatusAccepted, "PROCESSING", 1, 1},
		{"pm_500_charged", http.StatusAccepted, "PROCESSING", 1, 1},
		{"pm_never", http.StatusAccepted, "PROCESSING", 0, 0},
		{"pm_pending", http.StatusAccepted, "PROCESSING", 0, 1},
		{"pm_503", http.StatusServiceUnavailable, "FAILED", 0, 0},
		{"pm_3ds", http.StatusOK, "REQUIRES_ACTION", 0, 1},
		{"pm_card_authenticationRequired", http.StatusPaymentRequired, "DECLINED", 0, 1}, // no returnUrl: nobody can act
	}
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		for _, c := range cases {
			before, kept := g.tally(), len(g.Sim.Books().Payments)
			order := p10("o-"+c.token, c.token, "automatic")
			if c.state == "REQUIRES_ACTION" {
				order = strings.Replace(order, "{", `{"returnUrl":"https://shop.example/back",`, 1)
			}
			first := g.callers[0].pay(t, "k-"+c.token, order).want(t, c.status)
			if first.Status != c.state || (c.state == "REQUIRES_ACTION") != (first.RedirectURL != "") || (c.state == "DECLINED") != (first.DeclineCode != "") {
				t.Errorf("%s: want %s, got %s", c.token, c.state, first)
			}
			again := g.callers[1].pay(t, "k-"+c.token, order).want(t, c.status)
			if again.ID != first.ID || again.replayed == (c.state == "PROCESSING") {
				t.Errorf("%s: first %s, again (replayed: %v) %s", c.token, first, again.replayed, again)
			}
			after := g.tally()
			if after.Charges-before.Charges != c.charges || after.Calls-before.Calls != 1 || len(g.Sim.Books().Payments)-kept != c.kept {
				t.Errorf("%s: the PSP saw %+v, before %+v", c.token, after, before)
			}
			if c.state == "CAPTURED" {
				g.callers[0].wantCAP10(t, first.ID)
				continue
			}
			g.callers[0].wantLines(t, first.ID, 0, lines{})
		}
	})
}
