package shard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"paygrid/ledger"
	"paygrid/shard"
	"paygrid/shard/shardtest"
)

// gate holds the row of one bucket locked, so that what callers send meanwhile gathers in the lane behind it.
type gate struct {
	holder *conn
	beside *conn // a transaction sees the server's views as they were when it first looked
}

// shut locks the row of b.
func shut(t testing.TB, layout shardtest.Layout, shardName string, b shard.Bucket) *gate {
	t.Helper()
	g := &gate{holder: connect(t, layout.Admin[shardName]), beside: connect(t, layout.Admin[shardName])}
	g.holder.exec(t, "BEGIN")
	g.holder.exec(t, "SELECT bucket FROM buckets WHERE bucket = $1 FOR UPDATE", int32(b))
	return g
}

func (g *gate) open(t testing.TB) { g.holder.exec(t, "COMMIT") }

// waitBlocked returns when n statements of the services wait for a lock.
func (g *gate) waitBlocked(t testing.TB, n int64) {
	t.Helper()
	g.beside.until(t, n, `SELECT count(*) FROM pg_catalog.pg_stat_activity a WHERE a.datname = current_database()
AND a.usename = 'paygrid_app' AND a.wait_event_type = 'Lock'`)
}

// together sends all of calls so that they leave in one statement: a first call is held at the gate while they gather.
// Each call's error stands at its place in the answer.
func together(t *testing.T, c bench, calls ...func() error) []error {
	t.Helper()
	const b = shard.Bucket(4000)
	g := shut(t, c.layout, "shard-1", b)
	var group sync.WaitGroup
	group.Go(func() {
		if err := c.Begin(context.Background(), opening("gate", keyIn("gate", b, 0))); err != nil {
			t.Errorf("the first: %v", err)
		}
	})
	g.waitBlocked(t, 1)
	errs := make([]error, len(calls))
	var sent sync.WaitGroup
	for n, call := range calls {
		sent.Add(1)
		group.Go(func() {
			sent.Done()
			errs[n] = call()
		})
	}
	sent.Wait()
	c.waitQueued(t, len(calls))
	g.open(t)
	group.Wait()
	return errs
}

// oneLane makes a cluster whose calls all take one lane.
func oneLane(t *testing.T, o shard.Options) bench {
	o.Lanes = 1
	return open(t, 1, o)
}

// batches counts the statements that were sent for op, and their changes.
func (b bench) batches(t testing.TB, op string) (statements, changes int) {
	t.Helper()
	families, err := b.registry.Gather()
	must(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "paygrid_shard_batch_changes" && m.GetLabel()[0].GetValue() == op {
				statements += int(m.GetHistogram().GetSampleCount())
				changes += int(m.GetHistogram().GetSampleSum())
			}
		}
	}
	return statements, changes
}

// TestTwoCopiesInOneBatch (C001): two openings under one key in one statement: one is written, the other hears that the
// key is taken, and their neighbour is not hurt.
func TestTwoCopiesInOneBatch(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		ctx := context.Background()
		c := oneLane(t, options)
		errs := together(t, c,
			func() error { return c.Begin(ctx, opening("shop", "same")) },
			func() error { return c.Begin(ctx, opening("shop", "same")) },
			func() error { return c.Begin(ctx, opening("shop", "other")) })
		won := 0
		for _, err := range errs[:2] {
			if err == nil {
				won++
			} else if !errors.Is(err, shard.ErrConflict) {
				t.Error(err)
			}
		}
		if won != 1 || errs[2] != nil {
			t.Errorf("told %v", errs)
		}
		if statements, changes := c.batches(t, "begin"); statements != 2 || changes != 4 {
			t.Errorf("%d statements for %d openings; the test wants 2 for 4", statements, changes)
		}
		c.sound(t)
	})
}

