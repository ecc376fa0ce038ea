package psprouter

import (
	"context"

	"paygrid/ledger"
)

// PSP is one payment service provider's wire format. An adapter keeps no state, makes exactly one logical call per
// method (no retries of its own), obeys ctx, and never returns an error: what went wrong is part of the Outcome, and
// what it does not positively recognise is Unknown. One conformance suite runs against every adapter.
type PSP interface {
	// Name is the stable name in accounts, rows and metrics: "stripe".
	Name() string
	// Supports tells before anything is written whether amount can cross to this PSP exactly; it returns an
	// *AmountError if the conversion would have to round or the currency is off.
	Supports(amount ledger.Money) error
	// SeveralCaptures tells whether the account keeps the rest of a partial capture open.
	SeveralCaptures() bool

	Authorize(ctx context.Context, r AuthorizeRequest) Outcome
	Capture(ctx context.Context, r CaptureRequest) Outcome
	Void(ctx context.Context, r VoidRequest) Outcome
	Refund(ctx context.Context, r RefundRequest) Outcome

	Inquirer
	WebhookReader
}

// Recovery is what a PSP carries in its metadata so that a payment can be written anew should a shard lose its last
// seconds. An adapter cuts it over several fields within the PSP's limits.
type Recovery struct {
	Payment string         // pay_…
	Client  string         // client ID
	Key     string         // the client's idempotency key
	Order   string         // the client's order ID
	Splits  []ledger.Split // who gets what
}

// AuthorizeRequest asks to reserve Amount on a card, and to take it at once with AutoCapture.
type AuthorizeRequest struct {
	Attempt     string // attempt ID: idempotency key and our reference at the PSP
	Amount      ledger.Money
	Token       string // the PSP's own token of the card
	AutoCapture bool
	ReturnURL   string // where the buyer returns after 3-D Secure; may be ""
	Recovery    Recovery
}

// CaptureRequest asks to take Amount of an authorization.
type CaptureRequest struct {
	Attempt    string
	PaymentRef string       // the PSP's reference of the payment
	Amount     ledger.Money // of this capture
	Authorized int64        // minor units authorized in all
	Captured   int64        // minor units captured before this call
	Final      bool         // release what this capture leaves
	Recovery   Recovery
}

// VoidRequest asks to release an authorization of which nothing was captured.
type VoidRequest struct {
	Attempt    string
	PaymentRef string
	Amount     ledger.Money // as authorized; only to check the answer against
	Recovery   Recovery
}

// RefundRequest asks to give Amount back.
type RefundRequest struct {
	Attempt    string
	Refund     string // ref_…
	PaymentRef string
	Amount     ledger.Money
	Recovery   Recovery
}

// AmountError is returned by Supports when an amount cannot cross to a PSP exactly.
type AmountError struct {
	PSP    string
	Amount ledger.Money
	Why    string // for the caller, e.g. "KWD amounts must be a multiple of 10"
}

func (e *AmountError) Error() string {
	return "amount not supported by " + e.PSP + ": " + e.Why
}
