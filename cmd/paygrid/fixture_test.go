package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"paygrid/payment"
	"paygrid/psprouter/simulator"
	"paygrid/schema"
	"paygrid/schema/localdb"
	"paygrid/shard"
)

// The template that every test's databases are copied from, and its role's password.
const (
	templateDatabase = "paygrid_template"
	testPassword     = "paygrid-test"
)

// template is made when the first test asks for it.
var template struct {
	once  sync.Once
	err   error
	grids atomic.Int64
}

// testGrid is a cluster of a test, with what a test asks it.
type testGrid struct {
	*grid
	callers []caller // one per router, as shop A
	clock   clock    // of everything in this process
}

// newGrid starts four shards and two routers, unless o says otherwise (-1 routers are none); they and their databases end with the
// test.
func newGrid(t testing.TB, o gridOptions) *testGrid {
	t.Helper()
	engine := db.Engine(t)
	template.once.Do(func() { template.err = layTemplate(context.Background(), engine) })
	if template.err != nil {
		t.Fatal(template.err)
	}
	o.Engine, o.Password, o.Dir, o.Listen = engine, testPassword, t.TempDir(), "127.0.0.1:0"
	out := &testGrid{}
	if o.Now == nil {
		o.Now = out.clock.now
	}
	o.Prefix = fmt.Sprintf("t%d_", template.grids.Add(1))
	setDefault(&o.Shards, 4)
	setDefault(&o.Routers, 2)
	o.Routers = max(o.Routers, 0)
	setDefault(&o.PSPTimeout, 10*time.Second)
	setDefault(&o.StepTarget, -time.Millisecond) // a busy machine turns nobody away
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Database = func(ctx context.Context, name string) error {
		t.Cleanup(func() { _ = engine.DropDatabase(context.Background(), name) })
		return copyTemplate(ctx, engine, name)
	}
	g, err := startGrid(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("the cluster did not end in order: %v", err)
		}
	})
	out.grid = g
	for _, url := range g.URLs {
		out.callers = append(out.callers, newCaller(t, url))
	}
	return out
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func layTemplate(ctx context.Context, engine *localdb.Engine) error {
	if err := engine.CreateDatabase(ctx, templateDatabase); err != nil {
		return err
	}
	if err := schema.Migrate(ctx, engine.AdminURL(templateDatabase)); err != nil {
		return err
	}
	return schema.AllowLogin(ctx, engine.AdminURL(templateDatabase), testPassword)
}

func copyTemplate(ctx context.Context, engine *localdb.Engine, name string) error {
	err := engine.CreateFromTemplate(ctx, name, templateDatabase)
	if errors.Is(err, localdb.ErrNoTemplates) {
		return migrated(engine)(ctx, name)
	}
	return err
}

// inBothLevels runs check on a cluster of its own in READ COMMITTED and in SERIALIZABLE, and after it what is always true.
func inBothLevels(t *testing.T, o gridOptions, check func(t *testing.T, g *testGrid)) {
	t.Parallel()
	for name, serializable := range map[string]bool{"read committed": false, "serializable": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := o
			o.Serializable = serializable
			g := newGrid(t, o)
			check(t, g)
			g.always(t)
		})
	}
}

// addRouter starts one more router in this process, by the grid's configuration as change leaves it. It ends with the test.
func (g *testGrid) addRouter(t *testing.T, change func(*routerConfig)) caller {
	t.Helper()
	c, _ := g.addNode(t, time.Now, change)
	return c
}

// addNode is addRouter with a clock; it returns the node as well.
func (g *testGrid) addNode(t *testing.T, now func() time.Time, change func(*routerConfig)) (caller, *node) {
	t.Helper()
	config, err := readConfig(g.ConfigPath)
	if err != nil {
		t.Fatal(err)
	}
	change(&config)
	n, err := newNode(t.Context(), config, nodeOptions{Instance: 9, Log: slog.New(slog.DiscardHandler), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.run(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the router did not end in order: %v", err)
		}
	})
	return newCaller(t, "http://"+l.Addr().String()), n
}

