package payment

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/shard"
	"paygrid/shard/shardtest"
)

// town is one shard full of payments in every state, each opened under a key that names it, and the witness's books of
// them. Faults are planted in copies of it.
type town struct {
	*bench
	database string
	witness  []Moved
	copies   atomic.Int64
}

// oursAlone is a sale that is all commission: its postings touch no seller's live balance, so a fault in them shows as itself.
func oursAlone(key string) AuthorizeCommand {
	c := p10(key, "pm_ok", Automatic)
	c.Splits = []ledger.Split{{SellerID: "s-ann", Minor: 10000, CommissionMinor: 10000}}
	return c
}

func newTown(t *testing.T) *town {
	b := newBench(t, setup{shards: 1})
	charged := func(key string) string { return b.authorizes(p10(key, "pm_ok", Automatic), KindCharged).PaymentID }
	reserved := func(key, token string) string { return b.authorizes(p10(key, token, Manual), KindAuthorized).PaymentID }
	expect := func(want Kind) func(Answer, error) {
		return func(answer Answer, err error) { b.expect(answer, err, want) }
	}
	charged("captured")
	reserved("authorized", "pm_ok")
	b.authorizes(p10("pending", "pm_ok_drop", Manual), KindProcessing)
	b.authorizes(p10("declined", "pm_decline", Manual), KindDeclined)
	b.authorizes(p10("failed", "pm_503", Manual), KindUnavailable)
	b.authorizes(p10("redirected", "pm_3ds", Manual), KindActionRequired)
	expect(KindVoided)(b.voids("v", reserved("voided", "pm_ok")))
	expect(KindProcessing)(b.voids("v", reserved("voiding", "pm_ok_void_drop")))
	part := reserved("part", "pm_ok")
	expect(KindCaptured)(b.captures("c1", part, eur(6000)))
	expect(KindRefunded)(b.refundsOf("r1", part, eur(1000)))
	expect(KindProcessing)(b.captures("c", reserved("capturing", "pm_ok_capture_drop"), eur(6000)))
	expect(KindRefunded)(b.refundsOf("r1", charged("refunded"), nil))
	refunding := b.authorizes(p10("refund pending", "pm_ok_refund_pending", Automatic), KindCharged).PaymentID
	expect(KindProcessing)(b.refundsOf("r1", refunding, eur(4000)))
	expect(KindRefused)(b.refundsOf("r", b.authorizes(p10("refund refused", "pm_ok_refund_decline", Automatic), KindCharged).PaymentID, eur(1000)))
	b.authorizes(oursAlone("ours"), KindCharged)
	reversed := b.authorizes(oursAlone("reversed"), KindCharged).PaymentID
	if _, err := b.Reverse(b.ctx, reversed, b.entries(reversed)[0].ID, "booked in error", "u-kim"); err != nil {
		t.Fatal(err)
	}
	expired := reserved("expired", "pm_ok")
	b.layout.Exec(t, "shard-1", `UPDATE payments SET expires_at = created_at WHERE payment_id = $1`, expired)
	if n, err := b.ExpireOn(b.ctx, "shard-1"); err != nil || n != 1 {
		t.Fatalf("%d expired, %v", n, err)
	}
	if _, err := b.shards.RollUp(b.ctx, "shard-1"); err != nil {
		t.Fatal(err)
	}
	w := &town{bench: b, witness: b.moved()}
	admin := b.layout.Admin["shard-1"]
	w.database = admin[strings.LastIndex(admin, "/")+1:]
	w.database, _, _ = strings.Cut(w.database, "?")
	return w
}

