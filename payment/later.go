package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"paygrid/psprouter"
	"paygrid/shard"
)

// later is a capture, void or refund: one frame for all three, since all commit the intent, call the PSP with nothing
// open, and commit the outcome.
type later struct {
	route     string // also the name of its points and metrics
	client    string
	key       string
	paymentID string
	meaning   [32]byte
	ask       func(shard.Snapshot, psprouter.PSP, time.Time) (asked, error)
	send      func(context.Context, psprouter.PSP, asked, shard.Payment) psprouter.Outcome
}

// Capture takes all or a part of an authorization.
func (s *Service) Capture(ctx context.Context, c CaptureCommand) (Answer, error) {
	return s.admitted(ctx, ClassCapture, bucketOf(c.PaymentID), func(ctx context.Context) (Answer, error) {
		return s.later(ctx, later{route: scopeCapture, client: c.Client, key: c.Key, paymentID: c.PaymentID, meaning: c.meaning(),
			ask: func(snapshot shard.Snapshot, psp psprouter.PSP, at time.Time) (asked, error) {
				return askCapture(snapshot, c, at, psp.SeveralCaptures(), s.config.CheckAfter)
			},
			send: func(ctx context.Context, psp psprouter.PSP, a asked, before shard.Payment) psprouter.Outcome {
				return psp.Capture(ctx, psprouter.CaptureRequest{Attempt: a.attempt.ID, PaymentRef: before.PSPRef,
					Amount: moneyOf(before, a.attempt.Amount), Authorized: before.Authorized, Captured: before.Captured,
					Final:    before.Captured+a.attempt.Amount+a.change.Payment.Released == before.Authorized,
					Recovery: recoveryOf(before, c.Key)})
			}})
	})
}

// Void releases an authorization of which nothing was captured.
func (s *Service) Void(ctx context.Context, c VoidCommand) (Answer, error) {
	return s.admitted(ctx, ClassRefund, bucketOf(c.PaymentID), func(ctx context.Context) (Answer, error) {
		return s.later(ctx, later{route: scopeVoid, client: c.Client, key: c.Key, paymentID: c.PaymentID, meaning: c.meaning(),
			ask: func(snapshot shard.Snapshot, _ psprouter.PSP, at time.Time) (asked, error) {
				return askVoid(snapshot, c, at, s.config.CheckAfter)
			},
			send: func(ctx context.Context, psp psprouter.PSP, a asked, before shard.Payment) psprouter.Outcome {
				return psp.Void(ctx, psprouter.VoidRequest{Attempt: a.attempt.ID, PaymentRef: before.PSPRef,
					Amount: moneyOf(before, before.Authorized), Recovery: recoveryOf(before, c.Key)})
			}})
	})
}

// Refund gives all or a part of what was captured back.
func (s *Service) Refund(ctx context.Context, c RefundCommand) (Answer, error) {
	return s.admitted(ctx, ClassRefund, bucketOf(c.PaymentID), func(ctx context.Context) (Answer, error) {
		return s.later(ctx, later{route: scopeRefunds, client: c.Client, key: c.Key, paymentID: c.PaymentID, meaning: c.meaning(),
			ask: func(snapshot shard.Snapshot, _ psprouter.PSP, at time.Time) (asked, error) {
				return askRefund(snapshot, c, at, s.config.CheckAfter)
			},
			send: func(ctx context.Context, psp psprouter.PSP, a asked, before shard.Payment) psprouter.Outcome {
				return psp.Refund(ctx, psprouter.RefundRequest{Attempt: a.attempt.ID, Refund: a.subject, PaymentRef: before.PSPRef,
					Amount: moneyOf(before, a.attempt.Amount), Recovery: recoveryOf(before, c.Key)})
			}})
	})
}

func (s *Service) later(ctx context.Context, l later) (Answer, error) {
	s.config.Pause(point(l.route, stepBegun))
	before, a, psp, replayed, err := s.commitIntent(ctx, l)
	if err != nil || replayed != nil {
		return orZero(replayed), err
	}
	defer psp.done(psprouter.NotAsked("no call was made")) // the first done counts
	s.config.Pause(point(l.route, stepCommitted))
	outcome, took := s.call(ctx, psp, a.attempt.Kind, func(ctx context.Context) psprouter.Outcome {
		return l.send(ctx, psp.PSP, a, before.Payment)
	})
	psp.done(outcome)
	s.config.Pause(point(l.route, stepSent))
	answer, err := s.conclude(ctx, l.route, a.snapshot(before), a.attempt, l.ref(), outcome)
	answer.PSPTime = took
	s.config.Pause(point(l.route, stepSettled))
	return answer, err
}

// permitted is a PSP that may be called once; done ends the permission.
type permitted struct {
	psprouter.PSP
	done func(psprouter.Outcome)
}

func (l later) ref() shard.KeyRef {
	return shard.KeyRef{ClientID: l.client, Scope: scopeOf(l.route, l.paymentID), Key: l.key}
}

func orZero(a *Answer) Answer {
	if a == nil {
		return Answer{}
	}
	return *a
}

// commitIntent reads the payment, decides, and commits what is about to be sent, again while others change the payment
// first. It returns the answer instead if the key was used before.
func (s *Service) commitIntent(ctx context.Context, l later) (before shard.Snapshot, a asked, psp permitted, replayed *Answer, err error) {
	for range maxRaces {
		found, err := s.shards.Find(ctx, l.paymentID, l.ref())
		if errors.Is(err, shard.ErrNotFound) {
			return before, a, psp, nil, notFound(l.paymentID)
		}
		if err != nil {
			return before, a, psp, nil, unavailable(err)
		}
		if found.Key != nil {
			answer, err := s.replay(ctx, *found.Key, l.meaning)
			return before, a, psp, &answer, err
		}
		if found.Missing || found.Payment.ClientID != l.client {
			return before, a, psp, nil, notFound(l.paymentID)
		}
		adapter, ok := s.psps.ByName(found.Payment.PSP)
		if !ok {
			return before, a, psp, nil, fmt.Errorf("payment %s: no PSP is named %q here", l.paymentID, found.Payment.PSP)
		}
		a, err = l.ask(found.Snapshot, adapter, s.now())
		if errors.Is(err, shard.ErrConflict) { // read in two halves: see captureBusy
			s.metrics.races.WithLabelValues(l.route).Inc()
			continue
		}
		if err != nil {
			return before, a, psp, nil, err
		}
		if err := adapter.Supports(moneyOf(found.Payment, a.attempt.Amount)); err != nil {
			return before, a, psp, nil, routeError(err)
		}
		if psp.PSP, psp.done, err = s.psps.Permit(adapter.Name(), a.attempt.Kind); err != nil {
			return before, a, psp, nil, routeError(err)
		}
		err = s.shards.Apply(ctx, a.change)
		if err == nil {
			return found.Snapshot, a, psp, nil, nil
		}
		psp.done(psprouter.NotAsked("the intent was not committed"))
		if !errors.Is(err, shard.ErrConflict) {
			return before, a, psp, nil, unavailable(err)
		}
		s.metrics.races.WithLabelValues(l.route).Inc()
	}
	return before, a, psp, nil, busy()
}

func busy() *Error {
	return &Error{Code: CodeBusy, Detail: "too many calls raced for this payment; nothing was done", RetryIn: time.Second,
		Remedy: "repeat the same call"}
}

func notFound(id string) *Error {
	return &Error{Code: CodeNotFound, Detail: "there is no such payment", Reference: clip(id), Remedy: "check the ID"}
}
