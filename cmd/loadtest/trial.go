package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"paygrid/loadtest"
	"paygrid/shard"
)

// trial is one run against one cluster.
type trial struct {
	o        runOptions
	c        *cluster
	progress io.Writer
	start    time.Time
	length   time.Duration
	meter    *loadtest.Meter
	probe    *loadtest.Probe
	player   *loadtest.Player
	saboteur saboteur
	traffic  *traffic

	stop  chan struct{} // closed: no further arrivals
	climb climb
}

// The rhythm of a run.
const (
	startDelay    = time.Second
	probeInterval = time.Second
	probesMax     = 1000 // of a long run, which are then further apart
	lateSeconds   = 5
	overFor       = 2 * lateSeconds * time.Second // without holding is the end of a climb; one slow moment is not
	settlePause   = time.Second
	quietPart     = 4 // a quarter of --settle without a step of the books: the other parts are over, too
)

func newTrial(o runOptions, c *cluster, progress io.Writer) (*trial, error) {
	t := &trial{o: o, c: c, progress: progress, start: o.start, stop: make(chan struct{}), saboteur: saboteur{c: c},
		climb: climb{bound: o.limitOwn, keepsUp: o.overload == findCapacity}}
	if t.start.IsZero() {
		t.start = time.Now().Add(startDelay)
	}
	t.length = loadtest.Length(o.traffic.segments)
	t.meter = loadtest.NewMeter(t.start, t.length)
	t.probe = loadtest.NewProbe(c.processes(), c.names(), t.start, time.Now)
	var err error
	t.player, err = loadtest.NewPlayer(loadtest.PlayOptions{URLs: c.urls, Keys: c.keys, Prefix: o.prefix, Now: time.Now, Meter: t.meter, Stop: t.stop,
		ShedTries: o.shedTries, Impatient: o.impatient})
	return t, err
}

// run plays, waits until all is settled, looks into the books and concludes.
func (t *trial) run(ctx context.Context) (*loadtest.Report, error) {
	t.probe.Round(ctx) // what the processes counted before is not this run's
	t.probe.Begin()
	if err := t.play(ctx); err != nil {
		return nil, err
	}
	took := time.Since(t.start)
	r := &loadtest.Report{Title: t.o.title, Setting: t.o.setting(t.c), Started: t.start, Took: took.Round(time.Millisecond), Faults: t.saboteur.rows,
		Share: t.o.share(t.traffic), Claim: t.player.Asked()}
	r.Sent, r.Overrun = t.player.Sent()
	t.meter.Measured(r)
	if err := t.audit(ctx, r); err != nil {
		return nil, fmt.Errorf("compare the books: %w", err)
	}
	if err := t.checkTopic(ctx, r); err != nil {
		return nil, err
	}
	if t.o.trace == "" {
		t.meter.Segmented(r, t.o.traffic.segments, t.probe, t.o.limitOwn > 0)
	}
	t.probe.Probed(r)
	t.noteLimit(r)
	if t.o.overload != "" {
		if err := t.meter.Overloaded(r, t.o.traffic.segments, t.probe); err != nil {
			return nil, err
		}
	}
	bounds := t.o.bounds
	if t.c.dev != nil {
		bounds.Keeper = devProcess
	}
	r.Conclude(bounds)
	return r, nil
}

// capacity climbs as long as what is paid keeps up with what is offered, and returns how many payments a second that was at most.
// What the climb began is over when it returns.
func (t *trial) capacity(ctx context.Context) (float64, error) {
	t.probe.Round(ctx)
	t.probe.Begin()
	if err := t.play(ctx); err != nil {
		return 0, err
	}
	shards, err := t.shards(ctx)
	if err != nil || shards == nil {
		return t.climb.limit, err
	}
	defer shards.Close()
	_, err = t.settle(ctx, shards, time.Now().Add(t.o.settle))
	return t.climb.limit, err
}

