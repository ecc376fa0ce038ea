package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// sqlPendingAttempts names attempts without an answer that were sent before a time. It relies on attempts_due, whose
	// entries are the pending attempts alone.
	sqlPendingAttempts = `
SELECT a.attempt_id, a.payment_id, a.kind, a.psp, a.amount, a.outcome, a.detail, a.checks, a.absent_checks, a.escalated, a.sent_at,
    a.next_check_at
FROM attempts a
WHERE a.slot = ANY($1::INT8[]) AND a.status = 'PENDING' AND a.sent_at <= $2::TIMESTAMPTZ
ORDER BY a.next_check_at LIMIT $3::INT8`

	// sqlPendingCount counts them. It relies on attempts_due as well.
	sqlPendingCount = `
SELECT count(*), min(a.sent_at) FROM attempts a
WHERE a.slot = ANY($1::INT8[]) AND a.status = 'PENDING' AND a.sent_at <= $2::TIMESTAMPTZ`

	// sqlAttemptByRef finds our attempt by the PSP's reference. It relies on attempts_reference.
	sqlAttemptByRef = `
SELECT a.attempt_id, a.payment_id, a.kind FROM attempts a
JOIN buckets b ON b.bucket = a.bucket AND b.state IN ('OWNED', 'FROZEN')
WHERE a.psp = $1::TEXT AND a.psp_ref = $2::TEXT AND a.psp_ref <> '' ORDER BY a.bucket, a.attempt_id LIMIT 20`

	// sqlPaymentOfAttempt names the payment of an attempt. It relies on the primary key.
	sqlPaymentOfAttempt = `SELECT a.payment_id FROM attempts a WHERE a.bucket = $1::INT4 AND a.attempt_id = $2::TEXT`
)

// PendingAttempt is an attempt without an answer, for people and metrics.
type PendingAttempt struct {
	AttemptID   string    `json:"attempt"`
	PaymentID   string    `json:"payment"`
	Kind        string    `json:"kind"`
	PSP         string    `json:"psp"`
	Amount      int64     `json:"minor"`
	Outcome     string    `json:"outcome"`
	Detail      string    `json:"detail"`
	Checks      int32     `json:"checks"`
	Absent      int32     `json:"absentChecks"`
	Escalated   bool      `json:"escalated"`
	SentAt      time.Time `json:"sentAt"`
	NextCheckAt time.Time `json:"nextCheckAt"`
}

// PendingAttempts lists up to limit attempts of one shard without an answer that were sent before a time.
func (c *Cluster) PendingAttempts(ctx context.Context, shardName string, sentBefore time.Time, limit int) ([]PendingAttempt, error) {
	return readRows(ctx, c, shardName, "pending attempts", pgx.RowToStructByPos[PendingAttempt], sqlPendingAttempts, allSlots(), sentBefore,
		limit)
}

// PendingCount counts the attempts of one shard without an answer that were sent before a time, and tells when the oldest
// was (zero: there is none).
func (c *Cluster) PendingCount(ctx context.Context, shardName string, sentBefore time.Time) (n int64, oldest time.Time, err error) {
	return countSince(ctx, c, shardName, "pending count", sqlPendingCount, allSlots(), sentBefore)
}

// AttemptRef names an attempt of ours.
type AttemptRef struct {
	AttemptID string
	PaymentID string
	Kind      string
}

// AttemptsByRef finds our attempts that a PSP knows by reference, on all shards.
func (c *Cluster) AttemptsByRef(ctx context.Context, psp, reference string) ([]AttemptRef, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	var out []AttemptRef
	for _, s := range c.all() {
		var some []AttemptRef
		err := s.read(ctx, "attempt by reference", func(ctx context.Context) (err error) {
			some, err = rowsOf(ctx, s, pgx.RowToStructByPos[AttemptRef], sqlAttemptByRef, []any{psp, reference})
			return err
		})
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// PaymentOfAttempt names the payment of an attempt, or returns ErrNotFound.
func (c *Cluster) PaymentOfAttempt(ctx context.Context, attemptID string) (string, error) {
	b, err := BucketOfID(AttemptPrefix, attemptID)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	var ids []string
	err = c.readPlaced(ctx, b, "payment of attempt", func(ctx context.Context, s *Shard, epoch int64) error {
		batch := &pgx.Batch{}
		queueOwned(batch, b, epoch)
		batch.Queue(sqlPaymentOfAttempt, int32(b), attemptID).Query(func(rows pgx.Rows) (err error) {
			ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
		return s.readers.SendBatch(ctx, batch).Close()
	})
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("attempt %s: %w", attemptID, ErrNotFound)
	}
	if err != nil {
		return "", err
	}
	return ids[0], nil
}
