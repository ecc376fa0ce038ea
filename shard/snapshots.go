package shard

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// What many attempts belong to, each in one statement. They go from the attempts' primary key to their payments, and from
// there as the reads of one payment do.
const (
	sqlOwnedOf = `
SELECT b.bucket FROM unnest($1::INT4[], $2::INT8[]) AS t(bucket, epoch)
JOIN buckets b ON b.bucket = t.bucket AND b.epoch = t.epoch AND b.state = 'OWNED'`

	paymentsOfAttempts = ` IN (
    SELECT x.bucket, x.payment_id FROM unnest($1::INT4[], $2::TEXT[]) AS t(bucket, attempt_id)
    JOIN attempts x ON x.bucket = t.bucket AND x.attempt_id = t.attempt_id
)`

	sqlPaymentsOf = selectPayments + ` WHERE (p.bucket, p.payment_id)` + paymentsOfAttempts
	sqlAttemptsOf = selectAttempts + ` WHERE (a.bucket, a.payment_id)` + paymentsOfAttempts
	sqlRefundsOf  = selectRefunds + ` WHERE (r.bucket, r.payment_id)` + paymentsOfAttempts
)

// Snapshots reads, in one round trip to one shard, the payments of attempts with all that belongs to them, by the attempts'
// IDs. What the shard does not hold is left out: an attempt that is not there, that is no ID of ours, or whose bucket the
// shard does not own. Ask for those one by one: the right shard is found then, or said that there is none.
func (c *Cluster) Snapshots(ctx context.Context, shardName string, attemptIDs []string) (map[string]Snapshot, error) {
	s, err := c.named(shardName)
	if err != nil {
		return nil, err
	}
	asked := askedOn(c.Map(), shardName, attemptIDs)
	if len(asked) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	var r rowsOfAttempts
	err = s.read(ctx, "snapshots", func(ctx context.Context) error {
		r = rowsOfAttempts{}
		batch := &pgx.Batch{}
		r.queue(batch, asked)
		return s.readers.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return nil, err
	}
	return r.snapshots(asked), nil
}

// askedAttempt is an attempt that is looked up, and where the map has it.
type askedAttempt struct {
	id     string
	bucket int32
	epoch  int64
}

// askedOn are the attempts that the map has on a shard.
func askedOn(m *Map, shardName string, attemptIDs []string) []askedAttempt {
	var out []askedAttempt
	for _, id := range attemptIDs {
		b, err := BucketOfID(AttemptPrefix, id)
		if err != nil {
			continue
		}
		if owner := m.Owner(b); owner.Shard == shardName {
			out = append(out, askedAttempt{id, int32(b), owner.Epoch})
		}
	}
	return out
}

// rowsOfAttempts is what a read of many attempts gave.
type rowsOfAttempts struct {
	owned    []int32 // buckets, at the map's epoch
	payments []Payment
	attempts []Attempt
	refunds  []Refund
}

func (r *rowsOfAttempts) queue(batch *pgx.Batch, asked []askedAttempt) {
	buckets := column(asked, func(a askedAttempt) int32 { return a.bucket })
	epochs := column(asked, func(a askedAttempt) int64 { return a.epoch })
	ids := column(asked, func(a askedAttempt) string { return a.id })
	batch.Queue(sqlOwnedOf, buckets, epochs).Query(into(&r.owned, pgx.RowTo[int32]))
	batch.Queue(sqlPaymentsOf, buckets, ids).Query(into(&r.payments, scanPayment))
	batch.Queue(sqlAttemptsOf, buckets, ids).Query(into(&r.attempts, scanAttempt))
	batch.Queue(sqlRefundsOf, buckets, ids).Query(into(&r.refunds, scanRefund))
}

// into collects the rows of one statement of a batch.
func into[T any](out *[]T, scan pgx.RowToFunc[T]) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		*out, err = pgx.CollectRows(rows, scan)
		return err
	}
}

// snapshots puts the rows together: one snapshot for each attempt that was asked for, found, and behind the fence.
func (r *rowsOfAttempts) snapshots(asked []askedAttempt) map[string]Snapshot {
	slices.SortFunc(r.attempts, func(x, y Attempt) int { return cmp.Compare(x.ID, y.ID) })
	slices.SortFunc(r.refunds, func(x, y Refund) int { return cmp.Compare(x.ID, y.ID) })
	byPayment := make(map[string]*Snapshot, len(r.payments))
	for _, p := range r.payments {
		byPayment[p.ID] = &Snapshot{Payment: p}
	}
	byAttempt := make(map[string]*Snapshot, len(r.attempts))
	for _, a := range r.attempts {
		if s := byPayment[a.PaymentID]; s != nil {
			s.Attempts, byAttempt[a.ID] = append(s.Attempts, a), s
		}
	}
	for _, x := range r.refunds {
		if s := byPayment[x.PaymentID]; s != nil {
			s.Refunds = append(s.Refunds, x)
		}
	}
	out := make(map[string]Snapshot, len(asked))
	for _, a := range asked {
		if s := byAttempt[a.id]; s != nil && slices.Contains(r.owned, a.bucket) {
			out[a.id] = *s
		}
	}
	return out
}
