package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"paygrid/psprouter/simulator"
)

// TestStoryOfAnUnknown: paygrid explain tells of an unknown payment from the lost answer to its end: what was not answered,
// how often and in vain it was asked about, what was found, what that posted, and the notice that came last.
func TestStoryOfAnUnknown(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Routers: 1, Webhooks: true})
	c := g.callers[0]
	if err := g.Sim.Script("webhook", "webhook_dropped", "", 1); err != nil {
		t.Fatal(err)
	}
	if err := g.Sim.Script("authorize", "hidden_600s", "", 1); err != nil {
		t.Fatal(err)
	}
	order := p10("o-story", "pm_ok", "automatic")
	id := c.pay(t, "k-story", order).want(t, http.StatusAccepted).ID
	g.tells(t, id, "state", "AUTH_PENDING", "captured 0", "attempts", "AUTHORIZE", "PENDING", "UNKNOWN", "said", "EOF", "next check", "entries", "events", "payment.processing")

	g.clock.advance(2 * time.Minute)
	g.work(t)
	g.tells(t, id, "AUTH_PENDING", "PENDING", "search does not know the attempt", "checked", "1 times", "next check")

	if err := g.Sim.Outage(time.Hour, simulator.Outage503); err != nil {
		t.Fatal(err)
	}
	g.clock.advance(5 * time.Minute)
	g.work(t)
	g.tells(t, id, "AUTH_PENDING", "PENDING", "the look-up was answered with", "checked", "2 times")

	if err := g.Sim.Outage(0, simulator.Outage503); err != nil {
		t.Fatal(err)
	}
	g.clock.advance(10 * time.Minute)
	g.work(t)
	g.Sim.Redeliver("all")
	g.settled(t)
	attempt := g.story(t, id).Attempts[0].ID
	g.tells(t, id, "CAPTURED", "captured 10000", "psp", "stripe pi_", "AUTHORIZE", "10000", "SUCCEEDED", attempt, "checked", "2 times",
		"notices", "payment_intent.succeeded", "APPLIED", "evt_", attempt, "entries", "psp_receivable:stripe", "+10000", "seller_payable:s-ann", "-6300",
		"seller_payable:s-bob", "-2550", "commission_revenue", "-1150", "events", "payment.processing", "payment.captured", "evt_")
	c.pay(t, "k-story", order).want(t, http.StatusCreated).wantState(t, "CAPTURED", 10000, 0)
	g.always(t)
}

// tells runs paygrid explain and looks for texts, in their order.
func (g *testGrid) tells(t *testing.T, id string, texts ...string) {
	t.Helper()
	code, page, errs := paygrid(t, "explain", "--map", g.MapPath, id)
	rest := page
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			t.Errorf("no %q, in this place, in\n%s", text, page)
			return
		}
		rest = after
	}
	if code != exitOK || errs != "" {
		t.Errorf("exit code %d, %s", code, errs)
	}
}
