package payment

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/shard"
)

// purchase draws a payment of one to six sellers.
func purchase(t *rapid.T) AuthorizeCommand {
	c := p10("k", "pm_ok", rapid.SampledFrom([]CaptureMode{Manual, Automatic}).Draw(t, "mode"))
	c.Amount.Minor, c.Splits = 0, nil
	for n := range rapid.IntRange(1, 6).Draw(t, "sellers") {
		minor := rapid.Int64Range(1, 20_000).Draw(t, "minor")
		c.Splits = append(c.Splits, ledger.Split{SellerID: fmt.Sprintf("s-%d", n), Minor: minor,
			CommissionMinor: rapid.Int64Range(0, minor).Draw(t, "commission")})
		c.Amount.Minor += minor
	}
	if err := c.check(); err != nil {
		t.Fatalf("the drawn command is refused: %v", err)
	}
	return c
}

// Any sequence of commands and outcomes keeps the books: book.take holds Change.Check (amounts in order), the compare-and-set
// and the version; sound holds the sums.
func TestAnySequenceKeepsTheBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := opened(t, purchase(t))
		several := rapid.Bool().Draw(t, "several captures")
		t.Repeat(map[string]func(*rapid.T){
			"capture": func(t *rapid.T) { expectRefusal(t)(b.capture(t, anyAmount(t, b), several)) },
			"void":    func(t *rapid.T) { expectRefusal(t)(b.void(t)) },
			"refund":  func(t *rapid.T) { expectRefusal(t)(b.refund(t, anyAmount(t, b))) },
			"answer": func(t *rapid.T) {
				a := rapid.SampledFrom(b.Attempts).Draw(t, "attempt")
				o := rapid.SampledFrom(answersByName).Draw(t, "outcome")
				if returns(a) != "" {
					return // "late" ends it
				}
				if _, err := b.settle(t, a.ID, o.outcome()); err != nil && !errors.Is(err, errClosed) {
					t.Fatalf("%s to a %s attempt of a payment that is %s: %v", o.name, a.Kind, b.Payment.Status, err)
				}
			},
			"late": func(t *rapid.T) { // a success after the end, or a success taken back
				a := rapid.SampledFrom(b.Attempts).Draw(t, "attempt")
				f := fact{reversed: rapid.Bool().Draw(t, "reversed")}
				if f.outcome = psprouter.ApprovedAs("psp_late"); a.Kind == AttemptAuthorize {
					f.outcome.Captured = CaptureMode(b.Payment.CaptureMode) == Automatic
				}
				change, _, err := learn(b.Snapshot, posted(b), a.ID, f, b.at, lifetime)
				if err == nil {
					b.take(t, change)
				}
			},
			"": func(t *rapid.T) { sound(t, b) },
		})
	})
}

func anyAmount(t *rapid.T, b *book) *ledger.Money {
	if rapid.Bool().Draw(t, "all") {
		return nil
	}
	return eur(rapid.Int64Range(1, b.Payment.Authorized+1).Draw(t, "amount"))
}

// expectRefusal lets a command be taken or refused with an *Error, and nothing else.
func expectRefusal(t tb) func(string, error) {
	return func(_ string, err error) {
		var refused *Error
		if err != nil && (!errors.As(err, &refused) || refused.Remedy == "") {
			t.Fatalf("neither taken nor refused: %v", err)
		}
	}
}

// sound holds what must hold after every step. It finds its own way to the sums: by entries, refunds and attempts.
func sound(t tb, b *book) {
	t.Helper()
	p := b.Payment
	if int(p.Version) != len(b.events) {
		t.Fatalf("version %d after %d events", p.Version, len(b.events))
	}
	var r Report
	r.payment(&books{payment: p, attempts: b.Attempts, refunds: b.Refunds, entries: posted(b)})
	for _, f := range r.Findings {
		t.Errorf("%s at %s: %s", f.Invariant, f.Where, f.Detail)
	}
	sums := b.balances()
	suspense := sums[ledger.Suspense(p.PSP)] // late money that nobody has placed
	if got := sums[ledger.PSPReceivable(p.PSP)] + suspense; got != p.Captured-p.Refunded {
		t.Errorf("the PSP owes %d; captured %d, refunded %d", got, p.Captured, p.Refunded)
	}
	total := int64(0)
	for _, sum := range sums {
		total += sum
	}
	if total != 0 {
		t.Errorf("the accounts sum to %d", total)
	}
	if p.Refunded == p.Captured && suspense == 0 && len(sums) != 0 {
		t.Errorf("everything was given back, and %v is left", sums)
	}
}

func posted(b *book) []shard.PostedEntry {
	var out []shard.PostedEntry
	for _, e := range b.entries {
		out = append(out, shard.PostedEntry{Entry: e, PaymentID: b.Payment.ID})
	}
	return out
}

// However a payment is captured and refunded in parts, whatever order the refunds end in and however many are refused on
// the way: once all is given back every account is at exactly zero.
func TestFullRefundInAnyOrderEndsAtZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := purchase(t)
		c.CaptureMode = Manual
		b := authorized(t, c)
		for left := capturable(b.Payment); left > 0; left = capturable(b.Payment) {
			b.mustSettle(t, done(t)(b.capture(t, eur(rapid.Int64Range(1, left).Draw(t, "capture")), true)), psprouter.ApprovedAs("pi_1"))
		}
		for refundable(b.Payment) > 0 || b.Payment.Refunding > 0 {
			var open []string
			for _, a := range b.Attempts {
				if a.Status == Pending {
					open = append(open, a.ID)
				}
			}
			if left := refundable(b.Payment); left > 0 && (len(open) == 0 || rapid.Bool().Draw(t, "ask")) {
				done(t)(b.refund(t, eur(rapid.Int64Range(1, left).Draw(t, "refund"))))
				continue
			}
			o := psprouter.ApprovedAs("re_1")
			if rapid.IntRange(0, 3).Draw(t, "refuse") == 0 {
				o = psprouter.DeclinedWith("no", "no")
			}
			b.mustSettle(t, rapid.SampledFrom(open).Draw(t, "which"), o)
			sound(t, b)
		}
		if viewOf(b.Payment).Status != "REFUNDED" || len(b.balances()) != 0 {
			t.Fatalf("%s, left %v", viewOf(b.Payment).Status, b.balances())
		}
		for _, part := range b.Payment.Parts {
			if part.Captured != part.Authorized || part.Refunded != part.Captured {
				t.Fatalf("part %+v is not used up", part)
			}
		}
	})
}
