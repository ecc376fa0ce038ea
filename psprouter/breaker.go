package psprouter

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// verdict is what an outcome says of the PSP's health.
type verdict uint8

const (
	answered   verdict = iota // it told us something definite, a decline among them
	faultOfPSP                // no answer, or a documented "not now"
	oursAlone                 // our own doing: says nothing of the PSP
)

// judge is the one place that decides what counts against a PSP. A decline is an answer: were it left out, a breaker whose
// probes are all declined would never close.
func judge(o Outcome) verdict {
	switch o.Class() {
	case Approved, Accepted, Declined, ActionRequired:
		return answered
	case NotSent:
		if o.Rejected || o.ours {
			return oursAlone
		}
		return faultOfPSP
	}
	if o.Alert || o.ours {
		return oursAlone
	}
	return faultOfPSP
}

// The two verdicts but success, as gobreaker hears of them.
var (
	errFault = errors.New("the PSP failed")
	errOurs  = errors.New("our own doing")
)

func (v verdict) err() error {
	return [...]error{answered: nil, faultOfPSP: errFault, oursAlone: errOurs}[v]
}

// gate is the breaker and the record of one operation at one PSP. Inquiries have a gate without a breaker: an attempt in
// flight is asked about whatever the PSP's state, and says nothing of it.
type gate struct {
	psp, operation string
	probesMax      uint32
	breaker        *gobreaker.TwoStepCircuitBreaker[struct{}] // nil = none
	tally          *tally
	openUntil      atomic.Int64 // Unix nanoseconds on the injected clock; for people and Retry-After alone
}

// breakerSlots cut the breaker's window.
const breakerSlots = 10

// guard gives the gate a breaker. gobreaker keeps its own time; now only tells callers when to come back.
func (g *gate) guard(b BreakerRules, now func() time.Time, tripped func(psp, operation string)) {
	g.probesMax = uint32(b.ProbesMax)
	openFor := milliseconds(b.OpenForMS)
	g.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         g.psp + " " + g.operation,
		MaxRequests:  g.probesMax,
		Interval:     milliseconds(b.WindowMS),
		BucketPeriod: milliseconds(b.WindowMS) / breakerSlots,
		Timeout:      openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			// Of the finished ones: those under way must not dilute the ratio while a PSP hangs.
			finished := int64(c.TotalSuccesses) + int64(c.TotalFailures)
			return finished >= b.MinRequests && int64(c.TotalFailures)*allPermille >= finished*b.FailureRatioPermille
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errOurs) }, // also called with nil
		OnStateChange: func(_ string, _, to gobreaker.State) {
			// Under the breaker's lock: nothing here may ask the breaker.
			if to == gobreaker.StateOpen {
				g.openUntil.Store(now().Add(openFor).UnixNano())
				tripped(g.psp, g.operation)
			}
		},
	})
}

// Words of a breaker's state.
const (
	breakerNone     = "none"
	breakerClosed   = "closed"
	breakerHalfOpen = "half-open"
	breakerOpen     = "open"
)

func (g *gate) state() string {
	if g.breaker == nil {
		return breakerNone
	}
	switch g.breaker.State() {
	case gobreaker.StateClosed:
		return breakerClosed
	case gobreaker.StateHalfOpen:
		return breakerHalfOpen
	}
	return breakerOpen
}

// probeWait is when to come back while a probe is under way: it ends within a PSP's time limit, usually soon.
const probeWait = time.Second

// closedFor tells why no call can be made now and when to come back; "" means that one can. It takes nothing, so allow
// decides.
func (g *gate) closedFor(now time.Time) (why string, retryIn time.Duration) {
	switch g.state() {
	case breakerOpen:
		return "breaker open", max(time.Unix(0, g.openUntil.Load()).Sub(now), time.Millisecond)
	case breakerHalfOpen:
		if c := g.breaker.Counts(); c.Requests-min(c.Requests, c.TotalExclusions) >= g.probesMax {
			return "breaker half open, a probe is under way", probeWait
		}
	}
	return "", 0
}

// allow takes a permission; done ends it. Without one, closedFor says why.
func (g *gate) allow() (done func(verdict), ok bool) {
	if g.breaker == nil {
		return func(verdict) {}, true
	}
	end, err := g.breaker.Allow()
	if err != nil {
		return nil, false
	}
	return func(v verdict) { end(v.err()) }, true
}
