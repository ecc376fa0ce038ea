-- +goose NO TRANSACTION
-- +goose Up

-- The queue of authorizations that run out.
CREATE INDEX IF NOT EXISTS payments_expiring ON payments (expires_at, bucket, payment_id)
    WHERE status IN ('AUTHORIZED', 'REQUIRES_ACTION', 'PARTIALLY_CAPTURED');
