package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The proofs read whole spans of buckets, by primary key; the two sums over all postings of a shard are the only
// statements of the project that read a table whole, once a night and when asked.
const (
	sqlAuditBuckets = `
SELECT b.bucket, b.epoch, b.state, b.seq, b.rollup_seq FROM buckets b
WHERE b.bucket >= $1::INT4 AND b.bucket < $2::INT4 AND b.state = 'OWNED' ORDER BY b.bucket`

	sqlAuditPayments = `
SELECT p.payment_id, p.client_id, p.order_id, p.customer_id, p.status, p.version, p.psp, p.psp_ref, p.currency, p.authorized,
    p.captured, p.released, p.refunding, p.refunded, p.capture_mode, p.method, p.splits, p.parts, p.return_url, p.redirect_url,
    p.failure_code, p.failure, p.expires_at, p.created_at, p.updated_at
FROM payments p WHERE p.bucket >= $1::INT4 AND p.bucket < $2::INT4 ORDER BY p.bucket, p.payment_id`

	sqlAuditAttempts = `
SELECT a.attempt_id, a.payment_id, a.kind, a.psp, a.amount, a.status, a.outcome, a.route_reason, a.code, a.detail, a.psp_ref,
    a.client_key, a.sent_at, a.next_check_at, a.updated_at, a.checks, a.absent_checks, a.escalated
FROM attempts a WHERE a.bucket >= $1::INT4 AND a.bucket < $2::INT4 ORDER BY a.bucket, a.attempt_id`

	sqlAuditRefunds = `
SELECT r.refund_id, r.payment_id, r.attempt_id, r.amount, r.status, r.shares, r.code, r.detail, r.created_at, r.updated_at
FROM refunds r WHERE r.bucket >= $1::INT4 AND r.bucket < $2::INT4 ORDER BY r.bucket, r.refund_id`

	sqlAuditKeys = `
SELECT k.client_id, k.scope, k.key, k.request_hash, k.payment_id, k.subject_id, k.answer_kind, k.answer
FROM idempotency_keys k WHERE k.bucket >= $1::INT4 AND k.bucket < $2::INT4 ORDER BY k.bucket, k.client_id, k.scope, k.key`

	sqlAuditEntries = `
SELECT e.bucket, e.entry_id, e.seq, e.kind, e.payment_id, e.reason, e.actor, e.reverses, e.created_at, p.debit_account,
    p.credit_account, p.amount, p.currency
FROM journal_entries e JOIN postings p ON p.bucket = e.bucket AND p.seq = e.seq
WHERE e.bucket >= $1::INT4 AND e.bucket < $2::INT4
ORDER BY e.bucket, e.seq, p.posting_no`

	sqlAuditEvents = `
SELECT o.bucket, o.seq, o.payment_id, o.version, o.type, o.payload, o.created_at
FROM outbox o WHERE o.bucket >= $1::INT4 AND o.bucket < $2::INT4 ORDER BY o.bucket, o.seq`

	// sqlAuditOrphans names postings without their entry, and entries without postings.
	sqlAuditOrphans = `
SELECT p.bucket, p.seq, p.entry_id FROM postings p
LEFT JOIN journal_entries e ON e.bucket = p.bucket AND e.entry_id = p.entry_id AND e.seq = p.seq
WHERE p.bucket >= $1::INT4 AND p.bucket < $2::INT4 AND e.entry_id IS NULL
UNION ALL
SELECT e.bucket, e.seq, e.entry_id FROM journal_entries e
LEFT JOIN postings p ON p.bucket = e.bucket AND p.seq = e.seq AND p.entry_id = e.entry_id
WHERE e.bucket >= $1::INT4 AND e.bucket < $2::INT4 AND p.entry_id IS NULL`

	// sqlAuditSellers names sellers whose live balance is not the sum of their postings.
	sqlAuditSellers = `
SELECT d.account, d.currency, sum(d.live)::TEXT, sum(d.posted)::TEXT
FROM (
    SELECT s.account, s.currency, s.balance AS live, 0::NUMERIC AS posted FROM seller_balances s
    UNION ALL
    SELECT p.credit_account, p.currency, 0::NUMERIC, p.amount::NUMERIC FROM postings p
    WHERE p.credit_account >= 'seller_payable:' AND p.credit_account < 'seller_payable;'
    UNION ALL
    SELECT p.debit_account, p.currency, 0::NUMERIC, -p.amount::NUMERIC FROM postings p
    WHERE p.debit_account >= 'seller_payable:' AND p.debit_account < 'seller_payable;'
) d
GROUP BY d.account, d.currency HAVING sum(d.live) <> sum(d.posted) ORDER BY d.account, d.currency`

	// sqlAuditRollups names house accounts whose roll-up in a bucket is not the sum of their postings up to rollup_seq.
	sqlAuditRollups = `
SELECT d.bucket, d.account, d.currency, sum(d.rolled)::TEXT, sum(d.posted)::TEXT
FROM (
    SELECT r.bucket, r.account, r.currency, r.debits - r.credits AS rolled, 0::NUMERIC AS posted FROM rollups r
    UNION ALL
    SELECT p.bucket, v.account, p.currency, 0::NUMERIC, v.signed::NUMERIC
    FROM buckets b JOIN postings p ON p.bucket = b.bucket AND p.seq <= b.rollup_seq
    CROSS JOIN LATERAL (VALUES (p.debit_account, p.amount), (p.credit_account, -p.amount)) AS v(account, signed)
    WHERE v.account < 'seller_payable:' OR v.account >= 'seller_payable;'
) d
GROUP BY d.bucket, d.account, d.currency HAVING sum(d.rolled) <> sum(d.posted) ORDER BY d.bucket, d.account, d.currency`
)

