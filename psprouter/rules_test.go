package psprouter

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const fullRules = `{
  "psps": [
    {"name": "stripe", "weight": 70, "costBasisPoints": 150, "costFixedMinor": {"EUR": 25, "USD": 30}, "ratePerSecond": 100, "burst": 200},
    {"name": "adyen", "weight": 30, "standby": true, "countries": ["DE", "NL"], "currencies": ["EUR"],
     "preferCountries": ["NL"], "preferCurrencies": ["EUR"]}
  ],
  "keepWarmPermille": -1, "toleranceBasisPoints": 5, "declineCostBasisPoints": 800, "approvalWindowMs": 60000,
  "breaker": {"failureRatioPermille": 250, "minRequests": 20, "windowMs": 60000, "openForMs": 5000, "probesMax": 2}
}`

func TestParseRules(t *testing.T) {
	r, err := ParseRules([]byte(fullRules))
	if err != nil {
		t.Fatal(err)
	}
	made, err := NewConfigured(r, time.Now, seeded(1), nil, account{"adyen", 1}, account{"stripe", 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := made.rules; got.KeepWarmPermille != 0 || got.ToleranceBasisPoints != 5 || got.Breaker.ProbesMax != 2 || got.PSPs[1].Countries[1] != "NL" {
		t.Errorf("%+v", got)
	}
	if made.paths[0].name != "stripe" {
		t.Error("the order of preference is the rules', not the adapters'")
	}
	if d := (Rules{}).withDefaults(); d.KeepWarmPermille != 50 || d.ToleranceBasisPoints != 10 || d.DeclineCostBasisPoints != 1000 ||
		d.ApprovalWindowMS != 3_600_000 || d.Breaker != (BreakerRules{500, 10, 30_000, 10_000, 1}) {
		t.Errorf("defaults %+v", d)
	}
}

func TestRulesNameTheField(t *testing.T) {
	one := func(members string) string { return `{"psps":[{"name":"stripe","weight":1` + members + `}]}` }
	for _, c := range []struct{ json, want string }{
		{`{"psp":[]}`, `unknown field "psp"`},
		{`{} {}`, "(end)"},
		{`{"psps":[{"name":"stripe","wieght":1}]}`, `unknown field "wieght"`},
		{`{"psps":[{"name":"stripe"}]}`, "psps[0].weight: 0 is not from 1 to 1000"},
		{`{"psps":[{"name":"Stripe","weight":1}]}`, "psps[0].name"},
		{`{"psps":[{"name":"stripe","weight":1},{"name":"stripe","weight":1}]}`, "psps[1].name"},
		{one(`,"costBasisPoints":10001`), "psps[0].costBasisPoints"},
		{one(`,"costBasisPoints":1.4`), "costBasisPoints"},
		{one(`,"costFixedMinor":{"eur":1}`), "psps[0].costFixedMinor"},
		{one(`,"costFixedMinor":{"EUR":-1}`), "psps[0].costFixedMinor.EUR"},
		{one(`,"countries":["Germany"]`), "psps[0].countries"},
		{one(`,"preferCountries":["de"]`), "psps[0].preferCountries"},
		{one(`,"currencies":["XXX"]`), "psps[0].currencies"},
		{one(`,"preferCurrencies":["€"]`), "psps[0].preferCurrencies"},
		{one(`,"ratePerSecond":-1`), "psps[0].ratePerSecond"},
		{one(`,"burst":5`), "psps[0].burst"},
		{one(`,"ratePerSecond":5,"burst":100001`), "psps[0].burst"},
		{`{"keepWarmPermille":501}`, "keepWarmPermille: 501 is not from -1 to 500"},
		{`{"toleranceBasisPoints":-2}`, "toleranceBasisPoints"},
		{`{"declineCostBasisPoints":10001}`, "declineCostBasisPoints"},
		{`{"approvalWindowMs":999}`, "approvalWindowMs"},
		{`{"breaker":{"failureRatioPermille":1001}}`, "breaker.failureRatioPermille"},
		{`{"breaker":{"minRequests":-1}}`, "breaker.minRequests"},
		{`{"breaker":{"windowMs":1}}`, "breaker.windowMs"},
		{`{"breaker":{"openForMs":9}}`, "breaker.openForMs"},
		{`{"breaker":{"probesMax":101}}`, "breaker.probesMax"},
		{`{"psps":[` + strings.Repeat(`{"name":"a","weight":1},`, 16) + `{"name":"a","weight":1}]}`, "psps: at most 16"},
	} {
		if _, err := ParseRules([]byte(c.json)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.json, err, c.want)
		}
	}
}

func TestRulesMeetAdapters(t *testing.T) {
	stripe, adyen := account{"stripe", 1}, account{"adyen", 1}
	rules := Rules{PSPs: []Rule{{Name: "stripe", Weight: 1}}}
	for _, c := range []struct {
		name  string
		rules Rules
		psps  []PSP
		want  string
	}{
		{"an adapter without a rule", rules, []PSP{stripe, adyen}, `psps: there is no rule for the adapter "adyen"`},
		{"a rule without an adapter", rules, nil, `psps[0].name: no adapter is named "stripe"`},
		{"two adapters of one name", rules, []PSP{stripe, stripe}, `two adapters are named "stripe"`},
		{"two of one name without rules", Rules{}, []PSP{stripe, stripe}, `two adapters are named "stripe"`},
		{"a bad figure", Rules{KeepWarmPermille: -2}, []PSP{stripe}, "keepWarmPermille"},
	} {
		if _, err := NewConfigured(c.rules, time.Now, seeded(1), nil, c.psps...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	if _, err := NewConfigured(Rules{}, nil, seeded(1), nil, stripe); err == nil {
		t.Error("no clock")
	}
	if _, err := NewConfigured(Rules{}, time.Now, nil, nil, stripe); err == nil {
		t.Error("no chance")
	}
}

// Whatever the text: rules that are taken make a router that chooses, or are refused with a *RulesError.
func FuzzParseRules(f *testing.F) {
	f.Add([]byte(fullRules))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"psps":[{"name":"a","weight":1000,"costFixedMinor":{"JPY":1000000}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rules, err := ParseRules(data)
		if err != nil {
			return
		}
		tokens := map[string]string{}
		psps := []PSP{}
		for _, rule := range rules.PSPs {
			tokens[rule.Name] = "t"
			psps = append(psps, account{rule.Name, 1})
		}
		r, err := NewConfigured(rules, noon().now, seeded(1), nil, psps...)
		if err != nil {
			t.Fatal(err)
		}
		w := both(999_999_999_999)
		w.Tokens = tokens
		if c, err := r.Choose(w); err == nil && c.Reason == "" || err != nil && !errors.Is(err, ErrNoPSP) {
			t.Fatal(c, err)
		}
	})
}
