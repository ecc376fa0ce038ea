package payment

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/shard"
)

// Authorize starts a payment: the intent is committed, the PSP called with nothing open, the outcome committed. A caller
// that hangs up changes nothing. A repeated key is answered as the first time, or with the state so far while that is
// open.
func (s *Service) Authorize(ctx context.Context, c AuthorizeCommand) (Answer, error) {
	if err := c.check(); err != nil {
		return Answer{}, err
	}
	return s.admitted(ctx, ClassAuthorize, shard.BucketOf(c.Client, c.Key), func(ctx context.Context) (Answer, error) {
		return s.authorize(ctx, c)
	})
}

func (s *Service) authorize(ctx context.Context, c AuthorizeCommand) (Answer, error) {
	choice, err := s.psps.Choose(wishOf(c))
	if err != nil {
		return s.replayOr(ctx, c, routeError(err))
	}
	defer func() { choice.Done(psprouter.NotAsked("no call was made")) }() // the first Done counts
	s.config.Pause(point("authorize", stepBegun))
	o, err := open(c, choice, s.now(), s.config.CheckAfter)
	if err != nil {
		return Answer{}, err
	}
	err = s.shards.Begin(ctx, o)
	if errors.Is(err, shard.ErrConflict) {
		return s.replayOr(ctx, c, &Error{Code: CodeBusy, Detail: "the key is being taken", RetryIn: time.Second, Remedy: "repeat"})
	}
	if err != nil {
		return Answer{}, unavailable(err)
	}
	snapshot, attempt := shard.Snapshot{Payment: o.Payment, Attempts: []shard.Attempt{o.Attempt}}, o.Attempt
	var waited time.Duration
	for {
		s.config.Pause(point("authorize", stepCommitted))
		outcome, took := s.authorizeAt(ctx, choice, c, snapshot.Payment, attempt)
		waited += took
		s.config.Pause(point("authorize", stepSent))
		next, moved := s.reroute(ctx, choice, c, outcome, &snapshot, &attempt)
		if moved {
			choice = next
			continue
		}
		answer, err := s.conclude(ctx, "authorize", snapshot, attempt, o.Key.KeyRef, outcome)
		answer.PSPTime = waited
		s.config.Pause(point("authorize", stepSettled))
		return answer, err
	}
}

// authorizeAt makes the one call of an attempt.
func (s *Service) authorizeAt(ctx context.Context, choice psprouter.Choice, c AuthorizeCommand, p shard.Payment,
	a shard.Attempt) (psprouter.Outcome, time.Duration) {
	outcome, took := s.call(ctx, choice.PSP, AttemptAuthorize, func(ctx context.Context) psprouter.Outcome {
		return choice.PSP.Authorize(ctx, psprouter.AuthorizeRequest{Attempt: a.ID, Amount: c.Amount, Token: choice.Token,
			AutoCapture: c.CaptureMode == Automatic, ReturnURL: c.ReturnURL, Recovery: recoveryOf(p, c.Key)})
	})
	choice.Done(outcome)
	return outcome, took
}

// reroute moves a payment to another PSP, as a new attempt, if there is proof that nothing happened at the first. The move
// is committed before the other PSP is asked; where it cannot be, the payment ends where it is.
func (s *Service) reroute(ctx context.Context, choice psprouter.Choice, c AuthorizeCommand, o psprouter.Outcome, snapshot *shard.Snapshot,
	attempt *shard.Attempt) (psprouter.Choice, bool) {
	proof, proven := o.NotSent()
	if !proven {
		return choice, false
	}
	next, found := s.psps.Elsewhere(choice, proof, wishOf(c))
	if !found {
		return choice, false
	}
	moved, err := rerouted(*snapshot, *attempt, o, next, s.now(), s.config.CheckAfter)
	if err == nil {
		err = s.shards.Apply(ctx, moved.change)
	}
	if err != nil {
		next.Done(psprouter.NotAsked("the move could not be committed"))
		s.config.Log.WarnContext(ctx, "a payment could not be moved to another PSP", "payment", attempt.PaymentID, "error", err)
		return choice, false
	}
	*snapshot = moved.snapshot(*snapshot)
	*attempt = moved.attempt
	return next, true
}

