package shard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"paygrid/shard"
	"paygrid/shard/shardtest"
)

// wholeTables are the statements that read tables whole, and why they may.
var wholeTables = map[string]string{
	"audit sellers": "compares every seller's balance with all postings of the shard; once a night and when asked",
	"audit rollups": "compares every roll-up with all postings of the shard; once a night and when asked",
}

// wholeIndexes are the indexes that a statement reads from end to end, and why it may.
var wholeIndexes = map[[2]string]string{
	{"house balance", "buckets_pkey"}:    "a balance counts every bucket once: 4,096 rows, never more",
	{"seller balance", "buckets_pkey"}:   "likewise",
	{"relay heads", "buckets_pkey"}:      "likewise",
	{"relay unsent", "buckets_pkey"}:     "likewise, and their cursors",
	{"relay lag", "buckets_pkey"}:        "likewise",
	{"relay heads", "buckets_fence"}:     "likewise",
	{"relay lag", "buckets_fence"}:       "likewise",
	{"parked", "parked_payments_held"}:   "a partial index: it holds what is parked, which is what is listed",
	{"inbox lag", "webhook_inbox_due"}:   "a partial index: it holds what waits, which is what is counted",
	{"open approvals", "approvals_open"}: "a partial index: it holds what waits for a person",
	{"switches", "psp_switches_pkey"}:    "one row per PSP",
}

// volume lays as many captured payments as its first statement is told, with their refunds, over all buckets.
var volume = []string{
	`INSERT INTO payments (bucket, payment_id, client_id, order_id, customer_id, status, version, psp, psp_ref, currency, authorized,
    captured, released, refunding, refunded, capture_mode, method, splits, parts, return_url, redirect_url, failure_code, failure,
    expires_at, created_at, updated_at)
SELECT n % 4096, 'pay_' || n, 'c' || n % 10, 'o' || n, '', CASE WHEN n % 20 = 0 THEN 'AUTHORIZED' ELSE 'CAPTURED' END, 2, 'stripe', 'pi_' || n,
    'EUR', 100, 100, 0, 0, 10, 'manual', '{}', '[]', '[]', '', '', '', '', now() + n * INTERVAL '1 second', now(), now()
FROM generate_series(1, $1::INT4) AS n`,
	`INSERT INTO attempts (bucket, attempt_id, payment_id, kind, psp, amount, status, outcome, route_reason, code, detail, psp_ref,
    client_key, sent_at, next_check_at, updated_at)
SELECT p.bucket, 'att_' || p.payment_id, p.payment_id, 'AUTHORIZE', 'stripe', 100,
    CASE WHEN p.bucket % 20 = 0 THEN 'PENDING' ELSE 'SUCCEEDED' END, '', '', '', '', p.psp_ref, '', now(), now(), now()
FROM payments p`,
	`INSERT INTO refunds (bucket, refund_id, payment_id, attempt_id, amount, status, shares, code, detail, created_at, updated_at)
SELECT p.bucket, 'ref_' || p.payment_id, p.payment_id, '', 10, 'SUCCEEDED', '[]', '', '', now(), now() FROM payments p`,
	`INSERT INTO idempotency_keys (bucket, client_id, scope, key, request_hash, payment_id, subject_id, created_at)
SELECT p.bucket, p.client_id, 'payments', p.payment_id, sha256('x'), p.payment_id, '', now() FROM payments p`,
	`INSERT INTO outbox (bucket, seq, payment_id, version, change_id, type, payload, created_at)
SELECT p.bucket, row_number() OVER (PARTITION BY p.bucket ORDER BY p.payment_id), p.payment_id, 1, '', '', '{}', now() FROM payments p`,
	`INSERT INTO journal_entries (bucket, entry_id, seq, kind, payment_id, reason, actor, created_at)
SELECT o.bucket, 'capture:' || o.payment_id, o.seq, 'capture', o.payment_id, '', '', now() FROM outbox o`,
	`INSERT INTO postings (bucket, seq, posting_no, entry_id, debit_account, credit_account, amount, currency)
SELECT e.bucket, e.seq, k, e.entry_id, 'psp_receivable:stripe',
    CASE k WHEN 0 THEN 'seller_payable:s' || e.seq ELSE 'commission_revenue' END, 50, 'EUR'
FROM journal_entries e CROSS JOIN generate_series(0, 1) AS k`,
	`UPDATE buckets SET seq = o.seq FROM (SELECT x.bucket, max(x.seq) AS seq FROM outbox x GROUP BY x.bucket) o WHERE o.bucket = buckets.bucket`,
	`INSERT INTO seller_balances (account, currency, slot, balance) SELECT 'seller_payable:s' || n, 'EUR', 0, 1 FROM generate_series(1, 5000) AS n`,
	`INSERT INTO rollups (bucket, account, currency, debits, credits) SELECT b.bucket, 'commission_revenue', 'EUR', 0, 0 FROM buckets b`,
	`INSERT INTO webhook_inbox (bucket, psp, event_id, kind, attempt_id, reference, original, raw, state, reason, received_at,
    next_try_at, updated_at)
SELECT a.bucket, 'stripe', 'evt_' || a.attempt_id, '', a.attempt_id, '', '', '', CASE WHEN a.bucket % 20 = 0 THEN 'NEW' ELSE 'APPLIED' END,
    '', now(), now(), now() FROM attempts a`,
	`INSERT INTO relay_cursors (bucket, seq, token, updated_at) SELECT b.bucket, b.seq, 1, now() FROM buckets b`,
	`INSERT INTO parked_payments (bucket, payment_id, seq, state, tries, reason, next_try_at, parked_at, updated_at)
SELECT o.bucket, o.payment_id, o.seq, CASE WHEN o.bucket % 100 = 0 THEN 'PARKED' ELSE 'RELEASED' END, 1, '', now(), now(), now()
FROM outbox o WHERE o.bucket % 10 = 0`,
	`ANALYZE`,
}

