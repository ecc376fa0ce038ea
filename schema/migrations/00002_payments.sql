-- +goose NO TRANSACTION
-- +goose Up

-- The client's key, and the first answer that it got, byte for byte. scope is the route (and the payment, for a later
-- call). answer_kind and answer are null while the outcome is not known.
CREATE TABLE IF NOT EXISTS idempotency_keys (
    bucket       INT4 NOT NULL,
    client_id    TEXT NOT NULL,
    scope        TEXT NOT NULL,
    key          TEXT NOT NULL,
    request_hash BYTEA NOT NULL,
    payment_id   TEXT NOT NULL,
    subject_id   TEXT NOT NULL,
    answer_kind  TEXT,
    answer       BYTEA,
    created_at   TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (bucket, client_id, scope, key),
    CONSTRAINT keys_length CHECK (octet_length(key) >= 1 AND octet_length(key) <= 255),
    CONSTRAINT keys_hash CHECK (octet_length(request_hash) = 32),
    CONSTRAINT keys_answer CHECK ((answer_kind IS NULL) = (answer IS NULL))
);

-- One row per payment. authorized is what was asked for; the CHECKs hold the amounts in order whatever code says.
-- parts are the running totals per credited account (see ledger.Parts). version counts the changes: it is what every
-- compare-and-set compares.
CREATE TABLE IF NOT EXISTS payments (
    bucket       INT4 NOT NULL,
    payment_id   TEXT NOT NULL,
    client_id    TEXT NOT NULL,
    order_id     TEXT NOT NULL,
    customer_id  TEXT NOT NULL,
    status       TEXT NOT NULL,
    version      INT8 NOT NULL,
    psp          TEXT NOT NULL,
    psp_ref      TEXT NOT NULL,
    currency     TEXT NOT NULL,
    authorized   INT8 NOT NULL,
    captured     INT8 NOT NULL,
    released     INT8 NOT NULL,
    refunding    INT8 NOT NULL,
    refunded     INT8 NOT NULL,
    capture_mode TEXT NOT NULL,
    method       JSONB NOT NULL,
    splits       JSONB NOT NULL,
    parts        JSONB NOT NULL,
    return_url   TEXT NOT NULL,
    redirect_url TEXT NOT NULL,
    failure_code TEXT NOT NULL,
    failure      TEXT NOT NULL,
    expires_at   TIMESTAMPTZ,
    created_at   TIMESTAMPTZ NOT NULL,
    updated_at   TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (bucket, payment_id),
    CONSTRAINT payments_status CHECK (status IN ('AUTH_PENDING', 'REQUIRES_ACTION', 'AUTHORIZED', 'DECLINED', 'FAILED',
        'EXPIRED', 'CAPTURE_PENDING', 'CAPTURED', 'PARTIALLY_CAPTURED', 'VOID_PENDING', 'VOIDED', 'CAPTURE_FAILED')),
    CONSTRAINT payments_mode CHECK (capture_mode IN ('manual', 'automatic')),
    CONSTRAINT payments_version CHECK (version > 0),
    CONSTRAINT payments_authorized CHECK (authorized > 0),
    CONSTRAINT payments_captured CHECK (captured >= 0 AND released >= 0 AND captured <= authorized - released),
    CONSTRAINT payments_refunded CHECK (refunding >= 0 AND refunded >= 0 AND refunding <= captured - refunded)
);

CREATE INDEX IF NOT EXISTS payments_order ON payments (client_id, order_id, bucket, payment_id);

-- One row per call out to a PSP. The ID is the PSP's idempotency key and our reference there. slot spreads the queue of
-- pending attempts over eight index ranges, so that its head is not one hot spot.
CREATE TABLE IF NOT EXISTS attempts (
    bucket        INT4 NOT NULL,
    attempt_id    TEXT NOT NULL,
    payment_id    TEXT NOT NULL,
    kind          TEXT NOT NULL,
    psp           TEXT NOT NULL,
    amount        INT8 NOT NULL,
    status        TEXT NOT NULL,
    outcome       TEXT NOT NULL,
    route_reason  TEXT NOT NULL,
    code          TEXT NOT NULL,
    detail        TEXT NOT NULL,
    psp_ref       TEXT NOT NULL,
    client_key    TEXT NOT NULL,
    sent_at       TIMESTAMPTZ NOT NULL,
    next_check_at TIMESTAMPTZ NOT NULL,
    checks        INT4 NOT NULL DEFAULT 0,
    absent_checks INT4 NOT NULL DEFAULT 0,
    escalated     BOOL NOT NULL DEFAULT false,
    lease_owner   TEXT NOT NULL DEFAULT '',
    lease_until   TIMESTAMPTZ,
    updated_at    TIMESTAMPTZ NOT NULL,
    slot          INT8 NOT NULL GENERATED ALWAYS AS (mod(bucket, 8)) STORED,
    PRIMARY KEY (bucket, attempt_id),
    CONSTRAINT attempts_kind CHECK (kind IN ('AUTHORIZE', 'CAPTURE', 'VOID', 'REFUND')),
    CONSTRAINT attempts_status CHECK (status IN ('PENDING', 'SUCCEEDED', 'FAILED', 'NOT_SENT')),
    CONSTRAINT attempts_amount CHECK (amount > 0)
);

CREATE INDEX IF NOT EXISTS attempts_payment ON attempts (bucket, payment_id);
CREATE INDEX IF NOT EXISTS attempts_psp_ref ON attempts (psp, psp_ref);
CREATE INDEX IF NOT EXISTS attempts_due ON attempts (slot, next_check_at) WHERE status = 'PENDING';

-- One row per refund, with the shares that it takes from each account, fixed when it was asked for.
CREATE TABLE IF NOT EXISTS refunds (
    bucket     INT4 NOT NULL,
    refund_id  TEXT NOT NULL,
    payment_id TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    amount     INT8 NOT NULL,
    status     TEXT NOT NULL,
    shares     JSONB NOT NULL,
    code       TEXT NOT NULL,
    detail     TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (bucket, refund_id),
    CONSTRAINT refunds_status CHECK (status IN ('PENDING', 'SUCCEEDED', 'FAILED')),
    CONSTRAINT refunds_amount CHECK (amount > 0)
);

CREATE INDEX IF NOT EXISTS refunds_payment ON refunds (bucket, payment_id);
