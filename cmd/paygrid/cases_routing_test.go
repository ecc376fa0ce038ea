package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"paygrid/psprouter"
	"paygrid/psprouter/simulator"
)

// breakerOpenMS is how long a breaker of these tests stays open. The breaker's own clock is the machine's.
const breakerOpenMS = 2000

// firstRules prefer one PSP; the other stands by. Breakers trip after minRequests failures.
func firstRules(first string, minRequests int64) psprouter.Rules {
	other := map[string]string{"stripe": "adyen", "adyen": "stripe"}[first]
	return psprouter.Rules{PSPs: []psprouter.Rule{{Name: first, Weight: 1}, {Name: other, Weight: 1, Standby: true}}, KeepWarmPermille: -1,
		Breaker: psprouter.BreakerRules{MinRequests: minRequests, OpenForMS: breakerOpenMS}}
}

// noBreaker is more failures than any test makes.
const noBreaker = 100_000

// opened waits until an open breaker would let a probe through.
func opened(t *testing.T, openForMS int64) {
	t.Helper()
	select {
	case <-time.After(time.Duration(openForMS+50) * time.Millisecond):
	case <-t.Context().Done():
	}
}

// TestC011: declines and callers who leave are no outage; an open breaker refuses at once; one probe at a time; a decline
// proves that the PSP is alive.
func TestC011(t *testing.T) {
	inBothLevels(t, gridOptions{Routers: 1, Rules: firstRules("stripe", 10)}, func(t *testing.T, g *testGrid) {
		c := g.callers[0]
		together(100, func(i int) {
			c.pay(t, fmt.Sprint("k-a", i), p10(fmt.Sprint("o-a", i), "pm_decline", "automatic")).want(t, http.StatusPaymentRequired)
		})
		c.pay(t, "k-a", p10("o-a", "pm_ok", "automatic")).want(t, http.StatusCreated)
		c011Aborted(t, g)
		c = g.addRouter(t, func(*routerConfig) {}) // with a breaker that remembers nothing good
		for _, probe := range []string{"pm_slow_ok_1s", "pm_decline"} {
			c011Open(t, g, c, probe)
			opened(t, breakerOpenMS)
			if probe == "pm_decline" {
				c.pay(t, "k-e", p10("o-e", probe, "automatic")).want(t, http.StatusPaymentRequired)
			} else {
				c011HalfOpen(t, g, c)
			}
			for n := range 3 { // closed: one after the other and at once
				c.pay(t, fmt.Sprintf("k-closed-%s-%d", probe, n), p10("o-closed", "pm_ok", "automatic")).want(t, http.StatusCreated)
			}
		}
	})
}

// during pays as a caller who leaves when ctx ends.
func (c caller) during(ctx context.Context, key, order string) reply {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/payments", strings.NewReader(order))
	if err != nil {
		return reply{err: err}
	}
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set("Content-Type", "application/json")
	return c.do(request)
}

// c011Aborted is (b): 100 callers leave; each of their payments ends captured once, and the breaker stays closed.
func c011Aborted(t *testing.T, g *testGrid) {
	c, before := g.callers[0], g.tally()
	together(100, func(i int) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		r := c.during(ctx, fmt.Sprint("k-b", i), p10("o-c011b", "pm_slow_ok_1s", "automatic"))
		if r.err != nil && !errors.Is(r.err, context.DeadlineExceeded) {
			t.Errorf("%d: %s", i, r)
		}
	})
	c.pay(t, "k-b", p10("o-b", "pm_ok", "automatic")).want(t, http.StatusCreated)
	eventually(t, "the payments of those who left are captured", func() bool {
		return g.sum(t, `SELECT count(*) FROM payments WHERE order_id = 'o-c011b' AND status <> 'CAPTURED'`) == 0
	})
	left := g.sum(t, `SELECT count(*) FROM payments WHERE order_id = 'o-c011b'`)
	if got := g.tally(); left < 50 || got.Charges-before.Charges != int(left)+1 || got.Calls-before.Calls != int(left)+1 {
		t.Errorf("%d payments; the PSP saw %+v, before %+v", left, got, before)
	}
}