// fill lays a volume of payments on a shard; 0 leaves its tables as the migrations made them.
func fill(t testing.TB, layout shardtest.Layout, shardName string, payments int) {
	t.Helper()
	for n, sql := range volume {
		switch {
		case payments == 0:
		case n == 0:
			layout.Exec(t, shardName, sql, payments)
		default:
			layout.Exec(t, shardName, sql)
		}
	}
}

// TestPlans prepares every statement as the services do and reads its plan: no table is read whole, and no index from end
// to end. The plan that a connection makes while the tables are empty, or hold the 50 rows from which on the
// server keeps statistics, is the one it keeps, so it must be as good as the one made on full tables. It fails without
// prepareSession's settings: at 120 payments a hash join reads whole indexes.
func TestPlans(t *testing.T) {
	for _, payments := range []int{0, 50, 120, 20_000} {
		t.Run(fmt.Sprintf("%d payments", payments), func(t *testing.T) {
			t.Parallel()
			layout := databases.Layout(t, 1)
			fill(t, layout, "shard-1", payments)
			app := connect(t, layout.URLs["shard-1"])
			must(t, shard.PrepareSession(context.Background(), app.Conn))
			statements := shard.Statements()
			for _, name := range slices.Sorted(maps.Keys(statements)) {
				if wholeTables[name] != "" || name == "place" { // place is the owner's, and reads nothing
					continue
				}
				if faults := app.faults(t, name, app.explain(t, statements[name])); len(faults) > 0 {
					t.Errorf("%s:\n%s", name, strings.Join(faults, "\n"))
				}
			}
		})
	}
}

// node is one step of a plan.
type node struct {
	Kind      string  `json:"Node Type"`
	Operation string  `json:"Operation"`
	Table     string  `json:"Relation Name"`
	Index     string  `json:"Index Name"`
	IndexCond string  `json:"Index Cond"`
	Filter    string  `json:"Filter"`
	Plans     []*node `json:"Plans"`
}

func (n *node) walk(visit func(*node)) {
	visit(n)
	for _, child := range n.Plans {
		child.walk(visit)
	}
}

// explain plans a statement for any arguments, as the pools' sessions do.
func (c *conn) explain(t testing.TB, sql string) *node {
	t.Helper()
	ctx := context.Background()
	described, err := c.Prepare(ctx, "", sql)
	must(t, err)
	c.exec(t, "PREPARE probe AS "+sql)
	defer c.exec(t, "DEALLOCATE probe")
	arguments := strings.TrimSuffix(strings.Repeat("NULL, ", len(described.ParamOIDs)), ", ")
	if arguments != "" {
		arguments = "(" + arguments + ")"
	}
	var out []struct{ Plan *node }
	must(t, json.Unmarshal([]byte(c.text(t, "EXPLAIN (FORMAT JSON) EXECUTE probe"+arguments)), &out))
	return out[0].Plan
}

// faults names what reads a table or an index from end to end.
func (c *conn) faults(t testing.TB, statement string, plan *node) (faults []string) {
	t.Helper()
	plan.walk(func(n *node) {
		switch {
		case n.Kind == "Seq Scan" && n.Table != "":
			faults = append(faults, "reads "+n.Table+" whole")
		case wholeIndexes[[2]string{statement, n.Index}] != "":
		case n.Index != "" && !strings.Contains(n.IndexCond, c.leadingColumn(t, n.Index)):
			faults = append(faults, fmt.Sprintf("reads %s from end to end (%s)", n.Index, n.IndexCond))
		case n.Table != "" && strings.Contains(n.Filter, "payment_id ="):
			faults = append(faults, fmt.Sprintf("reads all of a bucket in %s (%s)", n.Table, n.Filter))
		}
	})
	return faults
}

func (c *conn) leadingColumn(t testing.TB, index string) string {
	t.Helper()
	return c.text(t, "SELECT pg_catalog.pg_get_indexdef($1::TEXT::regclass, 1, true)", index)
}

// TestPlansNameAMissingIndex plants the fault that TestPlans is there for: without the index that a statement relies on,
// its plan is refused, on empty tables and on full ones.
func TestPlansNameAMissingIndex(t *testing.T) {
	t.Parallel()
	layout := databases.Layout(t, 2)
	fill(t, layout, "shard-2", 5_000)
	for _, name := range layout.Names {
		app := connect(t, layout.URLs[name])
		must(t, shard.PrepareSession(context.Background(), app.Conn))
		for index, statement := range map[string]string{
			"attempts_payment": "payment", "refunds_payment": "refunds", "payments_order": "payments by order",
			"payments_expiring": "expired", "journal_entries_payment": "entries", "outbox_payment_version": "find changes",
			"webhook_inbox_attempt": "inbox of attempts",
		} {
			layout.Exec(t, name, "DROP INDEX "+index)
			if faults := app.faults(t, statement, app.explain(t, shard.Statements()[statement])); len(faults) == 0 {
				t.Errorf("%s: without %s the plan of %q is taken", name, index, statement)
			}
		}
	}
}
