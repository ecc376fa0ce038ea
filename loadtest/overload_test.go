package loadtest

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// underStress turns away the first n requests whose path has a suffix.
func underStress(suffix string, n int) func(*http.Request, string) (int, string) {
	return func(r *http.Request, body string) (int, string) {
		if strings.HasSuffix(r.URL.Path, suffix) && n > 0 {
			n--
			return 503, `{"code":"SHARD_OVERLOADED","status":503}`
		}
		return authorizes(r, body)
	}
}

// TestTurnedAwayOnceIsTriedOnceMore: a shop comes back when it was told to; who is turned away again gives up, and the run
// knows that nothing of it may be in the books.
func TestTurnedAwayOnceIsTriedOnceMore(t *testing.T) {
	captured := func(a *Arrival) { a.Then = []Later{{Op: Capture, AfterMS: 10}} }
	for _, tc := range []struct {
		name             string
		suffix           string
		times            int
		paid, given      int
		refused, shedOps int
	}{
		{"authorization, once", "/payments", 1, 1, 0, 0, 0},
		{"authorization, for good", "/payments", 2, 0, 1, 1, 0},
		{"capture, once", "/capture", 1, 1, 0, 0, 0},
		{"capture, for good", "/capture", 2, 0, 1, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &shopAPI{answer: underStress(tc.suffix, tc.times)}
				var m *Meter
				p, r := playOn(t, api, func(o *PlayOptions) { o.ShedTries = 2; m = o.Meter }, sold(0, captured))
				shed := slices.ContainsFunc(p.Acknowledged(), func(k Acknowledged) bool { return k.Shed == Capture })
				if r.Paid != tc.paid || len(p.Refused()) != tc.refused || shed != (tc.shedOps > 0) {
					t.Errorf("paid %d, refused %v, acknowledged %+v", r.Paid, p.Refused(), p.Acknowledged())
				}
				op := Authorize
				if tc.suffix == "/capture" {
					op = Capture
				}
				if got := *m.shed[op]; got != (ShedRow{Op: op, Answers: tc.times, ForGood: tc.given}) {
					t.Errorf("counted %+v", got)
				}
				first := slices.IndexFunc(api.requests, func(s string) bool { return strings.Contains(s, tc.suffix) })
				if got := api.arrived[first+1].Sub(api.arrived[first]); got != time.Second {
					t.Errorf("came back after %s, was told 1 s", got)
				}
			})
		})
	}
}

// TestACopyThatWasTakenIsNotRefused: one of two copies of a request was served, so the order is in the books by right.
func TestACopyThatWasTakenIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &shopAPI{answer: underStress("/payments", 1)}
		p, _ := playOn(t, api, func(o *PlayOptions) { o.ShedTries = 1 }, sold(0, func(a *Arrival) { a.Repeats = []int64{100} }))
		if len(p.Refused()) != 0 || len(p.Acknowledged()) == 0 {
			t.Errorf("refused %v, acknowledged %+v", p.Refused(), p.Acknowledged())
		}
	})
}

// TestImpatientShops come back at once.
func TestImpatientShops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &shopAPI{answer: underStress("/payments", 1)}
		playOn(t, api, func(o *PlayOptions) { o.Impatient = true }, sold(0, nil))
		if got := api.arrived[1].Sub(api.arrived[0]); got != firstRetryPause {
			t.Errorf("came back after %s", got)
		}
	})
}

// TestAuditFindsWhatWasTurnedAway: neither the order nor a part of what was turned away may be in the books.
func TestAuditFindsWhatWasTurnedAway(t *testing.T) {
	k := Acknowledged{Payment: "pay_1", Order: "o1", Minor: 100, Currency: "EUR", Word: "AUTHORIZED"}
	b := Booked{ID: "pay_1", Order: "o1", Currency: "EUR", Status: "AUTHORIZED", Authorized: 100}
	for _, tc := range []struct {
		name  string
		plant func(k *Acknowledged, b *Booked) (refused []string)
		left  int
	}{
		{"capture was not made", func(k *Acknowledged, _ *Booked) []string { k.Shed = Capture; return nil }, 0},
		{"capture was made", func(k *Acknowledged, b *Booked) []string { k.Shed, b.Captured = Capture, 1; return nil }, 1},
		{"refund was not made", func(k *Acknowledged, b *Booked) []string {
			k.Shed, k.Captured, b.Captured = Refund, 100, 100
			return nil
		}, 0},
		{"refund is under way", func(k *Acknowledged, b *Booked) []string { k.Shed, b.Refunding = Refund, 5; return nil }, 1},
		{"void was made", func(k *Acknowledged, b *Booked) []string { k.Shed, b.Status = Void, "VOIDED"; return nil }, 1},
		{"another order", func(*Acknowledged, *Booked) []string { return []string{"o2"} }, 0},
		{"order is there", func(*Acknowledged, *Booked) []string { return []string{"o1"} }, 1},
	} {
		known, booked := k, b
		refused := tc.plant(&known, &booked)
		a := NewAudit([]Acknowledged{known})
		a.Refused(refused)
		a.Payment(booked)
		if r := a.Result(); r.Left != tc.left || r.Found != tc.left {
			t.Errorf("%s: left %d, found %v", tc.name, r.Left, r.Findings)
		}
	}
}

