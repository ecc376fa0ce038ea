package payment

import (
	"maps"
	"slices"
)

func (r *Report) witness(witness map[string]Moved, w Moved) {
	r.Witnessed++
	if _, twice := witness[w.Attempt]; twice || w.Charges > 1 {
		r.DoubleCharges++
		r.find("P2", w.Attempt, "the witness moved money more than once under this reference (%s)", w.PSPRef)
	}
	witness[w.Attempt] = w
}

// movedOrHeld tells that the witness took money, or holds it still.
func (w Moved) movedOrHeld() bool { return w.Captured > 0 || (w.Authorized > 0 && !w.Voided) }

// lost counts what the witness moved and no shard has an attempt for.
func (r *Report) lost(witness map[string]Moved) {
	for _, attempt := range slices.Sorted(maps.Keys(witness)) {
		if w := witness[attempt]; w.movedOrHeld() {
			r.Lost++
			r.find("P3", attempt, "the witness has %s with authorized %d, captured %d; no shard has the attempt", w.PSPRef, w.Authorized, w.Captured)
		}
	}
}

// compare holds a payment against the witness's books. What is pending here may or may not have happened there.
func (r *Report) compare(b *books, witness map[string]Moved) {
	for _, a := range b.attempts {
		if a.Kind != AttemptAuthorize {
			continue
		}
		w, seen := witness[a.ID]
		delete(witness, a.ID)
		switch {
		case a.Status == Succeeded && seen:
			r.compareAmounts(b, w)
		case a.Status == Succeeded:
			r.find("P3", a.ID, "succeeded here; the witness knows nothing of it")
		case a.Status == Pending: // unknown is not a finding
		case w.movedOrHeld():
			r.Lost++
			r.find("P3", a.ID, "is %s here; the witness authorized %d and captured %d", a.Status, w.Authorized, w.Captured)
		}
	}
}

func (r *Report) compareAmounts(b *books, w Moved) {
	p := b.payment
	var capturing int64
	var voiding bool
	for _, x := range b.attempts {
		if x.Status == Pending && x.Kind == AttemptCapture {
			capturing += x.Amount
		}
		voiding = voiding || (x.Status == Pending && x.Kind == AttemptVoid)
	}
	if w.Currency != p.Currency || w.Authorized != p.Authorized {
		r.find("P3", p.ID, "authorized %d %s; the witness %d %s", p.Authorized, p.Currency, w.Authorized, w.Currency)
	}
	if w.Captured < p.Captured || w.Captured > p.Captured+capturing {
		r.find("P3", p.ID, "captured %d and %d pending; the witness %d", p.Captured, capturing, w.Captured)
	}
	if w.Refunded < p.Refunded || w.Refunded > p.Refunded+p.Refunding {
		r.find("P3", p.ID, "refunded %d and %d pending; the witness %d", p.Refunded, p.Refunding, w.Refunded)
	}
	if w.Voided != (p.Status == Voided) && !voiding && p.Status != Expired {
		r.find("P3", p.ID, "is %s; the witness voided: %v", p.Status, w.Voided)
	}
}
