package loadtest

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// metricsOf is what a router says after n authorizations, all below 10 ms but one in ten, and n choices of stripe.
func metricsOf(n int) string {
	return fmt.Sprintf(`# TYPE paygrid_own_share_seconds histogram
paygrid_own_share_seconds_bucket{route="/v1/payments",le="0.01"} %d
paygrid_own_share_seconds_bucket{route="/v1/payments",le="0.1"} %d
paygrid_own_share_seconds_bucket{route="/v1/payments",le="+Inf"} %d
paygrid_own_share_seconds_sum{route="/v1/payments"} 1
paygrid_own_share_seconds_count{route="/v1/payments"} %d
# TYPE paygrid_psp_choices_total counter
paygrid_psp_choices_total{psp="stripe",reason="cost"} %d
paygrid_psp_choices_total{psp="stripe",reason="warm"} 0
# TYPE paygrid_psp_breaker_trips_total counter
paygrid_psp_breaker_trips_total{psp="adyen",operation="capture"} %d
# TYPE paygrid_psp_outcomes_total counter
paygrid_psp_outcomes_total{psp="stripe",operation="capture",outcome="APPROVED"} %d
# TYPE go_goroutines gauge
go_goroutines %d
# TYPE process_start_time_seconds gauge
process_start_time_seconds %d
# TYPE paygrid_attempts_pending gauge
paygrid_attempts_pending{shard="a",older_than="0s"} 4
paygrid_attempts_pending{shard="b",older_than="0s"} 2
`, n*9/10, n, n, n, n, n, n, n, 1_700_000_000+n%100)
}

// TestProbeAddsUpOverDeaths: a router that dies and comes back counts from zero, and nothing is lost or counted twice; what
// was there before the run does not count.
func TestProbeAddsUpOverDeaths(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Load() < 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, metricsOf(int(n.Load())))
	}))
	defer server.Close()
	start := time.Unix(0, 0)
	at := start
	p := NewProbe([]string{server.URL}, map[string]string{server.URL: "router 1"}, start, func() time.Time { return at })
	n.Store(1000)
	p.Round(t.Context())
	p.Begin()
	for _, count := range []int64{1100, 1200, -1, 50, 100} {
		n.Store(count)
		at = at.Add(time.Second)
		p.Round(t.Context())
	}
	r := &Report{}
	p.Probed(r)
	if len(r.OwnShare) != 1 || r.OwnShare[0].Count != 300 || r.ScrapesFailed != 1 {
		t.Errorf("own share %+v, %d scrapes failed, want 300 of 200 before and 100 after the death", r.OwnShare, r.ScrapesFailed)
	}
	if got := r.OwnP99; math.Abs(got-91) > .1 {
		t.Errorf("p99 %.2f ms, want 91: nine tenths of the way from 10 to 100", got)
	}
	if len(r.PSPs) != 2 || r.PSPs[0].Trips != 300 || r.PSPs[1].Chosen != 300 || r.PSPs[1].Outcomes["APPROVED"] != 300 {
		t.Errorf("PSPs %+v", r.PSPs)
	}
	if p.Waiting() != 4 {
		t.Errorf("%d wait, want the worst shard's 4", p.Waiting())
	}
	if got := p.OwnBetween(2*time.Second, 3*time.Second); got != 0 {
		t.Errorf("while the router was dead its share was %s", got)
	}
	if got := p.OwnBetween(0, time.Second).Round(time.Millisecond); got != 91*time.Millisecond || p.OwnLately().Round(time.Millisecond) != got {
		t.Errorf("in the first second %s, lately %s", got, p.OwnLately())
	}
	for _, s := range r.Series {
		if s.Plot == "Goroutines" && (s.Name != "router 1" || len(s.Points) != 4) {
			t.Errorf("goroutines are plotted as %+v", s)
		}
	}
}

