package shard_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"paygrid/shard"
)

// leased takes the relay's lease of shard-1.
func (b bench) leased(t testing.TB, owner string, ttl time.Duration) shard.Fence {
	t.Helper()
	token, held, err := b.Lease(context.Background(), "shard-1", "relay", owner, ttl)
	must(t, err)
	if !held {
		t.Fatal("the lease is another's")
	}
	return shard.Fence{Lease: "relay", Owner: owner, Token: token}
}

func (b bench) cursor(t testing.TB, bucket shard.Bucket) int64 {
	t.Helper()
	all, err := b.Cursors(context.Background(), "shard-1", []shard.Bucket{bucket})
	must(t, err)
	return all[bucket]
}

// TestAdvanceIsFenced: whoever's lease was taken over moves no cursor, parks nothing and removes nothing, even if the lease had
// only run out when it last looked. One that ran out and was not taken over still holds.
func TestAdvanceIsFenced(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		at := newClock()
		at.set(time.Now())
		options.Now = at.now
		b := open(t, 1, options)
		ctx := context.Background()
		key := keyIn("shop", 9, 1)
		b.captured(t, "shop", key)
		old := b.leased(t, "old", time.Second)
		to := func(seq int64) []shard.Stretch { return []shard.Stretch{{Bucket: 9, Through: seq}} }
		at.pass(time.Minute)
		must(t, b.Advance(ctx, "shard-1", old, to(1)))
		current := b.leased(t, "current", time.Second)
		held := []shard.ParkedPayment{{Bucket: 9, PaymentID: "p", Seq: 1, State: shard.ParkParked, NextTryAt: at.now()}}
		for what, f := range map[string]shard.Fence{"the former owner": old, "a forged token": {Lease: "relay", Owner: "old", Token: current.Token},
			"another lease": {Lease: "ledger", Owner: "current", Token: current.Token}} {
			_, pruned := b.PruneOutbox(ctx, "shard-1", f, []shard.Bucket{9}, 10, at.now().Add(time.Hour))
			for _, err := range []error{b.Advance(ctx, "shard-1", f, to(2)), b.Hold(ctx, "shard-1", f, held), pruned} {
				if !errors.Is(err, shard.ErrLeaseLost) {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		if b.cursor(t, 9) != 1 || b.layout.Count(t, "shard-1", "SELECT count(*) FROM parked_payments") != 0 {
			t.Error("somebody wrote without the lease")
		}
		for _, through := range []int64{2, 1, 3} { // on; not back; not past the log
			must(t, b.Advance(ctx, "shard-1", current, to(through)))
		}
		if got := b.cursor(t, 9); got != 2 {
			t.Errorf("the cursor is at %d, want 2", got)
		}
	})
}

// TestAdvanceWaitsForATakeOver: an advance that meets a take-over under way waits for it, and then is refused.
func TestAdvanceWaitsForATakeOver(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		b := open(t, 1, options)
		b.captured(t, "shop", keyIn("shop", 9, 1))
		old := b.leased(t, "old", time.Minute)
		other := connect(t, b.layout.URLs["shard-1"])
		other.exec(t, "BEGIN")
		other.exec(t, "UPDATE leases SET owner = 'new', token = token + 1 WHERE name = 'relay'")
		done := make(chan error, 1)
		go func() {
			done <- b.Advance(context.Background(), "shard-1", old, []shard.Stretch{{Bucket: 9, Through: 2}})
		}()
		watcher := connect(t, b.layout.Admin["shard-1"])
		waits := int64(0)
		for look := 0; waits == 0 && look < 10_000; look++ {
			waits = watcher.count(t, `SELECT count(*) FROM pg_catalog.pg_stat_activity a
				WHERE a.wait_event_type = 'Lock' AND a.query LIKE '%relay_cursors%' AND a.datname = current_database()`)
		}
		other.exec(t, "COMMIT")
		if err := <-done; !errors.Is(err, shard.ErrLeaseLost) || b.cursor(t, 9) != 0 {
			t.Errorf("%v, cursor %d", err, b.cursor(t, 9))
		}
	})
}

