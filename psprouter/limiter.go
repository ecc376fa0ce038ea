package psprouter

import (
	"sync"
	"time"
)

// limiter keeps calls to a PSP within a rate: a token bucket in the form of one time (the "generic cell rate algorithm"),
// so that it needs no timer, no fraction and no float. A nil limiter has no limit.
type limiter struct {
	mu    sync.Mutex
	every time.Duration // one call per
	burst int64         // calls at once
	kept  int64         // of the burst, not for new payments
	full  time.Time     // when all tokens are back if nobody calls until then
}

// newLimiter returns nil for no rate. burst 0 means rate.
func newLimiter(rate, burst int64) *limiter {
	if rate == 0 {
		return nil
	}
	burst = orDefault(burst, rate)
	return &limiter{every: time.Second / time.Duration(rate), burst: burst, kept: burst / keptDivisor}
}

// take takes a token at now. Without one it returns how long it takes until there is one, and takes nothing.
func (l *limiter) take(now time.Time, newPayment bool) (wait time.Duration, ok bool) {
	if l == nil {
		return 0, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	wait = l.wait(now, newPayment)
	if wait > 0 {
		return wait, false
	}
	l.full = l.debt(now).Add(l.every)
	return 0, true
}

// peek is how long a call at now would have to wait.
func (l *limiter) peek(now time.Time, newPayment bool) time.Duration {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wait(now, newPayment)
}

// giveBack undoes a take of which nothing was made.
func (l *limiter) giveBack() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = l.full.Add(-l.every)
}

// wait is how long a call at now has to wait; the caller holds mu.
func (l *limiter) wait(now time.Time, newPayment bool) time.Duration {
	usable := l.burst
	if newPayment {
		usable -= l.kept
	}
	return l.debt(now).Add(l.every).Sub(now) - time.Duration(usable)*l.every
}

// debt is when all tokens are back, not before now. An empty bucket is the most that can be owed: a clock that was set
// back must not stop a PSP for longer than that. The caller holds mu.
func (l *limiter) debt(now time.Time) time.Time {
	if latest := now.Add(time.Duration(l.burst) * l.every); l.full.After(latest) {
		l.full = latest
	}
	if l.full.Before(now) {
		return now
	}
	return l.full
}
