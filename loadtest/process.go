package loadtest

import (
	"fmt"
	"slices"
)

// process is one router or worker, as the part that saw most of it saw it.
type process struct {
	ProcessRow
	name string // in the merged report
	part int    // index of that part
	by   []bool // parts that saw it, by index
}

// calls is how many calls a process was seen to serve.
func (p ProcessRow) calls() (n uint64) {
	for _, h := range p.Own {
		n += h.Count()
	}
	return n
}

// began tells whether two rows have seen one process begin; nothing is known of one that never answered.
func (p ProcessRow) began(other ProcessRow) (same, known bool) {
	known = len(p.Starts) > 0 && len(other.Starts) > 0
	return slices.ContainsFunc(p.Starts, func(at float64) bool { return slices.Contains(other.Starts, at) }), known
}

// find is the index of a row's process among those that this part has not named yet; below 0 if it is a new one. An address is
// not enough: on two machines 127.0.0.1 names two routers, and one router may have two addresses. When it began tells.
func (m *merger) find(row ProcessRow, part int) int {
	at := slices.IndexFunc(m.processes, func(p process) bool {
		same, known := p.began(row)
		return !p.by[part] && p.URL == row.URL && (same || !known)
	})
	if at >= 0 {
		return at
	}
	return slices.IndexFunc(m.processes, func(p process) bool {
		same, _ := p.began(row)
		return !p.by[part] && same
	})
}

// meet lists the processes that the parts saw.
func (m *merger) meet() {
	for n, k := range m.parts {
		for _, row := range k.Raw.Processes {
			at := m.find(row, n)
			if at < 0 {
				at = len(m.processes)
				m.processes = append(m.processes, process{ProcessRow: row, name: m.nameOf(row, k.Share), part: n, by: make([]bool, len(m.parts))})
			}
			p := &m.processes[at]
			starts := slices.Concat(p.Starts, row.Starts) // all that any part saw: one may have seen only the last of them
			p.by[n] = true
			if row.calls() > p.calls() {
				p.ProcessRow, p.part = row, n
			}
			p.Starts = starts
		}
	}
}

// nameOf is a name that no other process has: each part numbers its routers by itself.
func (m *merger) nameOf(row ProcessRow, s *Share) string {
	if slices.ContainsFunc(m.processes, func(p process) bool { return p.name == row.Name }) {
		return fmt.Sprintf("%s of %s", row.Name, s)
	}
	return row.Name
}

// probe adds up what the processes counted, each once.
func (m *merger) probe() error {
	m.meet()
	own := map[string]Histogram{}
	psps := map[string]*PSPRow{}
	for _, p := range m.processes {
		for route, h := range p.Own {
			sum, err := own[route].Plus(h)
			if err != nil {
				return &MergeError{m.parts[p.part].Name, "own share", fmt.Sprintf("%v: let all routers be of one version", err)}
			}
			own[route] = sum
		}
		for _, row := range p.PSPs {
			if psps[row.PSP] == nil {
				psps[row.PSP] = &PSPRow{PSP: row.PSP, Outcomes: map[string]int{}}
			}
			sum := psps[row.PSP]
			sum.Chosen += row.Chosen
			sum.Trips += row.Trips
			for outcome, n := range row.Outcomes {
				sum.Outcomes[outcome] += n
			}
		}
	}
	m.r.ownShare(own)
	for _, row := range psps {
		m.r.PSPs = append(m.r.PSPs, *row)
	}
	slices.SortFunc(m.r.PSPs, comparePSPs)
	m.plot()
	return nil
}

// ownIn is our own share of authorizations in a segment.
func (m *merger) ownIn(segment int) (sum Histogram) {
	for _, p := range m.processes {
		if segment >= len(p.Segments) {
			continue
		}
		if more, err := sum.Plus(p.Segments[segment]); err == nil { // probe has refused other bounds
			sum = more
		}
	}
	return sum
}

// perProcess are plots with a line for each process; perPart those that cannot be added up. The others the meter draws.
var (
	perProcess = []string{"Memory", "Goroutines", "Connections and files open"}
	perPart    = []string{"Own share of authorizations", "Lag"}
)

// plot takes each process's lines from the part that saw most of it. What was seen of all processes together is that of a part
// that saw them all; if none did, each part has its own line.
func (m *merger) plot() {
	for _, p := range m.processes {
		m.take(p.part, func(s *Series) bool {
			mine := slices.Contains(perProcess, s.Plot) && s.Name == p.Name
			s.Name = p.name
			return mine
		})
	}
	all := slices.IndexFunc(m.parts, func(k Kept) bool {
		return !slices.ContainsFunc(m.processes, func(p process) bool { return !p.by[k.Share.Part-1] })
	})
	for n, k := range m.parts {
		if all >= 0 && n != all {
			continue
		}
		m.take(n, func(s *Series) bool {
			if all < 0 {
				s.Name += " of " + k.Share.String()
			}
			return slices.Contains(perPart, s.Plot)
		})
	}
	m.r.sortSeries()
	m.r.Growth = growth(m.r.Series)
}

// take adds those series of a part that are wanted, on the common time.
func (m *merger) take(part int, want func(*Series) bool) {
	for _, s := range m.parts[part].Series {
		if !want(&s) {
			continue
		}
		s.Points = slices.Clone(s.Points)
		for n := range s.Points {
			s.Points[n].Seconds += m.after[part].Seconds()
		}
		m.r.Series = append(m.r.Series, s)
	}
}
