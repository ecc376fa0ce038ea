package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// sqlRelayUnsent tells which events of each bucket the relay has not passed yet, and names no bucket that has none. What a
	// moved bucket left behind is its new owner's to publish. NOT IN leaves out most buckets by one look into a hash of all
	// cursors, where the join alone would go down an index for every bucket; the join gives the cursors of those that are left,
	// and finds those that have no cursor yet, of which seq > 0 leaves out the unused. The lower bounds make both scans
	// follow the primary keys.
	sqlRelayUnsent = `
SELECT b.bucket, coalesce(r.seq, 0), b.seq
FROM buckets b
LEFT JOIN relay_cursors r ON r.bucket = b.bucket
WHERE b.bucket >= 0 AND b.seq > 0 AND b.state IN ('OWNED', 'FROZEN') AND b.seq > coalesce(r.seq, 0)
    AND (b.bucket, b.seq) NOT IN (SELECT c.bucket, c.seq FROM relay_cursors c WHERE c.bucket >= 0)
ORDER BY b.bucket`

	// sqlRelayHeads tells how far each bucket's log reaches.
	sqlRelayHeads = `
SELECT b.bucket, b.epoch, b.seq FROM buckets b WHERE b.state IN ('OWNED', 'FROZEN') ORDER BY b.bucket`

	// sqlRelayCursors tells how far the relay is with some buckets. It relies on the primary key.
	sqlRelayCursors = `SELECT r.bucket, r.seq FROM relay_cursors r WHERE r.bucket = ANY($1::INT4[])`

	// sqlRelayEvents reads a stretch of each of some buckets' logs, and whether the event's payment is held back. It relies
	// on the primary keys: a lower bound in the scan steps over what was pruned. A payload that is too large to be sent stays
	// where it is: a few of them would take a statement's whole time.
	sqlRelayEvents = `
SELECT o.bucket, o.seq, o.payment_id, o.version, o.type,
    CASE WHEN octet_length(o.payload::TEXT) <= $4::INT8 THEN o.payload END, o.created_at, k.payment_id IS NOT NULL AS held
FROM unnest($1::INT4[], $2::INT8[], $3::INT8[]) AS c(bucket, after, through)
JOIN outbox o ON o.bucket = c.bucket AND o.seq > c.after AND o.seq <= c.through
LEFT JOIN parked_payments k ON k.bucket = o.bucket AND k.payment_id = o.payment_id AND (k.state <> 'RELEASED') IS TRUE
ORDER BY o.bucket, o.seq`

	// sqlRelayAdvance moves cursors on, never back and never past the log. f is the fence: whose lease went to another moves
	// nothing, however late the statement arrives, since a take-over changes the row that f locks.
	sqlRelayAdvance = `
WITH f AS (
    SELECT l.token FROM leases l WHERE l.name = $1::TEXT AND l.owner = $2::TEXT AND l.token = $3::INT8 FOR UPDATE
),
u AS (
    INSERT INTO relay_cursors (bucket, seq, token, updated_at)
    SELECT c.bucket, c.seq, f.token, $6::TIMESTAMPTZ
    FROM f CROSS JOIN unnest($4::INT4[], $5::INT8[]) AS c(bucket, seq)
    JOIN buckets b ON b.bucket = c.bucket AND b.seq >= c.seq AND b.state IN ('OWNED', 'FROZEN')
    ON CONFLICT (bucket) DO UPDATE SET seq = excluded.seq, token = excluded.token, updated_at = excluded.updated_at
    WHERE relay_cursors.seq < excluded.seq
    RETURNING bucket
)
SELECT (SELECT count(*) FROM f), (SELECT count(*) FROM u)`

	// sqlRelayPrune removes the oldest events of some buckets, a bounded stretch of each: only what lies behind the cursor
	// and before the first event of a parked payment, and only a prefix without anything younger than $6 in it. Fenced as
	// sqlRelayAdvance. It relies on the primary keys.
	sqlRelayPrune = `
WITH f AS (
    SELECT l.token FROM leases l WHERE l.name = $1::TEXT AND l.owner = $2::TEXT AND l.token = $3::INT8 FOR UPDATE
),
w AS (
    SELECT o.bucket, o.seq, bool_and(o.created_at < $6::TIMESTAMPTZ) OVER (PARTITION BY o.bucket ORDER BY o.seq) AS old
    FROM f CROSS JOIN unnest($4::INT4[]) AS c(bucket)
    JOIN relay_cursors r ON r.bucket = c.bucket
    JOIN outbox o ON o.bucket = r.bucket AND o.seq > r.pruned AND o.seq <= r.pruned + $5::INT8 AND o.seq <= r.seq
    WHERE NOT EXISTS (
        SELECT 1 FROM parked_payments k WHERE k.bucket = o.bucket AND (k.state <> 'RELEASED') IS TRUE AND k.seq <= o.seq)
),
d AS (
    DELETE FROM outbox WHERE (outbox.bucket, outbox.seq) IN (SELECT w.bucket, w.seq FROM w WHERE w.old)
    RETURNING outbox.bucket, outbox.seq
),
u AS (
    UPDATE relay_cursors SET pruned = m.seq
    FROM (SELECT d.bucket, max(d.seq) AS seq FROM d GROUP BY d.bucket) m
    WHERE relay_cursors.bucket = m.bucket
)
SELECT (SELECT count(*) FROM f), (SELECT count(*) FROM d)`

	// sqlRelayLag tells how many events of a shard wait for the relay, and since when the oldest does.
	sqlRelayLag = `
SELECT coalesce(sum(b.seq - coalesce(r.seq, 0)), 0)::INT8, min(o.created_at)
FROM buckets b
LEFT JOIN relay_cursors r ON r.bucket = b.bucket
LEFT JOIN outbox o ON o.bucket = b.bucket AND o.seq = coalesce(r.seq, 0) + 1
WHERE b.state IN ('OWNED', 'FROZEN') AND b.seq > coalesce(r.seq, 0)`
)

