package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"paygrid/psprouter"
	"paygrid/shard"
)

// The resolver asks the PSPs about attempts that stayed without an answer. It never makes a new charge, and it never takes
// silence for an answer: what nobody knows is asked again, for ever, and shown to people after a while.
//
// That the PSP has no record of a call is evidence only after its visibility window, and only twice in a row.
const (
	firstRecheck     = 30 * time.Second
	longestRecheck   = 30 * time.Minute
	absencesNeeded   = 2
	checksUntilAlarm = 20
	resolveBatch     = 100 // attempts claimed at a time
	resolveParallel  = 32  // PSP calls at a time
	resolveLease     = 2 * time.Minute
	// acceptedTerms is how many times longer than one without any answer an attempt is left alone that the PSP has accepted.
	acceptedTerms = 10
	// resendWindow is how long an attempt that gives money back may be sent again under its own key at any PSP.
	resendWindow = 20 * time.Hour
)

// ResolveOn asks about the attempts on one shard that are due, those first that have been due for longest, and returns how
// many it asked about. What it did not learn is given back by one statement, with the time of the next check.
func (s *Service) ResolveOn(ctx context.Context, shardName, owner string) (int, error) {
	now := s.now()
	due, err := s.shards.ClaimAttempts(ctx, shardName, owner, now, now.Add(resolveLease), resolveBatch)
	if err != nil {
		return 0, err
	}
	rechecks, errs := make([]*shard.Recheck, len(due)), make([]error, len(due))
	inParallel(resolveParallel, len(due), func(n int) { rechecks[n], errs[n] = s.resolve(ctx, due[n]) })
	var unknown []shard.Recheck
	for _, r := range rechecks {
		if r != nil {
			unknown = append(unknown, *r)
		}
	}
	if len(unknown) > 0 { // one that was answered meanwhile, or is another's by now, is left alone
		_, err = s.shards.Reschedule(ctx, shardName, owner, unknown)
	}
	return len(due), errors.Join(append(errs, err)...)
}

// resolve asks about one attempt and commits what it learns, or returns when to ask again. One at which we panic is asked about
// ever less often, as is one without an answer.
func (s *Service) resolve(ctx context.Context, d shard.Due) (recheck *shard.Recheck, err error) {
	err = s.guarded(ctx, panicAttempt, func() (err error) {
		recheck, err = s.ask(ctx, d)
		return err
	})
	if fault := (*PanicError)(nil); errors.As(err, &fault) {
		err = fmt.Errorf("attempt %s: %w", d.AttemptID, err)
		return &shard.Recheck{AttemptID: d.AttemptID, NextAt: s.now().Add(backOff(s.config.Recheck, d.Checks)), Detail: clip(fault.Error()),
			Absent: d.Absent, Escalated: d.Escalated}, err
	}
	return recheck, err
}

func (s *Service) ask(ctx context.Context, d shard.Due) (*shard.Recheck, error) {
	snapshot, err := s.shards.Snapshot(ctx, d.PaymentID)
	if err != nil {
		return nil, fmt.Errorf("attempt %s: %w", d.AttemptID, err)
	}
	a, ok := attemptOf(snapshot, d.AttemptID)
	if !ok || a.Status != Pending {
		return nil, nil // answered meanwhile
	}
	finding := s.inquire(ctx, snapshot, a)
	s.config.Pause(point("resolve", stepSent))
	settled := definite(snapshot.Payment, finding.Outcome)
	if finding.Absent && s.absenceProves(a, d) {
		finding.Outcome, settled = psprouter.NotSentBecause("the PSP has no record of it, asked twice after its visibility window"), true
	}
	if !settled {
		return s.recheck(ctx, a, d, finding), nil
	}
	err = s.learned(ctx, a.PaymentID, a.ID, fact{outcome: finding.Outcome})
	s.config.Pause(point("resolve", stepSettled))
	var transition *TransitionError
	switch {
	case errors.Is(err, errClosed):
		return nil, nil
	case errors.Is(err, errEarly), errors.As(err, &transition): // it does not fit yet: ask again later, and in the end tell people
		return s.recheck(ctx, a, d, finding), nil
	}
	return nil, err
}

