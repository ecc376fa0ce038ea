package shard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"paygrid/shard"
)

var noticeIn9 = shard.InboxItem{Bucket: 9, PSP: "stripe", EventID: "evt_1", Kind: "charge.succeeded", Raw: []byte("{}")}

// TestNoticesPassThoseWhoTakeNumbers: while another process has a number of the bucket and has not committed yet, a notice of the
// same bucket is stored: a PSP's webhook comes when its answer does. An opening waits.
func TestNoticesPassThoseWhoTakeNumbers(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		c := oneLane(t, options)
		holder := connect(t, c.layout.Admin["shard-1"])
		holder.exec(t, "BEGIN")
		holder.exec(t, "UPDATE buckets SET seq = seq WHERE bucket = 9")
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if stored, err := c.PutInbox(ctx, noticeIn9, now()); !stored || err != nil {
			t.Errorf("stored %t, %v", stored, err)
		}
		began := make(chan error, 1)
		go func() { began <- c.Begin(ctx, opening("shop", keyIn("shop", 9, 0))) }()
		gate := &gate{holder: holder, beside: connect(t, c.layout.Admin["shard-1"])}
		gate.waitBlocked(t, 1)
		gate.open(t)
		must(t, <-began)
		c.sound(t)
	})
}

// TestNoticesWaitForTheMover: a notice that meets a move of its bucket waits for it, and is then not stored where the bucket was.
func TestNoticesWaitForTheMover(t *testing.T) {
	for _, change := range []string{"state = 'MOVED'", "epoch = epoch + 1"} {
		isolations(t, func(t *testing.T, options shard.Options) {
			c := oneLane(t, options)
			g := &gate{holder: connect(t, c.layout.Admin["shard-1"]), beside: connect(t, c.layout.Admin["shard-1"])}
			g.holder.exec(t, "BEGIN")
			g.holder.exec(t, "UPDATE buckets SET "+change+" WHERE bucket = 9")
			stored := make(chan error, 1)
			go func() {
				_, err := c.PutInbox(context.Background(), noticeIn9, now())
				stored <- err
			}()
			g.waitBlocked(t, 1)
			g.open(t)
			if err := <-stored; !errors.Is(err, shard.ErrNoOwner) {
				t.Errorf("%s: %v, want no owner", change, err)
			}
			if n := c.layout.Count(t, "shard-1", "SELECT count(*) FROM webhook_inbox"); n != 0 {
				t.Errorf("%s: %d notices stored behind the mover", change, n)
			}
		})
	}
}

// TestTheMoverWaitsForNotices: a bucket does not move while a notice behind its fence is not committed.
func TestTheMoverWaitsForNotices(t *testing.T) {
	for _, change := range []string{"state = 'MOVED'", "epoch = epoch + 1"} {
		c := oneLane(t, shard.Options{})
		writer, mover := connect(t, c.layout.URLs["shard-1"]), connect(t, c.layout.Admin["shard-1"])
		writer.exec(t, "BEGIN")
		writer.exec(t, shard.PutInboxSQL, []int32{9}, []int64{1}, []string{"stripe"}, []string{"evt_1"}, []string{"charge.succeeded"}, []string{""},
			[]string{""}, []string{""}, [][]byte{[]byte("{}")}, []time.Time{now()})
		mover.exec(t, "SET lock_timeout = '200ms'")
		if _, err := mover.Exec(context.Background(), "UPDATE buckets SET "+change+" WHERE bucket = 9"); sqlState(err) != "55P03" { // lock_not_available
			t.Errorf("%s: %v, want the bucket not to move away from a notice under way", change, err)
		}
		writer.exec(t, "COMMIT")
		mover.exec(t, "UPDATE buckets SET "+change+" WHERE bucket = 9")
	}
}
