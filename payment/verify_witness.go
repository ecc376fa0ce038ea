package payment

import (
	"maps"
	"slices"

	"paygrid/ledger"
	"paygrid/shard"
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
	late := b.givenBack()
	for _, a := range b.attempts {
		if a.Kind != AttemptAuthorize {
			continue
		}
		w, seen := witness[a.ID]
		delete(witness, a.ID)
		undo, back := late[a.ID]
		switch {
		case a.Status == Succeeded && seen && back:
			r.compareGivenBack(a, undo, w, b.keeps(a))
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

// keeps is what the PSP holds of a late charge: nothing, once it took that back itself.
func (b *books) keeps(a shard.Attempt) int64 {
	for _, e := range b.entries {
		if e.Reverses == string(ledger.EntryLateCharge)+":"+a.ID {
			return 0
		}
	}
	return a.Amount
}

// compareGivenBack holds a late authorization against the witness: what came late must be on its way back.
func (r *Report) compareGivenBack(a, undo shard.Attempt, w Moved, kept int64) {
	done := undo.Status == Succeeded
	charged := undo.Kind == AttemptRefund
	switch {
	case charged && (w.Captured != kept || (done && w.Refunded != a.Amount)), !charged && w.Captured != 0:
		r.find("P3", a.ID, "came late and is given back (%s); the witness captured %d and refunded %d", undo.Status, w.Captured, w.Refunded)
	case !charged && done && !w.Voided:
		r.find("P3", a.ID, "came late and was released; the witness holds %d", w.Authorized)
	}
}

// flow is what of a payment is certain, and what may have happened beside it.
type flow struct{ done, pending int64 }

// flows adds up what the PSP took and gave back under the payment's authorization, late successes included.
func (b *books) flows() (captured, refunded flow, voiding bool) {
	p, late := b.payment, b.givenBack()
	captured.done, refunded.done, refunded.pending = p.Captured, p.Refunded, p.Refunding
	kinds := map[string]string{}
	for _, a := range b.attempts {
		kinds[a.ID] = a.Kind
		_, back := late[a.ID]
		switch {
		case a.Kind == AttemptCapture && a.Status == Pending:
			captured.pending += a.Amount
		case a.Kind == AttemptCapture && a.Status == Succeeded && back:
			captured.done += a.Amount
		case a.Kind == AttemptVoid && a.Status == Pending && returns(a) == "":
			voiding = true
		}
	}
	for id, undo := range late {
		if undo.Kind != AttemptRefund || kinds[id] != AttemptCapture {
			continue
		}
		if undo.Status == Succeeded {
			refunded.done += undo.Amount
		} else {
			refunded.pending += undo.Amount
		}
	}
	for _, x := range b.refunds {
		if a, ok := attemptOf(shard.Snapshot{Attempts: b.attempts}, x.AttemptID); ok && unplaced(x, a) {
			refunded.done += x.Amount
		}
	}
	return captured, refunded, voiding
}

func (f flow) holds(minor int64) bool { return f.done <= minor && minor <= f.done+f.pending }

func (r *Report) compareAmounts(b *books, w Moved) {
	p := b.payment
	captured, refunded, voiding := b.flows()
	if w.Currency != p.Currency || w.Authorized != p.Authorized {
		r.find("P3", p.ID, "authorized %d %s; the witness %d %s", p.Authorized, p.Currency, w.Authorized, w.Currency)
	}
	if !captured.holds(w.Captured) {
		r.find("P3", p.ID, "captured %d and %d pending; the witness %d", captured.done, captured.pending, w.Captured)
	}
	if !refunded.holds(w.Refunded) {
		r.find("P3", p.ID, "refunded %d and %d pending; the witness %d", refunded.done, refunded.pending, w.Refunded)
	}
	if w.Voided != (p.Status == Voided) && !voiding && p.Status != Expired && p.Status != CaptureFailed {
		r.find("P3", p.ID, "is %s; the witness voided: %v", p.Status, w.Voided)
	}
}
