package payment

import (
	"fmt"
	"slices"

	"paygrid/ledger"
	"paygrid/shard"
)

// Transition is one row of the table: what a trigger makes of a state, which entry it posts and which event it emits.
type Transition struct {
	From  shard.Status
	On    Trigger
	To    shard.Status
	Posts ledger.EntryKind // "" = nothing
	Emits string
}

//go:generate go test -run ^TestStatesPage$ -count=1 . -update

// transitions is the whole life of a payment. What is not here does not happen: every writer goes through Next, and the
// database's compare-and-set holds the state that it started from.
var transitions = []Transition{
	{AuthPending, OnNoted, AuthPending, "", EventProcessing},
	{AuthPending, OnAuthorized, Authorized, "", EventAuthorized},
	{AuthPending, OnCharged, Captured, ledger.EntryCapture, EventCaptured},
	{AuthPending, OnActionRequired, RequiresAction, "", EventRequiresAction},
	{AuthPending, OnDeclined, Declined, "", EventDeclined},
	{AuthPending, OnNotSent, Failed, "", EventFailed},
	{AuthPending, OnRerouted, AuthPending, "", EventProcessing},

	{RequiresAction, OnAuthorized, Authorized, "", EventAuthorized},
	{RequiresAction, OnCharged, Captured, ledger.EntryCapture, EventCaptured},
	{RequiresAction, OnDeclined, Declined, "", EventDeclined},
	{RequiresAction, OnNotSent, Failed, "", EventFailed},
	{RequiresAction, OnExpired, Expired, "", EventExpired},

	{Authorized, OnCaptureAsked, CapturePending, "", EventCapturePending},
	{Authorized, OnCaptured, Captured, ledger.EntryCapture, EventCaptured},
	{Authorized, OnPartCaptured, PartiallyCaptured, ledger.EntryCapture, EventPartiallyCaptured},
	{Authorized, OnVoidAsked, VoidPending, "", EventVoidPending},
	{Authorized, OnVoided, Voided, "", EventVoided},
	{Authorized, OnExpired, Expired, "", EventExpired},

	{CapturePending, OnNoted, CapturePending, "", EventCapturePending},
	{CapturePending, OnCaptured, Captured, ledger.EntryCapture, EventCaptured},
	{CapturePending, OnPartCaptured, PartiallyCaptured, ledger.EntryCapture, EventPartiallyCaptured},
	{CapturePending, OnCaptureRefused, Authorized, "", EventCaptureRefused},
	{CapturePending, OnLaterCaptureRefused, PartiallyCaptured, "", EventCaptureRefused},
	{PartiallyCaptured, OnCaptureAsked, CapturePending, "", EventCapturePending},
	{PartiallyCaptured, OnExpired, PartiallyCaptured, "", EventRestExpired},
	{PartiallyCaptured, OnCaptured, Captured, ledger.EntryCapture, EventCaptured},
	{PartiallyCaptured, OnPartCaptured, PartiallyCaptured, ledger.EntryCapture, EventPartiallyCaptured},

	{VoidPending, OnNoted, VoidPending, "", EventVoidPending},
	{VoidPending, OnVoided, Voided, "", EventVoided},
	{VoidPending, OnVoidRefused, Authorized, "", EventVoidRefused},

	{Captured, OnRefundAsked, Captured, "", EventRefundPending},
	{Captured, OnRefundNoted, Captured, "", EventRefundPending},
	{Captured, OnRefunded, Captured, ledger.EntryRefund, EventRefundSucceeded},
	{Captured, OnRefundRefused, Captured, "", EventRefundFailed},
	{Captured, OnEntryReversed, Captured, ledger.EntryReversal, EventEntryReversed},

	{PartiallyCaptured, OnRefundAsked, PartiallyCaptured, "", EventRefundPending},
	{PartiallyCaptured, OnRefundNoted, PartiallyCaptured, "", EventRefundPending},
	{PartiallyCaptured, OnRefunded, PartiallyCaptured, ledger.EntryRefund, EventRefundSucceeded},
	{PartiallyCaptured, OnRefundRefused, PartiallyCaptured, "", EventRefundFailed},
	{PartiallyCaptured, OnEntryReversed, PartiallyCaptured, ledger.EntryReversal, EventEntryReversed},

	// A later capture can be under way while an earlier one is refunded.
	{CapturePending, OnRefundAsked, CapturePending, "", EventRefundPending},
	{CapturePending, OnRefundNoted, CapturePending, "", EventRefundPending},
	{CapturePending, OnRefunded, CapturePending, ledger.EntryRefund, EventRefundSucceeded},
	{CapturePending, OnRefundRefused, CapturePending, "", EventRefundFailed},
	{CapturePending, OnEntryReversed, CapturePending, ledger.EntryReversal, EventEntryReversed},
}

// Transitions returns the table, for the diagram and the tests.
func Transitions() []Transition { return slices.Clone(table) }

// table is all rows, made once.
var table = slices.Concat(transitions, lateTransitions())

// Next returns what on makes of from, or a *TransitionError.
func Next(from shard.Status, on Trigger) (Transition, error) {
	for _, t := range table {
		if t.From == from && t.On == on {
			return t, nil
		}
	}
	return Transition{}, &TransitionError{From: from, On: on}
}

// TransitionError is a trigger that a state does not know. Nothing changes.
type TransitionError struct {
	From shard.Status
	On   Trigger
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("a payment that is %s does not know %q", e.From, e.On)
}
