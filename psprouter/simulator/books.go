package simulator

import (
	"maps"
	"slices"
	"strings"
)

// Books is all money that the simulator moved and every call that it saw. Amounts named …Stripe are in the PSP's own
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
}

// PaymentBooks is one payment. Authorized is what the card approved; Captured and Refunded what moved since.
type PaymentBooks struct {
	Ref              string            `json:"ref"`     // pi_…
	Attempt          string            `json:"attempt"` // metadata "attempt"
	Token            string            `json:"token"`
	Currency         string            `json:"currency"` // upper case
	Status           string            `json:"status"`   // Stripe's word
	AmountStripe     int64             `json:"amountStripe"`
	AmountMinor      int64             `json:"amountMinor"`
	AuthorizedStripe int64             `json:"authorizedStripe"`
	AuthorizedMinor  int64             `json:"authorizedMinor"`
	CapturedStripe   int64             `json:"capturedStripe"`
	CapturedMinor    int64             `json:"capturedMinor"`
	RefundedStripe   int64             `json:"refundedStripe"`
	RefundedMinor    int64             `json:"refundedMinor"`
	Voided           bool              `json:"voided"`         // an authorization was released by a call
	Expired          bool              `json:"expired"`        // … by time
	Authorizations   int               `json:"authorizations"` // approvals by the card
	Charges          int               `json:"charges"`        // times that money was taken: captures, and automatic ones at authorization
	Captures         []CaptureBooks    `json:"captures"`
	Refunds          []RefundBooks     `json:"refunds"`
	Calls            []CallBooks       `json:"calls"`
	Metadata         map[string]string `json:"metadata"`
}

// CaptureBooks is one taking of money under the idempotency key that caused it.
type CaptureBooks struct {
	Key          string `json:"key"`
	AmountStripe int64  `json:"amountStripe"`
	AmountMinor  int64  `json:"amountMinor"`
}

// RefundBooks is one refund; Status is pending, succeeded or failed.
type RefundBooks struct {
	Ref          string `json:"ref"`
	Key          string `json:"key"`
	AmountStripe int64  `json:"amountStripe"`
	AmountMinor  int64  `json:"amountMinor"`
	Status       string `json:"status"`
}

// CallBooks is one POST. Executed: this call changed something here; Replayed: it was answered from the idempotency layer;
// Status is the HTTP status of its answer, even if the answer was then cut off, and 0 if there was none to send.
type CallBooks struct {
	Op       string `json:"op"` // authorize, capture, void, refund, create
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
	CapturedStripe int64  `json:"capturedStripe"`
	CapturedMinor  int64  `json:"capturedMinor"`
	RefundedStripe int64  `json:"refundedStripe"`
	RefundedMinor  int64  `json:"refundedMinor"`
}

// Books returns a copy of the books as they are now.
func (s *Simulator) Books() Books { return s.books("", "") }

// books returns all payments, or only that of a reference or an attempt. Totals are of what is returned.
func (s *Simulator) books(ref, attempt string) Books {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := Books{Payments: []PaymentBooks{}, Unplaced: listed(s.unplaced), Skipped: s.skipped, Totals: []TotalBooks{}}
	totals := map[string]*TotalBooks{}
	now := s.opts.Now()
	for _, p := range s.order {
		if ref != "" && p.ref != ref || attempt != "" && p.metadata["attempt"] != attempt {
			continue
		}
		p.expire(now)
		one := bookOf(p)
		b.Payments = append(b.Payments, one)
		if totals[one.Currency] == nil {
			totals[one.Currency] = &TotalBooks{Currency: one.Currency}
		}
		totals[one.Currency].add(one)
	}
	for _, currency := range slices.Sorted(maps.Keys(totals)) {
		b.Totals = append(b.Totals, *totals[currency])
	}
	return b
}

func bookOf(p *payment) PaymentBooks {
	refunded := p.refunded()
	b := PaymentBooks{
		Ref: p.ref, Attempt: p.metadata["attempt"], Token: p.token, Currency: strings.ToUpper(p.currency), Status: p.status,
		AmountStripe: p.amount, AmountMinor: isoMinor(p.amount, p.currency),
		AuthorizedStripe: p.authorized, AuthorizedMinor: isoMinor(p.authorized, p.currency),
		CapturedStripe: p.captured, CapturedMinor: isoMinor(p.captured, p.currency),
		RefundedStripe: refunded, RefundedMinor: isoMinor(refunded, p.currency),
		Voided: p.voided, Expired: p.expired, Authorizations: p.authorizations, Charges: len(p.captures),
		Captures: listed(p.captures), Refunds: []RefundBooks{}, Calls: listed(p.calls), Metadata: maps.Clone(p.metadata),
	}
	for _, r := range p.refunds {
		b.Refunds = append(b.Refunds, RefundBooks{Ref: r.ref, Key: r.key, Status: r.status,
			AmountStripe: r.amount, AmountMinor: isoMinor(r.amount, p.currency)})
	}
	return b
}

// listed copies a list; in JSON an empty one is [] and not null.
func listed[T any](list []T) []T { return append([]T{}, list...) }

func (t *TotalBooks) add(p PaymentBooks) {
	t.Payments++
	t.Authorizations += p.Authorizations
	t.Charges += p.Charges
	t.CapturedStripe += p.CapturedStripe
	t.CapturedMinor += p.CapturedMinor
	t.RefundedStripe += p.RefundedStripe
	t.RefundedMinor += p.RefundedMinor
	for _, r := range p.Refunds {
		if r.Status == refundSucceeded {
			t.Refunds++
		}
	}
}

// isoMinor converts the PSP's unit to ISO minor units, for the few currencies where they differ. An amount that is no
// whole number of minor units (ISK 150 at the PSP is 1.50 krónur) becomes -1: no books can agree with it.
func isoMinor(amount int64, currency string) int64 {
	switch strings.ToUpper(currency) {
	case "ISK", "UGX":
		if amount%100 != 0 {
			return -1
		}
		return amount / 100
	case "MGA":
		return amount * 100
	}
	return amount
}
