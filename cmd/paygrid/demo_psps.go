package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"paygrid/ledger"
	"paygrid/loadtest"
	"paygrid/psprouter"
	"paygrid/psprouter/simulator"
)

// The demo's limits.
const (
	maxFaults = 500
	maxOutage = time.Minute
	quietFor  = 20 * time.Second // how long notices may take once all calls have their outcome
	quietPoll = 100 * time.Millisecond
)

// demoFaults are what the PSPs' calls draw from: an answer that is lost, late or wrong, a notice that is late, doubled,
// out of order, forged or missing. None changes in the end whether the card says yes.
var demoFaults = []string{"reset_unread", "drop_before", "close_before", "drop_after", "reset_after", "reset_headers", "reset_body",
	"truncated_after", "timeout_after", "slow_1s", "hidden_1s", "429_resend", "conflict_resend",
	"503", "503", "503_bare", "500_before", "502_before", "504_before", "429", "500_after", "502_after", "504_after", "garbage_after",
	"empty_after", "redirect_after", "wrong_status", "wrong_amount", "wrong_currency", "pending_ok_1s",
	"webhook_late_2s", "webhook_early", "webhook_double", "webhook_twin", "webhook_reordered", "webhook_forged", "webhook_everywhere",
	"webhook_dropped"}

// demoGrid is a cluster with two PSPs whose background work is in a hurry: what takes minutes in production takes seconds.
func demoGrid() gridOptions {
	return gridOptions{Shards: 4, Routers: 2, Webhooks: true, WorkEvery: 200 * time.Millisecond, CheckAfter: 500 * time.Millisecond,
		Recheck: 500 * time.Millisecond, Visible: 2 * time.Second, PSPTimeout: 2 * time.Second, Rules: psprouter.Rules{
			PSPs:                   []psprouter.Rule{{Name: "stripe", Weight: 60}, {Name: "adyen", Weight: 40}},
			DeclineCostBasisPoints: -1, // many cards are declined on purpose
			Breaker:                psprouter.BreakerRules{FailureRatioPermille: 600, MinRequests: 8, WindowMS: 2_000, OpenForMS: 1_000}}}
}

// sims are the two simulators by the names of their adapters.
func (g *grid) sims() map[string]*simulator.Simulator {
	return map[string]*simulator.Simulator{"stripe": g.Sim, "adyen": g.Adyen}
}

func (g *grid) books() map[string]simulator.Books {
	out := map[string]simulator.Books{}
	for name, sim := range g.sims() {
		out[name] = sim.Books()
	}
	return out
}

func (g *grid) setFaults(perMille int) error {
	for name, sim := range g.sims() {
		if err := sim.SetFaults(perMille, demoFaults); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// breakDown begins the outage.
func (g *grid) breakDown(d time.Duration) {
	if d > 0 {
		_ = g.Sim.Outage(d, simulator.OutageReset) // the mode is a known one
	}
}

// heal ends all faults, and lets the PSPs send the notices again that did not arrive.
func (g *grid) heal(context.Context) error {
	for _, sim := range g.sims() {
		if err := sim.Outage(0, simulator.OutageReset); err != nil {
			return err
		}
		sim.Redeliver("all")
	}
	return g.setFaults(0)
}

// quiet waits until all notices are delivered and applied: the books stand still then.
func (g *grid) quiet(ctx context.Context) error {
	for end := time.Now().Add(quietFor); time.Now().Before(end); {
		waiting := 0
		for _, sim := range g.sims() {
			if b := sim.Books().Webhooks; b.Queued+b.Failed+b.Dropped > 0 {
				sim.Redeliver("all")
				waiting++
			}
		}
		for _, name := range g.Nodes[0].shards.ShardNames() {
			n, _, err := g.Nodes[0].shards.InboxLag(ctx, name)
			if err != nil {
				return err
			}
			waiting += int(n)
		}
		if waiting == 0 {
			return nil
		}
		select {
		case <-time.After(quietPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil // what still waits shows in the comparison
}

// buyer lets a payment's buyer act at its PSP. At Adyen one who comes back ends the payment by what they bring.
func (g *grid) buyer(paymentID string, well, comesBack bool) (map[string]string, error) {
	for name, b := range g.books() {
		for _, p := range b.Payments {
			switch {
			case p.Metadata["payment"] != paymentID:
			case name == "adyen" && comesBack:
				word := map[bool]string{true: "ok_", false: "fail_"}[well]
				return map[string]string{"redirectResult": word + p.Ref}, nil
			case g.sims()[name].Settle(p.Ref, well):
				return nil, nil
			}
		}
	}
	return nil, fmt.Errorf("no PSP waits for the buyer of %s", paymentID)
}

// witnessOf reads the simulators' books by our payment IDs, which stand in their metadata. What moved under no payment of
// ours, or under one twice, gets an entry of its own, which fits no order.
func witnessOf(books map[string]simulator.Books) map[string]loadtest.Witness {
	out := map[string]loadtest.Witness{}
	for psp, b := range books {
		for _, p := range b.Payments {
			if p.Authorizations == 0 && p.CapturedMinor == 0 {
				continue
			}
			id := p.Metadata["payment"]
			if _, twice := out[id]; twice || id == "" {
				id += "#" + p.Ref
			}
			out[id] = loadtest.Witness{PSP: psp, Currency: ledger.Currency(p.Currency), Authorized: p.AuthorizedMinor,
				Captured: p.CapturedMinor, Refunded: p.RefundedMinor, Voided: p.Voided}
		}
	}
	return out
}

// pspBooks reads the PSPs' own books: what each did, what went wrong on purpose, and whether a key was ever done twice.
func (r *demoReport) pspBooks(result *loadtest.Result, books map[string]simulator.Books) {
	at := map[string]int{}
	for _, o := range result.Orders {
		at[o.PSP]++
	}
	planned := cardAnswers()
	for _, name := range slices.Sorted(maps.Keys(books)) {
		b := books[name]
		p := demoPSP{PSP: name, Payments: at[name], Faults: b.Faults, Webhooks: b.Webhooks}
		p.Calls = r.callsPerKey(b)
		maps.DeleteFunc(p.Faults, func(fault string, _ int) bool { return planned[fault] })
		for _, times := range p.Faults {
			p.Faulty += times
		}
		if b.Webhooks.Forgeries.Accepted > 0 {
			r.find("%s: %d forged webhooks were accepted", name, b.Webhooks.Forgeries.Accepted)
		}
		r.FaultCount += p.Faulty
		r.PSPCalls += p.Calls
		r.PSPs = append(r.PSPs, p)
	}
}

// cardAnswers are the entries of the fault table that are no faults: what cards and buyers say.
func cardAnswers() map[string]bool {
	out := map[string]bool{}
	for _, f := range simulator.Faults() {
		if f.Group == "card" {
			out[f.Name] = true
		}
	}
	return out
}

// callsPerKey finds idempotency keys under which the PSP did something more than once, and counts its calls.
func (r *demoReport) callsPerKey(b simulator.Books) (calls int) {
	executed := map[string]int{}
	count := func(list []simulator.CallBooks) {
		for _, c := range list {
			calls++
			if c.Executed {
				executed[c.Key]++
			}
		}
	}
	for _, p := range b.Payments {
		count(p.Calls)
	}
	count(b.Unplaced)
	for key, times := range executed {
		if times > 1 {
			r.DoubleCharges++
			r.find("attempt %s: the PSP did it %d times", key, times)
		}
	}
	return calls
}
