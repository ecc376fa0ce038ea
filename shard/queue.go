package shard

import (
	"context"
	"fmt"
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
	s, _, err := c.ownedBy(shardName)
	if err != nil {
		return nil, err
	}
	var ids []string
	err = s.read(ctx, "expired", func(ctx context.Context) error {
		rows, err := s.readers.Query(ctx, sqlExpired, at, limit)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", shardName, err)
	}
	return ids, nil
}
