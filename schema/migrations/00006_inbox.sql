-- +goose NO TRANSACTION
-- +goose Up

-- Notices of the PSPs, as they came. What could not be applied yet is tried again; what does not fit is kept, changes
-- nothing, and is shown to people. slot spreads the queue, as in attempts.
CREATE TABLE IF NOT EXISTS webhook_inbox (
    bucket      INT4 NOT NULL,
    psp         TEXT NOT NULL,
    event_id    TEXT NOT NULL,
    kind        TEXT NOT NULL,
    attempt_id  TEXT NOT NULL,
    reference   TEXT NOT NULL,
    original    TEXT NOT NULL,
    raw         BYTEA NOT NULL,
    state       TEXT NOT NULL,
    reason      TEXT NOT NULL,
    tries       INT4 NOT NULL DEFAULT 0,
    received_at TIMESTAMPTZ NOT NULL,
    next_try_at TIMESTAMPTZ NOT NULL,
    updated_at  TIMESTAMPTZ NOT NULL,
    lease_owner TEXT NOT NULL DEFAULT '',
    lease_until TIMESTAMPTZ,
    slot        INT8 NOT NULL GENERATED ALWAYS AS (mod(bucket, 8)) STORED,
    PRIMARY KEY (bucket, psp, event_id),
    CONSTRAINT webhook_inbox_state CHECK (state IN ('NEW', 'UNMATCHED', 'APPLIED', 'IGNORED', 'MISFIT'))
);

CREATE INDEX IF NOT EXISTS webhook_inbox_due ON webhook_inbox (slot, next_try_at) WHERE state IN ('NEW', 'UNMATCHED');
CREATE INDEX IF NOT EXISTS webhook_inbox_state ON webhook_inbox (state, received_at) WHERE state IN ('UNMATCHED', 'MISFIT');