// copied opens a copy of the town's shard, as the one shard of a cluster.
func (w *town) copied(t *testing.T) (*shard.Cluster, shardtest.Layout) {
	t.Helper()
	ctx := context.Background()
	engine := databases.DB.Engine(t)
	database := fmt.Sprintf("town_%d", w.copies.Add(1))
	if err := engine.CreateFromTemplate(ctx, database, w.database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.DropDatabase(context.Background(), database) })
	l := shardtest.Layout{Names: w.layout.Names, Admin: map[string]string{"shard-1": engine.AdminURL(database)},
		URLs: map[string]string{"shard-1": engine.URL(database, "paygrid_app", "paygrid-test")}, MapPath: filepath.Join(t.TempDir(), "shards.json")}
	l.Map = shard.EvenMap(l.Names, l.URLs)
	if err := shard.NewMapFile(l.MapPath).Write(l.Map); err != nil {
		t.Fatal(err)
	}
	return l.Open(t, shard.Options{}), l
}

// found are the invariants that the report names, each once, in order.
func found(r *Report) string {
	names := map[string]bool{}
	for _, f := range r.Findings {
		names[f.Invariant] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), " ")
}

// plants are faults in the database, and exactly what must be found of each. $1 is the payment opened under the key.
var plants = []struct{ name, key, sql, want string }{
	{"a bucket that nobody owns", "", `UPDATE buckets SET state = 'FROZEN' WHERE bucket = (SELECT min(bucket) FROM buckets WHERE seq = 0)`, "S2"},
	{"a version too many", "captured", `UPDATE payments SET version = version + 1 WHERE payment_id = $1`, "S3"},
	{"an event of another version", "part", `UPDATE outbox SET version = version + 50 WHERE payment_id = $1 AND version = 2`, "S3"},
	{"a sequence ahead of its events", "captured", `UPDATE buckets SET seq = seq + 1 WHERE bucket = (SELECT bucket FROM payments WHERE payment_id = $1)`, "S4"},
	{"an event lost", "part", `DELETE FROM outbox WHERE payment_id = $1 AND version = 3`, "S3 S4"},
	{"an entry without its event", "ours", `WITH e AS (UPDATE journal_entries SET seq = seq + 50 WHERE payment_id = $1 RETURNING bucket, entry_id)
		UPDATE postings p SET seq = p.seq + 50 FROM e WHERE p.bucket = e.bucket AND p.entry_id = e.entry_id`, "L4 S4"},

	{"an entry without postings", "ours", `DELETE FROM postings WHERE entry_id IN (SELECT entry_id FROM journal_entries WHERE payment_id = $1)`, "L1 L4 L5"},
	{"postings without their entry", "ours", `DELETE FROM journal_entries WHERE payment_id = $1`, "L1 L5"},
	{"an account that the chart does not have", "reversed", `UPDATE postings SET debit_account = 'slush' WHERE entry_id IN
		(SELECT entry_id FROM journal_entries WHERE payment_id = $1 AND kind = 'reversal')`, "L1 L4 L5"},
	{"a posting in another currency", "ours", `UPDATE postings SET currency = 'USD' WHERE entry_id IN (SELECT entry_id FROM journal_entries WHERE payment_id = $1)`, "L2 L4"},
	{"a seller's live balance", "", `UPDATE seller_balances SET balance = balance + 1 WHERE account = 'seller_payable:s-bob'`, "L4"},
	{"a roll-up", "", `UPDATE rollups SET debits = debits + 1 WHERE account = 'psp_receivable:stripe'`, "L4"},
	{"a capture posted for less", "ours", `UPDATE postings SET amount = amount - 1 WHERE entry_id IN (SELECT entry_id FROM journal_entries WHERE payment_id = $1)`, "L4 L5"},
	{"a capture that was not posted", "ours", `WITH e AS (DELETE FROM journal_entries WHERE payment_id = $1 RETURNING bucket, entry_id)
		DELETE FROM postings p USING e WHERE p.bucket = e.bucket AND p.entry_id = e.entry_id`, "L4 L5"},
	{"a refund posted twice", "part", `WITH e AS (SELECT bucket, entry_id, kind, payment_id, reason, actor, reverses, created_at FROM journal_entries WHERE payment_id = $1 AND kind = 'refund'),
		i AS (INSERT INTO journal_entries SELECT bucket, entry_id || 'x', 1, kind, payment_id, reason, actor, reverses, created_at FROM e)
		INSERT INTO postings SELECT p.bucket, 1, p.posting_no, p.entry_id || 'x', p.debit_account, p.credit_account, p.amount, p.currency
		FROM postings p JOIN e ON e.bucket = p.bucket AND e.entry_id = p.entry_id`, "L4 L5"},
	{"a cent to the other seller", "captured", `UPDATE postings SET amount = amount + CASE credit_account WHEN 'seller_payable:s-ann' THEN 1 WHEN 'seller_payable:s-bob' THEN -1 ELSE 0 END
		WHERE entry_id IN (SELECT entry_id FROM journal_entries WHERE payment_id = $1)`, "L4 L5"},
	{"a reversal that mirrors too little", "reversed", `UPDATE postings SET amount = amount - 1 WHERE entry_id IN
		(SELECT entry_id FROM journal_entries WHERE payment_id = $1 AND kind = 'reversal')`, "L4 L5"},
	{"a reversal of nothing", "reversed", `UPDATE journal_entries SET reverses = 'capture:nothing' WHERE payment_id = $1 AND kind = 'reversal'`, "L5"},

	{"a second successful authorization", "authorized", `INSERT INTO attempts
		(bucket, attempt_id, payment_id, kind, psp, amount, status, outcome, route_reason, code, detail, psp_ref, client_key, sent_at, next_check_at, updated_at)
		SELECT bucket, attempt_id || 'x', payment_id, kind, psp, amount, status, outcome, '', '', '', psp_ref, '', sent_at, next_check_at, updated_at FROM attempts WHERE payment_id = $1`, "P2 P3"},
	{"an authorization that did not succeed", "authorized", `UPDATE attempts SET status = 'FAILED' WHERE payment_id = $1`, "P2 P3 P6"},
	{"a payment lost", "declined", `DELETE FROM payments WHERE payment_id = $1`, "P3"},
	{"splits of another seller", "captured", `UPDATE payments SET splits = replace(splits::TEXT, 's-ann', 's-eve')::JSONB WHERE payment_id = $1`, "P4"},
	{"a split too few", "captured", `UPDATE payments SET splits = splits - 0 WHERE payment_id = $1`, "P4"},
	{"parts of more than was captured", "authorized", `UPDATE payments SET parts = jsonb_set(parts, '{0,c}', '1') WHERE payment_id = $1`, "L5 P4"},
	{"parts out of order", "authorized", `UPDATE payments SET parts = jsonb_set(jsonb_set(parts, '{0,c}', '-1'), '{1,c}', '1') WHERE payment_id = $1`, "L5 P4"},
	{"a refund under way that no refund is", "captured", `UPDATE payments SET refunding = 1 WHERE payment_id = $1`, "P4"},
	{"a refund of another amount", "refund pending", `UPDATE refunds SET amount = amount + 1 WHERE payment_id = $1`, "P4 P5"},
	{"a capture undone by hand", "captured", `UPDATE payments SET status = 'AUTHORIZED' WHERE payment_id = $1`, "P5"},
	{"a partial capture called whole", "part", `UPDATE payments SET status = 'CAPTURED' WHERE payment_id = $1`, "P5"},
	{"an authorization called pending", "authorized", `UPDATE payments SET status = 'CAPTURE_PENDING' WHERE payment_id = $1`, "P5"},
	{"a pending capture forgotten", "capturing", `UPDATE payments SET status = 'AUTHORIZED' WHERE payment_id = $1`, "P5"},
	{"a pending void forgotten", "voiding", `UPDATE payments SET status = 'AUTHORIZED' WHERE payment_id = $1`, "P5"},
	{"a decline called a failure", "declined", `UPDATE payments SET status = 'FAILED' WHERE payment_id = $1`, "P5"},
	{"a failure called a decline", "failed", `UPDATE payments SET status = 'DECLINED' WHERE payment_id = $1`, "P5"},
	{"an authorization called expired", "authorized", `UPDATE payments SET status = 'EXPIRED' WHERE payment_id = $1`, "P5"},
	{"an end called voided", "expired", `UPDATE payments SET status = 'VOIDED' WHERE payment_id = $1`, "P3 P5"},
	{"a void called expiry", "voided", `UPDATE payments SET status = 'EXPIRED' WHERE payment_id = $1`, "P5"},
	{"a refund whose attempt ended otherwise", "refund refused", `UPDATE attempts SET status = 'SUCCEEDED' WHERE payment_id = $1 AND kind = 'REFUND'`, "P5 P6"},
	{"a refund lost", "refund refused", `DELETE FROM refunds WHERE payment_id = $1`, "P5 P6"},
	{"a pending attempt closed by a clock", "pending", `UPDATE attempts SET status = 'FAILED' WHERE payment_id = $1`, "P3 P5 P6"},

	{"a key lost", "captured", `DELETE FROM idempotency_keys WHERE payment_id = $1`, "P6"},
	{"the key of a refund lost", "part", `DELETE FROM idempotency_keys WHERE payment_id = $1 AND subject_id LIKE 'ref_%'`, "P6"},
	{"an answer lost", "captured", `UPDATE idempotency_keys SET answer_kind = NULL, answer = NULL WHERE payment_id = $1`, "P6"},
	{"an answer before its time", "pending", `UPDATE idempotency_keys SET answer_kind = 'AUTHORIZED', answer = '{}' WHERE payment_id = $1`, "P6"},
	{"an answer that says otherwise", "captured", `UPDATE idempotency_keys SET answer_kind = 'DECLINED' WHERE payment_id = $1`, "P6"},
	{"a redirect's answer made final", "redirected", `UPDATE idempotency_keys SET answer_kind = 'DECLINED' WHERE payment_id = $1`, "P6"},
	{"an answer about another payment", "captured", `UPDATE idempotency_keys SET answer = '{"id":"pay_other"}' WHERE payment_id = $1`, "P6"},
	{"a key of something else", "captured", `UPDATE idempotency_keys SET subject_id = 'att_other' WHERE payment_id = $1`, "P6"},
}

