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

	stop     chan struct{} // closed: no further arrivals
	limit    float64       // payments a second that our own share's bound held for, in the ramp
	passedAt time.Duration // when it did not hold any more; 0 = it always did
}

// The rhythm of a run.
const (
	startDelay    = time.Second
	probeInterval = time.Second
	probesMax     = 1000 // of a long run, which are then further apart
	lateSeconds   = 5
	settlePause   = time.Second
)

func newTrial(o runOptions, c *cluster, progress io.Writer) (*trial, error) {
	t := &trial{o: o, c: c, progress: progress, start: o.start, stop: make(chan struct{}), saboteur: saboteur{c: c}}
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
	r := &loadtest.Report{Title: t.o.title, Setting: t.o.setting(t.c), Started: t.start, Took: took.Round(time.Millisecond), Faults: t.saboteur.rows}
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	r.Sent, r.Overrun = t.player.Sent()
	t.meter.Measured(r)
	if t.o.trace == "" {
		t.meter.Segmented(r, t.o.traffic.segments, t.probe, t.o.limitOwn > 0)
	}
	t.probe.Probed(r)
	t.noteLimit(r)
	if err := audit(ctx, t.c, t.player, r); err != nil {
		return nil, fmt.Errorf("compare the books: %w", err)
	}
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

// capacity climbs until our own share passes its bound, or to the climb's end, and returns how many payments a second there
// were before. What the climb began is over when it returns.
func (t *trial) capacity(ctx context.Context) (float64, error) {
	t.probe.Round(ctx)
	t.probe.Begin()
	if err := t.play(ctx); err != nil {
		return 0, err
	}
	return t.limit, t.settle(ctx)
}

// play sends the traffic, with the faults and the probe beside it.
func (t *trial) play(ctx context.Context) (err error) {
	arrivals, closing, err := t.o.arrivals()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	beside, end := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { t.watch(beside) })
	group.Go(func() { t.saboteur.sabotage(beside, t.start, t.o.faults, t.progress) })
	err = t.player.Play(ctx, t.start, arrivals)
	select {
	case <-t.stop:
		err = ctx.Err()
	default:
	}
	end()
	group.Wait()
	return err
}

// watch probes all processes at every interval, and ends a ramp where our own share passes its bound.
func (t *trial) watch(ctx context.Context) {
	ticker := time.NewTicker(max(probeInterval, (t.length / probesMax).Round(time.Second)))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			t.probe.Round(ctx)
			t.climb()
			at := time.Since(t.start)
			fmt.Fprintf(t.progress, "%4.0f s  offered %5.0f/s  paid %5.0f/s  own share p99 %s\n", at.Seconds(), loadtest.Offered(t.o.traffic.segments, at),
				t.meter.PaidLately(time.Now(), lateSeconds), t.probe.OwnLately().Round(100*time.Microsecond))
		case <-ctx.Done():
			return
		}
	}
}

// climb notes how far a ramp has come, and stops it at the bound.
func (t *trial) climb() {
	at := time.Since(t.start)
	last := t.o.traffic.segments[len(t.o.traffic.segments)-1]
	begin := t.length - last.Duration
	if t.o.limitOwn == 0 || t.passedAt > 0 || at < begin+lateSeconds*time.Second {
		return
	}
	if t.probe.OwnLately() <= t.o.limitOwn {
		t.limit = max(t.limit, t.meter.PaidLately(time.Now(), lateSeconds))
		return
	}
	t.passedAt = at
	close(t.stop)
}

func (t *trial) noteLimit(r *loadtest.Report) {
	if t.o.limitOwn == 0 {
		return
	}
	r.Limit = t.limit
	r.LimitNote = fmt.Sprintf("The ramp came to %.0f payments/s; our own share's p99 stayed below %s to its end.", t.limit, t.o.limitOwn)
	if t.passedAt > 0 {
		r.LimitNote = fmt.Sprintf("The ramp came to %.0f payments/s before our own share's p99 passed %s, %.0f s into the run.", t.limit,
			t.o.limitOwn, t.passedAt.Seconds())
	}
}

// settle waits until no attempt is without an answer and no notice waits, or the time for it is over: the verdict then says
// what is left.
func (t *trial) settle(ctx context.Context) error {
	if t.c.mapPath == "" {
		return nil
	}
	shards, err := shard.Open(ctx, shard.NewMapFile(t.c.mapPath), shard.Options{Lanes: 1, Now: time.Now}, nil)
	if err != nil {
		return err
	}
	defer shards.Close()
	deadline := time.Now().Add(t.o.settle)
	for {
		waiting, err := waitingOn(ctx, shards)
		if err == nil && waiting == 0 || time.Now().After(deadline) {
			return err
		}
		fmt.Fprintf(t.progress, "waiting for %d attempts and notices\n", waiting)
		if !waitUntil(ctx, time.Now().Add(settlePause)) {
			return ctx.Err()
		}
		t.probe.Round(ctx)
	}
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
