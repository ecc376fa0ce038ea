package payment

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/shard"
)

// in returns a payment in a state, by the way that leads there.
func in(t *testing.T, state shard.Status) *book {
	t.Helper()
	b := opened(t, p10("k", "pm_ok", Manual))
	first := b.Attempts[0].ID
	switch state {
	case AuthPending:
		return b
	case RequiresAction:
		b.mustSettle(t, first, psprouter.RedirectTo("pi_1", "https://bank.example"))
		return b
	case Declined:
		b.mustSettle(t, first, psprouter.DeclinedWith("lost_card", "no"))
		return b
	case Failed:
		b.mustSettle(t, first, psprouter.NotSentBecause("down"))
		return b
	}
	b.mustSettle(t, first, psprouter.ApprovedAs("pi_1"))
	switch state {
	case Expired:
		m, err := begin(b.Payment, OnExpired, noon.Add(lifetime))
		if err != nil {
			t.Fatal(err)
		}
		m.releases()
		change, err := m.finish()
		if err != nil {
			t.Fatal(err)
		}
		b.take(t, change)
	case CapturePending:
		done(t)(b.capture(t, eur(6000), true))
	case PartiallyCaptured:
		b.mustSettle(t, done(t)(b.capture(t, eur(6000), true)), psprouter.ApprovedAs("pi_1"))
	case Captured:
		b.mustSettle(t, done(t)(b.capture(t, nil, true)), psprouter.ApprovedAs("pi_1"))
	case VoidPending:
		done(t)(b.void(t))
	case Voided:
		b.mustSettle(t, done(t)(b.void(t)), psprouter.ApprovedAs("pi_1"))
	}
	if b.Payment.Status != state {
		t.Fatalf("%s, want %s", b.Payment.Status, state)
	}
	return b
}

// What each state answers to each command; "" = the command is taken.
func TestCommandsInEveryState(t *testing.T) {
	for _, row := range []struct {
		state                 shard.Status
		capture, void, refund Code
	}{
		{AuthPending, CodeWrongState, CodeWrongState, CodeWrongState},
		{RequiresAction, CodeWrongState, CodeWrongState, CodeWrongState},
		{Authorized, "", "", CodeWrongState},
		{Declined, CodeWrongState, CodeWrongState, CodeWrongState},
		{Failed, CodeWrongState, CodeWrongState, CodeWrongState},
		{Expired, CodeExpired, CodeExpired, CodeWrongState},
		{CapturePending, CodeCaptureInDoubt, CodeCaptureInDoubt, CodeWrongState},
		{Captured, CodeWrongState, CodeWrongState, ""},
		{PartiallyCaptured, "", CodeWrongState, ""},
		{VoidPending, CodeVoidInDoubt, CodeVoidInDoubt, CodeWrongState},
		{Voided, CodeWrongState, CodeWrongState, CodeWrongState},
	} {
		for name, c := range map[string]struct {
			ask  func(*book) (string, error)
			want Code
		}{
			"capture": {func(b *book) (string, error) { return b.capture(t, nil, true) }, row.capture},
			"void":    {func(b *book) (string, error) { return b.void(t) }, row.void},
			"refund":  {func(b *book) (string, error) { return b.refund(t, nil) }, row.refund},
		} {
			b := in(t, row.state)
			_, err := c.ask(b)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%s in %s: %v", name, row.state, err)
			case c.want != "":
				e := wantError(t, err, c.want, "", -1)
				if e.Reference == "" {
					t.Errorf("%s in %s: the refusal names nothing", name, row.state)
				}
			}
		}
	}
}

// C017: captures are compared with what is left, and one under way counts.
func TestC017PartialCaptures(t *testing.T) {
	b := in(t, Authorized)
	first := done(t)(b.capture(t, eur(6000), true))
	_, err := b.capture(t, eur(6000), true) // at the same moment
	wantError(t, err, CodeCaptureExceeds, "/amount/minor", 4000)
	b.mustSettle(t, first, psprouter.ApprovedAs("pi_1"))
	if v := viewOf(b.Payment); v.Status != "PARTIALLY_CAPTURED" || v.Captured != 6000 || v.Capturable != 4000 {
		t.Fatalf("%+v", v)
	}
	_, err = b.capture(t, eur(6000), true) // one after the other
	wantError(t, err, CodeCaptureExceeds, "/amount/minor", 4000)
	b.mustSettle(t, done(t)(b.capture(t, eur(4000), true)), psprouter.ApprovedAs("pi_1"))
	if v := viewOf(b.Payment); v.Status != "CAPTURED" || v.Captured != 10000 || v.Capturable != 0 {
		t.Fatalf("%+v", v)
	}
	want := map[ledger.Account]int64{"psp_receivable:stripe": 10000, "seller_payable:s-ann": -6300, "seller_payable:s-bob": -2550, "commission_revenue": -1150}
	if got := b.balances(); !reflect.DeepEqual(got, want) {
		t.Errorf("the two captures sum to %v, want %v", got, want)
	}
}

