package psprouter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"paygrid/ledger"
)

// ErrNoPSP is returned, perhaps wrapped with the reasons, when no PSP may ever take a payment: its payment method has no
// token for any, or the rules keep the payment from those that it has tokens for.
var ErrNoPSP = errors.New("no PSP for this payment method: give the token of a configured PSP")

// UnavailableError is returned when PSPs that could take a call must not be asked now. Nothing was asked.
type UnavailableError struct {
	PSP     string        // the one that can be asked first
	RetryIn time.Duration // when, as far as is known; above 0
	Why     string        // all that stands in the way, for people
}

func (e *UnavailableError) Error() string { return "no PSP can be asked now: " + e.Why }

// Wish is what is to be paid, as far as it matters for the choice of a PSP.
type Wish struct {
	Tokens  map[string]string // PSP name -> the payment method's token there
	Amount  ledger.Money
	Country string // of the card, ISO 3166-1 alpha-2; "" if it is not known
	// Sticky takes the place of chance, so that one payment chooses alike while the PSPs' state is alike: a hash of the
	// payment's key. 0 means chance.
	Sticky uint64
}

// Choice is the PSP that a payment goes to, with its token there, and the permission to authorize it once. Reason is for
// people and is stored on the attempt.
type Choice struct {
	PSP    PSP
	Token  string
	Reason string
	// Done must be called with what came of the call, or with NotAsked if none was made; of several calls the first counts.
	// A permission that is never ended can keep a half-open breaker from closing.
	Done func(Outcome)

	permission *permission
	tried      []string // PSPs asked before this one
}

// permission is the right to one call. It ends once.
type permission struct {
	ended   atomic.Bool
	outcome atomic.Pointer[Outcome]
	end     func(Outcome)
}

func (p *permission) done(o Outcome) {
	if p.ended.CompareAndSwap(false, true) {
		p.outcome.Store(&o)
		p.end(o)
	}
}

// Choose picks a PSP for a new payment and takes the permission of its breaker and its rate limit. In order of what stands
// in the way it returns an *UnavailableError (come back later), the *AmountError of the first PSP that has a token, or
// ErrNoPSP.
func (r *Router) Choose(w Wish) (Choice, error) { return r.choose(w, nil) }

// Elsewhere picks another PSP than c's and all that were tried before it, for the same payment. It takes the proof that
// nothing happened at c's PSP, and c.Done must have heard so as well: a proof of one call does not move another. It
// returns false without that, or if no other PSP can be asked now.
func (r *Router) Elsewhere(c Choice, proof NotSentProof, w Wish) (Choice, bool) {
	if !proof.proven || c.permission == nil {
		return Choice{}, false
	}
	heard := c.permission.outcome.Load()
	if heard == nil {
		return Choice{}, false
	}
	if _, proven := heard.NotSent(); !proven {
		return Choice{}, false
	}
	next, err := r.choose(w, append(slices.Clone(c.tried), c.PSP.Name()))
	return next, err == nil
}

// choose looks at every PSP but those in tried, and tries to get a permission from the one that it picks. Should that one
// have none any more, it goes on with the others.
func (r *Router) choose(w Wish, tried []string) (Choice, error) {
	now := r.now()
	f := r.look(w, tried, now)
	for len(f.candidates) > 0 {
		picked := r.pick(f.candidates, w, len(tried))
		p, why, wait := picked.allow(OpAuthorize, now, r)
		if p == nil {
			f.drop(picked.path, why, wait)
			continue
		}
		if len(tried) > 0 {
			picked.class, picked.why = classRerouted, "in place of "+strings.Join(tried, ", ")+", "+picked.why
		}
		r.metrics.choices.WithLabelValues(picked.name, picked.class).Inc()
		return Choice{PSP: picked.psp, Token: w.Tokens[picked.name], Reason: f.sentence(picked), Done: p.done, permission: p, tried: tried}, nil
	}
	err := f.refusal()
	r.metrics.refused(err)
	return Choice{}, err
}

// look sorts the PSPs into candidates and those that cannot be asked, with why.
func (r *Router) look(w Wish, tried []string, now time.Time) *field {
	f := &field{candidates: make([]candidate, 0, len(r.paths))}
	for _, p := range r.paths {
		if w.Tokens[p.name] == "" || slices.Contains(tried, p.name) {
			continue
		}
		if why := p.rule.allows(w); why != "" {
			f.forbid(p, why)
			continue
		}
		if err := p.psp.Supports(w.Amount); err != nil {
			f.unsupported(p, err)
			continue
		}
		if why, wait := p.closedFor(now); why != "" {
			r.metrics.passedOver(p.name, why)
			f.unavailable(p, why, wait)
			continue
		}
		f.candidates = append(f.candidates, candidate{path: p})
	}
	r.rate(f.candidates, w, now)
	return f
}

// field is what a choice sees: who can be asked, and why the others cannot.
type field struct {
	candidates []candidate
	others     []string          // "adyen: breaker open"
	first      *UnavailableError // of those that cannot be asked now, the one that can be asked first
	amount     error             // of the first that cannot take the amount
}

func (f *field) forbid(p *path, why string) { f.others = append(f.others, p.name+": "+why) }

func (f *field) unsupported(p *path, err error) {
	why := err.Error()
	var amount *AmountError
	if errors.As(err, &amount) {
		why = amount.Why
	}
	f.forbid(p, clip(why, maxWhy))
	if f.amount == nil {
		f.amount = err
	}
}

func (f *field) unavailable(p *path, why string, wait time.Duration) {
	f.forbid(p, why)
	if f.first == nil || wait < f.first.RetryIn {
		f.first = &UnavailableError{PSP: p.name, RetryIn: wait}
	}
}

// drop moves a candidate that lost its permission to the others.
func (f *field) drop(p *path, why string, wait time.Duration) {
	f.candidates = slices.DeleteFunc(f.candidates, func(c candidate) bool { return c.path == p })
	f.unavailable(p, why, wait)
}

// maxWhy bounds what one PSP adds to a reason, in characters.
const maxWhy = 120

// sentence says why picked was chosen, what the other candidates were like, and why the rest cannot be asked.
func (f *field) sentence(picked candidate) string {
	parts := []string{picked.name + ": " + picked.why}
	for _, c := range f.candidates {
		if c.path != picked.path && c.terms != "" {
			parts = append(parts, c.name+": "+c.terms)
		}
	}
	return strings.Join(append(parts, f.others...), "; ")
}

// refusal is the error when nobody can be asked.
func (f *field) refusal() error {
	switch {
	case f.first != nil:
		f.first.Why = strings.Join(f.others, "; ")
		return f.first
	case f.amount != nil:
		return f.amount
	case len(f.others) > 0:
		return fmt.Errorf("%w (%s)", ErrNoPSP, strings.Join(f.others, "; "))
	}
	return ErrNoPSP
}
