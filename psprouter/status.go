package psprouter

import (
	"fmt"
	"time"
)

// Status is one operation of one PSP as this process sees it. Counts and rates are of the approval window.
type Status struct {
	PSP       string `json:"psp"`
	Operation string `json:"operation"`
	// Breaker is "closed", "half-open", "open", or "none" for inquiries and routers without rules.
	Breaker string `json:"breaker"`
	// RetryIn is how long the breaker stays open, 0 if it is not open.
	RetryIn time.Duration `json:"retryIn"` // nanoseconds
	// Answered calls had a definite answer, Failed none, and Ours say nothing of the PSP.
	Answered int64 `json:"answered"`
	Failed   int64 `json:"failed"`
	Ours     int64 `json:"ours"`
	// ErrorPermille is Failed of Failed and Answered, ApprovalPermille the approved of the approved and declined; -1 of
	// nothing.
	ErrorPermille    int64 `json:"errorPermille"`
	ApprovalPermille int64 `json:"approvalPermille"`
	// Drained PSPs get no new payments; DrainReason is the operator's.
	Drained     bool   `json:"drained"`
	DrainReason string `json:"drainReason,omitempty"`
}

// Status tells how every PSP and operation is, in order of preference.
func (r *Router) Status() []Status {
	now, out := r.now(), make([]Status, 0, len(r.paths)*len(operations()))
	for _, p := range r.paths {
		for _, operation := range operations() {
			out = append(out, p.status(p.gates[operation], now))
		}
	}
	return out
}

func (p *path) status(g *gate, now time.Time) Status {
	c := g.tally.sum(now)
	s := Status{PSP: p.name, Operation: g.operation, Breaker: g.state(), Answered: c.answered, Failed: c.failed, Ours: c.ours,
		ErrorPermille: permille(c.failed, c.failed+c.answered), ApprovalPermille: permille(c.approved, c.approved+c.declined)}
	if s.Breaker == breakerOpen {
		_, s.RetryIn = g.closedFor(now)
	}
	if why := p.drained.Load(); why != nil {
		s.Drained, s.DrainReason = true, *why
	}
	return s
}

// Drain keeps new payments from a PSP, or lets them come again; captures, voids, refunds and inquiries go on. The reason is
// shown with every payment that goes elsewhere. It holds for this process. It returns ErrUnknownPSP.
func (r *Router) Drain(psp string, drained bool, reason string) error {
	p, ok := r.path(psp)
	if !ok {
		return fmt.Errorf("drain %.40q: %w", psp, ErrUnknownPSP)
	}
	if !drained {
		p.drained.Store(nil)
		return nil
	}
	reason = clip(reason, maxWhy)
	p.drained.Store(&reason)
	return nil
}
