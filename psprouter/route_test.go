package psprouter

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"paygrid/ledger"
)

// fees are two PSPs of which stripe is dearer: 1.60 % + 0.25 against 1.40 % + 0.10.
func fees() Rules {
	return Rules{PSPs: []Rule{
		{Name: "stripe", Weight: 1, CostBasisPoints: 160, CostFixedMinor: map[ledger.Currency]int64{"EUR": 25}},
		{Name: "adyen", Weight: 1, CostBasisPoints: 140, CostFixedMinor: map[ledger.Currency]int64{"EUR": 10}},
	}}
}

// chosen counts where n payments go. Their outcomes change no rate.
func chosen(t *testing.T, r *Router, w Wish, n int) map[string]int {
	t.Helper()
	got := map[string]int{}
	for range n {
		c := mustChoose(t, r, w)
		got[c.PSP.Name()]++
		c.Done(RejectedWith("our_fault", "counts for nothing"))
	}
	return got
}

func wantShare(t *testing.T, got map[string]int, psp string, permille int) {
	t.Helper()
	all := 0
	for _, n := range got {
		all += n
	}
	if share := got[psp] * 1000 / all; share < permille-20 || share > permille+20 {
		t.Errorf("%s has %d ‰ of %d, want %d ± 20: %v", psp, share, all, permille, got)
	}
}

func TestEqualsShareByWeight(t *testing.T) {
	r := configured(t, Rules{PSPs: []Rule{{Name: "stripe", Weight: 70}, {Name: "adyen", Weight: 30}}}, noon().now, "stripe", "adyen")
	got := chosen(t, r, both(1000), 10_000)
	wantShare(t, got, "stripe", 700)
	wantShare(t, got, "adyen", 300)
}

func TestTheBestTakesAllButWhatKeepsPathsWarm(t *testing.T) {
	rules := fees()
	rules.PSPs = append(rules.PSPs, Rule{Name: "third", Weight: 3, CostBasisPoints: 200})
	rules.KeepWarmPermille = 200
	got := chosen(t, configured(t, rules, noon().now, "stripe", "adyen", "third"), both(10_000), 20_000)
	wantShare(t, got, "adyen", 800)
	wantShare(t, got, "stripe", 50) // a quarter of the rest
	wantShare(t, got, "third", 150)
	rules.KeepWarmPermille = -1
	if got = chosen(t, configured(t, rules, noon().now, "stripe", "adyen", "third"), both(10_000), 100); got["adyen"] != 100 {
		t.Error(got)
	}
}

