package ledger

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Money is an amount of one currency in minor units (cents), by the currency's ISO 4217 exponent.
type Money struct {
	Minor    int64    `json:"minor"`
	Currency Currency `json:"currency"`
}

// MaxAmountMinor is the largest amount of one payment, split, capture or refund, in minor units. It
// lies far below int64's end, so that nine million of them can still be summed, and below 2^53, so
// that a reader who keeps numbers in floats still sees every digit.
const MaxAmountMinor int64 = 999_999_999_999

// ErrOverflow is returned when a sum of minor units does not fit an int64. Nothing was added; the
// remedy is to look at the amounts, which cannot be right.
var ErrOverflow = errors.New("ledger: the sum of amounts overflows int64: check the amounts")

// CheckedAdd returns a + b, or ErrOverflow.
func CheckedAdd(a, b int64) (int64, error) {
	if b > 0 && a > math.MaxInt64-b || b < 0 && a < math.MinInt64-b {
		return 0, ErrOverflow
	}
	return a + b, nil
}

// CheckedSub returns a - b, or ErrOverflow.
func CheckedSub(a, b int64) (int64, error) {
	// Not CheckedAdd(a, -b): the negative of MinInt64 does not exist.
	if b < 0 && a > math.MaxInt64+b || b > 0 && a < math.MinInt64+b {
		return 0, ErrOverflow
	}
	return a - b, nil
}

// String is the amount in major units with exactly the currency's decimals, a point, no grouping,
// and the code: "64.99 USD", "-0.05 EUR", "500 JPY". It is for people; machines read Minor.
func (m Money) String() string {
	// The magnitude as unsigned: MinInt64 has one, but not as an int64.
	sign, magnitude := "", uint64(m.Minor)
	if m.Minor < 0 {
		sign, magnitude = "-", -magnitude
	}
	digits := strconv.FormatUint(magnitude, 10)
	exponent := m.Currency.Exponent()
	if missing := exponent + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - exponent
	amount := sign + digits[:point]
	if exponent > 0 {
		amount += "." + digits[point:]
	}
	return amount + " " + string(m.Currency)
}

// Currency is an upper-case ISO 4217 code. Get one from ParseCurrency.
type Currency string

// CurrencyError says that a text is not the code of a currency that money can be held in.
type CurrencyError struct {
	Code string // as it came
}

// Error names the code and the remedy.
func (e *CurrencyError) Error() string {
	return fmt.Sprintf("currency %.20q: want an upper-case ISO 4217 code of a currency in use, like EUR", e.Code)
}

// ParseCurrency returns the currency of an upper-case ISO 4217 code, or a *CurrencyError. It takes the
// active codes that are money: no metals, no test codes, no "no currency", no withdrawn codes (BGN, HRK,
// ANG, …), and of the funds codes only the indexed units CLF, UYI and UYW. Lower case is refused, not
// folded: a PSP's adapter folds what its wire sends, so that two spellings never meet in a comparison.
func ParseCurrency(s string) (Currency, error) {
	if _, known := exponentOf(s); !known {
		return "", &CurrencyError{Code: s}
	}
	return Currency(s), nil
}

// Exponent is the number of decimals of the major unit by ISO 4217: 2 for USD, 0 for JPY, 3 for KWD. It
// is 2 for what is not a known currency. PSPs differ from ISO; their adapters convert, the ledger never does.
func (c Currency) Exponent() int {
	exponent, _ := exponentOf(string(c))
	return exponent
}

// exponentOf is ISO 4217's list one as of January 2026. A switch and not a map: it cannot be changed at
// run time, and a look-up costs a few comparisons.
func exponentOf(code string) (exponent int, known bool) {
	switch code {
	case "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG",
		"RWF", "UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF":
		return 0, true
	case "BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND":
		return 3, true
	case "CLF", "UYW":
		return 4, true
	case "AED", "AFN", "ALL", "AMD", "AOA", "ARS", "AUD", "AWG", "AZN",
		"BAM", "BBD", "BDT", "BMD", "BND", "BOB", "BRL", "BSD", "BTN", "BWP", "BYN", "BZD",
		"CAD", "CDF", "CHF", "CNY", "COP", "CRC", "CUP", "CVE", "CZK",
		"DKK", "DOP", "DZD", "EGP", "ERN", "ETB", "EUR", "FJD", "FKP",
		"GBP", "GEL", "GHS", "GIP", "GMD", "GTQ", "GYD", "HKD", "HNL", "HTG", "HUF",
		"IDR", "ILS", "INR", "IRR", "JMD", "KES", "KGS", "KHR", "KPW", "KYD", "KZT",
		"LAK", "LBP", "LKR", "LRD", "LSL",
		"MAD", "MDL", "MGA", "MKD", "MMK", "MNT", "MOP", "MRU", "MUR", "MVR", "MWK", "MXN", "MYR", "MZN",
		"NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "PAB", "PEN", "PGK", "PHP", "PKR", "PLN", "QAR",
		"RON", "RSD", "RUB", "SAR", "SBD", "SCR", "SDG", "SEK", "SGD", "SHP", "SLE", "SOS", "SRD", "SSP",
		"STN", "SVC", "SYP", "SZL", "THB", "TJS", "TMT", "TOP", "TRY", "TTD", "TWD", "TZS",
		"UAH", "USD", "UYU", "UZS", "VED", "VES", "WST", "XCD", "XCG", "YER", "ZAR", "ZMW", "ZWG":
		return 2, true
	}
	return 2, false
}
