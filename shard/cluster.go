package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// Cluster is all shards as one process sees them: it places each call by the shard map, and when the fence refuses, reads
// the map anew and asks the right shard.
type Cluster struct {
	source  *MapFile
	opts    Options
	metrics *Metrics

	mu      sync.RWMutex
	current *Map
	shards  map[string]*Shard // by URL: a shard that moved to another database has other pools
	closed  bool
}

// Open reads the shard map and makes the pools of each shard. registry may be nil.
func Open(ctx context.Context, source *MapFile, o Options, registry prometheus.Registerer) (*Cluster, error) {
	o = o.withDefaults()
	if o.Now == nil {
		return nil, errors.New("shard: Options.Now is missing")
	}
	c := &Cluster{source: source, opts: o, metrics: NewMetrics(registry, o.Now), shards: map[string]*Shard{}}
	if err := c.Reload(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close lets what is under way end, then closes the pools.
func (c *Cluster) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, s := range c.shards {
		s.close()
	}
	c.shards = map[string]*Shard{}
}

// Reload reads the shard map. A map that cannot be read or parsed changes nothing.
func (c *Cluster) Reload(ctx context.Context) error {
	m, err := c.source.Load(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m == c.current || c.closed {
		return nil
	}
	for name, url := range m.URLs {
		if c.shards[url] != nil {
			continue
		}
		s, err := open(name, url, c.opts, c.metrics)
		if err != nil {
			return err
		}
		c.shards[url] = s
	}
	c.current = m
	return nil
}

// Watch reloads the shard map every interval until ctx ends. A map that cannot be used is told to complain, and the one in
// use stays.
func (c *Cluster) Watch(ctx context.Context, interval time.Duration, complain func(error)) error {
	for sleep(ctx, interval) {
		if err := c.Reload(ctx); err != nil {
			complain(err)
		}
	}
	return nil
}

// Map returns the map in use.
func (c *Cluster) Map() *Map {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.current
}

func (c *Cluster) owner(b Bucket) (*Shard, Owner, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return nil, Owner{}, errClosed
	}
	if b < 0 || b >= Buckets {
		return nil, Owner{}, fmt.Errorf("bucket %s: %w", b, ErrNoOwner)
	}
	owner := c.current.Owner(b)
	return c.shards[c.current.URLs[owner.Shard]], owner, nil
}

// maxReroutes bounds how often a call asks for a new map. With the pauses it is longer than a bucket stays frozen in a
// move.
const maxReroutes = 12

// place runs f on the shard that owns b. When the fence refuses, it reads the map and tries again, after a pause if the
// map still names the same owner.
func (c *Cluster) place(ctx context.Context, b Bucket, f func(s *Shard, epoch int64) error) error {
	pause := firstPause
	for try := 0; ; try++ {
		s, owner, err := c.owner(b)
		if err != nil {
			return err
		}
		if err = f(s, owner.Epoch); !errors.Is(err, errFenced) {
			return err
		}
		c.metrics.fenced.WithLabelValues(s.name).Inc()
		if try == maxReroutes {
			return fmt.Errorf("bucket %s: %w", b, ErrNoOwner)
		}
		if err := c.Reload(ctx); err != nil {
			return fmt.Errorf("bucket %s: %w: %w", b, ErrNoOwner, err)
		}
		if _, now, err := c.owner(b); err == nil && now != owner {
			continue
		}
		if !sleep(ctx, jitter(pause)) {
			return fmt.Errorf("bucket %s: %w: %w", b, ErrNoOwner, ctx.Err())
		}
		pause = min(2*pause, longestPause)
	}
}

// Begin commits an opening, or returns ErrConflict if its key is taken: read the key then. ErrUnavailable and ErrNoOwner
// say that nothing was written; ErrInDoubt that it may have been.
func (c *Cluster) Begin(ctx context.Context, o Opening) error {
	if err := o.Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	return c.place(ctx, o.bucket(), func(s *Shard, epoch int64) error {
		return s.begin(ctx, opening{Opening: o, epoch: epoch})
	})
}

// Apply commits a change, or returns ErrConflict if the payment is not in the state and version that it expects, a
// *RefusedError if the database refuses it, and else as Begin.
func (c *Cluster) Apply(ctx context.Context, ch Change) error {
	if err := ch.Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	id := NewID(changePrefix, ch.bucket(), ch.At)
	return c.place(ctx, ch.bucket(), func(s *Shard, epoch int64) error {
		return s.apply(ctx, change{Change: ch, id: id, epoch: epoch})
	})
}

func (s *Shard) begin(ctx context.Context, o opening) error {
	if s.opts.BatchLimit > 1 {
		return s.lanes.begin(ctx, o)
	}
	return alone(s, "begin", o, beginStatement, s.findOpenings)
}

func (s *Shard) apply(ctx context.Context, c change) error {
	if s.opts.BatchLimit > 1 {
		return s.lanes.apply(ctx, c)
	}
	slot := s.slot(int(c.bucket()))
	return alone(s, "apply", c, func(batch []change) statement { return applyStatement(batch, slot) }, s.findChanges)
}

// alone sends one item in a statement of its own.
func alone[T any](s *Shard, op string, item T, of func([]T) statement, find func(context.Context, []T) ([]bool, error)) error {
	w := waiting[T]{item: item, done: make(chan error, 1)}
	s.settle([]load{loadOf(s, op, []waiting[T]{w}, of, find)})
	return <-w.done
}

// Ping asks every shard of the map whether it answers.
func (c *Cluster) Ping(ctx context.Context) error {
	return c.each(ctx, func(ctx context.Context, s *Shard) error { return s.Ping(ctx) })
}

// PingAny tells whether at least one shard answers: one shard without its database is no reason to turn the others'
// payments away.
func (c *Cluster) PingAny(ctx context.Context) error {
	var errs []error
	for _, s := range c.all() {
		err := s.Ping(ctx)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, ErrUnavailable)...)
}

// ShardNames returns the shards of the map in order.
func (c *Cluster) ShardNames() []string { return c.Map().Names() }

// each runs f on every shard of the map at once and returns the first error.
func (c *Cluster) each(ctx context.Context, f func(ctx context.Context, s *Shard) error) error {
	shards := c.all()
	if len(shards) == 0 {
		return errClosed
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range shards {
		group.Go(func() error { return f(ctx, s) })
	}
	return group.Wait()
}

// all returns the shards of the map in the order of their names.
func (c *Cluster) all() []*Shard {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var out []*Shard
	for _, name := range c.current.Names() {
		if s := c.shards[c.current.URLs[name]]; s != nil {
			out = append(out, s)
		}
	}
	return out
}
