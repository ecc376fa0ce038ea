package payment

import (
	"fmt"
	"time"
)

// Code is a stable, documented name of a refusal. The router maps each to one HTTP status; a code never changes its
// meaning.
type Code string

// The refusals of a command. Each says when it is returned.
const (
	// CodeKeyReused: the idempotency key was used before with another meaning.
	CodeKeyReused Code = "IDEMPOTENCY_KEY_REUSED"
	// CodeNotFound: no such payment, or it belongs to another client.
	CodeNotFound Code = "PAYMENT_NOT_FOUND"
	// CodeInvalid: a field is well-formed but breaks a rule (zero, negative, empty, too long, duplicate).
	CodeInvalid Code = "INVALID_FIELD"
	// CodeAmountTooLarge: an amount, a split or a sum is above the limit.
	CodeAmountTooLarge Code = "AMOUNT_TOO_LARGE"
	// CodeSplitsMismatch: the splits do not add up to the amount.
	CodeSplitsMismatch Code = "SPLITS_MISMATCH"
	// CodeDuplicateSeller: the same seller twice in one payment's splits.
	CodeDuplicateSeller Code = "DUPLICATE_SELLER"
	// CodeCurrencyUnknown: not an upper-case ISO 4217 code that we keep books in.
	CodeCurrencyUnknown Code = "CURRENCY_UNKNOWN"
	// CodeCurrencyMismatch: the amount's currency is not the payment's.
	CodeCurrencyMismatch Code = "CURRENCY_MISMATCH"
	// CodeAmountNotSupported: no PSP of this payment can take the amount exactly.
	CodeAmountNotSupported Code = "AMOUNT_NOT_SUPPORTED_BY_PSP"
	// CodeNoPSP: the payment method has no token for any PSP of ours.
	CodeNoPSP Code = "NO_PSP_FOR_PAYMENT_METHOD"
	// CodeCaptureExceeds: more than is left of the authorization.
	CodeCaptureExceeds Code = "CAPTURE_EXCEEDS_AUTHORIZED"
	// CodeRefundExceeds: more than was captured and not refunded (pending refunds count).
	CodeRefundExceeds Code = "REFUND_EXCEEDS_CAPTURED"
	// CodeCaptureInDoubt: another capture of this payment has no known outcome yet.
	CodeCaptureInDoubt Code = "CAPTURE_IN_DOUBT"
	// CodeVoidInDoubt: a void of this payment has no known outcome yet.
	CodeVoidInDoubt Code = "VOID_IN_DOUBT"
	// CodeExpired: the authorization has run out.
	CodeExpired Code = "AUTHORIZATION_EXPIRED"
	// CodeWrongState: the payment's state does not allow the command.
	CodeWrongState Code = "WRONG_STATE"
	// CodeAlreadyReversed: the entry has a reversal; Reference names it.
	CodeAlreadyReversed Code = "ALREADY_REVERSED"
	// CodeBusy: too many writers raced for this payment; nothing was done.
	CodeBusy Code = "PAYMENT_BUSY"
	// CodeUnavailable: the payment's shard cannot be reached, and nothing was charged; or it gave no answer, and the detail says
	// that what was asked may still be carried out.
	CodeUnavailable Code = "SHARD_UNAVAILABLE"
	// CodeOverloaded: the payment's shard is under stress, and more urgent commands come first; nothing was done.
	CodeOverloaded Code = "SHARD_OVERLOADED"
	// CodePSPUnavailable: no PSP that could take the call can be asked now (breakers, rate limits, drained by an operator);
	// none was asked.
	CodePSPUnavailable Code = "PSP_UNAVAILABLE"
)

// Error is a refused command. Nothing was written and no PSP was called, unless the detail of a CodeUnavailable says that this is not known.
type Error struct {
	Code      Code
	Field     string        // JSON pointer of the member at fault, "" if none
	Detail    string        // what is wrong
	Remedy    string        // what the caller can do
	Reference string        // the object that stands in the way, if one does
	Remaining *int64        // minor units still possible, where that helps
	RetryIn   time.Duration // when another try makes sense; 0 = not by waiting
	Err       error         // the cause, for logs only
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Detail, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Detail)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// PanicError is a fault of ours in the middle of something that runs beside its caller: a panic, which is logged with its stack.
// How far it came is not known: what it had begun stays pending and is asked about.
type PanicError struct{ Value any }

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
