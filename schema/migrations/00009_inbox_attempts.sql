-- +goose NO TRANSACTION
-- +goose Up

-- What the PSPs said of a payment's attempts, for people. An attempt's ID holds its bucket, so it leads.
CREATE INDEX IF NOT EXISTS webhook_inbox_attempt ON webhook_inbox (attempt_id);
