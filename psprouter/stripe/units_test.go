package stripe

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"paygrid/ledger"
	"paygrid/psprouter"
)

// The rows of C025, and the other currencies where Stripe differs from ISO 4217; derived by hand from Stripe's lists.
func TestC025ExponentsDifferPerPSP(t *testing.T) {
	const refused = -1
	for _, c := range []struct {
		minor    int64
		currency ledger.Currency
		stripe   int64
		ugx      bool
	}{
		{500, "JPY", 500, false},
		{1099, "EUR", 1099, false},
		{5120, "KWD", 5120, false},
		{5124, "KWD", refused, false},
		{5, "UGX", 500, true},
		{5, "UGX", refused, false},
		{2790, "ISK", 279000, false},
		{1045, "HUF", 1045, false},
		{1500, "CLP", 1500, false},
		{500, "MGA", 5, false},
		{510, "MGA", refused, false},
		{1234500, "IDR", 1234500, false},
		{1000, "IQD", refused, false}, // three decimals, not at Stripe
		{1000, "CLF", refused, false}, // four decimals
		{1000, "UYI", refused, false}, // no decimals, not at Stripe
		{1000, "XXX", refused, false},
		{1000, "eur", refused, false},
		{0, "EUR", 0, false},
		{-1, "EUR", refused, false},
		{12345678901, "EUR", 12345678901, false}, // C026: no eight-digit limit of our own
		{math.MaxInt64, "ISK", refused, false},
	} {
		u := units{allowUGX: c.ugx}
		got, err := u.toStripe(ledger.Money{Minor: c.minor, Currency: c.currency})
		if c.stripe == refused {
			var amount *psprouter.AmountError
			if !errors.As(err, &amount) || amount.Why == "" || amount.PSP != Name {
				t.Errorf("%d %s: got %d, %v; want an AmountError", c.minor, c.currency, got, err)
			}
			continue
		}
		if err != nil || got != c.stripe {
			t.Errorf("%d %s: got %d, %v; want %d", c.minor, c.currency, got, err, c.stripe)
		}
		if back, err := u.fromStripe(got, c.currency); err != nil || back != c.minor {
			t.Errorf("%d %s comes back as %d, %v", c.minor, c.currency, back, err)
		}
	}
}

func TestFromStripeRefusesWhatWouldRound(t *testing.T) {
	for _, c := range []struct {
		amount   int64
		currency ledger.Currency
	}{{150, "ISK"}, {math.MaxInt64, "MGA"}, {100, "UGX"}, {100, "LYD"}} {
		if got, err := (units{}).fromStripe(c.amount, c.currency); err == nil {
			t.Errorf("%d %s: got %d, want an error", c.amount, c.currency, got)
		}
	}
}

// What crosses comes back unchanged, or does not cross at all.
func TestUnitsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		currency := ledger.Currency(rapid.SampledFrom([]string{"EUR", "JPY", "KWD", "ISK", "MGA", "UGX", "TND", "HUF"}).Draw(t, "currency"))
		m := ledger.Money{Minor: rapid.Int64Min(0).Draw(t, "minor"), Currency: currency}
		u := units{allowUGX: true}
		there, err := u.toStripe(m)
		if err != nil {
			return
		}
		if back, err := u.fromStripe(there, currency); err != nil || back != m.Minor {
			t.Fatalf("%v became %d and came back as %d, %v", m, there, back, err)
		}
	})
}
