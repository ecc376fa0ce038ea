package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"paygrid/ledger"
)

// The reads by ID rely on primary keys and on attempts_payment, refunds_payment, journal_entries_payment and
// outbox_payment_version; the one by order on payments_order, and it leaves out what a moved bucket left behind.
const (
	sqlOwned = `SELECT b.seq FROM buckets b WHERE b.bucket = $1::INT4 AND b.epoch = $2::INT8 AND b.state = 'OWNED'`

	readOfPayment = `p.payment_id, p.client_id, p.order_id, p.customer_id, p.status, p.version, p.psp, p.psp_ref, p.currency,
    p.authorized, p.captured, p.released, p.refunding, p.refunded, p.capture_mode, p.method, p.splits, p.parts, p.return_url,
    p.redirect_url, p.failure_code, p.failure, p.expires_at, p.created_at, p.updated_at`
	readOfAttempt = `a.attempt_id, a.payment_id, a.kind, a.psp, a.amount, a.status, a.outcome, a.route_reason, a.code, a.detail,
    a.psp_ref, a.client_key, a.sent_at, a.next_check_at, a.updated_at, a.checks, a.absent_checks, a.escalated`

	// What is read of a payment and what belongs to it, without the rows that are meant.
	selectPayments = `
SELECT ` + readOfPayment + `
FROM payments p`

	selectAttempts = `
SELECT ` + readOfAttempt + `
FROM attempts a`

	selectRefunds = `
SELECT r.refund_id, r.payment_id, r.attempt_id, r.amount, r.status, r.shares, r.code, r.detail, r.created_at, r.updated_at
FROM refunds r`

	// A payment has an attempt from its first commit on. So one statement has it with all of them, as they were at one moment,
	// behind the fence: no row if the shard does not own the bucket, or the payment is not there.
	sqlPayment = `
SELECT ` + readOfPayment + `, ` + readOfAttempt + `
FROM buckets b
JOIN payments p ON p.bucket = b.bucket AND p.payment_id = $3::TEXT
JOIN attempts a ON a.bucket = p.bucket AND a.payment_id = p.payment_id
WHERE b.bucket = $1::INT4 AND b.epoch = $2::INT8 AND b.state = 'OWNED'`

	sqlPaymentHere = `SELECT p.version FROM payments p WHERE p.bucket = $1::INT4 AND p.payment_id = $2::TEXT`

	sqlRefunds = selectRefunds + ` WHERE r.bucket = $1::INT4 AND r.payment_id = $2::TEXT`

	sqlKey = `
SELECT k.client_id, k.scope, k.key, k.request_hash, k.payment_id, k.subject_id, k.answer_kind, k.answer
FROM idempotency_keys k WHERE k.bucket = $1::INT4 AND k.client_id = $2::TEXT AND k.scope = $3::TEXT AND k.key = $4::TEXT`

	sqlPaymentsByOrder = selectPayments + `
JOIN buckets b ON b.bucket = p.bucket AND b.state IN ('OWNED', 'FROZEN')
WHERE p.client_id = $1::TEXT AND p.order_id = $2::TEXT
ORDER BY p.bucket, p.payment_id LIMIT $3::INT8`

	sqlEntries = `
SELECT e.bucket, e.entry_id, e.seq, e.kind, e.payment_id, e.reason, e.actor, e.reverses, e.created_at, p.debit_account,
    p.credit_account, p.amount, p.currency
FROM journal_entries e JOIN postings p ON p.bucket = e.bucket AND p.seq = e.seq
WHERE e.bucket = $1::INT4 AND e.payment_id = $2::TEXT
ORDER BY e.seq, p.posting_no`

	sqlEvents = `
SELECT o.bucket, o.seq, o.payment_id, o.version, o.type, o.payload, o.created_at
FROM outbox o WHERE o.bucket = $1::INT4 AND o.payment_id = $2::TEXT ORDER BY o.version`
)

// maxPaymentsOfOrder bounds a look-up by order: more attempts at one order than this are not shown.
const maxPaymentsOfOrder = 100

// Found is what a look-up saw. Missing says that the payment's row is not there; its key can be all the same.
type Found struct {
	Snapshot
	Missing bool
	Key     *Key // the key asked for, nil if it is not there
}

