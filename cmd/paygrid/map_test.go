package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paygrid/payment"
	"paygrid/shard"
)

// metric sums the first router's samples of a counter whose labels contain text.
func (g *testGrid) metric(t testing.TB, name, text string) float64 {
	t.Helper()
	return g.callers[0].metric(t, name, text)
}

func (c caller) metric(t testing.TB, name, text string) float64 {
	t.Helper()
	response, err := c.client.Get(c.base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var sum float64
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		sample, value, _ := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(sample, name) && strings.Contains(sample, text) {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("%s: %v", lines.Text(), err)
			}
			sum += n
		}
	}
	return sum
}

// moveBucket gives an empty bucket to another shard as a move does at its end, and writes the grid's own map.
func (g *testGrid) moveBucket(t *testing.T, b shard.Bucket, to string) *shard.Map {
	t.Helper()
	m := g.shardMap(t)
	owner := m.Owner(b)
	g.exec(t, owner.Shard, `UPDATE buckets SET state = 'MOVED', epoch = $2 WHERE bucket = $1`, b, owner.Epoch+1)
	g.exec(t, to, `INSERT INTO buckets (bucket, epoch, state) VALUES ($1, $2, 'OWNED')`, b, owner.Epoch+1)
	next := m.With(b, to, owner.Epoch+1)
	if err := shard.NewMapFile(g.MapPath).Write(next); err != nil {
		t.Fatal(err)
	}
	return next
}

// TestStaleMap: two routers, two map files. The one with the old map is refused by the fence, writes nothing, and finds the
// right shard once its file is replaced.
func TestStaleMap(t *testing.T) {
	inBothLevels(t, gridOptions{Routers: 1}, func(t *testing.T, g *testGrid) {
		old, err := os.ReadFile(g.MapPath)
		if err != nil {
			t.Fatal(err)
		}
		stalePath := filepath.Join(t.TempDir(), "stale.json")
		if err := os.WriteFile(stalePath, old, 0o600); err != nil {
			t.Fatal(err)
		}
		stale := g.addRouter(t, func(c *routerConfig) { c.Map = stalePath })
		key := g.keyOn(t, "shard-1", "stale")
		order := p10("o-stale", "pm_ok", "automatic")
		next := g.moveBucket(t, shard.BucketOf("shop_a", key), "shard-3")
		rows := func(shardName string) int64 {
			return g.count(t, shardName, `SELECT (SELECT count(*) FROM payments) + (SELECT count(*) FROM idempotency_keys) +
				(SELECT count(*) FROM attempts) + (SELECT count(*) FROM outbox) + (SELECT sum(seq) FROM buckets)`)
		}

		stale.pay(t, key, order).wantCode(t, http.StatusServiceUnavailable, payment.CodeUnavailable)
		if fenced := stale.metric(t, "paygrid_shard_fenced_total", "shard-1"); fenced == 0 {
			t.Error("the fence refused nothing")
		}
		if got := g.tally(); got.Calls != 0 || rows("shard-1") != 0 || rows("shard-3") != 0 {
			t.Errorf("something was done: PSP %+v, rows %d and %d", got, rows("shard-1"), rows("shard-3"))
		}

		// The file comes while a call is being refused: that very call gets through.
		before := stale.metric(t, "paygrid_shard_fenced_total", "")
		answer := make(chan reply)
		go func() { answer <- stale.pay(t, key, order) }()
		eventually(t, "the call is refused by the fence", func() bool { return stale.metric(t, "paygrid_shard_fenced_total", "") > before })
		if err := shard.NewMapFile(stalePath).Write(next); err != nil {
			t.Fatal(err)
		}
		first := (<-answer).want(t, http.StatusCreated)
		g.callers[0].pay(t, key, order).wantReplay(t, first)
		g.callers[0].wantCAP10(t, first.ID)
		if got := rows("shard-1"); got != 0 {
			t.Errorf("%d rows on the shard that had lost the bucket", got)
		}
		if n := g.count(t, "shard-3", `SELECT count(*) FROM payments WHERE payment_id = $1`, first.ID); n != 1 {
			t.Errorf("%d payments on the bucket's shard", n)
		}
		g.wantNoGuess(t, old, key, first.ID)
	})
}

// wantNoGuess: a router that only has the old map knows that it does not know. It never says that a payment is not there.
func (g *testGrid) wantNoGuess(t *testing.T, old []byte, key, id string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "old.json")
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	lost, before := g.addRouter(t, func(c *routerConfig) { c.Map = path }), g.tally()
	together(4, func(i int) {
		r := reply{}
		switch i {
		case 0:
			r = lost.get(t, "/v1/payments/"+id)
		case 1:
			r = lost.get(t, "/v1/payments/"+id+"/ledger")
		case 2:
			r = lost.post(t, "/v1/payments/"+id+"/refunds", "k-refund", eur(1000))
		case 3:
			r = lost.pay(t, key, p10("o-other", "pm_ok", "automatic"))
		}
		r.wantCode(t, http.StatusServiceUnavailable, payment.CodeUnavailable)
	})
	if got := g.tally(); got != before {
		t.Errorf("the PSP was called: %+v, before %+v", got, before)
	}
}

