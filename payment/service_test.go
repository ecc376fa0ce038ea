package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"paygrid/psprouter"
	"paygrid/shard"
)

// otherRouter knows no PSP.
func otherRouter() *psprouter.Router { return psprouter.NewRouter() }

// Every token, in both modes: the answer, the state, one call at the PSP, the replay, the key with another meaning.
func TestAuthorizeEveryToken(t *testing.T) {
	isolations(t, func(t *testing.T, s setup) {
		b := newBench(t, s)
		for _, row := range []struct {
			token             string
			manual, automatic Kind
			state             shard.Status // "" = by the mode
			attempt           shard.Status
		}{
			{"pm_ok", KindAuthorized, KindCharged, "", Succeeded},
			{"pm_timeout_charged", KindAuthorized, KindCharged, "", Succeeded},
			{"pm_decline", KindDeclined, KindDeclined, Declined, FailedEnd},
			{"pm_card_visa_chargeDeclinedLostCard", KindDeclined, KindDeclined, Declined, FailedEnd},
			{"pm_ok_drop", KindProcessing, KindProcessing, AuthPending, Pending},
			{"pm_500_charged", KindProcessing, KindProcessing, AuthPending, Pending},
			{"pm_hidden_20s", KindProcessing, KindProcessing, AuthPending, Pending},
			{"pm_never", KindProcessing, KindProcessing, AuthPending, Pending},
			{"pm_pending", KindProcessing, KindProcessing, AuthPending, Pending},
			{"pm_503", KindUnavailable, KindUnavailable, Failed, NotSent},
			{"pm_nonsense", KindRejected, KindRejected, Failed, NotSent},
			{"pm_3ds", KindActionRequired, KindActionRequired, RequiresAction, Pending},
		} {
			for mode, want := range map[CaptureMode]Kind{Manual: row.manual, Automatic: row.automatic} {
				c := p10(row.token+"-"+string(mode), row.token, mode)
				first := b.authorizes(c, want)
				state := row.state
				if state == "" {
					state = map[CaptureMode]shard.Status{Manual: Authorized, Automatic: Captured}[mode]
				}
				snap := b.snapshot(first.PaymentID)
				if snap.Payment.Status != state || len(snap.Attempts) != 1 || snap.Attempts[0].Status != row.attempt {
					t.Errorf("%s: %s, attempts %+v", c.Key, snap.Payment.Status, snap.Attempts)
				}
				b.replays(c, first)
			}
		}
		if n := b.calls("authorize"); n != 24 {
			t.Errorf("the PSP saw %d authorizations for 24 payments", n)
		}
		b.sound()
	})
}

// replays repeats an opening: the same bytes, marked as a replay once they are final; another meaning is refused, however
// the first stands.
func (b *bench) replays(c AuthorizeCommand, first Answer) {
	b.t.Helper()
	again := b.authorizes(c, first.Kind)
	if !bytes.Equal(again.Body, first.Body) || again.Replayed != (first.Kind != KindProcessing) || again.PaymentID != first.PaymentID {
		b.t.Errorf("%s: replayed=%t\n%s, first\n%s", c.Key, again.Replayed, again.Body, first.Body)
	}
	c.OrderID += "-other"
	_, err := b.Authorize(b.ctx, c)
	if e := wantError(b.t, err, CodeKeyReused, "", -1); e.Reference != first.PaymentID {
		b.t.Errorf("the refusal names %q", e.Reference)
	}
}

// A key that was used is answered even if its request could not be routed today.
func TestReplayBeforeRouting(t *testing.T) {
	b := newBench(t, setup{})
	c := p10("k", "pm_ok", Manual)
	first := b.authorizes(c, KindAuthorized)
	b.Service.psps = otherRouter()
	again := b.authorizes(c, KindAuthorized)
	if !again.Replayed || !bytes.Equal(again.Body, first.Body) {
		t.Errorf("%+v", again)
	}
	c.Key = "new"
	_, err := b.Authorize(b.ctx, c)
	wantError(t, err, CodeNoPSP, "/paymentMethod", -1)
}