// A clean run finds nothing; each fault is found as what it is.
func TestVerifyFindsEveryPlantedFault(t *testing.T) {
	w := newTown(t)
	r := w.sound()
	if r.Payments != 16 || r.Shards != 1 || r.Buckets != shard.Buckets || r.Pending != 5 || r.Witnessed != len(w.witness) || r.Keys == 0 || r.Entries == 0 || r.Events == 0 {
		t.Errorf("the clean run saw %+v", r)
	}
	ids := map[string]string{}
	for _, p := range plants {
		if p.key != "" {
			ids[p.key] = w.paymentOf(p.key)
		}
	}
	w.shards.Close() // a template has no other sessions
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			shards, layout := w.copied(t)
			for _, constraint := range []string{"captured", "refunded"} { // the fault is that they did not hold
				layout.Exec(t, "shard-1", `ALTER TABLE payments DROP CONSTRAINT payments_`+constraint)
			}
			var args []any
			if p.key != "" {
				args = append(args, ids[p.key])
			}
			layout.Exec(t, "shard-1", p.sql, args...)
			r, err := Verify(context.Background(), shards, w.witness)
			if err != nil {
				t.Fatal(err)
			}
			if got := found(r); got != p.want || r.Pass() {
				t.Errorf("found %q, want %q: %+v", got, p.want, r.Findings)
			}
			if strings.Contains(p.want, "L") != (r.Unbalanced > 0) {
				t.Errorf("%d unbalanced", r.Unbalanced)
			}
		})
	}
	t.Run("witness", func(t *testing.T) { verifyWitness(t, w, ids) })
}

