package shard

import (
	"time"

	"paygrid/ledger"
)

// sqlApply moves payments: the compare-and-set, attempts, refunds, keys, entry, postings, sellers' balances and event, for a
// batch, in one commit.
//
//	f  locks the bucket rows in order and is the fence
//	p  is the compare-and-set (version and status) with the caps; a change that does not hold drops out alone
//	s  numbers what is left, without a gap
//
// All else hangs on s; what needs no number of s is looked up there by a hash (IN … IS TRUE), not joined with it, so that a batch
// costs what its rows cost. A payment is in a batch once. Every table is modified once, row locks are taken in sorted order:
// batches cannot deadlock on buckets, payments or balances. Under READ COMMITTED, f and p see the newest committed rows,
// since a locked or updated row is read again after the wait.
//
// $23 is the slot of sellers' balances that this lane writes.
const sqlApply = `
WITH i AS (
    SELECT t.bucket, t.epoch, t.payment_id, t.change_id, t.old_status, t.version, t.status, t.psp, t.psp_ref, t.captured,
        t.released, t.refunding, t.refunded, t.parts, t.redirect_url, t.failure_code, t.failure, t.expires_at, t.event_type,
        t.payload, t.entry_id, t.at
    FROM unnest($1::INT4[], $2::INT8[], $3::TEXT[], $4::TEXT[], $5::TEXT[], $6::INT8[], $7::TEXT[], $8::TEXT[], $9::TEXT[],
        $10::INT8[], $11::INT8[], $12::INT8[], $13::INT8[], $14::TEXT[], $15::TEXT[], $16::TEXT[], $17::TEXT[],
        $18::TIMESTAMPTZ[], $19::TEXT[], $20::TEXT[], $21::TEXT[], $22::TIMESTAMPTZ[])
        AS t(bucket, epoch, payment_id, change_id, old_status, version, status, psp, psp_ref, captured, released, refunding,
        refunded, parts, redirect_url, failure_code, failure, expires_at, event_type, payload, entry_id, at)
),
f AS (
    SELECT b.bucket, b.epoch, b.seq FROM buckets b
    WHERE b.bucket = ANY($1::INT4[]) AND b.state = 'OWNED'
    ORDER BY b.bucket FOR NO KEY UPDATE
),
p AS (
    UPDATE payments SET status = i.status, version = i.version, psp = i.psp, psp_ref = i.psp_ref, captured = i.captured,
        released = i.released, refunding = i.refunding, refunded = i.refunded, parts = i.parts::JSONB,
        redirect_url = i.redirect_url, failure_code = i.failure_code, failure = i.failure, expires_at = i.expires_at,
        updated_at = i.at
    FROM i JOIN f ON f.bucket = i.bucket AND f.epoch = i.epoch
    WHERE payments.bucket = i.bucket AND payments.payment_id = i.payment_id
        AND payments.version = i.version - 1 AND payments.status = i.old_status
        AND i.captured <= payments.authorized - i.released AND i.refunding <= i.captured - i.refunded
    RETURNING i.bucket, i.payment_id, i.change_id, i.version, i.event_type, i.payload, i.entry_id, i.at, f.seq AS base
),
s AS (
    SELECT p.bucket, p.payment_id, p.change_id, p.version, p.event_type, p.payload, p.entry_id, p.at,
        p.base + row_number() OVER (PARTITION BY p.bucket ORDER BY p.payment_id) AS seq
    FROM p
),
a AS (
    INSERT INTO attempts (bucket, attempt_id, payment_id, kind, psp, amount, status, outcome, route_reason, code, detail,
        psp_ref, client_key, sent_at, next_check_at, updated_at)
    SELECT t.bucket, t.attempt_id, t.payment_id, t.kind, t.psp, t.amount, t.status, t.outcome, t.route_reason, t.code, t.detail,
        t.psp_ref, t.client_key, t.sent_at, t.next_check_at, t.at
    FROM unnest($24::TEXT[], $25::TEXT[], $26::TEXT[], $27::TEXT[], $28::INT8[], $29::TEXT[], $30::TEXT[], $31::TEXT[],
        $32::TEXT[], $33::TEXT[], $34::TEXT[], $35::TEXT[], $36::TIMESTAMPTZ[], $37::TIMESTAMPTZ[], $38::INT4[], $39::TIMESTAMPTZ[])
        AS t(payment_id, attempt_id, kind, psp, amount, status, outcome, route_reason, code, detail, psp_ref, client_key, sent_at,
        next_check_at, bucket, at)
    WHERE (t.payment_id IN (SELECT s.payment_id FROM s)) IS TRUE
    ON CONFLICT (bucket, attempt_id) DO UPDATE SET status = excluded.status, outcome = excluded.outcome, code = excluded.code,
        detail = excluded.detail, psp_ref = excluded.psp_ref, next_check_at = excluded.next_check_at,
        updated_at = excluded.updated_at
),
r AS (
    INSERT INTO refunds (bucket, refund_id, payment_id, attempt_id, amount, status, shares, code, detail, created_at, updated_at)
    SELECT s.bucket, t.refund_id, s.payment_id, t.attempt_id, t.amount, t.status, t.shares::JSONB, t.code, t.detail, s.at, s.at
    FROM s JOIN unnest($40::TEXT[], $41::TEXT[], $42::TEXT[], $43::INT8[], $44::TEXT[], $45::TEXT[], $46::TEXT[], $47::TEXT[])
        AS t(payment_id, refund_id, attempt_id, amount, status, shares, code, detail) ON t.payment_id = s.payment_id
    ON CONFLICT (bucket, refund_id) DO UPDATE SET status = excluded.status, shares = excluded.shares, code = excluded.code,
        detail = excluded.detail, updated_at = excluded.updated_at
),
k AS (
    INSERT INTO idempotency_keys (bucket, client_id, scope, key, request_hash, payment_id, subject_id, answer_kind, answer,
        created_at)
    SELECT t.bucket, t.client_id, t.scope, t.key, t.request_hash, t.payment_id, t.subject_id, t.answer_kind, t.answer, t.at
    FROM unnest($48::TEXT[], $49::TEXT[], $50::TEXT[], $51::TEXT[], $52::BYTEA[], $53::TEXT[], $54::TEXT[], $55::BYTEA[],
        $56::INT4[], $57::TIMESTAMPTZ[])
        AS t(payment_id, client_id, scope, key, request_hash, subject_id, answer_kind, answer, bucket, at)
    WHERE (t.payment_id IN (SELECT s.payment_id FROM s)) IS TRUE
    ON CONFLICT (bucket, client_id, scope, key) DO UPDATE SET answer_kind = excluded.answer_kind, answer = excluded.answer
    WHERE idempotency_keys.answer_kind IS NULL
),
e AS (
    INSERT INTO journal_entries (bucket, entry_id, seq, kind, payment_id, reason, actor, reverses, created_at)
    SELECT s.bucket, t.entry_id, s.seq, t.kind, s.payment_id, t.reason, t.actor, t.reverses, s.at
    FROM s JOIN unnest($58::TEXT[], $59::TEXT[], $60::TEXT[], $61::TEXT[], $62::TEXT[], $63::TEXT[])
        AS t(payment_id, entry_id, kind, reason, actor, reverses) ON t.payment_id = s.payment_id
    WHERE s.entry_id <> ''
),
l AS (
    SELECT s.bucket, s.seq, t.posting_no, s.entry_id, t.debit_account, t.credit_account, t.amount, t.currency
    FROM s JOIN unnest($64::TEXT[], $65::INT4[], $66::TEXT[], $67::TEXT[], $68::INT8[], $69::TEXT[])
        AS t(payment_id, posting_no, debit_account, credit_account, amount, currency) ON t.payment_id = s.payment_id
    WHERE s.entry_id <> ''
),
ll AS (
    INSERT INTO postings (bucket, seq, posting_no, entry_id, debit_account, credit_account, amount, currency)
    SELECT l.bucket, l.seq, l.posting_no, l.entry_id, l.debit_account, l.credit_account, l.amount, l.currency FROM l
),
sb AS (
    INSERT INTO seller_balances (account, currency, slot, balance)
    SELECT d.account, d.currency, $23::INT4, sum(d.delta)
    FROM (
        SELECT l.credit_account AS account, l.currency, l.amount AS delta FROM l
        WHERE l.credit_account >= 'seller_payable:' AND l.credit_account < 'seller_payable;'
        UNION ALL
        SELECT l.debit_account AS account, l.currency, -l.amount AS delta FROM l
        WHERE l.debit_account >= 'seller_payable:' AND l.debit_account < 'seller_payable;'
    ) d
    GROUP BY d.account, d.currency ORDER BY d.account, d.currency
    ON CONFLICT (account, currency, slot) DO UPDATE SET balance = seller_balances.balance + excluded.balance
),
o AS (
    INSERT INTO outbox (bucket, seq, payment_id, version, change_id, type, payload, created_at)
    SELECT s.bucket, s.seq, s.payment_id, s.version, s.change_id, s.event_type, s.payload::JSONB, s.at FROM s
),
b AS (
    UPDATE buckets SET seq = m.seq
    FROM (SELECT s.bucket, max(s.seq) AS seq FROM s GROUP BY s.bucket) m
    WHERE buckets.bucket = m.bucket
)
SELECT i.payment_id, ((i.bucket, i.epoch) IN (SELECT f.bucket, f.epoch FROM f)) IS TRUE AS owned,
    (i.payment_id IN (SELECT s.payment_id FROM s)) IS TRUE AS written
FROM i`

// change is a Change on its way through a lane. id names it in the outbox, where it is read back if its commit is in
// doubt.
type change struct {
	Change
	id    string
	epoch int64
}

// applyStatement is sqlApply for a batch; slot is the slot of sellers' balances that it writes.
func applyStatement(batch []change, slot int32) statement {
	return statement{sqlApply, applyArguments(batch, slot), len(batch), func(n int) string { return batch[n].Payment.ID }}
}

// applyArguments lays the batch out as one array per column, in the order of sqlApply's placeholders: the changes, then
// what hangs on them.
func applyArguments(batch []change, slot int32) []any {
	args := append(make([]any, 0, 69), changeColumns(batch)...)
	args = append(args, slot)
	args = append(args, attemptColumns(children(batch, func(c change) []Attempt { return c.Attempts }))...)
	args = append(args, refundColumns(children(batch, func(c change) []Refund { return c.Refunds }))...)
	args = append(args, keyColumns(children(batch, func(c change) []Key { return c.Keys }))...)
	args = append(args, entryColumns(children(batch, entryOf))...)
	return append(args, postingColumns(children(batch, postingsOf))...)
}

// child is a row that hangs on a change, with the payment that joins the two, and what it has of its change.
type child[T any] struct {
	payment string
	bucket  int32
	at      time.Time
	no      int
	row     T
}