// rerouted decides the move: the first attempt is closed as not sent, the next one opened.
func rerouted(s shard.Snapshot, a shard.Attempt, o psprouter.Outcome, next psprouter.Choice, at time.Time,
	checkAfter time.Duration) (asked, error) {
	m, err := begin(s.Payment, OnRerouted, at)
	if err != nil {
		return asked{}, err
	}
	m.tells(a, NotSent, o)
	m.payment().PSP = next.PSP.Name()
	following := newAttempt(*m.payment(), AttemptAuthorize, a.Amount, a.ClientKey, at, checkAfter)
	following.RouteReason = clip(next.Reason)
	m.opens(following)
	change, err := m.finish()
	return asked{change: change, attempt: following, subject: following.ID}, err
}

// wishOf is what the choice of a PSP depends on. Hashing client and key makes a repeated call choose alike.
func wishOf(c AuthorizeCommand) psprouter.Wish {
	h := hash("route", c.Client, c.Key)
	return psprouter.Wish{Tokens: c.Method.Tokens, Amount: c.Amount, Country: c.Method.Country, Sticky: binary.BigEndian.Uint64(h[:])}
}

// replayOr answers a key that was used before, or returns otherwise if it was not.
func (s *Service) replayOr(ctx context.Context, c AuthorizeCommand, otherwise error) (Answer, error) {
	key, err := s.shards.OpeningKey(ctx, c.Client, c.Key)
	if err != nil {
		return Answer{}, unavailable(err)
	}
	if key == nil {
		return Answer{}, otherwise
	}
	return s.replay(ctx, *key, c.meaning())
}

// replay answers a repeated key: another meaning is refused whatever became of the first; the stored answer needs nothing
// but the key; while that is missing the caller gets the state so far.
func (s *Service) replay(ctx context.Context, key shard.Key, meaning [32]byte) (Answer, error) {
	if key.RequestHash != meaning {
		return Answer{}, &Error{Code: CodeKeyReused, Detail: "this idempotency key was used with another request", Reference: key.PaymentID,
			Remedy: "use a new key for a new request, or repeat the first request as it was"}
	}
	if key.AnswerKind != "" {
		answer := storedAnswer(key)
		answer.Replayed = true
		return answer, nil
	}
	// The key is read again after the payment: an outcome committed meanwhile is seen with its answer, never without.
	found, err := s.shards.Find(ctx, key.PaymentID, key.KeyRef)
	switch {
	case err != nil:
		return Answer{}, unavailable(err)
	case found.Key != nil && found.Key.AnswerKind != "":
		answer := storedAnswer(*found.Key)
		answer.Replayed = true
		return answer, nil
	case found.Missing:
		return Answer{}, notFound(key.PaymentID)
	}
	return processing(found.Snapshot, key.SubjectID)
}

// processing shows what is known of a call that has no outcome yet: the payment, or the refund that the call made.
func processing(s shard.Snapshot, subject string) (Answer, error) {
	var resource any
	v := viewOf(s.Payment)
	resource = v
	for _, a := range s.Attempts {
		switch {
		case a.ID == subject && a.Kind == AttemptCapture:
			v.CaptureID = a.ID
			resource = v
		case a.ID == subject && a.Kind == AttemptVoid:
			v.VoidID = a.ID
			resource = v
		}
	}
	for _, r := range s.Refunds {
		if r.ID == subject {
			resource = refundViewOf(r, s.Payment)
		}
	}
	body, err := json.Marshal(resource)
	if err != nil {
		return Answer{}, fmt.Errorf("payment %s: answer: %w", s.Payment.ID, err)
	}
	return Answer{Kind: KindProcessing, Body: body, PaymentID: s.Payment.ID}, nil
}

// recoveryOf is what the PSP keeps for the day that a shard loses its last seconds.
func recoveryOf(p shard.Payment, key string) psprouter.Recovery {
	return psprouter.Recovery{Payment: p.ID, Client: p.ClientID, Key: key, Order: p.OrderID, Splits: p.Splits}
}

// call makes one PSP call under its time limit.
func (s *Service) call(ctx context.Context, psp psprouter.PSP, operation string,
	send func(context.Context) psprouter.Outcome) (psprouter.Outcome, time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, s.config.PSPTimeout)
	defer cancel()
	start := s.config.Now()
	outcome := send(ctx)
	took := s.config.Now().Sub(start)
	s.metrics.called(psp.Name(), operation, outcome, took)
	return outcome, took
}

