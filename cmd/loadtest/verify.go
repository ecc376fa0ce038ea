package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// counts are what a database holds in the end.
type counts struct {
	captures int64 // entries
	steps    int64 // commits
	moved    int64 // minor units that psp_receivable was debited
	sellers  int64 // minor units that the sellers' live balances hold
	others   int64 // rows that must not be: not captured, unanswered, out of sequence
}

func (c counts) String() string {
	return fmt.Sprintf("%d captures, %d commits, %d.%02d %s to psp_receivable, %d.%02d to sellers", c.captures, c.steps, c.moved/100,
		c.moved%100, currency, c.sellers/100, c.sellers%100)
}

// sqlShardCounts reads every table that a payment writes, so that no speed is bought with a row left out. others counts
// what must not be: payments not captured, attempts open, keys unanswered, buckets whose sequence is not their events'.
const sqlShardCounts = `
SELECT (SELECT count(*) FROM journal_entries e),
    (SELECT count(*) FROM outbox o),
    (SELECT coalesce(sum(p.amount), 0)::INT8 FROM postings p WHERE p.debit_account = 'psp_receivable:stripe'),
    (SELECT coalesce(sum(b.balance), 0)::INT8 FROM seller_balances b),
    (SELECT count(*) FROM payments p WHERE p.status <> 'CAPTURED') + (SELECT count(*) FROM attempts a WHERE a.status <> 'SUCCEEDED')
        + (SELECT count(*) FROM idempotency_keys k WHERE k.answer_kind IS NULL)
        + (SELECT count(*) FROM buckets b LEFT JOIN (SELECT o.bucket, count(*) AS n, max(o.seq) AS last FROM outbox o GROUP BY o.bucket) e
            ON e.bucket = b.bucket WHERE b.seq <> coalesce(e.n, 0) OR b.seq <> coalesce(e.last, 0))`

// sqlNaiveCounts counts accounts whose balance is not the sum of their lines as others.
const sqlNaiveCounts = `
SELECT (SELECT count(*) FROM entries e),
    (SELECT count(*) FROM entries e),
    (SELECT coalesce(sum(l.amount), 0)::INT8 FROM lines l WHERE l.account = 'psp_receivable:stripe'),
    (SELECT coalesce(-sum(b.balance), 0)::INT8 FROM balances b WHERE b.account LIKE 'seller_payable:%'),
    (SELECT count(*) FROM balances b
        FULL JOIN (SELECT l.account, l.currency, sum(l.amount) AS sum FROM lines l GROUP BY l.account, l.currency) s
        ON s.account = b.account AND s.currency = b.currency WHERE s.sum IS DISTINCT FROM b.balance)`

func queryCounts(ctx context.Context, url, sql string) (c counts, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	return scanCounts(conn.QueryRow(ctx, sql))
}

func scanCounts(row pgx.Row) (c counts, err error) {
	err = row.Scan(&c.captures, &c.steps, &c.moved, &c.sellers, &c.others)
	return c, err
}

// verify compares what was acknowledged with what is there.
func (v *variant) verify(ctx context.Context) error {
	got, err := v.count(ctx)
	if err != nil {
		return fmt.Errorf("count what is there: %w", err)
	}
	v.counts = got
	want := counts{captures: v.paid, steps: v.paid * int64(v.steps), moved: v.paid * minor, sellers: v.paid * (minor - commission)}
	if got != want {
		return &LossError{Got: got, Want: want}
	}
	return nil
}

// LossError says that the database does not hold what was acknowledged: no figure of the run counts.
type LossError struct{ Got, Want counts }

// Error shows both sides.
func (e *LossError) Error() string {
	return fmt.Sprintf("the database does not hold what was acknowledged: got %+v, want %+v", e.Got, e.Want)
}
