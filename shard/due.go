package shard

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// sqlClaimAttempts leases attempts without an answer whose check is due. It relies on attempts_due; the lease is
	// committed before anybody is asked, so no lock covers the call.
	sqlClaimAttempts = `
UPDATE attempts SET lease_owner = $1::TEXT, lease_until = $2::TIMESTAMPTZ
WHERE (attempts.bucket, attempts.attempt_id) IN (
    SELECT a.bucket, a.attempt_id FROM attempts a
    WHERE a.slot = $3::INT8 AND a.status = 'PENDING' AND a.next_check_at <= $4::TIMESTAMPTZ
        AND (a.lease_until IS NULL OR a.lease_until <= $4::TIMESTAMPTZ)
        AND EXISTS (SELECT 1 FROM buckets b WHERE b.bucket = a.bucket AND b.state = 'OWNED')
    ORDER BY a.next_check_at LIMIT $5::INT8 FOR UPDATE OF a SKIP LOCKED
)
RETURNING attempts.attempt_id, attempts.payment_id, attempts.checks, attempts.absent_checks, attempts.escalated, attempts.sent_at`

	// sqlReschedule gives a claimed attempt back. It relies on the primary key; a lease that went to another changes
	// nothing. IS TRUE keeps a plan made on empty tables from walking attempts_due instead.
	sqlReschedule = `
UPDATE attempts SET checks = attempts.checks + 1, absent_checks = $4::INT4, escalated = $5::BOOL, next_check_at = $6::TIMESTAMPTZ,
    detail = $7::TEXT, lease_owner = '', lease_until = NULL
WHERE attempts.bucket = $1::INT4 AND attempts.attempt_id = $2::TEXT AND attempts.lease_owner = $3::TEXT
    AND (attempts.status = 'PENDING') IS TRUE
RETURNING attempts.attempt_id`

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

	// sqlAttemptByRef finds our attempt by the PSP's reference. It relies on attempts_psp_ref.
	sqlAttemptByRef = `
SELECT a.attempt_id, a.payment_id, a.kind FROM attempts a
JOIN buckets b ON b.bucket = a.bucket AND b.state IN ('OWNED', 'FROZEN')
WHERE a.psp = $1::TEXT AND a.psp_ref = $2::TEXT ORDER BY a.bucket, a.attempt_id LIMIT 20`

	// sqlPaymentOfAttempt names the payment of an attempt. It relies on the primary key.
	sqlPaymentOfAttempt = `SELECT a.payment_id FROM attempts a WHERE a.bucket = $1::INT4 AND a.attempt_id = $2::TEXT`
)

// queueSlots is how many index ranges a queue is spread over: mod(bucket, 8) in the tables' slot column.
const queueSlots = 8

// Due is an attempt without an answer that its claimer is to ask about.
type Due struct {
	AttemptID string
	PaymentID string
	Checks    int32 // how often it was asked about before
	Absent    int32 // how many of the last checks found that the PSP has no record
	Escalated bool  // people were told
	SentAt    time.Time
}

// ClaimAttempts leases up to limit due attempts of one shard to owner until the lease ends.
func (c *Cluster) ClaimAttempts(ctx context.Context, shardName, owner string, now, until time.Time, limit int) ([]Due, error) {
	s, _, err := c.ownedBy(shardName)
	if err != nil {
		return nil, err
	}
	var out []Due
	for slot := int64(0); slot < queueSlots && len(out) < limit; slot++ {
		var some []Due
		err := s.retry(ctx, "claim attempts", func(ctx context.Context) error {
			rows, err := s.pool.Query(ctx, sqlClaimAttempts, owner, until, slot, now, limit-len(out))
			if err != nil {
				return err
			}
			some, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Due])
			return err
		})
		if err != nil {
			return out, fmt.Errorf("shard %s: %w", shardName, err)
		}
		out = append(out, some...)
	}
	return out, nil
}

// Recheck is when a claimed attempt is asked about again, and what is known by now.
type Recheck struct {
	AttemptID string
	Owner     string
	Absent    int32
	Escalated bool
	NextAt    time.Time
	Detail    string
}

// Reschedule gives a claimed attempt back, or returns ErrConflict if the lease went to another or the attempt has its
// answer.
func (c *Cluster) Reschedule(ctx context.Context, r Recheck) error {
	b, err := BucketOfID(AttemptPrefix, r.AttemptID)
	if err != nil {
		return err
	}
	s, _, err := c.owner(b)
	if err != nil {
		return err
	}
	var id []string
	err = s.retry(ctx, "reschedule", func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, sqlReschedule, int32(b), r.AttemptID, r.Owner, r.Absent, r.Escalated, r.NextAt, r.Detail)
		if err != nil {
			return err
		}
		id, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err == nil && len(id) == 0 {
		err = ErrConflict
	}
	if err != nil {
		return fmt.Errorf("attempt %s: %w", r.AttemptID, err)
	}
	return nil
}

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
	s, _, err := c.ownedBy(shardName)
	if err != nil {
		return nil, err
	}
	var out []PendingAttempt
	err = s.read(ctx, "pending attempts", func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, sqlPendingAttempts, allSlots(), sentBefore, limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[PendingAttempt])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", shardName, err)
	}
	return out, nil
}

func allSlots() []int64 {
	slots := make([]int64, queueSlots)
	for n := range slots {
		slots[n] = int64(n)
	}
	return slots
}

// PendingCount counts the attempts of one shard without an answer that were sent before a time, and tells when the oldest
// was (zero: there is none).
func (c *Cluster) PendingCount(ctx context.Context, shardName string, sentBefore time.Time) (n int64, oldest time.Time, err error) {
	s, _, err := c.ownedBy(shardName)
	if err != nil {
		return 0, time.Time{}, err
	}
	var since *time.Time
	err = s.read(ctx, "pending count", func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, sqlPendingCount, allSlots(), sentBefore).Scan(&n, &since)
	})
	if since != nil {
		oldest = *since
	}
	return n, oldest, err
}

// AttemptRef names an attempt of ours.
type AttemptRef struct {
	AttemptID string
	PaymentID string
	Kind      string
}

// AttemptsByRef finds our attempts that a PSP knows by reference, on all shards.
func (c *Cluster) AttemptsByRef(ctx context.Context, psp, reference string) ([]AttemptRef, error) {
	var out []AttemptRef
	for _, s := range c.all() {
		err := s.read(ctx, "attempt by reference", func(ctx context.Context) error {
			rows, err := s.pool.Query(ctx, sqlAttemptByRef, psp, reference)
			if err != nil {
				return err
			}
			some, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AttemptRef])
			out = append(out, some...)
			return err
		})
		if err != nil {
			return nil, err
		}
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
		return s.pool.SendBatch(ctx, batch).Close()
	})
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("attempt %s: %w", attemptID, ErrNotFound)
	}
	if err != nil {
		return "", err
	}
	return ids[0], nil
}
