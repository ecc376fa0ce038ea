package shard

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// sqlExpired names payments whose authorization has run out. What a moved bucket left
// behind is not ours to close. It relies on payments_expiring.
const sqlExpired = `
SELECT p.payment_id FROM payments p JOIN buckets b ON b.bucket = p.bucket AND b.state = 'OWNED'
WHERE p.expires_at <= $1::TIMESTAMPTZ AND p.status IN ('AUTHORIZED', 'REQUIRES_ACTION', 'PARTIALLY_CAPTURED')
ORDER BY p.expires_at, p.bucket, p.payment_id LIMIT $2::INT8`

// Expired returns up to limit payments on one shard whose authorization ran out by at. It claims nothing: closing one is a
// compare-and-set.
func (c *Cluster) Expired(ctx context.Context, shardName string, at time.Time, limit int) ([]string, error) {
	return readRows(ctx, c, shardName, "expired", pgx.RowTo[string], sqlExpired, at, limit)
}
