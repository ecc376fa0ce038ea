package payment

import (
	"encoding/json"
	"fmt"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/shard"
)

// Scopes of idempotency keys: the route, and the payment for a later call.
const (
	scopePayments = "payments"
	scopeCapture  = "capture"
	scopeVoid     = "void"
	scopeRefunds  = "refunds"
)

func scopeOf(route, paymentID string) string { return route + ":" + paymentID }

// laterKey names the key that asked for an attempt of a later call; its Key is "" for an attempt of our own.
func laterKey(p shard.Payment, route string, a shard.Attempt) shard.KeyRef {
	return shard.KeyRef{ClientID: p.ClientID, Scope: scopeOf(route, p.ID), Key: a.ClientKey}
}

// open decides what the first step of a payment writes.
func open(c AuthorizeCommand, choice psprouter.Choice, at time.Time, checkAfter time.Duration) (shard.Opening, error) {
	b := shard.BucketOf(c.Client, c.Key)
	method, err := json.Marshal(c.Method)
	if err != nil {
		return shard.Opening{}, fmt.Errorf("payment method: %w", err)
	}
	p := shard.Payment{ID: shard.NewID(shard.PaymentPrefix, b, at), ClientID: c.Client, OrderID: c.OrderID, CustomerID: c.CustomerID,
		Status: AuthPending, Version: 1, PSP: choice.PSP.Name(), Currency: c.Amount.Currency, Authorized: c.Amount.Minor,
		CaptureMode: string(c.CaptureMode), Method: method, Splits: c.Splits, Parts: ledger.PartsOf(c.Splits), ReturnURL: c.ReturnURL,
		CreatedAt: at, UpdatedAt: at}
	a := newAttempt(p, AttemptAuthorize, p.Authorized, c.Key, at, checkAfter)
	a.RouteReason = clip(choice.Reason)
	ref := shard.KeyRef{ClientID: c.Client, Scope: scopePayments, Key: c.Key}
	m := move{change: shard.Change{Payment: p, At: at}, attempt: &a}
	payload, err := json.Marshal(m.event())
	if err != nil {
		return shard.Opening{}, fmt.Errorf("payment %s: event: %w", p.ID, err)
	}
	return shard.Opening{Payment: p, Attempt: a, At: at,
		Key:   shard.Key{KeyRef: ref, RequestHash: c.meaning(), PaymentID: p.ID, SubjectID: a.ID},
		Event: shard.Event{Type: EventProcessing, Payload: payload}}, nil
}

// newAttempt is a call that is about to be made: its row is committed first, so that what was sent has a row that says so.
// p is the payment as it will be. Its version moves the time in the ID, so that a payment's attempts sort as they were made, even
// two within a millisecond.
func newAttempt(p shard.Payment, kind string, minor int64, clientKey string, at time.Time, checkAfter time.Duration) shard.Attempt {
	b, _ := shard.BucketOfID(shard.PaymentPrefix, p.ID) // our own ID; Change.Check would refuse another
	id := shard.NewID(shard.AttemptPrefix, b, p.UpdatedAt.Add(time.Duration(p.Version)*time.Millisecond))
	return shard.Attempt{ID: id, PaymentID: p.ID, Kind: kind, PSP: p.PSP, Amount: minor,
		Status: Pending, ClientKey: clientKey, SentAt: at, NextCheckAt: at.Add(checkAfter), UpdatedAt: at}
}

// asked is a later call as decided: what to commit before the PSP is called, and the attempt to call it with.
type asked struct {
	change  shard.Change
	attempt shard.Attempt
	subject string // what the call made: the attempt, or the refund
}

// snapshot is the payment as it is once the change is committed: what the outcome is decided on, without another read.
func (a asked) snapshot(before shard.Snapshot) shard.Snapshot {
	return shard.Snapshot{Payment: a.change.Payment, Attempts: append(before.Attempts[:len(before.Attempts):len(before.Attempts)], a.attempt),
		Refunds: append(before.Refunds[:len(before.Refunds):len(before.Refunds)], a.change.Refunds...)}
}