// maxRaces bounds how often one command decides anew because somebody else changed the payment first.
const maxRaces = 50

// conclude commits an outcome and answers the caller. Whoever was first wins: if the attempt is closed already, or its key
// answered, the caller hears what was stored. What cannot be committed is not lost: the attempt stays pending, and the
// caller hears PROCESSING.
func (s *Service) conclude(ctx context.Context, operation string, snapshot shard.Snapshot, a shard.Attempt, ref shard.KeyRef,
	outcome psprouter.Outcome) (Answer, error) {
	s.report(ctx, a, fitting(snapshot.Payment, a, outcome))
	var key *shard.Key // as it was after a race
	for range maxRaces {
		change, answer, err := settle(snapshot, a.ID, outcome, s.now(), s.config.AuthorizationLifetime)
		if err == nil {
			err = s.shards.Apply(ctx, change)
		}
		settled := err == nil || errors.Is(err, errClosed)
		if errors.Is(err, errClosed) {
			s.tooLate(ctx, operation, a, outcome)
		}
		switch {
		case settled && key != nil && key.AnswerKind != "":
			return storedAnswer(*key), nil
		case err == nil:
			return answer, nil
		case settled:
			return processing(snapshot, subjectIn(snapshot, a))
		case !errors.Is(err, shard.ErrConflict):
			return s.unsaved(ctx, operation, snapshot, a, err)
		}
		s.metrics.races.WithLabelValues(operation).Inc()
		found, lost := s.shards.Find(ctx, snapshot.Payment.ID, ref)
		if lost != nil || found.Missing {
			return s.unsaved(ctx, operation, snapshot, a, errors.Join(err, lost))
		}
		snapshot, key = found.Snapshot, found.Key
	}
	return s.unsaved(ctx, operation, snapshot, a, shard.ErrConflict)
}

// tooLate takes note of a success whose attempt was closed while the call was under way: what the PSP did is given back, or
// booked after all. The caller's answer stays the first one.
func (s *Service) tooLate(ctx context.Context, operation string, a shard.Attempt, outcome psprouter.Outcome) {
	if outcome.Class() != psprouter.Approved {
		return
	}
	err := s.learned(ctx, a.PaymentID, a.ID, fact{outcome: outcome})
	if err != nil && !errors.Is(err, errClosed) {
		s.metrics.unsaved.WithLabelValues(operation).Inc()
		s.config.Log.ErrorContext(ctx, "a success that came too late could not be committed; the PSP's notice will tell it again",
			"operation", operation, "payment", a.PaymentID, "attempt", a.ID, "error", err)
	}
}

// storedAnswer is the first answer of a key that has one.
func storedAnswer(k shard.Key) Answer {
	return Answer{Kind: Kind(k.AnswerKind), Body: k.Answer, PaymentID: k.PaymentID}
}

// subjectIn is what a call made: the refund for a refund, else the attempt.
func subjectIn(s shard.Snapshot, a shard.Attempt) string {
	if r, ok := refundOf(s, a.ID); ok {
		return r.ID
	}
	return a.ID
}

// unsaved tells people that an outcome could not be committed. The pending attempt is there to be asked about.
func (s *Service) unsaved(ctx context.Context, operation string, snapshot shard.Snapshot, a shard.Attempt, err error) (Answer, error) {
	s.metrics.unsaved.WithLabelValues(operation).Inc()
	s.config.Log.ErrorContext(ctx, "an outcome could not be committed; the attempt stays pending", "operation", operation,
		"payment", snapshot.Payment.ID, "attempt", a.ID, "error", err)
	return processing(snapshot, subjectIn(snapshot, a))
}

// report tells what must not go unseen: an answer that contradicts what was asked.
func (s *Service) report(ctx context.Context, a shard.Attempt, o psprouter.Outcome) {
	if o.Alert {
		s.metrics.alerts.WithLabelValues(a.PSP, a.Kind).Inc()
		s.config.Log.ErrorContext(ctx, "the PSP's answer does not fit what was asked", "psp", a.PSP, "payment", a.PaymentID,
			"attempt", a.ID, "operation", a.Kind, "reason", o.Reason)
	}
}

// moneyOf is an attempt's amount in its payment's currency.
func moneyOf(p shard.Payment, minor int64) ledger.Money {
	return ledger.Money{Minor: minor, Currency: p.Currency}
}
