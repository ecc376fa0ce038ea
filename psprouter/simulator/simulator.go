package simulator

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
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

// DefaultMerchantAccount is Adyen's merchant account when Options names none.
const DefaultMerchantAccount = "ShopEUMain"

const (
	maxCallsPerPayment = 1000 // as Stripe's updates per payment and hour
	shutdownGrace      = 5 * time.Second
)

// Options sets a simulator up.
type Options struct {
	// Now is the clock of dates, expiries, key lifetimes and outages. It is required.
	Now func() time.Time
	// Dialect is the wire format; "" = DialectStripe.
	Dialect Dialect
	// Seed makes IDs, latencies and drawn faults repeatable. Two simulators with one seed give out the same IDs.
	Seed uint64
	// LatencyMin and LatencyMax bound the added time of every call, drawn uniformly; equal values fix it.
	LatencyMin, LatencyMax time.Duration
	// LatencyTail, if not 0, is the time that one call in fifty takes at most instead: a long tail.
	LatencyTail time.Duration
	// FaultPerMille is how many of a thousand calls draw a fault from the seed and their idempotency key; a re-send
	// draws none. FaultSet are the names, or groups, to draw from; nil = DefaultFaultSet.
	FaultPerMille int
	FaultSet      []string
	// SecretKey is the only API key accepted; "" accepts every one that begins with "sk_" (Adyen: every one).
	SecretKey string
	// MerchantAccount is Adyen's; "" = DefaultMerchantAccount.
	MerchantAccount string
	// SeveralCaptures keeps the rest of a partial capture open at Adyen; at Stripe the call says so (final_capture).
	SeveralCaptures bool
	// StrictKeys refuses a key that comes back with another body at Adyen, where the first answer is replayed otherwise. Stripe
	// always refuses.
	StrictKeys bool
	// Live is the mode that answers and notices carry.
	Live bool
	// Webhooks are the receivers of notices, one in turn or, with Broadcast, all for each; SetWebhooks names others. Without
	// any, and without RecordEvents, no events are made.
	Webhooks  []Target
	Broadcast bool
	// WebhookSecrets sign the notices: Stripe's whsec_…, as it is, or Adyen's key in hex. The first is the current one; Stripe
	// signs with all (a secret being rolled), Adyen with the first alone.
	WebhookSecrets []string
	// WebhookTransport carries the notices; nil = an http.Transport.
	WebhookTransport http.RoundTripper
	// RecordEvents makes events although nobody receives them, for Events.
	RecordEvents bool
	// MaxPayments bounds the memory: further payments are refused with the 503 of pm_503. 0 = DefaultMaxPayments.
	MaxPayments int
	// MaxAmount is the largest amount in the PSP's unit. 0 = DefaultMaxAmount.
	MaxAmount int64
	// Wait pauses for d or until stop closes. nil = a real timer. It never obeys the client: what was asked is done
	// even if nobody waits for the answer. A Wait that returns at once makes time virtual: see also Patience.
	Wait func(d time.Duration, stop <-chan struct{})
	// Patience, if not 0, is how long a client of Transport waits. A call whose waits add up to more is carried out, and its
	// client gets a time-out in place of the answer: with virtual time nobody can look at a real clock.
	Patience time.Duration
}

// Target is one receiver of notices.
type Target struct {
	URL string // e.g. http://127.0.0.1:8080/v1/webhooks/stripe
}

// Simulator is one PSP account. It is safe for concurrent use.
type Simulator struct {
	opts     Options
	dialect  dialect
	client   *http.Client  // of notices
	stop     chan struct{} // closed when Serve ends: waits end at once
	stopOnce sync.Once

	mu          sync.Mutex
	random      *rand.Rand
	serial      int64
	payments    map[string]*payment
	order       []*payment            // by creation, oldest first
	references  map[string]*payment   // Adyen: by our reference
	labelled    map[string][]*payment // Stripe: by every value that metadata "attempt" had, oldest first
	changing    map[string]*payment   // Adyen: by the reference of a capture or cancel
	refunds     map[string]*refund
	keys        map[string]*keyRecord
	scripts     []script
	perMille    int
	faultSet    []behaviour
	drawn       map[string]struct{} // keys that drew a fault
	tally       map[string]int      // faults by name
	outageUntil time.Time
	outageMode  OutageMode
	unplaced    []CallBooks
	skipped     int // calls that found no room in unplaced

	during *behaviour // of the call that is being executed
	early  []delivery // its notices that leave before its answer
	queue  queue
}

// OptionError says which field of Options, or which argument, cannot be used, and what to put there.
type OptionError struct{ Field, Remedy string }

func (e *OptionError) Error() string { return "simulator options: " + e.Field + ": " + e.Remedy }

// New returns an empty simulator, or an *OptionError. It starts nothing: notices leave while Run or Serve runs, or with
// Flush and Deliver.
func New(opts Options) (*Simulator, error) {
	opts = opts.withDefaults()
	if err := opts.check(); err != nil {
		return nil, err
	}
	s := &Simulator{
		opts:       opts,
		stop:       make(chan struct{}),
		random:     rand.New(rand.NewPCG(opts.Seed, 0x5eed)),
		payments:   map[string]*payment{},
		references: map[string]*payment{},
		labelled:   map[string][]*payment{},
		changing:   map[string]*payment{},
		refunds:    map[string]*refund{},
		keys:       map[string]*keyRecord{},
		drawn:      map[string]struct{}{},
		tally:      map[string]int{},
		client:     newWebhookClient(opts.WebhookTransport),
		queue:      newQueue(),
	}
	s.dialect = &stripeDialect{s}
	if opts.Dialect == DialectAdyen {
		s.dialect = &adyenDialect{s}
	}
	return s, s.SetFaults(opts.FaultPerMille, opts.FaultSet)
}

