package shard

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// sqlPutInbox stores notices behind the fence, for a batch, in one commit. A redelivery meets the primary key and changes
	// nothing. A notice is in a batch once, and takes no number: it waits for nobody who does, only for who moves the bucket.
	sqlPutInbox = `
WITH i AS (
    SELECT t.bucket, t.epoch, t.psp, t.event_id, t.kind, t.attempt_id, t.reference, t.original, t.raw, t.received_at
    FROM unnest($1::INT4[], $2::INT8[], $3::TEXT[], $4::TEXT[], $5::TEXT[], $6::TEXT[], $7::TEXT[], $8::TEXT[], $9::BYTEA[],
        $10::TIMESTAMPTZ[]) AS t(bucket, epoch, psp, event_id, kind, attempt_id, reference, original, raw, received_at)
),
f AS (
    SELECT b.bucket, b.epoch FROM buckets b
    WHERE b.bucket = ANY($1::INT4[]) AND b.state = 'OWNED'
    ORDER BY b.bucket FOR KEY SHARE
),
w AS (
    INSERT INTO webhook_inbox (bucket, psp, event_id, kind, attempt_id, reference, original, raw, state, reason, received_at,
        next_try_at, updated_at)
    SELECT i.bucket, i.psp, i.event_id, i.kind, i.attempt_id, i.reference, i.original, i.raw, 'NEW', '', i.received_at,
        i.received_at, i.received_at
    FROM i WHERE ((i.bucket, i.epoch) IN (SELECT f.bucket, f.epoch FROM f)) IS TRUE
    ON CONFLICT DO NOTHING
    RETURNING bucket, psp, event_id
)
SELECT i.psp || ' ' || i.event_id, ((i.bucket, i.epoch) IN (SELECT f.bucket, f.epoch FROM f)) IS TRUE AS owned,
    ((i.bucket, i.psp, i.event_id) IN (SELECT w.bucket, w.psp, w.event_id FROM w)) IS TRUE AS written
FROM i`

	// sqlFindNotices tells which notices are stored. It relies on the primary key.
	sqlFindNotices = `
SELECT w.psp || ' ' || w.event_id
FROM unnest($1::INT4[], $2::TEXT[], $3::TEXT[]) AS t(bucket, psp, event_id)
JOIN webhook_inbox w ON w.bucket = t.bucket AND w.psp = t.psp AND w.event_id = t.event_id`

	// sqlInbox lists the notices in one of the states that people look at. It relies on webhook_inbox_state.
	sqlInbox = `
SELECT w.bucket, w.psp, w.event_id, w.kind, w.attempt_id, w.reference, w.original, w.raw, w.state, w.reason, w.tries, w.received_at,
    w.next_try_at
FROM webhook_inbox w
WHERE w.state = $1::TEXT AND w.state IN ('UNMATCHED', 'MISFIT') ORDER BY w.received_at LIMIT $2::INT8`

	// sqlInboxOfAttempts lists the notices that name one of a payment's attempts, without what they said. It relies on
	// webhook_inbox_attempt; the bucket is not named, since it is part of the IDs and a plan by it would read all of it.
	sqlInboxOfAttempts = `
SELECT w.bucket, w.psp, w.event_id, w.kind, w.attempt_id, w.reference, w.original, ''::BYTEA, w.state, w.reason, w.tries, w.received_at,
    w.next_try_at
FROM webhook_inbox w
WHERE w.attempt_id = ANY($1::TEXT[]) ORDER BY w.received_at, w.event_id LIMIT $2::INT8`

	// sqlInboxLag tells how many notices wait to be applied, and since when the oldest does. It relies on webhook_inbox_due,
	// whose entries are those notices alone.
	sqlInboxLag = `
SELECT count(*), min(w.received_at) FROM webhook_inbox w WHERE w.state IN ('NEW', 'UNMATCHED') AND w.state = 'NEW'`
)

// States of a notice in the inbox.
const (
	InboxNew       Status = "NEW"       // to be applied
	InboxUnmatched Status = "UNMATCHED" // names nothing of ours yet; looked at again and again
	InboxApplied   Status = "APPLIED"   // done, or changed nothing since it was known
	InboxIgnored   Status = "IGNORED"   // another mode or account, or a kind that settles nothing
	InboxMisfit    Status = "MISFIT"    // does not fit what it names; people look at it
)

