package payment

import "paygrid/ledger"

// CaptureMode says when the money is taken.
type CaptureMode string

// Manual reserves and waits for a capture; Automatic takes the money with the authorization.
const (
	Manual    CaptureMode = "manual"
	Automatic CaptureMode = "automatic"
)

// Method is what the buyer pays with: one token per PSP, and what may be shown of the card. It never holds a card number.
type Method struct {
	Tokens  map[string]string `json:"tokens"`            // PSP name -> its token
	Brand   string            `json:"brand,omitempty"`   // "visa"
	Last4   string            `json:"last4,omitempty"`   // four digits
	Expiry  string            `json:"expiry,omitempty"`  // "2028-09"
	Country string            `json:"country,omitempty"` // of the card, ISO 3166-1 alpha-2
}

// AuthorizeCommand starts a payment. The router fills it from a well-formed request; Authorize checks the rules.
type AuthorizeCommand struct {
	Client      string // who asks, from the API key
	Key         string // idempotency key
	OrderID     string
	CustomerID  string
	Amount      ledger.Money
	Method      Method
	CaptureMode CaptureMode
	Splits      []ledger.Split
	ReturnURL   string
}

// CaptureCommand takes Amount of an authorization, or all that is left if Amount is nil.
type CaptureCommand struct {
	Client, Key, PaymentID string
	Amount                 *ledger.Money
}

// VoidCommand releases an authorization.
type VoidCommand struct {
	Client, Key, PaymentID string
}

// RefundCommand gives Amount back, or all that is left if Amount is nil.
type RefundCommand struct {
	Client, Key, PaymentID string
	Amount                 *ledger.Money
}

// ConfirmCommand asks what became of a redirect (3-D Secure) once the buyer is back. Details are what the buyer brought,
// for PSPs that want it.
type ConfirmCommand struct {
	Client, PaymentID string
	Details           map[string]string
}
