package loadtest

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestQuantilesAreExactToThreeDigits compares the histogram with the sorted list.
func TestQuantilesAreExactToThreeDigits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		start := time.Unix(0, 0)
		m := NewMeter(start, time.Minute)
		list := rapid.SliceOfN(rapid.Int64Range(1, 100_000_000), 1, 300).Draw(rt, "microseconds")
		for _, micros := range list {
			m.Done(Timing{Op: Authorize, Status: 201, Intended: start, Sent: start, Done: start.Add(time.Duration(micros) * time.Microsecond)})
		}
		r := &Report{}
		m.Measured(r)
		slices.Sort(list)
		got := rowOf(r, "authorize")
		for q, ms := range map[float64]float64{50: got.P50, 90: got.P90, 99: got.P99, 99.9: got.P999, 100: got.Max} {
			// The library rounds the rank to the nearest one; the list's neighbours are both right.
			rank := int(q/100*float64(len(list)) + .5)
			want := float64(list[min(max(rank, 1), len(list))-1]) / 1000
			if math.Abs(ms-want) > want/1000+.002 {
				rt.Fatalf("p%v is %v ms, want %v", q, ms, want)
			}
		}
	})
}

func TestOffTheScaleIsAtItsEnd(t *testing.T) {
	start := time.Unix(0, 0)
	m := NewMeter(start, time.Minute)
	m.Done(Timing{Op: Capture, Intended: start, Sent: start, Done: start.Add(time.Hour)})
	m.Done(Timing{Op: Capture, Intended: start, Sent: start, Done: start.Add(-time.Hour)}) // a clock that was set back
	r := &Report{}
	m.Measured(r)
	if got := rowOf(r, "capture"); got.Count != 2 || got.Max < 599_000 {
		t.Errorf("%+v, want two calls, one of ten minutes", got)
	}
	if r.Answered != 0 {
		t.Errorf("%d answered, want none: the status is 0", r.Answered)
	}
}

// TestPeak: ten seconds in a row count, and no more than came in.
func TestPeak(t *testing.T) {
	start := time.Unix(0, 0)
	second := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	for _, tc := range []struct {
		name       string
		came, paid func(n int) int // in second n of 40
		want       float64
		at         int
	}{
		{"steady", func(int) int { return 30 }, func(int) int { return 30 }, 30, 0},
		{"a peak of ten seconds", func(int) int { return 100 }, func(n int) int { return map[bool]int{true: 90, false: 10}[n >= 20 && n < 30] }, 90, 20},
		{"a peak of one second is none", func(int) int { return 100 }, func(n int) int { return map[bool]int{true: 100, false: 10}[n == 20] }, 19, 11},
		{"dammed up", func(int) int { return 10 }, func(n int) int { return map[bool]int{true: 400, false: 0}[n == 39] }, 10, 30},
	} {
		m := NewMeter(start, 40*time.Second)
		for n := range 40 {
			for range tc.came(n) {
				m.Intend(second(n))
			}
			for range tc.paid(n) {
				m.Paid(second(n))
			}
		}
		r := &Report{}
		if m.Measured(r); r.Peak != tc.want || r.PeakAt != tc.at {
			t.Errorf("%s: %.1f from second %d, want %.1f from %d", tc.name, r.Peak, r.PeakAt, tc.want, tc.at)
		}
	}
}

func TestPaidLately(t *testing.T) {
	start := time.Unix(0, 0)
	m := NewMeter(start, time.Minute)
	for n := range 10 {
		for range n {
			m.Paid(start.Add(time.Duration(n) * time.Second))
		}
	}
	if got := m.PaidLately(start.Add(10*time.Second), 5); got != 7 {
		t.Errorf("%.1f/s, want (5+6+7+8+9)/5", got)
	}
	m.Intend(start.Add(9 * time.Second))
	if got := m.IntendedLately(start.Add(10*time.Second), 5); got != 0.2 {
		t.Errorf("%.1f/s intended, want one in 5 s", got)
	}
	if got := m.PaidLately(start.Add(-time.Second), 5); got != 0 {
		t.Errorf("before the start %.1f/s", got)
	}
}

func TestSlowestAreKeptInOrder(t *testing.T) {
	start := time.Unix(0, 0)
	m := NewMeter(start, time.Minute)
	for n := range 100 {
		m.Done(Timing{Op: Authorize, Status: 201, Intended: start, Sent: start, Done: start.Add(time.Duration(n*37%100) * time.Millisecond)})
	}
	r := &Report{}
	m.Measured(r)
	var took []int64
	for _, s := range r.Slowest {
		took = append(took, s.TookMS)
	}
	if !slices.Equal(took, []int64{99, 98, 97, 96, 95, 94, 93, 92, 91, 90}) {
		t.Errorf("slowest %v", took)
	}
}

// TestPlotsAreBounded: a month has as many points as a minute, and no peak is lost.
func TestPlotsAreBounded(t *testing.T) {
	start := time.Unix(0, 0)
	m := NewMeter(start, 24*time.Hour)
	for n := range 24 * 60 {
		at := start.Add(time.Duration(n) * time.Minute)
		m.Intend(at)
		m.Done(Timing{Op: Authorize, Status: 201, Intended: at, Sent: at, Done: at.Add(time.Millisecond)})
	}
	r := &Report{}
	m.Measured(r)
	for _, s := range r.Series {
		if len(s.Points) > maxIntervals+1 {
			t.Errorf("%s of %s has %d points", s.Name, s.Plot, len(s.Points))
		}
	}
	s := Series{}
	for n := range 10_000 {
		s.add(time.Duration(n)*time.Second, float64(n%7777))
	}
	if s.thin(); len(s.Points) > maxIntervals || slices.IndexFunc(s.Points, func(p Point) bool { return p.Value == 7776 }) < 0 {
		t.Errorf("%d points, the highest kept: no", len(s.Points))
	}
}
