package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// sqlLease takes, renews or takes over a lease. The token grows with every change of owner, so that a writer whose lease
// went to another is told apart. Who comes while another holds it reads and writes nothing: the conflict alone would lock the
// row, and commit that. It relies on the primary key.
const sqlLease = `
INSERT INTO leases (name, owner, token, until_at)
SELECT $1::TEXT, $2::TEXT, 1::INT8, $3::TIMESTAMPTZ
WHERE NOT EXISTS (SELECT 1 FROM leases l WHERE l.name = $1::TEXT AND l.owner <> $2::TEXT AND l.until_at > $4::TIMESTAMPTZ)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until_at = excluded.until_at,
    token = leases.token + CASE WHEN leases.owner = excluded.owner THEN 0 ELSE 1 END
WHERE leases.owner = excluded.owner OR leases.until_at <= $4::TIMESTAMPTZ
RETURNING leases.token`

// Lease takes or renews the lease name on one shard for owner until ttl from now. It returns the fencing token, or false
// while another owner holds it. What a lease guards must be right even if two hold it: clocks differ.
func (c *Cluster) Lease(ctx context.Context, shardName, name, owner string, ttl time.Duration) (int64, bool, error) {
	s, _, err := c.ownedBy(shardName)
	if err != nil {
		return 0, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	var token int64
	now := c.opts.Now()
	err = s.retry(ctx, "lease", func(ctx context.Context) error {
		return s.readers.QueryRow(ctx, sqlLease, name, owner, now.Add(ttl), now).Scan(&token)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("shard %s: lease %s: %w", shardName, name, err)
	}
	return token, true, nil
}
