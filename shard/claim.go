package shard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// A shard has two queues: attempts without an answer (attempts_due) and notices that are to be applied (webhook_inbox_due).
// Both are claimed alike, by one statement a round, which commits before anybody is asked, so that no lock covers a call:
//
//	d  are the candidates. Each of the index's ranges (slots) is read in its order up to the limit, and the oldest of all
//	   are kept: a backlog in one range does not hold up the others
//	w  are the candidates once more, by primary key, locked; what another worker is claiming at this moment is skipped,
//	   and what is not as it was read any more, since another was faster, drops out
//
// And both are given back by one statement a round, which changes only rows whose lease is still the giver's, in buckets
// that the shard still owns.
//
// What a row must be like is compared with what came from d or t, never with a constant: a plan made on small tables would
// take that for the way to the rows, and read all of them.
const (
	sqlClaimAttempts = `
UPDATE attempts SET lease_owner = $1::TEXT, lease_until = $2::TIMESTAMPTZ
WHERE (attempts.bucket, attempts.attempt_id) IN (
    SELECT w.bucket, w.attempt_id
    FROM (
        SELECT q.bucket, q.attempt_id, q.status, q.next_check_at, q.lease_until FROM unnest($3::INT8[]) AS s(slot)
        CROSS JOIN LATERAL (
            SELECT a.bucket, a.attempt_id, a.status, a.next_check_at, a.lease_until
            FROM attempts a
            WHERE a.slot = s.slot AND a.status = 'PENDING' AND a.next_check_at <= $4::TIMESTAMPTZ
                AND (a.lease_until IS NULL OR a.lease_until <= $4::TIMESTAMPTZ)
                AND EXISTS (SELECT 1 FROM buckets b WHERE b.bucket = a.bucket AND b.state = 'OWNED')
            ORDER BY a.next_check_at LIMIT $5::INT8
        ) q
        ORDER BY q.next_check_at LIMIT $5::INT8
    ) d
    JOIN attempts w ON w.bucket = d.bucket AND w.attempt_id = d.attempt_id
        AND w.status = d.status AND w.next_check_at = d.next_check_at AND w.lease_until IS NOT DISTINCT FROM d.lease_until
    FOR UPDATE OF w SKIP LOCKED
)
RETURNING attempts.attempt_id, attempts.payment_id, attempts.checks, attempts.absent_checks, attempts.escalated, attempts.sent_at`

	sqlReschedule = `
UPDATE attempts SET checks = attempts.checks + 1, absent_checks = t.absent_checks, escalated = t.escalated,
    next_check_at = t.next_check_at, detail = t.detail, lease_owner = '', lease_until = NULL
FROM unnest($1::TEXT[], $2::TEXT[], $3::INT4[], $4::TEXT[], $5::INT4[], $6::BOOL[], $7::TIMESTAMPTZ[], $8::TEXT[])
    AS t(lease_owner, status, bucket, attempt_id, absent_checks, escalated, next_check_at, detail)
WHERE attempts.bucket = t.bucket AND attempts.attempt_id = t.attempt_id AND attempts.lease_owner = t.lease_owner
    AND attempts.status = t.status
    AND EXISTS (SELECT 1 FROM buckets b WHERE b.bucket = t.bucket AND b.state = 'OWNED')
RETURNING attempts.attempt_id`

	sqlClaimInbox = `
UPDATE webhook_inbox SET lease_owner = $1::TEXT, lease_until = $2::TIMESTAMPTZ
WHERE (webhook_inbox.bucket, webhook_inbox.psp, webhook_inbox.event_id) IN (
    SELECT w.bucket, w.psp, w.event_id
    FROM (
        SELECT q.bucket, q.psp, q.event_id, q.state, q.next_try_at, q.lease_until FROM unnest($3::INT8[]) AS s(slot)
        CROSS JOIN LATERAL (
            SELECT n.bucket, n.psp, n.event_id, n.state, n.next_try_at, n.lease_until
            FROM webhook_inbox n
            WHERE n.slot = s.slot AND n.state IN ('NEW', 'UNMATCHED') AND n.next_try_at <= $4::TIMESTAMPTZ
                AND (n.lease_until IS NULL OR n.lease_until <= $4::TIMESTAMPTZ)
                AND EXISTS (SELECT 1 FROM buckets b WHERE b.bucket = n.bucket AND b.state = 'OWNED')
            ORDER BY n.next_try_at LIMIT $5::INT8
        ) q
        ORDER BY q.next_try_at LIMIT $5::INT8
    ) d
    JOIN webhook_inbox w ON w.bucket = d.bucket AND w.psp = d.psp AND w.event_id = d.event_id
        AND w.state = d.state AND w.next_try_at = d.next_try_at AND w.lease_until IS NOT DISTINCT FROM d.lease_until
    FOR UPDATE OF w SKIP LOCKED
)
RETURNING webhook_inbox.bucket, webhook_inbox.psp, webhook_inbox.event_id, webhook_inbox.kind, webhook_inbox.attempt_id,
    webhook_inbox.reference, webhook_inbox.original, webhook_inbox.raw, webhook_inbox.state, webhook_inbox.reason,
    webhook_inbox.tries, webhook_inbox.received_at, webhook_inbox.next_try_at`

	sqlCloseInbox = `
UPDATE webhook_inbox SET state = t.state, reason = t.reason, next_try_at = t.next_try_at, updated_at = $2::TIMESTAMPTZ,
    tries = webhook_inbox.tries + 1, lease_owner = '', lease_until = NULL
FROM unnest($1::TEXT[], $3::INT4[], $4::TEXT[], $5::TEXT[], $6::TEXT[], $7::TEXT[], $8::TIMESTAMPTZ[])
    AS t(lease_owner, bucket, psp, event_id, state, reason, next_try_at)
WHERE webhook_inbox.bucket = t.bucket AND webhook_inbox.psp = t.psp AND webhook_inbox.event_id = t.event_id
    AND webhook_inbox.lease_owner = t.lease_owner
    AND EXISTS (SELECT 1 FROM buckets b WHERE b.bucket = t.bucket AND b.state = 'OWNED')
RETURNING webhook_inbox.bucket, webhook_inbox.psp, webhook_inbox.event_id`
)

