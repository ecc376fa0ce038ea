package psprouter

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// OpInquiry is asking about an attempt in flight. No breaker stops it.
const OpInquiry = "INQUIRY"

// ErrUnknownPSP is returned, wrapped with the name, for a PSP that the router does not have.
var ErrUnknownPSP = errors.New("no such PSP: see the configuration")

// ErrOperation is returned, wrapped with the word, by Permit for what is no later operation.
var ErrOperation = errors.New("no later operation: want CAPTURE, VOID, REFUND or INQUIRY; new payments go through Choose")

// Router knows the PSPs, whether they can be asked, and what came of it. What it remembers is a hint that a new process
// gathers anew, never a fact about a payment. It is safe for concurrent use.
type Router struct {
	paths   []*path
	rules   Rules
	inOrder bool // the first that can be asked; no cost, no chance
	now     func() time.Time
	chance  func(n int64) int64
	metrics *metrics
}

// path is one PSP with all that decides whether it can be asked.
type path struct {
	psp     PSP
	name    string
	rule    Rule
	limiter *limiter
	gates   map[string]*gate       // operation -> gate; never changed
	drained atomic.Pointer[string] // why; nil = not drained
}

// operations in the order in which a status lists them.
func operations() []string { return []string{OpAuthorize, OpCapture, OpVoid, OpRefund, OpInquiry} }

// NewRouter returns a router that always takes the first of psps that can take a payment: no costs, breakers or limits, and
// rates since its start. Of two with one name the first stands.
func NewRouter(psps ...PSP) *Router {
	r := &Router{inOrder: true, rules: Rules{}.withDefaults(), now: func() time.Time { return time.Unix(0, 0) }, metrics: newMetrics()}
	for _, p := range psps {
		if _, known := r.ByName(p.Name()); !known {
			r.paths = append(r.paths, r.newPath(p, Rule{Name: p.Name(), Weight: 1}))
		}
	}
	return r
}

// NewConfigured returns a router by rules. now is the clock of rates and limits; pick returns an evenly distributed number
// from 0 to n-1, and both are called by many at once. registry may be nil. It returns a *RulesError for a rule that breaks
// its range, names no adapter, or is missing.
func NewConfigured(rules Rules, now func() time.Time, pick func(n int64) int64, registry prometheus.Registerer,
	psps ...PSP) (*Router, error) {
	if now == nil || pick == nil {
		return nil, errors.New("psprouter: NewConfigured needs a clock and a source of chance")
	}
	if err := rules.check(); err != nil {
		return nil, err
	}
	r := &Router{rules: rules.withDefaults(), now: now, chance: pick, metrics: newMetrics()}
	if err := r.addPaths(psps); err != nil {
		return nil, err
	}
	if registry != nil {
		if err := r.metrics.register(registry, r); err != nil {
			return nil, fmt.Errorf("psprouter: register metrics: %w", err)
		}
	}
	return r, nil
}

// addPaths gives each adapter its rule, in the order of the rules.
func (r *Router) addPaths(psps []PSP) error {
	byRule := make([]*path, len(r.rules.PSPs))
	for _, p := range psps {
		rule, n, ok := r.rules.ruleOf(p.Name())
		if !ok {
			return &RulesError{Field: "psps", Why: fmt.Sprintf("there is no rule for the adapter %q: add one", p.Name())}
		}
		if _, known := r.ByName(p.Name()); known || len(byRule) > 0 && byRule[n] != nil {
			return fmt.Errorf("psprouter: two adapters are named %q", p.Name())
		}
		made := r.newPath(p, rule)
		for _, operation := range []string{OpAuthorize, OpCapture, OpVoid, OpRefund} {
			made.gates[operation].guard(r.rules.Breaker, r.now, r.metrics.tripped)
		}
		if len(byRule) == 0 {
			r.paths = append(r.paths, made)
		} else {
			byRule[n] = made
		}
	}
	for n, p := range byRule {
		if p == nil {
			return &RulesError{Field: fmt.Sprintf("psps[%d].name", n),
				Why: fmt.Sprintf("no adapter is named %q: configure it or remove the rule", r.rules.PSPs[n].Name)}
		}
		r.paths = append(r.paths, p)
	}
	return nil
}

func (r *Router) newPath(p PSP, rule Rule) *path {
	made := &path{psp: p, name: p.Name(), rule: rule, limiter: newLimiter(rule.RatePerSecond, rule.Burst), gates: map[string]*gate{}}
	for _, operation := range operations() {
		made.gates[operation] = &gate{psp: made.name, operation: operation, tally: newTally(milliseconds(r.rules.ApprovalWindowMS))}
	}
	return made
}

// drainedWait is when a caller may come back to a drained PSP; nobody knows how long a person takes.
const drainedWait = 30 * time.Second

// closedFor tells why a PSP cannot be asked for a new payment now and when to come back; "" means that it can.
func (p *path) closedFor(now time.Time) (why string, wait time.Duration) {
	if drained := p.drained.Load(); drained != nil {
		return "drained: " + *drained, drainedWait
	}
	if why, wait := p.gates[OpAuthorize].closedFor(now); why != "" {
		return why, wait
	}
	if wait := p.limiter.peek(now, true); wait > 0 {
		return whyLimited, wait
	}
	return "", 0
}

const whyLimited = "our rate limit is used up"

// allow takes a token and the breaker's permission, both or none.
func (p *path) allow(operation string, now time.Time, r *Router) (taken *permission, why string, wait time.Duration) {
	if wait, ok := p.limiter.take(now, operation == OpAuthorize); !ok {
		r.metrics.passedOver(p.name, whyLimited)
		return nil, whyLimited, wait
	}
	g := p.gates[operation]
	end, ok := g.allow()
	if !ok {
		p.limiter.giveBack()
		if why, wait = g.closedFor(now); why == "" {
			why, wait = "the breaker has just changed", time.Millisecond // it may let the next one through
		}
		return nil, why, wait
	}
	return &permission{end: func(o Outcome) {
		if o.class == NotSent && o.ours { // a shard that is down, or a key that comes again, has cost the PSP nothing
			p.limiter.giveBack()
		}
		g.tally.note(r.now(), o)
		end(judge(o))
	}}, "", 0
}

// Permit takes the permission for a later call at the PSP that has the payment. done must be called once with what came,
// or with NotAsked if no call was made. Draining does not concern these calls. A capture, void or refund, which has no
// attempt yet, is refused while its breaker is open, and can be the probe of that breaker; an inquiry about an attempt in
// flight is neither. It returns an *UnavailableError, ErrUnknownPSP or ErrOperation.
func (r *Router) Permit(psp, operation string) (PSP, func(Outcome), error) {
	p, ok := r.path(psp)
	if !ok {
		return nil, nil, fmt.Errorf("%.40q: %w", psp, ErrUnknownPSP)
	}
	if operation == OpAuthorize || p.gates[operation] == nil {
		return nil, nil, fmt.Errorf("%.40q: %w", operation, ErrOperation)
	}
	taken, why, wait := p.allow(operation, r.now(), r)
	if taken == nil {
		return nil, nil, &UnavailableError{PSP: p.name, RetryIn: wait, Why: p.name + " " + operation + ": " + why}
	}
	return p.psp, taken.done, nil
}

// ByName returns the PSP of that name; a later call of a payment goes where its authorization went.
func (r *Router) ByName(name string) (PSP, bool) {
	p, ok := r.path(name)
	if !ok {
		return nil, false
	}
	return p.psp, true
}

func (r *Router) path(name string) (*path, bool) {
	for _, p := range r.paths {
		if p.name == name {
			return p, true
		}
	}
	return nil, false
}
