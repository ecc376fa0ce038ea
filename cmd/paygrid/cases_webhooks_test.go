package main

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"paygrid/payment"
	"paygrid/shard"
)

// hookRounds is how often the races of webhooks are run, at each level; the cases ask for 50 and 100.
const hookRounds = 20

// TestC030: the webhook is faster than the API answer: it is applied while our own call waits for its answer. And an event
// for a reference that we never made.
func TestC030(t *testing.T) {
	eachLevel(t, func(t *testing.T, serializable bool) {
		var g *testGrid
		var told alarms
		early := func(at payment.Point) {
			if at == "authorize.sent" { // the PSP has sent its notice and its answer; of the answer nothing is committed
				g.apply(t, 0, "early")
			}
		}
		g = newGrid(t, gridOptions{Webhooks: true, Serializable: serializable, Pause: early, Log: told.log()})
		for n := range hookRounds {
			name := fmt.Sprintf("c030-%d", n)
			p := g.callers[n%2].pay(t, "k-"+name, p10("o-"+name, "pm_ok_authorize_webhook_early", "automatic")).want(t, http.StatusCreated)
			p.wantState(t, "CAPTURED", 10000, 0)
			g.callers[0].wantCAP10(t, p.ID)
			if events := g.story(t, p.ID).Events; len(events) != 2 {
				t.Errorf("events %+v", events)
			}
		}
		g.wantInbox(t, shard.InboxApplied, hookRounds)
		for _, e := range g.Sim.Events() {
			if e.Tries != 1 {
				t.Errorf("event %s was sent %d times", e.ID, e.Tries)
			}
		}
		g.callers[1].hookS(t, g.clock.now(), shapes["generic"]("evt_c030x", "psp_c030x", "no-such-ref", 10000, "eur"))
		g.work(t)
		if x, ok := g.exceptions(t)["evt_c030x"]; !ok || x.State != shard.InboxUnmatched || x.Tries != 1 {
			t.Errorf("the exception list: %+v", g.exceptions(t))
		}
		told.want(t, "names nothing of ours", 0)
		for range 10 {
			g.clock.advance(6 * time.Hour)
			g.work(t)
		}
		told.want(t, "names nothing of ours", 1)
		g.wantInbox(t, shard.InboxUnmatched, 1)
		if n := g.sum(t, `SELECT count(*) FROM journal_entries`); n != hookRounds {
			t.Errorf("%d entries", n)
		}
		g.always(t)
	})
}

// TestC013: API call and webhook work on one payment, and the worker dies at one side or the other of the notice's own
// write. Nobody's clean-up undoes the other's money.
func TestC013(t *testing.T) {
	eachLevel(t, func(t *testing.T, serializable bool) {
		var g *testGrid
		var dieAt atomic.Value // payment.Point; "" = nowhere
		dieAt.Store(payment.Point(""))
		fail := func(at payment.Point) {
			switch {
			case at == dieAt.Load():
				runtime.Goexit() // the worker is gone: it neither writes nor closes what it claimed
			case at == "authorize.sent" && dieAt.Load() != payment.Point(""):
				dead := make(chan struct{})
				go func() {
					defer close(dead)
					g.apply(t, 0, "dying")
				}()
				<-dead
			}
		}
		g = newGrid(t, gridOptions{Webhooks: true, Serializable: serializable, Pause: fail})
		for n := range hookRounds {
			dieAt.Store([]payment.Point{"webhook.begun", "webhook.settled"}[n%2])
			name := fmt.Sprintf("c013-%d", n)
			p := g.callers[n%2].pay(t, "k-"+name, p10("o-"+name, "pm_ok_authorize_webhook_early", "automatic")).want(t, http.StatusCreated)
			dieAt.Store(payment.Point(""))
			g.clock.advance(5 * time.Minute) // past the dead worker's lease
			g.work(t)
			g.callers[0].get(t, "/v1/payments/"+p.ID).wantState(t, "CAPTURED", 10000, 0)
			g.callers[0].wantCAP10(t, p.ID)
		}
		g.wantInbox(t, shard.InboxApplied, hookRounds)
		if got := g.tally(); got != (tally{Authorized: hookRounds, Charges: hookRounds, Calls: hookRounds}) {
			t.Errorf("the PSP saw %+v", got)
		}
		g.always(t)
	})
}

