package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
}

// The runner's limits.
const (
	MaxPayments    = 1_000_000
	MaxConcurrency = 1_000
	maxTries       = 10                     // of a call that a router cannot take
	tryPause       = 100 * time.Millisecond // between two of them
	maxPolls       = 200                    // of a call whose caller had hung up
	pollPause      = 50 * time.Millisecond
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
	Phase       string // pay, replay, read
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

	mu     sync.Mutex
	result Result
}

// New checks the options and makes the plan.
func New(o Options) (*Runner, error) {
	switch {
	case len(o.URLs) == 0 || o.Key == "" || o.StrangerKey == "" || o.Now == nil:
		return nil, errors.New("loadtest: Options.URLs, Key, StrangerKey and Now are required")
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
	if err := r.each(ctx, "pay", r.travel); err != nil {
		return nil, err
	}
	r.result.Took = r.options.Now().Sub(start)
	if err := r.each(ctx, "replay", r.replay); err != nil {
		return nil, err
	}
	if err := r.each(ctx, "read", r.read); err != nil {
		return nil, err
	}
	return &r.result, nil
}

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
			defer r.done.Add(1)
			return work(ctx, n, o)
		})
	}
	return group.Wait()
}

// travel makes one journey. It ends at the first answer that is not as planned: what follows would mean nothing.
func (r *Runner) travel(ctx context.Context, n int, o *Order) error {
	for i := range o.Calls {
		c := &o.Calls[i]
		a, detail, err := r.call(ctx, n+i, o, c)
		if err != nil {
			return err
		}
		if c.answer = a; a != nil && o.paymentID == "" {
			o.paymentID = paymentOf(c, a)
		}
		if detail != "" {
			r.find(o, fmt.Sprintf("%s (%s): %s", c.Step.Op, c.Key, detail))
			return nil
		}
	}
	return nil
}

// call makes one call in its planned way and checks it. An error means that ctx ended.
func (r *Runner) call(ctx context.Context, router int, o *Order, c *Call) (*answer, string, error) {
	token := r.options.Key
	if c.Step.Stranger {
		token = r.options.StrangerKey
	}
	request, err := o.request(c, token)
	if err != nil {
		return nil, err.Error(), nil
	}
	switch {
	case c.Step.HangUp:
		return r.hangUp(ctx, router, o, c, request)
	case c.Twice:
		return r.twice(ctx, router, o, c, request)
	}
	a, err := r.send(ctx, router, c.Step.Op, request)
	if err != nil {
		return nil, err.Error(), ctx.Err()
	}
	return a, o.check(c, a), nil
}

// twice sends a request to two routers at once.
func (r *Runner) twice(ctx context.Context, router int, o *Order, c *Call, request request) (*answer, string, error) {
	var answers [2]*answer
	var group errgroup.Group
	for n := range answers {
		group.Go(func() (err error) {
			answers[n], err = r.send(ctx, router+n, c.Step.Op, request)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err.Error(), ctx.Err()
	}
	a, detail := o.checkTwice(c, answers[0], answers[1])
	return a, detail, nil
}

// hangUp leaves as soon as the request is out, and then asks under the same key until there is an answer.
func (r *Runner) hangUp(ctx context.Context, router int, o *Order, c *Call, request request) (*answer, string, error) {
	left := request
	left.hangUp = true
	_, _ = r.client.send(ctx, router, left) // nobody waits for it
	for range maxPolls {
		a, err := r.send(ctx, router+1, c.Step.Op, request)
		if err != nil {
			return nil, err.Error(), ctx.Err()
		}
		if !isOpen(a) {
			return a, o.check(c, a), nil
		}
		if !pause(ctx, pollPause) {
			return nil, "", ctx.Err()
		}
	}
	return nil, "the caller hung up, and the key has no answer after " + (maxPolls * pollPause).String(), nil
}

// busyCodes are refusals that say: nothing was done, try again under the same key.
var busyCodes = []string{"PAYMENT_BUSY", "SHARD_UNAVAILABLE", "DEPENDENCY_UNAVAILABLE", "DRAINING"}

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

// replay sends the chosen keys of one order again, to another router than before.
func (r *Runner) replay(ctx context.Context, n int, o *Order) error {
	for i := range o.Calls {
		c := &o.Calls[i]
		if !c.Again || c.answer == nil {
			continue
		}
		request, err := o.request(c, r.options.Key)
		if err != nil {
			return err
		}
		a, err := r.send(ctx, n+i+1, Read, request)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		detail := fmt.Sprint("replay: ", err)
		if err == nil {
			detail = checkReplay(c, a)
		}
		if detail != "" {
			r.find(o, detail)
		}
	}
	return nil
}

// read reads a payment and its order's payments.
func (r *Runner) read(ctx context.Context, n int, o *Order) error {
	if o.Findings > 0 && o.paymentID == "" {
		return nil // its finding is there already
	}
	a, err := r.send(ctx, n+1, Read, request{method: http.MethodGet, path: "/v1/payments/" + o.paymentID, token: r.options.Key})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	detail := fmt.Sprint("read: ", err)
	if err == nil {
		detail = o.checkPayment(o.Final, a.resource)
	}
	if detail != "" && o.Findings == 0 { // a journey that ended early is elsewhere
		r.find(o, detail)
	}
	return r.readOrder(ctx, n, o)
}

func (r *Runner) readOrder(ctx context.Context, n int, o *Order) error {
	path := "/v1/payments?orderId=" + url.QueryEscape(o.ID)
	a, err := r.send(ctx, n, Read, request{method: http.MethodGet, path: path, token: r.options.Key})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var list struct{ Payments []resource }
	if err == nil {
		err = json.Unmarshal(a.body, &list)
	}
	switch {
	case err != nil:
		r.find(o, fmt.Sprint("read the order: ", err))
	case len(list.Payments) != 1:
		r.find(o, fmt.Sprintf("the order has %d payments, want 1", len(list.Payments)))
	case list.Payments[0].ID != o.paymentID:
		r.find(o, fmt.Sprintf("the order's payment is %s", list.Payments[0].ID))
	}
	return nil
}
