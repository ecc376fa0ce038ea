-- +goose NO TRANSACTION
-- +goose Up

-- What the fence compares is a key, so that PostgreSQL locks a bucket's row as for a new key whenever its epoch or state is
-- changed: whoever moves the bucket waits for all that was written behind the fence (FOR KEY SHARE), and only seq is not in it, so
-- those who take numbers (FOR NO KEY UPDATE) hold nobody up who takes none.
CREATE UNIQUE INDEX IF NOT EXISTS buckets_fence ON buckets (epoch, state, bucket);