// TestMapThatCannotBeUsed: the router keeps the map it has.
func TestMapThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Routers: 1})
	if err := os.WriteFile(g.MapPath, []byte(`{"version":2,`), 0o600); err != nil {
		t.Fatal(err)
	}
	g.callers[0].pay(t, "k-map", p10("o-map", "pm_ok", "automatic")).want(t, http.StatusCreated)
	g.always(t)
}

// TestShardDown: a shard that does not answer costs its own payments a 503, never a charge that cannot be recorded; the
// others serve on, and it is back when it is back.
func TestShardDown(t *testing.T) {
	inBothLevels(t, gridOptions{Routers: 1}, func(t *testing.T, g *testGrid) {
		c, proxies := g.behindProxies(t, time.Second)
		order := p10("o-down", "pm_ok", "automatic")
		down, up := g.keyOn(t, "shard-2", "down"), g.keyOn(t, "shard-3", "up")
		held := c.pay(t, g.keyOn(t, "shard-2", "before"), p10("o-before", "pm_ok", "manual")).want(t, http.StatusCreated)
		capture := "/v1/payments/" + held.ID + "/capture"
		before := g.tally()

		proxies["shard-2"].cut()
		c.pay(t, down, order).wantCode(t, http.StatusServiceUnavailable, payment.CodeUnavailable)
		c.post(t, capture, "k-capture", eur(10000)).wantCode(t, http.StatusServiceUnavailable, payment.CodeUnavailable)
		c.get(t, "/v1/payments/"+held.ID).wantCode(t, http.StatusServiceUnavailable, payment.CodeUnavailable)
		if got := g.tally(); got != before {
			t.Errorf("the PSP was called: %+v, before %+v", got, before)
		}
		c.pay(t, up, order).want(t, http.StatusCreated)

		proxies["shard-2"].mend(t)
		c.pay(t, down, order).want(t, http.StatusCreated)
		c.post(t, capture, "k-capture", eur(10000)).want(t, http.StatusOK)
		if got := g.tally(); got.Charges != 3 {
			t.Errorf("the PSP saw %+v", got)
		}
		g.lostMeanwhile(t, c, proxies["shard-2"])
	})
}

// lostMeanwhile cuts the shard while the PSP is being asked: the outcome cannot be committed, and the caller is told that it
// is not known.
func (g *testGrid) lostMeanwhile(t *testing.T, c caller, p *proxy) {
	t.Helper()
	key, order := g.keyOn(t, "shard-2", "meanwhile"), p10("o-meanwhile", "pm_slow_ok_1s", "automatic")
	answer := make(chan reply)
	go func() { answer <- c.pay(t, key, order) }()
	eventually(t, "the PSP is being asked", func() bool { return len(g.callers[0].byOrder(t, "o-meanwhile")) == 1 })
	p.cut()
	first := (<-answer).want(t, http.StatusAccepted)
	p.mend(t)
	if again := c.pay(t, key, order).want(t, http.StatusAccepted); again.ID != first.ID {
		t.Errorf("want payment %s, got %s", first.ID, again)
	}
	if got := g.tally(); got.Charges != 4 || got.Calls != 5 {
		t.Errorf("the PSP saw %+v", got)
	}
}

// TestShardFlickers breaks every connection to two shards again and again under 64 callers, so that commits end in doubt.
// Each key has one payment and at most one charge all the same, and every acknowledged one is there.
func TestShardFlickers(t *testing.T) {
	const callers, each, cuts = 64, 6, 8
	inBothLevels(t, gridOptions{Routers: 1}, func(t *testing.T, g *testGrid) {
		c, proxies := g.behindProxies(t, time.Second)
		var answered atomic.Int64
		var mu, cutting sync.Mutex
		acknowledged := map[string]reply{}
		flicker := func() {
			cutting.Lock()
			defer cutting.Unlock()
			for _, name := range []string{"shard-1", "shard-4"} {
				proxies[name].cut()
				proxies[name].mend(t)
			}
		}
		together(callers, func(i int) {
			for k := range each {
				key := fmt.Sprintf("k-flicker-%d-%d", i, k)
				r := c.pay(t, key, p10("o-"+key, "pm_ok", "automatic"))
				if answered.Add(1)%(callers*each/cuts) == 0 {
					flicker()
				}
				if !r.ok() {
					r.wantCode(t, http.StatusServiceUnavailable, payment.CodeUnavailable)
					continue
				}
				mu.Lock()
				acknowledged[key] = r
				mu.Unlock()
			}
		})
		for i := range callers {
			for k := range each {
				key := fmt.Sprintf("k-flicker-%d-%d", i, k)
				again, first := g.callers[0].pay(t, key, p10("o-"+key, "pm_ok", "automatic")), acknowledged[key]
				if !again.ok() || (first.ok() && again.ID != first.ID) || (first.status == http.StatusCreated && string(again.raw) != string(first.raw)) {
					t.Errorf("%s: acknowledged %s, now %s", key, first, again)
				}
			}
		}
		t.Logf("%d of %d acknowledged at once; read back: %v", len(acknowledged), callers*each, c.metric(t, "paygrid_shard_read_backs_total", ""))
		if n := g.sum(t, `SELECT count(*) FROM payments`); n != callers*each {
			t.Errorf("%d payments for %d keys", n, callers*each)
		}
	})
}