// shardMap reads the grid's shard map.
func (g *testGrid) shardMap(t testing.TB) *shard.Map {
	t.Helper()
	m, err := shard.NewMapFile(g.MapPath).Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// shardOf names the shard that owns a key of shop A.
func (g *testGrid) shardOf(t testing.TB, key string) string {
	return g.shardMap(t).Owner(shard.BucketOf("shop_a", key)).Shard
}

// keyOn returns an idempotency key of shop A whose payment lies on a shard.
func (g *testGrid) keyOn(t testing.TB, shardName, prefix string) string {
	t.Helper()
	for n := range 10_000 {
		if key := fmt.Sprintf("%s-%d", prefix, n); g.shardOf(t, key) == shardName {
			return key
		}
	}
	t.Fatalf("no key lies on %s", shardName)
	return ""
}

// exec runs a statement as the owner of a shard's tables.
func (g *testGrid) exec(t testing.TB, shardName, sql string, args ...any) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, g.Admin[shardName])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// count runs a SELECT of one integer on one shard, as the owner of its tables.
func (g *testGrid) count(t testing.TB, shardName, sql string, args ...any) int64 {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, g.Admin[shardName])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var n int64
	if err := conn.QueryRow(ctx, sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// sum is count over all shards.
func (g *testGrid) sum(t testing.TB, sql string, args ...any) int64 {
	t.Helper()
	var n int64
	for name := range g.Admin {
		n += g.count(t, name, sql, args...)
	}
	return n
}

// always checks what holds after every case: I1 entries balance, I2 amounts are in order, I3 both PSPs' books and the
// ledger agree per payment, I4 one event per change of state, I6 stored balances are the sums of their lines. I5 (no
// 500, no empty success) is held by every call of a caller.
func (g *testGrid) always(t testing.TB) *payment.Report {
	t.Helper()
	report, err := payment.Verify(context.Background(), g.Nodes[0].shards, movedBy(g.Sim.Books(), g.Adyen.Books()))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		t.Errorf("verify: %s %s: %s", f.Invariant, f.Where, f.Detail)
	}
	if !report.Pass() {
		t.Errorf("verify: double charges %d, lost %d, unbalanced %d", report.DoubleCharges, report.Lost, report.Unbalanced)
	}
	if n := g.sum(t, `SELECT count(*) FROM payments WHERE captured > authorized OR refunding + refunded > captured`); n > 0 {
		t.Errorf("I2: %d payments have amounts out of order", n)
	}
	if n := g.sum(t, `SELECT count(*) FROM payments p WHERE p.version <>
		(SELECT count(*) FROM outbox o WHERE o.bucket = p.bucket AND o.payment_id = p.payment_id)`); n > 0 {
		t.Errorf("I4: %d payments have another number of events than of changes", n)
	}
	return report
}

// work runs the resolver and the inbox once on every shard, as a worker of its own.
func (g *testGrid) work(t testing.TB) {
	t.Helper()
	for name := range g.Admin {
		if _, err := g.Nodes[0].service.ResolveOn(context.Background(), name, "test"); err != nil {
			t.Errorf("resolve on %s: %v", name, err)
		}
		if _, err := g.Nodes[0].service.ApplyNoticesOn(context.Background(), name, "test"); err != nil {
			t.Errorf("apply notices on %s: %v", name, err)
		}
	}
}

// finish lets time go on and the workers work until no attempt is open; six rounds must do.
func (g *testGrid) finish(t testing.TB) {
	t.Helper()
	const pending = `SELECT count(*) FROM attempts WHERE status = 'PENDING'`
	for round := 0; g.sum(t, pending) > 0; round++ {
		if round == 6 {
			t.Fatalf("%d attempts are still open", g.sum(t, pending))
		}
		g.clock.advance(20 * time.Minute) // past leases, pauses and the PSP's visibility window
		g.work(t)
	}
}

// tally is what the simulator did and was asked, over all payments.
type tally struct {
	Authorized, Charges, Voids, Refunds int // money moves
	Calls                               int // POSTs, replays and refusals included
}

// tally is Stripe's.
func (g *testGrid) tally() tally { return tallyOf(g.Sim.Books()) }

func tallyOf(books simulator.Books) tally {
	out := tally{Calls: len(books.Unplaced)}
	for _, p := range books.Payments {
		out.Authorized += p.Authorizations
		out.Charges += p.Charges
		out.Refunds += len(p.Refunds)
		out.Calls += len(p.Calls)
		if p.Voided {
			out.Voids++
		}
	}
	return out
}

// keysOf returns the distinct idempotency keys that the simulator saw for an operation.
func keysOf(books simulator.Books, op string) map[string]int {
	out := map[string]int{}
	for _, p := range books.Payments {
		for _, call := range p.Calls {
			if call.Op == op {
				out[call.Key]++
			}
		}
	}
	return out
}

// together runs f(0) … f(n-1) at the same moment and returns when all are done.
func together(n int, f func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			f(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// eventually waits until ok holds, for what happens in other processes and cannot tell us.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// clock is the time of a cluster, which a test can move on.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }
