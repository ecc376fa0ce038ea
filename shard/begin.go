package shard

import "time"

// sqlBegin opens payments: the key, the payment, its first attempt and its event, for a batch, in one commit.
//
//	f  locks the bucket rows in order and is the fence
//	k  takes the keys; a key that exists drops its opening out
//	s  numbers what is left, without a gap
//
// Two copies of one request in the same batch meet at k: the second finds the key taken. It relies on the primary keys
// alone.
const sqlBegin = `
WITH i AS (
    SELECT t.bucket, t.epoch, t.client_id, t.key, t.request_hash, t.payment_id, t.order_id, t.customer_id, t.psp, t.currency,
        t.authorized, t.capture_mode, t.method, t.splits, t.parts, t.return_url, t.attempt_id, t.route_reason,
        t.next_check_at, t.event_type, t.payload, t.created_at
    FROM unnest($1::INT4[], $2::INT8[], $3::TEXT[], $4::TEXT[], $5::BYTEA[], $6::TEXT[], $7::TEXT[], $8::TEXT[], $9::TEXT[],
        $10::TEXT[], $11::INT8[], $12::TEXT[], $13::TEXT[], $14::TEXT[], $15::TEXT[], $16::TEXT[], $17::TEXT[], $18::TEXT[],
        $19::TIMESTAMPTZ[], $20::TEXT[], $21::TEXT[], $22::TIMESTAMPTZ[])
        AS t(bucket, epoch, client_id, key, request_hash, payment_id, order_id, customer_id, psp, currency, authorized,
        capture_mode, method, splits, parts, return_url, attempt_id, route_reason, next_check_at, event_type, payload, created_at)
),
f AS (
    SELECT b.bucket, b.epoch, b.seq FROM buckets b
    WHERE b.bucket = ANY($1::INT4[]) AND b.state = 'OWNED'
    ORDER BY b.bucket FOR NO KEY UPDATE
),
k AS (
    INSERT INTO idempotency_keys (bucket, client_id, scope, key, request_hash, payment_id, subject_id, created_at)
    SELECT i.bucket, i.client_id, 'payments', i.key, i.request_hash, i.payment_id, i.attempt_id, i.created_at
    FROM i WHERE ((i.bucket, i.epoch) IN (SELECT f.bucket, f.epoch FROM f)) IS TRUE
    ON CONFLICT DO NOTHING
    RETURNING payment_id
),
s AS (
    SELECT i.bucket, i.client_id, i.payment_id, i.order_id, i.customer_id, i.psp, i.currency, i.authorized, i.capture_mode,
        i.method, i.splits, i.parts, i.return_url, i.attempt_id, i.key, i.route_reason, i.next_check_at, i.event_type, i.payload,
        i.created_at, f.seq + row_number() OVER (PARTITION BY i.bucket ORDER BY i.payment_id) AS seq
    FROM i JOIN f ON f.bucket = i.bucket WHERE (i.payment_id IN (SELECT k.payment_id FROM k)) IS TRUE
),
p AS (
    INSERT INTO payments (bucket, payment_id, client_id, order_id, customer_id, status, version, psp, psp_ref, currency,
        authorized, captured, released, refunding, refunded, capture_mode, method, splits, parts, return_url, redirect_url,
        failure_code, failure, created_at, updated_at)
    SELECT s.bucket, s.payment_id, s.client_id, s.order_id, s.customer_id, 'AUTH_PENDING', 1, s.psp, '', s.currency,
        s.authorized, 0, 0, 0, 0, s.capture_mode, s.method::JSONB, s.splits::JSONB, s.parts::JSONB, s.return_url, '',
        '', '', s.created_at, s.created_at
    FROM s
),
a AS (
    INSERT INTO attempts (bucket, attempt_id, payment_id, kind, psp, amount, status, outcome, route_reason, code, detail,
        psp_ref, client_key, sent_at, next_check_at, updated_at)
    SELECT s.bucket, s.attempt_id, s.payment_id, 'AUTHORIZE', s.psp, s.authorized, 'PENDING', '', s.route_reason, '', '',
        '', s.key, s.created_at, s.next_check_at, s.created_at
    FROM s
),
o AS (
    INSERT INTO outbox (bucket, seq, payment_id, version, change_id, type, payload, created_at)
    SELECT s.bucket, s.seq, s.payment_id, 1, s.payment_id, s.event_type, s.payload::JSONB, s.created_at
    FROM s
),
b AS (
    UPDATE buckets SET seq = m.seq
    FROM (SELECT s.bucket, max(s.seq) AS seq FROM s GROUP BY s.bucket) m
    WHERE buckets.bucket = m.bucket
)
SELECT i.payment_id, ((i.bucket, i.epoch) IN (SELECT f.bucket, f.epoch FROM f)) IS TRUE AS owned,
    (i.payment_id IN (SELECT s.payment_id FROM s)) IS TRUE AS written
FROM i`

// opening is an Opening on its way through a lane.
type opening struct {
	Opening
	epoch int64
}

// beginStatement is sqlBegin for a batch.
func beginStatement(batch []opening) statement {
	return statement{sqlBegin, beginArguments(batch), len(batch), func(n int) string { return batch[n].Payment.ID }}
}

// beginArguments lays the batch out as one array per column, in the order of sqlBegin's placeholders.
func beginArguments(batch []opening) []any {
	return []any{
		column(batch, func(o opening) int32 { return int32(o.bucket()) }),
		column(batch, func(o opening) int64 { return o.epoch }),
		column(batch, func(o opening) string { return o.Payment.ClientID }),
		column(batch, func(o opening) string { return o.Key.Key }),
		column(batch, func(o opening) []byte { return o.Key.RequestHash[:] }),
		column(batch, func(o opening) string { return o.Payment.ID }),
		column(batch, func(o opening) string { return o.Payment.OrderID }),
		column(batch, func(o opening) string { return o.Payment.CustomerID }),
		column(batch, func(o opening) string { return o.Payment.PSP }),
		column(batch, func(o opening) string { return string(o.Payment.Currency) }),
		column(batch, func(o opening) int64 { return o.Payment.Authorized }),
		column(batch, func(o opening) string { return o.Payment.CaptureMode }),
		column(batch, func(o opening) string { return string(o.Payment.Method) }),
		column(batch, func(o opening) string { return jsonList(o.Payment.Splits) }),
		column(batch, func(o opening) string { return jsonList(o.Payment.Parts) }),
		column(batch, func(o opening) string { return o.Payment.ReturnURL }),
		column(batch, func(o opening) string { return o.Attempt.ID }),
		column(batch, func(o opening) string { return o.Attempt.RouteReason }),
		column(batch, func(o opening) time.Time { return o.Attempt.NextCheckAt }),
		column(batch, func(o opening) string { return o.Event.Type }),
		column(batch, func(o opening) string { return string(o.Event.Payload) }),
		column(batch, func(o opening) time.Time { return o.At }),
	}
}
