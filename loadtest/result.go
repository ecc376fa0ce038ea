package loadtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Result is what a run saw.
type Result struct {
	Orders   []*Order
	Took     time.Duration          // of the journeys alone
	Answers  map[Answer]int         // how often each was given
	Latency  map[Op][]time.Duration // of whole requests, as the caller saw them, in no order
	Retries  int                    // calls that a router could not take
	Findings []Finding              // at most maxFindings
	Found    int                    // all of them
}

// Answer is a kind of answer: the HTTP status, and the resource's status or the problem's code.
type Answer struct {
	Status int
	Word   string
}

func newResult(orders []*Order) Result {
	return Result{Orders: orders, Answers: map[Answer]int{}, Latency: map[Op][]time.Duration{}}
}

// count notes an answer. Only the journeys' own calls count, no reads and replays.
func (r *Runner) count(op Op, a *answer) {
	if r.Progress().Phase != "pay" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Answers[Answer{a.status, a.resource.word()}]++
	r.result.Latency[op] = append(r.result.Latency[op], a.took)
}

func (r *Runner) retried() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Retries++
}

func (r *Runner) find(o *Order, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.find(o, detail)
}

func (r *Result) find(o *Order, detail string) {
	o.Findings++
	r.Found++
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, Finding{Payment: o.paymentID, Order: o.ID, Journey: o.Journey.Name, Detail: detail})
	}
}

// Tally is how the journeys of one name went.
type Tally struct {
	Journey  string `json:"journey"`
	Payments int    `json:"payments"`
	OK       int    `json:"ok"`
}

// Tallies counts the orders by journey, in the order of Journeys.
func (r *Result) Tallies() []Tally {
	at := map[string]int{}
	var out []Tally
	for _, j := range Journeys() {
		at[j.Name] = len(out)
		out = append(out, Tally{Journey: j.Name})
	}
	for _, o := range r.Orders {
		t := &out[at[o.Journey.Name]]
		t.Payments++
		if o.Findings == 0 {
			t.OK++
		}
	}
	return slices.DeleteFunc(out, func(t Tally) bool { return t.Payments == 0 })
}

// Count is how often something was done.
type Count struct {
	Name  string `json:"name"`
	Times int    `json:"times"`
}

// Faults counts what was done to the calls, by name.
func (r *Result) Faults() []Count {
	counts := map[string]int{}
	r.calls(func(_ *Order, c *Call) {
		if fault := ends[c.Step.End].fault; fault != "" {
			counts[fault]++
		}
		if c.Step.HangUp {
			counts["caller hung up"]++
		}
		if c.Twice {
			counts["key sent twice at once, to two routers"]++
		}
	})
	return sorted(counts)
}

func sorted(counts map[string]int) []Count {
	var out []Count
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, Count{name, counts[name]})
	}
	return out
}

func (r *Result) calls(visit func(*Order, *Call)) {
	for _, o := range r.Orders {
		for i := range o.Calls {
			visit(o, &o.Calls[i])
		}
	}
}

// Pending is how many attempts must have no outcome: those that nobody knows of, and those that wait for their buyer.
func (r *Result) Pending() (unknown, buyers int) {
	r.calls(func(_ *Order, c *Call) {
		switch {
		case c.Step.End == BuyerActs:
			buyers++
		case ends[c.Step.End].open:
			unknown++
		}
	})
	return unknown, buyers
}

// Replays is how many keys were sent again when all was done.
func (r *Result) Replays() (n int) {
	r.calls(func(_ *Order, c *Call) {
		if c.Again && c.answer != nil {
			n++
		}
	})
	return n
}

// CompareWitness holds what each payment must have moved at the PSP, its fault considered, against what the PSP says, by
// payment ID. What the PSP does not name must not have moved anything; what no order names must not be there.
func (r *Result) CompareWitness(says map[string]Witness) {
	left := maps.Clone(says)
	for _, o := range r.Orders {
		got, want := says[o.paymentID], o.Final.Witness
		delete(left, o.paymentID)
		got.Currency = cmp.Or(got.Currency, want.Currency)
		if got != want {
			r.find(o, fmt.Sprintf("the PSP has %+v, want %+v", got, want))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		r.find(&Order{paymentID: id}, fmt.Sprintf("the PSP has %+v for a payment that nobody ordered", left[id]))
	}
}
