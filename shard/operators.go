package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// sqlRequest asks for what takes two people. It relies on the primary key.
	sqlRequest = `
INSERT INTO approvals (bucket, approval_id, kind, payment_id, subject_id, decision, reference, reason, state, requested_by, requested_at)
SELECT b.bucket, $3::TEXT, $4::TEXT, $5::TEXT, $6::TEXT, $7::TEXT, $8::TEXT, $9::TEXT, 'OPEN', $10::TEXT, $11::TIMESTAMPTZ
FROM buckets b WHERE b.bucket = $1::INT4 AND b.epoch = $2::INT8 AND b.state = 'OWNED'
ON CONFLICT (bucket, approval_id) DO UPDATE SET reason = approvals.reason
RETURNING approval_id`

	// sqlDecide is the second person's word: once, and never the first person's. It relies on the primary key; IS TRUE
	// keeps a plan made while nothing is open from walking approvals_open instead.
	sqlDecide = `
UPDATE approvals SET state = $4::TEXT, decided_by = $5::TEXT, decided_at = $6::TIMESTAMPTZ
FROM buckets b
WHERE b.bucket = $1::INT4 AND b.epoch = $2::INT8 AND b.state = 'OWNED' AND approvals.bucket = b.bucket
    AND approvals.approval_id = $3::TEXT AND (approvals.state = 'OPEN') IS TRUE AND approvals.requested_by <> $5::TEXT
RETURNING approvals.approval_id`

	sqlApproval = `
SELECT a.approval_id, a.kind, a.payment_id, a.subject_id, a.decision, a.reference, a.reason, a.state, a.requested_by, a.requested_at,
    a.decided_by
FROM approvals a WHERE a.bucket = $1::INT4 AND a.approval_id = $2::TEXT`

	// sqlOpenApprovals relies on approvals_open.
	sqlOpenApprovals = `
SELECT a.approval_id, a.kind, a.payment_id, a.subject_id, a.decision, a.reference, a.reason, a.state, a.requested_by, a.requested_at,
    a.decided_by
FROM approvals a WHERE a.state = 'OPEN' ORDER BY a.requested_at LIMIT $1::INT8`

	// sqlSetSwitch takes a PSP out of service or back. It relies on the primary key.
	sqlSetSwitch = `
INSERT INTO psp_switches (psp, drained, reason, actor, updated_at)
VALUES ($1::TEXT, $2::BOOL, $3::TEXT, $4::TEXT, $5::TIMESTAMPTZ)
ON CONFLICT (psp) DO UPDATE SET drained = excluded.drained, reason = excluded.reason, actor = excluded.actor,
    updated_at = excluded.updated_at
WHERE psp_switches.updated_at <= excluded.updated_at`

	sqlSwitches = `SELECT s.psp, s.drained, s.reason, s.actor, s.updated_at FROM psp_switches s ORDER BY s.psp LIMIT 100`
)

// ApprovalPrefix is the prefix of the IDs of approvals.
const ApprovalPrefix = "apr"

// States of an approval.
const (
	ApprovalOpen     Status = "OPEN"
	ApprovalApproved Status = "APPROVED"
	ApprovalRejected Status = "REJECTED"
)

// Approval is something that takes two people: one asked, another decides.
type Approval struct {
	ID          string    `json:"id"`
	Kind        string    `json:"kind"`
	PaymentID   string    `json:"payment"`
	SubjectID   string    `json:"subject"`
	Decision    string    `json:"decision"`
	Reference   string    `json:"reference"`
	Reason      string    `json:"reason"`
	State       Status    `json:"state"`
	RequestedBy string    `json:"requestedBy"`
	RequestedAt time.Time `json:"requestedAt"`
	DecidedBy   string    `json:"decidedBy,omitempty"`
}

// ErrSamePerson is returned to a person who would decide on their own request.
var ErrSamePerson = errors.New("the one who asked cannot decide")

// RequestApproval stores a request; its ID says the bucket. ErrNoOwner says that nothing was stored.
func (c *Cluster) RequestApproval(ctx context.Context, a Approval) error {
	b, err := BucketOfID(ApprovalPrefix, a.ID)
	if err != nil {
		return err
	}
	written, err := c.oneRow(ctx, b, "request approval", func(ctx context.Context, s *Shard, epoch int64) (pgx.Rows, error) {
		return s.readers.Query(ctx, sqlRequest, int32(b), epoch, a.ID, a.Kind, a.PaymentID, a.SubjectID, a.Decision, a.Reference, a.Reason,
			a.RequestedBy, a.RequestedAt)
	})
	if err == nil && !written {
		err = ErrNoOwner
	}
	return err
}

