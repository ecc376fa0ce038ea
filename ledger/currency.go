package ledger

import "fmt"

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
