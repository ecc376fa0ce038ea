package loadtest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// PlayOptions say where a trace is played. URLs, Keys, Now and Meter are required.
type PlayOptions struct {
	URLs        []string          // of routers, which take turns
	Keys        map[string]string // client -> API key; other clients of the trace share these, each always the same
	Prefix      string            // of orders and keys; one that the cluster has not seen
	MaxInFlight int               // arrivals whose story is not over; 0 = 50,000
	Tries       int               // of a call that routers cannot take; 0 = 40
	ShedTries   int               // … of one that the cluster turns away under stress; 0 = as Tries
	Impatient   bool              // does not wait as long as Retry-After says
	Now         func() time.Time
	Meter       *Meter
	Transport   http.RoundTripper // nil = a pool of connections
	Stop        <-chan struct{}   // closed: no further arrivals; the begun ones end
}

// Player sends a trace as an open system: each arrival begins at its own time, whether or not others were answered, so that a
// stall of the cluster meets all who come meanwhile, and is measured.
type Player struct {
	options PlayOptions
	shopper *shopper
	names   []string
	slots   chan struct{}
	running sync.WaitGroup
	start   time.Time

	sent    atomic.Int64
	mu      sync.Mutex
	known   []Acknowledged
	refused []string // orders that were turned away for good
	overrun int
	asked   Claim // what was asked for
}

// Acknowledged is what the API told a shop of one payment. The books must agree.
type Acknowledged struct {
	Payment  string
	Order    string
	Minor    int64
	Currency string
	Word     string // of the authorization's answer
	Captured int64  // by calls that were answered with a success
	Refunded int64
	Voided   bool
	Shed     Op // the last call, if it was turned away for good: nothing of it may be in the books
}

const defaultInFlight = 50_000

// NewPlayer checks the options.
func NewPlayer(o PlayOptions) (*Player, error) {
	if len(o.URLs) == 0 || len(o.Keys) == 0 || o.Now == nil || o.Meter == nil {
		return nil, errors.New("loadtest: PlayOptions.URLs, Keys, Now and Meter are required")
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = defaultInFlight
	}
	if o.Tries == 0 {
		o.Tries = defaultTries
	}
	if o.ShedTries == 0 {
		o.ShedTries = o.Tries
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{MaxIdleConns: shopperConns, MaxIdleConnsPerHost: shopperConns, MaxConnsPerHost: maxShopperConns,
			DisableCompression: true}
	}
	p := &Player{options: o, names: slices.Sorted(maps.Keys(o.Keys)), slots: make(chan struct{}, o.MaxInFlight)}
	p.shopper = &shopper{urls: o.URLs, now: o.Now, tries: o.Tries, http: &http.Client{Transport: o.Transport, Timeout: shopperTimeout},
		onSend: func() { p.sent.Add(1) }, shedTries: o.ShedTries, impatient: o.Impatient, onShed: o.Meter.Shed}
	return p, nil
}

// Play begins each arrival at start plus its time, and returns when all stories are over. An error means that the trace could
// not be read to its end, or that ctx ended.
func (p *Player) Play(ctx context.Context, start time.Time, arrivals iter.Seq2[Arrival, error]) error {
	p.start = start
	defer p.shopper.http.CloseIdleConnections()
	defer p.running.Wait()
	for a, err := range arrivals {
		if err != nil {
			return err
		}
		if !p.waitUntil(ctx, p.due(a.AtMS)) {
			return ctx.Err()
		}
		p.begin(ctx, a)
	}
	p.running.Wait()
	return ctx.Err()
}

// due is when an offset of the trace is.
func (p *Player) due(ms int64) time.Time { return p.start.Add(time.Duration(ms) * time.Millisecond) }

// waitUntil returns false if ctx ended or Stop was closed first.
func (p *Player) waitUntil(ctx context.Context, at time.Time) bool {
	select {
	case <-p.options.Stop:
		return false
	default:
	}
	wait := at.Sub(p.options.Now())
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-p.options.Stop:
	}
	return false
}

