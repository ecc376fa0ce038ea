package loadtest

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// audited is a run of two orders in which all is well.
func audited() (known []Acknowledged, books []Booked) {
	known = []Acknowledged{
		{Payment: "pay_1", Order: "o1", Minor: 100, Currency: "EUR", Word: "AUTHORIZED", Captured: 100, Refunded: 30},
		{Payment: "pay_1", Order: "o1", Minor: 100, Currency: "EUR", Word: "PROCESSING"}, // a double click's answer
		{Payment: "pay_2", Order: "o2", Minor: 50, Currency: "USD", Word: "DECLINED"},
		{Payment: "pay_3", Order: "o2", Minor: 50, Currency: "USD", Word: "AUTHORIZED", Voided: true},
	}
	books = []Booked{
		{ID: "pay_1", Client: "a", Order: "o1", Currency: "EUR", Status: "CAPTURED", Authorized: 100, Captured: 100, Refunding: 10, Refunded: 20},
		{ID: "pay_2", Client: "a", Order: "o2", Currency: "USD", Status: "DECLINED", Authorized: 50},
		{ID: "pay_3", Client: "a", Order: "o2", Currency: "USD", Status: "VOIDED", Authorized: 50},
		{ID: "pay_9", Client: "z", Order: "x-other", Currency: "EUR", Status: "REQUIRES_ACTION", Authorized: 5}, // of another process
	}
	return known, books
}

func audit(known []Acknowledged, books []Booked) Audited {
	a := NewAudit(known)
	a.Run("o") // the other's orders begin otherwise
	for _, b := range books {
		a.Payment(b)
	}
	a.Posting("EUR", "psp_receivable:stripe", "seller_payable:s", 90)
	a.Posting("EUR", "psp_receivable:adyen", "commission_revenue", 10)
	return a.Result()
}

// TestAuditFinds plants what must not be, and wants it found, once.
func TestAuditFinds(t *testing.T) {
	for _, tc := range []struct {
		name          string
		plant         func(known []Acknowledged, books []Booked) ([]Acknowledged, []Booked)
		found         string
		lost, doubles int
	}{
		{"nothing", func(k []Acknowledged, b []Booked) ([]Acknowledged, []Booked) { return k, b }, "", 0, 0},
		{"lost", func(k []Acknowledged, b []Booked) ([]Acknowledged, []Booked) { return k, b[1:] }, "is not in the books", 1, 0},
		{"paid twice", func(k []Acknowledged, b []Booked) ([]Acknowledged, []Booked) {
			return k, append(b, Booked{ID: "pay_4", Order: "o1", Currency: "EUR", Status: "AUTHORIZED", Authorized: 100})
		}, "is paid 2 times", 0, 1},
		{"paid twice, told to nobody", func(k []Acknowledged, b []Booked) ([]Acknowledged, []Booked) {
			return k, append(b, Booked{ID: "pay_5", Order: "o9", Status: "CAPTURED", Captured: 1}, Booked{ID: "pay_6", Order: "o9", Status: "AUTHORIZED"})
		}, "order o9 is paid 2 times", 0, 1},
		{"another run's", func(k []Acknowledged, b []Booked) ([]Acknowledged, []Booked) {
			return k, append(b, Booked{ID: "pay_5", Order: "x-other", Status: "CAPTURED", Captured: 1}, Booked{ID: "pay_6", Order: "x-other", Status: "AUTHORIZED"})
		}, "", 0, 0},
		{"another amount", func(k []Acknowledged, b []Booked) ([]Acknowledged, []Booked) { b[0].Authorized = 101; return k, b }, "over 101", 0, 0},
		{"another order", func(k []Acknowledged, b []Booked) ([]Acknowledged, []Booked) { b[0].Order = "o7"; return k, b }, "is order o7", 0, 0},
		{"capture forgotten", func(k []Acknowledged, b []Booked) ([]Acknowledged, []Booked) { b[0].Captured = 0; return k, b }, "has captured 0", 0, 0},
		{"refund forgotten", func(k []Acknowledged, b []Booked) ([]Acknowledged, []Booked) { b[0].Refunded = 19; return k, b }, "refunded 29", 0, 0},
		{"void forgotten", func(k []Acknowledged, b []Booked) ([]Acknowledged, []Booked) { b[2].Status = "AUTHORIZED"; return k, b }, "its void", 0, 0},
		{"authorized, booked as declined", func(k []Acknowledged, b []Booked) ([]Acknowledged, []Booked) {
			b[2].Status = "DECLINED"
			return k, b
		}, "the API said AUTHORIZED", 0, 0},
		{"declined, booked as authorized", func(k []Acknowledged, b []Booked) ([]Acknowledged, []Booked) {
			b[1].Status = "EXPIRED"
			return k, b
		}, "the API said DECLINED", 0, 0},
		{"one payment for two orders", func(k []Acknowledged, b []Booked) ([]Acknowledged, []Booked) {
			k[1].Order = "o2"
			return k, b
		}, "was given to two orders", 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := audit(tc.plant(audited()))
			if r.Lost != tc.lost || r.Doubles != tc.doubles || r.Buyers != 1 {
				t.Errorf("%+v, want %d lost and %d doubles", r, tc.lost, tc.doubles)
			}
			all := strings.Join(r.Findings, "\n")
			if (tc.found == "") != (r.Found == 0) || !strings.Contains(all, tc.found) {
				t.Errorf("found %d: %s, want %q", r.Found, all, tc.found)
			}
		})
	}
}

// TestDigestsNameWhatARunLeaves, and not in what order it was read, what its payments are called, or which PSP took them.
func TestDigestsNameWhatARunLeaves(t *testing.T) {
	_, books := audited()
	want := audit(nil, books)
	other := NewAudit(nil)
	for n, at := range rand.Perm(len(books)) {
		b := books[at]
		b.ID = strings.Repeat("x", n+1)
		other.Payment(b)
	}
	other.Posting("EUR", "psp_receivable:adyen", "commission_revenue", 4)
	other.Posting("EUR", "psp_receivable:adyen", "commission_revenue", 6)
	other.Posting("EUR", "psp_receivable:adyen", "seller_payable:s", 90)
	other.Posting("USD", "psp_receivable:adyen", "seller_payable:t", 5)
	other.Posting("USD", "seller_payable:t", "psp_receivable:adyen", 5) // back at zero, as if untouched
	got := other.Result()
	if got.Payments != want.Payments || got.Balances != want.Balances {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if want.House["psp_receivable EUR"] != "100" || want.House["commission_revenue EUR"] != "-10" || len(want.House) != 2 {
		t.Errorf("house accounts %v", want.House)
	}
	books[0].Captured--
	cent := NewAudit(nil)
	for _, b := range books {
		cent.Payment(b)
	}
	cent.Posting("EUR", "psp_receivable:stripe", "seller_payable:s", 91)
	cent.Posting("EUR", "psp_receivable:stripe", "commission_revenue", 9)
	if r := cent.Result(); r.Payments == want.Payments || r.Balances == want.Balances {
		t.Error("a cent makes no difference")
	}
}
