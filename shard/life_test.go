package shard_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/shard"
)

// TestLifeOfAPayment walks one payment through every table and reads all of it back.
func TestLifeOfAPayment(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		ctx := context.Background()
		c := open(t, 2, options)
		o := opening("shop", "k1")
		must(t, c.Begin(ctx, o))
		ch := capture(t, o)
		must(t, c.Apply(ctx, ch))
		back := refund(t, ch.Payment, 2000)
		must(t, c.Apply(ctx, back))

		found, err := c.Find(ctx, o.Payment.ID, o.Key.KeyRef)
		must(t, err)
		checkPayment(t, found.Payment, back.Payment)
		if found.Missing || len(found.Attempts) != 1 || found.Attempts[0].Status != "SUCCEEDED" || found.Attempts[0].PSPRef != "pi_1" {
			t.Errorf("attempts %+v", found.Attempts)
		}
		if len(found.Refunds) != 1 || !slices.Equal(found.Refunds[0].Shares, back.Refunds[0].Shares) {
			t.Errorf("refunds %+v", found.Refunds)
		}
		if found.Key == nil || string(found.Key.Answer) != `{"id":"x"}` || found.Key.AnswerKind != "CHARGED" ||
			found.Key.RequestHash != o.Key.RequestHash || found.Key.SubjectID != o.Attempt.ID {
			t.Errorf("key %+v", found.Key)
		}
		checkLog(t, c, o.Payment.ID)
		c.sound(t)
	})
}

func checkPayment(t *testing.T, got, want shard.Payment) {
	t.Helper()
	if got.Status != want.Status || got.Version != want.Version || got.Captured != want.Captured || got.Refunded != want.Refunded ||
		got.PSPRef != want.PSPRef || got.OrderID != want.OrderID || !slices.Equal(got.Parts, want.Parts) ||
		!slices.Equal(got.Splits, want.Splits) || !got.CreatedAt.Equal(want.CreatedAt) {
		t.Errorf("payment\n got %+v\nwant %+v", got, want)
	}
}

// checkLog holds that a captured and partly refunded payment has its three events and two entries, in order.
func checkLog(t *testing.T, c bench, paymentID string) {
	t.Helper()
	events, err := c.Events(context.Background(), paymentID)
	must(t, err)
	var types []string
	for n, e := range events {
		types = append(types, e.Type)
		if e.Version != int64(n+1) || e.Seq != int64(n+1) {
			t.Errorf("event %d has version %d and sequence number %d", n, e.Version, e.Seq)
		}
	}
	if want := []string{"payment.processing", "payment.captured", "refund.succeeded"}; !slices.Equal(types, want) {
		t.Errorf("events %v, want %v", types, want)
	}
	entries, err := c.Entries(context.Background(), paymentID)
	must(t, err)
	if len(entries) != 2 || entries[0].Seq != 2 || entries[1].Seq != 3 || len(entries[0].Lines()) != 4 || entries[1].Kind != ledger.EntryRefund {
		t.Fatalf("entries %+v", entries)
	}
	for _, e := range entries {
		if err := e.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestConflicts tells each way in which a change comes too late, and that it leaves nothing behind.
func TestConflicts(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		ctx := context.Background()
		c := open(t, 1, options)
		o := c.captured(t, "shop", "k1")
		again := capture(t, o)
		wrongState := refund(t, again.Payment, 100)
		wrongState.From = "AUTHORIZED"
		ahead := refund(t, again.Payment, 100)
		ahead.Payment.Version++
		overCap := refund(t, again.Payment, 100)
		overCap.Payment.Authorized, overCap.Payment.Captured = 20000, 20000 // a lie that Check cannot see
		for name, do := range map[string]func() error{
			"the same key":         func() error { return c.Begin(ctx, opening("shop", "k1")) },
			"the same change":      func() error { return c.Apply(ctx, again) },
			"another state":        func() error { return c.Apply(ctx, wrongState) },
			"a version ahead":      func() error { return c.Apply(ctx, ahead) },
			"more than authorized": func() error { return c.Apply(ctx, overCap) },
			"no such payment":      func() error { return c.Apply(ctx, capture(t, opening("shop", "never"))) },
		} {
			if err := do(); !errors.Is(err, shard.ErrConflict) {
				t.Errorf("%s: %v, want ErrConflict", name, err)
			}
		}
		c.expectPosted(t, 1)
		c.sound(t)
		if n := c.layout.Count(t, "shard-1", "SELECT sum(seq)::INT8 FROM buckets"); n != 2 {
			t.Errorf("%d changes are counted, want 2", n)
		}
	})
}