func (o Options) withDefaults() Options {
	o.Dialect = cmp.Or(o.Dialect, DialectStripe)
	o.MerchantAccount = cmp.Or(o.MerchantAccount, DefaultMerchantAccount)
	o.MaxPayments = cmp.Or(o.MaxPayments, DefaultMaxPayments)
	o.MaxAmount = cmp.Or(o.MaxAmount, DefaultMaxAmount)
	if o.Wait == nil {
		o.Wait = waitOnTimer
	}
	return o
}

func (o Options) check() error {
	switch {
	case o.Now == nil:
		return &OptionError{"Now", "a clock is required; time.Now outside tests"}
	case o.Dialect != DialectStripe && o.Dialect != DialectAdyen:
		return &OptionError{"Dialect", fmt.Sprintf("%q: want %s or %s", o.Dialect, DialectStripe, DialectAdyen)}
	case o.LatencyMin < 0 || o.LatencyMax < o.LatencyMin:
		return &OptionError{"LatencyMin", fmt.Sprintf("from %v to %v is no range", o.LatencyMin, o.LatencyMax)}
	case o.LatencyTail != 0 && o.LatencyTail < o.LatencyMax:
		return &OptionError{"LatencyTail", fmt.Sprintf("%v is below LatencyMax", o.LatencyTail)}
	case o.MaxPayments < 1 || o.MaxAmount < 1:
		return &OptionError{"MaxPayments", "it and MaxAmount must be 1 or more"}
	}
	for _, secret := range o.WebhookSecrets {
		if _, err := hex.DecodeString(secret); secret == "" || o.Dialect == DialectAdyen && err != nil {
			return &OptionError{"WebhookSecrets", "a secret is not empty, and Adyen's are hex"}
		}
	}
	return o.checkTargets(o.Webhooks)
}

func (o Options) checkTargets(targets []Target) error {
	if len(targets) > 0 && len(o.WebhookSecrets) == 0 {
		return &OptionError{"WebhookSecrets", "notices are signed: give a secret"}
	}
	for _, target := range targets {
		if u, err := url.Parse(target.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return &OptionError{"Webhooks", fmt.Sprintf("%q: want http://host/path", target.URL)}
		}
	}
	return nil
}

func waitOnTimer(d time.Duration, stop <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stop:
	}
}

// waiter counts how long a call waited, for Patience.
type waiter interface{ waits(d time.Duration) }

// pause waits in the name of a call.
func (s *Simulator) pause(w http.ResponseWriter, d time.Duration) {
	if d <= 0 {
		return
	}
	if counts, ok := w.(waiter); ok {
		counts.waits(d)
	}
	s.opts.Wait(d, s.stop)
}

// tailOneIn is how rarely a call takes LatencyTail.
const tailOneIn = 50

// latency draws one call's added time.
func (s *Simulator) latency() time.Duration {
	low, high := s.opts.LatencyMin, s.opts.LatencyMax
	if low == high && s.opts.LatencyTail == 0 {
		return low
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.LatencyTail > 0 && s.random.IntN(tailOneIn) == 0 {
		low, high = high, s.opts.LatencyTail
	}
	return low + time.Duration(s.random.Int64N(int64(high-low)+1))
}

const (
	idAlphabet  = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	capitalsEnd = 36 // of idAlphabet: digits and capitals
)

// newID returns prefix, a serial number of so many digits and as many random characters: unique by construction. The
// caller holds the lock.
func (s *Simulator) newID(prefix string, digits, characters int) string {
	s.serial++
	id := make([]byte, 0, len(prefix)+2*digits)
	id = append(id, prefix...)
	number := strconv.AppendInt(nil, s.serial, 10)
	for range digits - len(number) {
		id = append(id, '0')
	}
	id = append(id, number...)
	for range digits {
		id = append(id, idAlphabet[s.random.IntN(characters)])
	}
	return string(id)
}

// Handler returns the HTTP side: the PSP's API below /v1/ (Stripe) or /v71/ (Adyen), the control API below /sim/.
func (s *Simulator) Handler() http.Handler {
	mux := http.NewServeMux()
	s.dialect.routes(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.send(w, r, s.dialect.refuse(unknownPath), behaviour{})
	})
	s.controlRoutes(mux)
	return mux
}

// Serve answers on l and delivers notices until ctx ends, then lets the calls in progress end: waits are cut short, and the money that they
// were to move is moved. It closes l, and returns nil after an orderly end. A simulator serves once.
func (s *Simulator) Serve(ctx context.Context, l net.Listener) error {
	running, stopNotices := context.WithCancel(ctx)
	notices := make(chan struct{})
	go func() { defer close(notices); s.Run(running) }()
	defer func() { stopNotices(); <-notices }()
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
func (s *Simulator) Stop() {
	s.stopOnce.Do(func() { close(s.stop) })
	s.wake()
	s.client.CloseIdleConnections()
}