// Find reads a payment with all that belongs to it, and the idempotency key that ref names unless that is zero, in one
// round trip to the owning shard; in two if the payment is not there.
func (c *Cluster) Find(ctx context.Context, paymentID string, ref KeyRef) (Found, error) {
	b, err := BucketOfID(PaymentPrefix, paymentID)
	if err != nil {
		return Found{}, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	var found Found
	err = c.readPlaced(ctx, b, "find", func(ctx context.Context, s *Shard, epoch int64) error {
		found = Found{}
		batch := &pgx.Batch{}
		queuePayment(batch, b, epoch, paymentID, &found)
		if ref.Key != "" {
			queueKey(batch, b, ref, &found.Key)
		}
		if err := s.readers.SendBatch(ctx, batch).Close(); err != nil || !found.Missing {
			return err
		}
		return s.missing(ctx, b, epoch, paymentID)
	})
	if err != nil {
		return Found{}, err
	}
	return found, nil
}

// missing returns nil if the shard owns the bucket and, seen after that, has no such payment. A bucket that froze or thawed
// meanwhile is one that the fence refuses: look again.
func (s *Shard) missing(ctx context.Context, b Bucket, epoch int64, paymentID string) error {
	batch := &pgx.Batch{}
	queueOwned(batch, b, epoch)
	batch.Queue(sqlPaymentHere, int32(b), paymentID).QueryRow(func(row pgx.Row) error {
		var version int64
		if err := row.Scan(&version); !errors.Is(err, pgx.ErrNoRows) {
			return cmp.Or(err, errFenced)
		}
		return nil
	})
	return s.readers.SendBatch(ctx, batch).Close()
}

// Snapshot reads a payment with all that belongs to it, or returns ErrNotFound.
func (c *Cluster) Snapshot(ctx context.Context, paymentID string) (Snapshot, error) {
	found, err := c.Find(ctx, paymentID, KeyRef{})
	if err == nil && found.Missing {
		err = fmt.Errorf("payment %s: %w", paymentID, ErrNotFound)
	}
	return found.Snapshot, err
}

// OpeningKey reads the key of an opening, whose bucket it decides; nil if it is not there.
func (c *Cluster) OpeningKey(ctx context.Context, clientID, key string) (*Key, error) {
	b := BucketOf(clientID, key)
	var out *Key
	err := c.readPlaced(ctx, b, "key", func(ctx context.Context, s *Shard, epoch int64) error {
		out = nil
		batch := &pgx.Batch{}
		queueOwned(batch, b, epoch)
		queueKey(batch, b, KeyRef{ClientID: clientID, Scope: openingScope, Key: key}, &out)
		return s.readers.SendBatch(ctx, batch).Close()
	})
	return out, err
}

// readPlaced runs a read on the owning shard, under the statement's time limit, again while that helps.
func (c *Cluster) readPlaced(ctx context.Context, b Bucket, op string, f func(context.Context, *Shard, int64) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	return c.place(ctx, b, func(s *Shard, epoch int64) error {
		return s.read(ctx, op, func(ctx context.Context) error {
			return f(ctx, s, epoch)
		})
	})
}

// queueOwned asks the fence: no row means that this shard does not own the bucket at that epoch.
func queueOwned(batch *pgx.Batch, b Bucket, epoch int64) {
	batch.Queue(sqlOwned, int32(b), epoch).QueryRow(func(row pgx.Row) error {
		var seq int64
		if err := row.Scan(&seq); errors.Is(err, pgx.ErrNoRows) {
			return errFenced
		} else if err != nil {
			return err
		}
		return nil
	})
}

func queuePayment(batch *pgx.Batch, b Bucket, epoch int64, id string, found *Found) {
	batch.Queue(sqlPayment, int32(b), epoch, id).Query(func(rows pgx.Rows) (err error) {
		found.Attempts, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Attempt, err error) {
			found.Payment, a, err = scanPaymentAndAttempt(row)
			return a, err
		})
		found.Missing = len(found.Attempts) == 0
		slices.SortFunc(found.Attempts, func(x, y Attempt) int { return cmp.Compare(x.ID, y.ID) })
		return err
	})
	batch.Queue(sqlRefunds, int32(b), id).Query(func(rows pgx.Rows) (err error) {
		found.Refunds, err = pgx.CollectRows(rows, scanRefund)
		slices.SortFunc(found.Refunds, func(x, y Refund) int { return cmp.Compare(x.ID, y.ID) })
		return err
	})
}

func queueKey(batch *pgx.Batch, b Bucket, ref KeyRef, out **Key) {
	batch.Queue(sqlKey, int32(b), ref.ClientID, ref.Scope, ref.Key).Query(func(rows pgx.Rows) error {
		keys, err := pgx.CollectRows(rows, scanKey)
		if err == nil && len(keys) > 0 {
			*out = &keys[0]
		}
		return err
	})
}

// PaymentsOfOrder reads the payments that a client made for an order, on all shards, oldest first.
func (c *Cluster) PaymentsOfOrder(ctx context.Context, clientID, orderID string) ([]Payment, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	var mu sync.Mutex
	var out []Payment
	err := c.each(ctx, func(ctx context.Context, s *Shard) error {
		return s.read(ctx, "by order", func(ctx context.Context) error {
			rows, err := s.readers.Query(ctx, sqlPaymentsByOrder, clientID, orderID, maxPaymentsOfOrder)
			if err != nil {
				return err
			}
			payments, err := pgx.CollectRows(rows, scanPayment)
			mu.Lock()
			defer mu.Unlock()
			out = append(out, payments...)
			return err
		})
	})
	slices.SortFunc(out, func(x, y Payment) int {
		return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID))
	})
	return out[:min(len(out), maxPaymentsOfOrder)], err
}

