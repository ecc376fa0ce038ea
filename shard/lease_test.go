package shard_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paygrid/shard"
)

// clock is a clock that a test moves.
type clock struct{ at atomic.Pointer[time.Time] }

func newClock() *clock {
	c := &clock{}
	c.set(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	return c
}

func (c *clock) set(at time.Time)      { c.at.Store(&at) }
func (c *clock) now() time.Time        { return *c.at.Load() }
func (c *clock) pass(by time.Duration) { c.set(c.now().Add(by)) }

// TestLease walks a lease from hand to hand: token 0 is a refusal.
func TestLease(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		at := newClock()
		options.Now = at.now
		c := open(t, 1, options)
		for _, step := range []struct {
			what  string
			after time.Duration
			name  string
			owner string
			token int64
		}{
			{"taken", 0, "relay", "w1", 1},
			{"refused while it runs", 0, "relay", "w2", 0},
			{"another lease is free", 0, "rollup", "w2", 1},
			{"renewed with the same token", 9 * time.Second, "relay", "w1", 1},
			{"the renewal counts", 9 * time.Second, "relay", "w2", 0},
			{"taken over when it has run out", time.Second, "relay", "w2", 2},
			{"the former owner is refused", 0, "relay", "w1", 0},
			{"and comes back with a larger token", 10 * time.Second, "relay", "w1", 3},
			{"its own, long run out, keeps its token", time.Hour, "relay", "w1", 3},
		} {
			at.pass(step.after)
			token, held, err := c.Lease(context.Background(), "shard-1", step.name, step.owner, 10*time.Second)
			if err != nil || token != step.token || held != (step.token > 0) {
				t.Errorf("%s: token %d, held %v, %v; want token %d", step.what, token, held, err, step.token)
			}
		}
	})
}

// TestRefusedLease: who is refused locks nothing and writes nothing, so that processes that try again and again cost reads.
func TestRefusedLease(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		c := open(t, 1, options)
		ctx := context.Background()
		c.leased(t, "w1", time.Hour)
		const row = "SELECT (l.xmin::TEXT)::INT8 * 1000000000 + (l.xmax::TEXT)::INT8 FROM leases l" // who wrote the row, and who locked it
		before := c.layout.Count(t, "shard-1", row)
		if _, held, err := c.Lease(ctx, "shard-1", "relay", "w2", time.Hour); err != nil || held {
			t.Fatalf("%v, %v", held, err)
		}
		if after := c.layout.Count(t, "shard-1", row); after != before {
			t.Errorf("the row was %d and is %d", before, after)
		}
	})
}

// TestLeaseRace: of many who want a lease at once one gets it.
func TestLeaseRace(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		c := open(t, 1, options)
		var won atomic.Int64
		var group sync.WaitGroup
		for n := range 16 {
			group.Go(func() {
				_, held, err := c.Lease(context.Background(), "shard-1", "relay", string(rune('a'+n)), time.Minute)
				if err != nil {
					t.Error(err)
				}
				if held {
					won.Add(1)
				}
			})
		}
		group.Wait()
		if won.Load() != 1 {
			t.Errorf("%d hold the lease", won.Load())
		}
	})
}
