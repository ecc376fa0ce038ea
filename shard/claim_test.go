package shard_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"paygrid/shard"
)

var claimTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// stored puts a notice into a bucket, at so many seconds after claimTime.
func (b bench) stored(t testing.TB, bucket shard.Bucket, second int) shard.InboxKey {
	t.Helper()
	key := shard.InboxKey{Bucket: bucket, PSP: "stripe", EventID: fmt.Sprintf("evt_%d_%d", bucket, second)}
	isNew, err := b.PutInbox(context.Background(), shard.InboxItem{Bucket: bucket, PSP: key.PSP, EventID: key.EventID, Kind: "k", Raw: []byte("{}")},
		claimTime.Add(time.Duration(second)*time.Second))
	if err != nil || !isNew {
		t.Fatal(isNew, err)
	}
	return key
}

// claims leases notices for a minute from now on, which is so many seconds after claimTime.
func (b bench) claims(t testing.TB, owner string, now, limit int) []shard.InboxKey {
	t.Helper()
	at := claimTime.Add(time.Duration(now) * time.Second)
	items, err := b.ClaimInbox(context.Background(), "shard-1", owner, at, at.Add(time.Minute), limit)
	must(t, err)
	var keys []shard.InboxKey
	for _, item := range items {
		keys = append(keys, shard.InboxKey{Bucket: item.Bucket, PSP: item.PSP, EventID: item.EventID})
	}
	return keys
}

func (b bench) closes(t testing.TB, owner string, keys []shard.InboxKey) []bool {
	t.Helper()
	var ends []shard.InboxEnd
	for _, key := range keys {
		ends = append(ends, shard.InboxEnd{InboxKey: key, State: shard.InboxApplied, Reason: "by " + owner})
	}
	closed, err := b.CloseInbox(context.Background(), "shard-1", owner, ends, claimTime)
	must(t, err)
	return closed
}

// The notices that have waited longest are claimed first, wherever they lie: a backlog in some buckets holds up no other.
func TestClaimsTakeTheOldest(t *testing.T) {
	t.Parallel()
	b := open(t, 1, shard.Options{})
	var keys []shard.InboxKey
	for n := range 40 { // a backlog in the first slot, and single notices in the others that came in between
		keys = append(keys, b.stored(t, shard.Bucket([]int{0, 8, 16, 1 + n%7}[n%4]), n))
	}
	for start := 0; start < len(keys); start += 10 {
		if got := b.claims(t, "w", 100, 10); !slices.Equal(got, keys[start:start+10]) {
			t.Errorf("claimed %v, want %v", got, keys[start:start+10])
		}
	}
	if got := b.claims(t, "w", 100, 10); got != nil {
		t.Errorf("claimed twice: %v", got)
	}
}

// A round is closed by one statement. A notice whose lease went to another worker stays the other's, and one whose bucket is
// frozen stays; all others are closed.
func TestCloseLeavesWhatIsNotOurs(t *testing.T) {
	isolations(t, func(t *testing.T, o shard.Options) {
		b := open(t, 1, o)
		var keys []shard.InboxKey
		for n := range 20 {
			keys = append(keys, b.stored(t, shard.Bucket(100+n), n))
		}
		mine := b.claims(t, "slow", 100, 20)
		if lost := b.claims(t, "fast", 160, 1); !slices.Equal(lost, keys[:1]) { // the leases have run out
			t.Fatalf("the other claimed %v", lost)
		}
		b.layout.Exec(t, "shard-1", `UPDATE buckets SET state = 'FROZEN' WHERE bucket = 107`)
		want := slices.Repeat([]bool{true}, 20)
		want[0], want[7] = false, false
		if got := b.closes(t, "slow", mine); !slices.Equal(got, want) {
			t.Errorf("closed %v, want %v", got, want)
		}
		const open = `SELECT count(*) FROM webhook_inbox WHERE state = 'NEW' AND tries = 0 AND lease_owner <> ''`
		if n := b.layout.Count(t, "shard-1", open); n != 2 {
			t.Errorf("%d notices are open, want 2", n)
		}
		if got := b.closes(t, "fast", keys[:2]); !slices.Equal(got, []bool{true, false}) {
			t.Errorf("the other closed %v", got)
		}
		b.layout.Exec(t, "shard-1", `UPDATE buckets SET state = 'OWNED' WHERE bucket = 107`)
		if got := b.claims(t, "fast", 300, 20); !slices.Equal(got, keys[7:8]) {
			t.Errorf("what the freeze left open is claimed as %v", got)
		}
	})
}

// Workers that claim at once never have a notice in common, and leave none.
func TestClaimsAtOnceShareNothing(t *testing.T) {
	isolations(t, func(t *testing.T, o shard.Options) {
		b := open(t, 1, o)
		const notices, workers = 120, 6
		for n := range notices {
			b.stored(t, shard.Bucket(n*31%shard.Buckets), n)
		}
		var mu sync.Mutex
		claimed := map[shard.InboxKey]int{}
		var group sync.WaitGroup
		for w := range workers {
			group.Go(func() {
				for empty := 0; empty < 3; {
					some := b.claims(t, fmt.Sprint("w-", w), 1000, 10)
					if len(some) == 0 {
						empty++
					}
					mu.Lock()
					for _, key := range some {
						claimed[key]++
					}
					mu.Unlock()
				}
			})
		}
		group.Wait()
		for key, times := range claimed {
			if times != 1 {
				t.Errorf("%v was claimed %d times", key, times)
			}
		}
		for _, key := range b.claims(t, "last", 1000, notices) {
			claimed[key]++
		}
		if len(claimed) != notices {
			t.Errorf("%d notices were claimed, want %d", len(claimed), notices)
		}
	})
}

