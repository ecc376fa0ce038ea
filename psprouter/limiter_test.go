package psprouter

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLimiter(t *testing.T) {
	at := noon()
	l := newLimiter(10, 20) // two are kept
	take := func(newPayment bool, n int) (got int) {
		for range n {
			if _, ok := l.take(at.at, newPayment); ok {
				got++
			}
		}
		return got
	}
	if got := take(true, 100); got != 18 {
		t.Errorf("%d new payments at once, want 18", got)
	}
	if wait, ok := l.take(at.at, true); ok || wait != 100*time.Millisecond {
		t.Errorf("the next new payment waits %s", wait)
	}
	if got := take(false, 100); got != 2 {
		t.Errorf("%d later calls were kept, want 2", got)
	}
	at.at = at.at.Add(time.Second)
	if got := take(false, 100); got != 10 {
		t.Errorf("%d calls after a second, want 10", got)
	}
	l.giveBack()
	if got := take(false, 100); got != 1 {
		t.Errorf("%d calls after one was given back", got)
	}
	at.at = at.at.Add(time.Hour)
	if got := take(false, 100); got != 20 {
		t.Errorf("%d calls after an hour, want a burst of 20", got)
	}
}

func TestNoLimit(t *testing.T) {
	l := newLimiter(0, 0)
	if wait, ok := l.take(time.Time{}, true); !ok || wait != 0 || l.peek(time.Time{}, true) != 0 {
		t.Error("no limit limits")
	}
	l.giveBack()
	if l := newLimiter(5, 0); l.burst != 5 {
		t.Errorf("burst %d, want the rate", l.burst)
	}
}

// A clock that was set back stops a PSP for no longer than an empty bucket would.
func TestLimiterClockSetBack(t *testing.T) {
	at := noon()
	l := newLimiter(10, 10)
	l.take(at.at, false)
	at.at = at.at.Add(-24 * time.Hour)
	if wait := l.peek(at.at, false); wait > time.Second {
		t.Errorf("a call waits %s", wait)
	}
	at.at = at.at.Add(time.Second)
	if _, ok := l.take(at.at, false); !ok {
		t.Error("still stopped after a second")
	}
}

// In no stretch of time do more calls pass than the burst and the rate allow; a call that waits as told passes.
func TestLimiterProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, burst := rapid.Int64Range(1, 1000).Draw(t, "rate"), rapid.Int64Range(1, 50).Draw(t, "burst")
		l, start := newLimiter(rate, burst), noon().at
		now, passed := start, int64(0)
		for range 200 {
			wait, ok := l.take(now, false)
			if ok != (wait <= 0) {
				t.Fatalf("ok = %v with a wait of %s", ok, wait)
			}
			if !ok && rapid.Bool().Draw(t, "wait") {
				now = now.Add(wait)
				if _, ok = l.take(now, false); !ok {
					t.Fatal("waited as told, and was refused")
				}
			}
			if ok {
				passed++
			}
			if most := burst + int64(now.Sub(start)/l.every); passed > most {
				t.Fatalf("%d calls passed, at most %d may", passed, most)
			}
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Second)/rate).Draw(t, "pause")))
		}
	})
}

// TestNoCallCostsNoToken: a choice after which no call was made (its shard is down, its key was used before) costs the PSP's rate nothing.
func TestNoCallCostsNoToken(t *testing.T) {
	r := configured(t, Rules{PSPs: []Rule{{Name: "stripe", Weight: 1, RatePerSecond: 10, Burst: 10}}}, noon().now, "stripe")
	for n := range 20 {
		c, err := r.Choose(both(100))
		if err != nil {
			t.Fatalf("payment %d, no call was made so far: %v", n+1, err)
		}
		c.Done(NotAsked("no call was made"))
	}
	for range 10 {
		if c, err := r.Choose(both(100)); err == nil {
			c.Done(ApprovedAs("pi_1"))
		}
	}
	if _, err := r.Choose(both(100)); err == nil {
		t.Error("calls cost nothing either")
	}
}
