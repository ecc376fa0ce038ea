package payment

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paygrid/psprouter/adyen"
	"paygrid/psprouter/simulator"
	"paygrid/psprouter/stripe"
	"paygrid/shard"
)

var (
	simCount = flag.Int("sim.n", 0, "how many histories TestSimulation runs; 0 = 10000, or 500 with -short")
	simSeed  = flag.Uint64("sim.seed", 0, "the seed of the only history that TestSimulation runs; 0 = all of them")
)

// simWorkers is how many histories run at once.
const simWorkers = 2

// simulate runs histories with the seeds from first on and returns the first that is wrong, nil if none is, and what they met.
func simulate(first uint64, n int, on opener, p plant) (map[string]int, error) {
	met := map[string]int{}
	var next atomic.Uint64
	var mu sync.Mutex
	var failed error
	var workers sync.WaitGroup
	for range simWorkers {
		workers.Go(func() {
			for {
				seed := first + next.Add(1) - 1
				mu.Lock()
				stop := failed != nil || seed >= first+uint64(n)
				mu.Unlock()
				if stop {
					return
				}
				one, err := history(seed, on, p)
				mu.Lock()
				for what, times := range one {
					met[what] += times
				}
				if err != nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return met, failed
}

// history plays one seed: steps with faults, then time runs on with everything healthy, then all books are compared.
func history(seed uint64, on opener, p plant) (map[string]int, error) {
	w, err := newWorld(seed, on, p)
	if err != nil {
		return nil, err
	}
	for range 10 + w.random.IntN(30) {
		w.step()
	}
	w.settles()
	w.verifies()
	if len(w.broken) == 0 {
		return w.met, nil
	}
	return w.met, fmt.Errorf("seed %d (replay it with: make sim SEED=%d):\n%s\n\n%s", seed, seed, strings.Join(w.broken, "\n"), strings.Join(w.trace, "\n"))
}

// settles lets time run on until nothing moves any more: the PSPs answer, every notice comes, the workers work.
func (w *world) settles() {
	w.faulty = false
	w.note("everything is well from here on")
	w.release()
	for _, name := range []string{adyen.Name, stripe.Name} {
		_ = w.psps[name].Outage(0, "503")
	}
	const rounds, quietRounds = 40, 3
	for n, quiet := 0, 0; n < rounds && quiet < quietRounds; n++ {
		if quiet == 1 {
			w.clock.pass(longestRetry) // a notice that was early is looked at again
		}
		w.clock.pass(longestRecheck + time.Minute)
		quiet++
		if w.round() > 0 {
			quiet = 0
		}
	}
	w.ledger()
}

// round ends what waits at the PSPs, lets every notice come and the workers work, and counts what that changed.
func (w *world) round() int {
	moved, before := 0, w.commits
	for _, name := range []string{adyen.Name, stripe.Name} {
		open, _ := w.openAt(name)
		for _, id := range open {
			w.note("%s settles %s: %t", name, id, w.psps[name].Settle(id, w.random.IntN(2) == 0))
			moved++
		}
		moved += w.psps[name].Redeliver("all")
	}
	moved += w.deliver()
	w.applyNotices()
	for w.resolve() > 0 {
	}
	return moved + w.commits - before
}

// verifies compares the books of both PSPs, the shards and the clients.
func (w *world) verifies() {
	r, err := Verify(w.ctx, w.store, w.moved())
	if err != nil {
		w.wrong("verify: %v", err)
		return
	}
	for _, f := range r.Findings {
		w.wrong("%s at %s: %s", f.Invariant, f.Where, f.Detail)
	}
	if !r.Pass() && len(r.Findings) == 0 {
		w.wrong("the verdict is %+v", r)
	}
	w.unknowns()
	w.chargedOnce()
	w.repeats()
}

// unknowns: nothing is pending that the PSP could tell.
func (w *world) unknowns() {
	known := map[string]bool{}
	for _, name := range []string{adyen.Name, stripe.Name} {
		for _, p := range w.psps[name].Books().Payments {
			for _, call := range p.Calls {
				known[call.Key] = known[call.Key] || call.Executed
			}
		}
	}
	for _, name := range w.store.ShardNames() {
		_ = w.store.Walk(w.ctx, name, func(span shard.Span) error {
			for _, a := range span.Attempts {
				if a.Status == Pending && known[a.ID] {
					w.wrong("%s %s is pending at %s, which knows how it went: %s", a.Kind, a.ID, a.PSP, a.Detail)
				}
			}
			return nil
		})
	}
}

// chargedOnce: of the attempts of one payment one PSP approved one at most, even if the other was given back.
func (w *world) chargedOnce() {
	payments, approved := map[string]string{}, map[string]int{}
	for _, name := range w.store.ShardNames() {
		_ = w.store.Walk(w.ctx, name, func(span shard.Span) error {
			for _, a := range span.Attempts {
				payments[a.ID] = a.PaymentID
			}
			return nil
		})
	}
	for _, m := range w.moved() {
		id := payments[m.Attempt]
		if approved[id] += m.Charges; approved[id] > 1 {
			w.wrong("payment %s was approved %d times", id, approved[id])
		}
	}
}

// A few hundred of the same histories on real databases.
func TestSimulationOnDatabases(t *testing.T) {
	n := 200
	if testing.Short() {
		n = 20
	}
	places := make(chan struct{}, simWorkers)
	for seed := range uint64(n) {
		t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			layout := databases.Layout(t, 1)
			open := func(clock func() time.Time) worldStore {
				return layout.Open(t, shard.Options{Now: clock, Lanes: 1, Serializable: seed%2 == 1})
			}
			if _, err := history(seed+1, open, plant{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// repeats asks every question again: who heard an end hears it again.
func (w *world) repeats() {
	before := w.calls
	for _, r := range w.asked {
		if r.first != nil {
			w.send(r)
		}
	}
	if w.calls != before {
		w.wrong("repeated keys made %d calls to the PSPs", w.calls-before)
	}
}

// Ten thousand histories keep every promise.
func TestSimulation(t *testing.T) {
	first, n := uint64(1), 10_000
	if testing.Short() {
		n = 500
	}
	if *simCount > 0 {
		n = *simCount
	}
	if *simSeed > 0 {
		first, n = *simSeed, 1
	}
	met, err := simulate(first, n, nil, plant{})
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range slices.Sorted(maps.Keys(met)) {
		t.Logf("%7d  %s", met[what], what)
	}
	if n >= 10_000 {
		wantMet(t, met)
	}
}

// wantMet holds that the histories met every event, every point and every fault.
func wantMet(t *testing.T, met map[string]int) {
	t.Helper()
	for _, transition := range Transitions() {
		if transition.On != OnEntryReversed && met[transition.Emits] == 0 {
			t.Errorf("no history emitted %s", transition.Emits)
		}
	}
	for _, p := range Points() {
		if met["dies at "+string(p)] == 0 {
			t.Errorf("no process died at %s", p)
		}
	}
	for _, fault := range slices.Concat(simulator.DefaultFaultSet(), rareFaults) {
		if met["fault "+fault] == 0 {
			t.Errorf("no call met %s", fault)
		}
	}
}
