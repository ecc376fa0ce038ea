package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// sqlRelayHold writes what the relay decided of payments whose events wait, fenced as sqlRelayAdvance. parked_at stays what it
	// was, unless a payment that was released is held again.
	sqlRelayHold = `
WITH f AS (
    SELECT l.token FROM leases l WHERE l.name = $1::TEXT AND l.owner = $2::TEXT AND l.token = $3::INT8 FOR UPDATE
),
u AS (
    INSERT INTO parked_payments (bucket, payment_id, seq, state, tries, reason, next_try_at, parked_at, updated_at)
    SELECT c.bucket, c.payment_id, c.seq, c.state, c.tries, c.reason, c.next_try_at, $11::TIMESTAMPTZ, $11::TIMESTAMPTZ
    FROM f CROSS JOIN unnest($4::INT4[], $5::TEXT[], $6::INT8[], $7::TEXT[], $8::INT4[], $9::TEXT[], $10::TIMESTAMPTZ[])
        AS c(bucket, payment_id, seq, state, tries, reason, next_try_at)
    ON CONFLICT (bucket, payment_id) DO UPDATE SET seq = excluded.seq, state = excluded.state, tries = excluded.tries,
        reason = excluded.reason, next_try_at = excluded.next_try_at, updated_at = excluded.updated_at,
        parked_at = CASE WHEN parked_payments.state = 'RELEASED' THEN excluded.parked_at ELSE parked_payments.parked_at END
    RETURNING bucket
)
SELECT (SELECT count(*) FROM f), (SELECT count(*) FROM u)`

	// sqlRelayDue lists the payments that are to be tried again. It relies on parked_payments_due.
	sqlRelayDue = `
SELECT k.bucket, k.payment_id, k.seq, k.state, k.tries, k.reason, k.next_try_at, k.parked_at
FROM parked_payments k JOIN buckets b ON b.bucket = k.bucket AND b.state IN ('OWNED', 'FROZEN')
WHERE k.state IN ('RETRYING', 'REDRIVE') AND k.next_try_at <= $1::TIMESTAMPTZ ORDER BY k.next_try_at LIMIT $2::INT8`

	// sqlParked lists the payments whose events wait, oldest first. It relies on parked_payments_held, whose entries they are.
	sqlParked = `
SELECT k.bucket, k.payment_id, k.seq, k.state, k.tries, k.reason, k.next_try_at, k.parked_at
FROM parked_payments k JOIN buckets b ON b.bucket = k.bucket AND b.state IN ('OWNED', 'FROZEN')
WHERE k.state <> 'RELEASED' ORDER BY k.parked_at LIMIT $1::INT8`

	// sqlHeldEvents reads the events of one payment that wait behind its first. It relies on outbox_payment_version: the
	// order of versions is that of numbers.
	sqlHeldEvents = `
SELECT o.bucket, o.seq, o.payment_id, o.version, o.type,
    CASE WHEN octet_length(o.payload::TEXT) <= $6::INT8 THEN o.payload END, o.created_at
FROM outbox o
WHERE o.bucket = $1::INT4 AND o.payment_id = $2::TEXT AND (o.seq >= $3::INT8 AND o.seq <= $4::INT8) IS TRUE
ORDER BY o.version LIMIT $5::INT8`

	// sqlRedrive wants a parked payment tried once more. The bucket row is the fence; what the relay still tries by itself
	// is left alone. It relies on the primary key.
	sqlRedrive = `
UPDATE parked_payments SET state = 'REDRIVE', tries = 0, next_try_at = $4::TIMESTAMPTZ, updated_at = $4::TIMESTAMPTZ
WHERE parked_payments.bucket = $1::INT4 AND parked_payments.payment_id = $2::TEXT AND (parked_payments.state = 'PARKED') IS TRUE
    AND EXISTS (SELECT 1 FROM buckets b WHERE b.bucket = $1::INT4 AND b.epoch = $3::INT8 AND b.state = 'OWNED')
RETURNING parked_payments.seq`
)

// States of a payment whose events wait.
const (
	ParkRetrying Status = "RETRYING" // tried again by itself
	ParkParked   Status = "PARKED"   // given up: people must look
	ParkRedrive  Status = "REDRIVE"  // people want it tried once more
	ParkReleased Status = "RELEASED" // all was sent
)

// ParkedPayment is a payment whose events wait from number Seq on, since that one could not be sent.
type ParkedPayment struct {
	Bucket    Bucket    `json:"bucket"`
	PaymentID string    `json:"payment"`
	Seq       int64     `json:"seq"`
	State     Status    `json:"state"`
	Tries     int32     `json:"tries"`
	Reason    string    `json:"reason"`
	NextTryAt time.Time `json:"nextTryAt"`
	ParkedAt  time.Time `json:"parkedAt"`
}

// Hold writes what the relay decided of payments, each named once, under the fence. It can be repeated.
func (c *Cluster) Hold(ctx context.Context, shardName string, f Fence, payments []ParkedPayment) error {
	_, err := c.fenced(ctx, shardName, "relay hold", f, sqlRelayHold,
		column(payments, func(p ParkedPayment) int32 { return int32(p.Bucket) }), column(payments, func(p ParkedPayment) string { return p.PaymentID }),
		column(payments, func(p ParkedPayment) int64 { return p.Seq }), column(payments, func(p ParkedPayment) string { return string(p.State) }),
		column(payments, func(p ParkedPayment) int32 { return p.Tries }), column(payments, func(p ParkedPayment) string { return p.Reason }),
		column(payments, func(p ParkedPayment) time.Time { return p.NextTryAt }), c.opts.Now())
	return err
}

// DueParked returns up to limit payments of one shard that are to be tried again by now.
func (c *Cluster) DueParked(ctx context.Context, shardName string, now time.Time, limit int) ([]ParkedPayment, error) {
	return readRows(ctx, c, shardName, "relay due", pgx.RowToStructByPos[ParkedPayment], sqlRelayDue, now, limit)
}

// Parked returns up to limit payments of one shard whose events wait, oldest first.
func (c *Cluster) Parked(ctx context.Context, shardName string, limit int) ([]ParkedPayment, error) {
	return readRows(ctx, c, shardName, "parked", pgx.RowToStructByPos[ParkedPayment], sqlParked, limit)
}

// HeldEvents returns up to limit events of a parked payment, from its first that waits through number through.
// The Payload of one that is larger than maxBytes is nil.
func (c *Cluster) HeldEvents(ctx context.Context, shardName string, p ParkedPayment, through int64, limit, maxBytes int) ([]PostedEvent, error) {
	return readRows(ctx, c, shardName, "held events", scanEvent, sqlHeldEvents, int32(p.Bucket), p.PaymentID, p.Seq, through, limit,
		maxBytes)
}

// Redrive asks the relay to try a parked payment's events once more. It returns ErrNotFound for a payment that is not
// parked.
func (c *Cluster) Redrive(ctx context.Context, paymentID string) error {
	b, err := BucketOfID(PaymentPrefix, paymentID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	s, owner, err := c.owner(b)
	if err != nil {
		return err
	}
	err = s.read(ctx, "redrive", func(ctx context.Context) error {
		var seq int64
		return s.readers.QueryRow(ctx, sqlRedrive, int32(b), paymentID, owner.Epoch, c.opts.Now()).Scan(&seq)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("payment %s is not parked: %w", paymentID, ErrNotFound)
	}
	return err
}
