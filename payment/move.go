package payment

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/shard"
)

// move is a Change in the making: the payment as it will be, and what hangs on it. All decisions are made with it, so all
// go through the transition table, count the version and emit one event.
type move struct {
	change     shard.Change
	transition Transition
	attempt    *shard.Attempt // what the event names, if any
	refund     *shard.Refund
}

// begin starts a move from a payment as it was read.
func begin(p shard.Payment, on Trigger, at time.Time) (*move, error) {
	t, err := Next(p.Status, on)
	if err != nil {
		return nil, fmt.Errorf("payment %s: %w", p.ID, err)
	}
	m := &move{transition: t, change: shard.Change{From: p.Status, Payment: p, At: at}}
	m.payment().Status = t.To
	m.payment().Version++
	if at.After(p.UpdatedAt) { // clocks differ between machines; a payment's time does not go back
		m.payment().UpdatedAt = at
	}
	m.payment().Parts = slices.Clone(p.Parts)
	return m, nil
}

// payment is the payment as it will be.
func (m *move) payment() *shard.Payment { return &m.change.Payment }

// opens adds a new pending attempt.
func (m *move) opens(a shard.Attempt) {
	m.change.Attempts = append(m.change.Attempts, a)
	m.attempt = &m.change.Attempts[len(m.change.Attempts)-1]
}

// tells records on an attempt what an outcome said.
func (m *move) tells(a shard.Attempt, status shard.Status, o psprouter.Outcome) {
	a.Status, a.Outcome, a.UpdatedAt = status, o.Class().String(), m.change.At
	a.Code, a.Detail = clip(o.Code), clip(o.Reason)
	if o.Reference != "" {
		a.PSPRef = o.Reference
	}
	if status == Pending && o.Class() == psprouter.Accepted {
		if at := m.change.At.Add(acceptedPause(a.NextCheckAt.Sub(a.SentAt))); at.After(a.NextCheckAt) {
			a.NextCheckAt = at
		}
	}
	m.change.Attempts = append(m.change.Attempts, a)
	m.attempt = &m.change.Attempts[len(m.change.Attempts)-1]
}

// refunds adds a refund row, new or changed.
func (m *move) refunds(r shard.Refund) {
	r.UpdatedAt = m.change.At
	m.change.Refunds = append(m.change.Refunds, r)
	m.refund = &m.change.Refunds[len(m.change.Refunds)-1]
}

// captures takes minor of the authorization: amounts, running totals and entry.
func (m *move) captures(minor int64, attemptID string) error {
	p := m.payment()
	parts, shares, err := p.Parts.Capture(minor)
	if err != nil {
		return fmt.Errorf("payment %s: capture: %w", p.ID, err)
	}
	entry, err := ledger.Capture(attemptID, p.PSP, p.Currency, shares)
	if err != nil {
		return fmt.Errorf("payment %s: capture: %w", p.ID, err)
	}
	p.Captured, p.Parts, m.change.Entry = p.Captured+minor, parts, &entry
	return nil
}

// releases gives up what is left of the authorization.
func (m *move) releases() {
	m.payment().Released = m.payment().Authorized - m.payment().Captured
}

// finish makes the event and checks that the move posts what its transition says; then the Change may be committed.
func (m *move) finish() (shard.Change, error) {
	var posts ledger.EntryKind
	if m.change.Entry != nil {
		posts = m.change.Entry.Kind
	}
	if posts != m.transition.Posts {
		return shard.Change{}, &shard.InvariantError{Invariant: "P5", ID: m.payment().ID,
			Detail: fmt.Sprintf("%q posts %q, the table says %q", m.transition.On, posts, m.transition.Posts)}
	}
	payload, err := json.Marshal(m.event())
	if err != nil {
		return shard.Change{}, fmt.Errorf("payment %s: event: %w", m.payment().ID, err)
	}
	m.change.Event = shard.Event{Type: m.transition.Emits, Payload: payload}
	return m.change, nil
}

// answers stores the first answer of the key that asked for what this move settles. A move that nobody asked for answers
// nobody.
func (m *move) answers(ref shard.KeyRef, subject string, a Answer) {
	if ref.Key == "" || a.Kind == KindProcessing {
		return
	}
	m.change.Keys = append(m.change.Keys, shard.Key{KeyRef: ref, PaymentID: m.payment().ID, SubjectID: subject,
		AnswerKind: string(a.Kind), Answer: a.Body})
}

// maxText bounds what is kept of a PSP's words.
const maxText = 500

// clip cuts a PSP's words to what a row holds, at a character's border, and drops what no database stores.
func clip(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "")
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "")
}

// EventData is the payload of every event: the payment after the change, and what the change was about. Amounts are minor
// units of Amount.Currency. It never holds more of a card than brand and last four.
type EventData struct {
	PaymentID   string       `json:"paymentId"`
	Version     int64        `json:"version"`
	ClientID    string       `json:"clientId"`
	OrderID     string       `json:"orderId"`
	CustomerID  string       `json:"customerId,omitempty"`
	Status      string       `json:"status"`
	Amount      ledger.Money `json:"amount"`
	Captured    int64        `json:"captured"`
	Released    int64        `json:"released"`
	Refunding   int64        `json:"refunding"`
	Refunded    int64        `json:"refunded"`
	PSP         string       `json:"psp"`
	FailureCode string       `json:"failureCode,omitempty"`
	EntryID     string       `json:"entryId,omitempty"`
	Attempt     *EventPart   `json:"attempt,omitempty"`
	Refund      *EventPart   `json:"refund,omitempty"`
}

// EventPart is the attempt or refund that an event is about.
type EventPart struct {
	ID     string `json:"id"`
	Kind   string `json:"kind,omitempty"`
	Minor  int64  `json:"minor"`
	Status string `json:"status"`
}

func (m *move) event() EventData {
	p := m.payment()
	e := EventData{PaymentID: p.ID, Version: p.Version, ClientID: p.ClientID, OrderID: p.OrderID, CustomerID: p.CustomerID,
		Status: shownStatus(*p), Amount: ledger.Money{Minor: p.Authorized, Currency: p.Currency}, Captured: p.Captured,
		Released: p.Released, Refunding: p.Refunding, Refunded: p.Refunded, PSP: p.PSP, FailureCode: p.FailureCode}
	if m.change.Entry != nil {
		e.EntryID = m.change.Entry.ID
	}
	if m.attempt != nil {
		e.Attempt = &EventPart{ID: m.attempt.ID, Kind: m.attempt.Kind, Minor: m.attempt.Amount, Status: string(m.attempt.Status)}
	}
	if m.refund != nil {
		e.Refund = &EventPart{ID: m.refund.ID, Minor: m.refund.Amount, Status: string(m.refund.Status)}
	}
	return e
}