// Where the PSP releases the rest of a partial capture, nothing is left to capture; if it refused, all is.
func TestC017RestReleased(t *testing.T) {
	b := in(t, Authorized)
	first := done(t)(b.capture(t, eur(6000), false))
	_, err := b.capture(t, eur(1), false)
	wantError(t, err, CodeCaptureExceeds, "/amount/minor", 0)
	b.mustSettle(t, first, psprouter.DeclinedWith("busy", "no"))
	if v := viewOf(b.Payment); v.Capturable != 10000 {
		t.Fatalf("after the refusal %d can be captured", v.Capturable)
	}
	b.mustSettle(t, done(t)(b.capture(t, eur(6000), false)), psprouter.ApprovedAs("pi_1"))
	_, err = b.capture(t, nil, false)
	wantError(t, err, CodeCaptureExceeds, "/amount/minor", 0)
	if v := viewOf(b.Payment); v.Status != "PARTIALLY_CAPTURED" || v.Capturable != 0 || b.Payment.Released != 4000 {
		t.Errorf("%+v released %d", v, b.Payment.Released)
	}
}

// A capture without an answer yet counts as taken; one whose answer was lost puts the rest in doubt.
func TestCaptureInFlightAndInDoubt(t *testing.T) {
	b := in(t, Authorized)
	first := done(t)(b.capture(t, eur(6000), true))
	_, err := b.capture(t, eur(4001), true)
	wantError(t, err, CodeCaptureExceeds, "/amount/minor", 4000)
	for _, amount := range []*ledger.Money{eur(4000), nil} {
		_, err = b.capture(t, amount, true)
		if e := wantError(t, err, CodeCaptureInDoubt, "", -1); e.Reference != first {
			t.Errorf("it names %q, not the other capture", e.Reference)
		}
	}
	b.mustSettle(t, first, psprouter.UnknownBecause("reset"))
	_, err = b.capture(t, eur(6000), true)
	wantError(t, err, CodeCaptureInDoubt, "", -1)
}

// A payment that waits for a capture of which no row is pending was read in two halves: nobody is refused on that.
func TestHalfReadPaymentIsReadAgain(t *testing.T) {
	b := in(t, CapturePending)
	after := in(t, CapturePending)
	after.mustSettle(t, after.Attempts[1].ID, psprouter.ApprovedAs("pi_1"))
	b.Attempts = after.Attempts
	if _, err := b.capture(t, eur(6000), true); !errors.Is(err, shard.ErrConflict) {
		t.Errorf("capture: %v", err)
	}
	if _, err := b.void(t); !errors.Is(err, shard.ErrConflict) {
		t.Errorf("void: %v", err)
	}
}

// C018 (a): what can be refunded is what was captured, not what was authorized.
func TestC018PartialCaptureThenRefundAll(t *testing.T) {
	c := p10("k", "pm_ok", Manual)
	c.Amount, c.Splits = *eur(2294), []ledger.Split{{SellerID: "s-ann", Minor: 2294, CommissionMinor: 230}}
	b := authorized(t, c)
	b.mustSettle(t, done(t)(b.capture(t, eur(1000), true)), psprouter.ApprovedAs("pi_1"))
	_, err := b.refund(t, eur(2294))
	wantError(t, err, CodeRefundExceeds, "/amount/minor", 1000)
	refund := done(t)(b.refund(t, nil))
	if b.Refunds[0].Amount != 1000 {
		t.Errorf("a refund without an amount takes %d", b.Refunds[0].Amount)
	}
	b.mustSettle(t, refund, psprouter.ApprovedAs("re_1"))
	v := viewOf(b.Payment)
	if v.Amount.Minor != 2294 || v.Captured != 1000 || v.Refunded != 1000 || v.Capturable != 1294 || v.Refundable != 0 || v.Status != "PARTIALLY_CAPTURED" {
		t.Errorf("%+v", v)
	}
	if sums := b.balances(); len(sums) != 0 {
		t.Errorf("not at zero: %v", sums)
	}
}

// C019: void and expiry are ends, to the microsecond.
func TestC019Edges(t *testing.T) {
	for _, row := range []struct {
		at   time.Duration
		want Code
	}{{lifetime - time.Microsecond, ""}, {lifetime, CodeExpired}, {lifetime + time.Second, CodeExpired}} {
		for name, ask := range map[string]func(*book) (string, error){
			"capture":       func(b *book) (string, error) { return b.capture(t, eur(10000), true) },
			"void":          func(b *book) (string, error) { return b.void(t) },
			"later capture": func(b *book) (string, error) { return b.capture(t, nil, true) },
		} {
			b := in(t, Authorized)
			if name == "later capture" {
				b = in(t, PartiallyCaptured)
			}
			b.at = noon.Add(row.at)
			events := len(b.events)
			_, err := ask(b)
			if row.want == "" && err != nil {
				t.Errorf("%s at %v: %v", name, row.at, err)
			}
			if row.want != "" {
				wantError(t, err, row.want, "", -1)
				if len(b.events) != events {
					t.Errorf("%s at %v: something was written", name, row.at)
				}
			}
		}
	}
}

