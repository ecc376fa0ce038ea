package wire

import (
	"fmt"
	"math"

	"paygrid/ledger"
	"paygrid/psprouter"
)

// Unit is how a PSP counts one currency: an amount in its unit has that many decimals and is a multiple of Step.
type Unit struct {
	Decimals int
	Step     int64
}

// Units is a PSP's exponent table. Of returns the unit of a currency, or why the currency is off.
type Units struct {
	PSP string
	Of  func(ledger.Currency) (unit Unit, off string)
}

// To converts ISO minor units to the PSP's. It returns an *psprouter.AmountError where it would have to round, and for
// negative amounts, which never cross.
func (u Units) To(m ledger.Money) (int64, error) {
	refuse := func(why string) (int64, error) {
		return 0, &psprouter.AmountError{PSP: u.PSP, Amount: m, Why: why}
	}
	if m.Minor < 0 {
		return refuse("the amount is negative")
	}
	to, off := u.Of(m.Currency)
	if off != "" {
		return refuse(off)
	}
	amount, ok := Rescale(m.Minor, m.Currency.Exponent(), to.Decimals)
	if !ok {
		return refuse(fmt.Sprintf("%d %s minor units are no whole amount in the PSP's unit", m.Minor, m.Currency))
	}
	if amount%to.Step != 0 {
		return refuse(fmt.Sprintf("%s amounts must be a multiple of %d", m.Currency, to.Step))
	}
	return amount, nil
}

// From converts an amount in the PSP's unit to ISO minor units. It returns an *psprouter.AmountError, whose Amount
// holds the PSP's number, where it would have to round.
func (u Units) From(amount int64, c ledger.Currency) (int64, error) {
	refuse := func(why string) (int64, error) {
		return 0, &psprouter.AmountError{PSP: u.PSP, Amount: ledger.Money{Minor: amount, Currency: c}, Why: why}
	}
	from, off := u.Of(c)
	if off != "" {
		return refuse(off)
	}
	minor, ok := Rescale(amount, from.Decimals, c.Exponent())
	if !ok {
		return refuse(fmt.Sprintf("%d in the PSP's unit is no whole number of %s minor units", amount, c))
	}
	return minor, nil
}

// Positive converts as To does, and refuses zero: no payment, capture or refund is of nothing.
func (u Units) Positive(m ledger.Money) (int64, error) {
	if m.Minor == 0 {
		return 0, &psprouter.AmountError{PSP: u.PSP, Amount: m, Why: "the amount must be positive"}
	}
	return u.To(m)
}

// Supports returns an *psprouter.AmountError if m is not positive or does not cross exactly.
func (u Units) Supports(m ledger.Money) error {
	_, err := u.Positive(m)
	return err
}

// Notice converts an amount that a webhook names, with the currency's upper-case code; a problem is told in words, since
// the notice is kept all the same.
func (u Units) Notice(amount int64, code string) (m ledger.Money, problem string) {
	c, err := ledger.ParseCurrency(code)
	if err != nil {
		return m, err.Error()
	}
	if amount < 0 {
		return m, fmt.Sprintf("the amount %d is negative", amount)
	}
	minor, err := u.From(amount, c)
	if err != nil {
		return m, err.Error()
	}
	return ledger.Money{Minor: minor, Currency: c}, ""
}

// Rescale moves amount from one number of decimals to another; false if that would round or overflow.
func Rescale(amount int64, from, to int) (int64, bool) {
	for ; from < to; from++ {
		if amount > math.MaxInt64/10 || amount < math.MinInt64/10 {
			return 0, false
		}
		amount *= 10
	}
	for ; from > to; from-- {
		if amount%10 != 0 {
			return 0, false
		}
		amount /= 10
	}
	return amount, true
}
