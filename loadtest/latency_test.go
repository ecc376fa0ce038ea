package loadtest

import (
	"math"
	"testing"
	"time"
)

func TestQuantileOfDurations(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for n := range hundred {
		hundred[n] = time.Duration(100 - n) // not in order
	}
	for _, tc := range []struct {
		of   []time.Duration
		q    float64
		want time.Duration
	}{
		{nil, .5, 0}, {[]time.Duration{7}, 0, 7}, {[]time.Duration{7}, 1, 7}, {[]time.Duration{2, 1}, .5, 1},
		{hundred, .5, 50}, {hundred, .99, 99}, {hundred, 1, 100}, {hundred, 0, 1},
	} {
		if got := Quantile(tc.of, tc.q); got != tc.want {
			t.Errorf("%g of %d durations: %d, want %d", tc.q, len(tc.of), got, tc.want)
		}
	}
}

func TestHistogramQuantile(t *testing.T) {
	inf := math.Inf(1)
	bounds := []float64{1, 2, 4, inf}
	for _, tc := range []struct {
		name   string
		counts []uint64
		q      float64
		want   float64
	}{
		{"nothing seen", []uint64{0, 0, 0, 0}, .5, 0},
		{"first bucket from zero", []uint64{10, 10, 10, 10}, .5, .5},
		{"middle of a bucket", []uint64{0, 10, 10, 10}, .5, 1.5},
		{"wide bucket", []uint64{0, 0, 10, 10}, .25, 2.5},
		{"at a bound", []uint64{5, 10, 10, 10}, .5, 1},
		{"over an empty bucket", []uint64{5, 5, 10, 10}, .6, 2.4},
		{"beyond the last bound", []uint64{0, 0, 0, 10}, .99, 4},
		{"the end", []uint64{5, 10, 10, 10}, 1, 2},
	} {
		if got := (Histogram{bounds, tc.counts}).Quantile(tc.q); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", tc.name, got, tc.want)
		}
	}
	if got := (Histogram{}).Quantile(.5); got != 0 {
		t.Errorf("no histogram: %g", got)
	}
}

func TestHistogramPlus(t *testing.T) {
	a := Histogram{[]float64{1, 2}, []uint64{1, 2}}
	sum, err := a.Plus(Histogram{[]float64{1, 2}, []uint64{10, 20}})
	if err != nil || sum.Counts[0] != 11 || sum.Count() != 22 || a.Count() != 2 {
		t.Errorf("%v, %v, then %v", sum, err, a)
	}
	if _, err := a.Plus(Histogram{[]float64{1, 3}, []uint64{1, 2}}); err == nil {
		t.Error("other bounds were added")
	}
}
