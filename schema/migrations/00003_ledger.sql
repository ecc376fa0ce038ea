-- +goose NO TRANSACTION
-- +goose Up

-- Entries and postings are only ever inserted: paygrid_app has no right to do otherwise. A posting moves one amount of one
-- currency from the credited to the debited account, so no row can be unbalanced.
CREATE TABLE IF NOT EXISTS journal_entries (
    bucket     INT4 NOT NULL,
    entry_id   TEXT NOT NULL,
    seq        INT8 NOT NULL,
    kind       TEXT NOT NULL,
    payment_id TEXT NOT NULL,
    reason     TEXT NOT NULL,
    actor      TEXT NOT NULL,
    reverses   TEXT,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (bucket, entry_id),
    CONSTRAINT journal_entries_reverses CHECK (reverses <> entry_id)
);

CREATE INDEX IF NOT EXISTS journal_entries_payment ON journal_entries (bucket, payment_id, seq);
CREATE UNIQUE INDEX IF NOT EXISTS journal_entries_reversed_once ON journal_entries (bucket, reverses) WHERE reverses IS NOT NULL;

CREATE TABLE IF NOT EXISTS postings (
    bucket         INT4 NOT NULL,
    seq            INT8 NOT NULL,
    posting_no     INT4 NOT NULL,
    entry_id       TEXT NOT NULL,
    debit_account  TEXT NOT NULL,
    credit_account TEXT NOT NULL,
    amount         INT8 NOT NULL,
    currency       TEXT NOT NULL,
    PRIMARY KEY (bucket, seq, posting_no),
    CONSTRAINT postings_amount CHECK (amount > 0),
    CONSTRAINT postings_accounts CHECK (debit_account <> credit_account)
);

-- Sellers' statements, and the proof of their live balances.
CREATE INDEX IF NOT EXISTS postings_credited_seller ON postings (credit_account, currency, bucket, seq)
    WHERE credit_account >= 'seller_payable:' AND credit_account < 'seller_payable;';
CREATE INDEX IF NOT EXISTS postings_debited_seller ON postings (debit_account, currency, bucket, seq)
    WHERE debit_account >= 'seller_payable:' AND debit_account < 'seller_payable;';

-- What finance reads: per entry, account, side and currency.
CREATE OR REPLACE VIEW ledger_lines AS
SELECT p.bucket, p.entry_id, p.debit_account AS account, 'debit' AS side, p.currency, sum(p.amount) AS amount
FROM postings p GROUP BY p.bucket, p.entry_id, p.debit_account, p.currency
UNION ALL
SELECT p.bucket, p.entry_id, p.credit_account AS account, 'credit' AS side, p.currency, sum(p.amount) AS amount
FROM postings p GROUP BY p.bucket, p.entry_id, p.credit_account, p.currency;

-- House accounts (ours, touched by every payment) have no live row; their postings are summed here through
-- buckets.rollup_seq.
CREATE TABLE IF NOT EXISTS rollups (
    bucket   INT4 NOT NULL,
    account  TEXT NOT NULL,
    currency TEXT NOT NULL,
    debits   NUMERIC(38, 0) NOT NULL,
    credits  NUMERIC(38, 0) NOT NULL,
    PRIMARY KEY (bucket, account, currency),
    CONSTRAINT rollups_sums CHECK (debits >= 0 AND credits >= 0)
);

-- The live balance of sellers on this shard (credits minus debits: what we owe them), over slots so that concurrent
-- statements need not wait for one row. A cache: the postings can rebuild it.
CREATE TABLE IF NOT EXISTS seller_balances (
    account  TEXT NOT NULL,
    currency TEXT NOT NULL,
    slot     INT4 NOT NULL,
    balance  NUMERIC(38, 0) NOT NULL,
    PRIMARY KEY (account, currency, slot)
);
