package payment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/psprouter/adyen"
	"paygrid/psprouter/simulator"
	"paygrid/psprouter/stripe"
	"paygrid/shard"
	"paygrid/shard/model"
)

// world is one simulated history: a service between shards and two PSPs, in virtual time. All that happens in it is drawn from
// one seed, and one thing happens at a time: what runs at once elsewhere is here one thing in the middle of another, at the
// points that the service names.
type world struct {
	ctx     context.Context
	random  *rand.Rand
	clock   *ticking
	store   worldStore
	model   *model.Store // nil on a real database
	service *Service
	psps    map[string]*simulator.Simulator
	faulty  bool // crashes, faults and outages happen
	depth   int  // of things in the middle of others
	calls   int
	kills   []context.CancelFunc // of the processes under way, the innermost last
	asked   []*request
	opened  int
	commits int
	trace   []string
	broken  []string // what was found wrong on the way
	plant   plant
	fault   string         // of the next call to a PSP, "" = drawn
	during  func(Point)    // what else happens at each point
	met     map[string]int // events that were committed, points at which processes died, faults
}

// opener opens a store on a world's clock; nil stands for a model of two shards.
type opener func(clock func() time.Time) worldStore

// worldStore is a store that Verify can read.
type worldStore interface {
	Store
	Books
}

// ticking is a clock that moves by a millisecond whenever it is read: no two rows have one time, and the order of IDs is the
// order of their making.
type ticking struct {
	mu sync.Mutex
	at time.Time
}

// Now ticks.
func (c *ticking) Now() time.Time { return c.pass(time.Millisecond) }

// pass moves the clock and tells the time; by 0 it only tells it.
func (c *ticking) pass(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	return c.at
}

// request is one command of a client, and the first final answer that it heard.
type request struct {
	name  string
	give  func(ctx context.Context) (Answer, error)
	kind  string // of command
	id    string // the payment, once known
	first *Answer
}

// plant is what a world has that others have not. A planted fault is a rule that the model leaves out, a store between service
// and shards, a change of what goes to the PSPs, or another adapter.
type plant struct {
	without []model.Rule
	store   func(worldStore) worldStore
	wire    func(*http.Request, []byte) []byte
	psp     func(psprouter.PSP) psprouter.PSP

	webhooks http.RoundTripper    // takes the notices; nil = the router's endpoint
	registry *prometheus.Registry // of metrics; may be nil
	first    string               // the PSP that comes first; "" = by the seed
}

const (
	adyenHMAC    = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
	stripeSecret = "whsec_simulated"
	worldPatient = 5 * time.Second
)

// newWorld makes a world.
func newWorld(seed uint64, open opener, p plant) (*world, error) {
	w := &world{ctx: context.Background(), random: rand.New(rand.NewPCG(seed, 0x517)), clock: &ticking{at: noon}, faulty: true, plant: p,
		psps: map[string]*simulator.Simulator{}, met: map[string]int{}}
	var on worldStore
	if open != nil {
		on = open(w.clock.Now)
	} else {
		m, err := model.New(model.Options{Shards: []string{"shard-1", "shard-2"}, Now: w.clock.Now, Hook: w.hook, Without: p.without})
		if err != nil {
			return nil, err
		}
		w.model, on = m, m
	}
	if p.store != nil {
		on = p.store(on)
	}
	w.store = &seeded{worldStore: on, w: w, stored: map[string]bool{}}
	psps, err := w.providers(seed)
	if err != nil {
		return nil, err
	}
	if p.psp != nil {
		for n := range psps {
			psps[n] = p.psp(psps[n])
		}
	}
	w.random.Shuffle(len(psps), func(i, j int) { psps[i], psps[j] = psps[j], psps[i] })
	slices.SortStableFunc(psps, func(x, y psprouter.PSP) int { return ranked(x, p.first) - ranked(y, p.first) })
	c := Config{Now: w.clock.Now, Pause: w.pause, StepTarget: -1} // what happens in the middle of a write is none of its time
	if p.registry != nil {
		c.Registry = p.registry
	}
	if w.service, err = New(w.store, psprouter.NewRouter(psps...), c); err == nil {
		w.service.noticeWorkers = 1 // one thing happens at a time
	}
	return w, err
}

