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

// term is one relay's time with one shard's lease, and with one producer. How far it is the database alone knows.
type term struct {
	relay   *Relay
	shard   string
	fence   shard.Fence
	client  *kgo.Client
	metrics shardMetrics

	turn int       // where the next round begins to share out, so that no bucket waits behind others
	due  time.Time // when held payments are looked at again
}

// run does rounds until ctx ends, the lease is lost or something fails. until is when the lease runs out unless renewed.
func (t *term) run(ctx context.Context, until time.Time) error {
	defer t.client.Close() // with it ends what is still under way; nobody counts on it
	group, ctx := errgroup.WithContext(ctx)
	rounds, stop := context.WithCancel(ctx)
	group.Go(func() error { return t.renew(rounds, until) })
	group.Go(func() error { return t.pruning(rounds) })
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
		wait(ctx, config.Lease/leaseParts, nil)
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

// tellLag sets the gauges. A gauge that cannot be told, or not in time for the next renewal, stays as it was.
func (t *term) tellLag(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, t.relay.config.Lease/leaseParts)
	defer cancel()
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

// rounds publishes at the pace of the configuration, and tries again what was refused, until ctx ends or something fails.
func (t *term) rounds(ctx context.Context) error {
	config := t.relay.config
	p := pace{every: config.Pace, idle: config.Poll, committed: t.relay.shards.Committed(t.shard)}
	return endOf(ctx, p.run(ctx, func(ctx context.Context) (haul, error) {
		found, err := t.round(ctx)
		if err != nil {
			return found, err
		}
		return found, t.retryDue(ctx)
	}))
}

// endOf keeps the end of ctx from looking like a fault.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, shard.ErrLeaseLost) {
		return nil
	}
	return err
}

// round publishes one batch.
func (t *term) round(ctx context.Context) (haul, error) {
	waiting, err := t.relay.shards.Unsent(ctx, t.shard)
	if err != nil || len(waiting) == 0 {
		return haulNothing, err
	}
	t.turn++
	stretches, more := share(waiting, t.relay.config.Batch, t.turn)
	events, err := t.relay.shards.Outbox(ctx, t.shard, stretches, t.relay.config.MaxBytes)
	if err != nil {
		return haulNothing, err
	}
	t.pause(PointRead)
	held, err := t.publish(ctx, events)
	if err != nil {
		return haulNothing, err
	}
	t.pause(PointAcked)
	if err := t.hold(ctx, held); err != nil {
		return haulNothing, err
	}
	if len(held) > 0 {
		t.pause(PointHeld)
	}
	if err := t.relay.shards.Advance(ctx, t.shard, t.fence, stretches); err != nil {
		return haulNothing, err
	}
	t.metrics.round.Observe(float64(len(events)))
	t.pause(PointMarked)
	if more {
		return haulFull, nil
	}
	return haulAll, nil
}

func (t *term) pause(at Point) { t.relay.config.Pause(at) }

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
