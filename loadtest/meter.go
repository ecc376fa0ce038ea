package loadtest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Timing is one call, from its intended start to the answer that decided it.
type Timing struct {
	Op                   Op
	Payment              string
	Status               int
	Word                 string
	Tries                int
	Intended, Sent, Done time.Time
}

// The histograms count microseconds with three significant digits, up to ten minutes; in a plot's interval two digits do.
const (
	lowestMicros  = 1
	highestMicros = 600_000_000
	digits        = 3
	plotDigits    = 2
	maxSlowest    = 10
	maxSeconds    = 3_000_000 // of a run: longer than a month
	maxIntervals  = 300       // of a plot
)

// Meter counts and measures a run. It is safe for concurrent use.
type Meter struct {
	start    time.Time
	interval time.Duration // of the plots

	mu      sync.Mutex
	from    map[string]*hdrhistogram.Histogram // by operation, from the intended start
	sent    *hdrhistogram.Histogram            // authorizations from when they were sent: what a closed loop would see
	late    *hdrhistogram.Histogram            // how late the generator itself was
	plots   []*hdrhistogram.Histogram          // all calls, by interval of their intended start
	perSec  []second
	answers map[AnswerCount]int
	shed    map[Op]*ShedRow
	slowest []Timing
}

// second is what happened in one second of the run.
type second struct {
	intended, answered, paid int
	authorized, shed         int // authorizations that were decided, that were turned away
}

// NewMeter measures a run that begins at start and is planned to last so long.
func NewMeter(start time.Time, planned time.Duration) *Meter {
	interval := max(time.Second, (planned/maxIntervals).Truncate(time.Second)+time.Second)
	if planned <= maxIntervals*time.Second {
		interval = time.Second
	}
	return &Meter{start: start, interval: interval, from: map[string]*hdrhistogram.Histogram{}, sent: newHistogram(digits), late: newHistogram(digits),
		answers: map[AnswerCount]int{}, shed: map[Op]*ShedRow{}}
}

func newHistogram(digits int) *hdrhistogram.Histogram {
	return hdrhistogram.New(lowestMicros, highestMicros, digits)
}

// record clamps: what is off the scale is at its end, never lost.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), lowestMicros), highestMicros))
}

// count counts a call that was answered.
func (s *second) count(t Timing) {
	s.answered++
	if t.Op == Authorize && t.Status < http.StatusInternalServerError {
		s.authorized++
	}
}

// Intend counts an arrival that was due.
func (m *Meter) Intend(at time.Time) { m.tick(at, func(s *second) { s.intended++ }) }

// Paid counts a payment whose capture was answered.
func (m *Meter) Paid(at time.Time) { m.tick(at, func(s *second) { s.paid++ }) }

func (m *Meter) tick(at time.Time, count func(*second)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tickLocked(at, count)
}

func (m *Meter) tickLocked(at time.Time, count func(*second)) {
	n := min(max(int(at.Sub(m.start)/time.Second), 0), maxSeconds)
	for len(m.perSec) <= n {
		m.perSec = append(m.perSec, second{})
	}
	count(&m.perSec[n])
}

// Count counts an answer that is not measured.
func (m *Meter) Count(op Op, status int, word string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers[AnswerCount{Op: op, Status: status, Word: word}]++
}

// Done measures a call. A call that nobody answered is measured too: it took at least so long.
func (m *Meter) Done(t Timing) {
	took := t.Done.Sub(t.Intended)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers[AnswerCount{Op: t.Op, Status: t.Status, Word: t.Word}]++
	for _, name := range []string{string(t.Op), allCalls} {
		if m.from[name] == nil {
			m.from[name] = newHistogram(digits)
		}
		record(m.from[name], took)
	}
	record(m.late, t.Sent.Sub(t.Intended))
	if t.Op == Authorize {
		record(m.sent, t.Done.Sub(t.Sent))
	}
	n := max(int(t.Intended.Sub(m.start)/m.interval), 0)
	for len(m.plots) <= n && n <= maxSeconds {
		m.plots = append(m.plots, nil)
	}
	if m.plots[n] == nil {
		m.plots[n] = newHistogram(plotDigits)
	}
	record(m.plots[n], took)
	switch {
	case t.Status == statusNoAnswer:
	case turnedAway(t.Status, t.Word):
		m.shedRow(t.Op).ForGood++
	default:
		m.tickLocked(t.Done, func(s *second) { s.count(t) })
	}
	m.keepSlowest(t)
}