// play sends the traffic, with the faults and the probe beside it.
func (t *trial) play(ctx context.Context) (err error) {
	if t.traffic, err = t.o.arrivals(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.traffic.close()) }()
	beside, end := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { t.watch(beside) })
	group.Go(func() { t.saboteur.sabotage(beside, t.start, t.o.faults, t.progress) })
	err = t.player.Play(ctx, t.start, t.traffic.mine)
	select {
	case <-t.stop:
		err = ctx.Err()
	default:
	}
	end()
	group.Wait()
	return err
}

// watch probes all processes at every interval, and ends a ramp where the climb is over.
func (t *trial) watch(ctx context.Context) {
	ticker := time.NewTicker(max(probeInterval, (t.length / probesMax).Round(time.Second)))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			t.probe.Round(ctx)
			t.look()
			at := time.Since(t.start)
			fmt.Fprintf(t.progress, "%4.0f s  offered %5.0f/s  paid %5.0f/s  own share p99 %s\n", at.Seconds(), loadtest.Offered(t.o.traffic.segments, at),
				t.meter.PaidLately(time.Now(), lateSeconds), t.probe.OwnLately().Round(100*time.Microsecond))
		case <-ctx.Done():
			return
		}
	}
}

// climb is how far a ramp came within a bound of our own share, or while payments kept up with arrivals.
type climb struct {
	bound    time.Duration // 0 = none
	keepsUp  bool          // in place of a bound
	limit    float64       // payments a second that it held for
	over     time.Duration // since when it does not hold; 0 = it does
	passedAt time.Duration // since when it did not hold any more; 0 = it held to the end
}

// keptUp is how much of what was offered is paid if the cluster keeps up: some cards are declined, some payments voided.
const keptUp = 0.9

// see takes what our own share was lately, how many payments a second there were, and how many were to begin just before those; it
// tells whether the climb is over.
func (c *climb) see(at, own time.Duration, paid, begun float64) bool {
	switch {
	case c.bound == 0 && !c.keepsUp || c.passedAt > 0:
		return false
	case c.bound > 0 && own <= c.bound, c.keepsUp && paid >= keptUp*begun:
		c.limit, c.over = max(c.limit, paid), 0
		return false
	case c.over == 0:
		c.over = at
	}
	if at-c.over < overFor {
		return false
	}
	c.passedAt = c.over
	return true
}

// look stops a ramp that is over.
func (t *trial) look() {
	at := time.Since(t.start)
	last := t.o.traffic.segments[len(t.o.traffic.segments)-1]
	if begin := t.length - last.Duration; at < begin+lateSeconds*time.Second {
		return
	}
	now, seconds := time.Now(), lateSeconds
	if t.climb.keepsUp {
		seconds *= 2 // of some hundred arrivals less is chance
	}
	begun := t.meter.IntendedLately(now.Add(-t.o.traffic.habits.CaptureAfter-time.Second), seconds)
	if t.climb.see(at, t.probe.OwnLately(), t.meter.PaidLately(now, seconds), begun) {
		close(t.stop)
	}
}

func (t *trial) noteLimit(r *loadtest.Report) {
	if t.o.limitOwn == 0 {
		return
	}
	r.Limit = t.climb.limit
	r.LimitNote = fmt.Sprintf("The ramp came to %.0f payments/s; our own share's p99 stayed below %s to its end.", t.climb.limit, t.o.limitOwn)
	if t.climb.passedAt > 0 {
		r.LimitNote = fmt.Sprintf("The ramp came to %.0f payments/s before our own share's p99 passed %s, %.0f s into the run.", t.climb.limit,
			t.o.limitOwn, t.climb.passedAt.Seconds())
	}
}

// shards opens the books; nil if nobody told where they are.
func (t *trial) shards(ctx context.Context) (*shard.Cluster, error) {
	if t.c.mapPath == "" {
		return nil, nil //nolint:nilnil // as told
	}
	return shard.Open(ctx, shard.NewMapFile(t.c.mapPath), shard.Options{Lanes: 1, Now: time.Now}, nil)
}

