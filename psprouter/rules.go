package psprouter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"paygrid/ledger"
)

// Rules say how a Router chooses, as JSON configuration. A figure that is 0 or missing means the default beside it. They
// hold for one process: where n processes share a PSP's rate limit, each gets an n-th of it.
type Rules struct {
	// PSPs are the PSPs in order of preference where nothing else decides. Empty means every adapter with weight 1 and no
	// costs; otherwise every adapter must be named once.
	PSPs []Rule `json:"psps"`
	// KeepWarmPermille of the payments go to PSPs that are not the best, by weight, so that a path is known to work
	// before it is needed. 50; -1 = none. At most 500.
	KeepWarmPermille int64 `json:"keepWarmPermille"`
	// ToleranceBasisPoints of the amount is how much more than the best a PSP may cost, lost commission included, and still
	// share by weight with it. 10 (0.1 %); -1 = none. At most 10,000.
	ToleranceBasisPoints int64 `json:"toleranceBasisPoints"`
	// DeclineCostBasisPoints of the amount is what a declined payment costs us: the commission that is not earned. It is
	// what approval rates are weighed with. 1,000; -1 = approval rates do not count. At most 10,000.
	DeclineCostBasisPoints int64 `json:"declineCostBasisPoints"`
	// ApprovalWindowMS is how far back rates reach. 3,600,000 (1 h); 1,000 to 86,400,000.
	ApprovalWindowMS int64        `json:"approvalWindowMs"`
	Breaker          BreakerRules `json:"breaker"`
}

// Rule says what is known of one PSP.
type Rule struct {
	// Name is the adapter's: "stripe".
	Name string `json:"name"`
	// Weight is the PSP's share among equals, relative to the others' weights. 1 to 1,000; it has no default.
	Weight int64 `json:"weight"`
	// Standby keeps the PSP for payments that no other can take now.
	Standby bool `json:"standby"`
	// CostBasisPoints of the amount is the PSP's fee: 140 is 1.4 %. 0 to 10,000.
	CostBasisPoints int64 `json:"costBasisPoints"`
	// CostFixedMinor is the fee per payment in minor units of each currency: {"EUR": 25}. A currency that is not named has
	// no fixed part. 0 to 1,000,000 each.
	CostFixedMinor map[ledger.Currency]int64 `json:"costFixedMinor"`
	// Countries (ISO 3166-1 alpha-2, of the buyer) and Currencies are all that the PSP may take; empty means any.
	Countries  []string          `json:"countries"`
	Currencies []ledger.Currency `json:"currencies"`
	// PreferCountries and PreferCurrencies go to this PSP before cost is looked at, as long as it is usable.
	PreferCountries  []string          `json:"preferCountries"`
	PreferCurrencies []ledger.Currency `json:"preferCurrencies"`
	// RatePerSecond is how many calls of all operations the PSP's contract allows; 0 means no limit. At most 100,000.
	RatePerSecond int64 `json:"ratePerSecond"`
	// Burst is how many calls may come at once. RatePerSecond; at most 100,000. A tenth is kept for calls that are not new
	// payments: looking up what is unknown must not starve behind new money.
	Burst int64 `json:"burst"`
}

// BreakerRules say when a PSP's operation is left alone for a while.
type BreakerRules struct {
	// FailureRatioPermille of the finished calls in the window must have failed. 500; 1 to 1,000.
	FailureRatioPermille int64 `json:"failureRatioPermille"`
	// MinRequests must have finished in the window before the ratio means anything. 10; 1 to 100,000.
	MinRequests int64 `json:"minRequests"`
	// WindowMS is the window of both. 30,000; 1,000 to 3,600,000.
	WindowMS int64 `json:"windowMs"`
	// OpenForMS is how long no call is made before one is tried. 10,000; 10 to 3,600,000.
	OpenForMS int64 `json:"openForMs"`
	// ProbesMax is how many calls may be tried at once then; all must succeed to close the breaker. 1; at most 100.
	ProbesMax int64 `json:"probesMax"`
}