func (m *Meter) keepSlowest(t Timing) {
	took := func(t Timing) time.Duration { return t.Done.Sub(t.Intended) }
	if len(m.slowest) == maxSlowest && took(t) <= took(m.slowest[maxSlowest-1]) {
		return
	}
	at, _ := slices.BinarySearchFunc(m.slowest, t, func(a, b Timing) int { return int(took(b) - took(a)) })
	m.slowest = slices.Insert(m.slowest, at, t)
	m.slowest = m.slowest[:min(len(m.slowest), maxSlowest)]
}

// What the report's rows are called that are no operation's.
const (
	allCalls = "all"
	rowSent  = "authorize, from when it was sent"
	rowLate  = "generator late by"
)

// raw is what is kept of the meter, so that others can be added to it.
func (m *Meter) raw() *Raw {
	raw := &Raw{Interval: m.interval, Seconds: slices.Clone(m.perSec), Calls: map[string]kept{rowSent: {m.sent}, rowLate: {m.late}}}
	for name, h := range m.from {
		raw.Calls[name] = kept{h}
	}
	for _, h := range m.plots {
		raw.Plots = append(raw.Plots, kept{h})
	}
	return raw
}

// add adds what another generator measured, which began so long after this meter did. Its seconds and intervals are shifted by
// whole ones.
func (m *Meter) add(raw *Raw, after time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, s := range raw.Seconds {
		at := m.start.Add(time.Duration(n)*time.Second + after.Round(time.Second))
		m.tickLocked(at, func(sum *second) { sum.add(s) })
	}
	for name, h := range raw.Calls {
		switch {
		case h.Histogram == nil:
		case name == rowSent:
			m.sent.Merge(h.Histogram)
		case name == rowLate:
			m.late.Merge(h.Histogram)
		default:
			if m.from[name] == nil {
				m.from[name] = newHistogram(digits)
			}
			m.from[name].Merge(h.Histogram)
		}
	}
	shift := int(after.Round(m.interval) / m.interval)
	for n, h := range raw.Plots {
		for len(m.plots) <= n+shift {
			m.plots = append(m.plots, nil)
		}
		if h.Histogram == nil {
			continue
		}
		if m.plots[n+shift] == nil {
			m.plots[n+shift] = newHistogram(plotDigits)
		}
		m.plots[n+shift].Merge(h.Histogram)
	}
}

// peakWindow is how long a throughput must hold to count as one.
const peakWindow = 10 // seconds

// Measured writes what the meter saw into a report.
func (m *Meter) Measured(r *Report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(m.from)) {
		r.Latency = append(r.Latency, latencyOf(name, m.from[name]))
	}
	r.Latency = append(r.Latency, latencyOf(rowSent, m.sent))
	r.GeneratorLate = latencyOf(rowLate, m.late)
	r.Raw = m.raw()
	r.Peak, r.PeakAt = m.peak(0, len(m.perSec))
	for _, s := range m.perSec {
		r.Intended += s.intended
		r.Answered += s.answered
		r.Paid += s.paid
	}
	for a, n := range m.answers {
		a.Count = n
		r.Answers = append(r.Answers, a)
	}
	slices.SortFunc(r.Answers, compareAnswers)
	for _, t := range m.slowest {
		r.Slowest = append(r.Slowest, Slow{Op: t.Op, Payment: t.Payment, AtMS: t.Intended.Sub(m.start).Milliseconds(),
			TookMS: t.Done.Sub(t.Intended).Milliseconds(), Status: t.Status, Word: t.Word, Tries: t.Tries})
	}
	r.Series = append(r.Series, m.throughput()...)
	r.Series = append(r.Series, m.latencies()...)
}

// peak is the most payments per second over peakWindow seconds, and in which second that begins; but no more than ever came in
// such a time, since what a stall had dammed up is no rate that lasts. A shorter run counts as long as the window.
func (m *Meter) peak(from, to int) (perSecond float64, at int) {
	to = min(to, len(m.perSec))
	came, _ := m.most(from, to, func(s second) int { return s.intended })
	paid, at := m.most(from, to, func(s second) int { return s.paid })
	return float64(min(came, paid)) / peakWindow, at
}

