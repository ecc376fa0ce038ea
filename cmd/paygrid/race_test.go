package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"syscall"
	"testing"
)

// TestRaceForKeys: two routers on the same shards, 64 callers racing the same 100 keys: one payment and one charge per key.
func TestRaceForKeys(t *testing.T) {
	const callers, keys = 64, 100
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		var mu sync.Mutex
		ids := map[string]map[string]bool{} // key -> the payments that were answered
		created := map[string]int{}         // key -> first answers that were no replay
		together(callers, func(i int) {
			order := rand.New(rand.NewPCG(uint64(i), 100)).Perm(keys)
			for _, k := range order {
				key := fmt.Sprintf("k-race-%d", k)
				r := g.callers[i%2].pay(t, key, p10("o-"+key, "pm_ok", "automatic"))
				if r.status != http.StatusCreated && r.status != http.StatusAccepted {
					t.Errorf("want 201 or 202, got %s", r)
					continue
				}
				mu.Lock()
				if ids[key] == nil {
					ids[key] = map[string]bool{}
				}
				ids[key][r.ID] = true
				if r.status == http.StatusCreated && !r.replayed {
					created[key]++
				}
				mu.Unlock()
			}
		})
		for key, of := range ids {
			if len(of) != 1 || created[key] != 1 {
				t.Errorf("%s: payments %v, %d first answers", key, of, created[key])
			}
		}
		if n := g.sum(t, `SELECT count(*) FROM payments`); n != keys {
			t.Errorf("%d payments for %d keys", n, keys)
		}
		if got := g.tally(); got != (tally{Authorized: keys, Charges: keys, Calls: keys}) {
			t.Errorf("the PSP saw %+v", got)
		}
		g.wantBalances(t, cap10.times(keys))
	})
}

// TestDrain: SIGTERM with a slow payment under way: it is answered, and the router ends with 0.
func TestDrain(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Routers: 1})
	dying := startChild(t, childSpec{Config: g.ConfigPath})
	c := newCaller(t, dying.URL)
	answer := make(chan reply)
	go func() { answer <- c.pay(t, "k-drain", p10("o-drain", "pm_slow_ok_2s", "automatic")) }()
	eventually(t, "the payment is under way", func() bool { return len(g.callers[0].byOrder(t, "o-drain")) == 1 })
	dying.signal(t, syscall.SIGTERM)
	first := (<-answer).want(t, http.StatusCreated)
	if code := dying.wait(t).ExitCode(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	g.callers[0].pay(t, "k-drain", p10("o-drain", "pm_slow_ok_2s", "automatic")).wantReplay(t, first)
	if r := c.try("/v1/payments", "k-late", p10("o-late", "pm_ok", "automatic")); r.err == nil {
		t.Errorf("the drained router answered %s", r)
	}
	g.always(t)
}
