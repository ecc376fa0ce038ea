package consume

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Check reads a whole topic and finds what must not be: for each bucket a number that is missing, for each payment an event that
// first appears after a later one, duplicates that differ, and records that are no events. It keeps some 50 bytes per event.
type Check struct {
	Events     int // distinct
	Duplicates int

	findings []string
	dropped  int
	logs     map[int]map[int64][16]byte // bucket -> number -> what the event is
	last     map[string]int64           // payment -> the last number that appeared first
	expected map[int]span               // bucket -> what must be there, where known
	excused  map[int]map[int64]bool     // what may be missing: it is parked
	begun    bool                       // the topic no longer has its oldest events
}

// span is the numbers from < n ≤ through.
type span struct{ from, through int64 }

// maxFindings bounds what is kept as text; more are counted.
const maxFindings = 100

// NewCheck begins a check.
func NewCheck() *Check {
	return &Check{logs: map[int]map[int64][16]byte{}, last: map[string]int64{}, expected: map[int]span{}, excused: map[int]map[int64]bool{}}
}

// Expect says that a bucket's numbers from < n ≤ through must be on the topic. Without it, what is there must begin with 1 and
// have no gap.
func (c *Check) Expect(bucket int, from, through int64) { c.expected[bucket] = span{from, through} }

// Truncated says that the topic no longer has its oldest events: what is missing before the first of a bucket is not told.
func (c *Check) Truncated() { c.begun = true }

// Excuse says that an event may be missing: its payment is parked.
func (c *Check) Excuse(bucket int, seq int64) {
	if c.excused[bucket] == nil {
		c.excused[bucket] = map[int64]bool{}
	}
	c.excused[bucket][seq] = true
}

// Add takes the next event of the topic. Events of one partition must come in order; partitions may mix.
func (c *Check) Add(e Event) {
	if c.logs[e.Bucket] == nil {
		c.logs[e.Bucket] = map[int64][16]byte{}
	}
	is := fingerprint(e)
	if was, ok := c.logs[e.Bucket][e.Seq]; ok {
		c.Duplicates++
		if was != is {
			c.Find("%s: a duplicate differs (partition %d offset %d)", e.ID, e.Partition, e.Offset)
		}
		return
	}
	c.Events++
	c.logs[e.Bucket][e.Seq] = is
	if last := c.last[e.Payment]; e.Seq < last {
		c.Find("%s: payment %s: it appears after number %d", e.ID, e.Payment, last)
	} else {
		c.last[e.Payment] = e.Seq
	}
}

// fingerprint is the same for equal events alone. Where an event lies on the topic is no part of it, but its partition is: a
// duplicate in another partition has lost its order.
func fingerprint(e Event) [16]byte {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(e.Source), []byte(e.Type), []byte(e.Payment), []byte(e.Time.Format(time.RFC3339Nano)), e.Data} {
		_ = binary.Write(h, binary.BigEndian, int64(len(part))) // a hash never refuses
		_, _ = h.Write(part)
	}
	_ = binary.Write(h, binary.BigEndian, e.Partition)
	return [16]byte(h.Sum(nil))
}

// Find adds a finding of the caller's.
func (c *Check) Find(format string, args ...any) {
	if len(c.findings) == maxFindings {
		c.dropped++
		return
	}
	c.findings = append(c.findings, fmt.Sprintf(format, args...))
}

// Finish looks for gaps and returns all findings, nothing if all is well.
func (c *Check) Finish() []string {
	for bucket := range c.logs {
		if _, ok := c.expected[bucket]; !ok {
			c.expected[bucket] = span{0, slices.Max(slices.Collect(maps.Keys(c.logs[bucket])))}
		}
	}
	for _, bucket := range slices.Sorted(maps.Keys(c.expected)) {
		want := c.expected[bucket]
		if c.begun && len(c.logs[bucket]) > 0 {
			want.from = max(want.from, slices.Min(slices.Collect(maps.Keys(c.logs[bucket])))-1)
		} else if c.begun {
			continue
		}
		for seq := want.from + 1; seq <= want.through; seq++ {
			if _, ok := c.logs[bucket][seq]; !ok && !c.excused[bucket][seq] {
				c.Find("evt_%04d_%d is missing", bucket, seq)
			}
		}
	}
	if c.dropped > 0 {
		return append(c.findings, fmt.Sprintf("and %d more", c.dropped))
	}
	return c.findings
}
