package adyen

import (
	"fmt"

	"paygrid/ledger"
	"paygrid/psprouter/wire"
)

// unitOf returns Adyen's unit of c, or why c is off. The list is Adyen's table where it differs from two decimals; against
// ISO 4217 it differs for CLP and ISK (two instead of none) and for CVE and IDR (none instead of two).
func unitOf(c ledger.Currency) (wire.Unit, string) {
	switch c {
	case "CVE", "DJF", "GNF", "IDR", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF", "XPF":
		return wire.Unit{Decimals: 0, Step: 1}, ""
	case "BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND":
		return wire.Unit{Decimals: 3, Step: 1}, ""
	case "CLP", "ISK":
		return wire.Unit{Decimals: 2, Step: 1}, ""
	}
	if _, err := ledger.ParseCurrency(string(c)); err != nil {
		return wire.Unit{}, err.Error()
	}
	if c.Exponent() != 2 {
		return wire.Unit{}, fmt.Sprintf("%s is not a currency that Adyen takes", c)
	}
	return wire.Unit{Decimals: 2, Step: 1}, ""
}
