package payment

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"paygrid/psprouter"
	"paygrid/shard"
)

const (
	bothPeople = "asked by u-kim, approved by u-lee"
	why        = "the PSP's dashboard"
)

// lost starts a payment whose answer is lost, and returns it with its attempt.
func (b *bench) lost(key string, mode CaptureMode) (payment, attempt string) {
	b.t.Helper()
	id := b.authorizes(p10(key, "pm_ok_drop", mode), KindProcessing).PaymentID
	return id, b.snapshot(id).Attempts[0].ID
}

func (b *bench) wantCode(err error, want Code) {
	b.t.Helper()
	var refusal *Error
	if !errors.As(err, &refusal) || refusal.Code != want || refusal.Remedy == "" {
		b.t.Errorf("got %v, want %s", err, want)
	}
}

// Each outcome by hand ends the payment as the PSP's own word would have, and the attempt says who said so.
func TestSettleByHand(t *testing.T) {
	b := newBench(t, setup{})
	for name, c := range map[string]struct {
		mode    CaptureMode
		outcome psprouter.Outcome
		payment shard.Status
		attempt shard.Status
		entries int
	}{
		"approved, manual":    {Manual, psprouter.ApprovedAs("pi_hand"), Authorized, Succeeded, 0},
		"approved, automatic": {Automatic, psprouter.ApprovedAs("pi_hand"), Captured, Succeeded, 1},
		"declined":            {Manual, psprouter.DeclinedWith("settled_by_hand", ""), Declined, FailedEnd, 0},
		"absent":              {Automatic, psprouter.NotSentBecause(""), Failed, NotSent, 0},
	} {
		id, attempt := b.lost(name, c.mode)
		if err := b.CheckByHand(b.ctx, id, attempt, c.outcome, why); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.SettleByHand(b.ctx, id, attempt, c.outcome, bothPeople, why); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s := b.snapshot(id)
		a := s.Attempts[0]
		if s.Payment.Status != c.payment || a.Status != c.attempt || len(b.entries(id)) != c.entries {
			t.Errorf("%s: payment %s, attempt %s, %d entries", name, s.Payment.Status, a.Status, len(b.entries(id)))
		}
		for _, says := range []string{"u-kim", "u-lee", why} {
			if !strings.Contains(a.Detail, says) {
				t.Errorf("%s: the attempt does not say %q: %s", name, says, a.Detail)
			}
		}
		found, err := b.shards.Find(b.ctx, id, shard.KeyRef{ClientID: "tk_shop_a", Scope: scopePayments, Key: name})
		if err != nil || found.Key == nil || len(found.Key.Answer) == 0 || bytes.Contains(found.Key.Answer, []byte("u-kim")) {
			t.Errorf("%s: the client's answer is missing or names our people: %s, %v", name, found.Key.Answer, err)
		}
		b.wantCode(b.SettleByHand(b.ctx, id, attempt, c.outcome, bothPeople, why), CodeWrongState)
	}
}

func TestSettleByHandRefuses(t *testing.T) {
	b := newBench(t, setup{})
	id, attempt := b.lost("k", Manual)
	other, _ := b.lost("k2", Manual)
	approved := psprouter.ApprovedAs("pi_hand")
	for name, c := range map[string]struct {
		payment, attempt, actor, reason string
		outcome                         psprouter.Outcome
		want                            Code
	}{
		"no such payment":          {"pay_x", attempt, bothPeople, why, approved, CodeNotFound},
		"another payment's":        {other, attempt, bothPeople, why, approved, CodeNotFound},
		"approval, no reference":   {id, attempt, bothPeople, why, psprouter.ApprovedAs(""), CodeInvalid},
		"unprintable reference":    {id, attempt, bothPeople, why, psprouter.ApprovedAs("pi\x1b"), CodeInvalid},
		"no reason":                {id, attempt, bothPeople, "", approved, CodeInvalid},
		"a reason that is a novel": {id, attempt, bothPeople, strings.Repeat("x", maxReason+1), approved, CodeInvalid},
		"nobody":                   {id, attempt, "", why, approved, CodeInvalid},
		"unknown":                  {id, attempt, bothPeople, why, psprouter.UnknownBecause("?"), CodeInvalid},
		"accepted":                 {id, attempt, bothPeople, why, psprouter.AcceptedAs("pi"), CodeInvalid},
		"a redirect":               {id, attempt, bothPeople, why, psprouter.RedirectTo("pi", "https://x"), CodeInvalid},
	} {
		if err := b.SettleByHand(b.ctx, c.payment, c.attempt, c.outcome, c.actor, c.reason); err == nil {
			t.Errorf("%s: taken", name)
		} else {
			b.wantCode(err, c.want)
		}
	}
	if s := b.snapshot(id); s.Attempts[0].Status != Pending || s.Payment.Version != 2 {
		t.Errorf("something was written: %+v", s.Attempts[0])
	}
}