// queueSlots is how many index ranges a queue is spread over: mod(bucket, 8) in the tables' slot column.
const queueSlots = 8

func allSlots() []int64 {
	slots := make([]int64, queueSlots)
	for n := range slots {
		slots[n] = int64(n)
	}
	return slots
}

// Due is an attempt without an answer that its claimer is to ask about.
type Due struct {
	AttemptID string
	PaymentID string
	Checks    int32 // how often it was asked about before
	Absent    int32 // how many of the last checks found that the PSP has no record
	Escalated bool  // people were told
	SentAt    time.Time
}

// ClaimAttempts leases up to limit due attempts of one shard to owner until the lease ends: those that have been due for
// longest.
func (c *Cluster) ClaimAttempts(ctx context.Context, shardName, owner string, now, until time.Time, limit int) ([]Due, error) {
	return queueRows(ctx, c, shardName, "claim attempts", pgx.RowToStructByPos[Due], sqlClaimAttempts, owner, until, allSlots(), now, limit)
}

// Recheck is when a claimed attempt is asked about again, and what is known by now.
type Recheck struct {
	AttemptID string
	Absent    int32
	Escalated bool
	NextAt    time.Time
	Detail    string
}

// Reschedule gives attempts back that owner claimed on one shard, and tells of each whether it did: not if its lease went
// to another, the attempt has its answer, or its bucket went away.
func (c *Cluster) Reschedule(ctx context.Context, shardName, owner string, rechecks []Recheck) ([]bool, error) {
	buckets := make([]int32, len(rechecks))
	for n, r := range rechecks {
		b, err := BucketOfID(AttemptPrefix, r.AttemptID)
		if err != nil {
			return nil, err
		}
		buckets[n] = int32(b)
	}
	given, err := queueRows(ctx, c, shardName, "reschedule", pgx.RowTo[string], sqlReschedule,
		column(rechecks, func(Recheck) string { return owner }),
		column(rechecks, func(Recheck) string { return "PENDING" }), buckets,
		column(rechecks, func(r Recheck) string { return r.AttemptID }),
		column(rechecks, func(r Recheck) int32 { return r.Absent }),
		column(rechecks, func(r Recheck) bool { return r.Escalated }),
		column(rechecks, func(r Recheck) time.Time { return r.NextAt }),
		column(rechecks, func(r Recheck) string { return r.Detail }))
	if err != nil {
		return nil, err
	}
	return among(rechecks, given, func(r Recheck) string { return r.AttemptID }), nil
}

