package stripe

import (
	"fmt"

	"paygrid/ledger"
	"paygrid/psprouter/wire"
)

// units is Stripe's exponent table as far as one account may use it.
type units struct {
	// allowUGX: Stripe lists UGX as a currency without decimals and, elsewhere, as one to be sent times 100. A wrong guess
	// is wrong by a factor of 100, so the account's owner must have checked.
	allowUGX bool
}

// of returns Stripe's unit of c, or why c is off.
func (u units) of(c ledger.Currency) (wire.Unit, string) {
	switch c {
	case "BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF", "XOF", "XPF":
		return wire.Unit{Decimals: 0, Step: 1}, ""
	case "BHD", "JOD", "KWD", "OMR", "TND":
		return wire.Unit{Decimals: 3, Step: 10}, ""
	case "ISK":
		return wire.Unit{Decimals: 2, Step: 100}, ""
	case "UGX":
		if !u.allowUGX {
			return wire.Unit{}, "UGX is off: Stripe documents two units for it; check the account, then set AllowUGX"
		}
		return wire.Unit{Decimals: 2, Step: 100}, ""
	}
	if _, err := ledger.ParseCurrency(string(c)); err != nil {
		return wire.Unit{}, err.Error()
	}
	if c.Exponent() != 2 {
		return wire.Unit{}, fmt.Sprintf("%s is not a currency that Stripe takes", c)
	}
	return wire.Unit{Decimals: 2, Step: 1}, ""
}

// table is the exponent table in the form that amounts cross by.
func (u units) table() wire.Units { return wire.Units{PSP: Name, Of: u.of} }

// toStripe converts ISO minor units to Stripe's; see wire.Units.To.
func (u units) toStripe(m ledger.Money) (int64, error) { return u.table().To(m) }

// fromStripe converts an amount in Stripe's unit to ISO minor units; see wire.Units.From.
func (u units) fromStripe(amount int64, c ledger.Currency) (int64, error) {
	return u.table().From(amount, c)
}
