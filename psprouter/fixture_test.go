package psprouter

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"paygrid/ledger"
)

// both is a wish that every PSP has a token for.
func both(minor int64) Wish {
	return Wish{Tokens: map[string]string{"stripe": "s", "adyen": "a", "third": "t"}, Amount: ledger.Money{Minor: minor, Currency: "EUR"}}
}

// clock is a clock that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func noon() *clock { return &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

// pass lets that much time pass; only for virtual time.
func pass(d time.Duration) { <-time.After(d) }

// seeded is repeatable chance; not for several goroutines.
func seeded(seed uint64) func(int64) int64 { return rand.New(rand.NewPCG(seed, 1)).Int64N }

func configured(t testing.TB, rules Rules, now func() time.Time, names ...string) *Router {
	t.Helper()
	var psps []PSP
	for _, name := range names {
		psps = append(psps, account{name, 1})
	}
	r, err := NewConfigured(rules, now, seeded(7), nil, psps...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustChoose(t testing.TB, r *Router, w Wish) Choice {
	t.Helper()
	c, err := r.Choose(w)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantUnavailable(t testing.TB, err error) *UnavailableError {
	t.Helper()
	var u *UnavailableError
	if !errors.As(err, &u) {
		t.Fatalf("err = %v, want an UnavailableError", err)
	}
	if u.PSP == "" || u.Why == "" || u.RetryIn <= 0 {
		t.Fatalf("a refusal without a reason or an end: %+v", u)
	}
	return u
}

// outcomes is one of every kind, with what follows from it.
func outcomes() []struct {
	name   string
	out    Outcome
	judged verdict
	moves  bool
} {
	contradicted := NotSentBecause("w")
	contradicted.Alert = true
	return []struct {
		name   string
		out    Outcome
		judged verdict
		moves  bool
	}{
		{"zero", Outcome{}, faultOfPSP, false},
		{"unknown", UnknownBecause("time-out"), faultOfPSP, false},
		{"unknown by us", UnknownByUs("the caller left"), oursAlone, false},
		{"contradiction", Contradiction("another amount"), oursAlone, false},
		{"approved", ApprovedAs("r"), answered, false},
		{"accepted", AcceptedAs("r"), answered, false},
		{"declined", DeclinedWith("insufficient_funds", "w"), answered, false},
		{"action required", RedirectTo("r", "u"), answered, false},
		{"not sent", NotSentBecause("connection refused"), faultOfPSP, true},
		{"not sent, with an alert", contradicted, faultOfPSP, true},
		{"not asked", NotAsked("our limiter"), oursAlone, true},
		{"rejected", RejectedWith("parameter_missing", "w"), oursAlone, false},
	}
}
