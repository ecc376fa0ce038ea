package psprouter

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTallyWindow(t *testing.T) {
	at, window := noon(), 12*time.Minute
	l := newTally(window)
	for _, c := range outcomes() {
		l.note(at.at, c.out)
	}
	want := counts{approved: 1, declined: 1, answered: 4, failed: 4, ours: 4}
	if got := l.sum(at.at); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := l.sum(at.at.Add(window - 2*time.Minute)); got != want {
		t.Errorf("within the window: %+v", got)
	}
	if got := l.sum(at.at.Add(window)); got != (counts{}) {
		t.Errorf("after the window: %+v", got)
	}
	l.note(time.Unix(-1_000_000, 0), ApprovedAs("r")) // a clock far off must only not panic
	l.note(at.at.Add(window), ApprovedAs("r"))        // the same slot, one round later
	if got := l.sum(at.at.Add(window)); got != (counts{approved: 1, answered: 1}) {
		t.Errorf("a slot was not emptied: %+v", got)
	}
}

// The sum equals counting by hand the slots of the window.
func TestTallyProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newTally(12 * time.Second)
		slot := rapid.Int64Range(0, 100).Draw(t, "start")
		noted := map[int64]int64{}
		for range 100 {
			slot += rapid.Int64Range(0, 3).Draw(t, "pause")
			l.note(time.Unix(slot, 0), UnknownBecause("time-out"))
			noted[slot]++
			want := int64(0)
			for age := range int64(tallySlots) {
				want += noted[slot-age]
			}
			if got := l.sum(time.Unix(slot, 0)).failed; got != want {
				t.Fatalf("sum %d, want %d", got, want)
			}
		}
	})
}

func TestApprovalPermille(t *testing.T) {
	for _, c := range []struct {
		counts  counts
		assumed int64
		want    int64
	}{
		{counts{}, 900, 900},
		{counts{}, 700, 700},
		{counts{declined: 1}, 900, 882}, // one decline is no catastrophe
		{counts{approved: 950, declined: 50}, 900, 947},
		{counts{approved: 0, declined: 1_000_000}, 900, 0},
	} {
		if got := c.counts.approvalPermille(c.assumed); got != c.want {
			t.Errorf("%+v: %d, want %d", c.counts, got, c.want)
		}
	}
	if permille(1, 0) != -1 || permille(1, 4) != 250 {
		t.Error("permille")
	}
}
