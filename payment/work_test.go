package payment

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"paygrid/psprouter"
	"paygrid/shard"
	"paygrid/shard/model"
)

// leased counts how often a lease is asked for.
type leased struct {
	*model.Store
	asked *atomic.Int64
}

func (l leased) Lease(ctx context.Context, shardName, name, owner string, ttl time.Duration) (int64, bool, error) {
	l.asked.Add(1)
	return l.Store.Lease(ctx, shardName, name, owner, ttl)
}

// worker is a worker on a model, with time as it is in the test's bubble, and the count of its questions for leases.
func worker(t *testing.T, store *model.Store, owner string) (Work, *atomic.Int64) {
	t.Helper()
	asked := new(atomic.Int64)
	s, err := New(leased{store, asked}, psprouter.NewRouter(), Config{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return Work{Service: s, Owner: owner, Every: 250 * time.Millisecond}, asked
}

func newModel(t *testing.T) *model.Store {
	t.Helper()
	store, err := model.New(model.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// Rounds that find nothing, or fail, come at their interval; after one that did something the next comes soon, and after one
// that did all it could, at once.
func TestRoundsFollowTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := worker(t, newModel(t), "w")
		start := time.Now()
		var began []time.Duration
		did := []int{0, 3, 10, 10, 3, 0, -1, 0}
		ctx, cancel := context.WithCancel(t.Context())
		w.runJob(ctx, "shard-1", job{name: "j", every: time.Second, busy: 100 * time.Millisecond, full: 10,
			do: func(context.Context, string) (int, error) {
				began = append(began, time.Since(start))
				n := did[len(began)-1]
				switch {
				case len(began) == len(did):
					cancel()
				case n < 0:
					return 10, errors.New("planned")
				case len(began) == 5:
					<-time.After(300 * time.Millisecond) // a round longer than the pause
				}
				return n, nil
			}})
		want := []time.Duration{1000, 2000, 2100, 2100, 2100, 2400, 3400, 4400}
		for n := range want {
			want[n] *= time.Millisecond
		}
		if !slices.Equal(began, want) {
			t.Errorf("rounds began at %v, want %v", began, want)
		}
	})
}

// idle is a job that counts its rounds and finds nothing to do.
func idle(rounds *atomic.Int64) job {
	return job{name: "j", every: 250 * time.Millisecond, busy: 250 * time.Millisecond, full: 10, lease: shortestLease,
		do: func(context.Context, string) (int, error) { rounds.Add(1); return 0, nil }}
}

// A lease is renewed when a third of its time is over, and not asked for in between. Another worker asks now and then, and has it
// soon after the first has stopped.
func TestLeasesAreAskedForNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newModel(t)
		one, askedByOne := worker(t, store, "one")
		two, askedByTwo := worker(t, store, "two")
		var roundsOfOne, roundsOfTwo atomic.Int64
		work, stop := context.WithCancel(t.Context())
		go one.runJob(work, "shard-1", idle(&roundsOfOne))
		<-time.After(time.Millisecond)
		go two.runJob(t.Context(), "shard-1", idle(&roundsOfTwo))

		<-time.After(10 * time.Minute)
		synctest.Wait()
		if n, m := askedByOne.Load(), askedByTwo.Load(); n != 120 || m != 300 || roundsOfOne.Load() != 2400 || roundsOfTwo.Load() != 0 {
			t.Errorf("in ten minutes the holder asked %d times for %d rounds, the other %d times for %d", n, roundsOfOne.Load(), m, roundsOfTwo.Load())
		}
		stop()
		<-time.After(leaseTry + 250*time.Millisecond)
		synctest.Wait()
		if roundsOfTwo.Load() == 0 {
			t.Error("nobody took over from the worker that stopped")
		}
	})
}

// A worker that died is followed by another soon after its lease has run out.
func TestLeaseOfADeadWorkerRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newModel(t)
		var rounds atomic.Int64
		if _, held, err := store.Lease(t.Context(), "shard-1", "j", "dead", shortestLease); !held || err != nil {
			t.Fatal(held, err)
		}
		w, _ := worker(t, store, "w")
		go w.runJob(t.Context(), "shard-1", idle(&rounds))
		<-time.After(shortestLease - time.Millisecond)
		synctest.Wait()
		if rounds.Load() != 0 {
			t.Errorf("%d rounds under another's lease", rounds.Load())
		}
		<-time.After(leaseTry + 250*time.Millisecond)
		synctest.Wait()
		if rounds.Load() == 0 {
			t.Error("nobody took over")
		}
	})
}

