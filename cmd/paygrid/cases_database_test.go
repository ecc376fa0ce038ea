package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"paygrid/payment"
)

// TestC040: the commit's answer comes too late, and it had committed. The proxy holds back the answer to every statement
// that writes one of the orders; statements that read back do not carry the order.
func TestC040(t *testing.T) {
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		const orders = 50
		slow, proxies := g.behindProxies(t, time.Second)
		for _, p := range proxies {
			p.hold("o-c040", 2*time.Second)
		}
		pay := func(c caller, i int) reply {
			return c.pay(t, fmt.Sprintf("k-c040-%d", i), p10(fmt.Sprintf("o-c040-%d", i), "pm_ok", "automatic"))
		}
		first := make([]reply, orders)
		together(orders, func(i int) { first[i] = pay(slow, i) })
		held := 0
		for _, p := range proxies {
			held += p.heldSoFar()
		}
		if held == 0 {
			t.Error("no answer was held back")
		}
		for i, r := range first {
			if r.status != http.StatusCreated && r.status != http.StatusAccepted {
				t.Errorf("want 201 or 202, got %s", r)
			}
			again := pay(g.callers[i%2], i).want(t, http.StatusCreated)
			if !again.replayed || again.ID != r.ID {
				t.Errorf("want a replay of %s, got %s", r.ID, again)
			}
			g.callers[0].wantCAP10(t, again.ID)
			if n := g.sum(t, `SELECT count(*) FROM outbox WHERE payment_id = $1 AND type = 'payment.captured'`, again.ID); n != 1 {
				t.Errorf("%s has %d payment.captured events", again.ID, n)
			}
		}
		if got := g.tally(); got != (tally{Authorized: orders, Charges: orders, Calls: orders}) {
			t.Errorf("the PSP saw %+v", got)
		}
	})
}

// sqlFault makes an INSERT into a table fail with 40001 a number of times: nextval is not rolled back.
const sqlFault = `
CREATE SEQUENCE IF NOT EXISTS faults;
ALTER SEQUENCE faults RESTART;
GRANT USAGE ON SEQUENCE faults TO PUBLIC;
CREATE OR REPLACE FUNCTION fault() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF nextval('faults') <= TG_ARGV[0]::INT8 THEN
		RAISE EXCEPTION 'planted' USING ERRCODE = '40001';
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER fault BEFORE INSERT ON %s FOR EACH STATEMENT EXECUTE FUNCTION fault(%d)`

// plantFault makes the next times inserts into a table fail on a shard; the returned function takes it away.
func (g *testGrid) plantFault(t *testing.T, shardName, table string, times int64) (remove func()) {
	t.Helper()
	g.exec(t, shardName, fmt.Sprintf(sqlFault, table, times))
	return func() { g.exec(t, shardName, `DROP TRIGGER fault ON `+table) }
}

// TestC041: 40001 in the statement that posts, twice and then for ever.
func TestC041(t *testing.T) {
	const forEver = 1 << 40
	inBothLevels(t, gridOptions{Routers: 1}, func(t *testing.T, g *testGrid) {
		c := g.callers[0]
		order := p10("o-c041", "pm_ok", "automatic")
		key := func(name string) string { return g.keyOn(t, "shard-2", name) }
		remove := g.plantFault(t, "shard-2", "journal_entries", 2)
		before := g.metric(t, "paygrid_shard_retries_total", "apply")
		r := c.pay(t, key("twice"), order).want(t, http.StatusCreated)
		c.wantCAP10(t, r.ID)
		if n := g.metric(t, "paygrid_shard_retries_total", "apply") - before; n != 2 {
			t.Errorf("the metric counts %v retries", n)
		}
		if n := g.count(t, "shard-2", `SELECT count(*) FROM outbox WHERE payment_id = $1`, r.ID); n != 2 {
			t.Errorf("%d events, want begun and captured", n)
		}
		remove()

		remove = g.plantFault(t, "shard-2", "journal_entries", forEver)
		r = c.pay(t, key("apply"), order).want(t, http.StatusAccepted)
		if got := g.tally(); got.Charges != 2 {
			t.Errorf("the PSP saw %+v", got)
		}
		remove()
		g.always(t)
		if again := c.pay(t, key("apply"), order).want(t, http.StatusAccepted); again.ID != r.ID {
			t.Errorf("want payment %s, got %s", r.ID, again)
		}
		g.finish(t)
		c.pay(t, key("apply"), order).want(t, http.StatusCreated)
		c.wantCAP10(t, r.ID)

		remove = g.plantFault(t, "shard-2", "idempotency_keys", forEver)
		c.pay(t, key("begin"), order).wantCode(t, http.StatusServiceUnavailable, payment.CodeUnavailable)
		remove()
		if got := g.tally(); got.Charges != 2 {
			t.Errorf("the PSP was called though the intent was not written: %+v", got)
		}
		c.pay(t, key("begin"), order).want(t, http.StatusCreated)
		if got := g.tally(); got != (tally{Authorized: 3, Charges: 3, Calls: 3}) {
			t.Errorf("the PSP saw %+v", got)
		}
	})
}
