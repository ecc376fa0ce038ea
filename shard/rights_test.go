package shard_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"paygrid/shard"
)

const noRight = "42501"

// tables are those that this package writes.
var tables = []string{
	"journal_entries", "postings", "payments", "attempts", "refunds", "idempotency_keys", "outbox", "buckets", "seller_balances",
	"rollups", "leases", "relay_cursors", "parked_payments",
}

// TestRightsOfTheServices (L3): the role of the services cannot change or remove what is in the ledger, remove anything
// but events, or change a table. The server refuses each, whatever the code above it does.
func TestRightsOfTheServices(t *testing.T) {
	t.Parallel()
	c := open(t, 1, shard.Options{})
	c.captured(t, "shop", "k1")
	app := connect(t, c.layout.URLs["shard-1"])
	refuse := []string{
		"UPDATE journal_entries SET reason = 'x'", "UPDATE postings SET amount = 1", "UPDATE outbox SET payload = '{}'",
		"INSERT INTO buckets (bucket, epoch, state) VALUES (1, 1, 'OWNED')",
		"SELECT e.seq FROM journal_entries e FOR UPDATE", "SELECT p.seq FROM postings p FOR SHARE",
		"INSERT INTO postings SELECT p.bucket, p.seq, p.posting_no, p.entry_id, p.debit_account, p.credit_account, p.amount, " +
			"p.currency FROM postings p ON CONFLICT (bucket, seq, posting_no) DO UPDATE SET amount = 1",
		"CREATE TABLE mine (a INT4)", "CREATE SCHEMA mine", "ALTER TABLE payments ADD COLUMN mine INT4",
		"ALTER TABLE payments DROP CONSTRAINT payments_captured", "DROP TABLE postings", "DROP INDEX outbox_payment_version",
		"CREATE INDEX ON payments (psp)", "ALTER TABLE postings DISABLE TRIGGER ALL", "SET session_replication_role = replica",
		"GRANT UPDATE ON postings TO paygrid_app",
	}
	for _, table := range tables {
		refuse = append(refuse, "TRUNCATE "+table)
		if table != "outbox" { // published events are removed in the end: TestPruneNeverOutrunsTheRelay
			refuse = append(refuse, "DELETE FROM "+table)
		}
	}
	for _, sql := range refuse {
		_, err := app.Exec(context.Background(), sql)
		if sqlState(err) != noRight && !toldAsWarning(t, app, sql, err) {
			t.Errorf("%s: %v, want SQLSTATE %s", sql, err, noRight)
		}
	}
	c.expectPosted(t, 1)
	c.sound(t)
}

// toldAsWarning: GRANT without the right to is a warning, and grants nothing.
func toldAsWarning(t *testing.T, app *conn, sql string, err error) bool {
	t.Helper()
	return err == nil && sql == "GRANT UPDATE ON postings TO paygrid_app" &&
		app.count(t, "SELECT count(*) FROM pg_catalog.pg_class c WHERE c.relname = 'postings' AND has_table_privilege(c.oid, 'UPDATE')") == 0
}

// TestConstraints: what the database holds even against its owner. Each row breaks one constraint and no other.
func TestConstraints(t *testing.T) {
	t.Parallel()
	c := open(t, 1, shard.Options{})
	o := c.captured(t, "shop", "k1")
	must(t, c.Apply(context.Background(), refund(t, capture(t, o).Payment, 1000)))
	owner := connect(t, c.layout.Admin["shard-1"])
	tried := map[string]bool{}
	for _, x := range violations {
		_, err := owner.Exec(context.Background(), x.sql)
		if got := constraintOf(err); got != x.constraint {
			t.Errorf("%s: broke %q (%v), want %s", x.sql, got, err, x.constraint)
		}
		tried[x.constraint] = true
	}
	rows, err := owner.Query(context.Background(), "SELECT c.conname FROM pg_catalog.pg_constraint c WHERE c.contype = 'c'"+
		" AND c.connamespace = 'public'::regnamespace AND c.conrelid::regclass::TEXT = ANY($1)", tables)
	must(t, err)
	checks, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	for _, name := range checks {
		if !tried[name] {
			t.Errorf("no row breaks the CHECK %s: add one to the list", name)
		}
	}
	c.sound(t)
}

const parkedRow = "INSERT INTO parked_payments (bucket, payment_id, seq, state, tries, reason, next_try_at, parked_at, updated_at) VALUES ("

// violations are statements that break one constraint each.
var violations = []struct{ constraint, sql string }{
	{"payments_captured", "UPDATE payments SET captured = 10001"},
	{"payments_captured", "UPDATE payments SET released = 1"},
	{"payments_captured", "UPDATE payments SET released = -1"},
	{"payments_refunded", "UPDATE payments SET refunded = 10001"},
	{"payments_refunded", "UPDATE payments SET refunding = 9001"},
	{"payments_refunded", "UPDATE payments SET refunding = -1"},
	{"payments_authorized", "UPDATE payments SET authorized = 0, captured = 0, refunded = 0"},
	{"payments_status", "UPDATE payments SET status = 'PAID'"},
	{"payments_mode", "UPDATE payments SET capture_mode = 'later'"},
	{"payments_version", "UPDATE payments SET version = 0"},
	{"attempts_kind", "UPDATE attempts SET kind = 'CHARGE'"},
	{"attempts_status", "UPDATE attempts SET status = 'UNKNOWN'"},
	{"attempts_amount", "UPDATE attempts SET amount = 0"},
	{"refunds_status", "UPDATE refunds SET status = 'DONE'"},
	{"refunds_amount", "UPDATE refunds SET amount = 0"},
	{"keys_length", "UPDATE idempotency_keys SET key = ''"},
	{"keys_length", "UPDATE idempotency_keys SET key = repeat('x', 256)"},
	{"keys_hash", "UPDATE idempotency_keys SET request_hash = 'x'"},
	{"keys_answer", "UPDATE idempotency_keys SET answer = NULL"},
	{"postings_amount", "UPDATE postings SET amount = 0"},
	{"postings_accounts", "UPDATE postings SET credit_account = debit_account"},
	{"journal_entries_reverses", "UPDATE journal_entries SET reverses = entry_id"},
	{"journal_entries_pkey", "UPDATE journal_entries SET entry_id = 'same'"},
	{"rollups_sums", "INSERT INTO rollups (bucket, account, currency, debits, credits) VALUES (1, 'x', 'EUR', -1, 0)"},
	{"buckets_range", "UPDATE buckets SET bucket = 4096 WHERE bucket = 1"},
	{"buckets_range", "UPDATE buckets SET bucket = -1 WHERE bucket = 1"},
	{"buckets_epoch", "UPDATE buckets SET epoch = 0"},
	{"buckets_state", "UPDATE buckets SET state = 'LOST'"},
	{"buckets_seq", "UPDATE buckets SET rollup_seq = seq + 1"},
	{"outbox_payment_version", "UPDATE outbox SET version = 1"},
	{"relay_cursors_seq", "INSERT INTO relay_cursors (bucket, seq, pruned, token, updated_at) VALUES (1, 1, 2, 1, now())"},
	{"relay_cursors_seq", "INSERT INTO relay_cursors (bucket, seq, pruned, token, updated_at) VALUES (1, 1, -1, 1, now())"},
	{"parked_payments_state", parkedRow + "1, 'pay', 1, 'LOST', 1, '', now(), now(), now())"},
	{"parked_payments_tries", parkedRow + "1, 'pay', 1, 'PARKED', -1, '', now(), now(), now())"},
}