func TestReasons(t *testing.T) {
	none := int64(-1)
	base := fees()
	base.KeepWarmPermille = none
	with := func(change func(*Rules)) Rules {
		rules := fees()
		rules.KeepWarmPermille = none
		change(&rules)
		return rules
	}
	for _, c := range []struct {
		name   string
		rules  Rules
		wish   func(*Wish)
		before func(*Router)
		psp    string
		reason string
	}{
		{name: "the best", rules: base, psp: "adyen",
			reason: "adyen: best for 100.00 EUR (1.40 % + 0.10 EUR, approval 90.0 %); stripe: 1.60 % + 0.25 EUR, approval 90.0 %"},
		{name: "the only token", rules: base, wish: func(w *Wish) { w.Tokens = map[string]string{"stripe": "s"} }, psp: "stripe",
			reason: "stripe: the only one that can be asked (1.60 % + 0.25 EUR, approval 90.0 %)"},
		{name: "drained", rules: base, before: func(r *Router) { _ = r.Drain("adyen", true, "maintenance") }, psp: "stripe",
			reason: "stripe: the only one that can be asked (1.60 % + 0.25 EUR, approval 90.0 %); adyen: drained: maintenance"},
		{name: "fixed fees decide a small payment", rules: with(func(r *Rules) { r.PSPs[0].CostBasisPoints, r.PSPs[0].CostFixedMinor = 300, nil }),
			wish: func(w *Wish) { w.Amount.Minor = 100 }, psp: "stripe",
			reason: "stripe: best for 1.00 EUR (3.00 %, approval 90.0 %); adyen: 1.40 % + 0.10 EUR, approval 90.0 %"},
		{name: "preferred by country", rules: with(func(r *Rules) { r.PSPs[0].PreferCountries = []string{"FR"} }),
			wish: func(w *Wish) { w.Country = "FR" }, psp: "stripe",
			reason: "stripe: preferred for FR (1.60 % + 0.25 EUR, approval 90.0 %); adyen: 1.40 % + 0.10 EUR, approval 90.0 %"},
		{name: "preferred by currency", rules: with(func(r *Rules) { r.PSPs[0].PreferCurrencies = []ledger.Currency{"EUR"} }), psp: "stripe",
			reason: "stripe: preferred for EUR (1.60 % + 0.25 EUR, approval 90.0 %); adyen: 1.40 % + 0.10 EUR, approval 90.0 %"},
		{name: "not for the currency", rules: with(func(r *Rules) { r.PSPs[1].Currencies = []ledger.Currency{"USD"} }), psp: "stripe",
			reason: "stripe: the only one that can be asked (1.60 % + 0.25 EUR, approval 90.0 %); adyen: not for EUR"},
		{name: "not for the country", rules: with(func(r *Rules) { r.PSPs[1].Countries = []string{"DE"} }), wish: func(w *Wish) { w.Country = "FR" }, psp: "stripe",
			reason: "stripe: the only one that can be asked (1.60 % + 0.25 EUR, approval 90.0 %); adyen: not for country FR"},
		{name: "no country is known", rules: with(func(r *Rules) { r.PSPs[1].Countries = []string{"DE"} }), psp: "stripe",
			reason: "stripe: the only one that can be asked (1.60 % + 0.25 EUR, approval 90.0 %); adyen: not for an unknown country"},
		{name: "standby waits", rules: with(func(r *Rules) { r.PSPs[1].Standby = true }), psp: "stripe",
			reason: "stripe: best for 100.00 EUR (1.60 % + 0.25 EUR, approval 90.0 %); adyen: 1.40 % + 0.10 EUR, approval 90.0 %"},
		{name: "among equals", rules: Rules{}, wish: func(w *Wish) { w.Sticky = 3 }, psp: "adyen",
			reason: "adyen: by weight 1 of 2 among equals for 100.00 EUR (approval 90.0 %); stripe: approval 90.0 %"},
		{name: "declines turn the traffic", rules: base, psp: "stripe", before: func(r *Router) { answers(r, "adyen", 60, 40) },
			reason: "stripe: best for 100.00 EUR (1.60 % + 0.25 EUR, approval 70.0 %); adyen: 1.40 % + 0.10 EUR, approval 63.3 %"},
		{name: "declines do not count", rules: with(func(r *Rules) { r.DeclineCostBasisPoints = none }), psp: "adyen",
			before: func(r *Router) { answers(r, "adyen", 60, 40) },
			reason: "adyen: best for 100.00 EUR (1.40 % + 0.10 EUR, approval 63.3 %); stripe: 1.60 % + 0.25 EUR, approval 70.0 %"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := configured(t, c.rules, noon().now, "stripe", "adyen")
			if c.before != nil {
				c.before(r)
			}
			w := both(10_000)
			if c.wish != nil {
				c.wish(&w)
			}
			got := mustChoose(t, r, w)
			if got.PSP.Name() != c.psp || got.Reason != c.reason || got.Token != w.Tokens[c.psp] {
				t.Errorf("got  %s\nwant %s", got.Reason, c.reason)
			}
		})
	}
}

// answers notes cards' answers at a PSP.
func answers(r *Router, psp string, approved, declined int) {
	p, _ := r.path(psp)
	for range approved {
		p.gates[OpAuthorize].tally.note(r.now(), ApprovedAs("r"))
	}
	for range declined {
		p.gates[OpAuthorize].tally.note(r.now(), DeclinedWith("c", "w"))
	}
}

func TestWarmReason(t *testing.T) {
	r := configured(t, fees(), noon().now, "stripe", "adyen")
	for range 1000 {
		if c := mustChoose(t, r, both(10_000)); c.PSP.Name() == "stripe" {
			want := "stripe: one of the 5.0 % that keep paths warm (1.60 % + 0.25 EUR, approval 90.0 %); adyen: 1.40 % + 0.10 EUR, approval 90.0 %"
			if c.Reason != want {
				t.Errorf("got  %s\nwant %s", c.Reason, want)
			}
			return
		}
	}
	t.Error("the dearer path was never used")
}

