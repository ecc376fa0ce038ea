package simulator

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Books is all money that the simulator moved and every call that it saw. Amounts named …PSP are in the PSP's own
// unit, those named …Minor in ISO 4217 minor units, converted by a table of this package alone.
type Books struct {
	// Payments, oldest first.
	Payments []PaymentBooks `json:"payments"`
	// Unplaced are the calls that left no payment behind: refused, malformed, cut off before anything was done.
	Unplaced []CallBooks `json:"unplaced"`
	// Skipped counts the calls that found no room in these books.
	Skipped int `json:"skipped"`
	// Totals per currency, by code.
	Totals []TotalBooks `json:"totals"`
	// Faults counts what went wrong on purpose, by the names of the fault table; outage_MODE counts calls in an outage.
	Faults map[string]int `json:"faults"`
	// Webhooks sums up the notices.
	Webhooks WebhookBooks `json:"webhooks"`
}

// PaymentBooks is one payment. Authorized is what the card approved; Captured and Refunded what moved since.
type PaymentBooks struct {
	Ref             string            `json:"ref"`     // the PSP's reference: pi_…, or Adyen's pspReference
	Attempt         string            `json:"attempt"` // Stripe metadata "attempt", Adyen reference
	Token           string            `json:"token"`
	Currency        string            `json:"currency"` // upper case
	Status          string            `json:"status"`   // Stripe's word, in both dialects
	AmountPSP       int64             `json:"amountPSP"`
	AmountMinor     int64             `json:"amountMinor"`
	AuthorizedPSP   int64             `json:"authorizedPSP"`
	AuthorizedMinor int64             `json:"authorizedMinor"`
	CapturedPSP     int64             `json:"capturedPSP"`
	CapturedMinor   int64             `json:"capturedMinor"`
	RefundedPSP     int64             `json:"refundedPSP"`
	RefundedMinor   int64             `json:"refundedMinor"`
	Voided          bool              `json:"voided"`         // an authorization was released by a call
	Expired         bool              `json:"expired"`        // … by time
	Authorizations  int               `json:"authorizations"` // approvals by the card
	Charges         int               `json:"charges"`        // times that money was taken: captures, and automatic ones at authorization
	Captures        []CaptureBooks    `json:"captures"`
	Refunds         []RefundBooks     `json:"refunds"`
	Calls           []CallBooks       `json:"calls"`
	Metadata        map[string]string `json:"metadata"`
}

// CaptureBooks is one taking of money under the idempotency key that caused it.
type CaptureBooks struct {
	Key         string `json:"key"`
	Ref         string `json:"ref,omitempty"` // Adyen: of the modification
	AmountPSP   int64  `json:"amountPSP"`
	AmountMinor int64  `json:"amountMinor"`
	// Failed tells that the money was taken back later; it counts neither as a charge nor as captured.
	Failed bool `json:"failed,omitempty"`
}

// RefundBooks is one refund; Status is pending, succeeded or failed.
type RefundBooks struct {
	Ref         string `json:"ref"`
	Key         string `json:"key"`
	AmountPSP   int64  `json:"amountPSP"`
	AmountMinor int64  `json:"amountMinor"`
	Status      string `json:"status"`
}

// CallBooks is one POST. Executed: this call changed something here; Replayed: it was answered from the idempotency layer;
// Status is the HTTP status of its answer, even if the answer was then cut off, and 0 if there was none to send.
type CallBooks struct {
	Op       string `json:"op"` // authorize, capture, void, refund, create, details; look-up in an outage
	Key      string `json:"key"`
	Executed bool   `json:"executed"`
	Replayed bool   `json:"replayed"`
	Status   int    `json:"status"`
}

// TotalBooks sums up one currency.
type TotalBooks struct {
	Currency       string `json:"currency"`
	Payments       int    `json:"payments"`
	Authorizations int    `json:"authorizations"`
	Charges        int    `json:"charges"`
	Refunds        int    `json:"refunds"` // succeeded
	CapturedPSP    int64  `json:"capturedPSP"`
	CapturedMinor  int64  `json:"capturedMinor"`
	RefundedPSP    int64  `json:"refundedPSP"`
	RefundedMinor  int64  `json:"refundedMinor"`
}

// Books returns a copy of the books as they are now.
func (s *Simulator) Books() Books { return s.books("", "") }

