package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"paygrid/schema"
)

// Options says how a process works with its shards. Zero values mean the defaults that stand beside the fields.
type Options struct {
	// Lanes is how many statements of one shard may be under way at once. 2: the second helps when a crowd waits, and
	// executes while the first waits for its commit.
	Lanes int
	// BatchLimit is how many Openings or Changes one statement carries at most. 64. 1 switches coalescing off: each
	// caller sends its own statement.
	BatchLimit int
	// Readers is how many connections per shard serve reads and other work beside the lanes, which have their own: a slow
	// read holds up no write. 4.
	Readers int
	// StatementTimeout bounds one statement, its answer included. What has not answered by then is read back. 5 s.
	StatementTimeout time.Duration
	// CallTimeout bounds one call in all, retries, read-backs and map reloads included. 15 s. Only Walk and WrongSums, which
	// read whole tables, may take longer.
	CallTimeout time.Duration
	// Serializable asks for SERIALIZABLE on PostgreSQL too; CockroachDB always runs it. Correctness never needs it.
	Serializable bool
	// Instance tells this process from others on the same shards, so that they prefer different slots of a seller's
	// balance. Any number is right.
	Instance int
	// Now is the clock.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	setDefault(&o.Lanes, 2)
	setDefault(&o.BatchLimit, 64)
	setDefault(&o.Readers, 4)
	setDefault(&o.StatementTimeout, 5*time.Second)
	setDefault(&o.CallTimeout, 15*time.Second)
	return o
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// balanceSlots is how many rows a seller's live balance on one shard is spread over at most.
const balanceSlots = 64

// Shard is one database and the lanes that write to it.
type Shard struct {
	name    string
	url     string
	opts    Options
	writers *pgxpool.Pool // a connection per lane, for its statements and their read-backs
	readers *pgxpool.Pool // all else
	metrics *Metrics
	lanes   *lanes

	committed chan struct{} // holds one token after a commit of this process
}

// aloneWriters is how many statements may be under way at once without coalescing.
const aloneWriters = 64

// open makes the pools of a shard; they connect when first used, so that a shard that is down now can come up later.
func open(name, url string, o Options, m *Metrics) (*Shard, error) {
	writing := o.Lanes
	if o.BatchLimit == 1 {
		writing = aloneWriters
	}
	writers, err := newPool(url, o, writing)
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", name, err)
	}
	readers, err := newPool(url, o, o.Readers)
	if err != nil {
		writers.Close()
		return nil, fmt.Errorf("shard %s: %w", name, err)
	}
	s := &Shard{name: name, url: url, opts: o, writers: writers, readers: readers, metrics: m, committed: make(chan struct{}, 1)}
	s.lanes = newLanes(s, o.Lanes)
	return s, nil
}

func newPool(url string, o Options, connections int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database URL: %w", err)
	}
	config.MaxConns = int32(connections)
	config.MaxConnLifetime = 30 * time.Minute
	config.MaxConnLifetimeJitter = 3 * time.Minute
	config.ConnConfig.ConnectTimeout = o.StatementTimeout
	for k, v := range sessionSettings(o) {
		config.ConnConfig.RuntimeParams[k] = v
	}
	config.AfterConnect = prepareSession
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("make a pool: %w", err)
	}
	return pool, nil
}

// sessionSettings are those that both engines know. The isolation level is always named, never left to a default.
func sessionSettings(o Options) map[string]string {
	isolation := "read committed"
	if o.Serializable {
		isolation = "serializable"
	}
	return map[string]string{
		"application_name":              "paygrid",
		"default_transaction_isolation": isolation,
		"timezone":                      "UTC",
	}
}

// prepareSession sets what only one engine knows. On PostgreSQL the hot statements are planned once (planning is half of
// their cost otherwise), and the plan is kept: so it must never be one that fits only the empty tables of a new cluster.
// Without scans of tables, hash joins and merge joins, what is left is to go from row to row by index. A plan that cannot
// do without a scan then costs so much on paper that it would be compiled, which takes longer than running it: no JIT.
// CockroachDB runs SERIALIZABLE.
func prepareSession(ctx context.Context, conn *pgx.Conn) error {
	settings := []string{"SET plan_cache_mode = force_generic_plan", "SET enable_seqscan = off", "SET enable_hashjoin = off",
		"SET enable_mergejoin = off", "SET jit = off"}
	if schema.EngineOf(conn) == schema.CockroachDB {
		settings = []string{"SET default_transaction_isolation = 'serializable'"}
	}
	for _, text := range settings {
		if _, err := conn.Exec(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// close waits for the lanes' last statements and closes the pools.
func (s *Shard) close() {
	s.lanes.stop()
	s.writers.Close()
	s.readers.Close()
}

// slot is the slot of sellers' balances that a lane of this process writes: lanes never wait for each other's rows, and
// two processes rarely do.
func (s *Shard) slot(laneNo int) int32 {
	return int32((s.opts.Instance*s.opts.Lanes + laneNo) % balanceSlots)
}

// Ping asks the shard whether it answers within the statement's time limit.
func (s *Shard) Ping(ctx context.Context) error {
	if err := within(ctx, s.opts.StatementTimeout, s.readers.Ping); err != nil {
		return fmt.Errorf("shard %s: %w: %w", s.name, ErrUnavailable, err)
	}
	return nil
}
