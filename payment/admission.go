package payment

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"paygrid/shard"
)

// Class says how urgent a command is. When a shard is under stress, the least urgent are turned away first.
type Class uint8

// The classes, least urgent first.
const (
	ClassPayout    Class = iota // money to sellers: due by night
	ClassRefund                 // money back to buyers, by refund or void: nobody waits at the till
	ClassCapture                // money that is reserved already, for days
	ClassAuthorize              // a buyer at the till
	classes
)

func (c Class) String() string { return [classes]string{"payout", "refund", "capture", "authorize"}[c] }

// part is how much of a shard's limit a class may fill, in percent: what is above it is kept for the more urgent.
func (c Class) part() int { return [classes]int{10, 20, 40, 100}[c] }

// retryIn is when a command that was turned away makes sense again: at least the class's time, and up to twice that and a second.
// Callers are told whole seconds, so it is drawn in them: not all come back in the same one.
func (c Class) retryIn() time.Duration {
	pause := [classes]int{60, 10, 4, 1}[c]
	return time.Duration(pause+rand.N(pause+2)) * time.Second
}

// admission decides which commands may begin. Each shard has a door of its own, so that one under stress turns nobody away
// from the others. What is limited is our own share alone: the writes that wait for a shard, never the PSP.
//
// A command asks once, before it does anything. Later steps of it are counted and never refused, as are the writes of
// resolver and inbox: what began is finished, and background work takes its place from commands, not they from it.
type admission struct {
	shards  Store
	target  time.Duration // negative: all are admitted, nothing is measured
	most    int
	now     func() time.Time
	metrics *metrics

	mu    sync.RWMutex
	doors map[string]*door // by shard

	lag   func() time.Duration // Config.Lag
	looks sync.Mutex
	look  time.Time     // the last one at lag
	late  time.Duration // what it said
}

func newAdmission(shards Store, c Config, m *metrics) *admission {
	return &admission{shards: shards, target: c.StepTarget, most: max(leastLimit, c.MaxInFlight), now: c.Now, lag: c.Lag, metrics: m, doors: map[string]*door{}}
}

// lately is how long this process has waited for a processor of late: requests that nobody has begun to read yet wait as long,
// and no shard can tell of them.
func (a *admission) lately(now time.Time) time.Duration {
	a.looks.Lock()
	defer a.looks.Unlock()
	if now.Sub(a.look) >= a.target {
		a.look, a.late = now, a.lag()
	}
	return a.late
}

