package payment

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"paygrid/psprouter"
	"paygrid/shard"
)

// Config says how a Service works. Zero durations mean the defaults beside the fields.
type Config struct {
	// PSPTimeout is how long an answer of a PSP is waited for; after that the outcome is Unknown. 10 s.
	PSPTimeout time.Duration
	// CheckAfter is when a pending attempt is first asked about by the resolver; one that the PSP has accepted is left to its
	// notice for ten times as long. 1 min.
	CheckAfter time.Duration
	// Recheck is the first pause between two checks of a pending attempt; it doubles up to 30 minutes. 30 s.
	Recheck time.Duration
	// AuthorizationLifetime is used where the PSP does not say when an authorization runs out. 7 days.
	AuthorizationLifetime time.Duration
	// MaxInFlight is how many commands may be under way at once; more are refused with CodeUnavailable. 10,000.
	MaxInFlight int
	// StepTarget is where a shard's stress begins: once half of this process's writes to it have taken longer for a second,
	// the least urgent commands are turned away with CodeOverloaded, until that is over. Negative turns nobody away. 250 ms:
	// a machine that is full and still serves all has writes of 60 ms.
	StepTarget time.Duration
	// Lag tells how long the slowest tenth of this process's goroutines waited for a processor since it was last asked: where
	// that is longer than StepTarget, every shard of the process is under stress. nil = nobody knows.
	Lag      func() time.Duration
	Now      func() time.Time
	Log      *slog.Logger
	Registry prometheus.Registerer // may be nil
	// Pause is called at each named point between two steps of a command. It is for tests that stop the process there;
	// nil does nothing.
	Pause func(Point)
}