// C020: an amount has a lower bound, and an upper one.
func TestC020Amounts(t *testing.T) {
	for _, row := range []struct {
		amount ledger.Money
		code   Code
		field  string
	}{
		{*eur(0), CodeInvalid, "/amount/minor"},
		{*eur(-1), CodeInvalid, "/amount/minor"},
		{*eur(-500), CodeInvalid, "/amount/minor"},
		{*eur(math.MinInt64), CodeInvalid, "/amount/minor"},
		{*eur(ledger.MaxAmountMinor + 1), CodeAmountTooLarge, "/amount/minor"},
		{*eur(math.MaxInt64), CodeAmountTooLarge, "/amount/minor"},
		// C027: the currency.
		{ledger.Money{Minor: 1000, Currency: "USD"}, CodeCurrencyMismatch, "/amount/currency"},
		{ledger.Money{Minor: 1000, Currency: "eur"}, CodeCurrencyUnknown, "/amount/currency"},
		{ledger.Money{Minor: 1000, Currency: "EURO"}, CodeCurrencyUnknown, "/amount/currency"},
		{ledger.Money{Minor: 1000, Currency: "XXX"}, CodeCurrencyUnknown, "/amount/currency"},
		{ledger.Money{Minor: 1000}, CodeCurrencyUnknown, "/amount/currency"},
	} {
		b := in(t, Captured)
		_, err := b.refund(t, &row.amount)
		wantError(t, err, row.code, row.field, -1)
		if refundable(b.Payment) != 10000 {
			t.Errorf("refundable is %d", refundable(b.Payment))
		}
		_, err = in(t, Authorized).capture(t, &row.amount, true)
		wantError(t, err, row.code, row.field, -1)
	}
	_, err := in(t, Authorized).capture(t, eur(10001), true)
	wantError(t, err, CodeCaptureExceeds, "/amount/minor", 10000)
	_, err = in(t, Captured).refund(t, eur(10001))
	wantError(t, err, CodeRefundExceeds, "/amount/minor", 10000)
}

// C016: pending refunds count, and the shares are the mirror of the capture's.
func TestC016PendingRefundsCount(t *testing.T) {
	b := in(t, Captured)
	first := done(t)(b.refund(t, eur(6000)))
	_, err := b.refund(t, eur(6000))
	wantError(t, err, CodeRefundExceeds, "/amount/minor", 4000)
	b.mustSettle(t, first, psprouter.ApprovedAs("re_1"))
	want := map[ledger.Account]int64{"psp_receivable:stripe": 4000, "seller_payable:s-ann": -2520, "seller_payable:s-bob": -1020, "commission_revenue": -460}
	if got := b.balances(); !reflect.DeepEqual(got, want) {
		t.Errorf("after 6000 of 10000: %v, want %v", got, want)
	}
	b.mustSettle(t, done(t)(b.refund(t, eur(4000))), psprouter.ApprovedAs("re_2"))
	if v := viewOf(b.Payment); v.Status != "REFUNDED" || len(b.balances()) != 0 {
		t.Errorf("%s, left %v", v.Status, b.balances())
	}
	_, err = b.refund(t, nil)
	wantError(t, err, CodeRefundExceeds, "/amount/minor", 0)
}

// A refused refund gives its amount and its shares back.
func TestRefusedRefundFreesItsShares(t *testing.T) {
	for _, o := range []psprouter.Outcome{psprouter.DeclinedWith("expired", "no"), psprouter.NotSentBecause("down"), psprouter.RejectedWith("x", "y")} {
		b := in(t, Captured)
		parts := b.Payment.Parts
		b.mustSettle(t, done(t)(b.refund(t, eur(3333))), o)
		if refundable(b.Payment) != 10000 || !reflect.DeepEqual(b.Payment.Parts, parts) || b.Refunds[0].Status != FailedEnd {
			t.Errorf("%v: refundable %d, parts %v", o.Class(), refundable(b.Payment), b.Payment.Parts)
		}
	}
}

// The attempts of a payment sort as they were made, though two are made in one millisecond, or the second on a machine whose
// clock is behind: the first is the one that the key names.
func TestAttemptsSortAsMade(t *testing.T) {
	for _, skew := range []time.Duration{0, -time.Minute} {
		for range 20 { // a random order would be right once in a million times
			b := opened(t, p10("k", "pm_ok", Manual))
			first := b.Attempts[0]
			step, err := rerouted(b.Snapshot, first, psprouter.NotSentBecause("down"), choice(), noon.Add(skew), checkAfter)
			if err != nil {
				t.Fatal(err)
			}
			second := step.attempt
			if second.ID <= first.ID {
				t.Fatalf("clock %v behind: %s, then %s", skew, first.ID, second.ID)
			}
			b.take(t, step.change)
			m, err := begin(b.Payment, OnAuthorized, noon.Add(skew))
			if err != nil {
				t.Fatal(err)
			}
			if third := newAttempt(*m.payment(), AttemptCapture, 1, "", noon.Add(skew), checkAfter); third.ID <= second.ID {
				t.Fatalf("clock %v behind: %s, then %s", skew, second.ID, third.ID)
			}
		}
	}
}
