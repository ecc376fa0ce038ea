package shard

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// sqlPlace makes the bucket rows of a new shard. A row that is there stays as it is.
const sqlPlace = `
INSERT INTO buckets (bucket, epoch, state)
SELECT t.bucket, t.epoch, 'OWNED' FROM unnest($1::INT4[], $2::INT8[]) AS t(bucket, epoch)
ON CONFLICT (bucket) DO NOTHING`

// Place makes the bucket rows of a new shard as the map has them. It runs as the owner of the tables at url, which the
// services are not, once, before the first payment; moving a bucket later is package rebalance's work.
func Place(ctx context.Context, url, shardName string, m *Map) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("shard %s: place buckets: %w", shardName, err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var buckets []int32
	var epochs []int64
	for b := range Buckets {
		if owner := m.Owner(Bucket(b)); owner.Shard == shardName {
			buckets, epochs = append(buckets, int32(b)), append(epochs, owner.Epoch)
		}
	}
	if _, err := conn.Exec(ctx, sqlPlace, buckets, epochs); err != nil {
		return fmt.Errorf("shard %s: place buckets: %w", shardName, err)
	}
	return nil
}

// ShardOf names the shard that owns a bucket by the map in use, for those who count by shard; false if there is no such
// bucket. The map is a hint, which only the fence makes sure of.
func (c *Cluster) ShardOf(b Bucket) (string, bool) {
	if b < 0 || b >= Buckets {
		return "", false
	}
	return c.Map().Owner(b).Shard, true
}