func (c Config) withDefaults() Config {
	if c.PSPTimeout <= 0 {
		c.PSPTimeout = 10 * time.Second
	}
	if c.CheckAfter <= 0 {
		c.CheckAfter = time.Minute
	}
	if c.Recheck <= 0 {
		c.Recheck = firstRecheck
	}
	if c.AuthorizationLifetime <= 0 {
		c.AuthorizationLifetime = 7 * 24 * time.Hour
	}
	if c.MaxInFlight <= 0 {
		c.MaxInFlight = 10_000
	}
	if c.StepTarget == 0 {
		c.StepTarget = 250 * time.Millisecond
	}
	if c.Lag == nil {
		c.Lag = func() time.Duration { return 0 }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Pause == nil {
		c.Pause = func(Point) {}
	}
	return c
}

// Point names a place between two steps of a command: "capture.sent" is after the capture's PSP call, before its outcome
// is committed.
type Point string

// Points returns every point, in the order in which each command passes them.
func Points() []Point {
	var out []Point
	for _, command := range []string{"authorize", scopeCapture, scopeVoid, scopeRefunds} {
		for _, step := range []string{stepBegun, stepCommitted, stepSent, stepSettled} {
			out = append(out, point(command, step))
		}
	}
	return append(out, point("resolve", stepSent), point("resolve", stepSettled), point("webhook", stepBegun), point("webhook", stepSettled))
}

// The steps of a command.
const (
	stepBegun     = "begun"     // checked, nothing written
	stepCommitted = "committed" // the intent is committed, the PSP not called
	stepSent      = "sent"      // the PSP answered, the outcome is not committed
	stepSettled   = "settled"   // the outcome is committed, the caller not answered
)

func point(command, step string) Point { return Point(command + "." + step) }

// Service runs the commands. It holds no state but what is under way: any number of processes may serve the same shards.
type Service struct {
	shards    Store // each write passes its shard's door
	psps      *psprouter.Router
	config    Config
	metrics   *metrics
	admission *admission
	slots     chan struct{} // one token per command under way
	runners   runners

	noticeWorkers int // notices of one shard that are applied at a time
}

// New makes a Service on shards and PSPs.
func New(shards Store, psps *psprouter.Router, c Config) (*Service, error) {
	if c.Now == nil {
		return nil, errors.New("payment: Config.Now is missing")
	}
	c = c.withDefaults()
	m := newMetrics(c.Registry)
	a := newAdmission(shards, c, m)
	return &Service{shards: measured{Store: shards, admission: a}, psps: psps, config: c, metrics: m, admission: a,
		slots: make(chan struct{}, c.MaxInFlight), runners: make(runners), noticeWorkers: noticeParallel}, nil
}

// Drain waits until no command is under way, or ctx ends. It takes every slot, so new commands are refused with
// CodeUnavailable meanwhile. One Drain at a time.
func (s *Service) Drain(ctx context.Context) error {
	taken := 0
	defer func() {
		for range taken {
			<-s.slots
		}
	}()
	for taken < cap(s.slots) {
		select {
		case s.slots <- struct{}{}:
			taken++
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Ready tells whether any shard answers: one shard without its database fails its own payments alone.
func (s *Service) Ready(ctx context.Context) error { return s.shards.PingAny(ctx) }

// now is the clock, in the database's precision, so that what is answered is what is read later.
func (s *Service) now() time.Time { return s.config.Now().UTC().Truncate(time.Microsecond) }

// result is how a command ended.
type result struct {
	answer Answer
	err    error
}

// admitted is detached for a command that begins on a bucket: under stress it may be turned away, before anything is done.
func (s *Service) admitted(ctx context.Context, c Class, b shard.Bucket, run func(ctx context.Context) (Answer, error)) (Answer, error) {
	p, err := s.admission.admit(c, b)
	if err != nil {
		return Answer{}, err
	}
	return s.detached(p.with(ctx), p, run)
}

// detached runs a command that its caller can leave but not stop: it goes on to its end, whatever becomes of the caller.
// What the command does not use of its place is given back; one without is part of what was admitted before.
func (s *Service) detached(ctx context.Context, p *place, run func(ctx context.Context) (Answer, error)) (Answer, error) {
	select {
	case s.slots <- struct{}{}:
	default:
		p.release(s.config.Now())
		return Answer{}, &Error{Code: CodeUnavailable, Detail: "too many commands are under way", RetryIn: time.Second,
			Remedy: "repeat with the same idempotency key after the time given"}
	}
	done := make(chan result, 1)
	s.runners.run(func() { done <- s.toItsEnd(ctx, p, run) })
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
}

// toItsEnd runs a command in its place, which is free again before the caller hears of the end. A command that dies under way
// answers nobody.
func (s *Service) toItsEnd(ctx context.Context, p *place, run func(ctx context.Context) (Answer, error)) (r result) {
	defer func() {
		p.release(s.config.Now())
		<-s.slots
	}()
	ctx = context.WithoutCancel(ctx)
	r.err = s.guarded(ctx, panicCommand, func() (err error) {
		r.answer, err = run(ctx)
		return err
	})
	return r
}

// What a fault of ours can end.
const (
	panicCommand = "command"
	panicAttempt = "attempt"
	panicNotice  = "notice"
	panicExpiry  = "expiry"
	panicRound   = "round"
)

// guarded does one thing. If it panics, that is its error, and not the end of the process with all else in it: what made it panic
// may well come again. The log is told here, since a command's caller may have left.
func (s *Service) guarded(ctx context.Context, what string, do func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			s.metrics.panics.WithLabelValues(what).Inc()
			err = &PanicError{Value: fault}
			s.config.Log.ErrorContext(ctx, "a fault of ours", "in", what, "error", err, "stack", string(debug.Stack()))
		}
	}()
	return do()
}

// runners are goroutines that have run a command, and wait a while for the next one: it finds a stack that has grown already. To
// grow one anew for each command took a router a twentieth of its processor time.
type runners chan func()

// patience is how long a runner waits for a command.
const patience = time.Second

// run runs f beside the caller.
func (r runners) run(f func()) {
	select {
	case r <- f:
	default:
		go r.serve(f)
	}
}

func (r runners) serve(f func()) {
	f()
	idle := time.NewTimer(patience)
	defer idle.Stop()
	for {
		select {
		case f = <-r:
			f()
			idle.Reset(patience)
		case <-idle.C:
			return
		}
	}
}

// unavailable turns a shard's error into a command's, before any PSP was called.
func unavailable(err error) error {
	var invariant *shard.InvariantError
	var refused *shard.RefusedError
	if errors.As(err, &invariant) || errors.As(err, &refused) {
		return err // a fault of ours: nothing was written; let it be seen as one
	}
	e := &Error{Code: CodeUnavailable, Detail: "the payment's shard cannot be reached; nothing was charged", RetryIn: time.Second,
		Remedy: "repeat with the same idempotency key after the time given", Err: err}
	if errors.Is(err, shard.ErrInDoubt) { // what committed is carried on by the resolver
		e.Detail = "the payment's shard gave no answer; whether this began is not known, and it may still be carried out"
		e.Remedy = "repeat with the same idempotency key after the time given, and with no other: only it is answered with what came of this"
	}
	return e
}