// What stands in the way decides the error: what may pass comes before what never will.
func TestRefusals(t *testing.T) {
	odd, even := both(101), both(100)
	r, err := NewConfigured(Rules{PSPs: []Rule{{Name: "stripe", Weight: 1}, {Name: "adyen", Weight: 1, Currencies: []ledger.Currency{"USD"}},
		{Name: "third", Weight: 1, RatePerSecond: 2, Burst: 1}}}, noon().now, seeded(1), nil, account{"stripe", 10}, account{"adyen", 1}, account{"third", 1})
	if err != nil {
		t.Fatal(err)
	}
	only := func(w Wish, psps ...string) Wish {
		tokens := map[string]string{}
		for _, p := range psps {
			tokens[p] = w.Tokens[p]
		}
		w.Tokens = tokens
		return w
	}
	_, err = r.Choose(only(even))
	if !errors.Is(err, ErrNoPSP) {
		t.Errorf("no token: %v", err)
	}
	_, err = r.Choose(only(even, "adyen"))
	if !errors.Is(err, ErrNoPSP) || !strings.Contains(err.Error(), "adyen: not for EUR") {
		t.Errorf("against the rules: %v", err)
	}
	var amount *AmountError
	if _, err = r.Choose(only(odd, "adyen", "stripe")); !errors.As(err, &amount) || amount.PSP != "stripe" {
		t.Errorf("amount: %v", err)
	}
	mustChoose(t, r, only(odd, "third"))
	_, err = r.Choose(only(odd, "third", "stripe", "adyen"))
	u := wantUnavailable(t, err)
	if want := "stripe: not a multiple; adyen: not for EUR; third: our rate limit is used up"; u.Why != want || u.RetryIn != 500*time.Millisecond {
		t.Errorf("got %+v, want %s", u, want)
	}
	if err := r.Drain("stripe", true, "outage"); err != nil {
		t.Fatal(err)
	}
	_, err = r.Choose(only(even, "stripe", "third"))
	if u := wantUnavailable(t, err); u.PSP != "third" {
		t.Errorf("come back for %s first", u.PSP)
	}
	if _, err = r.Choose(only(even, "stripe")); wantUnavailable(t, err).Why != "stripe: drained: outage" {
		t.Error(err)
	}
}

func TestElsewhereNeverGoesBack(t *testing.T) {
	r := configured(t, Rules{}, noon().now, "stripe", "adyen", "third")
	out := NotSentBecause("connection refused")
	proof, _ := out.NotSent()
	seen := map[string]bool{}
	c := mustChoose(t, r, both(100))
	for {
		if seen[c.PSP.Name()] {
			t.Fatalf("%s was asked twice", c.PSP.Name())
		}
		if len(seen) > 0 && !strings.Contains(c.Reason, "in place of") {
			t.Errorf("the reason hides the way: %s", c.Reason)
		}
		seen[c.PSP.Name()] = true
		c.Done(out)
		next, ok := r.Elsewhere(c, proof, both(100))
		if !ok {
			break
		}
		c = next
	}
	if len(seen) != 3 {
		t.Errorf("asked %v, want all three", seen)
	}
}

func TestDrainKeepsLaterOperations(t *testing.T) {
	r := configured(t, Rules{}, noon().now, "stripe")
	if err := r.Drain("stripe", true, strings.Repeat("long ", 100)); err != nil {
		t.Fatal(err)
	}
	_, err := r.Choose(both(100))
	if u := wantUnavailable(t, err); len([]rune(u.Why)) > maxWhy+40 {
		t.Errorf("the reason is %d long", len(u.Why))
	}
	for _, operation := range []string{OpCapture, OpVoid, OpRefund, OpInquiry} {
		if _, done, err := r.Permit("stripe", operation); err != nil {
			t.Error(operation, err)
		} else {
			done(ApprovedAs("r"))
		}
	}
	if err := r.Drain("stripe", false, ""); err != nil {
		t.Fatal(err)
	}
	mustChoose(t, r, both(100)).Done(ApprovedAs("r"))
	if err := r.Drain("paypal", true, "x"); !errors.Is(err, ErrUnknownPSP) {
		t.Error(err)
	}
}

func TestPermitRefusals(t *testing.T) {
	r := configured(t, Rules{PSPs: []Rule{{Name: "stripe", Weight: 1, RatePerSecond: 1, Burst: 1}}}, noon().now, "stripe")
	if _, _, err := r.Permit("paypal", OpCapture); !errors.Is(err, ErrUnknownPSP) {
		t.Error(err)
	}
	for _, operation := range []string{OpAuthorize, "", "capture"} {
		if _, _, err := r.Permit("stripe", operation); !errors.Is(err, ErrOperation) {
			t.Error(operation, err)
		}
	}
	if _, _, err := r.Permit("stripe", OpCapture); err != nil {
		t.Fatal(err)
	}
	_, _, err := r.Permit("stripe", OpInquiry)
	if u := wantUnavailable(t, err); u.RetryIn != time.Second || u.PSP != "stripe" {
		t.Errorf("%+v", u)
	}
}