// definite tells whether an outcome of an inquiry settles anything. That an inquiry could not be sent says nothing about
// the attempt, and a redirect that still waits is known.
func definite(p shard.Payment, o psprouter.Outcome) bool {
	switch o.Class() {
	case psprouter.Approved, psprouter.Declined:
		return true
	case psprouter.ActionRequired:
		return p.Status == AuthPending
	}
	return false
}

// absenceProves tells whether one more absence is the one that counts.
func (s *Service) absenceProves(a shard.Attempt, d shard.Due) bool {
	psp, ok := s.psps.ByName(a.PSP)
	if !ok {
		return false
	}
	return s.now().Sub(a.SentAt) >= psp.VisibilityWindow() && d.Absent+1 >= absencesNeeded
}

// recheck is when the attempt is asked about again. Absences count only from the visibility window on; an answer that is no
// absence ends their row.
func (s *Service) recheck(ctx context.Context, a shard.Attempt, d shard.Due, f psprouter.Finding) *shard.Recheck {
	now := s.now()
	r := shard.Recheck{AttemptID: a.ID, NextAt: now.Add(backOff(s.config.Recheck, d.Checks)), Detail: clip(f.Outcome.Reason), Absent: d.Absent,
		Escalated: d.Escalated}
	if f.Outcome.Class() == psprouter.Accepted {
		if at := now.Add(acceptedPause(s.config.CheckAfter)); at.After(r.NextAt) {
			r.NextAt = at
		}
	}
	psp, known := s.psps.ByName(a.PSP)
	switch {
	case f.Absent && known && now.Sub(a.SentAt) >= psp.VisibilityWindow():
		r.Absent++
	case f.Outcome.Class() != psprouter.Unknown:
		r.Absent = 0
	}
	if d.Checks+1 >= checksUntilAlarm && !d.Escalated {
		r.Escalated = true
		s.metrics.escalated.WithLabelValues(a.PSP, a.Kind).Inc()
		s.config.Log.ErrorContext(ctx, "an attempt has no answer after many checks; a person must look, and we go on asking", "psp", a.PSP,
			"payment", a.PaymentID, "attempt", a.ID, "operation", a.Kind, "checks", d.Checks+1, "said", f.Outcome.Reason)
	}
	if f.Outcome.Alert {
		s.report(ctx, a, f.Outcome)
	}
	return &r
}

// backOff doubles from first to 30 minutes, jittered over its upper quarter.
func backOff(first time.Duration, checks int32) time.Duration {
	d := min(first, longestRecheck)
	for ; checks > 0 && d < longestRecheck; checks-- { // no shift: the pause of the 29th check would overflow
		d = min(2*d, longestRecheck)
	}
	return d - rand.N(d/4+1)
}

// acceptedPause is how long an attempt that the PSP has accepted is left to its notice, which brings the result; given is how
// long one waits that has no answer. To ask earlier is mostly in vain: Adyen says "received" once more. A notice that never
// comes is missed all the same, if later.
func acceptedPause(given time.Duration) time.Duration {
	return min(acceptedTerms*given, longestRecheck)
}

