package payment

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"paygrid/psprouter"
	"paygrid/shard"
)

// answers of a PSP by name, every class and every flag that decides something.
var answersByName = []struct {
	name    string
	outcome func() psprouter.Outcome
}{
	{"zero", func() psprouter.Outcome { return psprouter.Outcome{} }},
	{"unknown", func() psprouter.Outcome { return psprouter.UnknownBecause("reset after the request") }},
	{"contradiction", func() psprouter.Outcome { return psprouter.Contradiction("amount 1") }},
	{"accepted", func() psprouter.Outcome { return psprouter.AcceptedAs("psp_2") }},
	{"approved", func() psprouter.Outcome { return psprouter.ApprovedAs("psp_2") }},
	{"charged", func() psprouter.Outcome { o := psprouter.ApprovedAs("psp_2"); o.Captured = true; return o }},
	{"declined", func() psprouter.Outcome { return psprouter.DeclinedWith("insufficient_funds", "no") }},
	{"redirect", func() psprouter.Outcome { return psprouter.RedirectTo("psp_2", "https://bank.example/3ds") }},
	{"not sent", func() psprouter.Outcome { return psprouter.NotSentBecause("breaker open") }},
	{"rejected", func() psprouter.Outcome { return psprouter.RejectedWith("amount_too_small", "50 at least") }},
}

// situations are payments with one attempt under way.
var situations = []struct {
	name  string
	build func(*testing.T) (*book, string)
}{
	{"authorize manual", func(t *testing.T) (*book, string) {
		b := opened(t, p10("k", "pm_ok", Manual))
		return b, b.Attempts[0].ID
	}},
	{"authorize automatic", func(t *testing.T) (*book, string) {
		b := opened(t, p10("k", "pm_ok", Automatic))
		return b, b.Attempts[0].ID
	}},
	{"redirected manual", func(t *testing.T) (*book, string) { return redirected(t, Manual) }},
	{"redirected automatic", func(t *testing.T) (*book, string) { return redirected(t, Automatic) }},
	{"capture of all", func(t *testing.T) (*book, string) {
		b := authorized(t, p10("k", "pm_ok", Manual))
		return b, done(t)(b.capture(t, nil, true))
	}},
	{"capture of 6000, rest open", func(t *testing.T) (*book, string) { return capturing(t, 6000, true) }},
	{"capture of 6000, rest released", func(t *testing.T) (*book, string) { return capturing(t, 6000, false) }},
	{"capture of the last 4000", func(t *testing.T) (*book, string) { return laterCapture(t, 4000) }},
	{"capture of 1000 after 6000", func(t *testing.T) (*book, string) { return laterCapture(t, 1000) }},
	{"void", func(t *testing.T) (*book, string) {
		b := authorized(t, p10("k", "pm_ok", Manual))
		return b, done(t)(b.void(t))
	}},
	{"refund of 4000", func(t *testing.T) (*book, string) {
		b := authorized(t, p10("k", "pm_ok", Automatic))
		return b, done(t)(b.refund(t, eur(4000)))
	}},
	{"refund of all", func(t *testing.T) (*book, string) {
		b := authorized(t, p10("k", "pm_ok", Automatic))
		return b, done(t)(b.refund(t, nil))
	}},
	{"refund during a later capture", func(t *testing.T) (*book, string) {
		b, _ := laterCapture(t, 4000)
		return b, done(t)(b.refund(t, eur(2000)))
	}},
}

func redirected(t *testing.T, mode CaptureMode) (*book, string) {
	b := opened(t, p10("k", "pm_3ds", mode))
	b.mustSettle(t, b.Attempts[0].ID, psprouter.RedirectTo("psp_1", "https://bank.example/3ds"))
	return b, b.Attempts[0].ID
}

func capturing(t *testing.T, minor int64, several bool) (*book, string) {
	b := authorized(t, p10("k", "pm_ok", Manual))
	return b, done(t)(b.capture(t, eur(minor), several))
}