// door is that of a bucket's shard; nil if nobody owns the bucket (the shards will say so), or nothing is measured.
func (a *admission) door(b shard.Bucket) *door {
	if a.target < 0 {
		return nil
	}
	name, owned := a.shards.ShardOf(b)
	if !owned {
		return nil
	}
	a.mu.RLock()
	d := a.doors[name]
	a.mu.RUnlock()
	if d != nil {
		return d
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.doors[name] == nil {
		a.doors[name] = newDoor(a.target, a.most, a.now(), a.lately, a.metrics.waiting.WithLabelValues(name), a.metrics.limit.WithLabelValues(name))
	}
	return a.doors[name]
}

// admit gives a command its place, or refuses it. A place that is nil holds nothing.
func (a *admission) admit(c Class, b shard.Bucket) (*place, error) {
	d := a.door(b)
	if d == nil {
		return nil, nil
	}
	step, ok := d.admit(c, a.now())
	if !ok {
		name, _ := a.shards.ShardOf(b)
		a.metrics.shed.WithLabelValues(name, c.String()).Inc()
		return nil, &Error{Code: CodeOverloaded, Detail: "the payment's shard is under stress, and more urgent calls come first; nothing was done",
			RetryIn: c.retryIn(), Remedy: "repeat with the same idempotency key after the time given"}
	}
	return &place{door: d, step: step}, nil
}

// step runs one write of a bucket. The first of a command takes the place that the command was given.
func (a *admission) step(ctx context.Context, b shard.Bucket, write func() error) error {
	d := a.door(b)
	if d == nil {
		return write()
	}
	p, command := ctx.Value(placeKey{}).(*place)
	var s step
	if p.take(d) {
		s = d.begin(p.step, a.now())
	} else {
		s = d.enter(a.now(), command)
	}
	defer func() { d.leave(s, a.now(), true) }() // a panic ends the command alone
	return write()
}

// place is room for a command's first write, from its admission on: a crowd that comes at once is counted at once.
type place struct {
	door  *door
	step  step
	taken atomic.Bool
}

type placeKey struct{}

// with gives a command its place on the way.
func (p *place) with(ctx context.Context) context.Context {
	if p == nil {
		return ctx
	}
	return context.WithValue(ctx, placeKey{}, p)
}

// take tells whether the place is there for a write on d's shard, once.
func (p *place) take(d *door) bool {
	return p != nil && p.door == d && p.taken.CompareAndSwap(false, true)
}

// release gives a place back that no write took: the command was refused, or was answered without one.
func (p *place) release(now time.Time) {
	if p != nil && p.taken.CompareAndSwap(false, true) {
		p.door.leave(p.step, now, false)
	}
}

// The door's rhythm.
const (
	forbearance = time.Second // how long a crowd is let be before the first cut
	leastLimit  = 32          // writes that may always wait: they show when it is over
	leastSample = 8           // writes that a judgement rests on, if so many come
	fast        = 8           // the part that a limit is cut or grows by
	slowly      = 32          // … that it grows by as long as half of the writes take more than half of the target
)

// door bounds the writes of one process that wait for one shard. There is no limit but MaxInFlight until half of the writes
// have taken longer than the target for a second: a crowd that comes once is served. Then it is cut as long as that stays so,
// and grows again where it does not. The median, since one frozen bucket or one long batch is no stress; a fixed target and
// not the trend of latency, since larger batches make a busy shard slower and better.
//
// It judges in windows of one or two targets. After a cut only writes that began since count: the others tell of the crowd
// that was there before it.
type door struct {
	target                   time.Duration
	most                     int
	lately                   func(now time.Time) time.Duration // see admission
	waitingGauge, limitGauge prometheus.Gauge

	mu      sync.Mutex
	limit   int
	waiting int // writes, and places of commands
	writing int // writes of commands alone
	cuts    uint64

	stressed time.Time // since when no window was good

	// The window.
	opened                time.Time
	atOpening             int  // how many writes of commands were under way then
	peak                  int  // how many did at most
	closed                bool // to the less urgent, by the window before
	peakBefore            int  // … in the window before
	returned              int  // writes that came back
	seen                  int  // … that began since the last cut
	quick, slow, verySlow int  // … and took up to half the target, up to twice the target, longer
}

// step is one write, or a place for one, on its way.
type step struct {
	began  time.Time
	cuts   uint64 // of the limit before it began
	crowds bool   // it is a command's
}

func newDoor(target time.Duration, most int, now time.Time, lately func(time.Time) time.Duration, waiting, limit prometheus.Gauge) *door {
	d := &door{target: target, most: most, lately: lately, waitingGauge: waiting, limitGauge: limit, limit: most, opened: now, stressed: now}
	limit.Set(float64(d.limit))
	return d
}

// admit lets a command in if its class's part of the limit has room. The less urgent need more: room all the time of late, since
// a statement takes many along and just behind it there is always some, and, as long as there is a limit, a window before that
// was calm. What was turned away comes back for a while after a crowd has gone: it must not take what the buyers at the till
// need to be served as before.
func (d *door) admit(c Class, now time.Time) (step, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.judge(now)
	crowd := d.waiting
	if c < ClassAuthorize {
		crowd = max(d.peak, d.peakBefore)
	}
	if crowd*100 >= d.limit*c.part() || c < ClassAuthorize && d.closed {
		return step{}, false
	}
	return d.more(now), true
}

// enter begins a write that is not refused. Only commands' writes crowd: those of resolver and inbox come in heaps, and are
// felt in what a write takes, as are those of other processes.
func (d *door) enter(now time.Time, command bool) step {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.judge(now)
	if !command {
		return step{began: now, cuts: d.cuts}
	}
	d.writing++
	return d.more(now)
}

// begin turns a place into the write that it was kept for.
func (d *door) begin(s step, now time.Time) step {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing++
	s.began = now
	return s
}

func (d *door) more(now time.Time) step {
	d.waiting++
	d.peak = max(d.peak, d.waiting)
	d.waitingGauge.Set(float64(d.waiting))
	return step{began: now, cuts: d.cuts, crowds: true}
}

// leave ends a step; one that was no write says nothing about the shard.
func (d *door) leave(s step, now time.Time, written bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.crowds {
		d.waiting--
		d.waitingGauge.Set(float64(d.waiting))
	}
	if !written {
		return
	}
	if s.crowds {
		d.writing--
	}
	d.returned++
	if s.cuts == d.cuts {
		d.count(now.Sub(s.began))
	}
	d.judge(now)
}

// count sorts a write by what it took.
func (d *door) count(took time.Duration) {
	d.seen++
	switch {
	case took > 2*d.target:
		d.verySlow++
	case took > d.target:
		d.slow++
	case took <= d.target/2:
		d.quick++
	}
}

// judge ends a window that says enough, or is old, and sets the limit by it.
func (d *door) judge(now time.Time) {
	age := now.Sub(d.opened)
	old := age >= 2*d.target
	if age < d.target || !old && d.seen < leastSample {
		return
	}
	lag := d.lately(now)
	halts := d.returned == 0 && d.atOpening > 0 || 2*d.verySlow > d.seen || lag > 2*d.target // nothing comes back, or late
	slows := 2*(d.slow+d.verySlow) > d.seen || lag > d.target
	if !halts && !slows {
		d.stressed = now
	}
	switch {
	case d.limit == d.most && (now.Sub(d.stressed) < forbearance || lag <= d.target && d.seen+d.writing < leastSample): // too early or too few
	case halts:
		d.cut(2)
	case slows:
		d.cut(fast)
	case 2*d.quick > d.seen:
		d.grow(fast)
	case d.seen > 0:
		d.grow(slowly)
	case d.waiting == 0: // nobody waits: there is no stress
		d.limit = d.most
	}
	calm := !halts && !slows && (d.seen == 0 || 2*d.quick > d.seen)
	d.closed = !calm && d.limit < d.most
	d.limitGauge.Set(float64(d.limit))
	d.opened, d.atOpening, d.peak, d.peakBefore = now, d.writing, d.waiting, d.peak
	d.returned, d.seen, d.quick, d.slow, d.verySlow = 0, 0, 0, 0, 0
}

// cut takes a part of the limit away; one that nobody came near falls to where the next cut will be felt.
func (d *door) cut(part int) {
	limit := min(d.limit, 4*d.peak)
	d.limit = min(d.most, max(leastLimit, limit-limit/part))
	d.cuts++
}

func (d *door) grow(part int) { d.limit = min(d.most, d.limit+d.limit/part+1) }

// measured is the shards as commands and workers see them: each write passes its shard's door.
type measured struct {
	Store
	admission *admission
}

// Begin is the store's, measured.
func (m measured) Begin(ctx context.Context, o shard.Opening) error {
	return m.admission.step(ctx, bucketOf(o.Payment.ID), func() error { return m.Store.Begin(ctx, o) })
}

// Apply is the store's, measured.
func (m measured) Apply(ctx context.Context, c shard.Change) error {
	return m.admission.step(ctx, bucketOf(c.Payment.ID), func() error { return m.Store.Apply(ctx, c) })
}

// bucketOf is a payment's bucket; one that nobody owns if the ID is none of ours.
func bucketOf(paymentID string) shard.Bucket {
	b, err := shard.BucketOfID(shard.PaymentPrefix, paymentID)
	if err != nil {
		return -1
	}
	return b
}
