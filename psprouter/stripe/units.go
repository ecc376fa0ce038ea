package stripe

import (
	"fmt"
	"math"

	"paygrid/ledger"
	"paygrid/psprouter"
)

// unit is how Stripe counts one currency: an amount in its unit has that many decimals and is a multiple of step.
type unit struct {
	decimals int
	step     int64
}

// units is Stripe's exponent table as far as one account may use it.
type units struct {
	// allowUGX: Stripe lists UGX as a currency without decimals and, elsewhere, as one to be sent times 100. A wrong guess
	// is wrong by a factor of 100, so the account's owner must have checked.
	allowUGX bool
}

// of returns Stripe's unit of c, or why c is off.
func (u units) of(c ledger.Currency) (unit, string) {
	switch c {
	case "BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF":
		return unit{decimals: 0, step: 1}, ""
	case "BHD", "JOD", "KWD", "OMR", "TND":
		return unit{decimals: 3, step: 10}, ""
	case "ISK":
		return unit{decimals: 2, step: 100}, ""
	case "UGX":
		if !u.allowUGX {
			return unit{}, "UGX is off: Stripe documents two units for it; check the account, then set AllowUGX"
		}
		return unit{decimals: 2, step: 100}, ""
	}
	if _, err := ledger.ParseCurrency(string(c)); err != nil {
		return unit{}, err.Error()
	}
	if c.Exponent() != 2 {
		return unit{}, fmt.Sprintf("%s is not a currency that Stripe takes", c)
	}
	return unit{decimals: 2, step: 1}, ""
}

// toStripe converts ISO minor units to Stripe's. It returns an *AmountError where it would have to round, and for
// negative amounts, which never cross.
func (u units) toStripe(m ledger.Money) (int64, error) {
	refuse := func(why string) (int64, error) {
		return 0, &psprouter.AmountError{PSP: Name, Amount: m, Why: why}
	}
	if m.Minor < 0 {
		return refuse("the amount is negative")
	}
	to, off := u.of(m.Currency)
	if off != "" {
		return refuse(off)
	}
	amount, ok := rescale(m.Minor, m.Currency.Exponent(), to.decimals)
	if !ok {
		return refuse(fmt.Sprintf("%d %s minor units are no whole amount in Stripe's unit", m.Minor, m.Currency))
	}
	if amount%to.step != 0 {
		return refuse(fmt.Sprintf("%s amounts must be a multiple of %d", m.Currency, to.step))
	}
	return amount, nil
}

// fromStripe converts an amount in Stripe's unit to ISO minor units. It returns an *AmountError, whose Amount holds
// Stripe's number, where it would have to round.
func (u units) fromStripe(amount int64, c ledger.Currency) (int64, error) {
	refuse := func(why string) (int64, error) {
		return 0, &psprouter.AmountError{PSP: Name, Amount: ledger.Money{Minor: amount, Currency: c}, Why: why}
	}
	from, off := u.of(c)
	if off != "" {
		return refuse(off)
	}
	minor, ok := rescale(amount, from.decimals, c.Exponent())
	if !ok {
		return refuse(fmt.Sprintf("%d in Stripe's unit is no whole number of %s minor units", amount, c))
	}
	return minor, nil
}

// rescale moves amount from one number of decimals to another; false if that would round or overflow.
func rescale(amount int64, from, to int) (int64, bool) {
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