// Attempts are given back by one statement; one that has its answer meanwhile, and one whose lease went to another, stay as
// they are.
func TestRescheduleLeavesWhatIsNotOurs(t *testing.T) {
	isolations(t, func(t *testing.T, o shard.Options) {
		ctx := context.Background()
		b := open(t, 1, o)
		var openings []shard.Opening
		for n := range 10 {
			opening := opening("shop", fmt.Sprint("k-", n))
			opening.Attempt.NextCheckAt = opening.At.Add(time.Duration(n) * time.Second)
			must(t, b.Begin(ctx, opening))
			openings = append(openings, opening)
		}
		now := openings[9].At.Add(time.Hour)
		due, err := b.ClaimAttempts(ctx, "shard-1", "slow", now, now.Add(time.Minute), 100)
		if err != nil || len(due) != 10 {
			t.Fatal(due, err)
		}
		must(t, b.Apply(ctx, capture(t, openings[3])))
		lost, err := b.ClaimAttempts(ctx, "shard-1", "fast", now.Add(time.Minute), now.Add(time.Hour), 1)
		if err != nil || len(lost) != 1 || lost[0].AttemptID != openings[0].Attempt.ID {
			t.Fatal(lost, err)
		}
		var rechecks []shard.Recheck
		for _, o := range openings {
			rechecks = append(rechecks, shard.Recheck{AttemptID: o.Attempt.ID, Absent: 1, NextAt: now.Add(2 * time.Hour), Detail: "no record"})
		}
		want := slices.Repeat([]bool{true}, 10)
		want[0], want[3] = false, false
		given, err := b.Reschedule(ctx, "shard-1", "slow", rechecks)
		if err != nil || !slices.Equal(given, want) {
			t.Errorf("gave back %v, %v; want %v", given, err, want)
		}
		const back = `SELECT count(*) FROM attempts WHERE checks = 1 AND absent_checks = 1 AND detail = 'no record' AND lease_owner = ''`
		if n := b.layout.Count(t, "shard-1", back); n != 8 {
			t.Errorf("%d attempts were given back, want 8", n)
		}
	})
}

// Snapshots gives what the payments' own reads give, and leaves out what this shard does not hold.
func TestSnapshotsAreTheSameInOneRead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := open(t, 2, shard.Options{})
	ids := []string{"no ID", shard.NewID(shard.AttemptPrefix, 5, claimTime)}
	here, frozen := 0, ""
	for n := range 20 {
		o := b.captured(t, "shop", fmt.Sprint("k-", n))
		ids = append(ids, o.Attempt.ID)
		if bucket, _ := shard.BucketOfID(shard.AttemptPrefix, o.Attempt.ID); b.layout.Map.Owner(bucket).Shard == "shard-1" {
			here++
			frozen = o.Attempt.ID
		}
	}
	found, err := b.Snapshots(ctx, "shard-1", append(ids, ids...))
	if err != nil || len(found) != here {
		t.Fatalf("found %d of %d, %v", len(found), here, err)
	}
	for id, got := range found {
		want, err := b.Snapshot(ctx, got.Payment.ID)
		must(t, err)
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || want.Attempts[0].ID != id {
			t.Errorf("attempt %s: got\n%+v, want\n%+v", id, got, want)
		}
	}
	bucket, _ := shard.BucketOfID(shard.AttemptPrefix, frozen)
	b.layout.Exec(t, "shard-1", `UPDATE buckets SET epoch = epoch + 1 WHERE bucket = $1`, int32(bucket))
	again, err := b.Snapshots(ctx, "shard-1", ids)
	if _, there := again[frozen]; err != nil || there || len(again) == 0 {
		t.Errorf("past the fence: %d snapshots, with the fenced one: %t, %v", len(again), there, err)
	}
}

// TestClaimHasATimeLimit: a worker whose answer never comes is not held for ever; what it may have claimed comes back with the
// lease.
func TestClaimHasATimeLimit(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, p := doubtful(t, shard.Options{StatementTimeout: 300 * time.Millisecond})
	for name, claim := range map[string]func(owner string) error{
		"attempts": func(owner string) error {
			_, err := c.ClaimAttempts(ctx, "shard-1", owner, now(), now().Add(time.Minute), 10)
			return err
		},
		"inbox": func(owner string) error {
			_, err := c.ClaimInbox(ctx, "shard-1", owner, now(), now().Add(time.Minute), 10)
			return err
		},
	} {
		p.add("held-"+name, holdAnswer, 1)
		if err := claim("held-" + name); err == nil || ctx.Err() != nil {
			t.Errorf("%s: %v, and the caller's own time: %v", name, err, ctx.Err())
		}
	}
}
