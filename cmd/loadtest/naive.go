package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"paygrid/ledger"
)

// The naive twin is what a ledger looks like at first: entry, lines, and one balance row per account, ours included. It
// writes no key, payment, attempt or event, and does the capture alone: less than a quarter of what a payment costs the
// shard.
const sqlNaiveSchema = `
CREATE TABLE entries (
    entry_id   TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL
);
CREATE TABLE lines (
    entry_id TEXT NOT NULL REFERENCES entries,
    line_no  INT4 NOT NULL,
    account  TEXT NOT NULL,
    amount   INT8 NOT NULL,
    currency TEXT NOT NULL,
    PRIMARY KEY (entry_id, line_no)
);
CREATE INDEX lines_account ON lines (account, currency);
CREATE TABLE balances (
    account  TEXT NOT NULL,
    currency TEXT NOT NULL,
    balance  NUMERIC(38, 0) NOT NULL,
    PRIMARY KEY (account, currency)
) WITH (fillfactor = 50);`

const (
	sqlNaiveEntry   = `INSERT INTO entries (entry_id, kind, created_at) VALUES ($1, $2, $3)`
	sqlNaiveLine    = `INSERT INTO lines (entry_id, line_no, account, amount, currency) VALUES ($1, $2, $3, $4, $5)`
	sqlNaiveBalance = `
INSERT INTO balances (account, currency, balance) VALUES ($1, $2, $3)
ON CONFLICT (account, currency) DO UPDATE SET balance = balances.balance + excluded.balance`
)

// openNaive makes the twin's tables. Its connections are as many as the single variant has.
func openNaive(ctx context.Context, url string) (*variant, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 64
	config.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, sqlNaiveSchema); err != nil {
		pool.Close()
		return nil, fmt.Errorf("naive schema: %w", err)
	}
	return &variant{name: naive, steps: 1, close: pool.Close,
		pay: func(ctx context.Context, j job, step func()) error {
			if err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return naiveCapture(ctx, tx, j.entry, j.opening.At) }); err != nil {
				return err
			}
			step()
			return nil
		},
		count: func(ctx context.Context) (counts, error) { return queryCounts(ctx, url, sqlNaiveCounts) },
	}, nil
}

// naiveCapture writes the three lines as one statement each would: in turn. The seller's balance comes first and ours
// last, which is kind to the twin: the hot rows are held for as short as can be, and always taken in one order.
func naiveCapture(ctx context.Context, tx pgx.Tx, e ledger.Entry, at time.Time) error {
	if _, err := tx.Exec(ctx, sqlNaiveEntry, e.ID, string(e.Kind), at); err != nil {
		return err
	}
	lines := e.Lines() // psp_receivable, the seller, commission_revenue
	for n, l := range lines {
		if _, err := tx.Exec(ctx, sqlNaiveLine, e.ID, n, string(l.Account), signed(l), string(l.Currency)); err != nil {
			return err
		}
	}
	for _, n := range []int{1, 2, 0} {
		l := lines[n]
		if _, err := tx.Exec(ctx, sqlNaiveBalance, string(l.Account), string(l.Currency), signed(l)); err != nil {
			return err
		}
	}
	return nil
}

// signed is a debit above and a credit below zero.
func signed(l ledger.Line) int64 {
	if l.Side == ledger.SideCredit {
		return -l.Minor
	}
	return l.Minor
}
