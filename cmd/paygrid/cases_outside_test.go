package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"paygrid/payment"
	"paygrid/psprouter/simulator"
	"paygrid/shard"
)

// captureOutside takes the money of an authorization as the PSP's own dashboard does: nobody here asked for it.
func captureOutside(t *testing.T, g *testGrid, ref string, minor int64) {
	t.Helper()
	form := url.Values{"amount_to_capture": {fmt.Sprint(minor)}}
	request, err := http.NewRequest(http.MethodPost, g.SimURL+"/v1/payment_intents/"+ref+"/capture", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth(devStripeKey, "")
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Idempotency-Key", "dashboard-"+ref)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the dashboard's capture: %s", response.Status)
	}
}

// TestC018Outside is (b) of C018: a capture that was made outside, told by a generic gateway's event or by Stripe's own; then
// a partial refund gives back its part alone.
func TestC018Outside(t *testing.T) {
	inBothLevels(t, gridOptions{Webhooks: true}, func(t *testing.T, g *testGrid) {
		for n, generic := range []bool{true, false} {
			name := fmt.Sprintf("c018-%t", generic)
			id, path := authorize10(t, g.callers[0], name)
			g.delivered(t)
			attempt, ref := g.attemptOf(t, g.Sim.Books(), id)
			if generic { // Stripe's own notice stays away
				if err := g.Sim.Script("webhook", "webhook_dropped", "", 1); err != nil {
					t.Fatal(err)
				}
				g.callers[1].hookS(t, g.clock.now(), shapes["generic"]("evt_"+name, ref, attempt, 10000, "eur"))
			}
			captureOutside(t, g, ref, 10000)
			g.delivered(t)
			g.work(t)
			g.callers[1].get(t, path).wantState(t, "CAPTURED", 10000, 0)
			g.callers[1].wantCAP10(t, id)
			g.callers[0].post(t, path+"/refunds", "k-refund", eur(300)).want(t, http.StatusCreated)
			if p := g.callers[0].get(t, path); p.Refunded != 300 || p.Refundable != 9700 {
				t.Errorf("want 300 refunded, 9700 refundable: %s", p)
			}
			if p := g.Sim.Books().Payments[n]; p.RefundedMinor != 300 || p.CapturedMinor != 10000 || p.Charges != 1 {
				t.Errorf("the PSP captured %d and refunded %d", p.CapturedMinor, p.RefundedMinor)
			}
			g.delivered(t)
			g.work(t)
		}
		g.wantInbox(t, shard.InboxMisfit, 0)
		g.wantInbox(t, shard.InboxNew, 0)
	})
}

// TestC021: it worked, and days later it did not: a refund that comes back, a capture that fails; each told twice.
func TestC021(t *testing.T) {
	eachLevel(t, func(t *testing.T, serializable bool) {
		var told alarms
		g := newGrid(t, gridOptions{Webhooks: true, Serializable: serializable, Log: told.log()})
		c021Refund(t, g)
		told.want(t, "took a success back", 1)
		c021Capture(t, g)
		told.want(t, "took a success back", 2)
		g.wantInbox(t, shard.InboxMisfit, 0)
		g.wantInbox(t, shard.InboxNew, 0)
		g.wantEvents(t, "refund.returned", 1)
		g.wantEvents(t, "payment.capture_failed", 1)
		g.wantBalances(t, lines{})
		g.always(t)
	})
}

// chargeAdyen charges the standard body at Adyen, and hears its notices.
func chargeAdyen(t *testing.T, g *testGrid, name string) (id, path, ref string) {
	t.Helper()
	p := g.callers[0].pay(t, "k-"+name, p10Adyen("o-"+name, "pm_ok", "automatic")).want(t, http.StatusCreated)
	g.settled(t)
	_, ref = g.attemptOf(t, g.Adyen.Books(), p.ID)
	return p.ID, "/v1/payments/" + p.ID, ref
}

// settled waits for the PSPs' notices and applies them.
func (g *testGrid) settled(t *testing.T) {
	t.Helper()
	g.delivered(t)
	g.apply(t, 0, "test")
}

