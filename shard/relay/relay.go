package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"paygrid/shard"
)

// Config says how a process relays. Zero values mean the defaults that stand beside the fields.
type Config struct {
	Broker   Broker
	Topic    string        // DefaultTopic
	Source   string        // the events' ce_source, the same for all shards: buckets move. "paygrid"
	Owner    string        // who holds the leases: unique to the relay (required)
	Batch    int           // events per round. 500
	MaxBytes int           // the largest batch that is sent; not above the broker's message.max.bytes. 1,000,012
	MaxTries int           // how often an event is sent alone before its payment is parked. 10
	Backoff  time.Duration // the first pause between two tries; it doubles up to a minute. 1 s
	Lease    time.Duration // how long a relay that died keeps others out; one takes over within a third of that. 5 s
	Pace     time.Duration // the least time between the beginnings of two rounds while events flow: they gather. 100 ms
	Poll     time.Duration // the longest pause of an idle relay, unless its own process commits. 100 ms
	Keep     time.Duration // how long published events stay in the outbox; 0 = for ever, else at least an hour

	Now      func() time.Time
	Log      *slog.Logger
	Registry prometheus.Registerer // may be nil
	Pause    func(Point)           // called at each point of a round; for tests. May be nil
}

// Point names a moment of a round at which a process can die.
type Point string

// The points, in their order.
const (
	PointRead   Point = "after_read_before_publish"
	PointFirst  Point = "after_first_ack"
	PointAcked  Point = "after_ack_before_mark"
	PointHeld   Point = "after_hold_before_mark"
	PointMarked Point = "after_mark"
	PointRetry  Point = "after_retry_before_release"
)

// Points are all of them.
var points = [...]Point{PointRead, PointFirst, PointAcked, PointHeld, PointMarked, PointRetry}

// Points returns all points, for tests that stop at each.
func Points() []Point { return points[:] }

// leastKeep: a change whose commit is in doubt is read back from the outbox, within seconds; an hour is safe.
const leastKeep = time.Hour

func (c Config) withDefaults() Config {
	setDefault(&c.Topic, DefaultTopic)
	setDefault(&c.Source, "paygrid")
	setDefault(&c.Batch, 500)
	setDefault(&c.MaxBytes, 1_000_012)
	setDefault(&c.MaxTries, 10)
	setDefault(&c.Backoff, time.Second)
	setDefault(&c.Lease, 5*time.Second)
	setDefault(&c.Pace, 100*time.Millisecond)
	setDefault(&c.Poll, 100*time.Millisecond)
	if c.Pause == nil {
		c.Pause = func(Point) {}
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) check() error {
	switch {
	case c.Owner == "":
		return errors.New("relay: Config.Owner is missing: name this relay as no other is named")
	case c.Now == nil || c.Log == nil:
		return errors.New("relay: Config.Now or Config.Log is missing")
	case c.Keep != 0 && c.Keep < leastKeep:
		return fmt.Errorf("relay: Config.Keep is %s: want 0 or at least %s, within which commits in doubt are read back", c.Keep, leastKeep)
	case c.Batch < 1 || c.MaxTries < 1 || c.MaxBytes < 1 || c.Lease < 0 || c.Pace < 0 || c.Poll < 0 || c.Backoff < 0:
		return errors.New("relay: Config: a limit or a time is negative")
	}
	_, err := c.Broker.Options()
	return err
}

// Relay publishes the outboxes of all shards whose leases it gets.
type Relay struct {
	shards  *shard.Cluster
	config  Config
	metrics *metrics
}

// New makes a relay; it connects when it runs.
func New(shards *shard.Cluster, c Config) (*Relay, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Relay{shards: shards, config: c, metrics: newMetrics(c.Registry)}, nil
}

// Lease is the name of the lease under which a shard's outbox is published.
const Lease = "relay"

// leaseParts: a lease is renewed, and asked for by those who have it not, every such part of its time.
const leaseParts = 3

// Run relays until ctx ends. What fails is logged and tried again.
func (r *Relay) Run(ctx context.Context) error {
	var group errgroup.Group
	for _, name := range r.shards.ShardNames() {
		group.Go(func() error {
			r.keep(ctx, name)
			return nil
		})
	}
	return group.Wait()
}

// longestRest bounds the pause after terms that failed.
const longestRest = 5 * time.Second

// keep asks for the lease of one shard, and serves a term whenever it gets it.
func (r *Relay) keep(ctx context.Context, name string) {
	rest := r.config.Poll
	for ctx.Err() == nil {
		began := r.config.Now()
		served, err := r.serve(ctx, name)
		if r.config.Now().Sub(began) > r.config.Lease {
			rest = r.config.Poll // it went well for a while
		}
		switch {
		case ctx.Err() != nil:
		case err == nil && !served:
			rest = r.config.Lease / leaseParts
		case errors.Is(err, shard.ErrLeaseLost):
			r.config.Log.WarnContext(ctx, "the relay's lease went to another", "shard", name)
			rest = r.config.Lease / leaseParts
		case err != nil:
			r.config.Log.ErrorContext(ctx, "a relay's term failed; the next follows", "shard", name, "error", err)
			rest = min(2*rest, longestRest)
		}
		wait(ctx, jitter(rest), nil)
	}
}

// serve serves one term if the lease is free or ours.
func (r *Relay) serve(ctx context.Context, name string) (bool, error) {
	began := r.config.Now()
	token, held, err := r.shards.Lease(ctx, name, Lease, r.config.Owner, r.config.Lease)
	if err != nil || !held {
		return false, err
	}
	defer r.metrics.forget(name)
	r.metrics.leader.WithLabelValues(name).Set(1)
	client, err := r.producer()
	if err != nil {
		return true, err
	}
	t := &term{relay: r, shard: name, fence: shard.Fence{Lease: Lease, Owner: r.config.Owner, Token: token}, client: client,
		metrics: r.metrics.of(name)}
	err = t.run(ctx, began.Add(r.config.Lease))
	if ctx.Err() != nil {
		r.release(context.WithoutCancel(ctx), name)
		return true, nil
	}
	return true, err
}

// releaseTimeout bounds the last write of a relay that ends.
const releaseTimeout = 2 * time.Second

// release lets another relay take over at once. Should it fail, the other waits until the lease has run out.
func (r *Relay) release(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if _, _, err := r.shards.Lease(ctx, name, Lease, r.config.Owner, 0); err != nil {
		r.config.Log.WarnContext(ctx, "the relay's lease was not released; it runs out by itself", "shard", name, "error", err)
	}
}

// wait waits for d, for woken, or for the end of ctx, and tells whether woken was it.
func wait(ctx context.Context, d time.Duration, woken <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-woken:
		return true
	}
	return false
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
