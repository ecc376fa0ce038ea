-- +goose NO TRANSACTION
-- +goose Up

-- One event per change, keyed by the bucket's sequence: gapless and in commit order. The unique index says that a
-- payment's version is reached by one change only, and is where a change whose commit was in doubt is read back.
CREATE TABLE IF NOT EXISTS outbox (
    bucket     INT4 NOT NULL,
    seq        INT8 NOT NULL,
    payment_id TEXT NOT NULL,
    version    INT8 NOT NULL,
    change_id  TEXT NOT NULL,
    type       TEXT NOT NULL,
    payload    JSONB NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (bucket, seq)
);

CREATE UNIQUE INDEX IF NOT EXISTS outbox_payment_version ON outbox (bucket, payment_id, version);
