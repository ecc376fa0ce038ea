-- +goose NO TRANSACTION
-- +goose Up

-- One row per bucket that this shard holds or held: fence, clock and order in one. seq is the number of the last change
-- committed in the bucket; it is assigned under this row's lock, so sequence order is commit order. rollup_seq is how far
-- the roll-ups of house accounts reach.
CREATE TABLE IF NOT EXISTS buckets (
    bucket     INT4 NOT NULL,
    epoch      INT8 NOT NULL,
    state      TEXT NOT NULL,
    seq        INT8 NOT NULL DEFAULT 0,
    rollup_seq INT8 NOT NULL DEFAULT 0,
    PRIMARY KEY (bucket),
    CONSTRAINT buckets_range CHECK (bucket >= 0 AND bucket < 4096),
    CONSTRAINT buckets_epoch CHECK (epoch > 0),
    CONSTRAINT buckets_state CHECK (state IN ('OWNED', 'RECEIVING', 'FROZEN', 'MOVED')),
    CONSTRAINT buckets_seq CHECK (seq >= 0 AND rollup_seq >= 0 AND rollup_seq <= seq)
);

-- Who does a shard's background work. token grows with every change of owner: it fences late writers.
CREATE TABLE IF NOT EXISTS leases (
    name     TEXT NOT NULL,
    owner    TEXT NOT NULL,
    token    INT8 NOT NULL,
    until_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (name)
);