func ranked(p psprouter.PSP, first string) int {
	if p.Name() == first {
		return 0
	}
	return 1
}

// providers makes both PSPs and their adapters.
func (w *world) providers(seed uint64) ([]psprouter.PSP, error) {
	notices := w.plant.webhooks
	if notices == nil {
		notices = intake{w}
	}
	for name, dialect := range map[string]simulator.Dialect{stripe.Name: simulator.DialectStripe, adyen.Name: simulator.DialectAdyen} {
		secret := stripeSecret
		if name == adyen.Name {
			secret = adyenHMAC
		}
		sim, err := simulator.New(simulator.Options{Now: w.clock.Now, Dialect: dialect, Seed: seed, Patience: worldPatient, SeveralCaptures: true,
			Wait: func(time.Duration, <-chan struct{}) {}, Webhooks: []simulator.Target{{URL: "http://router/v1/webhooks/" + name}},
			WebhookSecrets: []string{secret}, WebhookTransport: notices, MaxPayments: 100})
		if err != nil {
			return nil, err
		}
		w.psps[name] = sim
	}
	s, err := stripe.New(stripe.Config{BaseURL: "http://stripe", SecretKey: "sk_test", SeveralCaptures: true, WebhookSecrets: []string{stripeSecret},
		NotProcessedHeader: simulator.NotProcessedHeader, Transport: w.wireTo(stripe.Name),
		VisibilityWindow: 5 * time.Minute}) // so that hidden_600s outlasts it: a success that comes after we thought it absent
	if err != nil {
		return nil, err
	}
	a, err := adyen.New(adyen.Config{BaseURL: "http://adyen/v71", APIKey: "key", MerchantAccount: simulator.DefaultMerchantAccount,
		HMACKeys: []string{adyenHMAC}, ReturnURL: "https://shop.example/back", SeveralCaptures: true,
		NotProcessedHeader: simulator.NotProcessedHeader, Transport: w.wireTo(adyen.Name)})
	return []psprouter.PSP{s, a}, err
}

// intake is the router's webhook endpoint.
type intake struct{ w *world }

// RoundTrip is http.RoundTripper's.
func (i intake) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	kind, answer, err := i.w.service.TakeWebhook(i.w.ctx, name, r.Header, body)
	status := http.StatusOK
	var refused *psprouter.WebhookError
	switch {
	case errors.As(err, &refused):
		status = http.StatusBadRequest
	case err != nil:
		status = http.StatusServiceUnavailable
	}
	return answered(r, status, kind, answer), nil
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer func() { _ = r.Body.Close() }()
	var b bytes.Buffer
	_, err := b.ReadFrom(r.Body)
	return b.Bytes(), err
}

// wire is the way to a PSP: it draws the fault that the call meets.
type wire struct {
	w    *world
	name string
	next http.RoundTripper
}

func (w *world) wireTo(name string) http.RoundTripper {
	return wire{w, name, w.psps[name].Transport()}
}

// RoundTrip is http.RoundTripper's.
func (x wire) RoundTrip(r *http.Request) (*http.Response, error) {
	x.w.calls++
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if x.w.plant.wire != nil {
		body = x.w.plant.wire(r, body)
	}
	if op := operationOf(r); op != "" && x.w.faulty && (x.w.fault != "" || x.w.random.IntN(4) == 0) {
		faults := simulator.DefaultFaultSet()
		fault := faults[x.w.random.IntN(len(faults))]
		if x.w.random.IntN(4) == 0 {
			fault = rareFaults[x.w.random.IntN(len(rareFaults))]
		}
		if x.w.fault != "" {
			fault = x.w.fault
		}
		if x.name == stripe.Name && unlikeStripe(op, fault) {
			fault = "drop_after"
		}
		if x.w.psps[x.name].Script(op, fault, "", 1) == nil {
			x.w.note("%s %s meets %s", x.name, op, fault)
			x.w.met["fault "+fault]++
		}
	}
	again := r.Clone(r.Context())
	again.Body, again.ContentLength = http.NoBody, int64(len(body))
	if len(body) > 0 {
		again.Body = readCloser{bytes.NewReader(body)}
	}
	return x.next.RoundTrip(again)
}

