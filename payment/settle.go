package payment

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"paygrid/psprouter"
	"paygrid/shard"
)

// errClosed is returned for an outcome that has nothing to add: the attempt has its end already and the first won, or the
// buyer was sent to act and this does not tell how that went.
var errClosed = errors.New("the outcome adds nothing to what is known of the attempt")

// settle decides what outcome o of an attempt makes of its payment: the change, and what the one who asked for the attempt
// is answered. It is pure. Every writer that learns of an outcome comes through here.
func settle(s shard.Snapshot, attemptID string, o psprouter.Outcome, at time.Time, lifetime time.Duration) (shard.Change, Answer, error) {
	a, ok := attemptOf(s, attemptID)
	if !ok {
		return shard.Change{}, Answer{}, fmt.Errorf("payment %s has no attempt %s: %w", s.Payment.ID, attemptID, shard.ErrNotFound)
	}
	if a.Status != Pending {
		return shard.Change{}, Answer{}, errClosed
	}
	o = fitting(s.Payment, a, o)
	switch a.Kind {
	case AttemptAuthorize:
		return settleAuthorize(s.Payment, a, o, at, lifetime)
	case AttemptCapture:
		return settleCapture(s.Payment, a, o, at)
	case AttemptVoid:
		return settleVoid(s.Payment, a, o, at)
	case AttemptRefund:
		return settleRefund(s, a, o, at)
	}
	return shard.Change{}, Answer{}, fmt.Errorf("attempt %s: nothing is known of kind %q", a.ID, a.Kind)
}

// fitting returns an outcome as it came if it can answer what the attempt asked. Another one settles nothing and wants a
// person's eyes: an approval that was captured although we asked to wait, or the reverse; a redirect in answer to a later
// call, of which no buyer knows.
func fitting(p shard.Payment, a shard.Attempt, o psprouter.Outcome) psprouter.Outcome {
	var why string
	switch {
	case a.Kind == AttemptAuthorize && o.Class() == psprouter.Approved && o.Captured != (CaptureMode(p.CaptureMode) == Automatic):
		why = fmt.Sprintf("approved with captured=%t, asked for %s capture", o.Captured, p.CaptureMode)
	case a.Kind != AttemptAuthorize && o.Class() == psprouter.ActionRequired:
		why = "the buyer was asked to act on a " + a.Kind
	default:
		return o
	}
	contradiction := psprouter.Contradiction(why)
	contradiction.Reference = o.Reference
	return contradiction
}

func attemptOf(s shard.Snapshot, id string) (shard.Attempt, bool) {
	for _, a := range s.Attempts {
		if a.ID == id {
			return a, true
		}
	}
	return shard.Attempt{}, false
}

// settleAuthorize: the trigger by the outcome, and what it says of the payment.
func settleAuthorize(p shard.Payment, a shard.Attempt, o psprouter.Outcome, at time.Time,
	lifetime time.Duration) (shard.Change, Answer, error) {
	on, kind := authorizeTrigger(o)
	if p.Status == RequiresAction && (on == OnNoted || on == OnActionRequired) {
		return shard.Change{}, Answer{}, errClosed
	}
	m, err := begin(p, on, at)
	if err != nil {
		return shard.Change{}, Answer{}, err
	}
	status := Pending
	next := m.payment()
	switch on {
	case OnAuthorized, OnCharged:
		status, next.PSPRef, next.RedirectURL = Succeeded, o.Reference, ""
		if next.ExpiresAt = o.ExpiresAt; next.ExpiresAt.IsZero() {
			next.ExpiresAt = at.Add(lifetime)
		}
	case OnActionRequired:
		next.PSPRef, next.RedirectURL, next.ExpiresAt = o.Reference, o.RedirectURL, at.Add(redirectLifetime)
	case OnDeclined:
		status, next.FailureCode, next.Failure = FailedEnd, clip(o.Code), clip(o.Reason)
	case OnNotSent:
		status, next.FailureCode, next.Failure = NotSent, clip(o.Code), clip(o.Reason)
	}
	m.tells(a, status, o)
	if on == OnCharged {
		if err := m.captures(next.Authorized, a.ID); err != nil {
			return shard.Change{}, Answer{}, err
		}
	}
	return m.conclude(kind, viewOf(*next), shard.KeyRef{ClientID: p.ClientID, Scope: scopePayments, Key: a.ClientKey}, a.ID)
}

// authorizeTrigger reads an outcome that fits the question.
func authorizeTrigger(o psprouter.Outcome) (Trigger, Kind) {
	switch o.Class() {
	case psprouter.Approved:
		if o.Captured {
			return OnCharged, KindCharged
		}
		return OnAuthorized, KindAuthorized
	case psprouter.Declined:
		return OnDeclined, KindDeclined
	case psprouter.ActionRequired:
		return OnActionRequired, KindActionRequired
	case psprouter.NotSent:
		if o.Rejected {
			return OnNotSent, KindRejected
		}
		return OnNotSent, KindUnavailable
	}
	return OnNoted, KindProcessing
}

