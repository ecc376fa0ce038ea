package ledger_test

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/text/currency"
	"pgregory.net/rapid"

	"paygrid/ledger"
)

func TestParseCurrencyTakesActiveMoneyOnly(t *testing.T) {
	for _, code := range []string{"EUR", "USD", "JPY", "KWD", "CLF", "UYI", "UYW", "ZWG", "SLE", "XCG", "XOF", "VED"} {
		if c, err := ledger.ParseCurrency(code); err != nil || string(c) != code {
			t.Errorf("ParseCurrency(%q) = %q, %v; want it taken", code, c, err)
		}
	}
	refused := []string{
		"", "eur", "Eur", "EURO", "EU", " EUR", "EUR ", "EUR\n", "978", "ЕUR",
		"XXX", "XTS", "XAU", "XAG", "XPT", "XPD", "XDR", "XSU", "XUA", "XAD", "XBA", // no money
		"BOV", "CHE", "CHW", "COU", "MXV", "USN", // funds codes
		"DEM", "HRK", "BGN", "ANG", "ZWL", "SLL", "VEF", "CUC", "BTC", // withdrawn, or never were
	}
	for _, code := range refused {
		c, err := ledger.ParseCurrency(code)
		var wrong *ledger.CurrencyError
		if c != "" || !errors.As(err, &wrong) || wrong.Code != code {
			t.Errorf("ParseCurrency(%q) = %q, %v; want a *CurrencyError with the code", code, c, err)
		}
	}
}

// Walks all 17,576 codes: each that is taken but the newest is known to an independent table, and the counts are those
// of ISO's list one less funds, metals and test codes.
func TestCurrencyListAgainstAnotherTable(t *testing.T) {
	newer := map[string]bool{"MRU": true, "SLE": true, "UYW": true, "VED": true, "VES": true, "XCG": true, "ZWG": true}
	byExponent := map[int]int{}
	for i := range 26 * 26 * 26 {
		code := string([]byte{'A' + byte(i/676), 'A' + byte(i/26%26), 'A' + byte(i%26)})
		c, err := ledger.ParseCurrency(code)
		if err != nil {
			continue
		}
		byExponent[c.Exponent()]++
		if _, err := currency.ParseISO(code); err != nil && !newer[code] {
			t.Errorf("%s is not an ISO code by golang.org/x/text/currency", code)
		}
	}
	if want := map[int]int{0: 17, 2: 132, 3: 7, 4: 2}; !equalCounts(byExponent, want) {
		t.Errorf("currencies per exponent = %v, want %v", byExponent, want)
	}
}

// The other direction: what is legal tender somewhere today must be taken.
func TestEveryLegalTenderIsTaken(t *testing.T) {
	withdrawn := map[string]bool{"ANG": true, "BGN": true, "CUC": true, "HRK": true, "MRO": true, "SLL": true, "VEF": true, "ZWL": true}
	for it := currency.Query(currency.Historical); it.Next(); {
		if _, ended := it.To(); ended || !it.IsTender() {
			continue
		}
		code := it.Unit().String()
		if _, err := ledger.ParseCurrency(code); err != nil && !withdrawn[code] && !strings.HasPrefix(code, "X") {
			t.Errorf("%s is legal tender in %s and refused", code, it.Region())
		}
	}
}

func equalCounts(a, b map[int]int) bool {
	for k, v := range b {
		if a[k] != v {
			return false
		}
	}
	return len(a) == len(b)
}

func TestExponent(t *testing.T) {
	want := map[ledger.Currency]int{
		"EUR": 2, "USD": 2, "MGA": 2, "MRU": 2, "CVE": 2, "IDR": 2, "HUF": 2, "TWD": 2,
		"JPY": 0, "ISK": 0, "UGX": 0, "CLP": 0, "UYI": 0, "XPF": 0,
		"KWD": 3, "BHD": 3, "IQD": 3, "TND": 3, "CLF": 4, "UYW": 4,
		"": 2, "XXX": 2, "eur": 2,
	}
	for c, exponent := range want {
		if got := c.Exponent(); got != exponent {
			t.Errorf("%q.Exponent() = %d, want %d", c, got, exponent)
		}
	}
}

