package payment

import (
	"context"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/psprouter/simulator"
	"paygrid/psprouter/stripe"
	"paygrid/shard"
	"paygrid/shard/shardtest"
)

var databases shardtest.Databases

func TestMain(m *testing.M) { os.Exit(databases.Main(m)) }

// clock stands still unless a test moves it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// setup says how a bench differs from the usual one.
type setup struct {
	shard.Options
	shards        int  // 0 = 2
	oneCapture    bool // the PSP releases the rest of a partial capture
	maxInFlight   int
	databasesOnly *shardtest.Layout // use these instead of new ones
}

// bench is a Service on real databases, in front of a simulated PSP with books of its own.
type bench struct {
	*Service
	t        *testing.T
	ctx      context.Context
	shards   *shard.Cluster
	layout   shardtest.Layout
	sim      *simulator.Simulator
	clock    *clock
	registry *prometheus.Registry

	mu     sync.Mutex
	pauses map[Point]func()
}

func newBench(t *testing.T, s setup) *bench {
	t.Helper()
	b := &bench{t: t, ctx: context.Background(), clock: &clock{now: noon}, registry: prometheus.NewRegistry(), pauses: map[Point]func(){}}
	var err error
	b.sim, err = simulator.New(simulator.Options{Now: b.clock.Now, Seed: 1, Wait: func(time.Duration, <-chan struct{}) {}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(b.sim.Handler())
	t.Cleanup(func() { b.sim.Stop(); server.Close() })
	if s.shards == 0 {
		s.shards = 2
	}
	if s.databasesOnly != nil {
		b.layout = *s.databasesOnly
	} else {
		b.layout = databases.Layout(t, s.shards)
	}
	s.Now = b.clock.Now
	b.shards = b.layout.Open(t, s.Options)
	psp, err := stripe.New(stripe.Config{BaseURL: server.URL, SecretKey: "sk_test", SeveralCaptures: !s.oneCapture, NotProcessedHeader: simulator.NotProcessedHeader})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(psp.Close)
	b.Service, err = New(b.shards, psprouter.NewRouter(psp), Config{Now: b.clock.Now, MaxInFlight: s.maxInFlight, Registry: b.registry, Pause: b.pause})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// isolations runs a test in both isolation levels of PostgreSQL.
func isolations(t *testing.T, test func(*testing.T, setup)) {
	for name, serializable := range map[string]bool{"read committed": false, "serializable": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, setup{Options: shard.Options{Serializable: serializable}})
		})
	}
}

func (b *bench) pause(p Point) {
	b.mu.Lock()
	f := b.pauses[p]
	delete(b.pauses, p)
	b.mu.Unlock()
	if f != nil {
		f()
	}
}

// at runs f once, when a command next passes the point.
func (b *bench) at(p Point, f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pauses[p] = f
}

// authorizes starts a payment and expects a kind of answer.
func (b *bench) authorizes(c AuthorizeCommand, want Kind) Answer {
	b.t.Helper()
	answer, err := b.Authorize(b.ctx, c)
	return b.expect(answer, err, want)
}

func (b *bench) expect(answer Answer, err error, want Kind) Answer {
	b.t.Helper()
	if err != nil || answer.Kind != want {
		b.t.Fatalf("answered %s %s, %v; want %s", answer.Kind, answer.Body, err, want)
	}
	return answer
}

// captures, voids and refunds give one later call under the key.
func (b *bench) captures(key, payment string, amount *ledger.Money) (Answer, error) {
	return b.Capture(b.ctx, CaptureCommand{Client: "tk_shop_a", Key: key, PaymentID: payment, Amount: amount})
}

func (b *bench) voids(key, payment string) (Answer, error) {
	return b.Void(b.ctx, VoidCommand{Client: "tk_shop_a", Key: key, PaymentID: payment})
}

func (b *bench) refundsOf(key, payment string, amount *ledger.Money) (Answer, error) {
	return b.Refund(b.ctx, RefundCommand{Client: "tk_shop_a", Key: key, PaymentID: payment, Amount: amount})
}

