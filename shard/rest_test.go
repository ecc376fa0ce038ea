package shard

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// rested is how long a lane rests after a turn that took so long; meanwhile happens during the rest.
func rested(t *testing.T, l *lanes, took time.Duration, meanwhile func()) time.Duration {
	t.Helper()
	start := time.Now()
	go meanwhile()
	l.rest(took)
	return time.Since(start)
}

// TestRest: a rest follows the length of the turn, has a longest, and ends when enough wait or the lane is closed.
func TestRest(t *testing.T) {
	for name, c := range map[string]struct {
		took    time.Duration
		waiting int
		closed  bool
		arrive  int // after a millisecond
		stale   bool
		want    time.Duration
	}{
		"a short turn":               {took: time.Millisecond, want: restFactor * time.Millisecond},
		"a long turn":                {took: time.Second, want: longestRest},
		"no time at all":             {want: 0},
		"some wait":                  {took: 5 * time.Millisecond, waiting: enough - 1, want: restFactor * 5 * time.Millisecond},
		"enough wait":                {took: 5 * time.Millisecond, waiting: enough, want: 0},
		"enough come":                {took: 5 * time.Millisecond, waiting: enough - 3, arrive: 3, want: time.Millisecond},
		"some come":                  {took: 5 * time.Millisecond, arrive: 3, want: restFactor * 5 * time.Millisecond},
		"the lane was closed":        {took: 5 * time.Millisecond, closed: true, want: 0},
		"a crowd of an earlier turn": {took: 5 * time.Millisecond, stale: true, want: restFactor * 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := idle(64)
				l.closed = c.closed
				l.changes = make([]waiting[change], c.waiting)
				if c.stale {
					put(l.crowd)
				}
				ctx, cancel := context.WithCancel(context.Background())
				var callers sync.WaitGroup
				got := rested(t, l, c.took, func() {
					<-time.After(time.Millisecond)
					for range c.arrive {
						callers.Go(func() { _ = l.store(ctx, notice{}) })
					}
				})
				if got != c.want {
					t.Errorf("rested %v, want %v", got, c.want)
				}
				synctest.Wait()
				<-time.After(time.Millisecond)
				cancel()
				callers.Wait()
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // an end during the rest
		l := idle(64)
		if got := rested(t, l, time.Second, func() { l.stop() }); got != 0 {
			t.Errorf("a lane that was closed meanwhile rested %v", got)
		}
	})
}
