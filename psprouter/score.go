package psprouter

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"paygrid/ledger"
)

// candidate is a PSP that can be asked, with what it would cost.
type candidate struct {
	*path
	score     int64  // thousandths of a minor unit that asking it costs; the least is best
	preferred bool   // by country or currency
	terms     string // cost and approval rate, for people; "" if none are configured
	class     string // of the reason, for metrics
	why       string // for people
}

// Classes of reasons, as metrics know them.
const (
	classFirst     = "first"     // the router has no rules
	classOnly      = "only"      // nobody else can be asked
	classBest      = "best"      // the least score
	classWeight    = "weight"    // a share among equals
	classPreferred = "preferred" // the country's or the currency's
	classWarm      = "warm"      // not the best; keeps its path warm
	classRerouted  = "rerouted"  // another PSP was proved not to have been asked
)

// rate gives candidates their costs.
func (r *Router) rate(candidates []candidate, w Wish, now time.Time) {
	if r.inOrder || len(candidates) == 0 {
		return
	}
	var all counts
	for _, p := range r.paths {
		all.add(p.gates[OpAuthorize].tally.sum(now))
	}
	assumed := all.approvalPermille(assumedPermille)
	for n := range candidates {
		c := &candidates[n]
		approval := c.gates[OpAuthorize].tally.sum(now).approvalPermille(assumed)
		c.preferred = c.rule.prefers(w)
		c.score = score(c.rule, w.Amount, approval, r.rules.DeclineCostBasisPoints)
		c.terms = terms(c.rule, w.Amount.Currency, approval)
	}
}

// score is the fee, and what is lost if the payment is declined times how often it is: in thousandths of a minor unit, so
// that small payments do not all cost the same. With the limits of amounts and rules it stays below 2.1e15.
func score(rule Rule, amount ledger.Money, approval, declineBasis int64) int64 {
	minor := bounded(amount)
	fee := minor*rule.CostBasisPoints/(allBasis/1_000) + rule.CostFixedMinor[amount.Currency]*1_000
	lost := minor * declineBasis / allBasis * (allPermille - approval)
	return fee + lost
}

// bounded keeps what no payment can be from overflowing; payment refuses it anyway.
func bounded(amount ledger.Money) int64 { return min(max(amount.Minor, 0), ledger.MaxAmountMinor) }

// terms reads "1.40 % + 0.25 EUR, approval 97.2 %".
func terms(rule Rule, currency ledger.Currency, approval int64) string {
	cost := ""
	if rule.CostBasisPoints > 0 {
		cost = decimal(rule.CostBasisPoints, 100, 2) + " %"
	}
	if fixed := rule.CostFixedMinor[currency]; fixed > 0 {
		cost = strings.TrimPrefix(cost+" + ", " + ") + ledger.Money{Minor: fixed, Currency: currency}.String()
	}
	if cost != "" {
		cost += ", "
	}
	return cost + "approval " + decimal(approval, 10, 1) + " %"
}

// decimal writes n divided by unit with that many decimals.
func decimal(n, unit int64, places int) string {
	return fmt.Sprintf("%d.%0*d", n/unit, places, n%unit)
}

// pick chooses among candidates: of those that are no standby the preferred, of these the best and who is about as good, of
// these one by weight; but a small part of the payments goes to one of the rest, to keep its path warm. round tells the
// draws of one payment's several attempts apart.
func (r *Router) pick(candidates []candidate, w Wish, round int) candidate {
	if r.inOrder {
		return because(candidates[0], classFirst, "first with a token")
	}
	usable := preferIf(candidates, func(c candidate) bool { return !c.rule.Standby })
	if len(candidates) == 1 {
		return because(candidates[0], classOnly, "the only one that can be asked"+inBrackets(candidates[0].terms))
	}
	leaders := r.leaders(preferIf(usable, func(c candidate) bool { return c.preferred }), w)
	rest := slices.DeleteFunc(slices.Clone(usable), func(c candidate) bool {
		return slices.ContainsFunc(leaders, func(l candidate) bool { return l.path == c.path })
	})
	if len(rest) > 0 && r.draw(allPermille, w.Sticky, 2*round) < r.rules.KeepWarmPermille {
		c := r.byWeight(rest, w.Sticky, 2*round+1)
		return because(c, classWarm, "one of the "+decimal(r.rules.KeepWarmPermille, 10, 1)+" % that keep paths warm"+inBrackets(c.terms))
	}
	c := r.byWeight(leaders, w.Sticky, 2*round+1)
	switch {
	case len(leaders) > 1:
		return because(c, classWeight, "by weight "+share(c, leaders)+" among equals for "+w.Amount.String()+inBrackets(c.terms))
	case c.preferred:
		return because(c, classPreferred, "preferred for "+place(c.rule, w)+inBrackets(c.terms))
	}
	return because(c, classBest, "best for "+w.Amount.String()+inBrackets(c.terms))
}

func because(c candidate, class, why string) candidate {
	c.class, c.why = class, why
	return c
}

// preferIf is the part of candidates that is as wanted, or all if none is.
func preferIf(candidates []candidate, wanted func(candidate) bool) []candidate {
	var out []candidate
	for _, c := range candidates {
		if wanted(c) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return candidates
	}
	return out
}

// leaders are the best and all that are worse by no more than the tolerance.
func (r *Router) leaders(candidates []candidate, w Wish) []candidate {
	best := slices.MinFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.score, b.score) }).score
	limit := best + bounded(w.Amount)*r.rules.ToleranceBasisPoints/(allBasis/1_000)
	return preferIf(candidates, func(c candidate) bool { return c.score <= limit })
}

// byWeight draws one of candidates, each with its weight.
func (r *Router) byWeight(candidates []candidate, sticky uint64, draw int) candidate {
	n := r.draw(weights(candidates), sticky, draw)
	for _, c := range candidates {
		if n -= c.rule.Weight; n < 0 {
			return c
		}
	}
	return candidates[len(candidates)-1]
}

func weights(candidates []candidate) (sum int64) {
	for _, c := range candidates {
		sum += c.rule.Weight
	}
	return sum
}

// draw returns a number from 0 to n-1: the payment's own if it is sticky, else by chance.
func (r *Router) draw(n int64, sticky uint64, number int) int64 {
	if sticky == 0 {
		return r.chance(n)
	}
	return int64(mixed(sticky+uint64(number)*0x9e3779b97f4a7c15) % uint64(n))
}

// mixed spreads the bits of x over all of the result (the last step of splitmix64), so that keys which differ little
// choose independently.
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func share(c candidate, among []candidate) string {
	return strconv.FormatInt(c.rule.Weight, 10) + " of " + strconv.FormatInt(weights(among), 10)
}

func place(rule Rule, w Wish) string {
	if slices.Contains(rule.PreferCurrencies, w.Amount.Currency) {
		return string(w.Amount.Currency)
	}
	return w.Country
}

func inBrackets(terms string) string {
	if terms == "" {
		return ""
	}
	return " (" + terms + ")"
}