// TestAnswerIsStoredOnce: the first answer to a key stays, whatever a later change carries.
func TestAnswerIsStoredOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := open(t, 1, shard.Options{})
	o := opening("shop", "k1")
	must(t, c.Begin(ctx, o))
	ch := capture(t, o)
	must(t, c.Apply(ctx, ch))
	second := refund(t, ch.Payment, 100)
	k := ch.Keys[0]
	k.AnswerKind, k.Answer = "DECLINED", []byte("other")
	second.Keys = []shard.Key{k}
	must(t, c.Apply(ctx, second))
	key, err := c.OpeningKey(ctx, "shop", "k1")
	must(t, err)
	if key == nil || key.AnswerKind != "CHARGED" || string(key.Answer) != `{"id":"x"}` {
		t.Errorf("the key's answer is now %+v", key)
	}
	if key, err = c.OpeningKey(ctx, "shop", "never"); key != nil || err != nil {
		t.Errorf("a key that nobody took: %+v, %v", key, err)
	}
}

// TestReversedOnce (C043): of two reversals of one entry only one is posted, whichever payment's change carries it.
func TestReversedOnce(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		ctx := context.Background()
		c := open(t, 1, options)
		o := opening("shop", "k1")
		must(t, c.Begin(ctx, o))
		ch := capture(t, o)
		must(t, c.Apply(ctx, ch))
		before := ch.Payment
		for n, want := range []string{"", "journal_entries_reversed_once"} {
			reversal, err := ch.Entry.Reversal(ledger.ReversalID(ch.Entry.ID), "posted twice", "ops-1")
			must(t, err)
			reversal.ID += string(rune('a' + n)) // even under another ID
			next := before
			next.Version++
			err = c.Apply(ctx, shard.Change{From: before.Status, Payment: next, Entry: &reversal, Event: ch.Event, At: ch.At})
			var refused *shard.RefusedError
			switch {
			case want == "" && err == nil:
				before = next
			case want == "" || !errors.As(err, &refused) || refused.Constraint != want:
				t.Fatalf("reversal %d: %v, want %q", n, err, want)
			}
		}
		entries, err := c.Entries(ctx, o.Payment.ID)
		must(t, err)
		if len(entries) != 2 || entries[1].Reverses != ch.Entry.ID || len(entries[0].Lines()) != 4 || len(entries[1].Lines()) != 4 {
			t.Errorf("entries %+v", entries)
		}
		c.expectPosted(t, 0)
	})
}

// TestMissing tells apart what is not there from what is not an ID.
func TestMissing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := open(t, 1, shard.Options{})
	never := shard.NewID(shard.PaymentPrefix, 7, time.Unix(0, 0))
	if _, err := c.Snapshot(ctx, never); !errors.Is(err, shard.ErrNotFound) {
		t.Errorf("no such payment: %v", err)
	}
	var id *shard.IDError
	if _, err := c.Snapshot(ctx, "pay_9999_x"); !errors.Is(err, shard.ErrNotFound) || !errors.As(err, &id) {
		t.Errorf("not an ID: %v", err)
	}
	if found, err := c.Find(ctx, never, shard.KeyRef{ClientID: "shop", Scope: "x", Key: "y"}); err != nil || !found.Missing || found.Key != nil {
		t.Errorf("found %+v, %v", found, err)
	}
	if _, err := c.RollUp(ctx, "shard-9"); !errors.Is(err, shard.ErrNotFound) {
		t.Errorf("no such shard: %v", err)
	}
}

// TestPaymentsOfOrder gathers a client's payments of an order from all shards, oldest first.
func TestPaymentsOfOrder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := open(t, 2, shard.Options{})
	var want []string
	for n := range 6 {
		o := opening("shop", keyIn("shop", shard.Bucket(n*700), n))
		o.Payment.OrderID = "same"
		o.At = time.Unix(int64(1000+n), 0).UTC()
		must(t, c.Begin(ctx, o))
		want = append(want, o.Payment.ID)
	}
	other := opening("thief", "k")
	other.Payment.OrderID = "same"
	must(t, c.Begin(ctx, other))
	payments, err := c.PaymentsOfOrder(ctx, "shop", "same")
	must(t, err)
	var got []string
	for _, p := range payments {
		got = append(got, p.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("payments\n%v, want\n%v", got, want)
	}
}