// TestProbeTellsProcessesApart: what is kept for a merge is by process and segment, and that of this run alone.
func TestProbeTellsProcessesApart(t *testing.T) {
	var counts [2]atomic.Int64
	var urls []string
	for n := range counts {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, metricsOf(int(counts[n].Load()))) }))
		defer server.Close()
		urls = append(urls, server.URL)
	}
	start := time.Unix(0, 0)
	at := start.Add(-time.Second) // the trace begins later
	p := NewProbe(urls, map[string]string{urls[0]: "router 1"}, start, func() time.Time { return at })
	for n, steps := range [][2]int64{{1000, 500}, {1000, 500}, {1100, 500}, {1300, 550}, {40, 600}} {
		counts[0].Store(steps[0])
		counts[1].Store(steps[1])
		if p.Round(t.Context()); n == 0 {
			p.Begin()
			continue
		}
		at = at.Add(time.Second)
	}
	r := &Report{Segments: []SegmentRow{{Segment: Segment{Duration: time.Second}}, {Segment: Segment{Duration: time.Second}}}}
	p.Probed(r)
	var got []string
	for _, row := range r.Raw.Processes {
		text := fmt.Sprintf("%s: %d calls, stripe %d, began %d times", row.Name, row.calls(), row.PSPs[1].Chosen, len(row.Starts))
		for _, h := range row.Segments {
			text += fmt.Sprintf(", %d", h.Count())
		}
		got = append(got, text)
	}
	if want := []string{"router 1: 340 calls, stripe 340, began 2 times, 200, 40", urls[1] + ": 100 calls, stripe 100, began 2 times, 50, 50"}; !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	for _, s := range r.Series {
		if s.Points[0].Seconds < 0 {
			t.Errorf("%s of %s begins at %.0f s", s.Plot, s.Name, s.Points[0].Seconds)
		}
	}
}

func TestGrowth(t *testing.T) {
	series := func(plot string, value func(n int) float64) Series {
		s := Series{Plot: plot, Name: "r"}
		for n := range 40 {
			s.add(time.Duration(n)*time.Second, value(n))
		}
		return s
	}
	for _, tc := range []struct {
		name string
		of   Series
		flat bool
	}{
		{"warming up", series("Memory", func(n int) float64 { return 100 + 50*min(1, float64(n)/5) }), true},
		{"a leak", series("Memory", func(n int) float64 { return 100 + 5*float64(n) }), false},
		{"one spike", series("Goroutines", func(n int) float64 { return map[bool]float64{true: 9000, false: 100}[n == 35] }), true},
		{"leaked goroutines", series("Goroutines", func(n int) float64 { return float64(20 * n) }), false},
		{"lag that grows", series("Lag", func(n int) float64 { return float64(n) }), false},
	} {
		got := growth([]Series{tc.of})
		if len(got) != 1 || got[0].Flat != tc.flat {
			t.Errorf("%s: %+v, want flat %t", tc.name, got, tc.flat)
		}
	}
	if got := growth([]Series{{Plot: "Throughput", Points: make([]Point, 100)}, {Plot: "Memory", Points: make([]Point, 3)}}); len(got) != 0 {
		t.Errorf("compared: %+v", got)
	}
}

func TestSegmentsHaveTheirOwnFigures(t *testing.T) {
	start := time.Unix(0, 0)
	m := NewMeter(start, 40*time.Second)
	for n := range 40 {
		for range 1 + n/20*9 { // 1/s, then 10/s
			m.Intend(start.Add(time.Duration(n) * time.Second))
			m.Paid(start.Add(time.Duration(n) * time.Second))
		}
	}
	p := NewProbe(nil, nil, start, time.Now)
	share := func(le float64, n uint64) Histogram {
		return Histogram{Bounds: []float64{le, math.Inf(1)}, Counts: []uint64{n, n}}
	}
	p.recent = []round{{10 * time.Second, share(.01, 100)}, {30 * time.Second, share(.02, 100)}}
	r := &Report{}
	segments := []Segment{{Profile: Steady, Rate: 1, Duration: 20 * time.Second}, {Profile: Spike, Rate: 10, Duration: 20 * time.Second}}
	m.Segmented(r, segments, p, false)
	if len(r.Segments) != 2 || r.Segments[0].Peak != 1 || r.Segments[1].Peak != 10 || math.Round(r.PeakOwnP99) != 20 || math.Round(r.Segments[0].OwnP99) != 10 {
		t.Errorf("%+v, own share at the peak %.1f", r.Segments, r.PeakOwnP99)
	}
	climbing := &Report{}
	if m.Segmented(climbing, segments, p, true); climbing.Peak != 1 || r.Peak != 10 {
		t.Errorf("peak %.0f, without the climb %.0f, want 10 and 1", r.Peak, climbing.Peak)
	}
	if text := fmt.Sprint(r.segmentTable().Rows); !strings.Contains(text, "spike") {
		t.Error(text)
	}
}
