package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"paygrid/shard"
)

// term is one relay's time with one shard's lease, and with one producer.
type term struct {
	relay  *Relay
	shard  string
	fence  shard.Fence
	client *kgo.Client

	cursors map[shard.Bucket]cursor // what the database says, as long as the lease is ours
	turn    int                     // where the next round begins to share out, so that no bucket waits behind others
	due     time.Time               // when held payments are looked at again
	prune   time.Time               // when published events are removed again
}

// cursor is how far a bucket is published. A bucket that went and came back has another epoch, and is looked up again.
type cursor struct{ epoch, seq int64 }

// run does rounds until ctx ends, the lease is lost or something fails. until is when the lease runs out unless renewed.
func (t *term) run(ctx context.Context, until time.Time) error {
	defer t.client.Close() // with it ends what is still under way; nobody counts on it
	group, ctx := errgroup.WithContext(ctx)
	rounds, stop := context.WithCancel(ctx)
	group.Go(func() error { return t.renew(rounds, until) })
	group.Go(func() error {
		defer stop()
		return t.rounds(ctx)
	})
	return group.Wait()
}

// renew renews the lease and tells the lag, also while a round stands still because no broker answers. It returns
// ErrLeaseLost when the lease is another's, or may be.
func (t *term) renew(ctx context.Context, until time.Time) error {
	config := t.relay.config
	for {
		if t.tellLag(ctx); ctx.Err() != nil {
			return nil
		}
		wait(ctx, config.Lease/5, nil)
		began := config.Now()
		token, held, err := t.askLease(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && (!held || token != t.fence.Token):
			return fmt.Errorf("shard %s: renew: %w", t.shard, shard.ErrLeaseLost)
		case err == nil:
			until = began.Add(config.Lease)
		case !config.Now().Before(until):
			return fmt.Errorf("shard %s: renew: %w: %w", t.shard, shard.ErrLeaseLost, err)
		}
	}
}

// askLease renews the lease; an answer that comes after it has run out is no answer.
func (t *term) askLease(ctx context.Context) (int64, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, t.relay.config.Lease)
	defer cancel()
	return t.relay.shards.Lease(ctx, t.shard, Lease, t.fence.Owner, t.relay.config.Lease)
}

// maxCounted bounds how many held payments are counted; more are told as that many.
const maxCounted = 10_000

// tellLag sets the gauges. A gauge that cannot be told stays as it was.
func (t *term) tellLag(ctx context.Context) {
	m := t.relay.metrics
	events, oldest, err := t.relay.shards.RelayLag(ctx, t.shard)
	if err == nil {
		m.lagEvents.WithLabelValues(t.shard).Set(float64(events))
		age := time.Duration(0)
		if !oldest.IsZero() {
			age = max(0, t.relay.config.Now().Sub(oldest))
		}
		m.lagSeconds.WithLabelValues(t.shard).Set(age.Seconds())
	}
	held, err := t.relay.shards.Parked(ctx, t.shard, maxCounted)
	if err != nil {
		return
	}
	counts := map[shard.Status]int{shard.ParkRetrying: 0, shard.ParkParked: 0, shard.ParkRedrive: 0}
	for _, p := range held {
		counts[p.State]++
	}
	for state, n := range counts {
		m.held.WithLabelValues(t.shard, string(state)).Set(float64(n))
	}
}

// rounds does rounds: at once again while there is more than one takes, when this process commits, and else after a pause
// that grows while nothing comes.
func (t *term) rounds(ctx context.Context) error {
	config := t.relay.config
	committed := t.relay.shards.Committed(t.shard)
	pause := config.PollMin
	for ctx.Err() == nil {
		found, more, err := t.round(ctx)
		if err != nil {
			return endOf(ctx, err)
		}
		if err := t.retryDue(ctx); err != nil {
			return endOf(ctx, err)
		}
		if err := t.pruneDue(ctx); err != nil {
			return endOf(ctx, err)
		}
		if more {
			continue
		}
		if found {
			pause = config.PollMin
			wait(ctx, config.Gather, nil) // a round costs the same for one event as for many
		}
		if wait(ctx, pause, committed) {
			pause = config.PollMin
			continue
		}
		pause = min(2*pause, config.PollMax)
	}
	return nil
}

// endOf keeps the end of ctx from looking like a fault.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, shard.ErrLeaseLost) {
		return nil
	}
	return err
}