// books returns all payments, or only that of a reference or an attempt. Totals are of what is returned.
func (s *Simulator) books(ref, attempt string) Books {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := Books{Payments: []PaymentBooks{}, Unplaced: listed(s.unplaced), Skipped: s.skipped, Totals: []TotalBooks{}}
	b.Faults = maps.Clone(s.tally)
	totals := map[string]*TotalBooks{}
	now := s.opts.Now()
	for _, p := range s.order {
		if ref != "" && p.ref != ref || attempt != "" && p.attempt != attempt {
			continue
		}
		s.catchUp(p, now)
		one := s.bookOf(p)
		b.Payments = append(b.Payments, one)
		if totals[one.Currency] == nil {
			totals[one.Currency] = &TotalBooks{Currency: one.Currency}
		}
		totals[one.Currency].add(one)
	}
	for _, currency := range slices.Sorted(maps.Keys(totals)) {
		b.Totals = append(b.Totals, *totals[currency])
	}
	b.Webhooks = s.webhookBooks()
	return b
}

func (s *Simulator) bookOf(p *payment) PaymentBooks {
	refunded := p.refunded()
	b := PaymentBooks{
		Ref: p.ref, Attempt: p.attempt, Token: p.token, Currency: strings.ToUpper(p.currency), Status: p.status,
		AmountPSP: p.amount, AmountMinor: s.dialect.isoMinor(p.amount, p.currency),
		AuthorizedPSP: p.authorized, AuthorizedMinor: s.dialect.isoMinor(p.authorized, p.currency),
		CapturedPSP: p.captured, CapturedMinor: s.dialect.isoMinor(p.captured, p.currency),
		RefundedPSP: refunded, RefundedMinor: s.dialect.isoMinor(refunded, p.currency),
		Voided: p.voided, Expired: p.expired, Authorizations: p.authorizations, Charges: charges(p),
		Captures: listed(p.captures), Refunds: []RefundBooks{}, Calls: listed(p.calls), Metadata: maps.Clone(p.metadata),
	}
	for _, r := range p.refunds {
		b.Refunds = append(b.Refunds, RefundBooks{Ref: r.ref, Key: r.key, Status: r.status,
			AmountPSP: r.amount, AmountMinor: s.dialect.isoMinor(r.amount, p.currency)})
	}
	return b
}

// listed copies a list; in JSON an empty one is [] and not null.
func listed[T any](list []T) []T { return append([]T{}, list...) }

func (t *TotalBooks) add(p PaymentBooks) {
	t.Payments++
	t.Authorizations += p.Authorizations
	t.Charges += p.Charges
	t.CapturedPSP += p.CapturedPSP
	t.CapturedMinor += p.CapturedMinor
	t.RefundedPSP += p.RefundedPSP
	t.RefundedMinor += p.RefundedMinor
	for _, r := range p.Refunds {
		if r.Status == refundSucceeded {
			t.Refunds++
		}
	}
}

// charges counts the captures that stand.
func charges(p *payment) (n int) {
	for _, c := range p.captures {
		if !c.Failed {
			n++
		}
	}
	return n
}

// The kinds of movements.
const (
	MovementCapture         = "capture"
	MovementCaptureReversed = "capture_reversed"
	MovementRefund          = "refund"
	MovementRefundReversed  = "refund_reversed"
)

// Movement is one line of money, as a settlement file lists it: what was taken is positive, what was given back negative.
type Movement struct {
	At          time.Time `json:"at"`
	Kind        string    `json:"kind"`
	Payment     string    `json:"payment"` // the PSP's reference
	Ref         string    `json:"ref"`     // of the capture (Adyen) or refund
	Key         string    `json:"key"`     // the idempotency key that caused it
	Currency    string    `json:"currency"`
	AmountPSP   int64     `json:"amountPSP"`
	AmountMinor int64     `json:"amountMinor"`
}

// Movements returns all money that moved from time from to before time to, payments oldest first, each in its own order.
func (s *Simulator) Movements(from, to time.Time) []Movement {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Movement{}
	for _, p := range s.order {
		for _, m := range p.movements {
			if m.at.Before(from) || !m.at.Before(to) {
				continue
			}
			sign, amount := int64(1), m.amount
			if amount < 0 {
				sign, amount = -1, -amount
			}
			list = append(list, Movement{At: m.at, Kind: m.kind, Payment: p.ref, Ref: m.ref, Key: m.key, Currency: strings.ToUpper(p.currency),
				AmountPSP: m.amount, AmountMinor: sign * s.dialect.isoMinor(amount, p.currency)})
		}
	}
	return list
}