// RulesError is a rule that cannot be used.
type RulesError struct {
	Field string // "psps[1].weight"
	Why   string // what is wrong and what to write
}

func (e *RulesError) Error() string { return "psprouter: rules: " + e.Field + ": " + e.Why }

// ParseRules reads rules from JSON, strictly: an unknown member, a second text or a value that breaks its documented range
// is an error. NewConfigured checks the names against the adapters.
func ParseRules(data []byte) (Rules, error) {
	var r Rules
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return Rules{}, fmt.Errorf("psprouter: rules: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Rules{}, &RulesError{Field: "(end)", Why: "there is something after the rules: remove it"}
	}
	return r, r.check()
}

// maxPSPs bounds the length of a reason and the work of a choice.
const maxPSPs = 16

// The limits below are far from what is real; they keep the arithmetic of scores inside int64.
const (
	maxWeight     = 1_000
	maxFixedMinor = 1_000_000
	maxRate       = 100_000
	allPermille   = 1_000
	allBasis      = 10_000
	keptDivisor   = 10 // a tenth of a burst is not for new payments
)

// figure is one number of the rules with the range that is documented beside it.
type figure struct {
	field           string
	value, from, to int64
}

// check returns a *RulesError for the first value that breaks its documented range.
func (r Rules) check() error {
	b := r.Breaker
	figures := []figure{
		{"keepWarmPermille", r.KeepWarmPermille, -1, allPermille / 2}, {"toleranceBasisPoints", r.ToleranceBasisPoints, -1, allBasis},
		{"declineCostBasisPoints", r.DeclineCostBasisPoints, -1, allBasis},
		{"approvalWindowMs", orDefault(r.ApprovalWindowMS, 3_600_000), 1_000, 86_400_000},
		{"breaker.failureRatioPermille", b.FailureRatioPermille, 0, allPermille}, {"breaker.minRequests", b.MinRequests, 0, 100_000},
		{"breaker.windowMs", orDefault(b.WindowMS, 30_000), 1_000, 3_600_000},
		{"breaker.openForMs", orDefault(b.OpenForMS, 10_000), 10, 3_600_000}, {"breaker.probesMax", b.ProbesMax, 0, 100},
	}
	if len(r.PSPs) > maxPSPs {
		return &RulesError{Field: "psps", Why: fmt.Sprintf("at most %d", maxPSPs)}
	}
	for n, rule := range r.PSPs {
		at := fmt.Sprintf("psps[%d].", n)
		figures = append(figures,
			figure{at + "weight", rule.Weight, 1, maxWeight}, figure{at + "costBasisPoints", rule.CostBasisPoints, 0, allBasis},
			figure{at + "ratePerSecond", rule.RatePerSecond, 0, maxRate}, figure{at + "burst", rule.Burst, 0, maxRate})
		if err := rule.check(at); err != nil {
			return err
		}
		if slices.ContainsFunc(r.PSPs[:n], func(other Rule) bool { return other.Name == rule.Name }) {
			return &RulesError{Field: at + "name", Why: fmt.Sprintf("%q is there twice: write one rule per PSP", rule.Name)}
		}
	}
	for _, f := range figures {
		if f.value < f.from || f.value > f.to {
			return &RulesError{Field: f.field, Why: fmt.Sprintf("%d is not from %d to %d", f.value, f.from, f.to)}
		}
	}
	return nil
}

