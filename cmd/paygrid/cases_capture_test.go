package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/payment"
)

// racing rounds of a case; fewer with -short.
func rounds(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// authorize10 reserves the standard body and returns its path.
func authorize10(t *testing.T, c caller, name string) (id, path string) {
	t.Helper()
	p := c.pay(t, "k-"+name, p10("o-"+name, "pm_ok", "manual")).want(t, http.StatusCreated)
	p.wantState(t, "AUTHORIZED", 0, 0)
	return p.ID, "/v1/payments/" + p.ID
}

// TestC017: partial captures add up to no more than was authorized, one after the other and in parallel.
func TestC017(t *testing.T) {
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		a, b := g.callers[0], g.callers[1]
		id, path := authorize10(t, a, "c017")
		first := a.post(t, path+"/capture", "k-1", eur(6000)).want(t, http.StatusOK)
		first.wantState(t, "PARTIALLY_CAPTURED", 6000, 0)
		if first.Capturable != 4000 {
			t.Errorf("capturable %d, want 4000", first.Capturable)
		}
		r := b.post(t, path+"/capture", "k-2", eur(6000)).wantCode(t, http.StatusUnprocessableEntity, payment.CodeCaptureExceeds)
		if r.Remaining == nil || *r.Remaining != 4000 {
			t.Errorf("want 4000 remaining: %s", r)
		}
		b.post(t, path+"/capture", "k-3", eur(4000)).want(t, http.StatusOK).wantState(t, "CAPTURED", 10000, 0)
		a.wantLines(t, id, 2, cap10)
		charges := 2
		for n := range rounds(20) {
			id, path := authorize10(t, a, fmt.Sprintf("c017-%d", n))
			var replies [2]reply
			together(2, func(i int) { replies[i] = g.callers[i].post(t, path+"/capture", fmt.Sprintf("k-%d", i), eur(6000)) })
			good, bad := replies[0], replies[1]
			if bad.ok() {
				good, bad = bad, good
			}
			good.want(t, http.StatusOK).wantState(t, "PARTIALLY_CAPTURED", 6000, 0)
			bad.wantCode(t, http.StatusUnprocessableEntity, payment.CodeCaptureExceeds)
			b.post(t, path+"/capture", "k-rest", eur(4000)).want(t, http.StatusOK).wantState(t, "CAPTURED", 10000, 0)
			a.wantLines(t, id, 2, cap10)
			charges += 2
		}
		if got := g.tally(); got.Charges != charges {
			t.Errorf("the PSP saw %+v, want %d captures", got, charges)
		}
		for _, p := range g.Sim.Books().Payments {
			if p.CapturedMinor != 10000 {
				t.Errorf("the PSP captured %d of %s", p.CapturedMinor, p.Ref)
			}
		}
	})
}

// TestC019: ends are ends: (a) void, (b) expiry, (c) the race into them.
func TestC019(t *testing.T) {
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		t.Run("a", func(t *testing.T) { c019Void(t, g) })
		t.Run("c", func(t *testing.T) { c019Race(t, g) })
		t.Run("b", func(t *testing.T) { c019Expiry(t, g) })
	})
}

func c019Void(t *testing.T, g *testGrid) {
	a, b := g.callers[0], g.callers[1]
	before := g.tally()
	id, path := authorize10(t, a, "c019a")
	a.post(t, path+"/void", "k-1", "").want(t, http.StatusOK).wantState(t, "VOIDED", 0, 0)
	b.post(t, path+"/capture", "k-2", eur(10000)).wantCode(t, http.StatusConflict, payment.CodeWrongState)
	b.post(t, path+"/void", "k-3", "").wantCode(t, http.StatusConflict, payment.CodeWrongState)
	a.wantLines(t, id, 0, lines{})
	if got := g.tally(); got.Voids != before.Voids+1 || got.Charges != before.Charges || got.Calls != before.Calls+2 {
		t.Errorf("the PSP saw %+v, before %+v", got, before)
	}
}

