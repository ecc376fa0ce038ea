package payment

import (
	"encoding/json"
	"time"

	"paygrid/ledger"
	"paygrid/shard"
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

// shownStatus is a payment's state as its client sees it: what waits for the PSP is PROCESSING, and a payment of which
// everything was given back and nothing more can be captured is REFUNDED.
func shownStatus(p shard.Payment) string {
	switch {
	case p.Status == AuthPending, p.Status == CapturePending, p.Status == VoidPending:
		return "PROCESSING"
	case p.Captured > 0 && p.Refunded == p.Captured && capturable(p) == 0:
		return "REFUNDED"
	}
	return string(p.Status)
}

// capturable is what another capture may take: the rest of an authorization that is open.
func capturable(p shard.Payment) int64 {
	if p.Status != Authorized && p.Status != PartiallyCaptured {
		return 0
	}
	return p.Authorized - p.Captured - p.Released
}

// refundable is what another refund may give back; pending refunds count as given.
func refundable(p shard.Payment) int64 { return p.Captured - p.Refunded - p.Refunding }

// viewOf shows a payment.
func viewOf(p shard.Payment) View {
	v := View{ID: p.ID, OrderID: p.OrderID, CustomerID: p.CustomerID, Status: shownStatus(p),
		Amount: ledger.Money{Minor: p.Authorized, Currency: p.Currency}, CaptureMode: CaptureMode(p.CaptureMode),
		Capturable: capturable(p), Captured: p.Captured, Refunding: p.Refunding, Refunded: p.Refunded, Refundable: refundable(p),
		PSP: p.PSP, Card: cardOf(p), Splits: p.Splits, CreatedAt: p.CreatedAt.UTC(),
		UpdatedAt: p.UpdatedAt.UTC()}
	if p.Status == RequiresAction {
		v.RedirectURL = p.RedirectURL
	}
	switch p.Status {
	case Declined:
		v.DeclineCode, v.FailureCause = p.FailureCode, p.Failure
	case Failed:
		v.FailureCode, v.FailureCause = p.FailureCode, p.Failure
	case Authorized, RequiresAction, PartiallyCaptured:
		if !p.ExpiresAt.IsZero() {
			at := p.ExpiresAt.UTC()
			v.ExpiresAt = &at
		}
	}
	return v
}

func cardOf(p shard.Payment) *CardView {
	var m Method
	if err := json.Unmarshal(p.Method, &m); err != nil {
		return nil // written by us and checked by verify; a card that cannot be shown is no reason to hide a payment
	}
	if m.Brand == "" && m.Last4 == "" && m.Expiry == "" && m.Country == "" {
		return nil
	}
	return &CardView{Brand: m.Brand, Last4: m.Last4, Expiry: m.Expiry, Country: m.Country}
}

// refundViewOf shows a refund of p.
func refundViewOf(r shard.Refund, p shard.Payment) RefundView {
	v := RefundView{ID: r.ID, PaymentID: p.ID, Status: string(r.Status), Amount: ledger.Money{Minor: r.Amount, Currency: p.Currency},
		Refundable: refundable(p), FailureCode: r.Code, FailureCause: r.Detail, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC()}
	if r.Status == Pending {
		v.Status, v.FailureCode, v.FailureCause = "PROCESSING", "", ""
	}
	return v
}

func entryViewOf(e shard.PostedEntry) EntryView {
	v := EntryView{ID: e.ID, Kind: string(e.Kind), Reverses: e.Reverses, CreatedAt: e.CreatedAt.UTC()}
	for _, line := range e.Lines() {
		v.Lines = append(v.Lines, LineView{Account: string(line.Account), Side: string(line.Side), Minor: line.Minor,
			Currency: line.Currency})
	}
	return v
}
