package payment

import (
	"encoding/json"
	"strings"
	"testing"

	"paygrid/psprouter"
	"paygrid/shard"
)

// viewedStates are those that a command can lead to.
var viewedStates = []shard.Status{AuthPending, RequiresAction, Authorized, Declined, Failed, Expired, CapturePending, Captured,
	PartiallyCaptured, VoidPending, Voided}

// The JSON that clients see, for each state and for refunds: a change of this file is a change of the API.
func TestViewJSON(t *testing.T) {
	var out strings.Builder
	for _, state := range viewedStates {
		b := in(t, state)
		out.WriteString("## " + string(state) + "\n" + indented(t, viewOf(b.Payment)) + "\n")
	}
	b := in(t, Captured)
	for n, o := range []psprouter.Outcome{psprouter.AcceptedAs("re_1"), psprouter.ApprovedAs("re_1"), psprouter.DeclinedWith("card_expired", "The card has expired.")} {
		b.mustSettle(t, done(t)(b.refund(t, eur(1000))), o)
		out.WriteString("## refund " + o.Class().String() + "\n" + indented(t, refundViewOf(b.Refunds[n], b.Payment)) + "\n")
	}
	out.WriteString("## entry\n" + indented(t, entryViewOf(shard.PostedEntry{Entry: b.entries[0], CreatedAt: noon})) + "\n")
	golden(t, "views.txt", numbered(out.String()))
}

func indented(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestShownStatus(t *testing.T) {
	for state, want := range map[shard.Status]string{
		AuthPending: "PROCESSING", RequiresAction: "REQUIRES_ACTION", Authorized: "AUTHORIZED", Declined: "DECLINED", Failed: "FAILED",
		Expired: "EXPIRED", CapturePending: "PROCESSING", Captured: "CAPTURED", PartiallyCaptured: "PARTIALLY_CAPTURED",
		VoidPending: "PROCESSING", Voided: "VOIDED",
	} {
		if got := shownStatus(in(t, state).Payment); got != want {
			t.Errorf("%s shows as %s, want %s", state, got, want)
		}
	}
}

// REFUNDED is shown once everything is back and nothing more can be captured; a pending refund is not enough.
func TestShownAsRefunded(t *testing.T) {
	for _, row := range []struct {
		status                                              shard.Status
		captured, released, refunding, refunded, authorized int64
		want                                                string
	}{
		{Captured, 100, 0, 0, 100, 100, "REFUNDED"},
		{Captured, 100, 0, 1, 99, 100, "CAPTURED"},
		{Captured, 100, 0, 0, 99, 100, "CAPTURED"},
		{PartiallyCaptured, 60, 40, 0, 60, 100, "REFUNDED"},
		{PartiallyCaptured, 60, 0, 0, 60, 100, "PARTIALLY_CAPTURED"},
		{CapturePending, 60, 0, 0, 60, 100, "PROCESSING"},
		{Voided, 0, 100, 0, 0, 100, "VOIDED"},
		{Declined, 0, 0, 0, 0, 100, "DECLINED"},
	} {
		p := shard.Payment{Status: row.status, Authorized: row.authorized, Captured: row.captured, Released: row.released, Refunding: row.refunding, Refunded: row.refunded}
		if got := shownStatus(p); got != row.want {
			t.Errorf("%+v shows as %s, want %s", row, got, row.want)
		}
	}
}

// What leaves the payment package holds neither a token nor more of a card than may be shown.
func TestNoTokenLeaks(t *testing.T) {
	const secret = "pm_very_secret_token"
	for _, state := range viewedStates {
		b := in(t, state)
		method, err := json.Marshal(Method{Tokens: map[string]string{"stripe": secret}, Brand: "visa", Last4: "4242"})
		if err != nil {
			t.Fatal(err)
		}
		b.Payment.Method = method
		m := move{change: shard.Change{Payment: b.Payment}}
		for name, v := range map[string]any{"view": viewOf(b.Payment), "event": m.event()} {
			if text := indented(t, v); strings.Contains(text, secret) {
				t.Errorf("%s of %s shows the token: %s", name, state, text)
			}
		}
	}
	o, err := open(p10("k", secret, Manual), choice(), noon, checkAfter)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(o.Event.Payload), secret) || strings.Contains(o.Attempt.RouteReason, secret) {
		t.Error("the first event or the routing reason shows the token")
	}
}

// A card that cannot be read is no reason to hide its payment.
func TestUnreadableCard(t *testing.T) {
	b := in(t, Captured)
	b.Payment.Method = []byte("{")
	if v := viewOf(b.Payment); v.Card != nil || v.Status != "CAPTURED" {
		t.Errorf("%+v", v)
	}
	b.Payment.Method = []byte(`{"tokens":{"stripe":"x"}}`)
	if v := viewOf(b.Payment); v.Card != nil {
		t.Errorf("a card of nothing: %+v", v.Card)
	}
}