func laterCapture(t *testing.T, minor int64) (*book, string) {
	b, first := capturing(t, 6000, true)
	b.mustSettle(t, first, psprouter.ApprovedAs("psp_1"))
	return b, done(t)(b.capture(t, eur(minor), true))
}

// Every kind of attempt with every answer: what becomes of the payment, the attempt, the books and the caller.
func TestSettle(t *testing.T) {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
	for _, s := range situations {
		fmt.Fprintf(w, "%s\t\n", s.name)
		for _, a := range answersByName {
			b, attempt := s.build(t)
			fmt.Fprintf(w, "  %s\t%s\n", a.name, settled(t, b, attempt, a.outcome()))
		}
	}
	_ = w.Flush()
	golden(t, "settle.txt", numbered(out.String()))
}

func settled(t *testing.T, b *book, attempt string, o psprouter.Outcome) string {
	before := *b
	answer, err := b.settle(t, attempt, o)
	if errors.Is(err, errClosed) {
		return "adds nothing"
	}
	if err != nil {
		return err.Error()
	}
	a, _ := attemptOf(b.Snapshot, attempt)
	p := b.Payment
	entry := "no entry"
	if len(b.entries) > len(before.entries) {
		e := b.entries[len(b.entries)-1]
		total, _ := e.Total()
		entry = fmt.Sprintf("%s %d", e.Kind, total)
	}
	stored := "open"
	for ref, k := range b.keys {
		if ref.Key == a.ClientKey && k.AnswerKind != "" {
			stored = k.AnswerKind
		}
	}
	return fmt.Sprintf("%s -> %s\tattempt %s %s\tcaptured %d released %d refunding %d refunded %d\t%s\t%s\tanswer %s, key %s",
		before.Payment.Status, p.Status, a.Status, a.Outcome, p.Captured, p.Released, p.Refunding, p.Refunded, entry,
		b.events[len(b.events)-1].Type, answer.Kind, stored)
}

// The zero Outcome, which no adapter classified, closes nothing anywhere.
func TestZeroOutcomeClosesNothing(t *testing.T) {
	for _, s := range situations {
		b, attempt := s.build(t)
		before := b.Payment
		answer, err := b.settle(t, attempt, psprouter.Outcome{})
		a, _ := attemptOf(b.Snapshot, attempt)
		if a.Status != Pending || b.Payment.Status != before.Status || b.Payment.Captured != before.Captured || b.Payment.Refunded != before.Refunded {
			t.Errorf("%s: attempt %s, payment %s", s.name, a.Status, b.Payment.Status)
		}
		if err == nil && answer.Kind != KindProcessing {
			t.Errorf("%s: answered %s", s.name, answer.Kind)
		}
	}
}

// A second outcome finds the attempt closed, whatever it says.
func TestLateOutcomeChangesNothing(t *testing.T) {
	for _, s := range situations {
		for _, first := range answersByName {
			b, attempt := s.build(t)
			if _, err := b.settle(t, attempt, first.outcome()); err != nil {
				continue
			}
			if a, _ := attemptOf(b.Snapshot, attempt); a.Status == Pending {
				continue
			}
			for _, second := range answersByName {
				if _, _, err := settle(b.Snapshot, attempt, second.outcome(), b.at, lifetime); !errors.Is(err, errClosed) {
					t.Errorf("%s: %s after %s: %v, want errClosed", s.name, second.name, first.name, err)
				}
			}
		}
	}
}

func TestSettleRefusesWhatIsNotThere(t *testing.T) {
	b := authorized(t, p10("k", "pm_ok", Automatic))
	if _, _, err := settle(b.Snapshot, "att_0000_x", psprouter.ApprovedAs("x"), noon, lifetime); !errors.Is(err, shard.ErrNotFound) {
		t.Errorf("an attempt of nobody: %v", err)
	}
	attempt := done(t)(b.refund(t, eur(1)))
	b.Refunds = nil
	if _, _, err := settle(b.Snapshot, attempt, psprouter.ApprovedAs("x"), noon, lifetime); !errors.Is(err, shard.ErrNotFound) {
		t.Errorf("a refund attempt without its refund: %v", err)
	}
}

