package payment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/shard"
)

// This file is what happens when news comes after the end: a success for an attempt that was closed as failed, and a
// success that the PSP takes back. The first is given back by an attempt of our own, the second is mirrored in the books.
// Neither ever edits what was posted.

// states lists every state of a payment.
var states = []shard.Status{AuthPending, RequiresAction, Authorized, Declined, Failed, Expired, CapturePending, Captured,
	PartiallyCaptured, VoidPending, Voided, CaptureFailed}

// lateTransitions are the rows that every state has: late news of one attempt leaves the payment's state, which may rest on
// another attempt, alone. To them come the rows of successes taken back.
func lateTransitions() []Transition {
	var out []Transition
	for _, s := range states {
		out = append(out,
			Transition{s, OnLateAuthorized, s, "", EventLateSuccess},
			Transition{s, OnLateCharged, s, ledger.EntryLateCharge, EventLateSuccess},
			Transition{s, OnLateVoided, s, "", EventLateReturned},
			Transition{s, OnLateRefunded, s, ledger.EntryLateRefund, EventLateReturned},
			Transition{s, OnLateNoted, s, "", EventLatePending},
			Transition{s, OnLateRefused, s, "", EventLateRefused},
			Transition{s, OnLateClosed, s, "", EventLateClosed},
			Transition{s, OnLateChargeReturned, s, ledger.EntryCaptureReturn, EventCaptureReturned},
			Transition{s, OnLateRefundReturned, s, ledger.EntryRefundReturn, EventRefundReturned})
	}
	for _, s := range []shard.Status{Captured, PartiallyCaptured, CapturePending} {
		out = append(out, Transition{s, OnRefundReturned, s, ledger.EntryRefundReturn, EventRefundReturned})
	}
	for _, s := range []shard.Status{Captured, PartiallyCaptured} {
		out = append(out,
			Transition{s, OnCaptureReturned, CaptureFailed, ledger.EntryCaptureReturn, EventCaptureReturned},
			Transition{s, OnPartReturned, PartiallyCaptured, ledger.EntryCaptureReturn, EventCaptureReturned})
	}
	return out
}

// errEarly is returned for news that fits the payment, but not yet: something else must be settled first. It waits.
var errEarly = errors.New("the payment is not ready for this")

// fact is what somebody who knows says of an attempt: the PSP's answer, its notice, a look-up, or two people.
type fact struct {
	outcome  psprouter.Outcome
	reversed bool   // a success told before is taken back
	record   string // what stands on the attempt in place of the outcome's reason, which clients read; "" = the reason
}

// learn decides what a fact about an attempt makes of its payment. posted is what the payment posted; only a reversal
// needs it. It is pure. It returns errClosed for what is known already, and errEarly for what must wait.
func learn(s shard.Snapshot, posted []shard.PostedEntry, attemptID string, f fact, at time.Time,
	lifetime time.Duration) (shard.Change, Answer, error) {
	a, ok := attemptOf(s, attemptID)
	if !ok {
		return shard.Change{}, Answer{}, fmt.Errorf("payment %s has no attempt %s: %w", s.Payment.ID, attemptID, shard.ErrNotFound)
	}
	if f.reversed && a.Status == Pending && a.Kind == AttemptRefund && f.outcome.Class() == psprouter.Declined {
		// It came back before we heard that it had gone out: nothing moved. Its success is no news any more.
		f.reversed, f.outcome.Reason = false, returnedText
	}
	switch {
	case f.reversed:
		return reverse(s, posted, a, at)
	case a.Status == Pending && returns(a) != "":
		return settleReturn(s.Payment, a, f.outcome, at)
	case a.Status == Pending:
		return settle(s, attemptID, f.outcome, at, lifetime)
	case a.Status != Succeeded && a.Detail == returnedText: // its success was taken back: to hear of it again is no news
		return shard.Change{}, Answer{}, errClosed
	case a.Status != Succeeded && f.outcome.Class() == psprouter.Approved:
		return late(s, a, f.outcome, at)
	}
	return shard.Change{}, Answer{}, errClosed
}

// returnsPrefix marks an attempt of our own that gives a late success back; the attempt that it undoes follows.
const returnsPrefix = "returns "

// returns names the attempt that a gives back, "" if it is no such attempt.
func returns(a shard.Attempt) string {
	id, found := strings.CutPrefix(a.RouteReason, returnsPrefix)
	if !found {
		return ""
	}
	return id
}

// What the detail of an attempt begins with whose end was told anew: its key's stored answer still says the first one.
const (
	latePrefix   = "late success: "
	returnedText = "taken back by the PSP"
)