// TestUnsent: what the relay asks each round names the buckets that have events after their cursors, one without a cursor too,
// and no other: without news not one row of 4,096 is read.
func TestUnsent(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		b := open(t, 1, options)
		ctx := context.Background()
		want := func(what string, want ...shard.Stretch) {
			t.Helper()
			if got, err := b.Unsent(ctx, "shard-1"); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %+v, %v, want %+v", what, got, err, want)
			}
		}
		want("nothing was ever written")
		for _, bucket := range []shard.Bucket{9, 5, 4095, 0} {
			b.captured(t, "shop", keyIn("shop", bucket, 1))
		}
		want("no bucket has a cursor", shard.Stretch{Bucket: 0, Through: 2}, shard.Stretch{Bucket: 5, Through: 2}, shard.Stretch{Bucket: 9, Through: 2},
			shard.Stretch{Bucket: 4095, Through: 2})
		f := b.leased(t, "one", time.Minute)
		must(t, b.Advance(ctx, "shard-1", f, []shard.Stretch{{Bucket: 0, Through: 2}, {Bucket: 5, Through: 1}, {Bucket: 4095, Through: 2}}))
		want("one is behind, one has no cursor", shard.Stretch{Bucket: 5, After: 1, Through: 2}, shard.Stretch{Bucket: 9, Through: 2})
		for state, gone := range map[string]bool{"MOVED": true, "RECEIVING": true, "FROZEN": false} {
			b.layout.Exec(t, "shard-1", "UPDATE buckets SET state = $1 WHERE bucket = 9", state)
			if gone {
				want(state, shard.Stretch{Bucket: 5, After: 1, Through: 2})
			} else {
				want(state, shard.Stretch{Bucket: 5, After: 1, Through: 2}, shard.Stretch{Bucket: 9, Through: 2})
			}
		}
		must(t, b.Advance(ctx, "shard-1", f, []shard.Stretch{{Bucket: 5, Through: 2}, {Bucket: 9, Through: 2}}))
		want("all is sent")
		b.layout.Exec(t, "shard-1", "UPDATE relay_cursors SET seq = 3 WHERE bucket = 5")
		want("a cursor beyond its log")
	})
}

// TestUnsentGoesDownNoIndexPerBucket: whatever the tables hold, a bucket without news is left out before its cursor is looked up.
func TestUnsentGoesDownNoIndexPerBucket(t *testing.T) {
	t.Parallel()
	layout := databases.Layout(t, 2)
	fill(t, layout, "shard-2", 5_000)
	for _, name := range layout.Names {
		app := connect(t, layout.URLs[name])
		must(t, shard.PrepareSession(context.Background(), app.Conn))
		filter := ""
		app.explain(t, shard.Statements()["relay unsent"]).walk(func(n *node) {
			if n.Table == "buckets" {
				filter = n.Filter
			}
		})
		if !strings.Contains(filter, "hashed SubPlan") || !strings.Contains(filter, "seq > 0") {
			t.Errorf("%s: buckets are left out by %s", name, filter)
		}
	}
}

// TestOutboxWantsEveryNumber: a number that is missing, at either end or between, is an error and not a shorter list.
func TestOutboxWantsEveryNumber(t *testing.T) {
	t.Parallel()
	b := open(t, 1, shard.Options{})
	for n := range 3 {
		b.captured(t, "shop", keyIn("shop", 9, n))
	}
	all := []shard.Stretch{{Bucket: 9, After: 0, Through: 6}}
	events, err := b.Outbox(context.Background(), "shard-1", all, 1000)
	if must(t, err); len(events) != 6 {
		t.Fatalf("%d events", len(events))
	}
	large, err := b.Outbox(context.Background(), "shard-1", all, 3)
	if must(t, err); large[0].Payload != nil || events[0].Payload == nil {
		t.Error("a payload above the limit was read, or one below it was not")
	}
	for _, missing := range []string{"6", "3", "1"} {
		b.layout.Exec(t, "shard-1", "DELETE FROM outbox WHERE bucket = 9 AND seq = "+missing)
		var broken *shard.InvariantError
		if _, err := b.Outbox(context.Background(), "shard-1", all, 1000); !errors.As(err, &broken) || broken.Invariant != "S4" {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}

// TestPruneNeverOutrunsTheRelay: only a prefix goes, behind the cursor, old enough, and before what is parked.
func TestPruneNeverOutrunsTheRelay(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		b := open(t, 1, options)
		ctx := context.Background()
		for n := range 10 {
			b.captured(t, "shop", keyIn("shop", 9, n))
		}
		f := b.leased(t, "one", time.Minute)
		prune := func(limit int, before time.Time, want int64, what string) {
			t.Helper()
			n, err := b.PruneOutbox(ctx, "shard-1", f, []shard.Bucket{8, 9}, limit, before)
			if err != nil || n != want {
				t.Errorf("%s: %d, %v, want %d", what, n, err, want)
			}
		}
		later := time.Now().Add(time.Hour)
		prune(100, later, 0, "nothing is published")
		must(t, b.Advance(ctx, "shard-1", f, []shard.Stretch{{Bucket: 9, Through: 10}}))
		prune(100, time.Now().Add(-time.Hour), 0, "nothing is old")
		prune(4, later, 4, "as many as are wanted")
		b.layout.Exec(t, "shard-1", "UPDATE outbox SET created_at = now() + INTERVAL '1 day' WHERE bucket = 9 AND seq = 7")
		prune(100, later, 2, "up to one that is younger")
		b.layout.Exec(t, "shard-1", "UPDATE outbox SET created_at = now() WHERE bucket = 9")
		must(t, b.Hold(ctx, "shard-1", f, []shard.ParkedPayment{{Bucket: 9, PaymentID: "p", Seq: 9, State: shard.ParkParked, NextTryAt: later}}))
		prune(100, later, 2, "before what is parked")
		must(t, b.Hold(ctx, "shard-1", f, []shard.ParkedPayment{{Bucket: 9, PaymentID: "p", Seq: 9, State: shard.ParkReleased, NextTryAt: later}}))
		prune(100, later, 2, "up to the cursor")
		prune(100, later, 0, "never past it")
		if n := b.layout.Count(t, "shard-1", "SELECT min(seq) FROM outbox WHERE bucket = 9"); n != 11 {
			t.Errorf("the first event left is %d, want 11", n)
		}
	})
}

