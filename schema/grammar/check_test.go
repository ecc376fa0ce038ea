package grammar

import (
	"testing"
)

// TestPlantedStatements: each rule finds its violation, and lets its neighbours pass.
func TestPlantedStatements(t *testing.T) {
	tests := []struct{ sql, rule string }{
		{"SELECT a FROM t", ""},
		{"SELECT a FROM", "syntax"},
		{"LISTEN events", "syntax"},
		{"ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (a) DEFERRABLE INITIALLY DEFERRED", "syntax"},
		{"LOCK TABLE t IN EXCLUSIVE MODE", "syntax"},
		{"CREATE TABLE t (a INT8) PARTITION BY RANGE (a)", "syntax"},

		{"WITH x AS (UPDATE t SET a = 1 RETURNING a) UPDATE t SET b = 2", "table modified twice"},
		{"WITH x AS (INSERT INTO t (a) VALUES (1) RETURNING a), y AS (DELETE FROM public.t AS u RETURNING a) SELECT a FROM x", "table modified twice"},
		{"WITH x AS (WITH y AS (UPDATE t SET a = 1 RETURNING a) SELECT a FROM y) UPDATE t SET a = 2", "table modified twice"},
		{"WITH x AS (UPDATE t SET a = 1 RETURNING a) INSERT INTO u (a) SELECT a FROM x", ""},
		{"INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2", ""},

		{"SELECT pg_advisory_xact_lock(1)", "advisory lock"},
		{"SELECT pg_catalog.pg_try_advisory_lock(1)", "advisory lock"},
		{"SELECT a FROM t WHERE pg_try_advisory_xact_lock(a)", "advisory lock"},
		{"SELECT pg_notify('a', 'b')", "notification"},
		{"INSERT INTO t (a) VALUES (nextval('s'))", "sequence"},
		{"CREATE SEQUENCE s", "sequence"},
		{"CREATE TABLE t (a INT8 GENERATED ALWAYS AS IDENTITY)", "sequence"},
		{"CREATE TABLE t (a BIGSERIAL PRIMARY KEY)", "SERIAL"},
		{"CREATE TABLE t (a INTEGER)", "INT without a width"},
		{"SELECT a::INT FROM t", "INT without a width"},
		{"CREATE TABLE t (a INT8, b INT4, c BIGINT)", ""},

		{"SELECT * FROM t", "SELECT *"},
		{"SELECT t.* FROM t", "SELECT *"},
		{"WITH x AS (SELECT * FROM t) SELECT a FROM x", "SELECT *"},
		{"INSERT INTO t (a) VALUES (1) RETURNING *", "SELECT *"},
		{"SELECT a FROM t WHERE EXISTS (SELECT * FROM u)", "SELECT *"},
		{"SELECT count(*) FROM t", ""},

		{"SELECT a FROM t WHERE a = ANY($1)", "array parameter"},
		{"SELECT a FROM t WHERE a = ANY($1::TEXT)", "array parameter"},
		{"SELECT a FROM t WHERE a = ANY($1::TEXT[])", ""},
		{"SELECT a FROM t WHERE a <> ALL (($1))", "array parameter"},
		{"SELECT u.a FROM unnest($1::TEXT[], $2) AS u(a, b)", "array parameter"},
		{"SELECT u.a FROM unnest($1::TEXT[], $2::INT8[]) AS u(a, b)", ""},
		{"SELECT a FROM t WHERE a = $1", ""},
	}
	for _, test := range tests {
		found := Check(test.sql)
		switch {
		case test.rule == "" && len(found) > 0:
			t.Errorf("refused for no reason: %v", found[0])
		case test.rule != "" && len(found) == 0:
			t.Errorf("%q was not found in:\n%s", test.rule, test.sql)
		case test.rule != "" && found[0].Rule != test.rule:
			t.Errorf("%q was found, not %q, in:\n%s", found[0].Rule, test.rule, test.sql)
		}
	}
}

func TestEveryStatementIsLookedAt(t *testing.T) {
	found := Check("SELECT a FROM t; SELECT * FROM t; SELECT pg_notify('a', 'b')")
	if len(found) != 2 || found[0].SQL != "SELECT * FROM t" {
		t.Errorf("found %v, want one in the second and one in the third statement", found)
	}
}