func TestMoneyString(t *testing.T) {
	for _, c := range []struct {
		minor    int64
		currency ledger.Currency
		want     string
	}{
		{6499, "USD", "64.99 USD"}, {-5, "EUR", "-0.05 EUR"}, {0, "EUR", "0.00 EUR"}, {100, "EUR", "1.00 EUR"},
		{500, "JPY", "500 JPY"}, {0, "JPY", "0 JPY"}, {-1, "JPY", "-1 JPY"},
		{5124, "KWD", "5.124 KWD"}, {7, "KWD", "0.007 KWD"}, {12345, "CLF", "1.2345 CLF"}, {1, "UYW", "0.0001 UYW"},
		{9007199254740993, "EUR", "90071992547409.93 EUR"},
		{math.MaxInt64, "EUR", "92233720368547758.07 EUR"}, {math.MinInt64, "EUR", "-92233720368547758.08 EUR"},
		{math.MinInt64, "JPY", "-9223372036854775808 JPY"},
	} {
		if got := (ledger.Money{Minor: c.minor, Currency: c.currency}).String(); got != c.want {
			t.Errorf("Money{%d, %s} = %q, want %q", c.minor, c.currency, got, c.want)
		}
	}
}

// edgyInt64 draws from all of int64, but half of the time close to its ends or to zero.
func edgyInt64() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64(), rapid.Int64Range(-3, 3),
		rapid.Int64Range(math.MaxInt64-3, math.MaxInt64), rapid.Int64Range(math.MinInt64, math.MinInt64+3),
	)
}

func TestCheckedArithmeticAgainstBig(t *testing.T) {
	ops := []struct {
		name    string
		checked func(a, b int64) (int64, error)
		exact   func(z, a, b *big.Int) *big.Int
	}{
		{"CheckedAdd", ledger.CheckedAdd, (*big.Int).Add},
		{"CheckedSub", ledger.CheckedSub, (*big.Int).Sub},
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := edgyInt64().Draw(t, "a"), edgyInt64().Draw(t, "b")
		for _, op := range ops {
			got, err := op.checked(a, b)
			want := op.exact(new(big.Int), big.NewInt(a), big.NewInt(b))
			switch {
			case want.IsInt64() && (err != nil || got != want.Int64()):
				t.Fatalf("%s(%d, %d) = %d, %v; want %s", op.name, a, b, got, err, want)
			case !want.IsInt64() && (!errors.Is(err, ledger.ErrOverflow) || got != 0):
				t.Fatalf("%s(%d, %d) = %d, %v; want ErrOverflow", op.name, a, b, got, err)
			}
		}
	})
}

func FuzzParseCurrency(f *testing.F) {
	for _, s := range []string{"EUR", "JPY", "KWD", "CLF", "eur", "EURO", "XXX", "XAU", "", "E\x00R", "ЕUR"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ledger.ParseCurrency(s)
		if err != nil {
			if c != "" || err.Error() == "" {
				t.Fatalf("ParseCurrency(%q) = %q, %v; want nothing but an error", s, c, err)
			}
			return
		}
		if string(c) != s || len(s) != 3 || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			t.Fatalf("ParseCurrency(%q) = %q", s, c)
		}
		if e := c.Exponent(); e != 0 && e != 2 && e != 3 && e != 4 {
			t.Fatalf("%s has exponent %d", c, e)
		}
	})
}

// Reads the text back digit by digit: no amount may lose or gain one.
func FuzzMoneyString(f *testing.F) {
	f.Add(int64(6499), "USD")
	f.Add(int64(-5), "EUR")
	f.Add(int64(9007199254740993), "JPY")
	f.Add(int64(-1<<63), "KWD")
	f.Add(int64(1<<63-1), "CLF")
	f.Fuzz(func(t *testing.T, minor int64, code string) {
		c, err := ledger.ParseCurrency(code)
		if err != nil {
			return
		}
		text := ledger.Money{Minor: minor, Currency: c}.String()
		if got := readMoney(t, text, c); got != minor {
			t.Fatalf("%d %s reads %q, which is %d", minor, c, text, got)
		}
	})
}

// readMoney is the inverse of Money.String, written apart from it.
func readMoney(t *testing.T, text string, c ledger.Currency) int64 {
	amount, code, _ := strings.Cut(text, " ")
	whole, decimals, _ := strings.Cut(amount, ".")
	if code != string(c) || len(decimals) != c.Exponent() || strings.HasSuffix(amount, ".") {
		t.Fatalf("%q has not the shape of an amount in %s", text, c)
	}
	minor, err := strconv.ParseInt(whole+decimals, 10, 64)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return minor
}
