package payment

import (
	"time"

	"paygrid/ledger"
)

// View is a payment as its client sees it. Its JSON is the API's resource; amounts are minor units of Amount.Currency.
type View struct {
	ID           string         `json:"id"`
	OrderID      string         `json:"orderId"`
	CustomerID   string         `json:"customerId,omitempty"`
	Status       string         `json:"status"` // AUTHORIZED, …; *_PENDING shows as PROCESSING
	Amount       ledger.Money   `json:"amount"`
	CaptureMode  CaptureMode    `json:"captureMode"`
	Capturable   int64          `json:"capturable"`
	Captured     int64          `json:"captured"`
	Refunding    int64          `json:"refunding"`
	Refunded     int64          `json:"refunded"`
	Refundable   int64          `json:"refundable"`
	PSP          string         `json:"psp"`
	Card         *CardView      `json:"card,omitempty"`
	Splits       []ledger.Split `json:"splits"`
	DeclineCode  string         `json:"declineCode,omitempty"`
	RedirectURL  string         `json:"redirectUrl,omitempty"`
	ExpiresAt    *time.Time     `json:"expiresAt,omitempty"` // when an authorization runs out
	CreatedAt    time.Time      `json:"createdAt"`
	UpdatedAt    time.Time      `json:"updatedAt"`
	CaptureID    string         `json:"captureId,omitempty"`    // in the answer to a capture
	VoidID       string         `json:"voidId,omitempty"`       // in the answer to a void
	FailureCode  string         `json:"failureCode,omitempty"`  // why the PSP refused
	FailureCause string         `json:"failureCause,omitempty"` // the same for people
}

// CardView is what may be shown of a card.
type CardView struct {
	Brand   string `json:"brand,omitempty"`
	Last4   string `json:"last4,omitempty"`
	Expiry  string `json:"expiry,omitempty"`
	Country string `json:"country,omitempty"`
}

// RefundView is a refund as its client sees it.
type RefundView struct {
	ID           string       `json:"id"`
	PaymentID    string       `json:"paymentId"`
	Status       string       `json:"status"` // PROCESSING, SUCCEEDED, FAILED
	Amount       ledger.Money `json:"amount"`
	Refundable   int64        `json:"refundable"` // of the payment, after this refund
	FailureCode  string       `json:"failureCode,omitempty"`
	FailureCause string       `json:"failureCause,omitempty"`
	CreatedAt    time.Time    `json:"createdAt"`
	UpdatedAt    time.Time    `json:"updatedAt"`
}

// LedgerView is what a payment posted: its entries in order, each with its lines.
type LedgerView struct {
	PaymentID string      `json:"paymentId"`
	Entries   []EntryView `json:"entries"`
}

// EntryView is one journal entry; its lines sum to zero.
type EntryView struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind"`
	Reverses  string     `json:"reverses,omitempty"`
	CreatedAt time.Time  `json:"createdAt"`
	Lines     []LineView `json:"lines"`
}

// LineView is one line: what account moved, which way, by how much.
type LineView struct {
	Account  string          `json:"account"`
	Side     string          `json:"side"` // debit or credit
	Minor    int64           `json:"minor"`
	Currency ledger.Currency `json:"currency"`
}
