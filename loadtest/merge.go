package loadtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kept is a report and where it is kept: errors name it.
type Kept struct {
	Name string
	*Report
}

// MergeError is returned for reports that cannot be put together.
type MergeError struct {
	Report string // "" if it is about all of them
	Field  string
	Remedy string
}

func (e *MergeError) Error() string {
	if e.Report == "" {
		return fmt.Sprintf("merge: %s: %s", e.Field, e.Remedy)
	}
	return fmt.Sprintf("merge: %s: %s: %s", e.Report, e.Field, e.Remedy)
}

// merger puts the parts of one run together. Parts are in the order of their numbers.
type merger struct {
	parts     []Kept
	start     time.Time       // of the earliest part
	after     []time.Duration // how long after start each part began
	meter     *Meter
	processes []process
	r         *Report
}

// Merge makes one report of the reports of all parts of a run, on a common time, and concludes. Counts add up; quantiles are those
// of the histograms together; what several parts saw of one process, or of the books, counts once. An error is a *MergeError.
func Merge(reports []Kept) (*Report, error) {
	if err := checkParts(reports); err != nil {
		return nil, err
	}
	m := &merger{parts: slices.SortedFunc(slices.Values(reports), func(a, b Kept) int { return a.Share.Part - b.Share.Part })}
	if err := m.align(); err != nil {
		return nil, err
	}
	first := m.parts[0].Report
	m.r = &Report{Title: first.Title, Started: m.start, Setting: fmt.Sprintf("%d generators that shared a trace: %s", len(m.parts),
		strings.Replace(first.Setting, fmt.Sprintf(", part 1 of %d", len(m.parts)), "", 1))}
	m.meter = NewMeter(m.start, 0)
	m.meter.interval = first.Raw.Interval
	m.measure()
	if err := m.probe(); err != nil {
		return nil, err
	}
	m.segment()
	m.rest()
	m.books()
	m.overload()
	m.r.Raw = nil // it is all of them, and no part
	m.compare()
	m.r.Conclude(m.bounds())
	return m.r, nil
}

// checkParts refuses what are not all parts of one run.
func checkParts(reports []Kept) error {
	if len(reports) == 0 {
		return &MergeError{Field: "reports", Remedy: "none is named: want those of all parts, as run --part k/n --json wrote them"}
	}
	names := map[int]string{}
	for _, k := range reports {
		if err := checkPart(k); err != nil {
			return err
		}
		if err := checkSame(reports[0], k); err != nil {
			return err
		}
		if other, twice := names[k.Share.Part]; twice {
			return &MergeError{k.Name, "part", fmt.Sprintf("%s is in %s already: name each part once", k.Share, other)}
		}
		names[k.Share.Part] = k.Name
	}
	var missing []string
	for n := 1; n <= reports[0].Share.Parts && len(missing) < shownFindings; n++ {
		if names[n] == "" {
			missing = append(missing, fmt.Sprintf("%d/%d", n, reports[0].Share.Parts))
		}
	}
	if len(missing) > 0 {
		return &MergeError{Field: "part", Remedy: fmt.Sprintf("%s missing: name the reports of all parts", strings.Join(missing, ", "))}
	}
	return nil
}

func checkPart(k Kept) error {
	switch s := k.Share; {
	case len(k.Parts) > 0:
		return &MergeError{k.Name, "part", "it was merged already: name the reports that it was made of"}
	case s != nil && s.Parts < 2:
		return &MergeError{k.Name, "part", "it is of a whole run: there is nothing to add; run --part k/n plays parts"}
	case s == nil || k.Raw == nil || len(k.Raw.Calls) == 0 || k.Raw.Interval <= 0:
		return &MergeError{k.Name, "histograms", "it has none, as reports of older versions: play the part again"}
	case s.Part < 1 || s.Part > s.Parts:
		return &MergeError{k.Name, "part", fmt.Sprintf("%s is none: want 1 to %d", s, s.Parts)}
	}
	return nil
}

// checkSame compares what all parts of one run have in common.
func checkSame(first, k Kept) error {
	a, b := first.Share, k.Share
	for _, field := range []struct {
		name string
		a, b any
	}{
		{"parts", a.Parts, b.Parts}, {"trace", a.Trace, b.Trace}, {"seed", a.Seed, b.Seed}, {"profile", a.Profile, b.Profile},
		{"traffic", a.Traffic, b.Traffic}, {"prefix", a.Prefix, b.Prefix}, {"setting", a.Setting, b.Setting},
		{"interval", first.Raw.Interval, k.Raw.Interval}, {"arrivals", a.Arrivals, b.Arrivals}, {"segments", len(first.Segments), len(k.Segments)},
	} {
		if field.name == "arrivals" && (a.Arrivals == 0 || b.Arrivals == 0) {
			continue // one of them ended early
		}
		if field.a != field.b {
			return &MergeError{k.Name, field.name, fmt.Sprintf("is %v, in %s %v: merge parts of one run", field.b, first.Name, field.a)}
		}
	}
	return nil
}