type readCloser struct{ *bytes.Reader }

// Close is io.Closer's.
func (readCloser) Close() error { return nil }

// rareFaults change whether and when money moves.
var rareFaults = []string{"hidden_600s", "hidden_600s", "503", "429", "401", "lock_timeout", "key_in_use", "store_down", "decline", "decline_error", "pending", "pending_ok_60s",
	"pending_fail_60s", "fails_later_60s", "fails_later_600s", "action", "action_ok_60s", "action_fail_60s"}

// unlikeStripe names what Stripe does not do with cards: a capture or void ends at once, and no capture is taken back.
func unlikeStripe(op, fault string) bool {
	pends := strings.HasPrefix(fault, "pending") && (op == "capture" || op == "void")
	return pends || (op != "refund" && strings.HasPrefix(fault, "fails_later"))
}

// operationOf is what the simulator calls a request; "" for a look-up.
func operationOf(r *http.Request) string {
	if r.Method != http.MethodPost {
		return ""
	}
	path := r.URL.Path
	switch {
	case strings.HasSuffix(path, "/capture"), strings.HasSuffix(path, "/captures"):
		return "capture"
	case strings.HasSuffix(path, "/cancel"), strings.HasSuffix(path, "/cancels"):
		return "void"
	case strings.HasSuffix(path, "/refunds"):
		return "refund"
	case strings.HasSuffix(path, "/payments"), strings.HasSuffix(path, "/payment_intents"):
		return "authorize"
	}
	return ""
}

func answered(r *http.Request, status int, kind string, body []byte) *http.Response {
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {kind}}, Body: readCloser{bytes.NewReader(body)}, ContentLength: int64(len(body)), Request: r}
}

// seeded is a store as the world sees it: one attempt and one notice at a time, in the order of the seed, and the jitter of
// re-checks taken out.
type seeded struct {
	worldStore
	w      *world
	stored map[string]bool // notices
}

// PutInbox holds that a notice is stored once.
func (s *seeded) PutInbox(ctx context.Context, item shard.InboxItem, at time.Time) (bool, error) {
	stored, err := s.worldStore.PutInbox(ctx, item, at)
	if key := item.PSP + item.EventID; stored {
		if s.stored[key] {
			s.w.wrong("event %s of %s is stored twice", item.EventID, item.PSP)
		}
		s.stored[key] = true
	}
	return stored, err
}

// ClaimAttempts claims one.
func (s *seeded) ClaimAttempts(ctx context.Context, shardName, owner string, now, until time.Time, _ int) ([]shard.Due, error) {
	return s.worldStore.ClaimAttempts(ctx, shardName, owner, now, until, 1)
}

// CloseInbox notes what became of notices.
func (s *seeded) CloseInbox(ctx context.Context, shardName, owner string, ends []shard.InboxEnd, at time.Time) ([]bool, error) {
	for _, end := range ends {
		s.w.note("%s %s: %s %s", end.PSP, end.EventID, end.State, end.Reason)
	}
	return s.worldStore.CloseInbox(ctx, shardName, owner, ends, at)
}

// Apply notes what is written.
func (s *seeded) Apply(ctx context.Context, c shard.Change) error {
	err := s.worldStore.Apply(ctx, c)
	if err == nil {
		s.w.met[c.Event.Type]++
		s.w.commits++
	}
	s.w.note("%s: %s to %s, %s, %v", c.Payment.ID, c.From, c.Payment.Status, c.Event.Type, err)
	return err
}

