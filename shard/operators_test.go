package shard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paygrid/shard"
)

func approval(n int) shard.Approval {
	at := time.Unix(int64(1000+n), 0).UTC()
	return shard.Approval{ID: shard.NewID(shard.ApprovalPrefix, shard.Bucket(n*700%shard.Buckets), at), Kind: "settle_attempt", PaymentID: "pay",
		SubjectID: fmt.Sprintf("att-%d", n), Decision: "declined", Reference: "", Reason: "the PSP's dashboard", RequestedBy: "u-kim", RequestedAt: at}
}

// TestTwoPeople (C067 a, b, d): who asked cannot decide, and what was decided stays.
func TestTwoPeople(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		ctx := context.Background()
		c := open(t, 2, options)
		a := approval(1)
		must(t, c.RequestApproval(ctx, a))
		must(t, c.RequestApproval(ctx, a)) // a lost answer: the same request again
		if _, err := c.DecideApproval(ctx, a.ID, "u-kim", true, a.RequestedAt); !errors.Is(err, shard.ErrSamePerson) {
			t.Errorf("the same person: %v", err)
		}
		open, err := c.OpenApprovals(ctx, c.ShardNames()[0], 10)
		must(t, err)
		more, err := c.OpenApprovals(ctx, c.ShardNames()[1], 10)
		must(t, err)
		if all := append(open, more...); len(all) != 1 || all[0].ID != a.ID || all[0].State != shard.ApprovalOpen || all[0].Reason != a.Reason {
			t.Errorf("open: %+v", all)
		}
		got, err := c.DecideApproval(ctx, a.ID, "u-lee", false, a.RequestedAt)
		if err != nil || got.State != shard.ApprovalRejected || got.DecidedBy != "u-lee" || got.RequestedBy != "u-kim" {
			t.Errorf("rejected: %+v, %v", got, err)
		}
		if _, err := c.DecideApproval(ctx, a.ID, "u-max", true, a.RequestedAt); !errors.Is(err, shard.ErrConflict) {
			t.Errorf("after the rejection: %v", err)
		}
		for _, id := range []string{"x", shard.NewID(shard.ApprovalPrefix, 9, time.Unix(0, 0))} {
			if _, err := c.DecideApproval(ctx, id, "u-lee", true, a.RequestedAt); !errors.Is(err, shard.ErrNotFound) {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}

// TestTwoDecideAtOnce (C067 c): of two at the same moment, one decides.
func TestTwoDecideAtOnce(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		ctx := context.Background()
		c := open(t, 1, options)
		for n := range 20 {
			a := approval(n)
			must(t, c.RequestApproval(ctx, a))
			var decided atomic.Int32
			var all sync.WaitGroup
			for _, by := range []string{"u-lee", "u-max"} {
				all.Go(func() {
					_, err := c.DecideApproval(ctx, a.ID, by, true, a.RequestedAt)
					switch {
					case err == nil:
						decided.Add(1)
					case !errors.Is(err, shard.ErrConflict):
						t.Error(err)
					}
				})
			}
			all.Wait()
			if decided.Load() != 1 {
				t.Fatalf("round %d: %d decided", n, decided.Load())
			}
		}
	})
}

// TestSwitches: every shard is told, any is believed, and the newest word counts.
func TestSwitches(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := open(t, 2, shard.Options{})
	at := time.Unix(1000, 0).UTC()
	drain := shard.Switch{PSP: "stripe", Drained: true, Reason: "status page", Actor: "u-kim", At: at}
	must(t, c.SetSwitch(ctx, drain))
	must(t, c.SetSwitch(ctx, shard.Switch{PSP: "stripe", Actor: "u-lee", At: at.Add(-time.Second)})) // late on its way
	got, err := c.Switches(ctx)
	must(t, err)
	if !slices.EqualFunc(got, []shard.Switch{drain}, sameSwitch) {
		t.Errorf("got %+v", got)
	}
	undrain := shard.Switch{PSP: "stripe", Actor: "u-lee", At: at.Add(time.Second)}
	must(t, c.SetSwitch(ctx, undrain))
	if got, err = c.Switches(ctx); err != nil || !slices.EqualFunc(got, []shard.Switch{undrain}, sameSwitch) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, name := range c.ShardNames() {
		if n := c.layout.Count(t, name, "SELECT count(*) FROM psp_switches WHERE actor = 'u-lee'"); n != 1 {
			t.Errorf("%s was not told", name)
		}
	}
}

func sameSwitch(x, y shard.Switch) bool {
	at := x.At.Equal(y.At)
	x.At, y.At = time.Time{}, time.Time{}
	return at && x == y
}

// TestInboxOf: the notices that name a payment's attempts come with the payment, without their bytes.
func TestInboxOf(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := open(t, 2, shard.Options{})
	o := opening("shop", "k1")
	must(t, c.Begin(ctx, o))
	b, err := shard.BucketOfID(shard.PaymentPrefix, o.Payment.ID)
	must(t, err)
	for n, attempt := range []string{o.Attempt.ID, "another", o.Attempt.ID} {
		item := shard.InboxItem{Bucket: b, PSP: "stripe", EventID: fmt.Sprintf("evt_%d", n), Kind: "charge.failed", AttemptID: attempt, Raw: []byte("{}")}
		stored, err := c.PutInbox(ctx, item, o.At.Add(time.Duration(n)*time.Second))
		if err != nil || !stored {
			t.Fatal(stored, err)
		}
	}
	got, err := c.InboxOf(ctx, []string{o.Attempt.ID})
	if err != nil || len(got) != 2 || got[0].EventID != "evt_0" || got[1].EventID != "evt_2" || len(got[0].Raw) != 0 || got[0].Kind != "charge.failed" {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := c.InboxOf(ctx, nil); got != nil || err != nil {
		t.Errorf("no attempts: %+v, %v", got, err)
	}
}

// TestQueueColumnsAreRead: what the resolver counts is read with the attempt, and a change leaves it.
func TestQueueColumnsAreRead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := open(t, 1, shard.Options{})
	o := opening("shop", "k1")
	must(t, c.Begin(ctx, o))
	next := o.At.Add(time.Hour)
	due, err := c.ClaimAttempts(ctx, "shard-1", "w", next, next, 10)
	if err != nil || len(due) != 1 {
		t.Fatal(due, err)
	}
	recheck := shard.Recheck{AttemptID: o.Attempt.ID, Absent: 1, Escalated: true, NextAt: next, Detail: "no record"}
	given, err := c.Reschedule(ctx, "shard-1", "w", []shard.Recheck{recheck})
	if err != nil || !given[0] {
		t.Fatal(given, err)
	}
	check := func(status shard.Status) {
		t.Helper()
		found, err := c.Snapshot(ctx, o.Payment.ID)
		must(t, err)
		if a := found.Attempts[0]; a.Checks != 1 || a.Absent != 1 || !a.Escalated || a.Status != status {
			t.Errorf("got %+v", a)
		}
	}
	check("PENDING")
	must(t, c.Apply(ctx, capture(t, o)))
	check("SUCCEEDED")
}