// A worker that was told that another holds a lease, and one that holds it, ask again although the clock is set back by an hour.
func TestLeasesAreAskedForWhenTheClockIsSetBack(t *testing.T) {
	for name, first := range map[string]string{"another held it": "other", "it held it": "w"} {
		t.Run(name, func(t *testing.T) {
			now := noon
			clock := func() time.Time { return now }
			store, err := model.New(model.Options{Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			w, asked := worker(t, store, "w")
			w.Service.config.Now = clock
			if _, held, err := store.Lease(t.Context(), "shard-1", "j", first, shortestLease); !held || err != nil {
				t.Fatal(held, err)
			}
			var rounds atomic.Int64
			var lease tenure
			round := func() {
				if _, err := w.round(t.Context(), "shard-1", idle(&rounds), &lease); err != nil {
					t.Fatal(err)
				}
			}
			round()
			now = now.Add(-time.Hour)
			if _, _, err := store.Lease(t.Context(), "shard-1", "j", first, 0); err != nil { // it is given up
				t.Fatal(err)
			}
			before := rounds.Load()
			round()
			if asked.Load() != 2 || rounds.Load() != before+1 {
				t.Errorf("asked %d times, %d rounds after the clock was set back", asked.Load(), rounds.Load()-before)
			}
			round()
			if asked.Load() != 2 {
				t.Errorf("asked %d times: in each round, not once", asked.Load())
			}
		})
	}
}

// obstinate is a store that fails some changes.
type obstinate struct {
	*model.Store
	apply func(shard.Change) error
}

func (o obstinate) Apply(ctx context.Context, c shard.Change) error {
	if err := o.apply(c); err != nil {
		return err
	}
	return o.Store.Apply(ctx, c)
}

// scripted is a PSP that answers an authorization as the test says.
type scripted struct {
	psprouter.PSP
	authorize func() psprouter.Outcome
}

func (p scripted) Authorize(context.Context, psprouter.AuthorizeRequest) psprouter.Outcome {
	return p.authorize()
}

// One authorization that cannot be ended holds up neither the others nor the gauges; a shard without an answer ends the round.
func TestOneThatCannotEndHoldsUpNoOther(t *testing.T) {
	refused := &shard.RefusedError{SQLState: "23514"}
	for name, c := range map[string]struct {
		fails       error
		first       int // how many of the first fail
		ended, left int
	}{
		"one is refused":              {refused, 1, 4, 1},
		"many are refused":            {refused, expireLost + 1, 1, expireLost + 1},
		"one has no answer":           {shard.ErrUnavailable, 1, 4, 1},
		"the shard gives no answer":   {shard.ErrInDoubt, 5, 0, 5},
		"its first answers come late": {shard.ErrUnavailable, expireLost, 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			now, failing := noon, map[string]bool{}
			clock := func() time.Time { return now }
			store, err := model.New(model.Options{Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			tries := 0
			psp := scripted{choice().PSP, func() psprouter.Outcome { return psprouter.ApprovedAs("pi_1") }}
			s, err := New(obstinate{store, func(change shard.Change) error {
				if change.Payment.Status != Expired {
					return nil
				}
				if tries++; failing[change.Payment.ID] {
					return c.fails
				}
				return nil
			}}, psprouter.NewRouter(psp), Config{Now: clock})
			if err != nil {
				t.Fatal(err)
			}
			const payments = 5
			for n := range payments {
				now = now.Add(time.Second)
				answer, err := s.Authorize(t.Context(), p10(string(rune('a'+n)), "pm_ok", Manual))
				if err != nil {
					t.Fatal(err)
				}
				failing[answer.PaymentID] = n < c.first
			}
			now = now.Add(2 * lifetime)
			ended, err := s.keepLedgerOn(t.Context(), "shard-1")
			left, err2 := store.Expired(t.Context(), "shard-1", now, payments)
			if ended != c.ended || len(left) != c.left || !errors.Is(err, c.fails) || err2 != nil {
				t.Errorf("%d are ended and %d left, %v, %v", ended, len(left), err, err2)
			}
			if c.fails != refused && tries > c.ended+expireLost {
				t.Errorf("%d tries at a shard that gives no answer", tries)
			}
			told := make(chan prometheus.Metric, 8)
			if s.metrics.inbox.Collect(told); len(told) != 1 {
				t.Errorf("%d gauges of the inbox are told", len(told))
			}
		})
	}
}

// inParallel does each thing once, by as many workers as there may be, and not without the caller.
func TestInParallel(t *testing.T) {
	for _, c := range []struct{ workers, n int }{{1, 0}, {1, 5}, {3, 2}, {4, 100}} {
		done := make([]atomic.Int64, c.n)
		var now, most atomic.Int64
		inParallel(c.workers, c.n, func(n int) {
			for at := now.Add(1); ; {
				before := most.Load()
				if at <= before || most.CompareAndSwap(before, at) {
					break
				}
			}
			done[n].Add(1)
			now.Add(-1)
		})
		for n := range done {
			if done[n].Load() != 1 {
				t.Errorf("%+v: thing %d was done %d times", c, n, done[n].Load())
			}
		}
		if most.Load() > int64(c.workers) || now.Load() != 0 {
			t.Errorf("%+v: %d at a time, %d not back", c, most.Load(), now.Load())
		}
	}
}