// late decides on a success that came after the attempt was closed as failed.
func late(s shard.Snapshot, a shard.Attempt, o psprouter.Outcome, at time.Time) (shard.Change, Answer, error) {
	p := s.Payment
	o.Reason = latePrefix + o.Reason
	switch a.Kind {
	case AttemptAuthorize:
		return lateSuccess(s, a, o, at, o.Captured)
	case AttemptCapture:
		switch {
		case p.Status == CapturePending || p.Status == VoidPending:
			return shard.Change{}, Answer{}, errEarly
		case capturable(p) >= a.Amount:
			return lateCapture(p, a, o, at)
		}
		return lateSuccess(s, a, o, at, true)
	case AttemptVoid:
		return lateVoid(p, a, o, at)
	}
	return lateRefund(s, a, o, at)
}

// lateSuccess takes note of money that the PSP reserved or took for what was closed, and opens the attempt that gives it
// back: a void of a reservation, a refund of a charge.
func lateSuccess(s shard.Snapshot, a shard.Attempt, o psprouter.Outcome, at time.Time, charged bool) (shard.Change, Answer, error) {
	p := s.Payment
	on, kind := OnLateAuthorized, AttemptVoid
	if charged {
		on, kind = OnLateCharged, AttemptRefund
	}
	m, err := begin(p, on, at)
	if err != nil {
		return shard.Change{}, Answer{}, err
	}
	if charged {
		entry, err := ledger.LateCharge(a.ID, a.PSP, p.Currency, a.Amount)
		if err != nil {
			return shard.Change{}, Answer{}, fmt.Errorf("payment %s: %w", p.ID, err)
		}
		m.change.Entry = &entry
	}
	m.tells(a, Succeeded, o)
	if !beingReturned(s, a.ID, kind) {
		m.opensReturn(kind, a)
	}
	change, err := m.finish()
	return change, Answer{Kind: KindProcessing, PaymentID: p.ID}, err
}

// beingReturned tells that an attempt of ours is giving a success back already, as after a redirect that ran out.
func beingReturned(s shard.Snapshot, attemptID, kind string) bool {
	for _, a := range s.Attempts {
		if returns(a) == attemptID && a.Kind == kind && a.Status == Pending {
			return true
		}
	}
	return false
}

// opensReturn opens the attempt of our own that gives what a did back. It is due at once: the resolver sends it.
func (m *move) opensReturn(kind string, a shard.Attempt) {
	undo := newAttempt(*m.payment(), kind, a.Amount, "", m.change.At, 0)
	undo.PSP, undo.RouteReason = a.PSP, returnsPrefix+a.ID
	m.opens(undo)
}

// settleReturn ends an attempt that gives a late success back.
func settleReturn(p shard.Payment, a shard.Attempt, o psprouter.Outcome, at time.Time) (shard.Change, Answer, error) {
	on, status := OnLateNoted, Pending
	switch o.Class() {
	case psprouter.Approved:
		on, status = OnLateVoided, Succeeded
		if a.Kind == AttemptRefund {
			on = OnLateRefunded
		}
	case psprouter.Declined:
		on, status = OnLateRefused, FailedEnd
	case psprouter.NotSent: // it never got there, and its key is too old to be used again
		status = NotSent
	}
	m, err := begin(p, on, at)
	if err != nil {
		return shard.Change{}, Answer{}, err
	}
	if on == OnLateRefunded {
		entry, err := ledger.LateRefund(a.ID, a.PSP, p.Currency, a.Amount)
		if err != nil {
			return shard.Change{}, Answer{}, fmt.Errorf("payment %s: %w", p.ID, err)
		}
		m.change.Entry = &entry
	}
	m.tells(a, status, o)
	if status == NotSent {
		m.opensReturn(a.Kind, shard.Attempt{ID: returns(a), PSP: a.PSP, Amount: a.Amount})
	}
	change, err := m.finish()
	return change, Answer{Kind: KindProcessing, PaymentID: p.ID}, err
}

// lateCapture books a capture that was thought refused: the authorization is open, so the money is the payment's after
// all.
func lateCapture(p shard.Payment, a shard.Attempt, o psprouter.Outcome, at time.Time) (shard.Change, Answer, error) {
	on := OnPartCaptured
	if p.Captured+a.Amount == p.Authorized {
		on = OnCaptured
	}
	m, err := begin(p, on, at)
	if err != nil {
		return shard.Change{}, Answer{}, err
	}
	m.tells(a, Succeeded, o)
	if err := m.captures(a.Amount, a.ID); err != nil {
		return shard.Change{}, Answer{}, err
	}
	change, err := m.finish()
	return change, Answer{Kind: KindCaptured, PaymentID: p.ID}, err
}

