package shard_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"paygrid/shard"
)

// TestReadsLeaveTheLanesTheirConnections: reads that stand still, more than all the connections of a shard, hold up no write.
func TestReadsLeaveTheLanesTheirConnections(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	b := open(t, 1, shard.Options{StatementTimeout: patience})
	o := b.captured(t, "shop", keyIn("shop", 10, 0))
	owner := connect(t, b.layout.Admin["shard-1"])
	owner.exec(t, "BEGIN")
	owner.exec(t, "LOCK TABLE refunds IN ACCESS EXCLUSIVE MODE") // a read of a payment needs it, an opening does not
	var reads sync.WaitGroup
	defer reads.Wait()
	defer cancel()
	for range 20 {
		reads.Go(func() { _, _ = b.Find(ctx, o.Payment.ID, shard.KeyRef{}) })
	}
	eventually(t, "reads have all connections that they can have", func() bool {
		return owner.count(t, "SELECT count(*) FROM pg_locks WHERE relation = 'refunds'::regclass AND NOT granted") >= 4
	})
	soon, end := context.WithTimeout(ctx, 4*time.Second)
	defer end()
	for n := range 5 {
		if err := b.Begin(soon, opening("shop", keyIn("shop", 12, n))); err != nil {
			t.Fatalf("opening %d beside the reads: %v", n, err)
		}
	}
	owner.exec(t, "ROLLBACK")
}