func (b *bench) snapshot(payment string) shard.Snapshot {
	b.t.Helper()
	s, err := b.shards.Snapshot(b.ctx, payment)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// entries are what a payment posted.
func (b *bench) entries(payment string) []shard.PostedEntry {
	b.t.Helper()
	entries, err := b.shards.Entries(b.ctx, payment)
	if err != nil {
		b.t.Fatal(err)
	}
	return entries
}

// writes commits what another writer (a webhook, a resolver) makes of an outcome of the payment's only pending attempt.
func (b *bench) writes(payment string, o psprouter.Outcome) {
	b.t.Helper()
	s := b.snapshot(payment)
	for _, a := range s.Attempts {
		if a.Status != Pending {
			continue
		}
		change, _, err := settle(s, a.ID, o, b.now(), lifetime)
		if err == nil {
			err = b.shards.Apply(b.ctx, change)
		}
		if err != nil {
			b.t.Errorf("the other writer: %v", err)
		}
		return
	}
	b.t.Errorf("%s has no pending attempt", payment)
}

// paymentOf finds the payment that a key opened.
func (b *bench) paymentOf(key string) string {
	b.t.Helper()
	k, err := b.shards.OpeningKey(b.ctx, "tk_shop_a", key)
	if err != nil || k == nil {
		b.t.Fatalf("key %s: %v, %v", key, k, err)
	}
	return k.PaymentID
}

// calls counts the POSTs that the PSP saw of an operation.
func (b *bench) calls(op string) int {
	books, n := b.sim.Books(), 0
	count := func(calls []simulator.CallBooks) {
		for _, c := range calls {
			if c.Op == op {
				n++
			}
		}
	}
	count(books.Unplaced)
	for _, p := range books.Payments {
		count(p.Calls)
	}
	return n
}

// moved is the witness's word: the simulator's books.
func (b *bench) moved() []Moved {
	out := []Moved{}
	for _, p := range b.sim.Books().Payments {
		w := Moved{PSPRef: p.Ref, Attempt: p.Attempt, Currency: ledger.Currency(p.Currency), Authorized: p.AuthorizedMinor,
			Captured: p.CapturedMinor, Voided: p.Voided || p.Expired, Charges: p.Authorizations}
		for _, r := range p.Refunds {
			if r.Status != "failed" {
				w.Refunded += r.AmountMinor
			}
		}
		out = append(out, w)
	}
	return out
}

// sound holds that shards and PSP agree on everything.
func (b *bench) sound() *Report {
	b.t.Helper()
	r, err := Verify(b.ctx, b.shards, b.moved())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range r.Findings {
		b.t.Errorf("%s at %s: %s", f.Invariant, f.Where, f.Detail)
	}
	if !r.Pass() {
		b.t.Errorf("the verdict is %+v", r)
	}
	return r
}

// metric sums the counters of a name.
func (b *bench) metric(name string) int {
	b.t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	sum := 0
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += int(m.GetCounter().GetValue())
			}
		}
	}
	return sum
}

// outage makes the shard of a key refuse everybody until end is called.
func (b *bench) outage(key string) (end func()) {
	b.t.Helper()
	name := b.layout.Map.Owner(shard.BucketOf("tk_shop_a", key)).Shard
	other := b.layout.Names[0]
	if other == name {
		other = b.layout.Names[1]
	}
	u, err := url.Parse(b.layout.Admin[name])
	if err != nil {
		b.t.Fatal(err)
	}
	database := strings.TrimPrefix(u.Path, "/")
	b.layout.Exec(b.t, other, `ALTER DATABASE `+database+` ALLOW_CONNECTIONS false`)
	b.layout.Exec(b.t, other, `SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a WHERE a.datname = $1`, database)
	return sync.OnceFunc(func() { b.layout.Exec(b.t, other, `ALTER DATABASE `+database+` ALLOW_CONNECTIONS true`) })
}