// TestC031: one event delivered three times at once, to three routers with three workers; later once more, and under a new ID.
func TestC031(t *testing.T) {
	inBothLevels(t, gridOptions{Routers: 3, CheckAfter: 24 * time.Hour}, func(t *testing.T, g *testGrid) {
		names := []string{"generic", "stripe"}
		var bodies, twins []string
		for n := range hookRounds {
			name, write := fmt.Sprintf("c031-%d", n), shapes[names[n%2]]
			p := g.callers[0].pay(t, "k-"+name, p10("o-"+name, "pm_pending", "automatic")).want(t, http.StatusAccepted)
			attempt, ref := g.attemptOf(t, g.Sim.Books(), p.ID)
			if !g.Sim.Settle(ref, true) {
				t.Fatalf("%s was not pending", ref)
			}
			body, at := write("evt_"+name, ref, attempt, 10000, "eur"), g.clock.now()
			together(3, func(i int) { g.callers[i].hookS(t, at, body) })
			together(3, func(i int) { g.apply(t, i, fmt.Sprint("worker-", i)) })
			g.callers[1].get(t, "/v1/payments/"+p.ID).wantState(t, "CAPTURED", 10000, 0)
			g.callers[1].wantCAP10(t, p.ID)
			bodies, twins = append(bodies, body), append(twins, write("evt_"+name+"-new", ref, attempt, 10000, "eur"))
		}
		g.wantInbox(t, shard.InboxApplied, hookRounds)
		g.clock.advance(10 * time.Minute)
		for n := range bodies {
			g.callers[n%3].hookS(t, g.clock.now(), bodies[n])
			g.callers[n%3].hookS(t, g.clock.now(), twins[n])
		}
		g.apply(t, 0, "late")
		g.wantInbox(t, shard.InboxApplied, 2*hookRounds)
		g.wantEvents(t, "payment.captured", hookRounds)
		g.wantBalances(t, cap10.times(hookRounds))
	})
}

// TestC035: a true event that does not fit: amount, currency, amount again, mode, account; and then one that fits.
func TestC035(t *testing.T) {
	inBothLevels(t, gridOptions{CheckAfter: 24 * time.Hour}, func(t *testing.T, g *testGrid) {
		for name, write := range shapes {
			t.Run(name, func(t *testing.T) { c035(t, g, name, write) })
		}
		t.Run("adyen", func(t *testing.T) { c035Account(t, g) })
		g.wantInbox(t, shard.InboxMisfit, 6)
		g.wantInbox(t, shard.InboxIgnored, 3)
		g.wantInbox(t, shard.InboxApplied, 3)
	})
}

func c035(t *testing.T, g *testGrid, name string, write shape) {
	c, entries := g.callers[0], g.sum(t, `SELECT count(*) FROM journal_entries`)
	p := c.pay(t, "k-c035-"+name, p10("o-c035-"+name, "pm_pending", "automatic")).want(t, http.StatusAccepted)
	attempt, ref := g.attemptOf(t, g.Sim.Books(), p.ID)
	event := func(letter string, amount int64, currency string) string {
		return write("evt_c035"+letter+name, ref, attempt, amount, currency)
	}
	c.hookS(t, g.clock.now(), event("a", 1000, "eur"))
	c.hookS(t, g.clock.now(), event("b", 10000, "usd"))
	c.hookS(t, g.clock.now(), event("c", 9999, "eur"))
	c.hookS(t, g.clock.now(), strings.Replace(event("d", 10000, "eur"), `"livemode":true`, `"livemode":false`, 1))
	g.work(t)
	c.get(t, "/v1/payments/"+p.ID).wantState(t, "PROCESSING", 0, 0)
	if n := g.sum(t, `SELECT count(*) FROM journal_entries`); n != entries {
		t.Errorf("%d entries were posted", n-entries)
	}
	shown := g.exceptions(t)
	for letter, reason := range map[string]string{"a": "AMOUNT_MISMATCH", "b": "CURRENCY_MISMATCH", "c": "AMOUNT_MISMATCH"} {
		if x := shown["evt_c035"+letter+name]; x.State != shard.InboxMisfit || !strings.HasPrefix(x.Reason, reason) {
			t.Errorf("(%s): want %s, got %s %q", letter, reason, x.State, x.Reason)
		}
	}
	if _, ok := shown["evt_c035d"+name]; ok {
		t.Error("(d) is shown as an exception of the payment")
	}
	if !g.Sim.Settle(ref, true) {
		t.Errorf("%s was not pending", ref)
	}
	c.hookS(t, g.clock.now(), event("right", 10000, "eur"))
	g.work(t)
	c.get(t, "/v1/payments/"+p.ID).wantState(t, "CAPTURED", 10000, 0)
	c.wantCAP10(t, p.ID)
}