// begin never waits: an arrival for which there is no room is counted, and makes the run's figures void.
func (p *Player) begin(ctx context.Context, a Arrival) {
	p.options.Meter.Intend(p.due(a.AtMS))
	select {
	case p.slots <- struct{}{}:
	default:
		p.options.Meter.Count(Authorize, statusNoAnswer, wordNotInTime)
		p.mu.Lock()
		p.overrun++
		p.mu.Unlock()
		return
	}
	p.running.Go(func() {
		defer func() { <-p.slots }()
		p.story(ctx, a)
	})
}

// story is all that one buyer and the shop do.
func (p *Player) story(ctx context.Context, a Arrival) {
	token := p.tokenOf(a.Client)
	at := p.due(a.AtMS)
	e, err := a.authorization(p.options.Prefix, token, a.Card, a.Key)
	if err != nil {
		return // a trace that was read can be written
	}
	p.ask(a.Charge)
	repeats := p.repeat(ctx, at, a, e)
	r := p.call(ctx, at, e)
	nothing := r.nothing // of the first card: after it the order is known
	defer func() {
		if taken := repeats.wait(); nothing && !taken {
			p.refuse(a)
		}
	}()
	key := a.Key
	if r.status == http.StatusPaymentRequired && a.Second != nil {
		p.know(a, r, Acknowledged{})
		at = r.doneAt.Add(time.Duration(a.Second.AfterMS) * time.Millisecond)
		key += "/b"
		if e, err = a.authorization(p.options.Prefix, token, a.Second.Card, key); err != nil || !p.sleepUntil(ctx, at) {
			return
		}
		p.ask(a.Charge)
		r = p.call(ctx, at, e)
	}
	known := Acknowledged{}
	if a.Charge && r.status == http.StatusCreated {
		known.Captured = a.Amount.Minor
		p.options.Meter.Paid(r.doneAt)
	}
	if len(a.Then) > 0 && r.status == http.StatusAccepted {
		r = p.outcome(ctx, token, r)
	}
	if r.body.ID != "" && r.body.Code == "" && r.status < http.StatusBadRequest && r.word() != shownDeclined && r.word() != shownFailed {
		p.follow(ctx, a, at, r, token, key, &known)
	}
	p.know(a, r, known)
}

// ask notes that a payment is asked for.
func (p *Player) ask(charge bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked.Asked++
	if charge {
		p.asked.CapturesAsked++
	}
}

// askCapture notes that the first capture of a payment is asked for.
func (p *Player) askCapture() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked.CapturesAsked++
}

// Asked is what was asked for.
func (p *Player) Asked() Claim {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// refuse notes an order of which the cluster would know nothing.
func (p *Player) refuse(a Arrival) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = append(p.refused, p.options.Prefix+a.Order)
}

// Refused are the orders that were turned away for good: the books must not have them.
func (p *Player) Refused() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.refused)
}

// repeats are the copies of an authorization that are under way.
type repeats struct {
	group sync.WaitGroup
	taken atomic.Bool // one of them was not turned away
}

// wait returns when all are over.
func (r *repeats) wait() (taken bool) {
	r.group.Wait()
	return r.taken.Load()
}

// repeat sends the arrival's authorization again at its times, under the same key, as impatient buyers and shops do. All
// answers must name one payment.
func (p *Player) repeat(ctx context.Context, at time.Time, a Arrival, e errand) *repeats {
	var all repeats
	for _, after := range a.Repeats {
		all.group.Go(func() {
			again := at.Add(time.Duration(after) * time.Millisecond)
			if !p.sleepUntil(ctx, again) {
				return
			}
			r := p.shopper.run(ctx, e)
			if !r.nothing {
				all.taken.Store(true)
			}
			p.options.Meter.Count("repeat", r.status, r.word())
			if r.body.ID != "" {
				p.know(a, r, Acknowledged{})
			}
		})
	}
	return &all
}