// check looks at what is no plain figure.
func (r Rule) check(at string) error {
	if !regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`).MatchString(r.Name) {
		return &RulesError{Field: at + "name", Why: "write an adapter's name: lower-case letters, digits, _, at most 32"}
	}
	if r.Burst > 0 && r.RatePerSecond == 0 {
		return &RulesError{Field: at + "burst", Why: "there is no ratePerSecond that it could belong to"}
	}
	for code, fee := range r.CostFixedMinor {
		if _, err := ledger.ParseCurrency(string(code)); err != nil {
			return &RulesError{Field: at + "costFixedMinor", Why: err.Error()}
		}
		if fee < 0 || fee > maxFixedMinor {
			return &RulesError{Field: at + "costFixedMinor." + string(code), Why: fmt.Sprintf("%d is not from 0 to %d", fee, maxFixedMinor)}
		}
	}
	for field, codes := range map[string][]ledger.Currency{"currencies": r.Currencies, "preferCurrencies": r.PreferCurrencies} {
		for _, code := range codes {
			if _, err := ledger.ParseCurrency(string(code)); err != nil {
				return &RulesError{Field: at + field, Why: err.Error()}
			}
		}
	}
	for field, codes := range map[string][]string{"countries": r.Countries, "preferCountries": r.PreferCountries} {
		for _, code := range codes {
			if len(code) != 2 || !isUpper(code[0]) || !isUpper(code[1]) {
				return &RulesError{Field: at + field, Why: fmt.Sprintf("%.20q: want two upper-case letters like DE", code)}
			}
		}
	}
	return nil
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

// orDefault is value, or otherwise if value is 0.
func orDefault(value, otherwise int64) int64 {
	if value == 0 {
		return otherwise
	}
	return value
}

// orNone is orDefault where -1 stands for none.
func orNone(value, otherwise int64) int64 { return max(0, orDefault(value, otherwise)) }

// withDefaults fills in what is 0, and turns -1 into the 0 that it stands for.
func (r Rules) withDefaults() Rules {
	r.KeepWarmPermille = orNone(r.KeepWarmPermille, 50)
	r.ToleranceBasisPoints = orNone(r.ToleranceBasisPoints, 10)
	r.DeclineCostBasisPoints = orNone(r.DeclineCostBasisPoints, 1_000)
	r.ApprovalWindowMS = orDefault(r.ApprovalWindowMS, 3_600_000)
	r.Breaker.FailureRatioPermille = orDefault(r.Breaker.FailureRatioPermille, 500)
	r.Breaker.MinRequests = orDefault(r.Breaker.MinRequests, 10)
	r.Breaker.WindowMS = orDefault(r.Breaker.WindowMS, 30_000)
	r.Breaker.OpenForMS = orDefault(r.Breaker.OpenForMS, 10_000)
	r.Breaker.ProbesMax = orDefault(r.Breaker.ProbesMax, 1)
	return r
}

// ruleOf finds the rule of an adapter; without any rules each has weight 1.
func (r Rules) ruleOf(name string) (Rule, int, bool) {
	if len(r.PSPs) == 0 {
		return Rule{Name: name, Weight: 1}, 0, true
	}
	n := slices.IndexFunc(r.PSPs, func(rule Rule) bool { return rule.Name == name })
	if n < 0 {
		return Rule{}, 0, false
	}
	return r.PSPs[n], n, true
}

// allows tells why a PSP may not take a payment by its rule; "" means that it may.
func (r Rule) allows(w Wish) string {
	switch {
	case len(r.Currencies) > 0 && !slices.Contains(r.Currencies, w.Amount.Currency):
		return "not for " + string(w.Amount.Currency)
	case len(r.Countries) > 0 && w.Country == "":
		return "not for an unknown country"
	case len(r.Countries) > 0 && !slices.Contains(r.Countries, w.Country):
		return "not for country " + clip(w.Country, 2)
	}
	return ""
}

// prefers tells whether a payment should go to this PSP before cost is looked at.
func (r Rule) prefers(w Wish) bool {
	return slices.Contains(r.PreferCurrencies, w.Amount.Currency) || w.Country != "" && slices.Contains(r.PreferCountries, w.Country)
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// clip keeps what comes from outside from making a reason long.
func clip(s string, runes int) string {
	if r := []rune(s); len(r) > runes {
		return string(r[:runes]) + "…"
	}
	return s
}