// askCapture decides whether the capture may be tried, and as what. several says that the PSP keeps the rest of a partial
// capture open; elsewhere it releases the rest.
func askCapture(s shard.Snapshot, c CaptureCommand, at time.Time, several bool, checkAfter time.Duration) (asked, error) {
	p := s.Payment
	minor, err := captureAmount(s, c, at)
	if err != nil {
		return asked{}, err
	}
	m, err := begin(p, OnCaptureAsked, at)
	if err != nil {
		return asked{}, wrongState(p, "captured")
	}
	if !several {
		m.payment().Released = p.Authorized - p.Captured - minor
	}
	return m.asks(AttemptCapture, minor, c.Key, scopeCapture, c.meaning(), checkAfter)
}

// captureAmount checks a capture against what is left. One capture of a payment is under way at a time: its outcome
// decides what the next may take.
func captureAmount(s shard.Snapshot, c CaptureCommand, at time.Time) (int64, error) {
	p := s.Payment
	left := p.Authorized - p.Captured - p.Released
	if err := checkSameCurrency(p, c.Amount); err != nil {
		return 0, err
	}
	if p.Status == CapturePending {
		return 0, captureBusy(s, c, left)
	}
	if p.Status == Expired || ((p.Status == Authorized || p.Status == PartiallyCaptured) && expired(p, at)) {
		return 0, &Error{Code: CodeExpired, Detail: "the authorization has run out", Remedy: "make a new payment", Reference: p.ID}
	}
	if p.Status == VoidPending {
		return 0, voidInDoubt(p)
	}
	if p.Status != Authorized && p.Status != PartiallyCaptured {
		return 0, wrongState(p, "captured")
	}
	minor := left
	if c.Amount != nil {
		minor = c.Amount.Minor
	}
	if minor > left || left == 0 {
		return 0, captureExceeds(left)
	}
	return minor, nil
}

func expired(p shard.Payment, at time.Time) bool {
	return !p.ExpiresAt.IsZero() && !at.Before(p.ExpiresAt)
}

// captureBusy refuses a capture while another is under way. One that the PSP has not answered yet counts as taken, so that
// of two at once the second hears what is left beside the first; one whose answer was lost puts the rest in doubt.
//
// A payment that waits for a capture of which no row is pending was read while that capture ended: shard.ErrConflict asks
// to read again.
func captureBusy(s shard.Snapshot, c CaptureCommand, left int64) error {
	other, found := pendingOf(s, AttemptCapture)
	if !found {
		return fmt.Errorf("payment %s: %w", s.Payment.ID, shard.ErrConflict)
	}
	if other.Outcome == "" && c.Amount != nil && c.Amount.Minor > left-other.Amount {
		return captureExceeds(left - other.Amount)
	}
	return &Error{Code: CodeCaptureInDoubt, Detail: "another capture of this payment has no known outcome yet", Reference: other.ID,
		Remedy: "wait for its outcome, then read the payment; repeat with the other capture's own key to follow it"}
}

func pendingOf(s shard.Snapshot, kind string) (shard.Attempt, bool) {
	for _, a := range s.Attempts {
		if a.Kind == kind && a.Status == Pending {
			return a, true
		}
	}
	return shard.Attempt{}, false
}

func captureExceeds(left int64) *Error {
	return &Error{Code: CodeCaptureExceeds, Field: "/amount/minor", Detail: "more than is left of the authorization", Remaining: &left,
		Remedy: atMost("capture", left)}
}

func atMost(verb string, left int64) string {
	if left == 0 {
		return "read the payment: nothing is left to " + verb
	}
	return fmt.Sprintf("%s at most %d", verb, left)
}

func voidInDoubt(p shard.Payment) *Error {
	return &Error{Code: CodeVoidInDoubt, Detail: "a void of this payment has no known outcome yet", Reference: p.ID,
		Remedy: "wait for its outcome, then read the payment"}
}

func wrongState(p shard.Payment, verb string) *Error {
	return &Error{Code: CodeWrongState, Detail: fmt.Sprintf("a payment that is %s cannot be %s", shownStatus(p), verb), Reference: p.ID,
		Remedy: "read the payment to see what became of it"}
}