// ErrLeaseLost: the lease under which a write was fenced has gone to another owner. Nothing was written.
var ErrLeaseLost = errors.New("the lease went to another owner")

// Fence names the lease under which a write is made: the database compares all three with the lease's row.
type Fence struct {
	Lease string
	Owner string
	Token int64
}

// Head is how far a bucket's log reaches: the last event's number.
type Head struct {
	Bucket Bucket
	Epoch  int64
	Seq    int64
}

// Stretch is a part of a bucket's log: the events After < seq ≤ Through. As a cursor, Through alone counts.
type Stretch struct {
	Bucket  Bucket
	After   int64
	Through int64
}

// OutboxEvent is an event on its way out. Held says that its payment is parked: it must wait behind an earlier one.
type OutboxEvent struct {
	PostedEvent
	Held bool
}

// Unsent returns the stretches of a shard's logs that lie behind the cursors, in the order of buckets. Buckets without news
// are missing.
func (c *Cluster) Unsent(ctx context.Context, shardName string) ([]Stretch, error) {
	return readRows(ctx, c, shardName, "relay unsent", func(row pgx.CollectableRow) (Stretch, error) {
		var s Stretch
		err := row.Scan((*int32)(&s.Bucket), &s.After, &s.Through)
		return s, err
	}, sqlRelayUnsent)
}

// Heads returns how far each bucket of a shard reaches: the relay asks for what is Unsent, which is less.
func (c *Cluster) Heads(ctx context.Context, shardName string) ([]Head, error) {
	return readRows(ctx, c, shardName, "relay heads", func(row pgx.CollectableRow) (Head, error) {
		var h Head
		err := row.Scan(&h.Bucket, &h.Epoch, &h.Seq)
		return h, err
	}, sqlRelayHeads)
}

// Cursors returns through which number the events of some buckets were published; buckets that never were are missing.
func (c *Cluster) Cursors(ctx context.Context, shardName string, buckets []Bucket) (map[Bucket]int64, error) {
	rows, err := readRows(ctx, c, shardName, "relay cursors", func(row pgx.CollectableRow) (Stretch, error) {
		var s Stretch
		err := row.Scan(&s.Bucket, &s.Through)
		return s, err
	}, sqlRelayCursors, column(buckets, func(b Bucket) int32 { return int32(b) }))
	out := make(map[Bucket]int64, len(rows))
	for _, r := range rows {
		out[r.Bucket] = r.Through
	}
	return out, err
}

// Outbox reads the given stretches of buckets' logs in the order of bucket and number. It reads as many rows as the
// stretches are long: the caller bounds them. The Payload of an event that is larger than maxBytes is nil. A number that is
// missing is an *InvariantError (S4): below a bucket's head there are no gaps.
func (c *Cluster) Outbox(ctx context.Context, shardName string, stretches []Stretch, maxBytes int) ([]OutboxEvent, error) {
	events, err := readRows(ctx, c, shardName, "relay events", scanOutboxEvent, sqlRelayEvents,
		column(stretches, func(s Stretch) int32 { return int32(s.Bucket) }), column(stretches, func(s Stretch) int64 { return s.After }),
		column(stretches, func(s Stretch) int64 { return s.Through }), maxBytes)
	if err != nil {
		return nil, err
	}
	return events, checkStretches(events, stretches)
}