// audit waits until the books stand still, and compares them. If they went on meanwhile it does so again, as long as there is
// time: nothing can be said of books that others still write.
func (t *trial) audit(ctx context.Context, r *loadtest.Report) error {
	shards, err := t.shards(ctx)
	if err != nil || shards == nil {
		return err
	}
	defer shards.Close()
	over := time.Now()
	if t.o.isPart() {
		// A lull of the other parts is not their end.
		if planned := t.start.Add(t.traffic.extent.Last); planned.After(over) {
			over = planned
		}
		fmt.Fprintf(t.progress, "waiting for the end of the trace, of which others play the rest\n")
		if !waitUntil(ctx, over) {
			return ctx.Err()
		}
	}
	for deadline := over.Add(t.o.settle); ; {
		before, err := t.settle(ctx, shards, deadline)
		if err != nil {
			return err
		}
		a, books, err := compareBooks(ctx, shards, t.c.sims, t.player, t.o.prefix)
		if err != nil {
			return err
		}
		if books.Seq, err = stepsOf(ctx, shards); err != nil {
			return err
		}
		if books.Moving = books.Seq != before; books.Moving && time.Now().Before(deadline) {
			continue
		}
		r.Audit, r.Books = a.Result(), books
		var named loadtest.Claim
		named, books.OfRun, books.CapturedOfRun = a.Counted()
		r.Claim.Named, r.Claim.Captured = named.Named, named.Captured
		explainSlowest(ctx, shards, r)
		return nil
	}
}

// settle waits until no attempt is without an answer and no notice waits, or the time for it is over: the verdict then says
// what is left. A part also waits until the books make no step any more, since others may still send. It returns how far they are.
func (t *trial) settle(ctx context.Context, shards *shard.Cluster, deadline time.Time) (steps int64, err error) {
	var quiet time.Duration // that must pass: others may have been told to come back, and do
	if t.o.isPart() {
		quiet = t.o.settle / quietPart
	}
	moved := time.Now()
	for last := int64(-1); ; last = steps {
		waiting, err := waitingOn(ctx, shards)
		if err != nil {
			return 0, err
		}
		if steps, err = stepsOf(ctx, shards); err != nil {
			return 0, err
		}
		if steps != last {
			moved = time.Now()
		}
		if waiting == 0 && time.Since(moved) >= quiet || time.Now().After(deadline) {
			return steps, nil
		}
		if waiting > 0 {
			fmt.Fprintf(t.progress, "waiting for %d attempts and notices\n", waiting)
		} else if last >= 0 {
			fmt.Fprintf(t.progress, "waiting until the other parts are over: the books made %d steps\n", steps-last)
		}
		if !waitUntil(ctx, time.Now().Add(settlePause)) {
			return 0, ctx.Err()
		}
		t.probe.Round(ctx)
	}
}

// stepsOf adds up how far the logs of all buckets reach: it grows with every payment that is begun or moved.
func stepsOf(ctx context.Context, shards *shard.Cluster) (sum int64, err error) {
	for _, name := range shards.ShardNames() {
		heads, err := shards.Heads(ctx, name)
		if err != nil {
			return 0, err
		}
		for _, h := range heads {
			sum += h.Seq
		}
	}
	return sum, nil
}

// waitingOn counts attempts without an answer and notices not yet applied, over all shards.
func waitingOn(ctx context.Context, shards *shard.Cluster) (sum int64, err error) {
	for _, name := range shards.ShardNames() {
		attempts, _, err := shards.PendingCount(ctx, name, time.Now())
		if err != nil {
			return sum, err
		}
		notices, _, err := shards.InboxLag(ctx, name)
		if err != nil {
			return sum, err
		}
		sum += attempts + notices
	}
	return sum, nil
}