// InboxItem is a notice as it came, and what became of it.
type InboxItem struct {
	Bucket     Bucket    `json:"bucket"`
	PSP        string    `json:"psp"`
	EventID    string    `json:"event"`
	Kind       string    `json:"kind"`
	AttemptID  string    `json:"attempt"`
	Reference  string    `json:"reference"`
	Original   string    `json:"original"`
	Raw        []byte    `json:"raw"`
	State      Status    `json:"state"`
	Reason     string    `json:"reason"`
	Tries      int32     `json:"tries"`
	ReceivedAt time.Time `json:"receivedAt"`
	NextTryAt  time.Time `json:"nextTryAt"`
}

// notice is an InboxItem on its way through a lane.
type notice struct {
	InboxItem
	epoch int64
}

func (n notice) bucket() Bucket { return n.Bucket }

// id names a notice on its shard.
func (n notice) id() string { return n.PSP + " " + n.EventID }

// PutInbox stores a notice in its bucket and tells whether it was new; one whose commit was in doubt and is found counts as
// new. State and times are set by at.
func (c *Cluster) PutInbox(ctx context.Context, item InboxItem, at time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	item.ReceivedAt = at
	err := c.place(ctx, item.Bucket, func(s *Shard, epoch int64) error {
		return s.store(ctx, notice{InboxItem: item, epoch: epoch})
	})
	if errors.Is(err, ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

func (s *Shard) store(ctx context.Context, n notice) error {
	if s.opts.BatchLimit > 1 {
		return s.lanes.store(ctx, n)
	}
	return alone(s, "put inbox", n, putStatement, s.findNotices)
}

// putStatement is sqlPutInbox for a batch.
func putStatement(batch []notice) statement {
	return statement{sqlPutInbox, []any{
		column(batch, func(n notice) int32 { return int32(n.Bucket) }),
		column(batch, func(n notice) int64 { return n.epoch }),
		column(batch, func(n notice) string { return n.PSP }),
		column(batch, func(n notice) string { return n.EventID }),
		column(batch, func(n notice) string { return n.Kind }),
		column(batch, func(n notice) string { return n.AttemptID }),
		column(batch, func(n notice) string { return n.Reference }),
		column(batch, func(n notice) string { return n.Original }),
		column(batch, func(n notice) []byte { return n.Raw }),
		column(batch, func(n notice) time.Time { return n.ReceivedAt }),
	}, len(batch), func(n int) string { return batch[n].id() }}
}

// findNotices tells which of the notices are stored.
func (s *Shard) findNotices(ctx context.Context, batch []notice) ([]bool, error) {
	found, err := s.findIDs(ctx, "find notices", sqlFindNotices,
		column(batch, func(n notice) int32 { return int32(n.Bucket) }),
		column(batch, func(n notice) string { return n.PSP }),
		column(batch, func(n notice) string { return n.EventID }))
	if err != nil {
		return nil, err
	}
	return column(batch, func(n notice) bool { return found[n.id()] }), nil
}

// Inbox lists up to limit notices of one shard that are UNMATCHED or MISFIT, the oldest first.
func (c *Cluster) Inbox(ctx context.Context, shardName string, state Status, limit int) ([]InboxItem, error) {
	return readRows(ctx, c, shardName, "inbox", pgx.RowToStructByPos[InboxItem], sqlInbox, string(state), limit)
}

// InboxLag tells how many notices of one shard wait to be applied, and since when the oldest does (zero: none waits).
func (c *Cluster) InboxLag(ctx context.Context, shardName string) (waiting int64, oldest time.Time, err error) {
	return countSince(ctx, c, shardName, "inbox lag", sqlInboxLag)
}

// maxNoticesOfPayment bounds what is shown of one payment's notices.
const maxNoticesOfPayment = 200

// InboxOf lists the notices that name one of the attempts, which must be of one bucket, the oldest first and without their
// raw bytes. A notice that names its payment by a PSP's reference alone lies elsewhere and is not among them.
func (c *Cluster) InboxOf(ctx context.Context, attemptIDs []string) ([]InboxItem, error) {
	if len(attemptIDs) == 0 {
		return nil, nil
	}
	b, err := BucketOfID(AttemptPrefix, attemptIDs[0])
	if err != nil {
		return nil, err
	}
	var out []InboxItem
	err = c.readPlaced(ctx, b, "inbox of attempts", func(ctx context.Context, s *Shard, epoch int64) error {
		batch := &pgx.Batch{}
		queueOwned(batch, b, epoch)
		batch.Queue(sqlInboxOfAttempts, attemptIDs, maxNoticesOfPayment).Query(func(rows pgx.Rows) (err error) {
			out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[InboxItem])
			return err
		})
		return s.readers.SendBatch(ctx, batch).Close()
	})
	return out, err
}
