-- +goose NO TRANSACTION
-- +goose Up

-- What takes two people: one asks, another decides. decision is what is to be done, by kind.
CREATE TABLE IF NOT EXISTS approvals (
    bucket       INT4 NOT NULL,
    approval_id  TEXT NOT NULL,
    kind         TEXT NOT NULL,
    payment_id   TEXT NOT NULL,
    subject_id   TEXT NOT NULL,
    decision     TEXT NOT NULL,
    reference    TEXT NOT NULL,
    reason       TEXT NOT NULL,
    state        TEXT NOT NULL,
    requested_by TEXT NOT NULL,
    requested_at TIMESTAMPTZ NOT NULL,
    decided_by   TEXT NOT NULL DEFAULT '',
    decided_at   TIMESTAMPTZ,
    PRIMARY KEY (bucket, approval_id),
    CONSTRAINT approvals_state CHECK (state IN ('OPEN', 'APPROVED', 'REJECTED')),
    CONSTRAINT approvals_two_people CHECK (decided_by <> requested_by),
    CONSTRAINT approvals_decided CHECK ((state = 'OPEN') = (decided_by = ''))
);

CREATE INDEX IF NOT EXISTS approvals_open ON approvals (requested_at) WHERE state = 'OPEN';

-- PSPs that people took out of service for new payments. Every shard holds them all; a router reads any.
CREATE TABLE IF NOT EXISTS psp_switches (
    psp        TEXT NOT NULL,
    drained    BOOL NOT NULL,
    reason     TEXT NOT NULL,
    actor      TEXT NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (psp)
);