func settleCapture(p shard.Payment, a shard.Attempt, o psprouter.Outcome, at time.Time) (shard.Change, Answer, error) {
	on, status, kind := captureTrigger(p, a, o)
	m, err := begin(p, on, at)
	if err != nil {
		return shard.Change{}, Answer{}, err
	}
	m.tells(a, status, o)
	switch on {
	case OnCaptured, OnPartCaptured:
		err = m.captures(a.Amount, a.ID)
	case OnCaptureRefused, OnLaterCaptureRefused:
		m.payment().Released = 0 // what the capture would have released; only asked for where nothing was captured before
	}
	if err != nil {
		return shard.Change{}, Answer{}, err
	}
	v := viewOf(*m.payment())
	v.CaptureID = a.ID
	v.FailureCode, v.FailureCause = refusalWords(kind, o)
	return m.conclude(kind, v, laterKey(p, scopeCapture, a), a.ID)
}

func captureTrigger(p shard.Payment, a shard.Attempt, o psprouter.Outcome) (Trigger, shard.Status, Kind) {
	switch o.Class() {
	case psprouter.Approved:
		if p.Captured+a.Amount == p.Authorized {
			return OnCaptured, Succeeded, KindCaptured
		}
		return OnPartCaptured, Succeeded, KindCaptured
	case psprouter.Declined, psprouter.NotSent:
		on := OnCaptureRefused
		if p.Captured > 0 {
			on = OnLaterCaptureRefused
		}
		status, kind := refusedAs(o)
		return on, status, kind
	}
	return OnNoted, Pending, KindProcessing
}

func settleVoid(p shard.Payment, a shard.Attempt, o psprouter.Outcome, at time.Time) (shard.Change, Answer, error) {
	on, status, kind := OnNoted, Pending, KindProcessing
	switch o.Class() {
	case psprouter.Approved:
		on, status, kind = OnVoided, Succeeded, KindVoided
	case psprouter.Declined, psprouter.NotSent:
		on = OnVoidRefused
		status, kind = refusedAs(o)
	}
	m, err := begin(p, on, at)
	if err != nil {
		return shard.Change{}, Answer{}, err
	}
	m.tells(a, status, o)
	if on == OnVoided {
		m.releases()
	}
	v := viewOf(*m.payment())
	v.VoidID = a.ID
	v.FailureCode, v.FailureCause = refusalWords(kind, o)
	return m.conclude(kind, v, laterKey(p, scopeVoid, a), a.ID)
}

func settleRefund(s shard.Snapshot, a shard.Attempt, o psprouter.Outcome, at time.Time) (shard.Change, Answer, error) {
	r, ok := refundOf(s, a.ID)
	if !ok {
		return shard.Change{}, Answer{}, fmt.Errorf("attempt %s has no refund: %w", a.ID, shard.ErrNotFound)
	}
	on, status, kind := OnRefundNoted, Pending, KindProcessing
	switch o.Class() {
	case psprouter.Approved:
		on, status, kind = OnRefunded, Succeeded, KindRefunded
	case psprouter.Declined, psprouter.NotSent:
		on = OnRefundRefused
		status, kind = refusedAs(o)
	}
	m, err := begin(s.Payment, on, at)
	if err != nil {
		return shard.Change{}, Answer{}, err
	}
	m.tells(a, status, o)
	r.Code, r.Detail = refusalWords(kind, o)
	if err := m.closeRefund(on, &r); err != nil {
		return shard.Change{}, Answer{}, err
	}
	return m.conclude(kind, refundViewOf(*m.refund, *m.payment()), laterKey(s.Payment, scopeRefunds, a), r.ID)
}

func refundOf(s shard.Snapshot, attemptID string) (shard.Refund, bool) {
	for _, r := range s.Refunds {
		if r.AttemptID == attemptID {
			return r, true
		}
	}
	return shard.Refund{}, false
}

// refusedAs tells a definite no of the PSP from a request that provably did not get there.
func refusedAs(o psprouter.Outcome) (shard.Status, Kind) {
	if o.Class() == psprouter.Declined {
		return FailedEnd, KindRefused
	}
	if o.Rejected {
		return NotSent, KindRejected
	}
	return NotSent, KindUnavailable
}

func refusalWords(kind Kind, o psprouter.Outcome) (code, cause string) {
	switch kind {
	case KindRefused, KindRejected, KindUnavailable:
		return clip(o.Code), clip(o.Reason)
	}
	return "", ""
}

// conclude makes the answer out of resource, stores it with the key that asked, and finishes the change.
func (m *move) conclude(kind Kind, resource any, ref shard.KeyRef, subject string) (shard.Change, Answer, error) {
	body, err := json.Marshal(resource)
	if err != nil {
		return shard.Change{}, Answer{}, fmt.Errorf("payment %s: answer: %w", m.payment().ID, err)
	}
	answer := Answer{Kind: kind, Body: body, PaymentID: m.payment().ID}
	m.answers(ref, subject, answer)
	change, err := m.finish()
	return change, answer, err
}