func c019Race(t *testing.T, g *testGrid) {
	for n := range rounds(100) {
		id, path := authorize10(t, g.callers[0], fmt.Sprintf("c019c-%d", n))
		var captured, voided reply
		together(2, func(i int) {
			if i == 0 {
				captured = g.callers[n%2].post(t, path+"/capture", "k-capture", eur(10000))
				return
			}
			voided = g.callers[(n+1)%2].post(t, path+"/void", "k-void", "")
		})
		switch {
		case captured.ok():
			captured.want(t, http.StatusOK)
			voided.want(t, http.StatusConflict)
		default:
			captured.want(t, http.StatusConflict)
			voided.want(t, http.StatusOK)
		}
		state := g.callers[0].get(t, "/v1/payments/"+id)
		for _, p := range g.Sim.Books().Payments {
			if p.Metadata["payment"] != id {
				continue
			}
			if (p.CapturedMinor == 10000) != (state.Status == "CAPTURED") || p.Voided != (state.Status == "VOIDED") || p.Voided == (p.CapturedMinor > 0) {
				t.Errorf("round %d: %s here; the PSP captured %d, voided %v", n, state.Status, p.CapturedMinor, p.Voided)
			}
		}
	}
}

func c019Expiry(t *testing.T, g *testGrid) {
	a := g.callers[0]
	id, path := authorize10(t, a, "c019b")
	before := g.tally()
	events := g.sum(t, `SELECT count(*) FROM outbox WHERE payment_id = $1`, id)
	g.clock.advance(7*24*time.Hour + time.Second)
	a.post(t, path+"/capture", "k-1", eur(10000)).wantCode(t, http.StatusConflict, payment.CodeExpired)
	if n := g.sum(t, `SELECT count(*) FROM attempts WHERE payment_id = $1 AND kind = 'CAPTURE'`, id); n > 0 {
		t.Errorf("%d capture rows", n)
	}
	if n := g.sum(t, `SELECT count(*) FROM outbox WHERE payment_id = $1`, id); n != events {
		t.Errorf("%d new events", n-events)
	}
	a.wantLines(t, id, 0, lines{})
	for range 2 { // the second sweep finds nothing
		for name := range g.Admin {
			if _, err := g.Nodes[1].service.ExpireOn(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	a.get(t, path).wantState(t, "EXPIRED", 0, 0)
	if n := g.sum(t, `SELECT count(*) FROM outbox WHERE payment_id = $1 AND payload->>'status' = 'EXPIRED'`, id); n != 1 {
		t.Errorf("%d events say EXPIRED", n)
	}
	if got := g.tally(); got.Calls != before.Calls {
		t.Errorf("the PSP was called: %+v, before %+v", got, before)
	}
}

// TestC042: opposite order of accounts, and accounts that everybody touches. The 50 payouts of the case wait for payouts.
func TestC042(t *testing.T) {
	const captures = 200
	reversed := body("o-c042", "pm_ok", "manual", `{"minor":10000,"currency":"EUR"}`,
		`[{"sellerId":"s-bob","minor":3000,"commissionMinor":450},{"sellerId":"s-ann","minor":7000,"commissionMinor":700}]`)
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		paths := make([]string, captures)
		together(captures, func(i int) {
			order := p10("o-c042", "pm_ok", "manual")
			if i%2 == 1 {
				order = reversed
			}
			paths[i] = "/v1/payments/" + g.callers[i%2].pay(t, fmt.Sprintf("k-c042-%d", i), order).want(t, http.StatusCreated).ID
		})
		took := make([]time.Duration, captures)
		together(captures, func(i int) {
			start := time.Now()
			g.callers[i%2].post(t, paths[i]+"/capture", "k", eur(10000)).want(t, http.StatusOK).wantState(t, "CAPTURED", 10000, 0)
			took[i] = time.Since(start)
		})
		slices.Sort(took)
		t.Logf("captures, all at once: p50 %s, p99 %s", took[captures/2], took[captures*99/100])
		g.wantBalances(t, cap10.times(captures))
		if got := g.tally(); got != (tally{Authorized: captures, Charges: captures, Calls: 2 * captures}) {
			t.Errorf("the PSP saw %+v", got)
		}
	})
}

// wantBalances checks accounts over all shards; positive = debit.
func (g *testGrid) wantBalances(t *testing.T, want lines) {
	t.Helper()
	for account, minor := range want {
		b, err := g.Nodes[0].shards.Balance(t.Context(), ledger.Account(account), "EUR")
		if err != nil {
			t.Fatal(err)
		}
		if !b.Minor.IsInt64() || b.Minor.Int64() != minor {
			t.Errorf("%s is %s, want %d", account, b.Minor, minor)
		}
	}
}