// One payment's choice can be made again; different payments spread.
func TestStickyIsRepeatable(t *testing.T) {
	r := configured(t, Rules{PSPs: []Rule{{Name: "stripe", Weight: 70}, {Name: "adyen", Weight: 30}}}, noon().now, "stripe", "adyen")
	got := map[string]int{}
	for sticky := range uint64(10_000) {
		w := both(1000)
		w.Sticky = sticky + 1
		first := mustChoose(t, r, w)
		if again := mustChoose(t, r, w); again.PSP != first.PSP || again.Reason != first.Reason {
			t.Fatalf("%d goes to %s and to %s", sticky, first.PSP.Name(), again.PSP.Name())
		}
		got[first.PSP.Name()]++
	}
	wantShare(t, got, "stripe", 700)
}

// Whatever the rules and the wish: a choice has a token, an amount that fits, the rules' leave and a reason that names it,
// and a refusal says why.
func TestChoiceProperties(t *testing.T) {
	names := []string{"stripe", "adyen", "third"}
	rapid.Check(t, func(t *rapid.T) {
		rules, steps := drawRules(t, names), map[string]int64{}
		var psps []PSP
		for _, name := range names {
			steps[name] = rapid.SampledFrom([]int64{1, 10}).Draw(t, "step")
			psps = append(psps, account{name, steps[name]})
		}
		r, err := NewConfigured(rules, noon().now, seeded(rapid.Uint64().Draw(t, "seed")), nil, psps...)
		if err != nil {
			t.Fatal(err)
		}
		drained := rapid.SampledFrom(append(names, "")).Draw(t, "drained")
		_ = r.Drain(drained, true, "by hand")
		for range 20 {
			w := drawWish(t, names)
			c, err := r.Choose(w)
			if err != nil {
				checkRefusal(t, err)
				continue
			}
			name := c.PSP.Name()
			rule, _, _ := r.rules.ruleOf(name)
			switch {
			case w.Tokens[name] == "" || c.Token != w.Tokens[name]:
				t.Fatalf("%s has no token", name)
			case w.Amount.Minor%steps[name] != 0 || rule.allows(w) != "" || name == drained:
				t.Fatalf("%s may not take it: %s", name, c.Reason)
			case !strings.HasPrefix(c.Reason, name+": ") || len(c.Reason) > 1000:
				t.Fatalf("reason %q", c.Reason)
			}
			c.Done(rapid.SampledFrom([]Outcome{ApprovedAs("r"), DeclinedWith("c", "w"), RejectedWith("c", "w")}).Draw(t, "outcome"))
		}
	})
}

func checkRefusal(t *rapid.T, err error) {
	var u *UnavailableError
	var amount *AmountError
	switch {
	case errors.As(err, &u):
		if u.PSP == "" || u.Why == "" || u.RetryIn <= 0 {
			t.Fatalf("%+v", u)
		}
	case errors.As(err, &amount), errors.Is(err, ErrNoPSP):
	default:
		t.Fatalf("a refusal without a type: %v", err)
	}
}

func drawRules(t *rapid.T, names []string) Rules {
	r := Rules{KeepWarmPermille: rapid.Int64Range(-1, 500).Draw(t, "warm"), ToleranceBasisPoints: rapid.Int64Range(-1, 10_000).Draw(t, "tolerance"),
		DeclineCostBasisPoints: rapid.Int64Range(-1, 10_000).Draw(t, "decline cost")}
	for _, name := range rapid.Permutation(names).Draw(t, "order") {
		r.PSPs = append(r.PSPs, Rule{Name: name, Weight: rapid.Int64Range(1, 1000).Draw(t, "weight"), Standby: rapid.Bool().Draw(t, "standby"),
			CostBasisPoints: rapid.Int64Range(0, 10_000).Draw(t, "cost"), CostFixedMinor: map[ledger.Currency]int64{"EUR": rapid.Int64Range(0, maxFixedMinor).Draw(t, "fixed")},
			Countries: rapid.SampledFrom([][]string{nil, {"DE"}, {"DE", "FR"}}).Draw(t, "countries"), PreferCountries: rapid.SampledFrom([][]string{nil, {"FR"}}).Draw(t, "prefer"),
			Currencies:    rapid.SampledFrom([][]ledger.Currency{nil, {"EUR"}, {"USD", "JPY"}}).Draw(t, "currencies"),
			RatePerSecond: rapid.SampledFrom([]int64{0, 0, 5}).Draw(t, "rate")})
	}
	return r
}