// An attempt of a kind that nobody wrote settles nothing, even if the PSP approves.
func TestUnheardOfKind(t *testing.T) {
	b := authorized(t, p10("k", "pm_ok", Automatic))
	b.Attempts = append(b.Attempts, shard.Attempt{ID: "att_9", Kind: "GIFT", Status: Pending})
	if _, _, err := settle(b.Snapshot, "att_9", psprouter.ApprovedAs("x"), noon, lifetime); err == nil {
		t.Error("an attempt of kind GIFT was settled")
	}
}

// An answer that settles nothing is kept on the attempt: reference and words help whoever asks next.
func TestNotedAnswerKeepsReferenceAndWords(t *testing.T) {
	b := opened(t, p10("k", "pm_pending", Manual))
	id := b.Attempts[0].ID
	accepted := psprouter.AcceptedAs("pi_7")
	accepted.Reason = "processing"
	b.mustSettle(t, id, accepted)
	b.mustSettle(t, id, psprouter.UnknownBecause("look-up timed out"))
	a := b.Attempts[0]
	if a.PSPRef != "pi_7" || a.Outcome != "UNKNOWN" || a.Detail != "look-up timed out" || a.Status != Pending {
		t.Errorf("%+v", a)
	}
	if b.Payment.PSPRef != "" {
		t.Errorf("the payment took reference %q of an answer that settles nothing", b.Payment.PSPRef)
	}
}

// A redirect is the first answer of its key and stays it; what comes of it later moves the payment.
func TestRedirectThenAnswer(t *testing.T) {
	for _, mode := range []CaptureMode{Manual, Automatic} {
		b, attempt := redirected(t, mode)
		first := b.keys[shard.KeyRef{ClientID: "tk_shop_a", Scope: scopePayments, Key: "k"}]
		if v := viewOf(b.Payment); v.Status != "REQUIRES_ACTION" || v.RedirectURL == "" || first.AnswerKind != string(KindActionRequired) {
			t.Fatalf("%+v, key %s", v, first.AnswerKind)
		}
		o := psprouter.ApprovedAs("psp_1")
		o.Captured = mode == Automatic
		b.mustSettle(t, attempt, o)
		if v := viewOf(b.Payment); v.RedirectURL != "" || v.Captured != map[CaptureMode]int64{Manual: 0, Automatic: 10000}[mode] {
			t.Errorf("%s: %+v", mode, v)
		}
		if now := b.keys[first.KeyRef]; string(now.Answer) != string(first.Answer) {
			t.Errorf("%s: the first answer became %s", mode, now.Answer)
		}
	}
	b, attempt := redirected(t, Manual)
	b.mustSettle(t, attempt, psprouter.DeclinedWith("authentication_failed", "no"))
	if v := viewOf(b.Payment); v.RedirectURL != "" || v.DeclineCode != "authentication_failed" {
		t.Errorf("declined after the redirect: %+v", v)
	}
}

// An authorization runs out when the PSP says, else after the lifetime.
func TestExpiresAt(t *testing.T) {
	b := authorized(t, p10("k", "pm_ok", Manual))
	if !b.Payment.ExpiresAt.Equal(noon.Add(lifetime)) {
		t.Errorf("without the PSP's word: %v", b.Payment.ExpiresAt)
	}
	b = opened(t, p10("k", "pm_ok", Manual))
	o := psprouter.ApprovedAs("pi_1")
	o.ExpiresAt = noon.Add(time.Hour)
	b.mustSettle(t, b.Attempts[0].ID, o)
	if !b.Payment.ExpiresAt.Equal(noon.Add(time.Hour)) {
		t.Errorf("with the PSP's word: %v", b.Payment.ExpiresAt)
	}
}