func lateVoid(p shard.Payment, a shard.Attempt, o psprouter.Outcome, at time.Time) (shard.Change, Answer, error) {
	if p.Status == CapturePending || p.Status == VoidPending {
		return shard.Change{}, Answer{}, errEarly
	}
	m, err := begin(p, OnVoided, at)
	if err != nil {
		return shard.Change{}, Answer{}, err
	}
	m.releases()
	m.tells(a, Succeeded, o)
	change, err := m.finish()
	return change, Answer{Kind: KindVoided, PaymentID: p.ID}, err
}

// lateRefund books a refund that was thought refused, out of what is left to refund; what is more than that comes out of
// suspense, for people to place.
func lateRefund(s shard.Snapshot, a shard.Attempt, o psprouter.Outcome, at time.Time) (shard.Change, Answer, error) {
	p := s.Payment
	r, ok := refundOf(s, a.ID)
	if ok && refundable(p) >= a.Amount {
		m, err := begin(p, OnRefunded, at)
		if err != nil {
			return shard.Change{}, Answer{}, err
		}
		parts, shares, err := p.Parts.Refund(a.Amount)
		if err != nil {
			return shard.Change{}, Answer{}, fmt.Errorf("refund %s: %w", r.ID, err)
		}
		r.Shares, r.Code, r.Detail = shares, "", ""
		m.payment().Parts, m.payment().Refunding = parts, p.Refunding+a.Amount
		m.tells(a, Succeeded, o)
		if err := m.closeRefund(OnRefunded, &r); err != nil {
			return shard.Change{}, Answer{}, err
		}
		change, err := m.finish()
		return change, Answer{Kind: KindRefunded, PaymentID: p.ID}, err
	}
	m, err := begin(p, OnLateRefunded, at)
	if err != nil {
		return shard.Change{}, Answer{}, err
	}
	entry, err := ledger.LateRefund(a.ID, a.PSP, p.Currency, a.Amount)
	if err != nil {
		return shard.Change{}, Answer{}, fmt.Errorf("payment %s: %w", p.ID, err)
	}
	m.change.Entry = &entry
	m.tells(a, Succeeded, o)
	change, err := m.finish()
	return change, Answer{Kind: KindProcessing, PaymentID: p.ID}, err
}

// reverse mirrors a success that the PSP takes back. It is known already if its entry has a reversal.
func reverse(s shard.Snapshot, posted []shard.PostedEntry, a shard.Attempt, at time.Time) (shard.Change, Answer, error) {
	if a.Status == Pending {
		return shard.Change{}, Answer{}, errEarly
	}
	if a.Kind == AttemptVoid {
		return shard.Change{}, Answer{}, &misfitError{"a void posts nothing that could be taken back"}
	}
	r, _ := refundOf(s, a.ID)
	entry, known := standing(posted, a, r)
	switch {
	case !known:
		return neverStood(s.Payment, a, at)
	case entry.Kind == ledger.EntryLateCharge:
		return returnLate(s.Payment, a, entry, OnLateChargeReturned, ledger.EntryCaptureReturn, at)
	case entry.Kind == ledger.EntryLateRefund:
		return returnLate(s.Payment, a, entry, OnLateRefundReturned, ledger.EntryRefundReturn, at)
	case a.Kind == AttemptRefund:
		return returnRefund(s.Payment, a, r, entry, at)
	}
	return returnCapture(s.Payment, a, entry, at)
}

// neverStood decides on a reversal of what has no entry: its reversal is posted already, or its success was never told. The
// latter can come yet, out of turn, and must not be believed then: the attempt is marked. Of an authorization it is waited
// for, since more than one thing followed from it.
func neverStood(p shard.Payment, a shard.Attempt, at time.Time) (shard.Change, Answer, error) {
	switch {
	case a.Status == Succeeded || a.Detail == returnedText:
		return shard.Change{}, Answer{}, errClosed
	case a.Kind == AttemptAuthorize:
		return shard.Change{}, Answer{}, errEarly
	}
	m, err := begin(p, OnLateClosed, at)
	if err != nil {
		return shard.Change{}, Answer{}, err
	}
	a.Detail, a.UpdatedAt = returnedText, at
	m.opens(a)
	change, err := m.finish()
	return change, Answer{Kind: KindProcessing, PaymentID: p.ID}, err
}