// People were wrong: they called declined what the PSP had charged. Late news is dealt with as if the PSP had said it.
func TestPeopleCanBeWrong(t *testing.T) {
	b := newBench(t, setup{})
	id, attempt := b.lost("k", Automatic)
	if err := b.SettleByHand(b.ctx, id, attempt, psprouter.DeclinedWith("settled_by_hand", ""), bothPeople, why); err != nil {
		t.Fatal(err)
	}
	b.clock.advance(time.Second)
	ref := b.sim.Books().Payments[0].Ref
	charged := psprouter.ApprovedAs(ref)
	charged.Captured = true
	if err := b.learned(b.ctx, id, attempt, fact{outcome: charged}); err != nil {
		t.Fatal(err)
	}
	s := b.snapshot(id)
	if len(s.Attempts) != 2 || s.Attempts[1].Kind != AttemptRefund || s.Payment.Status != Declined {
		t.Fatalf("no attempt gives it back: %+v", s.Attempts)
	}
	undo := s.Attempts[1].ID
	b.wantCode(b.SettleByHand(b.ctx, id, undo, psprouter.NotSentBecause(""), bothPeople, why), CodeWrongState)
	if n, err := b.ResolveOn(b.ctx, b.layout.Map.Owner(shard.BucketOf("tk_shop_a", "k")).Shard, "w"); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	b.sound()
}

// What people did is in the log, with who and why.
func TestByHandIsLogged(t *testing.T) {
	b := newBench(t, setup{})
	var log bytes.Buffer
	b.config.Log = slog.New(slog.NewJSONHandler(&log, nil))
	id, attempt := b.lost("k", Manual)
	if err := b.SettleByHand(b.ctx, id, attempt, psprouter.ApprovedAs("pi_hand"), bothPeople, why); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{id, attempt, "APPROVED", "pi_hand", bothPeople, why} {
		if !strings.Contains(log.String(), says) {
			t.Errorf("no %q in %s", says, log.String())
		}
	}
}

// The story of a payment that nobody had an answer for: what was asked, what the PSP's notices said, who settled it.
func TestExplainAnUnknown(t *testing.T) {
	b := newBench(t, setup{})
	id, attempt := b.lost("k", Manual)
	name := b.layout.Map.Owner(shard.BucketOf("tk_shop_a", "k")).Shard
	bucket, err := shard.BucketOfID(shard.PaymentPrefix, id)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		b.clock.advance(30 * time.Minute)
		if _, err := b.shards.ClaimAttempts(b.ctx, name, "w", b.now(), b.now().Add(time.Minute), 10); err != nil {
			t.Fatal(err)
		}
		given, err := b.shards.Reschedule(b.ctx, name, "w", []shard.Recheck{{AttemptID: attempt, Absent: int32(n), Escalated: n == 2,
			NextAt: b.now().Add(10 * time.Minute), Detail: "no answer"}})
		if err != nil || !given[0] {
			t.Fatal(given, err)
		}
	}
	item := shard.InboxItem{Bucket: bucket, PSP: "stripe", EventID: "evt_x", Kind: "payment_intent.succeeded", AttemptID: attempt, Raw: []byte("secret")}
	if _, err := b.shards.PutInbox(b.ctx, item, b.now()); err != nil {
		t.Fatal(err)
	}
	check := func(want ...string) {
		t.Helper()
		x, err := Explain(b.ctx, b.shards, id)
		if err != nil {
			t.Fatal(err)
		}
		var page bytes.Buffer
		if err := x.Write(&page); err != nil {
			t.Fatal(err)
		}
		for _, says := range want {
			if !strings.Contains(page.String(), says) {
				t.Errorf("no %q in\n%s", says, page.String())
			}
		}
		if strings.Contains(indented(t, x), "secret") {
			t.Error("the story shows what the notice said")
		}
		a := x.Attempts[0]
		if a.Checks != 3 || a.AbsentChecks != 2 || !a.Escalated || len(x.Notices) != 1 || a.NextCheckAt.IsZero() != (a.Status != "PENDING") {
			t.Errorf("attempt %+v, notices %+v", a, x.Notices)
		}
	}
	check("checked", "3 times, no record there in the last 2", "were told", "next check", "2026-03-01T13:40:00Z", "notices",
		"payment_intent.succeeded", "evt_x")
	if err := b.SettleByHand(b.ctx, id, attempt, psprouter.ApprovedAs("pi_hand"), bothPeople, why); err != nil {
		t.Fatal(err)
	}
	check("settled by hand", "u-kim", "u-lee", "3 times", "evt_x", "AUTHORIZED")
}