func drawWish(t *rapid.T, names []string) Wish {
	w := Wish{Tokens: map[string]string{}, Country: rapid.SampledFrom([]string{"", "DE", "FR", "US"}).Draw(t, "country"),
		Amount: ledger.Money{Minor: rapid.Int64Range(1, ledger.MaxAmountMinor).Draw(t, "minor"), Currency: rapid.SampledFrom([]ledger.Currency{"EUR", "USD", "JPY"}).Draw(t, "currency")},
		Sticky: rapid.SampledFrom([]uint64{0, 1, 1 << 63}).Draw(t, "sticky")}
	for _, name := range names {
		w.Tokens[name] = rapid.SampledFrom([]string{"", "token"}).Draw(t, "token of "+name)
	}
	return w
}

// A score never overflows, never falls with the amount, the fee or the declines.
func TestScoreIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := Rule{CostBasisPoints: rapid.Int64Range(0, allBasis-1).Draw(t, "cost"), CostFixedMinor: map[ledger.Currency]int64{"EUR": rapid.Int64Range(0, maxFixedMinor).Draw(t, "fixed")}}
		m := ledger.Money{Minor: rapid.Int64Range(0, ledger.MaxAmountMinor-1).Draw(t, "minor"), Currency: "EUR"}
		approval, lost := rapid.Int64Range(1, allPermille).Draw(t, "approval"), rapid.Int64Range(0, allBasis).Draw(t, "lost")
		base := score(rule, m, approval, lost)
		if base < 0 || score(rule, m, approval-1, lost) < base {
			t.Fatal("declines make it cheaper")
		}
		dearer := rule
		dearer.CostBasisPoints++
		if score(dearer, m, approval, lost) < base {
			t.Fatal("a higher fee makes it cheaper")
		}
		m.Minor++
		if score(rule, m, approval, lost) < base {
			t.Fatal("a higher amount makes it cheaper")
		}
	})
}

// Many at once, with a person who drains and one who looks: run with -race.
func TestConcurrentUse(t *testing.T) {
	var mu sync.Mutex
	chance := seeded(3)
	at := noon()
	pick := func(n int64) int64 { mu.Lock(); defer mu.Unlock(); return chance(n) }
	rules := fees()
	rules.PSPs[0].RatePerSecond, rules.PSPs[0].Burst = 1000, 500
	r, err := NewConfigured(rules, at.now, pick, nil, account{"stripe", 1}, account{"adyen", 1})
	if err != nil {
		t.Fatal(err)
	}
	kinds := outcomes()
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for n := range 300 {
				w := both(int64(n + 1))
				w.Sticky = uint64(worker*1000 + n)
				if c, err := r.Choose(w); err == nil {
					out := kinds[(n+worker)%len(kinds)].out
					var ends sync.WaitGroup
					for range 2 {
						ends.Go(func() { c.Done(out) })
					}
					ends.Wait()
					if proof, ok := out.NotSent(); ok {
						if next, ok := r.Elsewhere(c, proof, w); ok {
							next.Done(ApprovedAs("r"))
						}
					}
				}
				if _, done, err := r.Permit("adyen", OpInquiry); err == nil {
					done(ApprovedAs("r"))
				}
				if n%50 == 0 {
					_ = r.Drain("adyen", n%100 == 0, fmt.Sprint(worker))
					_ = r.Status()
				}
			}
		})
	}
	group.Wait()
	total := int64(0)
	for _, s := range r.Status() {
		if s.Operation == OpInquiry {
			total += s.Answered
		}
	}
	if total != 8*300 {
		t.Errorf("%d inquiries were counted, want %d", total, 8*300)
	}
}

func BenchmarkChoose(b *testing.B) {
	r := configured(b, fees(), noon().now, "stripe", "adyen")
	w := both(10_000)
	w.Sticky = 1
	for b.Loop() {
		mustChoose(b, r, w).Done(ApprovedAs("r"))
	}
}