// Entries reads what a payment posted, in order.
func (c *Cluster) Entries(ctx context.Context, paymentID string) ([]PostedEntry, error) {
	b, err := BucketOfID(PaymentPrefix, paymentID)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	var out []PostedEntry
	err = c.readPlaced(ctx, b, "entries", func(ctx context.Context, s *Shard, epoch int64) error {
		batch := &pgx.Batch{}
		queueOwned(batch, b, epoch)
		batch.Queue(sqlEntries, int32(b), paymentID).Query(func(rows pgx.Rows) (err error) {
			out, err = collectEntries(rows)
			return err
		})
		return s.readers.SendBatch(ctx, batch).Close()
	})
	return out, err
}

// Events reads the events of a payment that the outbox still holds, in order.
func (c *Cluster) Events(ctx context.Context, paymentID string) ([]PostedEvent, error) {
	b, err := BucketOfID(PaymentPrefix, paymentID)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	var out []PostedEvent
	err = c.readPlaced(ctx, b, "events", func(ctx context.Context, s *Shard, epoch int64) error {
		batch := &pgx.Batch{}
		queueOwned(batch, b, epoch)
		batch.Queue(sqlEvents, int32(b), paymentID).Query(func(rows pgx.Rows) (err error) {
			out, err = pgx.CollectRows(rows, scanEvent)
			return err
		})
		return s.readers.SendBatch(ctx, batch).Close()
	})
	return out, err
}

func scanPayment(row pgx.CollectableRow) (Payment, error) {
	var p Payment
	var expires *time.Time
	err := row.Scan(intoPayment(&p, &expires)...)
	p.ExpiresAt = orZero(expires)
	return p, err
}

func scanAttempt(row pgx.CollectableRow) (Attempt, error) {
	var a Attempt
	err := row.Scan(intoAttempt(&a)...)
	return a, err
}

func scanPaymentAndAttempt(row pgx.CollectableRow) (Payment, Attempt, error) {
	var p Payment
	var a Attempt
	var expires *time.Time
	err := row.Scan(append(intoPayment(&p, &expires), intoAttempt(&a)...)...)
	p.ExpiresAt = orZero(expires)
	return p, a, err
}

// intoPayment is where readOfPayment go.
func intoPayment(p *Payment, expires **time.Time) []any {
	return []any{&p.ID, &p.ClientID, &p.OrderID, &p.CustomerID, &p.Status, &p.Version, &p.PSP, &p.PSPRef, &p.Currency,
		&p.Authorized, &p.Captured, &p.Released, &p.Refunding, &p.Refunded, &p.CaptureMode, (*[]byte)(&p.Method), &p.Splits, &p.Parts,
		&p.ReturnURL, &p.RedirectURL, &p.FailureCode, &p.Failure, expires, &p.CreatedAt, &p.UpdatedAt}
}

// intoAttempt is where readOfAttempt go.
func intoAttempt(a *Attempt) []any {
	return []any{&a.ID, &a.PaymentID, &a.Kind, &a.PSP, &a.Amount, &a.Status, &a.Outcome, &a.RouteReason, &a.Code, &a.Detail,
		&a.PSPRef, &a.ClientKey, &a.SentAt, &a.NextCheckAt, &a.UpdatedAt, &a.Checks, &a.Absent, &a.Escalated}
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func scanRefund(row pgx.CollectableRow) (Refund, error) {
	var r Refund
	err := row.Scan(&r.ID, &r.PaymentID, &r.AttemptID, &r.Amount, &r.Status, &r.Shares, &r.Code, &r.Detail, &r.CreatedAt,
		&r.UpdatedAt)
	return r, err
}

func scanKey(row pgx.CollectableRow) (Key, error) {
	var k Key
	var hash []byte
	var kind *string
	err := row.Scan(&k.ClientID, &k.Scope, &k.Key, &hash, &k.PaymentID, &k.SubjectID, &kind, &k.Answer)
	copy(k.RequestHash[:], hash)
	if kind != nil {
		k.AnswerKind = *kind
	}
	return k, err
}

func scanEvent(row pgx.CollectableRow) (PostedEvent, error) {
	var e PostedEvent
	err := row.Scan(&e.Bucket, &e.Seq, &e.PaymentID, &e.Version, &e.Type, (*[]byte)(&e.Payload), &e.CreatedAt)
	return e, err
}

// collectEntries gathers rows of entry and posting, in order of both, into entries.
func collectEntries(rows pgx.Rows) ([]PostedEntry, error) {
	var out []PostedEntry
	var e PostedEntry
	var p ledger.Posting
	var reverses *string
	_, err := pgx.ForEachRow(rows, []any{&e.Bucket, &e.ID, &e.Seq, &e.Kind, &e.PaymentID, &e.Reason, &e.Actor, &reverses,
		&e.CreatedAt, &p.Debit, &p.Credit, &p.Minor, &e.Currency}, func() error {
		if len(out) == 0 || out[len(out)-1].Bucket != e.Bucket || out[len(out)-1].Seq != e.Seq {
			next := e
			next.Postings, next.Reverses = nil, ""
			if reverses != nil {
				next.Reverses = *reverses
			}
			out = append(out, next)
		}
		last := &out[len(out)-1]
		last.Postings = append(last.Postings, p)
		return nil
	})
	return out, err
}