// verifyWitness plants faults in the witness's books.
func verifyWitness(t *testing.T, w *town, ids map[string]string) {
	shards, _ := w.copied(t)
	index := func(key string) int {
		s, err := shards.Snapshot(context.Background(), ids[key])
		if err != nil {
			t.Fatal(err)
		}
		n := slices.IndexFunc(w.witness, func(m Moved) bool {
			a, ok := attemptOf(s, m.Attempt)
			return ok && a.Kind == AttemptAuthorize
		})
		if n < 0 {
			t.Fatalf("the witness does not know %s", key)
		}
		return n
	}
	alter := func(key string, change func(*Moved)) func([]Moved) []Moved {
		return func(books []Moved) []Moved {
			change(&books[index(key)])
			return books
		}
	}
	for name, row := range map[string]struct {
		plant         func([]Moved) []Moved
		want          string
		doubles, lost int
	}{
		"as it is":             {func(b []Moved) []Moved { return b }, "", 0, 0},
		"charged twice":        {alter("captured", func(m *Moved) { m.Charges = 2 }), "P2", 1, 0},
		"two of one reference": {func(b []Moved) []Moved { return append(b, b[index("captured")]) }, "P2", 1, 0},
		"a charge of nobody":   {func(b []Moved) []Moved { return append(b, Moved{Attempt: "att_x", Captured: 5, Charges: 1}) }, "P3", 0, 1},
		"a hold of nobody":     {func(b []Moved) []Moved { return append(b, Moved{Attempt: "att_x", Authorized: 5, Charges: 1}) }, "P3", 0, 1},
		"a released hold": {func(b []Moved) []Moved {
			return append(b, Moved{Attempt: "att_x", Authorized: 5, Voided: true, Charges: 1})
		}, "", 0, 0},
		"a decline charged":      {alter("declined", func(m *Moved) { m.Authorized, m.Captured = 10000, 10000 }), "P3", 0, 1},
		"a decline held":         {alter("declined", func(m *Moved) { m.Authorized = 10000 }), "P3", 0, 1},
		"another amount":         {alter("authorized", func(m *Moved) { m.Authorized = 1 }), "P3", 0, 0},
		"another currency":       {alter("authorized", func(m *Moved) { m.Currency = "USD" }), "P3", 0, 0},
		"captured less":          {alter("captured", func(m *Moved) { m.Captured-- }), "P3", 0, 0},
		"captured more":          {alter("captured", func(m *Moved) { m.Captured++ }), "P3", 0, 0},
		"captured while pending": {alter("capturing", func(m *Moved) { m.Captured = 6000 }), "", 0, 0},
		"not yet captured":       {alter("capturing", func(m *Moved) { m.Captured = 0 }), "", 0, 0},
		"more than pending":      {alter("capturing", func(m *Moved) { m.Captured = 6001 }), "P3", 0, 0},
		"refunded more":          {alter("part", func(m *Moved) { m.Refunded++ }), "P3", 0, 0},
		"refunded less":          {alter("part", func(m *Moved) { m.Refunded-- }), "P3", 0, 0},
		"refund pending, done":   {alter("refund pending", func(m *Moved) { m.Refunded = 4000 }), "", 0, 0},
		"refund pending, not":    {alter("refund pending", func(m *Moved) { m.Refunded = 0 }), "", 0, 0},
		"voided there":           {alter("authorized", func(m *Moved) { m.Voided = true }), "P3", 0, 0},
		"not voided there":       {alter("voided", func(m *Moved) { m.Voided = false }), "P3", 0, 0},
		"void pending, not":      {alter("voiding", func(m *Moved) { m.Voided = false }), "", 0, 0},
		"unknown, charged":       {alter("pending", func(m *Moved) { m.Captured = 10000 }), "", 0, 0},
		"a success of ours alone": {func(b []Moved) []Moved {
			return slices.Delete(b, index("captured"), index("captured")+1)
		}, "P3", 0, 0},
	} {
		r, err := Verify(context.Background(), shards, row.plant(slices.Clone(w.witness)))
		if err != nil {
			t.Fatal(err)
		}
		if got := found(r); got != row.want || r.DoubleCharges != row.doubles || r.Lost != row.lost || r.Pass() != (row.want == "") {
			t.Errorf("%s: found %q, doubles %d, lost %d: %+v", name, got, r.DoubleCharges, r.Lost, r.Findings)
		}
	}
	// Without a witness nothing is asked of one.
	if r, err := Verify(context.Background(), shards, nil); err != nil || !r.Pass() || r.Witnessed != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A success that came after the end: what is known of it here, and what the witness may say of it before and after it was
// given back.
func TestVerifyLateSuccess(t *testing.T) {
	late := func(mode CaptureMode) (*book, string) {
		b := opened(t, p10("k", "pm_ok", mode))
		id := b.Attempts[0].ID
		b.mustSettle(t, id, psprouter.DeclinedWith("no", "no"))
		o := psprouter.ApprovedAs("pi_1")
		o.Captured = mode == Automatic
		change, _, err := learn(b.Snapshot, nil, id, fact{outcome: o}, noon, lifetime)
		if err != nil {
			t.Fatal(err)
		}
		b.take(t, change)
		return b, id
	}
	giveBack := func(b *book) {
		change, _, err := learn(b.Snapshot, nil, b.Attempts[1].ID, fact{outcome: psprouter.ApprovedAs("x")}, noon, lifetime)
		if err != nil {
			t.Fatal(err)
		}
		b.take(t, change)
	}
	for name, row := range map[string]struct {
		mode CaptureMode
		back bool
		w    Moved
		want string
	}{
		"charged":                  {Automatic, false, Moved{Captured: 10000}, ""},
		"charged, being returned":  {Automatic, false, Moved{Captured: 10000, Refunded: 10000}, ""},
		"charged there for less":   {Automatic, false, Moved{Captured: 9999}, "P3"},
		"returned":                 {Automatic, true, Moved{Captured: 10000, Refunded: 10000}, ""},
		"returned here alone":      {Automatic, true, Moved{Captured: 10000}, "P3"},
		"held":                     {Manual, false, Moved{}, ""},
		"held here, charged there": {Manual, false, Moved{Captured: 10000}, "P3"},
		"released":                 {Manual, true, Moved{Voided: true}, ""},
		"released here alone":      {Manual, true, Moved{}, "P3"},
	} {
		b, id := late(row.mode)
		if row.back {
			giveBack(b)
		}
		row.w.Attempt, row.w.Authorized, row.w.Currency, row.w.Charges = id, 10000, "EUR", 1
		own := &books{payment: b.Payment, attempts: b.Attempts, entries: posted(b)}
		var r Report
		r.payment(own)
		r.compare(own, map[string]Moved{id: row.w})
		if got := found(&r); got != row.want {
			t.Errorf("%s: found %q, want %q: %+v", name, got, row.want, r.Findings)
		}
	}
}

// The list of findings is bounded, the counts are not.
func TestFindingsAreBounded(t *testing.T) {
	var r Report
	for range maxFindings + 5 {
		r.find("L1", "x", "y")
	}
	if len(r.Findings) != maxFindings || r.Unbalanced != maxFindings+5 || r.Pass() {
		t.Errorf("%d findings, %d unbalanced", len(r.Findings), r.Unbalanced)
	}
}

// A shard that cannot be read is an error, never a clean bill.
func TestVerifyWithoutAShard(t *testing.T) {
	b := newBench(t, setup{Options: shard.Options{CallTimeout: 1e9, StatementTimeout: 1e9}})
	end := b.outage("k")
	defer end()
	if r, err := Verify(b.ctx, b.shards, nil); err == nil {
		t.Errorf("%+v", r)
	}
	if _, err := Explain(b.ctx, b.shards, shard.NewID(shard.PaymentPrefix, shard.BucketOf("tk_shop_a", "k"), noon)); err == nil {
		t.Error("explained without the shard")
	}
}