// c011Open is (c): 20 times "not processed" open the breaker; the next call is refused at once and leaves nothing.
func c011Open(t *testing.T, g *testGrid, c caller, name string) {
	for n := range 20 {
		c.pay(t, fmt.Sprintf("k-c-%s-%d", name, n), p10("o-c", "pm_503", "automatic")).want(t, http.StatusServiceUnavailable)
	}
	calls, payments := g.tally().Calls, g.sum(t, `SELECT count(*) FROM payments`)
	start := time.Now()
	c.pay(t, "k-open-"+name, p10("o-open", "pm_ok", "automatic")).wantCode(t, http.StatusServiceUnavailable, "PSP_UNAVAILABLE")
	if took := time.Since(start); took > 50*time.Millisecond {
		t.Logf("the refusal took %s; 50 ms are asked of a machine that does nothing else", took)
	}
	if n := g.tally().Calls; n != calls {
		t.Errorf("the PSP was called %d times while the breaker is open", n-calls)
	}
	if n := g.sum(t, `SELECT count(*) FROM payments`); n != payments || g.sum(t, `SELECT count(*) FROM payments WHERE status = 'AUTH_PENDING'`) > 0 {
		t.Errorf("%d payments were begun", n-payments)
	}
}

// c011HalfOpen is (d): of 200 at once one probes a slow PSP, and the others are refused until it is back.
func c011HalfOpen(t *testing.T, g *testGrid, c caller) {
	calls := g.tally().Calls
	var created, refused atomic.Int64
	together(200, func(i int) {
		r := c.pay(t, fmt.Sprint("k-d", i), p10("o-d", "pm_slow_ok_1s", "automatic"))
		switch {
		case r.status == http.StatusCreated:
			created.Add(1)
		case r.wantCode(t, http.StatusServiceUnavailable, "PSP_UNAVAILABLE").status == http.StatusServiceUnavailable:
			refused.Add(1)
		}
	})
	if created.Load() != 1 || refused.Load() != 199 || g.tally().Calls != calls+1 {
		t.Errorf("%d got through, %d were refused, the PSP was called %d times", created.Load(), refused.Load(), g.tally().Calls-calls)
	}
}

// TestAllPSPsUnavailable: with both breakers open nothing is written, and the key is free for later.
func TestAllPSPsUnavailable(t *testing.T) {
	rules := firstRules("adyen", 10)
	rules.Breaker.OpenForMS = 8000 // longer than what is done while both are open, on a busy machine
	inBothLevels(t, gridOptions{Routers: 1, Rules: rules}, func(t *testing.T, g *testGrid) {
		c, down := g.callers[0], map[string]string{"stripe": "pm_503", "adyen": "pm_503"}
		for n := range 10 {
			r := c.pay(t, fmt.Sprint("k-down-", n), p10At("o-down", "automatic", down)).want(t, http.StatusServiceUnavailable)
			if x := g.story(t, g.paymentOf(t, fmt.Sprint("k-down-", n))); len(x.Attempts) != 2 || x.State != "FAILED" {
				t.Errorf("%s: attempts %+v", r, x.Attempts)
			}
		}
		both := p10At("o-free", "automatic", map[string]string{"stripe": "pm_ok", "adyen": "pm_ok"})
		tables := []string{"payments", "attempts", "idempotency_keys", "outbox", "journal_entries"}
		before := map[string]int64{}
		for _, table := range tables {
			before[table] = g.sum(t, "SELECT count(*) FROM "+table)
		}
		for range 3 {
			c.pay(t, "k-free", both).wantCode(t, http.StatusServiceUnavailable, "PSP_UNAVAILABLE")
		}
		for _, table := range tables {
			if n := g.sum(t, "SELECT count(*) FROM "+table); n != before[table] {
				t.Errorf("%d rows were written to %s", n-before[table], table)
			}
		}
		if s, a := g.tally(), tallyOf(g.Adyen.Books()); s.Calls != 10 || a.Calls != 10 {
			t.Errorf("the PSPs saw %+v and %+v", s, a)
		}
		opened(t, rules.Breaker.OpenForMS)
		r := c.pay(t, "k-free", both).want(t, http.StatusCreated)
		if r.replayed {
			t.Error("the key was taken by a refusal")
		}
		c.wantLines(t, r.ID, 1, at10("adyen"))
	})
}

// paymentOf reads which payment a key of shop A made.
func (g *testGrid) paymentOf(t testing.TB, key string) string {
	t.Helper()
	found, err := g.Nodes[0].shards.OpeningKey(context.Background(), "shop_a", key)
	if err != nil || found == nil {
		t.Fatalf("key %s: %v, %v", key, found, err)
	}
	return found.PaymentID
}