// Later calls with every answer of the PSP: what the caller hears, what becomes of the payment, and the replay.
func TestLaterCallsEveryAnswer(t *testing.T) {
	isolations(t, func(t *testing.T, s setup) {
		b := newBench(t, s)
		capture := func(key, id string, minor int64) (Answer, error) { return b.captures(key, id, eur(minor)) }
		void := func(key, id string, _ int64) (Answer, error) { return b.voids(key, id) }
		refund := func(key, id string, minor int64) (Answer, error) { return b.refundsOf(key, id, eur(minor)) }
		for _, row := range []struct {
			token string
			mode  CaptureMode
			call  func(key, id string, minor int64) (Answer, error)
			want  Kind
			state shard.Status
		}{
			{"pm_ok", Manual, capture, KindCaptured, PartiallyCaptured},
			{"pm_ok_capture_decline", Manual, capture, KindRefused, Authorized},
			{"pm_ok_capture_503", Manual, capture, KindUnavailable, Authorized},
			{"pm_ok_capture_drop", Manual, capture, KindProcessing, CapturePending},
			{"pm_ok_capture_500", Manual, capture, KindProcessing, CapturePending},
			{"pm_ok_capture_never", Manual, capture, KindProcessing, CapturePending},
			{"pm_ok_capture_garbage", Manual, capture, KindProcessing, CapturePending},
			{"pm_ok", Manual, void, KindVoided, Voided},
			{"pm_ok_void_decline", Manual, void, KindRefused, Authorized},
			{"pm_ok_void_503", Manual, void, KindUnavailable, Authorized},
			{"pm_ok_void_drop", Manual, void, KindProcessing, VoidPending},
			{"pm_ok", Automatic, refund, KindRefunded, Captured},
			{"pm_ok_refund_decline", Automatic, refund, KindRefused, Captured},
			{"pm_ok_refund_503", Automatic, refund, KindUnavailable, Captured},
			{"pm_ok_refund_drop", Automatic, refund, KindProcessing, Captured},
			{"pm_ok_refund_pending", Automatic, refund, KindProcessing, Captured},
		} {
			opening := b.authorizes(p10(fmt.Sprintf("%s-%s-%d", row.token, row.state, len(row.want)), row.token, row.mode),
				map[CaptureMode]Kind{Manual: KindAuthorized, Automatic: KindCharged}[row.mode])
			id := opening.PaymentID
			first, err := row.call("later", id, 6000)
			b.expect(first, err, row.want)
			if got := b.snapshot(id).Payment.Status; got != row.state {
				t.Errorf("%s: %s, want %s", row.token, got, row.state)
			}
			again, err := row.call("later", id, 6000)
			b.expect(again, err, row.want)
			if !bytes.Equal(again.Body, first.Body) || again.Replayed != (row.want != KindProcessing) {
				t.Errorf("%s: replayed=%t\n%s, first\n%s", row.token, again.Replayed, again.Body, first.Body)
			}
			if row.state != Voided && row.state != VoidPending { // a void has no other meaning
				if _, err := row.call("later", id, 5999); !strings.Contains(row.token, "void") {
					wantError(t, err, CodeKeyReused, "", -1)
				}
			}
		}
		if c, v, r := b.calls("capture"), b.calls("void"), b.calls("refund"); c != 7 || v != 4 || r != 5 {
			t.Errorf("the PSP saw %d captures, %d voids, %d refunds", c, v, r)
		}
		b.sound()
	})
}

// C022, the second payment: a refund that was executed and dropped is one refund, however often its key is repeated.
func TestC022DroppedRefundRepeated(t *testing.T) {
	b := newBench(t, setup{})
	id := b.authorizes(p10("k", "pm_ok_refund_drop", Automatic), KindCharged).PaymentID
	ids := map[string]bool{}
	for range 4 {
		answer, err := b.refundsOf("r", id, eur(4000))
		b.expect(answer, err, KindProcessing)
		var body RefundView
		if err := json.Unmarshal(answer.Body, &body); err != nil || body.Status != "PROCESSING" || body.Refundable != 6000 {
			t.Errorf("%s: %v", answer.Body, err)
		}
		ids[body.ID] = true
	}
	_, err := b.refundsOf("r2", id, eur(7000))
	wantError(t, err, CodeRefundExceeds, "/amount/minor", 6000)
	if n := b.calls("refund"); n != 1 || len(ids) != 1 {
		t.Errorf("%d calls, refunds %v", n, ids)
	}
	b.sound()
}