func children[T any](batch []change, of func(change) []T) []child[T] {
	var out []child[T]
	for _, c := range batch {
		for n, row := range of(c) {
			out = append(out, child[T]{payment: c.Payment.ID, bucket: int32(c.bucket()), at: c.At, no: n, row: row})
		}
	}
	return out
}

func entryOf(c change) []ledger.Entry {
	if c.Entry == nil {
		return nil
	}
	return []ledger.Entry{*c.Entry}
}

// posting is a ledger.Posting with its entry's currency.
type posting struct {
	ledger.Posting
	currency ledger.Currency
}

func postingsOf(c change) []posting {
	if c.Entry == nil {
		return nil
	}
	return column(c.Entry.Postings, func(p ledger.Posting) posting { return posting{p, c.Entry.Currency} })
}

func changeColumns(batch []change) []any {
	return []any{
		column(batch, func(c change) int32 { return int32(c.bucket()) }),
		column(batch, func(c change) int64 { return c.epoch }),
		column(batch, func(c change) string { return c.Payment.ID }),
		column(batch, func(c change) string { return c.id }),
		column(batch, func(c change) string { return string(c.From) }),
		column(batch, func(c change) int64 { return c.Payment.Version }),
		column(batch, func(c change) string { return string(c.Payment.Status) }),
		column(batch, func(c change) string { return c.Payment.PSP }),
		column(batch, func(c change) string { return c.Payment.PSPRef }),
		column(batch, func(c change) int64 { return c.Payment.Captured }),
		column(batch, func(c change) int64 { return c.Payment.Released }),
		column(batch, func(c change) int64 { return c.Payment.Refunding }),
		column(batch, func(c change) int64 { return c.Payment.Refunded }),
		column(batch, func(c change) string { return jsonList(c.Payment.Parts) }),
		column(batch, func(c change) string { return c.Payment.RedirectURL }),
		column(batch, func(c change) string { return c.Payment.FailureCode }),
		column(batch, func(c change) string { return c.Payment.Failure }),
		column(batch, func(c change) *time.Time { return nullTime(c.Payment.ExpiresAt) }),
		column(batch, func(c change) string { return c.Event.Type }),
		column(batch, func(c change) string { return string(c.Event.Payload) }),
		column(batch, func(c change) string { return entryID(c) }),
		column(batch, func(c change) time.Time { return c.At }),
	}
}