// TestRelayLag counts what waits and tells since when.
func TestRelayLag(t *testing.T) {
	t.Parallel()
	b := open(t, 1, shard.Options{})
	ctx := context.Background()
	if n, oldest, err := b.RelayLag(ctx, "shard-1"); n != 0 || !oldest.IsZero() || err != nil {
		t.Errorf("%d since %s, %v", n, oldest, err)
	}
	o := b.captured(t, "shop", keyIn("shop", 9, 1))
	b.captured(t, "shop", keyIn("shop", 10, 1))
	if n, oldest, err := b.RelayLag(ctx, "shard-1"); n != 4 || !oldest.Equal(o.At) || err != nil {
		t.Errorf("%d since %s, %v; want 4 since %s", n, oldest, err, o.At)
	}
	must(t, b.Advance(ctx, "shard-1", b.leased(t, "one", time.Minute), []shard.Stretch{{Bucket: 9, Through: 2}, {Bucket: 10, Through: 1}}))
	if n, _, err := b.RelayLag(ctx, "shard-1"); n != 1 || err != nil {
		t.Errorf("%d, %v; want 1", n, err)
	}
}

// TestRedrive: only what is parked is re-driven, and only where the bucket lives.
func TestRedrive(t *testing.T) {
	t.Parallel()
	b := open(t, 1, shard.Options{})
	ctx := context.Background()
	o := b.captured(t, "shop", keyIn("shop", 9, 1))
	f := b.leased(t, "one", time.Minute)
	row := shard.ParkedPayment{Bucket: 9, PaymentID: o.Payment.ID, Seq: 1, Tries: 3, Reason: "too large", NextTryAt: time.Now().Add(time.Hour)}
	for _, state := range []shard.Status{shard.ParkRetrying, shard.ParkRedrive, shard.ParkReleased} {
		row.State = state
		must(t, b.Hold(ctx, "shard-1", f, []shard.ParkedPayment{row}))
		if err := b.Redrive(ctx, o.Payment.ID); !errors.Is(err, shard.ErrNotFound) {
			t.Errorf("%s: %v", state, err)
		}
	}
	row.State = shard.ParkParked
	must(t, b.Hold(ctx, "shard-1", f, []shard.ParkedPayment{row}))
	if due, err := b.DueParked(ctx, "shard-1", time.Now(), 10); len(due) != 0 || err != nil {
		t.Errorf("what is parked is tried by itself: %+v, %v", due, err)
	}
	must(t, b.Redrive(ctx, o.Payment.ID))
	due, err := b.DueParked(ctx, "shard-1", time.Now().Add(time.Second), 10)
	if err != nil || len(due) != 1 || due[0].State != shard.ParkRedrive || due[0].Tries != 0 || !strings.Contains(due[0].Reason, "large") {
		t.Errorf("%+v, %v", due, err)
	}
	held, err := b.HeldEvents(ctx, "shard-1", due[0], 1, 10, 1000)
	if err != nil || len(held) != 1 || held[0].Type != "payment.processing" {
		t.Errorf("%+v, %v", held, err)
	}
}

// TestCommitted: a commit is told, a conflict is not, and nobody waits for a receiver.
func TestCommitted(t *testing.T) {
	t.Parallel()
	b := open(t, 1, shard.Options{})
	ctx := context.Background()
	told := func() bool {
		select {
		case <-b.Committed("shard-1"):
			return true
		default:
			return false
		}
	}
	o := b.captured(t, "shop", "k1")
	b.captured(t, "shop", "k2")
	if !told() || told() {
		t.Error("commits are told once while nobody receives")
	}
	if err := b.Begin(ctx, o); !errors.Is(err, shard.ErrConflict) || told() {
		t.Errorf("%v; a conflict was told as a commit", err)
	}
	if b.Committed("unknown") != nil {
		t.Error("a shard that is not there tells something")
	}
}
