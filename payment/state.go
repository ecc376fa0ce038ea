package payment

import "paygrid/shard"

// States of a payment. Clients see the *_PENDING ones as PROCESSING.
const (
	AuthPending       shard.Status = "AUTH_PENDING"
	RequiresAction    shard.Status = "REQUIRES_ACTION"
	Authorized        shard.Status = "AUTHORIZED"
	Declined          shard.Status = "DECLINED"
	Failed            shard.Status = "FAILED"
	Expired           shard.Status = "EXPIRED"
	CapturePending    shard.Status = "CAPTURE_PENDING"
	Captured          shard.Status = "CAPTURED"
	PartiallyCaptured shard.Status = "PARTIALLY_CAPTURED"
	VoidPending       shard.Status = "VOID_PENDING"
	Voided            shard.Status = "VOIDED"
	CaptureFailed     shard.Status = "CAPTURE_FAILED" // the PSP took back its only capture
)

// States of an attempt and of a refund. An attempt that nobody has an answer for is Pending, however old.
const (
	Pending   shard.Status = "PENDING"
	Succeeded shard.Status = "SUCCEEDED"
	FailedEnd shard.Status = "FAILED"
	NotSent   shard.Status = "NOT_SENT" // attempts only: provably nothing happened at the PSP
)

// Kinds of attempts.
const (
	AttemptAuthorize = "AUTHORIZE"
	AttemptCapture   = "CAPTURE"
	AttemptVoid      = "VOID"
	AttemptRefund    = "REFUND"
)

// Trigger is what can happen to a payment, whoever tells us: the PSP's answer, its webhook, a look-up, a settlement file
// or a person.
type Trigger string

// The triggers.
const (
	OnAuthorized     Trigger = "authorized"
	OnCharged        Trigger = "charged" // authorized and captured in one
	OnDeclined       Trigger = "declined"
	OnNotSent        Trigger = "not sent"
	OnActionRequired Trigger = "action required"
	OnExpired        Trigger = "expired"
	OnNoted          Trigger = "noted"    // an answer that settles nothing: unknown, or accepted for later
	OnRerouted       Trigger = "rerouted" // provably not sent, and on its way to another PSP

	OnCaptureAsked        Trigger = "capture asked"
	OnCaptured            Trigger = "captured"              // nothing is left of the authorization
	OnPartCaptured        Trigger = "part captured"         // something is left, or was released
	OnCaptureRefused      Trigger = "capture refused"       // nothing was captured before
	OnLaterCaptureRefused Trigger = "later capture refused" // a part was captured before

	OnVoidAsked   Trigger = "void asked"
	OnVoided      Trigger = "voided"
	OnVoidRefused Trigger = "void refused"

	OnRefundAsked   Trigger = "refund asked"
	OnRefunded      Trigger = "refunded"
	OnRefundRefused Trigger = "refund refused"
	OnRefundNoted   Trigger = "refund noted"

	OnRefundReturned  Trigger = "refund returned"  // the bank sent a refund back
	OnCaptureReturned Trigger = "capture returned" // the PSP took its only capture back
	OnPartReturned    Trigger = "part returned"    // … one of several

	// A success that arrives for what was closed. It changes no state: what the PSP holds is given back.
	OnLateAuthorized Trigger = "late authorized"
	OnLateCharged    Trigger = "late charged"
	OnLateVoided     Trigger = "late voided"
	OnLateRefunded   Trigger = "late refunded"
	OnLateNoted      Trigger = "late noted"
	OnLateRefused    Trigger = "late refused" // it could not be given back: people must

	OnLateClosed         Trigger = "late closed"          // taken back before its success was told
	OnLateChargeReturned Trigger = "late charge returned" // the PSP took back what came late
	OnLateRefundReturned Trigger = "late refund returned" // … or what gave it back

	OnEntryReversed Trigger = "entry reversed"
)

// Types of events.
const (
	EventProcessing        = "payment.processing"
	EventAuthorized        = "payment.authorized"
	EventRequiresAction    = "payment.requires_action"
	EventDeclined          = "payment.declined"
	EventFailed            = "payment.failed"
	EventCapturePending    = "payment.capture_pending"
	EventCaptured          = "payment.captured"
	EventPartiallyCaptured = "payment.partially_captured"
	EventCaptureRefused    = "payment.capture_refused"
	EventVoidPending       = "payment.void_pending"
	EventVoided            = "payment.voided"
	EventVoidRefused       = "payment.void_refused"
	EventExpired           = "payment.expired"
	EventRestExpired       = "payment.rest_expired"
	EventRefundPending     = "refund.pending"
	EventRefundSucceeded   = "refund.succeeded"
	EventRefundFailed      = "refund.failed"
	EventRefundReturned    = "refund.returned"
	EventCaptureReturned   = "payment.capture_failed"
	EventLateSuccess       = "payment.late_success"
	EventLatePending       = "payment.late_return_pending"
	EventLateReturned      = "payment.late_returned"
	EventLateRefused       = "payment.late_return_refused"
	EventLateClosed        = "payment.late_closed"
	EventEntryReversed     = "ledger.entry_reversed"
)