func entryID(c change) string {
	if c.Entry == nil {
		return ""
	}
	return c.Entry.ID
}

func attemptColumns(rows []child[Attempt]) []any {
	return []any{
		column(rows, func(c child[Attempt]) string { return c.payment }),
		column(rows, func(c child[Attempt]) string { return c.row.ID }),
		column(rows, func(c child[Attempt]) string { return c.row.Kind }),
		column(rows, func(c child[Attempt]) string { return c.row.PSP }),
		column(rows, func(c child[Attempt]) int64 { return c.row.Amount }),
		column(rows, func(c child[Attempt]) string { return string(c.row.Status) }),
		column(rows, func(c child[Attempt]) string { return c.row.Outcome }),
		column(rows, func(c child[Attempt]) string { return c.row.RouteReason }),
		column(rows, func(c child[Attempt]) string { return c.row.Code }),
		column(rows, func(c child[Attempt]) string { return c.row.Detail }),
		column(rows, func(c child[Attempt]) string { return c.row.PSPRef }),
		column(rows, func(c child[Attempt]) string { return c.row.ClientKey }),
		column(rows, func(c child[Attempt]) time.Time { return c.row.SentAt }),
		column(rows, func(c child[Attempt]) time.Time { return c.row.NextCheckAt }),
		column(rows, func(c child[Attempt]) int32 { return c.bucket }),
		column(rows, func(c child[Attempt]) time.Time { return c.at }),
	}
}

func refundColumns(rows []child[Refund]) []any {
	return []any{
		column(rows, func(c child[Refund]) string { return c.payment }),
		column(rows, func(c child[Refund]) string { return c.row.ID }),
		column(rows, func(c child[Refund]) string { return c.row.AttemptID }),
		column(rows, func(c child[Refund]) int64 { return c.row.Amount }),
		column(rows, func(c child[Refund]) string { return string(c.row.Status) }),
		column(rows, func(c child[Refund]) string { return jsonList(c.row.Shares) }),
		column(rows, func(c child[Refund]) string { return c.row.Code }),
		column(rows, func(c child[Refund]) string { return c.row.Detail }),
	}
}

func keyColumns(rows []child[Key]) []any {
	return []any{
		column(rows, func(c child[Key]) string { return c.payment }),
		column(rows, func(c child[Key]) string { return c.row.ClientID }),
		column(rows, func(c child[Key]) string { return c.row.Scope }),
		column(rows, func(c child[Key]) string { return c.row.Key }),
		column(rows, func(c child[Key]) []byte { return c.row.RequestHash[:] }),
		column(rows, func(c child[Key]) string { return c.row.SubjectID }),
		column(rows, func(c child[Key]) *string { return nullText(c.row.AnswerKind) }),
		column(rows, func(c child[Key]) []byte { return c.row.Answer }),
		column(rows, func(c child[Key]) int32 { return c.bucket }),
		column(rows, func(c child[Key]) time.Time { return c.at }),
	}
}

func entryColumns(rows []child[ledger.Entry]) []any {
	return []any{
		column(rows, func(c child[ledger.Entry]) string { return c.payment }),
		column(rows, func(c child[ledger.Entry]) string { return c.row.ID }),
		column(rows, func(c child[ledger.Entry]) string { return string(c.row.Kind) }),
		column(rows, func(c child[ledger.Entry]) string { return c.row.Reason }),
		column(rows, func(c child[ledger.Entry]) string { return c.row.Actor }),
		column(rows, func(c child[ledger.Entry]) *string { return nullText(c.row.Reverses) }),
	}
}

func postingColumns(rows []child[posting]) []any {
	return []any{
		column(rows, func(c child[posting]) string { return c.payment }),
		column(rows, func(c child[posting]) int32 { return int32(c.no) }),
		column(rows, func(c child[posting]) string { return string(c.row.Debit) }),
		column(rows, func(c child[posting]) string { return string(c.row.Credit) }),
		column(rows, func(c child[posting]) int64 { return c.row.Minor }),
		column(rows, func(c child[posting]) string { return string(c.row.currency) }),
	}
}
