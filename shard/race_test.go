package shard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"paygrid/ledger"
	"paygrid/shard"
)

// tally counts what callers heard; anything but nil and ErrConflict fails the test.
type tally struct{ done, conflicts atomic.Int64 }

func (y *tally) hear(t *testing.T, op string, err error) {
	t.Helper()
	switch {
	case err == nil:
		y.done.Add(1)
	case errors.Is(err, shard.ErrConflict):
		y.conflicts.Add(1)
	default:
		t.Errorf("%s: %v", op, err)
	}
}

// TestRacingKeys (C001): of fifty openings under one key at the same instant, from two processes, one is written.
func TestRacingKeys(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		first := open(t, 1, options)
		options.Instance = 1
		processes := []bench{first, on(t, first.layout, options)}
		var y tally
		var group sync.WaitGroup
		for n := range 50 {
			group.Go(func() { y.hear(t, "begin", processes[n%2].Begin(context.Background(), opening("shop", "same"))) })
		}
		group.Wait()
		if y.done.Load() != 1 || y.conflicts.Load() != 49 {
			t.Errorf("%d openings won, %d lost; want 1 and 49", y.done.Load(), y.conflicts.Load())
		}
		if n := first.layout.Count(t, "shard-1", "SELECT count(*) FROM payments"); n != 1 {
			t.Errorf("%d payments", n)
		}
		first.sound(t)
	})
}

// race is many payments in few buckets that several processes open and capture at once.
type race struct {
	processes []bench
	openings  []shard.Opening
	changes   []shard.Change
	begins    tally
	captures  tally
}

// newRace lays n payments into two buckets of each of two shards.
func newRace(t *testing.T, options shard.Options, n int) *race {
	r := &race{}
	first := open(t, 2, options) // both use the same slots of sellers' balances, which is the worst case
	r.processes = []bench{first, on(t, first.layout, options)}
	buckets := []shard.Bucket{3, 7, 3000, 3004}
	for k := range n {
		splits := annBob
		if k%2 == 1 { // C042: half of them name the sellers in the opposite order
			splits = []ledger.Split{annBob[1], annBob[0]}
		}
		o := openingOf("shop", keyIn("shop", buckets[k%len(buckets)], k), splits)
		r.openings = append(r.openings, o)
		r.changes = append(r.changes, capture(t, o))
	}
	return r
}

// write lets one writer open and capture every payment in an order of its own.
func (r *race) write(t *testing.T, writer int) {
	ctx := context.Background()
	c := r.processes[writer%len(r.processes)]
	random := rand.New(rand.NewPCG(1, uint64(writer)))
	for _, n := range random.Perm(len(r.openings)) {
		r.begins.hear(t, "begin", c.Begin(ctx, r.openings[n]))
		r.captures.hear(t, "apply", c.Apply(ctx, r.changes[n]))
	}
}

// rollUp rolls up on every shard until stop is closed.
func (r *race) rollUp(t *testing.T, stop <-chan struct{}) {
	for running := true; running; {
		select {
		case <-stop:
			running = false // once more, now that all is written
		default:
		}
		for _, name := range r.processes[0].layout.Names {
			if _, err := r.processes[0].RollUp(context.Background(), name); err != nil {
				t.Errorf("roll up: %v", err)
			}
		}
	}
}

// watch reads a house account until stop is closed: captures only add to it, so no reading is below the one before it.
func (r *race) watch(t *testing.T, stop <-chan struct{}) {
	var last int64
	for {
		select {
		case <-stop:
			return
		default:
		}
		balance, err := r.processes[1].Balance(context.Background(), ledger.PSPReceivable("stripe"), "EUR")
		if err != nil {
			t.Error(err)
			return
		}
		now := balance.Minor.Int64()
		if now < last || now%10000 != 0 {
			t.Errorf("the receivable went from %d to %d", last, now)
		}
		last = now
	}
}

// TestRacingWriters (C042): eight writers in two processes race over the same payments in four buckets, while roll-ups and
// balances run. No number is left out, each payment is captured once, every balance is its postings, nobody hears of a
// deadlock, and where READ COMMITTED runs there is none: a deadlock is all that it could have to retry. It fails without FOR UPDATE in f, without ORDER BY there, without the version in p's WHERE, and without the
// compare-and-set in sqlRollUp.
func TestRacingWriters(t *testing.T) {
	for _, limit := range []int{64, 1} {
		t.Run(fmt.Sprintf("batches of %d", limit), func(t *testing.T) {
			isolations(t, func(t *testing.T, options shard.Options) {
				options.BatchLimit = limit
				r := newRace(t, options, 48)
				stop := make(chan struct{})
				var beside, writers sync.WaitGroup
				beside.Go(func() { r.rollUp(t, stop) })
				beside.Go(func() { r.rollUp(t, stop) })
				beside.Go(func() { r.watch(t, stop) })
				for writer := range 8 {
					writers.Go(func() { r.write(t, writer) })
				}
				writers.Wait()
				close(stop)
				beside.Wait()
				r.check(t)
				for _, c := range r.processes {
					if n := c.metric(t, "paygrid_shard_retries_total"); n > 0 && !options.Serializable {
						t.Errorf("%d retries in READ COMMITTED: locks are taken in two orders", n)
					}
				}
			})
		})
	}
}