// Reschedule rounds the times of the next checks up to the step of the back-off.
func (s *seeded) Reschedule(ctx context.Context, shardName, owner string, rechecks []shard.Recheck) ([]bool, error) {
	rounded := slices.Clone(rechecks)
	for n, r := range rounded {
		wait := r.NextAt.Sub(s.w.clock.pass(0))
		s.w.note("%s is still unknown: %s", r.AttemptID, r.Detail)
		step := firstRecheck
		for step < longestRecheck && wait > step {
			step = min(2*step, longestRecheck)
		}
		rounded[n].NextAt = s.w.clock.pass(0).Add(step)
	}
	return s.worldStore.Reschedule(ctx, shardName, owner, rounded)
}

// hook lets calls of the model fail while the world is faulty.
func (w *world) hook(call string) model.Crash {
	if !w.faulty || w.random.IntN(40) != 0 {
		return model.Crash{}
	}
	crash := model.Crash{Err: shard.ErrUnavailable}
	if call == "Begin" || call == "Apply" || call == "PutInbox" {
		if n := w.random.IntN(4); n > 0 {
			crash = model.Crash{Err: shard.ErrInDoubt, Effect: model.Effect(n - 1)}
		}
	}
	w.note("%s fails: %v, effect %d", call, crash.Err, crash.Effect)
	return crash
}

// maxTrace bounds what is told of a history that failed.
const maxTrace = 400

func (w *world) note(format string, args ...any) {
	if len(w.trace) < maxTrace {
		w.trace = append(w.trace, strings.Repeat("  ", w.depth)+w.clock.pass(0).Format("02 15:04:05 ")+fmt.Sprintf(format, args...))
	}
}

// noteIf notes what happened to n things, unless n is 0.
func (w *world) noteIf(n int, format string, args ...any) {
	if n > 0 {
		w.note("%s: %d", fmt.Sprintf(format, args...), n)
	}
}

func (w *world) wrong(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
	w.note("WRONG: "+format, args...)
}

// process runs f as a process that can die.
func (w *world) process(f func(ctx context.Context)) {
	ctx, kill := context.WithCancel(w.ctx)
	w.kills = append(w.kills, kill)
	w.depth++
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	<-done
	w.depth--
	w.kills = w.kills[:len(w.kills)-1]
	kill()
}

// maxDepth bounds things in the middle of others.
const maxDepth = 3

// pause is a point between two steps: the process may die here, or something else happen first.
func (w *world) pause(p Point) {
	if w.during != nil {
		w.during(p)
	}
	if !w.faulty || w.depth == 0 {
		return
	}
	switch n := w.random.IntN(100); {
	case n < 6:
		w.note("dies at %s", p)
		w.met["dies at "+string(p)]++
		w.kills[len(w.kills)-1]()
		runtime.Goexit()
	case n < 16 && w.depth < maxDepth:
		w.note("at %s:", p)
		w.step()
	}
}

// moved is the word of both witnesses.
func (w *world) moved() []Moved {
	out := []Moved{}
	for _, name := range []string{adyen.Name, stripe.Name} {
		out = append(out, movedBy(w.psps[name].Books())...)
	}
	return out
}

// movedBy is a simulator's word as Verify wants it.
func movedBy(b simulator.Books) []Moved {
	out := []Moved{}
	for _, x := range b.Witness() {
		out = append(out, Moved{PSPRef: x.Ref, Attempt: x.Attempt, Currency: ledger.Currency(x.Currency), Authorized: x.Authorized,
			Captured: x.Captured, Refunded: x.Refunded, Voided: x.Released, Charges: x.Authorizations})
	}
	return out
}

// openAt lists what waits at a PSP for an end, or could be taken back: references of payments and refunds.
func (w *world) openAt(name string) (open, standing []string) {
	for _, p := range w.psps[name].Books().Payments {
		if slices.Contains([]string{"processing", "requires_action"}, p.Status) {
			open = append(open, p.Ref)
		}
		if len(p.Captures) > 0 && name == adyen.Name { // a card's capture at Stripe does not fail later
			standing = append(standing, p.Ref)
		}
		for _, r := range p.Refunds {
			if r.Status == "pending" {
				open = append(open, r.Ref)
			} else {
				standing = append(standing, r.Ref)
			}
		}
	}
	return open, standing
}
