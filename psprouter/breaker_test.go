package psprouter

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Inside a synctest bubble gobreaker's own clock is virtual too, so these tests wait for no time.

const openFor = 10 * time.Second

func bubbled(t *testing.T) *Router { return configured(t, Rules{}, time.Now, "stripe") }

func calls(t *testing.T, r *Router, n int, o Outcome) {
	t.Helper()
	for range n {
		mustChoose(t, r, both(1000)).Done(o)
	}
}

// trip opens the breaker of AUTHORIZE.
func trip(t *testing.T, r *Router) {
	t.Helper()
	for range 20 {
		c, err := r.Choose(both(1000))
		if err != nil {
			wantUnavailable(t, err)
			return
		}
		c.Done(UnknownBecause("status 503"))
	}
	t.Fatal("20 failures did not open the breaker")
}

func breakerOf(r *Router, operation string) Status {
	for _, s := range r.Status() {
		if s.Operation == operation {
			return s
		}
	}
	return Status{}
}

func wantBreaker(t *testing.T, r *Router, want string) {
	t.Helper()
	if s := breakerOf(r, OpAuthorize); s.Breaker != want {
		t.Fatalf("the breaker is %s, want %s", s.Breaker, want)
	}
}

func TestC011aDeclinesAreAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bubbled(t)
		calls(t, r, 100, DeclinedWith("card_declined", "w"))
		wantBreaker(t, r, "closed")
		calls(t, r, 1, ApprovedAs("r"))
	})
}

// A caller who leaves changes nothing: his payment goes on to its end. Should a call be cut all the same, that is our doing.
func TestC011bCallersWhoLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bubbled(t)
		var open []Choice
		for range 100 {
			open = append(open, mustChoose(t, r, both(1000)))
		}
		for n, c := range open {
			pass(50 * time.Millisecond)
			if n%2 == 0 {
				c.Done(UnknownByUs("the caller left"))
			} else {
				c.Done(ApprovedAs("r"))
			}
		}
		wantBreaker(t, r, "closed")
		calls(t, r, 1, ApprovedAs("r"))
	})
}

func TestC011cOpenRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bubbled(t)
		trip(t, r)
		start := time.Now()
		_, err := r.Choose(both(1000))
		u := wantUnavailable(t, err)
		if time.Since(start) != 0 || u.PSP != "stripe" || u.RetryIn != openFor {
			t.Fatalf("refused after %s with %+v", time.Since(start), u)
		}
		pass(4 * time.Second)
		if _, err = r.Choose(both(1000)); wantUnavailable(t, err).RetryIn != 6*time.Second {
			t.Fatalf("after 4 s: %+v", err)
		}
		if s := breakerOf(r, OpAuthorize); s.Breaker != "open" || s.RetryIn != 6*time.Second || s.Failed != 10 || s.ErrorPermille != 1000 {
			t.Fatalf("status %+v", s)
		}
	})
}

func TestC011dOneProbeUntilItHasFinished(t *testing.T) {
	for _, probe := range []struct {
		name string
		out  Outcome
	}{{"d: slow approval", ApprovedAs("r")}, {"e: decline", DeclinedWith("card_declined", "w")}} {
		t.Run(probe.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := bubbled(t)
				trip(t, r)
				pass(openFor + time.Millisecond)
				wantBreaker(t, r, "half-open")
				probes, refused := storm(r, 200, time.Second, probe.out)
				if len(probes) != 1 || refused != 199 {
					t.Fatalf("%d probes and %d refusals of 200, want 1 and 199", len(probes), refused)
				}
				wantBreaker(t, r, "closed")
				if probes, refused = storm(r, 200, time.Second, ApprovedAs("r")); len(probes) != 200 || refused != 0 {
					t.Fatalf("closed, but %d of 200 were refused", refused)
				}
			})
		})
	}
}

// storm makes n payments at once, each of which takes that long.
func storm(r *Router, n int, takes time.Duration, out Outcome) (asked []Choice, refused int) {
	var mu sync.Mutex
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			c, err := r.Choose(both(1000))
			mu.Lock()
			if err != nil {
				refused++
				mu.Unlock()
				return
			}
			asked = append(asked, c)
			mu.Unlock()
			pass(takes)
			c.Done(out)
		})
	}
	group.Wait()
	return asked, refused
}

// After a probe: what follows from each outcome.
func TestProbeOutcomes(t *testing.T) {
	want := map[verdict]string{answered: "closed", faultOfPSP: "open", oursAlone: "half-open"}
	for _, c := range outcomes() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := bubbled(t)
				trip(t, r)
				pass(openFor + time.Millisecond)
				probe := mustChoose(t, r, both(1000))
				_, err := r.Choose(both(1000))
				wantUnavailable(t, err)
				probe.Done(c.out)
				probe.Done(ApprovedAs("a second word must not count"))
				wantBreaker(t, r, want[c.judged])
				if c.judged == oursAlone { // it proved nothing; the next one is the probe
					mustChoose(t, r, both(1000)).Done(ApprovedAs("r"))
					wantBreaker(t, r, "closed")
				}
			})
		})
	}
}