func (r *race) check(t *testing.T) {
	t.Helper()
	n := int64(len(r.openings))
	if r.begins.done.Load() != n || r.captures.done.Load() != n {
		t.Errorf("%d openings and %d captures were told as done, want %d each", r.begins.done.Load(), r.captures.done.Load(), n)
	}
	c := r.processes[0]
	c.expectPosted(t, n)
	c.sound(t)
	for _, name := range c.layout.Names {
		if got := c.layout.Count(t, name, "SELECT count(*) FROM buckets WHERE seq <> rollup_seq"); got != 0 {
			t.Errorf("%s: %d buckets are not rolled up", name, got)
		}
	}
}

// TestSequenceIsCommitOrder: a reader that looks at one bucket's outbox again and again never sees a number appear below
// one that it saw before. A relay with one cursor per bucket rests on it.
func TestSequenceIsCommitOrder(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		c := open(t, 1, options)
		other := on(t, c.layout, options)
		stop := make(chan struct{})
		var reader sync.WaitGroup
		reader.Go(func() { readInOrder(t, c, 9, stop) })
		var writers errgroup.Group
		for w, process := range []bench{c, other, c, other} {
			writers.Go(func() error {
				for n := range 30 {
					if err := process.Begin(context.Background(), opening("shop", keyIn("shop", 9, 100*w+n))); err != nil {
						return err
					}
				}
				return nil
			})
		}
		err := writers.Wait()
		close(stop)
		reader.Wait()
		must(t, err)
		c.sound(t)
	})
}

// readInOrder reads what is new behind a cursor: it must be the next numbers, without one left out.
func readInOrder(t *testing.T, c bench, b shard.Bucket, stop <-chan struct{}) {
	var cursor int64
	for {
		select {
		case <-stop:
			return
		default:
		}
		err := c.Walk(context.Background(), "shard-1", func(span shard.Span) error {
			for _, e := range span.Events {
				if e.Bucket != b || e.Seq <= cursor {
					continue
				}
				if e.Seq != cursor+1 {
					t.Errorf("number %d came after %d", e.Seq, cursor)
				}
				cursor = e.Seq
			}
			return errEnough // the first span holds the bucket
		})
		if !errors.Is(err, errEnough) {
			t.Error(err)
			return
		}
	}
}

var errEnough = errors.New("enough")

// TestHotSeller: captures in all buckets for one seller: every lane that takes part adds to a slot of its own, and the slots
// are summed. So many at once are a crowd: more than one lane takes part.
func TestHotSeller(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		options.Lanes = 4
		c := open(t, 1, options)
		var group errgroup.Group
		for n := range 128 {
			group.Go(func() error {
				o := opening("shop", keyIn("shop", shard.Bucket(n), n))
				if err := c.Begin(context.Background(), o); err != nil {
					return err
				}
				return c.Apply(context.Background(), capture(t, o))
			})
		}
		must(t, group.Wait())
		c.expectPosted(t, 128)
		c.sound(t)
		slots := c.layout.Count(t, "shard-1", "SELECT count(*) FROM seller_balances WHERE account = 'seller_payable:s-ann'")
		if slots < 2 || slots > 4 {
			t.Errorf("the balance lies in %d slots, want one for each lane that took part", slots)
		}
	})
}

// TestBalanceKeys holds that every account a capture posts to is in the table of expected sums.
func TestBalanceKeys(t *testing.T) {
	var sum int64
	ch := capture(t, opening("shop", "k1"))
	for _, line := range ch.Entry.Lines() {
		if _, ok := annBobPosted[line.Account]; !ok {
			t.Errorf("%s is missing", line.Account)
		}
	}
	for _, minor := range annBobPosted {
		sum += minor
	}
	if sum != 0 || !slices.ContainsFunc(ch.Entry.Postings, func(p ledger.Posting) bool { return p.Credit == ledger.CommissionRevenue }) {
		t.Errorf("the table sums to %d", sum)
	}
}
