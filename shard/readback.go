package shard

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// sqlFindOpenings tells which payments their keys belong to, an empty text where a key is free. It relies on the primary key, and asks
// it once per key: as a join it could be planned as one pass over all keys.
const sqlFindOpenings = `
SELECT coalesce((
    SELECT k.payment_id FROM idempotency_keys k
    WHERE k.bucket = t.bucket AND k.client_id = t.client_id AND k.scope = 'payments' AND k.key = t.key), '')
FROM unnest($1::INT4[], $2::TEXT[], $3::TEXT[]) AS t(bucket, client_id, key)`

// sqlFindChanges tells which changes brought the payments to these versions. It relies on outbox_payment_version.
const sqlFindChanges = `
SELECT o.change_id
FROM unnest($1::INT4[], $2::TEXT[], $3::INT8[]) AS t(bucket, payment_id, version)
JOIN outbox o ON o.bucket = t.bucket AND o.payment_id = t.payment_id AND o.version = t.version`

// findOpenings tells which of the openings have committed.
func (s *Shard) findOpenings(ctx context.Context, batch []opening) ([]bool, error) {
	found, err := s.findIDs(ctx, "find openings", sqlFindOpenings,
		column(batch, func(o opening) int32 { return int32(o.bucket()) }),
		column(batch, func(o opening) string { return o.Key.ClientID }),
		column(batch, func(o opening) string { return o.Key.Key }))
	if err != nil {
		return nil, err
	}
	return column(batch, func(o opening) bool { return found[o.Payment.ID] }), nil
}

// findChanges tells which of the changes have committed.
func (s *Shard) findChanges(ctx context.Context, batch []change) ([]bool, error) {
	found, err := s.findIDs(ctx, "find changes", sqlFindChanges,
		column(batch, func(c change) int32 { return int32(c.bucket()) }),
		column(batch, func(c change) string { return c.Payment.ID }),
		column(batch, func(c change) int64 { return c.Payment.Version }))
	if err != nil {
		return nil, err
	}
	return column(batch, func(c change) bool { return found[c.id] }), nil
}

func (s *Shard) findIDs(ctx context.Context, op, sql string, args ...any) (map[string]bool, error) {
	found := map[string]bool{}
	err := s.read(ctx, op, func(ctx context.Context) error {
		rows, err := s.writers.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, id := range ids {
			found[id] = true
		}
		return err
	})
	return found, err
}