// askVoid decides whether the authorization may be released.
func askVoid(s shard.Snapshot, c VoidCommand, at time.Time, checkAfter time.Duration) (asked, error) {
	p := s.Payment
	switch {
	case p.Status == CapturePending:
		return asked{}, captureBusy(s, CaptureCommand{}, 0)
	case p.Status == VoidPending:
		return asked{}, voidInDoubt(p)
	case p.Status == Expired || (p.Status == Authorized && expired(p, at)):
		return asked{}, &Error{Code: CodeExpired, Detail: "the authorization has run out", Remedy: "nothing is left to release", Reference: p.ID}
	}
	m, err := begin(p, OnVoidAsked, at)
	if err != nil {
		return asked{}, wrongState(p, "voided")
	}
	return m.asks(AttemptVoid, p.Authorized, c.Key, scopeVoid, c.meaning(), checkAfter)
}

// askRefund decides whether the money may be given back. The shares are fixed now, so that refunds may end in any order.
func askRefund(s shard.Snapshot, c RefundCommand, at time.Time, checkAfter time.Duration) (asked, error) {
	p := s.Payment
	left := refundable(p)
	if err := checkSameCurrency(p, c.Amount); err != nil {
		return asked{}, err
	}
	m, err := begin(p, OnRefundAsked, at)
	if err != nil || p.Captured == 0 {
		return asked{}, wrongState(p, "refunded")
	}
	minor := left
	if c.Amount != nil {
		minor = c.Amount.Minor
	}
	if minor > left || left == 0 {
		return asked{}, &Error{Code: CodeRefundExceeds, Field: "/amount/minor", Remaining: &left,
			Detail: "more than was captured and not refunded; pending refunds count", Remedy: atMost("refund", left)}
	}
	parts, shares, err := p.Parts.Refund(minor)
	if err != nil {
		return asked{}, fmt.Errorf("payment %s: refund: %w", p.ID, err)
	}
	m.payment().Parts, m.payment().Refunding = parts, p.Refunding+minor
	a := newAttempt(*m.payment(), AttemptRefund, minor, c.Key, at, checkAfter)
	b, _ := shard.BucketOfID(shard.PaymentPrefix, p.ID)
	m.refunds(shard.Refund{ID: shard.NewID(shard.RefundPrefix, b, at), PaymentID: p.ID, AttemptID: a.ID, Amount: minor, Status: Pending,
		Shares: shares, CreatedAt: at})
	return m.commits(a, m.refund.ID, scopeRefunds, c.meaning())
}

// closeRefund ends a refund: posts it, or gives its shares back.
func (m *move) closeRefund(on Trigger, r *shard.Refund) error {
	p := m.payment()
	switch on {
	case OnRefunded:
		entry, err := ledger.Refund(r.ID, p.PSP, p.Currency, r.Shares)
		if err != nil {
			return fmt.Errorf("refund %s: %w", r.ID, err)
		}
		r.Status, m.change.Entry = Succeeded, &entry
		p.Refunding, p.Refunded = p.Refunding-r.Amount, p.Refunded+r.Amount
	case OnRefundRefused:
		parts, err := p.Parts.ReturnRefund(r.Shares)
		if err != nil {
			return fmt.Errorf("refund %s: %w", r.ID, err)
		}
		r.Status, p.Refunding, p.Parts = FailedEnd, p.Refunding-r.Amount, parts
	}
	m.refunds(*r)
	return nil
}

// asks finishes a later call that makes an attempt.
func (m *move) asks(kind string, minor int64, key, route string, meaning [32]byte, checkAfter time.Duration) (asked, error) {
	a := newAttempt(*m.payment(), kind, minor, key, m.change.At, checkAfter)
	return m.commits(a, a.ID, route, meaning)
}

func (m *move) commits(a shard.Attempt, subject, route string, meaning [32]byte) (asked, error) {
	m.opens(a)
	ref := laterKey(*m.payment(), route, a)
	m.change.Keys = append(m.change.Keys, shard.Key{KeyRef: ref, RequestHash: meaning, PaymentID: m.payment().ID, SubjectID: subject})
	change, err := m.finish()
	return asked{change: change, attempt: a, subject: subject}, err
}

func checkSameCurrency(p shard.Payment, m *ledger.Money) error {
	if m == nil {
		return nil
	}
	if err := checkAmount("/amount", *m); err != nil {
		return err
	}
	if m.Currency != p.Currency {
		return &Error{Code: CodeCurrencyMismatch, Field: "/amount/currency",
			Detail: fmt.Sprintf("the payment is in %s, not %s", p.Currency, m.Currency), Remedy: "send the payment's currency"}
	}
	return nil
}
