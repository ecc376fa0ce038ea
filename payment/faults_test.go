package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/shard"
)

// Another writer moves the payment between the PSP's answer and our commit.
func TestConflictingWriter(t *testing.T) {
	isolations(t, func(t *testing.T, s setup) {
		b := newBench(t, s)

		// It notes that nothing is known: we decide anew on what it left, and our answer holds.
		b.at("authorize.sent", func() { b.writes(b.paymentOf("noted"), psprouter.UnknownBecause("asked too early")) })
		id := b.authorizes(p10("noted", "pm_ok", Automatic), KindCharged).PaymentID
		if s := b.snapshot(id); s.Payment.Version != 3 || s.Payment.Status != Captured || len(b.entries(id)) != 1 {
			t.Errorf("%s at version %d", s.Payment.Status, s.Payment.Version)
		}

		// It was told the same and was first: the caller hears what it stored, and nothing is posted twice.
		b.at("authorize.sent", func() {
			o := psprouter.ApprovedAs("pi_first")
			o.Captured = true
			b.writes(b.paymentOf("first"), o)
		})
		answer := b.authorizes(p10("first", "pm_ok", Automatic), KindCharged)
		if s := b.snapshot(answer.PaymentID); s.Payment.Version != 2 || s.Payment.PSPRef != "pi_first" || len(b.entries(answer.PaymentID)) != 1 {
			t.Errorf("version %d under %s", s.Payment.Version, s.Payment.PSPRef)
		}
		b.replays(p10("first", "pm_ok", Automatic), answer)

		// It sent the buyer away first: that stays the key's answer, and our approval moves the payment all the same.
		b.at("authorize.sent", func() { b.writes(b.paymentOf("away"), psprouter.RedirectTo("pi_1", "https://bank.example")) })
		answer = b.authorizes(p10("away", "pm_ok", Manual), KindActionRequired)
		if s := b.snapshot(answer.PaymentID); s.Payment.Status != Authorized || s.Attempts[0].Status != Succeeded {
			t.Errorf("%s, attempt %s", s.Payment.Status, s.Attempts[0].Status)
		}
		b.replays(p10("away", "pm_ok", Manual), answer)

		// The same for later calls.
		id = b.authorizes(p10("later", "pm_ok", Manual), KindAuthorized).PaymentID
		b.at("capture.sent", func() { b.writes(id, psprouter.ApprovedAs("pi_1")) })
		first, err := b.captures("c", id, eur(6000))
		b.expect(first, err, KindCaptured)
		if s := b.snapshot(id); s.Payment.Captured != 6000 || len(b.entries(id)) != 1 {
			t.Errorf("captured %d", s.Payment.Captured)
		}
		b.at("refunds.sent", func() { b.writes(id, psprouter.ApprovedAs("re_1")) })
		first, err = b.refundsOf("r", id, eur(1000))
		b.expect(first, err, KindRefunded)
		again, err := b.refundsOf("r", id, eur(1000))
		if b.expect(again, err, KindRefunded); !bytes.Equal(again.Body, first.Body) {
			t.Errorf("%s, first %s", again.Body, first.Body)
		}
		if n := b.metric("paygrid_command_races_total"); n != 5 {
			t.Errorf("%d races were counted", n)
		}
		b.sound()
	})
}

// An attempt whose end another writer committed without an answer to our key: the caller hears how the payment stands.
func TestClosedWithoutAnAnswer(t *testing.T) {
	b := newBench(t, setup{})
	b.at("authorize.sent", func() {
		name := b.layout.Map.Owner(shard.BucketOf("tk_shop_a", "k")).Shard
		b.writes(b.paymentOf("k"), psprouter.ApprovedAs("pi_first"))
		b.layout.Exec(t, name, `UPDATE idempotency_keys SET answer_kind = NULL, answer = NULL`)
	})
	answer := b.authorizes(p10("k", "pm_ok", Manual), KindProcessing)
	var v View
	if err := json.Unmarshal(answer.Body, &v); err != nil || v.Status != "AUTHORIZED" || v.ID != answer.PaymentID {
		t.Errorf("%s: %v", answer.Body, err)
	}
}

