package psprouter

import (
	"context"
	"time"

	"paygrid/ledger"
)

// The operations of a PSP, by the words that attempts are stored with.
const (
	OpAuthorize = "AUTHORIZE"
	OpCapture   = "CAPTURE"
	OpVoid      = "VOID"
	OpRefund    = "REFUND"
)

// Inquirer is how an adapter can be asked about an attempt that has no answer. It never makes a new charge: it looks up,
// or it sends the byte-identical request again under the same attempt ID, within the PSP's own retention of keys with a
// margin (Stripe 23 h, Adyen 6 days), where that is the PSP's only way.
type Inquirer interface {
	// Inquire asks once. It obeys ctx and never returns an error: what cannot be found out is Unknown.
	Inquire(ctx context.Context, q Inquiry) Finding
	// VisibilityWindow is how long after a call its absence proves nothing.
	VisibilityWindow() time.Duration
}

// Inquiry is an attempt to ask about, with all that its first request was made of.
type Inquiry struct {
	Attempt     string
	Operation   string // OpAuthorize, …
	Refund      string // ref_…, for a refund
	PaymentRef  string // the PSP's reference of the payment; "" if it is not known yet
	AttemptRef  string // the PSP's reference of this very call; "" if it is not known
	Amount      ledger.Money
	Authorized  int64 // minor units authorized in all
	Captured    int64 // minor units captured before this call
	Final       bool  // of a capture: releases what is left
	AutoCapture bool  // of an authorization
	Token       string
	ReturnURL   string
	SentAt      time.Time // when the first request was about to leave
	Now         time.Time
	Recovery    Recovery
}

// Finding is what an inquiry found. Absent says that the PSP answered and has no record of the call: evidence only after
// its visibility window, and twice. With Absent, Outcome is Unknown.
type Finding struct {
	Outcome Outcome
	Absent  bool
}

// AbsentBecause is a Finding of absence; why is for people.
func AbsentBecause(why string) Finding {
	return Finding{Outcome: UnknownBecause(why), Absent: true}
}

// Confirmer is an adapter whose PSP wants to be handed what the buyer brought back from a redirect.
type Confirmer interface {
	Confirm(ctx context.Context, q Inquiry, details map[string]string) Outcome
}