// TestOneBadChangeAmongMany: the database refuses a batch whole; only the change that it means is refused in the end. Each
// kind of refusal is one that Change.Check cannot see.
func TestOneBadChangeAmongMany(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*shard.Change)
		state string
	}{
		"an entry that exists":   {func(c *shard.Change) { c.Entry.ID = "capture:taken" }, "23505"},
		"a status unheard of":    {func(c *shard.Change) { c.Payment.Status = "PAID" }, "23514"},
		"an event that is none":  {func(c *shard.Change) { c.Event.Payload = []byte("{") }, "22P02"},
		"a NUL in a text":        {func(c *shard.Change) { c.Payment.Failure = "a\x00b" }, "22021"},
		"an attempt twice":       {func(c *shard.Change) { c.Attempts = append(c.Attempts, c.Attempts[0]) }, "21000"},
		"too long for the index": {func(c *shard.Change) { c.Keys[0].Scope = noise(20_000) }, "54000"},
	} {
		t.Run(name, func(t *testing.T) {
			isolations(t, func(t *testing.T, options shard.Options) { oneBad(t, oneLane(t, options), c.spoil, c.state) })
		})
	}
}

// noise is a text of n bytes that does not compress.
func noise(n int) string {
	var out strings.Builder
	for k := 0; out.Len() < n; k++ {
		out.WriteString(shard.NewID("x", shard.BucketOf("noise", fmt.Sprint(k)), now()))
	}
	return out.String()[:n]
}

func oneBad(t *testing.T, c bench, spoil func(*shard.Change), state string) {
	ctx := context.Background()
	taken := opening("shop", keyIn("shop", 1, 0))
	must(t, c.Begin(ctx, taken))
	first := capture(t, taken)
	first.Entry.ID = "capture:taken"
	must(t, c.Apply(ctx, first))

	var calls []func() error
	for n := range 5 {
		o := opening("shop", keyIn("shop", 1, n+1))
		must(t, c.Begin(ctx, o))
		ch := capture(t, o)
		if n == 2 {
			spoil(&ch)
		}
		calls = append(calls, func() error { return c.Apply(ctx, ch) })
	}
	for n, err := range together(t, c, calls...) {
		var refused *shard.RefusedError
		switch {
		case n != 2 && err != nil:
			t.Errorf("change %d: %v", n, err)
		case n == 2 && (!errors.As(err, &refused) || refused.SQLState != state):
			t.Errorf("the bad change: %v, want SQLSTATE %s", err, state)
		}
	}
	c.expectPosted(t, 5)
	c.sound(t)
}

// TestSamePaymentTwiceInALane: two steps of one payment that wait together are sent in two statements, in order.
func TestSamePaymentTwiceInALane(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		ctx := context.Background()
		c := oneLane(t, options)
		o := opening("shop", "k1")
		must(t, c.Begin(ctx, o))
		first := capture(t, o)
		errs := together(t, c,
			func() error { return c.Apply(ctx, first) },
			func() error { return c.Apply(ctx, first) })
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), shard.ErrConflict) {
			t.Errorf("told %v, want one nil and one conflict", errs)
		}
		if statements, changes := c.batches(t, "apply"); statements != 2 || changes != 2 {
			t.Errorf("%d statements for %d changes, want 2 for 2", statements, changes)
		}
		c.sound(t)
	})
}

// TestMostPostings: the largest entry there can be, MaxSplits sellers and the commission, and its refund.
func TestMostPostings(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		ctx := context.Background()
		c := open(t, 1, options)
		var splits []ledger.Split
		for n := range ledger.MaxSplits {
			splits = append(splits, ledger.Split{SellerID: fmt.Sprintf("s-%d", n), Minor: 100, CommissionMinor: 10})
		}
		o := openingOf("shop", "k1", splits)
		must(t, c.Begin(ctx, o))
		ch := capture(t, o)
		must(t, c.Apply(ctx, ch))
		entries, err := c.Entries(ctx, o.Payment.ID)
		must(t, err)
		if len(entries) != 1 || len(entries[0].Postings) != ledger.MaxSplits+1 {
			t.Fatalf("%d entries", len(entries))
		}
		if got := c.balance(t, ledger.SellerPayable("s-99")); got != -90 {
			t.Errorf("the last seller has %d, want -90", got)
		}
		must(t, c.Apply(ctx, refund(t, ch.Payment, o.Payment.Authorized)))
		if got := c.balance(t, ledger.SellerPayable("s-99")); got != 0 {
			t.Errorf("after the refund the last seller has %d", got)
		}
		c.sound(t)
	})
}