// checkStretches wants every number of every stretch exactly once.
func checkStretches(events []OutboxEvent, stretches []Stretch) error {
	next := make(map[Bucket]int64, len(stretches))
	for _, s := range stretches {
		next[s.Bucket] = s.After + 1
	}
	for _, e := range events {
		if e.Seq != next[e.Bucket] {
			return broken("S4", EventID(e.Bucket, e.Seq), "event %d should follow", next[e.Bucket])
		}
		next[e.Bucket]++
	}
	for _, s := range stretches {
		if next[s.Bucket] != s.Through+1 {
			return broken("S4", EventID(s.Bucket, next[s.Bucket]), "is missing from the outbox, which reaches to %d", s.Through)
		}
	}
	return nil
}

// scanOutboxEvent takes the payload as the bytes that the database sent: as a json.RawMessage it would be parsed once more,
// and the database stores nothing else than JSON.
func scanOutboxEvent(row pgx.CollectableRow) (OutboxEvent, error) {
	var e OutboxEvent
	err := row.Scan((*int32)(&e.Bucket), &e.Seq, &e.PaymentID, &e.Version, &e.Type, (*[]byte)(&e.Payload), &e.CreatedAt, &e.Held)
	return e, err
}

// Advance moves the cursors of some buckets to Through, under the fence. It returns ErrLeaseLost if the lease is another's by
// now: then nothing moved. It can be repeated.
func (c *Cluster) Advance(ctx context.Context, shardName string, f Fence, to []Stretch) error {
	_, err := c.fenced(ctx, shardName, "relay advance", f, sqlRelayAdvance, column(to, func(s Stretch) int32 { return int32(s.Bucket) }),
		column(to, func(s Stretch) int64 { return s.Through }), c.opts.Now())
	return err
}

// PruneOutbox removes published events of some buckets that are older than before, at most limit of each bucket, and returns
// how many it removed. It never removes what has not been acknowledged.
func (c *Cluster) PruneOutbox(ctx context.Context, shardName string, f Fence, buckets []Bucket, limit int, before time.Time) (int64, error) {
	return c.fenced(ctx, shardName, "relay prune", f, sqlRelayPrune, column(buckets, func(b Bucket) int32 { return int32(b) }), limit, before)
}

// RelayLag tells how many events of one shard are not published yet, and when the oldest of them was made (zero: none waits).
func (c *Cluster) RelayLag(ctx context.Context, shardName string) (events int64, oldest time.Time, err error) {
	return countSince(ctx, c, shardName, "relay lag", sqlRelayLag)
}

// fenced runs a statement that answers whether the lease held and how many rows it wrote. All of them may be repeated, so a
// lost answer is asked for again.
func (c *Cluster) fenced(ctx context.Context, shardName, op string, f Fence, sql string, args ...any) (int64, error) {
	s, _, err := c.ownedBy(shardName)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	var holds, written int64
	args = append([]any{f.Lease, f.Owner, f.Token}, args...)
	err = s.read(ctx, op, func(ctx context.Context) error {
		return s.readers.QueryRow(ctx, sql, args...).Scan(&holds, &written)
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("shard %s: %w", shardName, err)
	case holds == 0:
		return 0, fmt.Errorf("shard %s: %s: %s: %w", shardName, op, f.Lease, ErrLeaseLost)
	}
	return written, nil
}

// countSince runs a read of how many there are on one shard, and since when the oldest is (zero: there is none).
func countSince(ctx context.Context, c *Cluster, shardName, op, sql string, args ...any) (n int64, oldest time.Time, err error) {
	type counted struct {
		N     int64
		Since *time.Time
	}
	rows, err := readRows(ctx, c, shardName, op, pgx.RowToStructByPos[counted], sql, args...)
	if err != nil || len(rows) == 0 {
		return 0, time.Time{}, err
	}
	return rows[0].N, orZero(rows[0].Since), nil
}

// readRows runs one read on one shard, under the call's time limit.
func readRows[T any](ctx context.Context, c *Cluster, shardName, op string, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	s, _, err := c.ownedBy(shardName)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	var out []T
	err = s.read(ctx, op, func(ctx context.Context) (err error) {
		out, err = rowsOf(ctx, s, scan, sql, args)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", shardName, err)
	}
	return out, nil
}

// rowsOf runs one statement and collects its rows.
func rowsOf[T any](ctx context.Context, s *Shard, scan pgx.RowToFunc[T], sql string, args []any) ([]T, error) {
	rows, err := s.readers.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

// Committed returns a channel that receives after this process has committed changes on a shard. It is a hint for one
// receiver: commits while nobody receives are told once, and those of other processes never, so a receiver polls as well.
func (c *Cluster) Committed(shardName string) <-chan struct{} {
	s, _, err := c.ownedBy(shardName)
	if err != nil {
		return nil // never receives
	}
	return s.committed
}

// signal tells the receiver of Committed, if something committed. It never waits.
func (s *Shard) signal(verdicts []error) {
	if !slices.Contains(verdicts, nil) {
		return
	}
	select {
	case s.committed <- struct{}{}:
	default:
	}
}
