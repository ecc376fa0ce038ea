-- +goose NO TRANSACTION
-- +goose Up

-- How far the relay is with each bucket: every event up to seq was acknowledged by the broker, or belongs to a payment that
-- is parked. token is that of the lease under which it was last moved. Events up to pruned are gone from the outbox.
CREATE TABLE IF NOT EXISTS relay_cursors (
    bucket     INT4 NOT NULL,
    seq        INT8 NOT NULL,
    pruned     INT8 NOT NULL DEFAULT 0,
    token      INT8 NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (bucket),
    CONSTRAINT relay_cursors_seq CHECK (pruned >= 0 AND pruned <= seq)
);

-- Payments whose events wait, from number seq on, because that one could not be sent. RETRYING: the relay tries again at
-- next_try_at. PARKED: it has given up, and people must look. REDRIVE: people want it tried once more. RELEASED: all was sent.
CREATE TABLE IF NOT EXISTS parked_payments (
    bucket      INT4 NOT NULL,
    payment_id  TEXT NOT NULL,
    seq         INT8 NOT NULL,
    state       TEXT NOT NULL,
    tries       INT4 NOT NULL,
    reason      TEXT NOT NULL,
    next_try_at TIMESTAMPTZ NOT NULL,
    parked_at   TIMESTAMPTZ NOT NULL,
    updated_at  TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (bucket, payment_id),
    CONSTRAINT parked_payments_state CHECK (state IN ('RETRYING', 'PARKED', 'REDRIVE', 'RELEASED')),
    CONSTRAINT parked_payments_tries CHECK (tries >= 0)
);

CREATE INDEX IF NOT EXISTS parked_payments_due ON parked_payments (next_try_at) WHERE state IN ('RETRYING', 'REDRIVE');
CREATE INDEX IF NOT EXISTS parked_payments_held ON parked_payments (parked_at) WHERE state <> 'RELEASED';

GRANT SELECT, INSERT, UPDATE ON relay_cursors, parked_payments TO paygrid_app;
-- Of all that the services write, published events alone may be removed again.
GRANT DELETE ON outbox TO paygrid_app;