// round publishes one batch. found says that there was something, more that there is more than one batch.
func (t *term) round(ctx context.Context) (found, more bool, err error) {
	stretches, more, err := t.next(ctx)
	if err != nil || len(stretches) == 0 {
		return false, false, err
	}
	events, err := t.relay.shards.Outbox(ctx, t.shard, stretches, t.relay.config.MaxBytes)
	if err != nil {
		return false, false, err
	}
	t.pause(PointRead)
	held, err := t.publish(ctx, events)
	if err != nil {
		return false, false, err
	}
	t.pause(PointAcked)
	if err := t.hold(ctx, held); err != nil {
		return false, false, err
	}
	if len(held) > 0 {
		t.pause(PointHeld)
	}
	if err := t.relay.shards.Advance(ctx, t.shard, t.fence, stretches); err != nil {
		return false, false, err
	}
	for _, s := range stretches {
		t.cursors[s.Bucket] = cursor{t.cursors[s.Bucket].epoch, s.Through}
	}
	t.pause(PointMarked)
	return true, more, nil
}

func (t *term) pause(at Point) { t.relay.config.Pause(at) }

// next shares a batch out among the buckets that have something after their cursors.
func (t *term) next(ctx context.Context) (stretches []shard.Stretch, more bool, err error) {
	heads, err := t.relay.shards.Heads(ctx, t.shard)
	if err != nil {
		return nil, false, err
	}
	if err := t.learn(ctx, heads); err != nil {
		return nil, false, err
	}
	var waiting []shard.Stretch
	for _, h := range heads {
		if at := t.cursors[h.Bucket].seq; h.Seq > at {
			waiting = append(waiting, shard.Stretch{Bucket: h.Bucket, After: at, Through: h.Seq})
		}
	}
	t.turn++
	stretches, more = share(waiting, t.relay.config.Batch, t.turn)
	return stretches, more, nil
}

// learn looks up the cursors of buckets that are new to this term.
func (t *term) learn(ctx context.Context, heads []shard.Head) error {
	var unknown []shard.Bucket
	for _, h := range heads {
		if known, ok := t.cursors[h.Bucket]; !ok || known.epoch != h.Epoch {
			unknown = append(unknown, h.Bucket)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	stored, err := t.relay.shards.Cursors(ctx, t.shard, unknown)
	if err != nil {
		return err
	}
	for _, h := range heads {
		if known, ok := t.cursors[h.Bucket]; !ok || known.epoch != h.Epoch {
			t.cursors[h.Bucket] = cursor{h.Epoch, stored[h.Bucket]}
		}
	}
	return nil
}

// share cuts what waits to limit events: each bucket gets an equal part, at least one event, beginning with another bucket
// each turn. more says that something was left.
func share(waiting []shard.Stretch, limit, turn int) (out []shard.Stretch, more bool) {
	if len(waiting) == 0 {
		return nil, false
	}
	part := max(1, int64(limit/len(waiting)))
	left := int64(limit)
	for n := range waiting {
		s := waiting[(n+turn)%len(waiting)]
		length := min(s.Through-s.After, part, left)
		more = more || length < s.Through-s.After
		if length == 0 {
			continue
		}
		s.Through = s.After + length
		left -= length
		out = append(out, s)
	}
	return out, more
}

const (
	pruneEvery   = time.Minute
	pruneBuckets = 64 // per statement, with pruneEvents of each: a thousand rows, which neither engine minds
	pruneEvents  = 16
	pruneRepeats = 100 // of the same buckets before the others have their turn
)

// pruneDue removes published events that were kept long enough.
func (t *term) pruneDue(ctx context.Context) error {
	config := t.relay.config
	now := config.Now()
	if config.Keep == 0 || now.Before(t.prune) {
		return nil
	}
	t.prune = now.Add(pruneEvery)
	var some []shard.Bucket
	for b := range t.cursors {
		if some = append(some, b); len(some) == pruneBuckets {
			if err := t.pruneSome(ctx, some, now.Add(-config.Keep)); err != nil {
				return err
			}
			some = some[:0]
		}
	}
	return t.pruneSome(ctx, some, now.Add(-config.Keep))
}

func (t *term) pruneSome(ctx context.Context, buckets []shard.Bucket, before time.Time) error {
	for range pruneRepeats {
		n, err := t.relay.shards.PruneOutbox(ctx, t.shard, t.fence, buckets, pruneEvents, before)
		if err != nil {
			return err
		}
		t.relay.metrics.pruned.WithLabelValues(t.shard).Add(float64(n))
		if n == 0 {
			return nil
		}
	}
	return nil
}
