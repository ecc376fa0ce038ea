package main

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// sample is one measurement of one cell.
type sample struct {
	cell
	elapsed    time.Duration
	steps      int64 // commits acknowledged within elapsed
	perPayment int   // commits of one payment
	used       usage // of the machine, in the same time
}

func (s sample) stepsPerSecond() float64 { return float64(s.steps) / s.elapsed.Seconds() }

// paymentsPerSecond counts by steps: those of payments that the end of the window cut are work done, too.
func (s sample) paymentsPerSecond() float64 { return s.stepsPerSecond() / float64(s.perPayment) }

func (s sample) String() string {
	return fmt.Sprintf("%-27s %7.0f steps/s %6.0f payments/s   %s", s.cell, s.stepsPerSecond(), s.paymentsPerSecond(), s.used)
}

// Payments made for a cell: what its last sample used and a half, or for the first one a guess.
const (
	firstRate = 6000 // payments a second
	spareRate = 1.5
	minJobs   = 200
)

// measure lets the callers pay until the window is over or the payments that were made for it are used up.
func (b *bench) measure(ctx context.Context, v *variant, c cell, window time.Duration) (sample, error) {
	rate := b.rates[c] * spareRate
	if rate == 0 {
		rate = firstRate
	}
	jobs, err := makeJobs(0, max(minJobs, int(rate*window.Seconds())), c.sellers, time.Now().UTC().Truncate(time.Microsecond))
	if err != nil {
		return sample{}, err
	}
	runtime.GC() // what the last cell left is not this one's to sweep
	before, err := b.gauges.read(ctx, v.registry)
	if err != nil {
		return sample{}, err
	}
	s, err := race(ctx, v, c, jobs, window)
	if err != nil {
		return sample{}, fmt.Errorf("%s: %w", c, err)
	}
	after, err := b.gauges.read(ctx, v.registry)
	if err != nil {
		return sample{}, err
	}
	s.used = after.since(before, s)
	b.rates[c] = s.paymentsPerSecond()
	return s, nil
}

// race runs the callers. A payment that has begun is ended, so that all can be counted afterwards; what is acknowledged
// after the window is not part of the sample.
func race(ctx context.Context, v *variant, c cell, jobs []job, window time.Duration) (sample, error) {
	var next, steps, paid atomic.Int64
	var over atomic.Bool
	group, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	timer := time.AfterFunc(window, func() { over.Store(true) })
	defer timer.Stop()
	step := func() {
		if !over.Load() {
			steps.Add(1)
		}
	}
	for range c.callers {
		group.Go(func() error {
			for !over.Load() {
				n := next.Add(1) - 1
				if n >= int64(len(jobs)) {
					return nil
				}
				if err := v.pay(ctx, jobs[n], step); err != nil {
					return err
				}
				paid.Add(1)
			}
			return nil
		})
	}
	err := group.Wait()
	v.paid += paid.Load()
	return sample{cell: c, elapsed: min(time.Since(start), window), steps: steps.Load(), perPayment: v.steps}, err
}
