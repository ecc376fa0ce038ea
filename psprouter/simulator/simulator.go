package simulator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// NotProcessedHeader is, as "true" on an HTTP 503, this PSP's promise that nothing was done. Stripe has no such marker:
// an adapter must be told of it.
const NotProcessedHeader = "X-Not-Processed"

// Limits when Options leaves them zero.
const (
	DefaultMaxPayments = 1_000_000
	DefaultMaxAmount   = 999_999_999_999 // in the PSP's unit
)

const (
	maxCallsPerPayment = 1000 // as Stripe's updates per payment and hour
	authorizationLife  = 7 * 24 * time.Hour
	keyLife            = 24 * time.Hour   // after that a key executes anew
	shutdownGrace      = 10 * time.Second // net/http takes a connection that never asked anything for busy for 5 s
)

// Options sets a simulator up.
type Options struct {
	// Now is the clock of dates, expiries and key lifetimes. It is required.
	Now func() time.Time
	// Seed makes IDs and latencies repeatable. Two simulators with one seed give out the same IDs.
	Seed uint64
	// LatencyMin and LatencyMax bound the added time of every call to /v1, drawn uniformly; equal values fix it.
	LatencyMin, LatencyMax time.Duration
	// SecretKey is the only bearer key accepted; "" accepts every key that begins with "sk_".
	SecretKey string
	// MaxPayments bounds the memory: further payments are refused with the 503 of pm_503. 0 = DefaultMaxPayments.
	MaxPayments int
	// MaxAmount is the largest amount in the PSP's unit, above it amount_too_large. 0 = DefaultMaxAmount.
	MaxAmount int64
	// Wait pauses for d or until stop closes. nil = a real timer. It never obeys the client: what was asked is done
	// even if nobody waits for the answer.
	Wait func(d time.Duration, stop <-chan struct{})
}

// Simulator is one PSP account. It is safe for concurrent use.
type Simulator struct {
	opts     Options
	stop     chan struct{} // closed when Serve ends: waits end at once
	stopOnce sync.Once

	mu       sync.Mutex
	random   *rand.Rand
	serial   int64
	payments map[string]*payment
	order    []*payment // by creation, oldest first
	refunds  map[string]*refund
	keys     map[string]*keyRecord
	scripts  []script
	unplaced []CallBooks
	skipped  int // calls that found no room in unplaced
}

// OptionError says which field of Options cannot be used, and what to put there.
type OptionError struct{ Field, Remedy string }

func (e *OptionError) Error() string { return "simulator options: " + e.Field + ": " + e.Remedy }

// New returns an empty simulator, or an *OptionError.
func New(opts Options) (*Simulator, error) {
	if opts.Now == nil {
		return nil, &OptionError{"Now", "a clock is required; time.Now outside tests"}
	}
	if opts.LatencyMin < 0 || opts.LatencyMax < opts.LatencyMin {
		return nil, &OptionError{"LatencyMin", fmt.Sprintf("from %v to %v is no range", opts.LatencyMin, opts.LatencyMax)}
	}
	if opts.MaxPayments == 0 {
		opts.MaxPayments = DefaultMaxPayments
	}
	if opts.MaxAmount == 0 {
		opts.MaxAmount = DefaultMaxAmount
	}
	if opts.Wait == nil {
		opts.Wait = waitOnTimer
	}
	return &Simulator{
		opts:     opts,
		stop:     make(chan struct{}),
		random:   rand.New(rand.NewPCG(opts.Seed, 0x5eed)),
		payments: map[string]*payment{},
		refunds:  map[string]*refund{},
		keys:     map[string]*keyRecord{},
	}, nil
}

func waitOnTimer(d time.Duration, stop <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stop:
	}
}

func (s *Simulator) wait(d time.Duration) {
	if d > 0 {
		s.opts.Wait(d, s.stop)
	}
}

// latency draws one call's added time.
func (s *Simulator) latency() time.Duration {
	spread := s.opts.LatencyMax - s.opts.LatencyMin
	if spread == 0 {
		return s.opts.LatencyMin
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opts.LatencyMin + time.Duration(s.random.Int64N(int64(spread)+1))
}

const idAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// newID returns prefix and 24 characters, half of them a serial number: unique by construction. The caller holds the
// lock.
func (s *Simulator) newID(prefix string) string {
	s.serial++
	id := fmt.Appendf(nil, "%s%012d", prefix, s.serial)
	for range 12 {
		id = append(id, idAlphabet[s.random.IntN(len(idAlphabet))])
	}
	return string(id)
}

// Handler returns the HTTP side: Stripe's API below /v1/, the control API below /sim/.
func (s *Simulator) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/payment_intents", s.post(opAuthorize, s.createIntent))
	mux.HandleFunc("POST /v1/payment_intents/{id}/confirm", s.post(opAuthorize, s.confirmIntent))
	mux.HandleFunc("POST /v1/payment_intents/{id}/capture", s.post(opCapture, s.captureIntent))
	mux.HandleFunc("POST /v1/payment_intents/{id}/cancel", s.post(opVoid, s.cancelIntent))
	mux.HandleFunc("POST /v1/refunds", s.post(opRefund, s.createRefund))
	mux.HandleFunc("GET /v1/payment_intents", s.get(s.listIntents))
	mux.HandleFunc("GET /v1/payment_intents/search", s.get(s.searchIntents))
	mux.HandleFunc("GET /v1/payment_intents/{id}", s.get(s.retrieveIntent))
	mux.HandleFunc("GET /v1/refunds", s.get(s.listRefunds))
	mux.HandleFunc("GET /v1/refunds/{id}", s.get(s.retrieveRefund))
	mux.HandleFunc("/v1/", unknownURL)
	mux.HandleFunc("POST /sim/script", s.handleScript)
	mux.HandleFunc("POST /sim/settle", s.handleSettle)
	mux.HandleFunc("GET /sim/books", s.handleBooks)
	return mux
}

// Serve answers on l until ctx ends, then lets the calls in progress end: waits are cut short, and the money that they
// were to move is moved. It closes l, and returns nil after an orderly end. A simulator serves once.
func (s *Simulator) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("simulator on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	s.Stop()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	err := server.Shutdown(grace)
	if err != nil {
		err = errors.Join(err, server.Close())
	}
	<-served // http.ErrServerClosed: we closed it
	return err
}

// Stop ends every wait at once, now and later. Serve calls it; a caller with its own server does so before Shutdown.
func (s *Simulator) Stop() { s.stopOnce.Do(func() { close(s.stop) }) }
