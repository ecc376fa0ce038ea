package loadtest

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Quantile is the q-quantile of durations by the nearest rank; 0 if there are none. It sorts its argument.
func Quantile(durations []time.Duration, q float64) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	slices.Sort(durations)
	rank := int(math.Ceil(q * float64(len(durations))))
	return durations[min(max(rank, 1), len(durations))-1]
}

// Histogram is a Prometheus histogram of seconds: Counts[n] observations were at most Bounds[n], the last of which is
// infinite.
type Histogram struct {
	Bounds []float64
	Counts []uint64
}

// Count is how many observations there are.
func (h Histogram) Count() uint64 {
	if len(h.Counts) == 0 {
		return 0
	}
	return h.Counts[len(h.Counts)-1]
}

// Plus adds a histogram of the same bounds, or of none. Others are an error: their counts do not add up.
func (h Histogram) Plus(other Histogram) (Histogram, error) {
	switch {
	case len(h.Bounds) == 0:
		return other, nil
	case len(other.Bounds) == 0:
		return h, nil
	}
	if !slices.Equal(h.Bounds, other.Bounds) {
		return h, fmt.Errorf("loadtest: histograms with bounds %v and %v cannot be added", h.Bounds, other.Bounds)
	}
	sum := Histogram{Bounds: h.Bounds, Counts: slices.Clone(h.Counts)}
	for n := range sum.Counts {
		sum.Counts[n] += other.Counts[n]
	}
	return sum, nil
}

// Quantile is the q-quantile in seconds, by linear interpolation in its bucket as Prometheus does it; the last finite bound
// if it lies above that, and 0 without observations.
func (h Histogram) Quantile(q float64) float64 {
	rank := q * float64(h.Count())
	below, lower := uint64(0), 0.0
	for n, upper := range h.Bounds {
		inside := h.Counts[n] - below
		if float64(h.Counts[n]) >= rank && inside > 0 {
			if math.IsInf(upper, 1) {
				return lower
			}
			return lower + (upper-lower)*(rank-float64(below))/float64(inside)
		}
		below, lower = h.Counts[n], upper
	}
	return 0
}
