package adyen

import (
	"testing"

	"pgregory.net/rapid"

	"paygrid/ledger"
	"paygrid/psprouter/wire"
)

// The rows of C025, and the other currencies where Adyen differs from ISO 4217, both ways; TestConformance has them on the
// wire and back by notice.
func TestC025ExponentsDifferPerPSP(t *testing.T) {
	u := wire.Units{PSP: Name, Of: unitOf}
	for _, row := range []struct {
		minor    int64
		currency ledger.Currency
		adyen    int64
	}{
		{500, "JPY", 500}, {1099, "EUR", 1099}, {5120, "KWD", 5120}, {5124, "KWD", 5124}, {2790, "ISK", 279000}, {1045, "HUF", 1045},
		{1500, "CLP", 150000}, {1234500, "IDR", 12345}, {500, "CVE", 5}, {500, "MGA", 500}, {5, "UGX", 5}, {1000, "IQD", 1000}, {2000, "TWD", 2000},
	} {
		got, err := u.To(ledger.Money{Minor: row.minor, Currency: row.currency})
		if err != nil || got != row.adyen {
			t.Errorf("%d %s: %d, %v, want %d", row.minor, row.currency, got, err, row.adyen)
		}
		if back, err := u.From(row.adyen, row.currency); err != nil || back != row.minor {
			t.Errorf("%d %s comes back as %d, %v", row.adyen, row.currency, back, err)
		}
	}
	for _, c := range []ledger.Currency{"BIF", "CLF", "UYI", "UYW", "XXX", "eur", ""} {
		if got, err := u.To(ledger.Money{Minor: 1000, Currency: c}); err == nil {
			t.Errorf("%q crosses as %d", c, got)
		}
	}
}

// What crosses comes back unchanged, or does not cross at all.
func TestUnitsRoundTrip(t *testing.T) {
	u := wire.Units{PSP: Name, Of: unitOf}
	rapid.Check(t, func(t *rapid.T) {
		c := ledger.Currency(rapid.SampledFrom([]string{"EUR", "JPY", "KWD", "ISK", "CLP", "IDR", "CVE", "MGA"}).Draw(t, "currency"))
		m := ledger.Money{Minor: rapid.Int64Min(0).Draw(t, "minor"), Currency: c}
		there, err := u.To(m)
		if err != nil {
			return
		}
		if back, err := u.From(there, c); err != nil || back != m.Minor {
			t.Fatalf("%v became %d and came back as %d, %v", m, there, back, err)
		}
	})
}