// BucketRow is one row of buckets.
type BucketRow struct {
	Bucket    Bucket
	Epoch     int64
	State     string
	Seq       int64
	RollupSeq int64
}

// Span is all rows of a span of buckets on one shard, from one snapshot.
type Span struct {
	Shard    string
	Buckets  []BucketRow
	Payments []Payment
	Attempts []Attempt
	Refunds  []Refund
	Keys     []Key
	Entries  []PostedEntry
	Events   []PostedEvent
	Orphans  []string // postings without entry, entries without postings, for people
}

// auditSpan is how many buckets one Span holds.
const auditSpan = 64

// Walk reads every bucket of a shard, a span at a time, and calls visit with each.
func (c *Cluster) Walk(ctx context.Context, shardName string, visit func(Span) error) error {
	s, _, err := c.ownedBy(shardName)
	if err != nil {
		return err
	}
	for from := 0; from < Buckets; from += auditSpan {
		var span Span
		err := s.audit(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			span, err = readSpan(ctx, tx, from, from+auditSpan)
			return err
		})
		if err != nil {
			return fmt.Errorf("shard %s: buckets from %d: %w", shardName, from, err)
		}
		span.Shard = shardName
		if err := visit(span); err != nil {
			return err
		}
	}
	return nil
}

// auditLimit bounds one snapshot of an audit, repetitions included. The sums over all postings of a large shard take minutes.
const auditLimit = time.Hour

// audit runs f in a read-only transaction that sees one moment.
func (s *Shard) audit(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, auditLimit)
	defer cancel()
	return s.readLong(ctx, auditLimit, "audit", func(ctx context.Context) error { return s.snapshot(ctx, f) })
}

func (s *Shard) snapshot(ctx context.Context, f func(context.Context, pgx.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, s.readers, options, func(tx pgx.Tx) error { return f(ctx, tx) })
}

func readSpan(ctx context.Context, tx pgx.Tx, from, to int) (Span, error) {
	var span Span
	batch := &pgx.Batch{}
	queueAll(batch, sqlAuditBuckets, from, to, &span.Buckets, scanBucketRow)
	queueAll(batch, sqlAuditPayments, from, to, &span.Payments, scanPayment)
	queueAll(batch, sqlAuditAttempts, from, to, &span.Attempts, scanAttempt)
	queueAll(batch, sqlAuditRefunds, from, to, &span.Refunds, scanRefund)
	queueAll(batch, sqlAuditKeys, from, to, &span.Keys, scanKey)
	queueAll(batch, sqlAuditEvents, from, to, &span.Events, scanEvent)
	queueAll(batch, sqlAuditOrphans, from, to, &span.Orphans, scanOrphan)
	batch.Queue(sqlAuditEntries, from, to).Query(func(rows pgx.Rows) (err error) {
		span.Entries, err = collectEntries(rows)
		return err
	})
	err := tx.SendBatch(ctx, batch).Close()
	return span, err
}

func queueAll[T any](batch *pgx.Batch, sql string, from, to int, out *[]T, scan pgx.RowToFunc[T]) {
	batch.Queue(sql, from, to).Query(func(rows pgx.Rows) (err error) {
		*out, err = pgx.CollectRows(rows, scan)
		return err
	})
}

func scanBucketRow(row pgx.CollectableRow) (BucketRow, error) {
	var b BucketRow
	err := row.Scan(&b.Bucket, &b.Epoch, &b.State, &b.Seq, &b.RollupSeq)
	return b, err
}

func scanOrphan(row pgx.CollectableRow) (string, error) {
	var b Bucket
	var seq int64
	var entry string
	err := row.Scan(&b, &seq, &entry)
	return fmt.Sprintf("bucket %s seq %d entry %s", b, seq, entry), err
}

// WrongSums compares a shard's sellers' balances and roll-ups with its postings and names each that differs, for people.
func (c *Cluster) WrongSums(ctx context.Context, shardName string) ([]string, error) {
	s, _, err := c.ownedBy(shardName)
	if err != nil {
		return nil, err
	}
	var out []string
	err = s.audit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		out = nil
		var account, currency, kept, posted string
		rows, err := tx.Query(ctx, sqlAuditSellers)
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, []any{&account, &currency, &kept, &posted}, func() error {
			out = append(out, fmt.Sprintf("%s %s: live balance %s, postings %s", account, currency, kept, posted))
			return nil
		})
		if err != nil {
			return err
		}
		var b Bucket
		if rows, err = tx.Query(ctx, sqlAuditRollups); err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, []any{&b, &account, &currency, &kept, &posted}, func() error {
			out = append(out, fmt.Sprintf("bucket %s %s %s: roll-up %s, postings %s", b, account, currency, kept, posted))
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", shardName, err)
	}
	return out, nil
}