func c021Refund(t *testing.T, g *testGrid) {
	a, b := g.callers[0], g.callers[1]
	id, path, ref := chargeAdyen(t, g, "c021")
	refund := a.post(t, path+"/refunds", "k-c021", `{"amount":{"minor":3000,"currency":"EUR"}}`).want(t, http.StatusAccepted)
	g.settled(t)
	b.get(t, path).wantState(t, "CAPTURED", 10000, 3000)
	a.post(t, path+"/refunds", "k-c021", eur(3000)).want(t, http.StatusCreated)

	modification := adyenPayment(t, g, ref).Refunds[0].Ref
	if !g.Adyen.Reverse(modification) {
		t.Fatal("the PSP has no refund to take back")
	}
	g.settled(t)
	failed := adyenNotice{modification, ref, devMerchant, "o-c021", 3000, "EUR", "REFUND_FAILED", "true"}
	for range 2 { // its signature covers eight fields: the same event, told once more under the order's reference
		b.hookA(t, failed)
		g.apply(t, 1, "again")
	}
	if p := b.get(t, path); p.Refunded != 0 || p.Refundable != 10000 {
		t.Errorf("want 10000 refundable: %s", p)
	}
	if x := g.story(t, id); len(x.Refunds) != 1 || x.Refunds[0].ID != refund.ID || x.Refunds[0].Status != "FAILED" {
		t.Errorf("want the refund FAILED: %+v", x.Refunds)
	}
	a.wantLines(t, id, 3, at10("adyen"))
	b.post(t, path+"/refunds", "k-c021b", eur(10000)).want(t, http.StatusAccepted)
	g.settled(t)
	b.post(t, path+"/refunds", "k-c021b", eur(10000)).want(t, http.StatusCreated)
	a.get(t, path).wantState(t, "REFUNDED", 10000, 10000)
	a.wantLines(t, id, 4, lines{})
}

func adyenPayment(t *testing.T, g *testGrid, ref string) simulator.PaymentBooks {
	t.Helper()
	for _, p := range g.Adyen.Books().Payments {
		if p.Ref == ref {
			return p
		}
	}
	t.Fatalf("Adyen has no payment %s", ref)
	return simulator.PaymentBooks{}
}

func c021Capture(t *testing.T, g *testGrid) {
	c := g.callers[1]
	id, path, ref := chargeAdyen(t, g, "c021b")
	if !g.Adyen.Reverse(ref) {
		t.Fatal("the PSP has no capture to take back")
	}
	g.settled(t)
	for range 2 {
		c.hookA(t, adyenNotice{"C-c021", ref, devMerchant, "o-c021b", 10000, "EUR", "CAPTURE_FAILED", "true"})
		g.apply(t, 1, "again")
	}
	c.get(t, path).wantState(t, "CAPTURE_FAILED", 0, 0)
	c.wantLines(t, id, 2, lines{})
	calls := tallyOf(g.Adyen.Books()).Calls
	for n, refused := range []string{"/refunds", "/capture"} {
		c.post(t, path+refused, fmt.Sprint("k-c021c-", n), eur(1)).wantCode(t, http.StatusConflict, payment.CodeWrongState)
	}
	if n := tallyOf(g.Adyen.Books()).Calls; n != calls {
		t.Errorf("the PSP was called %d times", n-calls)
	}
}

// amountCase is one amount, in ISO 4217 minor units and in each PSP's own; 0 = not for that PSP.
type amountCase struct {
	minor         int64
	currency      string
	stripe, adyen int64
}