// standing is the entry that an attempt's success posted, unless it is reversed already.
func standing(posted []shard.PostedEntry, a shard.Attempt, r shard.Refund) (ledger.Entry, bool) {
	ids := []string{string(ledger.EntryCapture) + ":" + a.ID, string(ledger.EntryLateCharge) + ":" + a.ID,
		string(ledger.EntryLateRefund) + ":" + a.ID}
	if r.ID != "" {
		ids = append(ids, string(ledger.EntryRefund)+":"+r.ID)
	}
	var found *ledger.Entry
	for n, e := range posted {
		if slices.Contains(ids, e.Reverses) {
			return ledger.Entry{}, false
		}
		if slices.Contains(ids, e.ID) {
			found = &posted[n].Entry
		}
	}
	if found == nil {
		return ledger.Entry{}, false
	}
	return *found, true
}

// returnLate mirrors a late charge, or the giving back of one, that the PSP takes back. What it leaves is for people.
func returnLate(p shard.Payment, a shard.Attempt, entry ledger.Entry, on Trigger, kind ledger.EntryKind, at time.Time) (shard.Change, Answer, error) {
	m, err := begin(p, on, at)
	if err != nil {
		return shard.Change{}, Answer{}, err
	}
	if err := m.mirrors(entry, kind, a.ID, "the PSP took it back"); err != nil {
		return shard.Change{}, Answer{}, err
	}
	if a.Kind != AttemptAuthorize {
		m.tellsReturned(a)
	}
	change, err := m.finish()
	return change, Answer{Kind: KindProcessing, PaymentID: p.ID}, err
}

// byPSP is the actor of entries that mirror what a PSP took back.
const byPSP = "psp"

func returnRefund(p shard.Payment, a shard.Attempt, r shard.Refund, entry ledger.Entry, at time.Time) (shard.Change, Answer, error) {
	m, err := begin(p, OnRefundReturned, at)
	if err != nil {
		return shard.Change{}, Answer{}, err
	}
	if err := m.mirrors(entry, ledger.EntryRefundReturn, r.ID, "the refund came back"); err != nil {
		return shard.Change{}, Answer{}, err
	}
	parts, err := p.Parts.ReturnRefund(r.Shares)
	if err != nil {
		return shard.Change{}, Answer{}, fmt.Errorf("refund %s: %w", r.ID, err)
	}
	m.payment().Parts, m.payment().Refunded = parts, p.Refunded-r.Amount
	r.Status, r.Detail = FailedEnd, "the refund came back"
	m.refunds(r)
	m.tellsReturned(a)
	change, err := m.finish()
	return change, Answer{Kind: KindProcessing, PaymentID: p.ID}, err
}

func returnCapture(p shard.Payment, a shard.Attempt, entry ledger.Entry, at time.Time) (shard.Change, Answer, error) {
	total, err := entry.Total()
	if err != nil {
		return shard.Change{}, Answer{}, err
	}
	if p.Status == CapturePending {
		return shard.Change{}, Answer{}, errEarly
	}
	on := OnCaptureReturned
	if total < p.Captured {
		on = OnPartReturned
	}
	m, err := begin(p, on, at)
	if err != nil {
		return shard.Change{}, Answer{}, err
	}
	if err := m.mirrors(entry, ledger.EntryCaptureReturn, a.ID, "the PSP took the capture back"); err != nil {
		return shard.Change{}, Answer{}, err
	}
	shares := make([]ledger.Share, len(entry.Postings))
	for n, x := range entry.Postings {
		shares[n] = ledger.Share{Account: x.Credit, Minor: x.Minor}
	}
	parts, err := p.Parts.ReturnCapture(shares)
	if err != nil {
		return shard.Change{}, Answer{}, fmt.Errorf("payment %s: %w", p.ID, err)
	}
	// What was taken back cannot be captured again: it is released.
	m.payment().Parts, m.payment().Captured = parts, p.Captured-total
	m.releases()
	m.payment().FailureCode, m.payment().Failure = "capture_failed", "the PSP took the capture back"
	if a.Kind == AttemptCapture {
		m.tellsReturned(a)
	}
	change, err := m.finish()
	return change, Answer{Kind: KindProcessing, PaymentID: p.ID}, err
}

// mirrors posts the reversal of an entry under a kind and ID of its own.
func (m *move) mirrors(entry ledger.Entry, kind ledger.EntryKind, source, reason string) error {
	mirror, err := entry.Reversal(string(kind)+":"+source, reason, byPSP)
	if err != nil {
		return fmt.Errorf("entry %s: %w", entry.ID, err)
	}
	mirror.Kind = kind
	m.change.Entry = &mirror
	return nil
}

// tellsReturned records on an attempt that its success was taken back.
func (m *move) tellsReturned(a shard.Attempt) {
	a.Status, a.Detail, a.UpdatedAt = FailedEnd, returnedText, m.change.At
	m.change.Attempts = append(m.change.Attempts, a)
	m.attempt = &m.change.Attempts[len(m.change.Attempts)-1]
}
