package loadtest

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// wordOverloaded is the problem of a shard under stress.
const wordOverloaded = "SHARD_OVERLOADED"

// turnedAway tells whether an answer says: not now, since there is too much to do.
func turnedAway(status int, code string) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable && code == wordOverloaded
}

// turnedAway tells whether the cluster turned the call away.
func (r reply) turnedAway() bool { return turnedAway(r.status, r.body.Code) }

// OverloadRow is how a cluster bore more than it can take: a segment before, the overload, a segment after.
type OverloadRow struct {
	Before    float64   `json:"authorizedBefore"` // authorizations a second that were decided, in the best ten seconds before
	Offered   float64   `json:"offered"`          // … that came during the overload
	During    float64   `json:"authorizedDuring"` // … of them decided
	OwnBefore float64   `json:"ownP99BeforeMs"`
	OwnDuring float64   `json:"ownP99DuringMs"`
	Recovery  float64   `json:"recoverySeconds"` // from its end until all is as before; below 0 = never
	Shed      []ShedRow `json:"shed"`
	Left      int       `json:"left"` // calls that were turned away for good, and are in the books
}

// ShedRow is what was turned away of one kind of call.
type ShedRow struct {
	Op      Op  `json:"op"`
	Answers int `json:"answers"`
	Untold  int `json:"withoutRetryAfter"` // … without saying when to come back
	ForGood int `json:"forGood"`           // calls that were not sent again
}

// kept is how much of the throughput before was left, in percent.
func (o *OverloadRow) kept() float64 {
	if o.Before == 0 {
		return 0
	}
	return 100 * o.During / o.Before
}

// Shed counts an answer that turned a call away. told says that it named the time to come back.
func (m *Meter) Shed(op Op, at time.Time, told bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.shedRow(op)
	row.Answers++
	if !told {
		row.Untold++
	}
	if op == Authorize {
		m.tickLocked(at, func(s *second) { s.shed++ })
	}
}

func (m *Meter) shedRow(op Op) *ShedRow {
	if m.shed[op] == nil {
		m.shed[op] = &ShedRow{Op: op}
	}
	return m.shed[op]
}

// The shape of a run with an overload.
const (
	overloadSegments = 3
	overloadPromise  = 100 * time.Millisecond // our own share within it is as good as before
	recovered        = 3 * time.Second        // of quiet are a recovery
)

// Overload is the profile that Overloaded judges: steady at the capacity, at twice it for a minute, at half of it.
func Overload(capacity float64) []Segment {
	return []Segment{{Profile: Steady, Rate: capacity, Duration: 30 * time.Second}, {Profile: Steady, Rate: 2 * capacity, Duration: time.Minute},
		{Profile: Steady, Rate: capacity / 2, Duration: 30 * time.Second}}
}

// Overloaded writes into a report how the second of three segments was borne.
func (m *Meter) Overloaded(r *Report, segments []Segment, probe *Probe) error {
	if len(segments) != overloadSegments {
		return fmt.Errorf("loadtest: an overload has a segment before and one after; got %d segments", len(segments))
	}
	begin := segments[0].Duration
	end := begin + segments[1].Duration
	before := probe.OwnBetween(0, begin)
	row := &OverloadRow{OwnBefore: milliseconds(before), OwnDuring: milliseconds(probe.OwnBetween(begin, end)), Left: r.Audit.Left}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.borne(row, segments)
	row.Recovery = m.recovery(end, end+segments[2].Duration, probe, max(2*before, overloadPromise))
	for _, op := range []Op{Authorize, Capture, Void, Refund} {
		if m.shed[op] != nil {
			row.Shed = append(row.Shed, *m.shed[op])
		}
	}
	r.Overload = row
	return nil
}

// borne writes into the row what was decided before and during the second segment.
func (m *Meter) borne(row *OverloadRow, segments []Segment) {
	begin := segments[0].Duration
	end := begin + segments[1].Duration
	best, _ := m.most(0, min(int(begin.Seconds()), len(m.perSec)), func(s second) int { return s.authorized })
	row.Before = float64(best) / peakWindow
	for _, s := range m.perSec[min(int(begin.Seconds()), len(m.perSec)):min(int(end.Seconds()), len(m.perSec))] {
		row.Offered += float64(s.intended) / segments[1].Duration.Seconds()
		row.During += float64(s.authorized) / segments[1].Duration.Seconds()
	}
}

// recovery is how many seconds after the end of an overload a stretch begins in which our own share is within its bound and no
// authorization is turned away; below 0 if none is seen before the run ends.
func (m *Meter) recovery(end, until time.Duration, probe *Probe, bound time.Duration) float64 {
	for at := end; at+recovered <= until; at += time.Second {
		from, to := int(at.Seconds()), int((at + recovered).Seconds())
		if to > len(m.perSec) {
			break
		}
		shed := slices.ContainsFunc(m.perSec[from:to], func(s second) bool { return s.shed > 0 })
		own := probe.OwnBetween(at, at+recovered) // of one second of half the capacity it would rest on a few calls
		if !shed && own > 0 && own <= bound {
			return (at - end).Seconds()
		}
	}
	return -1
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// failures are what an overload must not do.
func (o *OverloadRow) failures(b Bounds) (out []string) {
	fail := func(bad bool, format string, args ...any) {
		if bad {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	shed := 0
	for _, row := range o.Shed {
		shed += row.Answers
		fail(row.Untold > 0, "%d calls to %s were turned away without Retry-After", row.Untold, row.Op)
	}
	fail(o.Left > 0, "%d calls were turned away for good, and are in the books", o.Left)
	fail(b.MinKept > 0 && o.kept() < b.MinKept, "the overload left %.0f %% of the authorizations before it, want %.0f", o.kept(), b.MinKept)
	fail(b.MinKept > 0 && shed == 0, "nothing was turned away: this was no overload")
	fail(b.MaxRecovery > 0 && o.Recovery < 0, "no recovery from the overload was seen")
	fail(b.MaxRecovery > 0 && o.Recovery > b.MaxRecovery.Seconds(), "the recovery took %.0f s, want %s", o.Recovery, b.MaxRecovery)
	return out
}

func (r *Report) overloadTable() table {
	t := table{Title: "Overload", Head: []string{"", ""}}
	o := r.Overload
	if o == nil {
		return t
	}
	row := func(what, figure string) { t.Rows = append(t.Rows, []string{what, figure}) }
	row("authorizations/s before, at most", fmt.Sprintf("%.1f", o.Before))
	row("offered during it", fmt.Sprintf("%.1f", o.Offered))
	row("decided during it", fmt.Sprintf("%.1f, which is %.0f %%", o.During, o.kept()))
	row("own share p99, before and during it", fmt.Sprintf("%.1f ms, %.1f ms", o.OwnBefore, o.OwnDuring))
	recovery := fmt.Sprintf("after %.0f s", o.Recovery)
	if o.Recovery < 0 {
		recovery = "not seen"
	}
	row("recovery", recovery)
	return t
}

func (r *Report) shedTable() table {
	t := table{Title: "Turned away", Head: []string{"call", "answers", "without Retry-After", "calls given up", "of these in the books"}}
	if r.Overload == nil {
		return t
	}
	for _, s := range r.Overload.Shed {
		t.Rows = append(t.Rows, []string{string(s.Op), fmt.Sprint(s.Answers), fmt.Sprint(s.Untold), fmt.Sprint(s.ForGood), ""})
	}
	if n := len(t.Rows); n > 0 {
		t.Rows = slices.Insert(t.Rows, n, []string{"all", "", "", "", fmt.Sprint(r.Overload.Left)})
	}
	return t
}
