package main

import (
	"math"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestSlowestTenth(t *testing.T) {
	h := &metrics.Float64Histogram{Buckets: []float64{math.Inf(-1), 0, .001, .01, math.Inf(1)}}
	for _, tc := range []struct {
		name          string
		before, after []uint64
		want          time.Duration
	}{
		{"nothing ran", []uint64{0, 5, 5, 5}, []uint64{0, 5, 5, 5}, 0},
		{"all at once", []uint64{0, 0, 0, 9}, []uint64{0, 100, 0, 9}, 0},
		{"one in ten", []uint64{0, 0, 0, 0}, []uint64{0, 90, 0, 10}, 10 * time.Millisecond},
		{"one in eleven", []uint64{0, 0, 0, 0}, []uint64{0, 90, 10, 9}, time.Millisecond},
		{"of late", []uint64{0, 900, 0, 0}, []uint64{0, 900, 50, 0}, time.Millisecond},
	} {
		h.Counts = tc.after
		if got := slowestTenth(h, tc.before); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// TestLagIsSeen: goroutines that must wait for others' loops are seen, and only in the reading after that.
func TestLagIsSeen(t *testing.T) {
	r := newLagReader()
	stop := make(chan struct{})
	defer close(stop)
	for range 20 * runtime.GOMAXPROCS(0) {
		go func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
	}
	deadline := time.Now().Add(30 * time.Second)
	for r.read() < 20*time.Millisecond {
		if time.Now().After(deadline) {
			t.Fatal("twenty loops for each processor, and nobody waits for one")
		}
		<-time.After(50 * time.Millisecond)
	}
}