// TestC025: exponents differ per PSP: on the wire, and in the webhooks back.
func TestC025(t *testing.T) {
	rows := []amountCase{
		{500, "JPY", 500, 500}, {1099, "EUR", 1099, 1099}, {5120, "KWD", 5120, 5120}, {5124, "KWD", 0, 5124}, {5, "UGX", 500, 0},
		{2790, "ISK", 279000, 279000}, {1045, "HUF", 1045, 1045}, {1500, "CLP", 1500, 150000},
	}
	inBothLevels(t, gridOptions{Webhooks: true, CheckAfter: 24 * time.Hour}, func(t *testing.T, g *testGrid) {
		c, worker := g.addNode(t, g.clock.now, func(r *routerConfig) { r.Stripe.AllowUGX = true })
		ids := map[string]amountCase{}
		for n, row := range rows {
			for psp, want := range map[string]int64{"stripe": row.stripe, "adyen": row.adyen} {
				if want > 0 {
					ids[c025(t, g, c, fmt.Sprintf("%s-%d", psp, n), psp, row, want)] = row
				}
			}
		}
		c.pay(t, "k-c025-refused", amountBody(rows[3], "stripe")).
			wantCode(t, http.StatusUnprocessableEntity, "AMOUNT_NOT_SUPPORTED_BY_PSP")
		if n := len(g.Sim.Books().Payments) + len(g.Sim.Books().Unplaced); n != len(rows)-1 {
			t.Errorf("Stripe was called %d times", n)
		}
		g.delivered(t)
		g.applyBy(t, worker, "test")
		for id, row := range ids {
			p := g.callers[1].get(t, "/v1/payments/"+id)
			p.wantState(t, "CAPTURED", row.minor, 0)
			if p.Amount.Minor != row.minor || string(p.Amount.Currency) != row.currency {
				t.Errorf("%s: the answer says %s", id, p.Amount)
			}
			g.callers[1].wantLines(t, id, 1, lines{"psp_receivable:" + p.PSP: row.minor, "seller_payable:s-ann": -row.minor})
			if n := g.sum(t, `SELECT count(*) FROM outbox WHERE payment_id = $1 AND payload->'amount'->>'minor' = $2`, id, fmt.Sprint(row.minor)); n != 3 {
				t.Errorf("%s: %d of 3 events say %d", id, n, row.minor)
			}
		}
		g.wantInbox(t, shard.InboxApplied, int64(len(ids)))
	})
}

func amountBody(row amountCase, psp string) string {
	text := p10At("o-c025", "automatic", map[string]string{psp: "pm_pending"})
	text = strings.Replace(text, `{"minor":10000,"currency":"EUR"}`, fmt.Sprintf(`{"minor":%d,"currency":%q}`, row.minor, row.currency), 1)
	before, _, _ := strings.Cut(text, `"splits":`)
	return before + `"splits":` + splitList(split("s-ann", row.minor, 0)) + "}"
}

// c025 makes a payment, looks at the amount that the PSP received, and lets the PSP take the money.
func c025(t *testing.T, g *testGrid, c caller, name, psp string, row amountCase, want int64) string {
	t.Helper()
	p := c.pay(t, "k-c025-"+name, amountBody(row, psp)).want(t, http.StatusAccepted)
	sim := map[string]*simulator.Simulator{"stripe": g.Sim, "adyen": g.Adyen}[psp]
	books := sim.Books()
	last := books.Payments[len(books.Payments)-1]
	if last.AmountPSP != want || last.AmountMinor != row.minor || last.Currency != row.currency {
		t.Errorf("%s: %d %s on the wire, by its books %d minor; want %d and %d", psp, last.AmountPSP, last.Currency, last.AmountMinor, want, row.minor)
	}
	if !sim.Settle(last.Ref, true) {
		t.Errorf("%s was not pending", last.Ref)
	}
	return p.ID
}

// TestC027Notice is (b) of C027: an event names the currency in lower case, as Stripe does.
func TestC027Notice(t *testing.T) {
	inBothLevels(t, gridOptions{Shards: 2}, func(t *testing.T, g *testGrid) {
		id, path := charge10(t, g.callers[0], "c027b")
		attempt, ref := g.attemptOf(t, g.Sim.Books(), id)
		for name, write := range shapes {
			g.callers[1].hookS(t, g.clock.now(), write("evt_c027"+name, ref, attempt, 10000, "eur"))
		}
		g.work(t)
		g.wantInbox(t, shard.InboxApplied, 2)
		g.callers[0].get(t, path).wantState(t, "CAPTURED", 10000, 0)
		g.callers[0].wantCAP10(t, id)
	})
}
