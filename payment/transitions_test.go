package payment

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"paygrid/ledger"
	"paygrid/shard"
)

var allStates = []shard.Status{AuthPending, RequiresAction, Authorized, Declined, Failed, Expired, CapturePending, Captured,
	PartiallyCaptured, VoidPending, Voided}

var allTriggers = []Trigger{OnAuthorized, OnCharged, OnDeclined, OnNotSent, OnActionRequired, OnExpired, OnNoted, OnCaptureAsked, OnCaptured,
	OnPartCaptured, OnCaptureRefused, OnLaterCaptureRefused, OnVoidAsked, OnVoided, OnVoidRefused, OnRefundAsked, OnRefunded, OnRefundRefused,
	OnRefundNoted, OnEntryReversed}

// Every state with every trigger: a row of the table, once, or a typed refusal that names both.
func TestNextOverAllStatesAndTriggers(t *testing.T) {
	found := 0
	for _, from := range allStates {
		for _, on := range allTriggers {
			rows := slices.DeleteFunc(Transitions(), func(r Transition) bool { return r.From != from || r.On != on })
			got, err := Next(from, on)
			var refused *TransitionError
			switch {
			case len(rows) > 1:
				t.Errorf("%s × %q is in the table %d times", from, on, len(rows))
			case len(rows) == 1:
				found++
				if err != nil || got != rows[0] {
					t.Errorf("%s × %q: %v, %v", from, on, got, err)
				}
			case !errors.As(err, &refused) || refused.From != from || refused.On != on || got != (Transition{}):
				t.Errorf("%s × %q: %v, %v, want a *TransitionError", from, on, got, err)
			}
		}
	}
	if found != len(transitions) {
		t.Errorf("the walk met %d of %d rows: a state or trigger is missing from it", found, len(transitions))
	}
}

func TestEveryStateIsReachedAndStored(t *testing.T) {
	reached := map[shard.Status]bool{AuthPending: true}
	for range allStates {
		for _, r := range transitions {
			reached[r.To] = reached[r.To] || reached[r.From]
		}
	}
	schema, err := os.ReadFile("../schema/migrations/00002_payments.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range allStates {
		if !reached[state] {
			t.Errorf("nothing leads to %s", state)
		}
		if !strings.Contains(string(schema), "'"+string(state)+"'") {
			t.Errorf("the table's CHECK does not know %s", state)
		}
	}
}

func TestEndsHaveNoWayOut(t *testing.T) {
	for _, r := range transitions {
		switch r.From {
		case Declined, Failed, Expired, Voided:
			t.Errorf("%s is an end, and %q leads out of it", r.From, r.On)
		}
	}
}

// A pending state can hear every definite answer, and an indefinite one keeps it where it is.
func TestPendingHasAWayOut(t *testing.T) {
	for state, triggers := range map[shard.Status][]Trigger{
		AuthPending:    {OnAuthorized, OnCharged, OnDeclined, OnActionRequired, OnNotSent},
		RequiresAction: {OnAuthorized, OnCharged, OnDeclined, OnNotSent},
		CapturePending: {OnCaptured, OnPartCaptured, OnCaptureRefused, OnLaterCaptureRefused},
		VoidPending:    {OnVoided, OnVoidRefused},
	} {
		for _, on := range triggers {
			if r, err := Next(state, on); err != nil || r.To == state {
				t.Errorf("%s × %q: %v, %v, want a way out", state, on, r, err)
			}
		}
		if r, err := Next(state, OnNoted); state != RequiresAction && (err != nil || r.To != state) {
			t.Errorf("%s × %q: %v, %v, want to stay", state, OnNoted, r, err)
		}
	}
}

// What a trigger posts and tells does not depend on where it finds the payment.
func TestPostingsAndEventsFitTheirTriggers(t *testing.T) {
	posts := map[Trigger]ledger.EntryKind{OnCharged: ledger.EntryCapture, OnCaptured: ledger.EntryCapture, OnPartCaptured: ledger.EntryCapture,
		OnRefunded: ledger.EntryRefund, OnEntryReversed: ledger.EntryReversal}
	emits := map[Trigger]string{OnAuthorized: EventAuthorized, OnCharged: EventCaptured, OnDeclined: EventDeclined, OnNotSent: EventFailed,
		OnActionRequired: EventRequiresAction, OnExpired: EventExpired, OnCaptureAsked: EventCapturePending, OnCaptured: EventCaptured,
		OnPartCaptured: EventPartiallyCaptured, OnCaptureRefused: EventCaptureRefused, OnLaterCaptureRefused: EventCaptureRefused,
		OnVoidAsked: EventVoidPending, OnVoided: EventVoided, OnVoidRefused: EventVoidRefused, OnRefundAsked: EventRefundPending,
		OnRefundNoted: EventRefundPending, OnRefunded: EventRefundSucceeded, OnRefundRefused: EventRefundFailed, OnEntryReversed: EventEntryReversed}
	noted := map[shard.Status]string{AuthPending: EventProcessing, CapturePending: EventCapturePending, VoidPending: EventVoidPending}
	for _, r := range transitions {
		want := emits[r.On]
		if r.On == OnNoted {
			want = noted[r.From]
		}
		if r.Posts != posts[r.On] || r.Emits != want || r.Emits == "" {
			t.Errorf("%s × %q posts %q and emits %q, want %q and %q", r.From, r.On, r.Posts, r.Emits, posts[r.On], want)
		}
	}
}

// docs/states.md is made of the table.
func TestStatesPage(t *testing.T) { compareFile(t, "../docs/states.md", statesPage()) }

func statesPage() string {
	var b strings.Builder
	b.WriteString("# States of a payment\n\nGenerated from the transition table in `payment/transitions.go` by `go generate ./payment`. Do not edit.\n\n")
	b.WriteString("Triggers that keep a state (an answer that settles nothing, refunds, reversals) are in the table below and not in the diagram.\n\n")
	b.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> AUTH_PENDING\n")
	for _, r := range transitions {
		if r.From != r.To {
			fmt.Fprintf(&b, "    %s --> %s: %s\n", r.From, r.To, r.On)
		}
	}
	for _, state := range allStates {
		if !slices.ContainsFunc(transitions, func(r Transition) bool { return r.From == state }) {
			fmt.Fprintf(&b, "    %s --> [*]\n", state)
		}
	}
	b.WriteString("```\n\n| from | on | to | posts | emits |\n|---|---|---|---|---|\n")
	for _, r := range transitions {
		posts := string(r.Posts)
		if posts == "" {
			posts = "–"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | `%s` |\n", r.From, r.On, r.To, posts, r.Emits)
	}
	return b.String()
}