// inquire asks the PSP. An attempt of our own that gives money back is sent again under its key while that is safe: it may
// never have left.
func (s *Service) inquire(ctx context.Context, snapshot shard.Snapshot, a shard.Attempt) psprouter.Finding {
	p := snapshot.Payment
	operation := psprouter.OpInquiry
	if returns(a) != "" {
		operation = a.Kind
	}
	psp, done, err := s.psps.Permit(a.PSP, operation)
	if err != nil {
		return psprouter.Finding{Outcome: psprouter.UnknownBecause(err.Error())}
	}
	defer func() { done(psprouter.NotAsked("no inquiry was made")) }() // the first done counts
	ref := paymentRef(snapshot, a)
	if returns(a) != "" && s.now().Sub(a.SentAt) < resendWindow {
		outcome, _ := s.call(ctx, psp, a.Kind, func(ctx context.Context) psprouter.Outcome { return giveBack(ctx, psp, p, a, ref) })
		done(outcome)
		return psprouter.Finding{Outcome: outcome}
	}
	var finding psprouter.Finding
	s.call(ctx, psp, "INQUIRE_"+a.Kind, func(ctx context.Context) psprouter.Outcome {
		finding = psp.Inquire(ctx, s.inquiry(snapshot, a, psp, ref))
		return finding.Outcome
	})
	done(finding.Outcome)
	return finding
}

// paymentRef is the PSP's reference of the payment that an attempt belongs to. For one that gives a late success back it is
// that success's own.
func paymentRef(snapshot shard.Snapshot, a shard.Attempt) string {
	if undone, ok := attemptOf(snapshot, returns(a)); ok && undone.Kind == AttemptAuthorize {
		return undone.PSPRef
	}
	return snapshot.Payment.PSPRef
}

func giveBack(ctx context.Context, psp psprouter.PSP, p shard.Payment, a shard.Attempt, ref string) psprouter.Outcome {
	amount, recovery := moneyOf(p, a.Amount), recoveryOf(p, "")
	if a.Kind == AttemptVoid {
		return psp.Void(ctx, psprouter.VoidRequest{Attempt: a.ID, PaymentRef: ref, Amount: amount, Recovery: recovery})
	}
	return psp.Refund(ctx, psprouter.RefundRequest{Attempt: a.ID, Refund: a.ID, PaymentRef: ref, Amount: amount, Recovery: recovery})
}

// inquiry is the attempt with all that its first request was made of.
func (s *Service) inquiry(snapshot shard.Snapshot, a shard.Attempt, psp psprouter.PSP, ref string) psprouter.Inquiry {
	p := snapshot.Payment
	var method Method
	if err := json.Unmarshal(p.Method, &method); err != nil {
		method = Method{} // written by us; without it a re-send cannot be made, and the adapter says so
	}
	r, _ := refundOf(snapshot, a.ID)
	if a.Kind == AttemptAuthorize && a.PSPRef != "" {
		ref = a.PSPRef
	}
	return psprouter.Inquiry{Attempt: a.ID, Operation: a.Kind, Refund: r.ID, PaymentRef: ref, AttemptRef: a.PSPRef, Amount: moneyOf(p, a.Amount),
		Authorized: p.Authorized, Captured: p.Captured, Final: p.Captured+a.Amount+p.Released == p.Authorized,
		AutoCapture: CaptureMode(p.CaptureMode) == Automatic, Token: method.Tokens[psp.Name()], ReturnURL: p.ReturnURL, SentAt: a.SentAt,
		Now: s.now(), Recovery: recoveryOf(p, a.ClientKey)}
}

// learned commits a fact about an attempt, deciding anew while others change the payment first. It returns errClosed for
// what is known, errEarly for what must wait, and a *TransitionError for what does not fit.
func (s *Service) learned(ctx context.Context, paymentID, attemptID string, f fact) error {
	for range maxRaces {
		snapshot, err := s.shards.Snapshot(ctx, paymentID)
		if err != nil {
			return err
		}
		var posted []shard.PostedEntry
		if f.reversed {
			if posted, err = s.shards.Entries(ctx, paymentID); err != nil {
				return err
			}
		}
		change, _, err := learn(snapshot, posted, attemptID, f, s.now(), s.config.AuthorizationLifetime)
		if err != nil {
			return err
		}
		record(change, attemptID, f)
		if err = s.shards.Apply(ctx, change); !errors.Is(err, shard.ErrConflict) {
			return err
		}
		s.metrics.races.WithLabelValues("learn").Inc()
	}
	return shard.ErrConflict
}