// DecideApproval is the second person's word. It returns ErrSamePerson, ErrNotFound, or ErrConflict if it was decided
// before.
func (c *Cluster) DecideApproval(ctx context.Context, id, by string, approve bool, at time.Time) (Approval, error) {
	b, err := BucketOfID(ApprovalPrefix, id)
	if err != nil {
		return Approval{}, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	state := ApprovalRejected
	if approve {
		state = ApprovalApproved
	}
	found, err := c.oneRow(ctx, b, "decide", func(ctx context.Context, s *Shard, epoch int64) (pgx.Rows, error) {
		return s.readers.Query(ctx, sqlDecide, int32(b), epoch, id, string(state), by, at)
	})
	if err != nil {
		return Approval{}, err
	}
	a, err := c.Approval(ctx, id)
	switch {
	case err != nil || found:
		return a, err
	case a.State == ApprovalOpen && a.RequestedBy == by:
		return a, ErrSamePerson
	}
	return a, ErrConflict
}

// Approval reads a request, or returns ErrNotFound.
func (c *Cluster) Approval(ctx context.Context, id string) (Approval, error) {
	b, err := BucketOfID(ApprovalPrefix, id)
	if err != nil {
		return Approval{}, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	var out []Approval
	err = c.readPlaced(ctx, b, "approval", func(ctx context.Context, s *Shard, epoch int64) error {
		batch := &pgx.Batch{}
		queueOwned(batch, b, epoch)
		batch.Queue(sqlApproval, int32(b), id).Query(func(rows pgx.Rows) (err error) {
			out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Approval])
			return err
		})
		return s.readers.SendBatch(ctx, batch).Close()
	})
	if err == nil && len(out) == 0 {
		err = fmt.Errorf("approval %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return Approval{}, err
	}
	return out[0], nil
}

// oneRow runs a write of at most one row behind the fence and tells whether it was written. The statements it runs can be
// repeated: their keys and conditions see to it.
func (c *Cluster) oneRow(ctx context.Context, b Bucket, op string,
	query func(context.Context, *Shard, int64) (pgx.Rows, error)) (written bool, err error) {
	err = c.readPlaced(ctx, b, op, func(ctx context.Context, s *Shard, epoch int64) error {
		rows, err := query(ctx, s, epoch)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		written = len(ids) > 0
		return err
	})
	return written, err
}

// OpenApprovals lists up to limit requests of one shard that wait for the second person.
func (c *Cluster) OpenApprovals(ctx context.Context, shardName string, limit int) ([]Approval, error) {
	return readRows(ctx, c, shardName, "open approvals", pgx.RowToStructByPos[Approval], sqlOpenApprovals, limit)
}

// Switch says whether a PSP was taken out of service for new payments, why and by whom.
type Switch struct {
	PSP     string    `json:"psp"`
	Drained bool      `json:"drained"`
	Reason  string    `json:"reason"`
	Actor   string    `json:"actor"`
	At      time.Time `json:"at"`
}

// SetSwitch tells every shard; the newest word counts. One that does not answer is reported, and can be told again.
func (c *Cluster) SetSwitch(ctx context.Context, w Switch) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	return c.each(ctx, func(ctx context.Context, s *Shard) error {
		return s.read(ctx, "set switch", func(ctx context.Context) error {
			_, err := s.readers.Exec(ctx, sqlSetSwitch, w.PSP, w.Drained, w.Reason, w.Actor, w.At)
			return err
		})
	})
}

// Switches asks the shards in turn, each under the statement's time limit; the first that answers is believed.
func (c *Cluster) Switches(ctx context.Context) ([]Switch, error) {
	var last error = ErrUnavailable
	for _, s := range c.all() {
		var out []Switch
		last = within(ctx, c.opts.StatementTimeout, func(ctx context.Context) (err error) {
			out, err = rowsOf(ctx, s, pgx.RowToStructByPos[Switch], sqlSwitches, nil)
			return err
		})
		if last == nil {
			return out, nil
		}
	}
	return nil, fmt.Errorf("switches: %w", last)
}