// C018 (b): the money was captured outside; nobody called our capture. An attempt of our own records it.
func TestC018CapturedOutside(t *testing.T) {
	b := authorized(t, p10("k", "pm_ok", Manual))
	own := newAttempt(b.Payment, AttemptCapture, 10000, "", noon, checkAfter)
	b.Attempts = append(b.Attempts, own)
	keys := len(b.keys)
	b.mustSettle(t, own.ID, psprouter.ApprovedAs("pi_1"))
	if b.Payment.Status != Captured || b.Payment.Captured != 10000 || len(b.keys) != keys {
		t.Fatalf("%s captured %d, %d keys", b.Payment.Status, b.Payment.Captured, len(b.keys))
	}
	refund := done(t)(b.refund(t, eur(300)))
	b.mustSettle(t, refund, psprouter.ApprovedAs("re_1"))
	if v := viewOf(b.Payment); v.Refunded != 300 || v.Refundable != 9700 || v.Status != "CAPTURED" {
		t.Errorf("%+v", v)
	}
}

// C022: no clock ends a refund; its late success posts once, and a second success changes nothing.
func TestC022LateRefundSuccess(t *testing.T) {
	b := authorized(t, p10("k", "pm_ok", Automatic))
	attempt := done(t)(b.refund(t, eur(4000)))
	b.mustSettle(t, attempt, psprouter.AcceptedAs("re_1"))
	b.at = noon.Add(25 * time.Hour)
	b.mustSettle(t, attempt, psprouter.AcceptedAs("re_1"))
	if b.Refunds[0].Status != Pending || b.Payment.Refunding != 4000 {
		t.Fatalf("after 25 h: %s, refunding %d", b.Refunds[0].Status, b.Payment.Refunding)
	}
	_, err := b.refund(t, eur(7000))
	wantError(t, err, CodeRefundExceeds, "/amount/minor", 6000)
	answer := b.mustSettle(t, attempt, psprouter.ApprovedAs("re_1"))
	if answer.Kind != KindRefunded || b.Refunds[0].Status != Succeeded || len(b.entries) != 2 || b.Payment.Refunded != 4000 {
		t.Errorf("%s, refund %s, %d entries", answer.Kind, b.Refunds[0].Status, len(b.entries))
	}
	if _, err := b.settle(t, attempt, psprouter.ApprovedAs("re_1")); !errors.Is(err, errClosed) || len(b.entries) != 2 {
		t.Errorf("the second success: %v, %d entries", err, len(b.entries))
	}
}

func TestClip(t *testing.T) {
	for in, want := range map[string]string{
		"":                                "",
		"plain":                           "plain",
		"a\x00b":                          "ab",
		"a\xffb":                          "ab",
		strings.Repeat("x", maxText):      strings.Repeat("x", maxText),
		strings.Repeat("x", maxText+1):    strings.Repeat("x", maxText),
		strings.Repeat("x", 499) + "é":    strings.Repeat("x", 499),
		strings.Repeat("\x00", 600) + "y": "y",
	} {
		if got := clip(in); got != want {
			t.Errorf("clip(%.20q…) is %.20q… of %d bytes", in, got, len(got))
		}
	}
}

// A move that posts what its transition does not is refused before it reaches a database.
func TestFinishHoldsTheTable(t *testing.T) {
	b := authorized(t, p10("k", "pm_ok", Automatic))
	m, err := begin(b.Payment, OnRefundNoted, noon)
	if err != nil {
		t.Fatal(err)
	}
	m.change.Entry = &b.entries[0]
	var broken *shard.InvariantError
	if _, err := m.finish(); !errors.As(err, &broken) || broken.Invariant != "P5" {
		t.Errorf("got %v, want P5", err)
	}
}