// TestBatchLimit: what gathers leaves in statements of at most the limit.
func TestBatchLimit(t *testing.T) {
	t.Parallel()
	c := oneLane(t, shard.Options{BatchLimit: 4})
	var calls []func() error
	for n := range 10 {
		calls = append(calls, func() error { return c.Begin(context.Background(), opening("shop", keyIn("shop", 1, n))) })
	}
	must(t, errors.Join(together(t, c, calls...)...))
	if statements, changes := c.batches(t, "begin"); statements != 4 || changes != 11 {
		t.Errorf("%d statements for %d openings, want 1 of 1, then 4, 4 and 2", statements, changes)
	}
	c.sound(t)
}

// TestCloseWhileCallersWait: what had been taken in is written, nobody hangs, and later calls are told at once.
func TestCloseWhileCallersWait(t *testing.T) {
	for _, limit := range []int{64, 1} {
		t.Run(fmt.Sprintf("batches of %d", limit), func(t *testing.T) {
			t.Parallel()
			c := oneLane(t, shard.Options{BatchLimit: limit})
			const b = shard.Bucket(1)
			g := shut(t, c.layout, "shard-1", b)
			errs := make([]error, 10)
			var callers, closing sync.WaitGroup
			for n := range errs {
				callers.Go(func() { errs[n] = c.Begin(context.Background(), opening("shop", keyIn("shop", b, n))) })
			}
			if limit == 1 {
				g.waitBlocked(t, 10)
			} else {
				g.waitBlocked(t, 1)
			}
			closing.Go(c.Close)
			g.open(t)
			callers.Wait()
			closing.Wait()
			var written int64
			for _, err := range errs {
				if err == nil {
					written++
				} else if !errors.Is(err, shard.ErrUnavailable) {
					t.Errorf("told %v", err)
				}
			}
			if n := c.layout.Count(t, "shard-1", "SELECT count(*) FROM payments"); n != written || written == 0 {
				t.Errorf("%d callers were told that it is written, %d payments are there", written, n)
			}
			if err := c.Begin(context.Background(), opening("shop", "late")); !errors.Is(err, shard.ErrUnavailable) {
				t.Errorf("after the end: %v", err)
			}
			if err := c.Ping(context.Background()); !errors.Is(err, shard.ErrUnavailable) {
				t.Errorf("ping after the end: %v", err)
			}
		})
	}
}

// TestNoticesInOneBatch: notices that come together are stored by one statement. The copy of one waits for the next, and hears
// that it is stored.
func TestNoticesInOneBatch(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		ctx := context.Background()
		c := oneLane(t, options)
		stored := make([]bool, 5)
		put := func(n int, event string) func() error {
			return func() (err error) {
				item := shard.InboxItem{Bucket: shard.Bucket(n), PSP: "stripe", EventID: event, Kind: "charge.failed", Raw: []byte(event)}
				stored[n], err = c.PutInbox(ctx, item, opening("shop", "k1").At)
				return err
			}
		}
		same := func(n int) func() error {
			return func() (err error) {
				item := shard.InboxItem{Bucket: 7, PSP: "stripe", EventID: "same", Kind: "charge.failed", Raw: []byte("same")}
				stored[n], err = c.PutInbox(ctx, item, opening("shop", "k1").At)
				return err
			}
		}
		for n, err := range together(t, c, put(0, "a"), put(1, "b"), put(2, "c"), same(3), same(4)) {
			if err != nil {
				t.Errorf("%d: %v", n, err)
			}
		}
		if !stored[0] || !stored[1] || !stored[2] || stored[3] == stored[4] {
			t.Errorf("stored %v, want all, and of the last two one", stored)
		}
		if statements, notices := c.batches(t, "put inbox"); statements != 2 || notices != 5 {
			t.Errorf("%d statements for %d notices, want 2 for 5", statements, notices)
		}
		if n := c.layout.Count(t, "shard-1", "SELECT count(*) FROM webhook_inbox WHERE raw = event_id::BYTEA AND state = 'NEW'"); n != 4 {
			t.Errorf("%d rows, want 4", n)
		}
	})
}