// TestNotSentMoves: a payment of which the first PSP has said that nothing happened, or that never left for it, goes to the
// other one as a new attempt.
func TestNotSentMoves(t *testing.T) {
	inBothLevels(t, gridOptions{Routers: 1, Rules: firstRules("stripe", noBreaker)}, func(t *testing.T, g *testGrid) {
		gone := g.addRouter(t, func(r *routerConfig) { r.Stripe.BaseURL = "http://" + nobody(t) })
		for name, c := range map[string]struct {
			caller
			token string
			calls int
		}{"503": {g.callers[0], "pm_503", 1}, "refused": {gone, "pm_ok", 0}} {
			before := g.tally().Calls
			order := p10At("o-"+name, "automatic", map[string]string{"stripe": c.token, "adyen": "pm_ok"})
			p := c.pay(t, "k-"+name, order).want(t, http.StatusCreated)
			p.wantState(t, "CAPTURED", 10000, 0)
			g.callers[0].pay(t, "k-"+name, order).wantReplay(t, p)
			x := g.story(t, p.ID)
			if len(x.Attempts) != 2 || x.Attempts[0].PSP != "stripe" || x.Attempts[0].Status != "NOT_SENT" || x.Attempts[1].PSP != "adyen" ||
				x.Attempts[1].Status != "SUCCEEDED" || x.Attempts[0].ID == x.Attempts[1].ID {
				t.Errorf("%s: attempts %+v", name, x.Attempts)
			}
			g.callers[0].wantLines(t, p.ID, 1, at10("adyen"))
			if n := g.tally().Calls - before; n != c.calls {
				t.Errorf("%s: Stripe was called %d times, want %d", name, n, c.calls)
			}
		}
	})
}

// nobody is an address at which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// movable are the faults by which a PSP promises that nothing was done. After any other the payment stays where it is.
var movable = map[string][]string{"stripe": {"503", "429"}, "adyen": {"503"}}

// TestUnknownNeverMoves walks every fault that an authorization can have, at either PSP first. The other PSP, which would
// take the payment at once, hears of it only where the first has promised that nothing was done.
func TestUnknownNeverMoves(t *testing.T) {
	for first, other := range map[string]string{"stripe": "adyen", "adyen": "stripe"} {
		t.Run(first, func(t *testing.T) {
			o := gridOptions{Routers: 1, Rules: firstRules(first, noBreaker), PSPTimeout: time.Second, Webhooks: true}
			inBothLevels(t, o, func(t *testing.T, g *testGrid) {
				sims := map[string]*simulator.Simulator{"stripe": g.Sim, "adyen": g.Adyen}
				faults := lossyFaults()
				for _, fault := range faults {
					if err := sims[first].Script("authorize", fault, "", 1); err != nil {
						t.Fatal(err)
					}
					g.callers[0].pay(t, "k-"+fault, p10At("o-"+fault, "automatic", map[string]string{"stripe": "pm_ok", "adyen": "pm_ok"}))
				}
				for _, fault := range faults {
					g.wantAtHome(t, sims, first, other, fault)
				}
				g.delivered(t)
				g.finish(t)
				for _, fault := range faults {
					g.wantAtHome(t, sims, first, other, fault)
				}
			})
		})
	}
}

// lossyFaults are all that lose, delay or falsify an answer.
func lossyFaults() []string {
	var out []string
	for _, f := range simulator.Faults() {
		switch {
		case f.Group != "wire" && f.Group != "answer":
		case f.Name == "slow_Ns":
		case f.Name == "hidden_Ns":
			out = append(out, "hidden_20s")
		default:
			out = append(out, f.Name)
		}
	}
	return out
}

// wantAtHome checks that a payment stayed at its first PSP, or moved for a reason, and that no more than one PSP took money.
func (g *testGrid) wantAtHome(t *testing.T, sims map[string]*simulator.Simulator, first, other, fault string) {
	t.Helper()
	x := g.story(t, g.paymentOf(t, "k-"+fault))
	moved := len(x.Attempts) > 1
	switch {
	case moved && !slices.Contains(movable[first], fault):
		t.Errorf("%s at %s: moved: %+v", fault, first, x.Attempts)
	case moved && chargedFor(sims[first], x.Attempts[0].ID) > 0:
		t.Errorf("%s at %s: moved although it took the money", fault, first)
	case x.Attempts[0].PSP != first || (moved && x.Attempts[1].PSP != other):
		t.Errorf("%s: attempts %+v", fault, x.Attempts)
	}
	charges := 0
	for _, a := range x.Attempts {
		charges += chargedFor(sims[a.PSP], a.ID)
	}
	if charges > 1 {
		t.Errorf("%s at %s: charged %d times", fault, first, charges)
	}
}

// chargedFor counts the charges under an attempt.
func chargedFor(sim *simulator.Simulator, attempt string) int {
	n := 0
	for _, p := range sim.Books().Payments {
		if p.Attempt == attempt {
			n += p.Charges
		}
	}
	return n
}