// The shard does not answer before the PSP was called: nothing is charged, and the caller may repeat.
func TestShardDownBeforeThePSP(t *testing.T) {
	b := newBench(t, setup{Options: shard.Options{CallTimeout: time.Second, StatementTimeout: time.Second}})
	id := b.authorizes(p10("k", "pm_ok", Manual), KindAuthorized).PaymentID
	end := b.outage("k")
	t.Cleanup(end)
	calls := map[string]func() error{
		"authorize": func() error { _, err := b.Authorize(b.ctx, p10("k", "pm_ok", Manual)); return err },
		"capture":   func() error { return errOf(b.captures("c", id, nil)) },
		"void":      func() error { return errOf(b.voids("v", id)) },
		"refund":    func() error { return errOf(b.refundsOf("r", id, nil)) },
		"get":       func() error { _, err := b.Get(b.ctx, "tk_shop_a", id); return err },
		"reverse":   func() error { _, err := b.Reverse(b.ctx, id, "capture:x", "why", "u-kim"); return err },
	}
	for name, call := range calls {
		if e := wantError(t, call(), CodeUnavailable, "", -1); e.RetryIn == 0 || e.Err == nil {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if err := b.Ready(b.ctx); err != nil {
		t.Errorf("not ready for the payments of the other shard: %v", err)
	}
	if n := b.calls("authorize") + b.calls("capture") + b.calls("void") + b.calls("refund"); n != 1 {
		t.Errorf("the PSP saw %d calls", n)
	}
	end()
	if again := b.authorizes(p10("k", "pm_ok", Manual), KindAuthorized); again.PaymentID != id || !again.Replayed {
		t.Errorf("%+v", again)
	}
	b.sound()
}

// The shard goes after the PSP was called: the caller hears PROCESSING, the attempt stays pending, and people are told.
func TestShardDownAfterThePSP(t *testing.T) {
	b := newBench(t, setup{Options: shard.Options{CallTimeout: time.Second, StatementTimeout: time.Second}})
	end := func() {}
	t.Cleanup(func() { end() })
	b.at("authorize.sent", func() { end = b.outage("k") })
	first := b.authorizes(p10("k", "pm_ok", Automatic), KindProcessing)
	if n := b.metric("paygrid_outcomes_unsaved_total"); n != 1 {
		t.Errorf("%d outcomes are told as unsaved", n)
	}
	end()
	s := b.snapshot(first.PaymentID)
	if s.Payment.Status != AuthPending || s.Attempts[0].Status != Pending || b.calls("authorize") != 1 {
		t.Errorf("%s, attempt %s", s.Payment.Status, s.Attempts[0].Status)
	}
	again := b.authorizes(p10("k", "pm_ok", Automatic), KindProcessing)
	if !bytes.Equal(again.Body, first.Body) {
		t.Errorf("%s, first %s", again.Body, first.Body)
	}
	if r := b.sound(); r.Pending != 1 {
		t.Errorf("%d pending", r.Pending)
	}
	// Whoever learns the outcome later closes it, and the key has its answer.
	o := psprouter.ApprovedAs(b.sim.Books().Payments[0].Ref)
	o.Captured = true
	b.writes(first.PaymentID, o)
	b.replays(p10("k", "pm_ok", Automatic), b.authorizes(p10("k", "pm_ok", Automatic), KindCharged))
	b.sound()
}

// A command that never gets in before others do gives up after a bounded number of tries, with nothing done.
func TestRacesAreBounded(t *testing.T) {
	b := newBench(t, setup{})
	id := b.authorizes(p10("k", "pm_ok", Automatic), KindCharged).PaymentID
	name := b.layout.Map.Owner(shard.BucketOf("tk_shop_a", "k")).Shard
	// No update of a payment is ever done: as if somebody were always first.
	b.layout.Exec(t, name, `CREATE FUNCTION behind() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
	b.layout.Exec(t, name, `CREATE TRIGGER behind BEFORE UPDATE ON payments FOR EACH ROW EXECUTE FUNCTION behind()`)
	if e := wantError(t, errOf(b.refundsOf("r", id, nil)), CodeBusy, "", -1); e.RetryIn == 0 {
		t.Errorf("%+v", e)
	}
	_, err := b.Reverse(b.ctx, id, b.entries(id)[0].ID, "why", "u-kim")
	wantError(t, err, CodeBusy, "", -1)
	if b.calls("refund") != 0 {
		t.Error("the PSP was called")
	}
	b.sound()
}

// gate holds a command at a point until it is opened.
type gate struct{ reached, open chan struct{} }

func (b *bench) gate(p Point) gate {
	g := gate{make(chan struct{}), make(chan struct{})}
	b.at(p, func() { close(g.reached); <-g.open })
	return g
}

func TestDrainAndMaxInFlight(t *testing.T) {
	b := newBench(t, setup{maxInFlight: 2})
	g := b.gate("authorize.committed")
	answers := make(chan Kind, 1)
	go func() {
		answer, _ := b.Authorize(b.ctx, p10("slow", "pm_ok", Manual))
		answers <- answer.Kind
	}()
	<-g.reached

	h := b.gate("authorize.begun")
	second := make(chan error, 1)
	go func() {
		_, err := b.Authorize(b.ctx, p10("second", "pm_ok", Manual))
		second <- err
	}()
	<-h.reached
	_, err := b.Authorize(b.ctx, p10("third", "pm_ok", Manual))
	if e := wantError(t, err, CodeUnavailable, "", -1); e.RetryIn == 0 {
		t.Errorf("%+v", e)
	}
	close(h.open)
	if err := <-second; err != nil {
		t.Fatal(err)
	}

	ended, cancel := context.WithCancel(b.ctx)
	cancel()
	if err := b.Drain(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("drained with a command under way: %v", err)
	}
	drained := make(chan error, 1)
	go func() { drained <- b.Drain(b.ctx) }()
	select {
	case err := <-drained:
		t.Fatalf("drained with a command under way: %v", err)
	default:
	}
	close(g.open)
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	if kind := <-answers; kind != KindAuthorized {
		t.Errorf("the drained command answered %s", kind)
	}
	b.authorizes(p10("after", "pm_ok", Manual), KindAuthorized) // the slots are back
	b.sound()
}

// A caller that hangs up changes nothing: the command goes on, and the same key asks for its answer.
func TestCallerHangsUp(t *testing.T) {
	b := newBench(t, setup{})
	g := b.gate("authorize.committed")
	ctx, hangUp := context.WithCancel(b.ctx)
	left := make(chan error, 1)
	go func() {
		_, err := b.Authorize(ctx, p10("k", "pm_ok", Automatic))
		left <- err
	}()
	<-g.reached
	hangUp()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller heard %v", err)
	}
	open := b.authorizes(p10("k", "pm_ok", Automatic), KindProcessing) // meanwhile
	close(g.open)
	if err := b.Drain(b.ctx); err != nil {
		t.Fatal(err)
	}
	answer := b.authorizes(p10("k", "pm_ok", Automatic), KindCharged)
	if answer.PaymentID != open.PaymentID || !answer.Replayed || b.calls("authorize") != 1 {
		t.Errorf("%+v after %d calls", answer, b.calls("authorize"))
	}
	b.sound()
}

// atOnce runs calls at the same moment and returns their errors in order.
func atOnce(calls ...func() error) []error {
	start, errs := make(chan struct{}), make([]error, len(calls))
	var group sync.WaitGroup
	for n, call := range calls {
		group.Go(func() {
			<-start
			errs[n] = call()
		})
	}
	close(start)
	group.Wait()
	return errs
}

// oneOf expects exactly one of the errors to be nil and returns the other.
func oneOf(t *testing.T, errs []error) error {
	t.Helper()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("want one of two: %v", errs)
	}
	return errors.Join(errs...)
}

// C043: two reverse one entry at once, 100 times: one wins, the other hears the reversal's ID.
func TestC043ReversedOnce(t *testing.T) {
	isolations(t, func(t *testing.T, s setup) {
		b := newBench(t, s)
		for round := range 100 {
			id := b.authorizes(p10(fmt.Sprintf("k%d", round), "pm_ok", Automatic), KindCharged).PaymentID
			original := b.entries(id)[0]
			reverse := func() error {
				_, err := b.Reverse(b.ctx, id, original.ID, "booked in error", "u-kim")
				return err
			}
			for _, err := range []error{oneOf(t, atOnce(reverse, reverse)), reverse()} {
				if e := wantError(t, err, CodeAlreadyReversed, "", -1); e.Reference != "reversal:"+original.ID {
					t.Errorf("it names %q", e.Reference)
				}
			}
			entries := b.entries(id)
			sums := map[ledger.Account]int64{}
			for _, e := range entries {
				for _, p := range e.Postings {
					sums[p.Debit] += p.Minor
					sums[p.Credit] -= p.Minor
				}
			}
			for account, sum := range sums {
				if sum != 0 {
					t.Errorf("%s is at %d", account, sum)
				}
			}
			if len(entries) != 2 || len(entries[0].Lines()) != 4 || len(entries[1].Lines()) != 4 || entries[1].Actor != "u-kim" {
				t.Fatalf("entries %+v", entries)
			}
		}
		b.sound()
	})
}

func TestReverseRefuses(t *testing.T) {
	b := newBench(t, setup{})
	id := b.authorizes(p10("k", "pm_ok", Automatic), KindCharged).PaymentID
	entry := b.entries(id)[0].ID
	reverse := func(payment, entry, reason, actor string) error {
		_, err := b.Reverse(b.ctx, payment, entry, reason, actor)
		return err
	}
	wantError(t, reverse(shard.NewID(shard.PaymentPrefix, 1, noon), entry, "why", "u-kim"), CodeNotFound, "", -1)
	wantError(t, reverse("pay_x", entry, "why", "u-kim"), CodeNotFound, "", -1)
	wantError(t, reverse(id, "capture:att_x", "why", "u-kim"), CodeNotFound, "", -1)
	wantError(t, reverse(id, entry, "", "u-kim"), CodeInvalid, "/entry", -1)
	wantError(t, reverse(id, entry, "why", ""), CodeInvalid, "/entry", -1)
	if err := reverse(id, entry, "why", "u-kim"); err != nil {
		t.Fatal(err)
	}
	wantError(t, reverse(id, "reversal:"+entry, "why", "u-kim"), CodeInvalid, "/entry", -1)
	b.sound()
}

// C016, C017 and C019 (c) as races: one of two goes through, the PSP is called once, all books agree.
func TestRacingCalls(t *testing.T) {
	isolations(t, func(t *testing.T, s setup) {
		b := newBench(t, s)
		for round := range 20 {
			id := b.authorizes(p10(fmt.Sprintf("refund%d", round), "pm_ok", Automatic), KindCharged).PaymentID
			err := oneOf(t, atOnce(func() error { return errOf(b.refundsOf("r1", id, eur(6000))) }, func() error { return errOf(b.refundsOf("r2", id, eur(6000))) }))
			wantError(t, err, CodeRefundExceeds, "/amount/minor", 4000)
			answer, err := b.refundsOf("r3", id, eur(4000))
			b.expect(answer, err, KindRefunded)
			if v, err := b.Get(b.ctx, "tk_shop_a", id); err != nil || v.Status != "REFUNDED" {
				t.Errorf("%+v, %v", v, err)
			}

			id = b.authorizes(p10(fmt.Sprintf("capture%d", round), "pm_ok", Manual), KindAuthorized).PaymentID
			err = oneOf(t, atOnce(func() error { return errOf(b.captures("c1", id, eur(6000))) }, func() error { return errOf(b.captures("c2", id, eur(6000))) }))
			wantError(t, err, CodeCaptureExceeds, "/amount/minor", 4000)
			answer, err = b.captures("c3", id, eur(4000))
			b.expect(answer, err, KindCaptured)

			id = b.authorizes(p10(fmt.Sprintf("void%d", round), "pm_ok", Manual), KindAuthorized).PaymentID
			err = oneOf(t, atOnce(func() error { return errOf(b.captures("c", id, nil)) }, func() error { return errOf(b.voids("v", id)) }))
			var refused *Error
			if !errors.As(err, &refused) || (refused.Code != CodeWrongState && refused.Code != CodeVoidInDoubt && refused.Code != CodeCaptureInDoubt) {
				t.Errorf("the loser of capture and void heard %v", err)
			}
		}
		if c, r := b.calls("capture"), b.calls("refund"); c+b.calls("void") != 60 || r != 40 {
			t.Errorf("the PSP saw %d captures, %d voids, %d refunds", c, b.calls("void"), r)
		}
		b.sound()
	})
}

// Many callers with one key: one payment, one charge, and all hear of it.
func TestRacingKeys(t *testing.T) {
	isolations(t, func(t *testing.T, s setup) {
		b := newBench(t, s)
		ids := make([]string, 16)
		calls := make([]func() error, 16)
		for n := range calls {
			calls[n] = func() error {
				answer, err := b.Authorize(b.ctx, p10("same", "pm_ok", Automatic))
				ids[n] = answer.PaymentID
				return err
			}
		}
		for n, err := range atOnce(calls...) {
			if err != nil || ids[n] != ids[0] {
				t.Errorf("caller %d: %s, %v", n, ids[n], err)
			}
		}
		if b.calls("authorize") != 1 {
			t.Errorf("the PSP saw %d calls", b.calls("authorize"))
		}
		b.sound()
	})
}

// Where the PSP releases the rest of a partial capture, the payment says so to the end.
func TestOneCapturePSP(t *testing.T) {
	b := newBench(t, setup{oneCapture: true})
	id := b.authorizes(p10("k", "pm_ok", Manual), KindAuthorized).PaymentID
	answer, err := b.captures("c", id, eur(6000))
	b.expect(answer, err, KindCaptured)
	_, err = b.captures("c2", id, eur(1))
	wantError(t, err, CodeCaptureExceeds, "/amount/minor", 0)
	answer, err = b.refundsOf("r", id, nil)
	b.expect(answer, err, KindRefunded)
	if v, err := b.Get(b.ctx, "tk_shop_a", id); err != nil || v.Status != "REFUNDED" || v.Capturable != 0 || v.Refunded != 6000 {
		t.Errorf("%+v, %v", v, err)
	}
	b.sound()
}