// An open breaker never touches attempts in flight, and they are never its probe.
func TestInquiriesPassAnyBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bubbled(t)
		inFlight := mustChoose(t, r, both(1000))
		trip(t, r)
		ask := func(o Outcome) {
			t.Helper()
			p, done, err := r.Permit("stripe", OpInquiry)
			if err != nil || p.Name() != "stripe" {
				t.Fatal(p, err)
			}
			done(o)
		}
		ask(ApprovedAs("r"))
		wantBreaker(t, r, "open")
		inFlight.Done(ApprovedAs("an answer of before")) // of another generation: it says nothing of now
		wantBreaker(t, r, "open")
		pass(openFor + time.Millisecond)
		for range 50 {
			ask(UnknownBecause("time-out"))
		}
		wantBreaker(t, r, "half-open")
		mustChoose(t, r, both(1000)).Done(ApprovedAs("the probe was still free"))
		wantBreaker(t, r, "closed")
	})
}

// Operations have breakers of their own: a PSP whose refunds fail still takes payments.
func TestBreakersAreOfOneOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bubbled(t)
		for range 10 {
			_, done, err := r.Permit("stripe", OpRefund)
			if err != nil {
				t.Fatal(err)
			}
			done(UnknownBecause("status 500"))
		}
		_, _, err := r.Permit("stripe", OpRefund)
		wantUnavailable(t, err)
		calls(t, r, 1, ApprovedAs("r"))
		for _, operation := range []string{OpCapture, OpVoid} {
			if _, done, err := r.Permit("stripe", operation); err != nil {
				t.Error(operation, err)
			} else {
				done(AcceptedAs("r"))
			}
		}
		pass(openFor + time.Millisecond)
		_, done, err := r.Permit("stripe", OpRefund)
		if err != nil {
			t.Fatal("a refund cannot probe its own breaker:", err)
		}
		done(AcceptedAs("r"))
		if s := breakerOf(r, OpRefund); s.Breaker != "closed" {
			t.Fatal(s)
		}
	})
}

// What a breaker refuses uses up nothing of the rate: inquiries go on.
func TestRefusedCallsCostNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := configured(t, Rules{PSPs: []Rule{{Name: "stripe", Weight: 1, RatePerSecond: 100, Burst: 20}}}, time.Now, "stripe")
		for range 10 {
			_, done, err := r.Permit("stripe", OpCapture)
			if err != nil {
				t.Fatal(err)
			}
			done(UnknownBecause("time-out"))
		}
		for range 100 {
			_, _, err := r.Permit("stripe", OpCapture)
			if u := wantUnavailable(t, err); u.Why != "stripe CAPTURE: breaker open" {
				t.Fatal(u)
			}
		}
		for n := range 10 {
			if _, _, err := r.Permit("stripe", OpInquiry); err != nil {
				t.Fatalf("inquiry %d: %v", n, err)
			}
		}
	})
}

// The ratio is of the finished calls in the window: below it, below the minimum, or long ago, nothing opens.
func TestBreakerRatio(t *testing.T) {
	for _, c := range []struct {
		name      string
		good, bad int
		apart     time.Duration
		open      bool
		inFlight  int
	}{
		{name: "below the minimum", bad: 9},
		{name: "at the minimum", bad: 10, open: true},
		{name: "below the ratio", good: 11, bad: 10},
		{name: "at the ratio", good: 10, bad: 10, open: true},
		{name: "spread over a longer time", bad: 12, apart: 4 * time.Second},
		{name: "those under way do not dilute", bad: 10, inFlight: 100, open: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := bubbled(t)
				for range c.inFlight {
					mustChoose(t, r, both(1000))
				}
				calls(t, r, c.good, ApprovedAs("r"))
				for range c.bad {
					mustChoose(t, r, both(1000)).Done(NotSentBecause("not processed"))
					pass(c.apart)
				}
				if got := breakerOf(r, OpAuthorize).Breaker == "open"; got != c.open {
					t.Fatalf("open = %v, want %v", got, c.open)
				}
			})
		})
	}
}

// With two PSPs an outage of one costs no payment once its breaker is open, and its recovery is found without a storm.
func TestOutageOfOneOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := configured(t, Rules{PSPs: []Rule{{Name: "stripe", Weight: 1}, {Name: "adyen", Weight: 1}}}, time.Now, "stripe", "adyen")
		down, lost := true, 0
		pay := func() string {
			c := mustChoose(t, r, both(1000))
			if c.PSP.Name() == "stripe" && down {
				lost++
				c.Done(UnknownBecause("time-out"))
			} else {
				c.Done(ApprovedAs("r"))
			}
			return c.PSP.Name()
		}
		for range 500 {
			pay()
		}
		if lost != 10 {
			t.Errorf("%d payments met the outage before the breaker opened, want 10", lost)
		}
		down = false
		pass(openFor + time.Millisecond)
		back := 0
		for range 200 {
			if pay() == "stripe" {
				back++
			}
		}
		if back < 60 || back > 140 {
			t.Errorf("%d of 200 payments went to the PSP that is back", back)
		}
	})
}