// ClaimInbox leases up to limit notices of one shard that are to be applied to owner until the lease ends: those that have
// been due for longest. They come in the order in which they were stored.
func (c *Cluster) ClaimInbox(ctx context.Context, shardName, owner string, now, until time.Time, limit int) ([]InboxItem, error) {
	items, err := queueRows(ctx, c, shardName, "claim inbox", pgx.RowToStructByPos[InboxItem], sqlClaimInbox, owner, until, allSlots(), now, limit)
	slices.SortFunc(items, InboxItem.Compare)
	return items, err
}

// Compare orders notices as they were stored.
func (i InboxItem) Compare(other InboxItem) int {
	return cmp.Or(i.ReceivedAt.Compare(other.ReceivedAt), cmp.Compare(i.Bucket, other.Bucket), cmp.Compare(i.PSP, other.PSP),
		cmp.Compare(i.EventID, other.EventID))
}

// InboxKey names a notice.
type InboxKey struct {
	Bucket  Bucket
	PSP     string
	EventID string
}

// InboxEnd says what became of a claimed notice; NextTryAt counts for those that are looked at again.
type InboxEnd struct {
	InboxKey
	State     Status
	Reason    string
	NextTryAt time.Time
}

// CloseInbox gives notices back that owner claimed on one shard, and tells of each whether it did: not if its lease went to
// another, it is closed, or its bucket went away. What is not given back is applied again by whoever claims it next.
func (c *Cluster) CloseInbox(ctx context.Context, shardName, owner string, ends []InboxEnd, at time.Time) ([]bool, error) {
	closed, err := queueRows(ctx, c, shardName, "close inbox", pgx.RowToStructByPos[InboxKey], sqlCloseInbox,
		column(ends, func(InboxEnd) string { return owner }), at,
		column(ends, func(e InboxEnd) int32 { return int32(e.Bucket) }),
		column(ends, func(e InboxEnd) string { return e.PSP }),
		column(ends, func(e InboxEnd) string { return e.EventID }),
		column(ends, func(e InboxEnd) string { return string(e.State) }),
		column(ends, func(e InboxEnd) string { return e.Reason }),
		column(ends, func(e InboxEnd) time.Time { return e.NextTryAt }))
	if err != nil {
		return nil, err
	}
	return among(ends, closed, func(e InboxEnd) InboxKey { return e.InboxKey }), nil
}

// among tells of each item whether its key is one of those that a statement gave.
func among[T any, K comparable](items []T, keys []K, key func(T) K) []bool {
	given := make(map[K]bool, len(keys))
	for _, k := range keys {
		given[k] = true
	}
	return column(items, func(item T) bool { return given[key(item)] })
}

// queueRows runs a statement of a queue on one shard, again while the database asks for it, and collects its rows.
func queueRows[T any](ctx context.Context, c *Cluster, shardName, op string, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	s, err := c.named(shardName)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	var out []T
	err = s.retry(ctx, op, func(ctx context.Context) (err error) {
		out, err = rowsOf(ctx, s, scan, sql, args)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("shard %s: %w", shardName, err)
	}
	return out, nil
}