// outcome asks what became of an authorization that had no answer yet, as a shop does before it ships.
func (p *Player) outcome(ctx context.Context, token string, auth reply) reply {
	e := errand{op: Read, path: paymentsPath + "/" + auth.body.ID, token: token}
	deadline := auth.doneAt.Add(laterPatience)
	for r := auth; ; {
		if !pause(ctx, laterPause) || p.options.Now().After(deadline) {
			return r
		}
		asked := p.shopper.run(ctx, e)
		if asked.status != http.StatusOK {
			continue
		}
		if r = asked; r.word() != shownProcessing {
			return r
		}
	}
}

// follow makes the captures, voids and refunds, each at its time, or as soon as the step before it was answered.
func (p *Player) follow(ctx context.Context, a Arrival, at time.Time, auth reply, token, key string, known *Acknowledged) {
	ready, last, captures := auth.doneAt, auth, false
	for n, l := range a.Then {
		if n > 0 && last.status == http.StatusAccepted {
			// A capture whose outcome is told later: nothing follows one that came to nothing.
			last.body.ID = auth.body.ID
			if word := p.outcome(ctx, token, last).word(); word == shownAuthorized || word == shownFailed {
				return
			}
		}
		e, err := a.later(p.options.Prefix, token, auth.body.ID, key, n)
		intended := at.Add(time.Duration(l.AfterMS) * time.Millisecond)
		if ready.After(intended) {
			intended = ready // a late answer before it is that call's delay; it does not count twice
		}
		if err != nil || !p.sleepUntil(ctx, intended) {
			return
		}
		if l.Op == Capture && !captures && !a.Charge {
			captures = true
			p.askCapture()
		}
		r := p.call(ctx, intended, e)
		ready, last = r.doneAt, r
		if r.nothing {
			known.Shed = l.Op
		}
		if r.status >= http.StatusBadRequest || r.status == statusNoAnswer {
			return
		}
		known.add(a, l, r)
		if l.Op == Capture {
			p.options.Meter.Paid(r.doneAt)
		}
	}
}

// add notes a success. What is only under way is not known yet.
func (k *Acknowledged) add(a Arrival, l Later, r reply) {
	if r.status != http.StatusOK && r.status != http.StatusCreated {
		return
	}
	minor := l.Minor
	if minor == 0 {
		minor = a.Amount.Minor
	}
	switch l.Op {
	case Capture:
		k.Captured += minor
	case Refund:
		k.Refunded += minor
	case Void:
		k.Voided = true
	}
}

func (p *Player) sleepUntil(ctx context.Context, at time.Time) bool {
	wait := at.Sub(p.options.Now())
	return wait <= 0 && ctx.Err() == nil || wait > 0 && pause(ctx, wait)
}

// call runs an errand and measures it from its intended start.
func (p *Player) call(ctx context.Context, intended time.Time, e errand) reply {
	r := p.shopper.run(ctx, e)
	payment := r.body.ID
	if r.body.PaymentID != "" {
		payment = r.body.PaymentID
	}
	p.options.Meter.Done(Timing{Op: e.op, Payment: payment, Status: r.status, Word: r.word(), Tries: r.tries, Intended: intended, Sent: r.sentAt, Done: r.doneAt})
	return r
}

// know keeps what the API acknowledged of a payment.
func (p *Player) know(a Arrival, r reply, k Acknowledged) {
	if r.body.ID == "" || r.body.Code != "" {
		return
	}
	k.Payment, k.Order, k.Minor, k.Currency, k.Word = r.body.ID, p.options.Prefix+a.Order, a.Amount.Minor, string(a.Amount.Currency), r.word()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = append(p.known, k)
}

// tokenOf is the API key of a client. Clients without one of their own share those that there are, by name.
func (p *Player) tokenOf(client string) string {
	if token, ok := p.options.Keys[client]; ok {
		return token
	}
	hash := fnv.New32a()
	_, _ = fmt.Fprint(hash, client) // never fails
	return p.options.Keys[p.names[int(hash.Sum32())%len(p.names)]]
}

// Acknowledged is what the API told, payment by payment, in no order; one payment may be there several times.
func (p *Player) Acknowledged() []Acknowledged {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.known)
}

// Sent is how many requests left, and Overrun how many arrivals found no room in the generator.
func (p *Player) Sent() (sent int64, overrun int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent.Load(), p.overrun
}