// Another client's payment is not there, for every command and every read; nor is one that nobody has.
func TestOtherClientSeesNothing(t *testing.T) {
	b := newBench(t, setup{})
	mine := b.authorizes(p10("k", "pm_ok", Manual), KindAuthorized).PaymentID
	nobody := shard.NewID(shard.PaymentPrefix, 7, noon)
	for _, id := range []string{mine, nobody, "pay_x", ""} {
		for name, call := range map[string]func() error{
			"capture": func() error {
				_, err := b.Capture(b.ctx, CaptureCommand{Client: "tk_shop_b", Key: "k", PaymentID: id})
				return err
			},
			"void": func() error {
				_, err := b.Void(b.ctx, VoidCommand{Client: "tk_shop_b", Key: "k", PaymentID: id})
				return err
			},
			"refund": func() error {
				_, err := b.Refund(b.ctx, RefundCommand{Client: "tk_shop_b", Key: "k", PaymentID: id})
				return err
			},
			"get":    func() error { _, err := b.Get(b.ctx, "tk_shop_b", id); return err },
			"ledger": func() error { _, err := b.Ledger(b.ctx, "tk_shop_b", id); return err },
		} {
			if err := call(); err == nil {
				t.Errorf("%s of %q was done", name, id)
			} else {
				wantError(t, err, CodeNotFound, "", -1)
			}
		}
	}
	if views, err := b.ByOrder(b.ctx, "tk_shop_b", "ord-k"); err != nil || len(views) != 0 {
		t.Errorf("the other client's order shows %v, %v", views, err)
	}
	views, err := b.ByOrder(b.ctx, "tk_shop_a", "ord-k")
	if err != nil || len(views) != 1 || views[0].ID != mine {
		t.Errorf("our own order shows %v, %v", views, err)
	}
	// The other client's key of the same name is another key.
	c := p10("k", "pm_ok", Manual)
	c.Client = "tk_shop_b"
	if other := b.authorizes(c, KindAuthorized); other.PaymentID == mine {
		t.Error("two clients share a key")
	}
	b.sound()
}

