package ledger

// Currency is an upper-case ISO 4217 code. Get one from ParseCurrency.
type Currency string

// Money is an amount of one currency in minor units (cents), by the currency's ISO 4217 exponent.
type Money struct {
	Minor    int64    `json:"minor"`
	Currency Currency `json:"currency"`
}
