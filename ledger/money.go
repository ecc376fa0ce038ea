package ledger

import (
	"errors"
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
