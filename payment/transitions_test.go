package payment

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"paygrid/ledger"
	"paygrid/shard"
)

// allTriggers reads the triggers out of the source, so that none is forgotten here.
func allTriggers(t *testing.T) []Trigger {
	t.Helper()
	source, err := os.ReadFile("state.go")
	if err != nil {
		t.Fatal(err)
	}
	var out []Trigger
	for _, m := range regexp.MustCompile(`(?m)^\tOn\w+\s+Trigger = "([^"]+)"`).FindAllSubmatch(source, -1) {
		out = append(out, Trigger(m[1]))
	}
	if len(out) < 20 {
		t.Fatalf("only %d triggers were found: the search is broken", len(out))
	}
	return out
}

// Every state with every trigger: a row of the table, once, or a typed refusal that names both.
func TestNextOverAllStatesAndTriggers(t *testing.T) {
	found := 0
	for _, from := range states {
		for _, on := range allTriggers(t) {
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
	if rows := len(Transitions()); found != rows {
		t.Errorf("the walk met %d of %d rows: a state or trigger is missing from it, or is in the table only", found, rows)
	}
}

func TestEveryStateIsReachedAndStored(t *testing.T) {
	reached := map[shard.Status]bool{AuthPending: true}
	for range states {
		for _, r := range Transitions() {
			reached[r.To] = reached[r.To] || reached[r.From]
		}
	}
	schema, err := os.ReadFile("../schema/migrations/00002_payments.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range states {
		if !reached[state] {
			t.Errorf("nothing leads to %s", state)
		}
		if !strings.Contains(string(schema), "'"+string(state)+"'") {
			t.Errorf("the table's CHECK does not know %s", state)
		}
	}
}

func TestEndsHaveNoWayOut(t *testing.T) {
	for _, r := range Transitions() {
		switch r.From {
		case Declined, Failed, Expired, Voided, CaptureFailed:
			if r.To != r.From {
				t.Errorf("%s is an end, and %q leads out of it", r.From, r.On)
			}
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

// What a trigger posts and tells does not depend on where it finds the payment. What only a late answer triggers is held
// elsewhere.
func TestPostingsAndEventsFitTheirTriggers(t *testing.T) {
	posts := map[Trigger]ledger.EntryKind{OnCharged: ledger.EntryCapture, OnCaptured: ledger.EntryCapture, OnPartCaptured: ledger.EntryCapture,
		OnRefunded: ledger.EntryRefund, OnEntryReversed: ledger.EntryReversal}
	emits := map[Trigger]string{OnAuthorized: EventAuthorized, OnCharged: EventCaptured, OnDeclined: EventDeclined, OnNotSent: EventFailed, OnRerouted: EventProcessing,
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
		if r.On == OnExpired && r.From == PartiallyCaptured {
			want = EventRestExpired
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
	b.WriteString("# States of a payment\n\nGenerated from the transition table of `payment` by `go generate ./payment`. Do not edit.\n\n")
	b.WriteString("Triggers that keep a state (an answer that settles nothing, refunds, reversals, late news) are in the table and not in the diagram.\n\n")
	b.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> AUTH_PENDING\n")
	for _, r := range Transitions() {
		if r.From != r.To {
			fmt.Fprintf(&b, "    %s --> %s: %s\n", r.From, r.To, r.On)
		}
	}
	for _, state := range states {
		if !slices.ContainsFunc(Transitions(), func(r Transition) bool { return r.From == state && r.To != state }) {
			fmt.Fprintf(&b, "    %s --> [*]\n", state)
		}
	}
	b.WriteString("```\n\n| from | on | to | posts | emits |\n|---|---|---|---|---|\n")
	everywhere := keptBy()
	for _, r := range Transitions() {
		from, to := string(r.From), string(r.To)
		if everywhere[r.On] == len(states) {
			from, to = "any", "the same"
			everywhere[r.On] = -1 // one row says it
		} else if everywhere[r.On] < 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | `%s` |\n", from, r.On, to, cmp.Or(string(r.Posts), "–"), r.Emits)
	}
	return b.String()
}

// keptBy counts the states that each trigger keeps.
func keptBy() map[Trigger]int {
	kept := map[Trigger]int{}
	for _, r := range Transitions() {
		if r.From == r.To {
			kept[r.On]++
		}
	}
	return kept
}