// c035Account is (e), and its right notice afterwards.
func c035Account(t *testing.T, g *testGrid) {
	c := g.callers[1]
	p := c.pay(t, "k-c035e", p10Adyen("o-c035e", "pm_pending", "automatic")).want(t, http.StatusAccepted)
	attempt, ref := g.attemptOf(t, g.Adyen.Books(), p.ID)
	n := adyenNotice{ref, "", "OtherShop", attempt, 10000, "EUR", "AUTHORISATION", "true"}
	c.hookA(t, n)
	g.work(t)
	c.get(t, "/v1/payments/"+p.ID).wantState(t, "PROCESSING", 0, 0)
	if !g.Adyen.Settle(ref, true) {
		t.Errorf("%s was not pending", ref)
	}
	// The same three words make the same event at Adyen, but for another account it would be another's: here it is the
	// notice of the capture that comes.
	n.account, n.event = devMerchant, "CAPTURE"
	c.hookA(t, n)
	g.work(t)
	c.get(t, "/v1/payments/"+p.ID).wantState(t, "CAPTURED", 10000, 0)
	c.wantLines(t, p.ID, 1, at10("adyen"))
}

// TestC036: an old attempt's bad news about a new attempt's good money. The notices name their attempts by the PSP's
// references; the merchant's is the order's, as in the case, or ours, as we send it.
func TestC036(t *testing.T) {
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		for _, ours := range []bool{false, true} {
			c036(t, g, fmt.Sprintf("c036-%t", ours), ours)
		}
		if n := g.sum(t, `SELECT count(*) FROM webhook_inbox`); n != 6 {
			t.Errorf("%d notices are stored", n)
		}
	})
}

func c036(t *testing.T, g *testGrid, name string, ours bool) {
	c := g.callers[0]
	declined := c.pay(t, "k-1"+name, p10Adyen("o-"+name, "pm_decline", "automatic")).want(t, http.StatusPaymentRequired)
	paid := c.pay(t, "k-2"+name, p10Adyen("o-"+name, "pm_ok", "automatic")).want(t, http.StatusCreated)
	first, second := g.story(t, declined.ID).Attempts[0], g.story(t, paid.ID).Attempts[0]
	if first.PSPRef == "" || second.PSPRef == "" {
		t.Fatalf("no reference: %+v, %+v", first, second)
	}
	reference := func(attempt string) string {
		if ours {
			return attempt
		}
		return "o-" + name
	}
	for _, n := range []adyenNotice{
		{second.PSPRef, "", devMerchant, reference(second.ID), 10000, "EUR", "AUTHORISATION", "true"},
		{first.PSPRef, "", devMerchant, reference(first.ID), 10000, "EUR", "AUTHORISATION", "false"},
		{first.PSPRef + "b", first.PSPRef, devMerchant, reference(first.ID), 10000, "EUR", "CANCELLATION", "true"},
	} {
		c.hookA(t, n)
		g.work(t)
	}
	c.get(t, "/v1/payments/"+declined.ID).wantState(t, "DECLINED", 0, 0)
	c.get(t, "/v1/payments/"+paid.ID).wantState(t, "CAPTURED", 10000, 0)
	c.wantLines(t, paid.ID, 1, at10("adyen"))
	c.wantLines(t, declined.ID, 0, lines{})
	if ours {
		for attempt, want := range map[string]int64{first.ID: 2, second.ID: 1} {
			if n := g.sum(t, `SELECT count(*) FROM webhook_inbox WHERE attempt_id = $1`, attempt); n != want {
				t.Errorf("%d notices are stored against %s, want %d", n, attempt, want)
			}
		}
	}
	for id, events := range map[string]int{declined.ID: 2, paid.ID: 2} {
		if x := g.story(t, id); len(x.Events) != events {
			t.Errorf("%s: events %+v", id, x.Events)
		}
	}
}
