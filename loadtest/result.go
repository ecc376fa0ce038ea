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
	if op == uncounted || r.Progress().Phase != phasePay {
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
	OK       int    `json:"ok"`   // nothing is other than it must be
	Left     int    `json:"left"` // … but the PSP's faults ended the journey early
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
		if last := o.last(); last != nil && (o.GaveUp || last.End != last.Step.End || o.steps() < len(o.Journey.Steps)) {
			t.Left++
		}
	}
	return slices.DeleteFunc(out, func(t Tally) bool { return t.Payments == 0 })
}

// Count is how often something was done.
type Count struct {
	Name  string `json:"name"`
	Times int    `json:"times"`
}

// steps is how many steps of its journey the order has gone.
func (o *Order) steps() (n int) {
	for _, c := range o.Calls {
		if c.End == c.Step.End {
			n++
		}
	}
	return n
}

// Faults counts what the shops did to their own calls, by name.
func (r *Result) Faults() []Count {
	counts := map[string]int{}
	r.calls(func(_ *Order, c *Call) {
		if c.Step.HangUp {
			counts["shop hangs up"]++
		}
		if c.Twice && c.Step.Op != Return && c.Step.Op != Act {
			counts["shop sends a key to two routers at once"]++
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

// Pending is how many calls have no outcome, and how many payments wait for a buyer who never came.
func (r *Result) Pending() (unknown, buyers int) {
	for _, o := range r.Orders {
		switch c := o.last(); {
		case c == nil:
		case c.End == Open:
			unknown++
		case c.End == BuyerActs:
			buyers++
		}
	}
	return unknown, buyers
}

// Replays is how many keys were sent again when all was done.
func (r *Result) Replays() (n int) {
	r.calls(func(_ *Order, c *Call) {
		if c.replayed() {
			n++
		}
	})
	return n
}

// Payments is how many payments the API named, those included that were not processed.
func (r *Result) Payments() (n int) {
	for _, o := range r.Orders {
		n += len(o.Payments())
	}
	return n
}

// CompareWitness holds what each payment must have moved at its PSP against what the PSPs say, by payment ID. What they do
// not name must not have moved anything; what no order names must not be there.
func (r *Result) CompareWitness(says map[string]Witness) {
	left := maps.Clone(says)
	for _, o := range r.Orders {
		got, want := says[o.paymentID], o.State.Witness
		if want.Authorized > 0 {
			want.PSP = o.PSP
		}
		delete(left, o.paymentID)
		got.Currency = cmp.Or(got.Currency, want.Currency)
		if got != want {
			r.find(o, fmt.Sprintf("the PSPs have %+v, want %+v", got, want))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(left)) {
		r.find(&Order{paymentID: id}, fmt.Sprintf("the PSPs have %+v for a payment that nobody ordered", left[id]))
	}
}