func TestReadsOfOnePayment(t *testing.T) {
	b := newBench(t, setup{})
	id := b.authorizes(p10("k", "pm_ok", Automatic), KindCharged).PaymentID
	v, err := b.Get(b.ctx, "tk_shop_a", id)
	if err != nil || v.Status != "CAPTURED" || v.Captured != 10000 || v.Card.Last4 != "4242" {
		t.Errorf("%+v, %v", v, err)
	}
	l, err := b.Ledger(b.ctx, "tk_shop_a", id)
	if err != nil || len(l.Entries) != 1 || len(l.Entries[0].Lines) != 4 {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := b.ByOrder(b.ctx, "tk_shop_a", ""); err == nil {
		t.Error("a look-up of no order was done")
	}
	if err := b.Ready(b.ctx); err != nil {
		t.Error(err)
	}
}

// An amount that cannot cross to the PSP exactly is refused before anything is written.
func TestPartThatThePSPCannotTake(t *testing.T) {
	b := newBench(t, setup{})
	c := p10("k", "pm_ok", Manual)
	c.Amount.Currency = "KWD"
	id := b.authorizes(c, KindAuthorized).PaymentID
	part := *eur(1001)
	part.Currency = "KWD"
	_, err := b.captures("c", id, &part)
	wantError(t, err, CodeAmountNotSupported, "/amount/minor", -1)
	if s := b.snapshot(id); s.Payment.Status != Authorized || s.Payment.Version != 2 || len(s.Attempts) != 1 || b.calls("capture") != 0 {
		t.Errorf("%s at version %d with %d attempts", s.Payment.Status, s.Payment.Version, len(s.Attempts))
	}
	c.Key, c.Amount.Minor, c.Splits[0].Minor = "k2", 10001, 7001
	_, err = b.Authorize(b.ctx, c)
	wantError(t, err, CodeAmountNotSupported, "/amount/minor", -1)
	b.sound()
}

// C019 (b): no clock of ours lets a capture through after the end, and the sweeper ends it once.
func TestC019Expiry(t *testing.T) {
	isolations(t, func(t *testing.T, s setup) {
		b := newBench(t, s)
		id := b.authorizes(p10("k", "pm_ok", Manual), KindAuthorized).PaymentID
		redirect := b.authorizes(p10("r", "pm_3ds", Manual), KindActionRequired).PaymentID
		b.clock.advance(lifetime + time.Second)
		_, err := b.captures("c", id, eur(10000))
		wantError(t, err, CodeExpired, "", -1)
		if s := b.snapshot(id); s.Payment.Version != 2 || len(s.Attempts) != 1 || len(b.entries(id)) != 0 || b.calls("capture") != 0 {
			t.Errorf("something was written: version %d, %d attempts", s.Payment.Version, len(s.Attempts))
		}
		ended := 0
		for range 2 {
			for _, name := range b.layout.Names {
				n, err := b.ExpireOn(b.ctx, name)
				if err != nil {
					t.Fatal(err)
				}
				ended += n
			}
		}
		events, err := b.shards.Events(b.ctx, id)
		if err != nil || ended != 2 || len(events) != 3 || events[2].Type != EventExpired {
			t.Errorf("%d ended, %d events, %v", ended, len(events), err)
		}
		if s := b.snapshot(id); s.Payment.Status != Expired || s.Payment.Released != 10000 {
			t.Errorf("%s released %d", s.Payment.Status, s.Payment.Released)
		}
		// The buyer of a redirect can still act at the PSP: its end there is an attempt of our own, which the resolver sends.
		if s := b.snapshot(redirect); s.Payment.Status != Expired || len(s.Attempts) != 2 || returns(s.Attempts[1]) != s.Attempts[0].ID {
			t.Errorf("the redirect is %s with attempts %+v", s.Payment.Status, s.Attempts)
		}
		for _, name := range b.layout.Names {
			if _, err := b.ResolveOn(b.ctx, name, "test"); err != nil {
				t.Fatal(err)
			}
		}
		if s := b.snapshot(redirect); s.Attempts[1].Status != Succeeded || b.calls("void") != 1 {
			t.Errorf("it was not taken back at the PSP: %+v", s.Attempts)
		}
		for name, err := range map[string]error{"capture": errOf(b.captures("c", id, nil)), "void": errOf(b.voids("v", id))} {
			if err == nil {
				t.Errorf("%s after the end", name)
			}
			wantError(t, err, CodeExpired, "", -1)
		}
		b.sound()
	})
}

func errOf(_ Answer, err error) error { return err }

// The background work holds its lease against others, rolls up and expires.
func TestBackgroundRound(t *testing.T) {
	b := newBench(t, setup{})
	b.authorizes(p10("charged", "pm_ok", Automatic), KindCharged)
	id := b.authorizes(p10("k", "pm_ok", Manual), KindAuthorized).PaymentID
	b.clock.advance(lifetime)
	one := Work{Service: b.Service, Owner: "one", Every: time.Minute}
	two := Work{Service: b.Service, Owner: "two", Every: time.Minute}
	ledgerJob := one.jobs()[2]
	for _, name := range b.layout.Names {
		if _, _, err := b.shards.Lease(b.ctx, name, ledgerJob.name, "two", time.Minute); err != nil {
			t.Fatal(err)
		}
		if _, err := one.round(b.ctx, name, ledgerJob, &tenure{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.snapshot(id).Payment.Status; got != Authorized {
		t.Fatalf("%s: worked without the lease", got)
	}
	for _, name := range b.layout.Names {
		for _, job := range two.jobs()[2:] {
			var ofOne, ofTwo tenure
			if _, err := two.round(b.ctx, name, job, &ofTwo); err != nil {
				t.Fatal(err)
			}
			two.release(b.ctx, name, job, ofTwo)
			if _, err := one.round(b.ctx, name, job, &ofOne); err != nil || !ofTwo.held || !ofOne.held {
				t.Errorf("%s: held by two %t, then by one %t, %v", job.name, ofTwo.held, ofOne.held, err)
			}
		}
	}
	if got := b.snapshot(id).Payment.Status; got != Expired {
		t.Errorf("%s, want EXPIRED", got)
	}
	rolled := int64(0)
	for _, name := range b.layout.Names {
		rolled += b.layout.Count(t, name, `SELECT count(*) FROM rollups`)
	}
	if rolled != 2 {
		t.Errorf("%d roll-ups, want those of receivable and commission", rolled)
	}
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	if err := two.Run(ctx); err != nil {
		t.Errorf("Run after the end: %v", err)
	}
	b.sound()
}

func TestNewNeedsAClock(t *testing.T) {
	if _, err := New(nil, nil, Config{}); err == nil {
		t.Error("made without a clock")
	}
}

func TestPointsAreNamedInOrder(t *testing.T) {
	points := Points()[:16] // of the commands; what follows is the workers'
	if points[0] != "authorize.begun" || points[15] != "refunds.settled" {
		t.Errorf("%v", points)
	}
	b := newBench(t, setup{})
	var passed []Point
	for _, p := range points {
		b.at(p, func() { passed = append(passed, p) })
	}
	id := b.authorizes(p10("k", "pm_ok", Manual), KindAuthorized).PaymentID
	if _, err := b.captures("c", id, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.refundsOf("r", id, nil); err != nil {
		t.Fatal(err)
	}
	id = b.authorizes(p10("k2", "pm_ok", Manual), KindAuthorized).PaymentID
	if _, err := b.voids("v", id); err != nil {
		t.Fatal(err)
	}
	if len(passed) != len(points) {
		t.Errorf("passed %v", passed)
	}
}