// most is the largest sum of peakWindow seconds, and where they begin.
func (m *Meter) most(from, to int, of func(second) int) (best, at int) {
	sum := 0
	for n := from; n < to; n++ {
		sum += of(m.perSec[n])
		if n-peakWindow >= from {
			sum -= of(m.perSec[n-peakWindow])
		}
		if sum > best {
			best, at = sum, max(from, n-peakWindow+1)
		}
	}
	return best, at
}

// Segmented writes the segments into a report, each with its own peak and our own share in it. The report's peak is the
// highest of them, the last one left out if it climbs to find the limit.
func (m *Meter) Segmented(r *Report, segments []Segment, probe *Probe, climbs bool) {
	m.segmented(r, segments, func(_ int, begin, end time.Duration) time.Duration { return probe.OwnBetween(begin, end) }, climbs)
}

func (m *Meter) segmented(r *Report, segments []Segment, own func(n int, begin, end time.Duration) time.Duration, climbs bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	begin, highest := time.Duration(0), -1.0
	for n, s := range segments {
		end := begin + s.Duration
		row := SegmentRow{Segment: s, OwnP99: milliseconds(own(n, begin, end))}
		var at int
		row.Peak, at = m.peak(int(begin.Seconds()), int(end.Seconds()))
		counts := n == 0 || n < len(segments)-1 || !climbs
		if row.Peak > highest && counts {
			highest, r.Peak, r.PeakAt, r.PeakOwnP99 = row.Peak, row.Peak, at, row.OwnP99
		}
		r.Segments = append(r.Segments, row)
		begin = end
	}
}

// PaidLately is how many payments per second there were in the seconds before at.
func (m *Meter) PaidLately(at time.Time, seconds int) float64 {
	return m.lately(at, seconds, func(s second) int { return s.paid })
}

// IntendedLately is how many payments per second were to begin in the seconds before at.
func (m *Meter) IntendedLately(at time.Time, seconds int) float64 {
	return m.lately(at, seconds, func(s second) int { return s.intended })
}

func (m *Meter) lately(at time.Time, seconds int, count func(second) int) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	to := min(max(int(at.Sub(m.start)/time.Second), 0), len(m.perSec))
	sum := 0
	for _, s := range m.perSec[max(0, to-seconds):to] {
		sum += count(s)
	}
	return float64(sum) / float64(seconds)
}

// throughput are plots of rates by interval.
func (m *Meter) throughput() []Series {
	per := max(1, int(m.interval/time.Second))
	series := []Series{{Plot: "Throughput", Name: "intended", Unit: "/s"}, {Plot: "Throughput", Name: "paid", Unit: "/s"},
		{Plot: "Calls", Name: "answered", Unit: "/s"}, {Plot: "Calls", Name: "authorizations decided", Unit: "/s"},
		{Plot: "Calls", Name: "authorizations turned away", Unit: "/s"}}
	for from := 0; from < len(m.perSec); from += per {
		var sum second
		part := m.perSec[from:min(from+per, len(m.perSec))]
		for _, s := range part {
			sum.add(s)
		}
		for k, n := range []int{sum.intended, sum.paid, sum.answered, sum.authorized, sum.shed} {
			series[k].add(time.Duration(from)*time.Second, float64(n)/float64(len(part)))
		}
	}
	return series
}

// latencies are plots of quantiles by interval of the intended start.
func (m *Meter) latencies() []Series {
	var series []Series
	for _, q := range []float64{50, 99} {
		s := Series{Plot: "Latency in all, from the intended start", Name: fmt.Sprintf("p%.0f", q), Unit: "ms"}
		for n, h := range m.plots {
			if h != nil {
				s.add(time.Duration(n)*m.interval, micros(h.ValueAtQuantile(q)))
			}
		}
		series = append(series, s)
	}
	return series
}

// micros are milliseconds.
func micros(n int64) float64 { return float64(n) / 1000 }

func latencyOf(name string, h *hdrhistogram.Histogram) LatencyRow {
	return LatencyRow{What: name, Count: h.TotalCount(), P50: micros(h.ValueAtQuantile(50)), P90: micros(h.ValueAtQuantile(90)),
		P99: micros(h.ValueAtQuantile(99)), P999: micros(h.ValueAtQuantile(99.9)), Max: micros(h.Max())}
}