// align lays all parts on one time.
func (m *merger) align() error {
	m.start = slices.MinFunc(m.parts, func(a, b Kept) int { return a.Started.Compare(b.Started) }).Started
	for _, k := range m.parts {
		m.after = append(m.after, k.Started.Sub(m.start))
	}
	for _, k := range m.parts {
		for _, other := range m.parts {
			if k.Started.After(other.Started.Add(other.Took)) {
				return &MergeError{k.Name, "started", fmt.Sprintf("at %s, when %s was over: give all parts the same --start",
					k.Started.UTC().Format(time.RFC3339), other.Name)}
			}
		}
	}
	return nil
}

// measure adds up what was counted and measured.
func (m *merger) measure() {
	for n, k := range m.parts {
		m.meter.add(k.Raw, m.after[n])
		for _, a := range k.Answers {
			count := a.Count
			a.Count = 0
			m.meter.answers[a] += count
		}
		m.r.Sent += k.Sent
		m.r.Overrun += k.Overrun
		m.r.Claim.add(k.Claim)
		m.r.ScrapesFailed += k.ScrapesFailed
		m.r.Took = max(m.r.Took, m.after[n]+k.Took)
		m.r.Parts = append(m.r.Parts, PartRow{Part: k.Share.String(), After: m.after[n], Intended: k.Intended, Sent: k.Sent, Answered: k.Answered,
			Paid: k.Paid, Pass: k.Pass})
		for _, f := range k.Faults {
			f.At += m.after[n].Round(time.Second)
			f.Result = k.Share.String() + ": " + f.Result
			m.r.Faults = append(m.r.Faults, f)
		}
		for _, s := range k.Slowest {
			s.AtMS += m.after[n].Milliseconds()
			m.r.Slowest = append(m.r.Slowest, s)
		}
	}
	m.meter.Measured(m.r)
	slices.SortStableFunc(m.r.Faults, func(a, b FaultRow) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(m.r.Slowest, func(a, b Slow) int { return cmp.Compare(b.TookMS, a.TookMS) })
	m.r.Slowest = m.r.Slowest[:min(len(m.r.Slowest), maxSlowest)]
}

// segment cuts the profile's segments from the earliest start; the last one ends when the latest part's does.
func (m *merger) segment() {
	var segments []Segment
	for _, row := range m.parts[0].Segments {
		segments = append(segments, row.Segment)
	}
	last := len(segments) - 1
	if last >= 0 {
		segments[last].Duration += slices.Max(m.after).Round(time.Second)
	}
	m.meter.segmented(m.r, segments, func(n int, _, _ time.Duration) time.Duration { return p99(m.ownIn(n)) }, false)
	if last >= 0 {
		m.r.Segments[last].Segment = m.parts[0].Segments[last].Segment
	}
}

// rest joins what people read.
func (m *merger) rest() {
	for _, k := range m.parts {
		for _, f := range k.Failures {
			m.r.Failures = append(m.r.Failures, k.Share.String()+": "+f)
		}
		if !k.Pass && len(k.Failures) == 0 {
			m.r.Failures = append(m.r.Failures, k.Share.String()+": its verdict is FAIL")
		}
		m.r.Audit.Lost += k.Audit.Lost
		m.r.Audit.Doubles = max(m.r.Audit.Doubles, k.Audit.Doubles) // each counts those of the whole run
		m.r.Audit.Left += k.Audit.Left
		m.r.Audit.Found += k.Audit.Found
		for _, f := range k.Audit.Findings {
			if len(m.r.Audit.Findings) < maxFindings {
				m.r.Audit.Findings = append(m.r.Audit.Findings, k.Share.String()+": "+f)
			}
		}
	}
}

// books are those that every part read when they stood still, at the same step: each compares its own payments with what it read,
// so a part that read them earlier has not seen the end of its own.
func (m *merger) books() {
	var last *Report
	for _, k := range m.parts {
		if k.Books != nil && (last == nil || k.Books.Seq > last.Books.Seq) {
			last = k.Report
		}
	}
	if last == nil {
		return
	}
	for _, k := range m.parts {
		switch b := k.Books; {
		case b == nil: // its own verdict says so
		case b.Moving || b.Seq != last.Books.Seq:
			m.fail(true, "%s read the books at step %d, when they were not final: play all parts again with the same --start and a longer --settle", k.Share, b.Seq)
		default:
			m.fail(!sameBooks(k.Report, last), "%s and %s read other books: name one cluster's --map and --sim to all parts", k.Share, last.Share)
		}
	}
	m.r.Books = last.Books
	m.r.Audit.Buyers, m.r.Audit.Payments, m.r.Audit.Balances, m.r.Audit.House = last.Audit.Buyers, last.Audit.Payments, last.Audit.Balances, last.Audit.House
}

// sameBooks compares what two parts saw at the same place of the books. Events that everybody has read may be gone meanwhile.
func sameBooks(a, b *Report) bool {
	counts := func(b *BooksRow) [9]int {
		return [...]int{b.Shards, b.Payments, b.Attempts, b.Refunds, b.Entries, b.Witnessed, b.OfRun, b.CapturedOfRun, b.Unknown}
	}
	return counts(a.Books) == counts(b.Books) && a.Audit.Payments == b.Audit.Payments && a.Audit.Balances == b.Audit.Balances &&
		maps.Equal(a.Audit.House, b.Audit.House)
}

// overload joins how the parts saw the cluster bear it: it has recovered when the last of them says so.
func (m *merger) overload() {
	first := m.parts[0].Overload
	if first == nil || len(m.r.Segments) != overloadSegments {
		return
	}
	row := &OverloadRow{OwnBefore: m.r.Segments[0].OwnP99, OwnDuring: m.r.Segments[1].OwnP99, Left: m.r.Audit.Left}
	shed := map[Op]*ShedRow{}
	for _, k := range m.parts {
		if k.Overload == nil || k.Overload.Recovery < 0 {
			row.Recovery = -1
		} else if row.Recovery >= 0 {
			row.Recovery = max(row.Recovery, k.Overload.Recovery)
		}
		if k.Overload == nil {
			continue
		}
		for _, s := range k.Overload.Shed {
			if shed[s.Op] == nil {
				shed[s.Op] = &ShedRow{Op: s.Op}
			}
			shed[s.Op].Answers += s.Answers
			shed[s.Op].Untold += s.Untold
			shed[s.Op].ForGood += s.ForGood
		}
	}
	for _, op := range []Op{Authorize, Capture, Void, Refund} {
		if shed[op] != nil {
			row.Shed = append(row.Shed, *shed[op])
		}
	}
	var segments []Segment
	for _, s := range m.r.Segments {
		segments = append(segments, s.Segment)
	}
	m.meter.borne(row, segments)
	m.r.Overload = row
}

// bounds are the strictest of all parts.
func (m *merger) bounds() (b Bounds) {
	least := func(a, b time.Duration) time.Duration {
		if a == 0 || b == 0 {
			return max(a, b)
		}
		return min(a, b)
	}
	for _, k := range m.parts {
		b.MinPeak, b.MinKept = max(b.MinPeak, k.Bounds.MinPeak), max(b.MinKept, k.Bounds.MinKept)
		b.MaxOwnP99, b.MaxRecovery = least(b.MaxOwnP99, k.Bounds.MaxOwnP99), least(b.MaxRecovery, k.Bounds.MaxRecovery)
		b.Flat = b.Flat || k.Bounds.Flat
	}
	return b
}

func (m *merger) fail(bad bool, format string, args ...any) {
	if bad {
		m.r.Failures = append(m.r.Failures, fmt.Sprintf(format, args...))
	}
}

// compare holds the parts' figures against themselves, against the trace, and against the one set of books.
func (m *merger) compare() {
	whole := true
	for _, k := range m.parts {
		sum := k.Raw.Seconds.sum()
		for _, c := range []struct {
			what      string
			says, has int
		}{{"intended", k.Intended, sum.intended}, {"answered", k.Answered, sum.answered}, {"paid", k.Paid, sum.paid}} {
			m.fail(c.says != c.has, "%s says that %d were %s, second by second %d were", k.Share, c.says, c.what, c.has)
		}
		for _, row := range slices.Concat(k.Latency, []LatencyRow{k.GeneratorLate}) {
			count := int64(0)
			if h := k.Raw.Calls[row.What].Histogram; h != nil {
				count = h.TotalCount()
			}
			m.fail(row.Count != count, "%s says that %d times were measured of %q, its histogram has %d", k.Share, row.Count, row.What, count)
		}
		m.fail(k.Sent < int64(k.Claim.Asked), "%s asked for %d payments with %d requests", k.Share, k.Claim.Asked, k.Sent)
		m.fail(k.Claim.Asked < k.Claim.Named, "%s asked for %d payments, and the API named %d to it", k.Share, k.Claim.Asked, k.Claim.Named)
		m.fail(k.Paid < k.Claim.Captured, "%s says that %d were paid, of %d a capture was acknowledged", k.Share, k.Paid, k.Claim.Captured)
		if whole = whole && k.Share.Arrivals > 0; k.Share.Arrivals > 0 {
			m.fail(k.Intended != k.Share.due(), "%s intended %d arrivals, its part of the trace has %d", k.Share, k.Intended, k.Share.due())
		}
	}
	arrivals := m.parts[0].Share.Arrivals
	m.fail(whole && m.r.Intended != arrivals, "the parts intended %d arrivals, the trace has %d", m.r.Intended, arrivals)
	b, c := m.r.Books, m.r.Claim
	if b == nil {
		return
	}
	m.fail(b.OfRun > c.Asked, "the books have %d payments of this run, its parts asked for %d", b.OfRun, c.Asked)
	m.fail(b.OfRun < c.Named, "the books have %d payments of this run, the API named %d", b.OfRun, c.Named)
	m.fail(b.CapturedOfRun > c.CapturesAsked, "the books have captures of %d payments of this run, its parts asked for %d", b.CapturedOfRun, c.CapturesAsked)
	m.fail(b.CapturedOfRun < c.Captured, "the books have captures of %d payments of this run, the API acknowledged %d", b.CapturedOfRun, c.Captured)
}
