package loadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options say what is sent where. All but Prefix are required.
type Options struct {
	URLs        []string // of routers, such as http://127.0.0.1:8080; calls are spread over them
	Key         string   // API key of the shop
	StrangerKey string   // … of another client
	Payments    int
	Concurrency int // journeys at once
	Seed        uint64
	Prefix      string // of keys and orders; one that the cluster has not seen. "demo"
	Now         func() time.Time

	// Buyer lets the buyer of a payment act at the PSP, well or not. One who comes back brings what the PSP wants to see
	// again, nil for nothing. Required.
	Buyer func(paymentID string, well, comesBack bool) (details map[string]string, err error)
	// Halfway is called once, when half of the journeys are made; nil = nothing.
	Halfway func()
	// Heal is called when all journeys are made: from then on every outcome must become known. nil = nothing.
	Heal func(context.Context) error
}

// The runner's limits.
const (
	MaxPayments    = 1_000_000
	MaxConcurrency = 1_000
	maxTries       = 10                     // of a call that a router cannot take
	tryPause       = 100 * time.Millisecond // between two of them
	firstPoll      = 50 * time.Millisecond  // between two looks at a payment whose call is open, doubling up to
	longestPoll    = 800 * time.Millisecond // this
	followFor      = 6 * time.Second        // a journey waits for an open call; then it is left for the end
	settleFor      = 40 * time.Second       // all open calls together, once the PSPs are well
	maxTurns       = 6                      // keys for one step, as long as no PSP takes it
	turnPause      = time.Second            // between two of them
	maxFindings    = 1_000
)

// Finding is something that is not as planned.
type Finding struct {
	Payment string `json:"payment"` // "" if the API did not name one
	Order   string `json:"order"`
	Journey string `json:"journey"`
	Detail  string `json:"detail"`
}

// Progress is how far a run is.
type Progress struct {
	Phase       string // pay, settle, replay, read
	Done, Total int    // of the phase
}

// Runner makes the calls of one plan, once.
type Runner struct {
	options Options
	client  *client
	orders  []*Order
	limit   chan struct{} // one token per journey under way

	phase atomic.Pointer[string]
	done  atomic.Int64
	total atomic.Int64

	settleBy time.Time // when the phase settle ends

	mu     sync.Mutex
	result Result
}

// New checks the options and makes the plan.
func New(o Options) (*Runner, error) {
	switch {
	case len(o.URLs) == 0 || o.Key == "" || o.StrangerKey == "" || o.Now == nil || o.Buyer == nil:
		return nil, errors.New("loadtest: Options.URLs, Key, StrangerKey, Now and Buyer are required")
	case o.Payments < 1 || o.Payments > MaxPayments:
		return nil, fmt.Errorf("loadtest: %d payments: want 1 to %d", o.Payments, MaxPayments)
	case o.Concurrency < 1 || o.Concurrency > MaxConcurrency:
		return nil, fmt.Errorf("loadtest: %d journeys at once: want 1 to %d", o.Concurrency, MaxConcurrency)
	}
	if o.Prefix == "" {
		o.Prefix = "demo"
	}
	r := &Runner{options: o, client: newClient(o.URLs, o.Now), limit: make(chan struct{}, o.Concurrency)}
	r.orders = Plan(Journeys(), o.Payments, o.Seed, o.Prefix)
	r.result = newResult(r.orders)
	return r, nil
}

// Progress may be called while Run runs.
func (r *Runner) Progress() Progress {
	p := Progress{Done: int(r.done.Load()), Total: int(r.total.Load())}
	if phase := r.phase.Load(); phase != nil {
		p.Phase = *phase
	}
	return p
}

// Run goes through the phases. An error means that it did not come to its end (ctx ended); what was not as planned is in
// the result.
func (r *Runner) Run(ctx context.Context) (*Result, error) {
	defer r.client.http.CloseIdleConnections()
	start := r.options.Now()
	if err := r.each(ctx, phasePay, r.travel); err != nil {
		return nil, err
	}
	r.result.Took = r.options.Now().Sub(start)
	if r.options.Heal != nil {
		if err := r.options.Heal(ctx); err != nil {
			return nil, err
		}
	}
	r.settleBy = r.options.Now().Add(settleFor)
	for _, next := range []struct {
		phase string
		work  func(context.Context, int, *Order) error
	}{{"settle", r.settle}, {"replay", r.replay}, {"read", r.read}} {
		if err := r.each(ctx, next.phase, next.work); err != nil {
			return nil, err
		}
	}
	return &r.result, nil
}

// phasePay is the first phase.
const phasePay = "pay"

// each does work for every order, a bounded number at once.
func (r *Runner) each(ctx context.Context, phase string, work func(context.Context, int, *Order) error) error {
	r.phase.Store(&phase)
	r.done.Store(0)
	r.total.Store(int64(len(r.orders)))
	group, ctx := errgroup.WithContext(ctx)
	for n, o := range r.orders {
		select {
		case r.limit <- struct{}{}:
		case <-ctx.Done():
			return errors.Join(group.Wait(), ctx.Err())
		}
		group.Go(func() error {
			defer func() { <-r.limit }()
			defer r.step(phase)
			return work(ctx, n, o)
		})
	}
	return group.Wait()
}

// step counts a journey that has gone through a phase.
func (r *Runner) step(phase string) {
	half := int64(len(r.orders)+1) / 2
	if r.done.Add(1) == half && phase == phasePay && r.options.Halfway != nil {
		r.options.Halfway()
	}
}

// busyCodes are refusals that say: nothing was done, try again under the same key.
var busyCodes = []string{"PAYMENT_BUSY", "SHARD_UNAVAILABLE", wordOverloaded, "DEPENDENCY_UNAVAILABLE", "DRAINING"}

// send is the shop's way to send: what a router cannot take goes to the next one, under the same key.
func (r *Runner) send(ctx context.Context, router int, op Op, request request) (*answer, error) {
	var last error
	for try := range maxTries {
		a, err := r.client.send(ctx, router+try, request)
		switch {
		case err == nil && !slices.Contains(busyCodes, a.resource.Code):
			r.count(op, a)
			return a, nil
		case err == nil:
			last = fmt.Errorf("HTTP %d %s", a.status, a.resource.Code)
		default:
			last = err
		}
		r.retried()
		if !pause(ctx, tryPause) {
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("no answer in %d tries: %w", maxTries, last)
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
