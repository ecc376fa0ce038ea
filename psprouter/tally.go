package psprouter

import (
	"sync"
	"time"
)

// tallySlots cut a window: what is older than the window less one slot begins to fall out.
const tallySlots = 12

// counts are what calls of one operation ended in.
type counts struct {
	approved, declined int64 // the card's answers
	answered           int64 // the PSP told us something definite; the two above are among these
	failed             int64 // the PSP did not
	ours               int64 // says nothing of the PSP
}

func (c *counts) add(d counts) {
	c.approved += d.approved
	c.declined += d.declined
	c.answered += d.answered
	c.failed += d.failed
	c.ours += d.ours
}

// tally counts over a rolling window, on the injected clock. It is apart from the breaker's counts, which end with each
// change of the breaker's state.
type tally struct {
	width time.Duration // of one slot
	mu    sync.Mutex
	slots [tallySlots]counts
	times [tallySlots]int64 // which slot of time each holds
}

func newTally(window time.Duration) *tally { return &tally{width: window / tallySlots} }

// note counts an outcome at now.
func (t *tally) note(now time.Time, o Outcome) {
	slot := now.UnixNano() / int64(t.width)
	n := uint64(slot) % tallySlots // also before 1970
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.times[n] != slot {
		t.slots[n], t.times[n] = counts{}, slot
	}
	t.slots[n].add(countsOf(o))
}

// sum is what the window before now holds.
func (t *tally) sum(now time.Time) counts {
	slot := now.UnixNano() / int64(t.width)
	var total counts
	t.mu.Lock()
	defer t.mu.Unlock()
	for n := range t.slots {
		if age := slot - t.times[n]; 0 <= age && age < tallySlots {
			total.add(t.slots[n])
		}
	}
	return total
}

func countsOf(o Outcome) counts {
	switch judge(o) {
	case faultOfPSP:
		return counts{failed: 1}
	case oursAlone:
		return counts{ours: 1}
	}
	c := counts{answered: 1}
	switch o.Class() {
	case Approved:
		c.approved = 1
	case Declined:
		c.declined = 1
	}
	return c
}

// A PSP of which little is known is assumed to approve like all together, and all together as cards mostly do: few answers
// move a rate only a little, so that neither one decline after a quiet night nor an outage turns the traffic for long.
const (
	assumedPermille = 900
	assumedAnswers  = 50
)

// approvalPermille is the rate to compare PSPs by; assumed is what it is without answers.
func (c counts) approvalPermille(assumed int64) int64 {
	return (c.approved*allPermille + assumed*assumedAnswers) / (c.approved + c.declined + assumedAnswers)
}

// permille is part of whole, or -1 of nothing.
func permille(part, whole int64) int64 {
	if whole == 0 {
		return -1
	}
	return part * allPermille / whole
}
