package main

import (
	"runtime/metrics"
	"slices"
	"time"
)

// runQueue is the runtime's histogram of how long goroutines were ready to run before they ran.
const runQueue = "/sched/latencies:seconds"

// lagReader tells how long this process's goroutines wait for a processor. It is used by one goroutine at a time.
type lagReader struct {
	sample [1]metrics.Sample
	before []uint64
}

func newLagReader() *lagReader {
	r := &lagReader{sample: [1]metrics.Sample{{Name: runQueue}}}
	r.read()
	return r
}

// read is what the slowest tenth waited at least since the last call; 0 where the runtime does not tell.
func (r *lagReader) read() time.Duration {
	metrics.Read(r.sample[:])
	if r.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0
	}
	h := r.sample[0].Value.Float64Histogram()
	if r.before == nil {
		r.before = make([]uint64, len(h.Counts))
	}
	lag := slowestTenth(h, r.before)
	copy(r.before, h.Counts)
	return lag
}

// slowestTenth is the lower bound of the bucket in which the 90th percentile of what came since before lies.
func slowestTenth(h *metrics.Float64Histogram, before []uint64) time.Duration {
	var all, above uint64
	for n := range h.Counts {
		all += h.Counts[n] - before[n]
	}
	for n := range slices.Backward(h.Counts) {
		if above += h.Counts[n] - before[n]; above*10 >= all && all > 0 {
			return time.Duration(max(0, h.Buckets[n]) * float64(time.Second))
		}
	}
	return 0
}
