package loadtest

import (
	"slices"
	"time"
)

// Series is one line of a plot.
type Series struct {
	Plot   string  `json:"plot"`
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Points []Point `json:"points"`
}

// Point is a value at a time from the run's start.
type Point struct {
	Seconds float64 `json:"t"`
	Value   float64 `json:"v"`
}

// add adds a point, unless the run has not begun.
func (s *Series) add(at time.Duration, value float64) {
	if at < 0 {
		return
	}
	s.Points = append(s.Points, Point{at.Seconds(), value})
}

// thin keeps at most maxIntervals points: of each stretch the highest, so that no peak is lost.
func (s *Series) thin() {
	if len(s.Points) <= maxIntervals {
		return
	}
	step := (len(s.Points) + maxIntervals - 1) / maxIntervals
	var out []Point
	for part := range slices.Chunk(s.Points, step) {
		out = append(out, slices.MaxFunc(part, func(a, b Point) int { return compareFloats(a.Value, b.Value) }))
	}
	s.Points = out
}

func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// plots in the order in which they are shown.
var plots = []string{"Throughput", "Latency in all, from the intended start", "Own share of authorizations", "Calls", "Lag", "Memory", "Goroutines",
	"Connections and files open"}

func plotRank(plot string) int { return slices.Index(plots, plot) }

// Growth compares a gauge's second quarter with its last: the first is warming up.
type Growth struct {
	Plot  string  `json:"plot"`
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Early float64 `json:"early"` // median
	Late  float64 `json:"late"`
	Flat  bool    `json:"flat"`
}

// What may grow before it is not flat any more: a fifth, and something on top that small figures vary by.
const (
	growthFactor  = 1.2
	growthSamples = 8 // fewer say nothing
)

var growthSlack = map[string]float64{"Memory": 16, "Goroutines": 50, "Connections and files open": 20, "Lag": 2}

func growth(all []Series) []Growth {
	var out []Growth
	for _, s := range all {
		slack, gauge := growthSlack[s.Plot]
		if !gauge || len(s.Points) < growthSamples {
			continue
		}
		quarter := len(s.Points) / 4
		g := Growth{Plot: s.Plot, Name: s.Name, Unit: s.Unit, Early: medianOf(s.Points[quarter : 2*quarter]), Late: medianOf(s.Points[len(s.Points)-quarter:])}
		g.Flat = g.Late <= g.Early*growthFactor+slack
		out = append(out, g)
	}
	return out
}

func medianOf(points []Point) float64 {
	values := make([]float64, len(points))
	for n, p := range points {
		values[n] = p.Value
	}
	slices.Sort(values)
	return values[len(values)/2]
}