// overloadedRun is a run of 20 s at 10/s, 20 s at twice that, of which half was turned away, and 20 s at half of it; our own
// share recovers, and no authorization is turned away any more, so many seconds after the overload.
func overloadedRun(t *testing.T, recovers int) (*Report, []Segment) {
	t.Helper()
	start := time.Unix(0, 0)
	m := NewMeter(start, time.Minute)
	p := NewProbe(nil, nil, start, time.Now)
	for n := range 60 {
		at := start.Add(time.Duration(n) * time.Second)
		for range []int{10, 20, 5}[n/20] {
			m.Intend(at)
		}
		for range []int{10, 10, 5}[n/20] {
			m.Done(Timing{Op: Authorize, Status: 201, Word: "AUTHORIZED", Intended: at, Sent: at, Done: at})
		}
		own := .01
		if n >= 20 && n < 40+recovers {
			own = .5
			m.Shed(Authorize, at, true)
			m.Done(Timing{Op: Authorize, Status: 503, Word: wordOverloaded, Intended: at, Sent: at, Done: at})
		}
		p.recent = append(p.recent, round{at.Add(time.Second).Sub(start), Histogram{Bounds: []float64{own, math.Inf(1)}, Counts: []uint64{9, 9}}})
	}
	segments := []Segment{{Profile: Steady, Rate: 10, Duration: 20 * time.Second}, {Profile: Steady, Rate: 20, Duration: 20 * time.Second},
		{Profile: Steady, Rate: 5, Duration: 20 * time.Second}}
	r := goodReport()
	if err := m.Overloaded(r, segments, p); err != nil {
		t.Fatal(err)
	}
	return r, segments
}

func TestOverloadIsJudged(t *testing.T) {
	bounds := Bounds{MinKept: 90, MaxRecovery: 5 * time.Second}
	for _, tc := range []struct {
		name     string
		recovers int
		plant    func(*OverloadRow)
		say      string
	}{
		{"borne", 2, func(*OverloadRow) {}, ""},
		{"slow to recover", 6, func(*OverloadRow) {}, "the recovery took 6 s"},
		{"never recovers", 20, func(*OverloadRow) {}, "no recovery"},
		{"too few", 2, func(o *OverloadRow) { o.During = 8.9 }, "left 89 %"},
		{"no overload", 2, func(o *OverloadRow) { o.Shed = nil }, "this was no overload"},
		{"not told when to come back", 2, func(o *OverloadRow) { o.Shed[0].Untold = 1 }, "1 calls to authorize were turned away without Retry-After"},
		{"half done", 2, func(o *OverloadRow) { o.Left = 1 }, "are in the books"},
	} {
		r, _ := overloadedRun(t, tc.recovers)
		tc.plant(r.Overload)
		r.Conclude(bounds)
		if said := strings.Join(r.Failures, "; "); r.Pass != (tc.say == "") || !strings.Contains(said, tc.say) {
			t.Errorf("%s: %q, want %q", tc.name, said, tc.say)
		}
	}
	r, segments := overloadedRun(t, 2)
	if o := r.Overload; o.Before != 10 || o.Offered != 20 || o.During != 10 || o.kept() != 100 || o.Recovery != 2 || o.Shed[0].ForGood != 22 {
		t.Errorf("%+v", o)
	}
	r.Conclude(bounds)
	var text strings.Builder
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "kept_percent=100 recovery_s=2") || !strings.Contains(text.String(), "Turned away") {
		t.Errorf("%v: %s", err, text.String())
	}
	if err := NewMeter(time.Unix(0, 0), time.Minute).Overloaded(r, segments[:2], nil); err == nil {
		t.Error("two segments were judged")
	}
}
