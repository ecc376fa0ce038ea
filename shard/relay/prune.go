package relay

import (
	"context"
	"slices"
	"time"

	"paygrid/shard"
)

const (
	pruneEvery   = time.Minute            // between two walks over all buckets
	prunePause   = 100 * time.Millisecond // between two statements, so that rounds and payments hardly notice
	pruneBuckets = 64                     // per statement, with pruneEvents of each: a thousand rows, which neither engine minds
	pruneEvents  = 16
	pruneRepeats = 100 // of the same buckets before the others have their turn
)

// pruning removes published events that were kept long enough, until ctx ends or the lease is lost. It goes beside the
// rounds: what it removes at most, ten thousand events a second, would hold them up.
func (t *term) pruning(ctx context.Context) error {
	config := t.relay.config
	for config.Keep > 0 && ctx.Err() == nil {
		if err := t.pruneAll(ctx, config.Now().Add(-config.Keep)); err != nil {
			return endOf(ctx, err)
		}
		wait(ctx, pruneEvery, nil)
	}
	return nil
}

// pruneAll walks over all buckets once.
func (t *term) pruneAll(ctx context.Context, before time.Time) error {
	heads, err := t.relay.shards.Heads(ctx, t.shard)
	if err != nil {
		return err
	}
	buckets := make([]shard.Bucket, len(heads))
	for n, h := range heads {
		buckets[n] = h.Bucket
	}
	for some := range slices.Chunk(buckets, pruneBuckets) {
		if err := t.pruneSome(ctx, some, before); err != nil {
			return err
		}
	}
	return nil
}

func (t *term) pruneSome(ctx context.Context, buckets []shard.Bucket, before time.Time) error {
	for range pruneRepeats {
		n, err := t.relay.shards.PruneOutbox(ctx, t.shard, t.fence, buckets, pruneEvents, before)
		if err != nil {
			return err
		}
		t.metrics.pruned.Add(float64(n))
		if n == 0 {
			return nil
		}
		wait(ctx, prunePause, nil)
	}
	return nil
}
