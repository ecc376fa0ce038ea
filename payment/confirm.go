package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"paygrid/psprouter"
	"paygrid/shard"
)

// Confirm asks the PSP what became of a redirect once the buyer is back, and answers with the payment as it is then. It
// needs no idempotency key: asking twice is asking. The PSP's webhook can bring the same news first.
func (s *Service) Confirm(ctx context.Context, c ConfirmCommand) (Answer, error) {
	snapshot, err := s.owned(ctx, c.Client, c.PaymentID)
	if err != nil {
		return Answer{}, err
	}
	if snapshot.Payment.Status != RequiresAction {
		return viewAnswer(snapshot.Payment)
	}
	return s.detached(ctx, nil, func(ctx context.Context) (Answer, error) { return s.confirm(ctx, snapshot, c) })
}

func (s *Service) confirm(ctx context.Context, snapshot shard.Snapshot, c ConfirmCommand) (Answer, error) {
	a, ok := pendingOf(snapshot, AttemptAuthorize)
	if !ok {
		return viewAnswer(snapshot.Payment)
	}
	start := s.now()
	outcome := s.askAfterRedirect(ctx, snapshot, a, c.Details)
	took := s.now().Sub(start)
	if definite(snapshot.Payment, outcome) {
		err := s.learned(ctx, snapshot.Payment.ID, a.ID, fact{outcome: outcome})
		if err != nil && !errors.Is(err, errClosed) {
			return Answer{}, unavailable(err)
		}
	}
	snapshot, err := s.shards.Snapshot(ctx, c.PaymentID)
	if err != nil {
		return Answer{}, unavailable(err)
	}
	answer, err := viewAnswer(snapshot.Payment)
	answer.PSPTime = took
	return answer, err
}

// askAfterRedirect hands over what the buyer brought, where the PSP wants that, and else looks the payment up.
func (s *Service) askAfterRedirect(ctx context.Context, snapshot shard.Snapshot, a shard.Attempt, details map[string]string) psprouter.Outcome {
	psp, ok := s.psps.ByName(a.PSP)
	if !ok {
		return psprouter.UnknownBecause("no PSP is named " + a.PSP)
	}
	confirmer, wants := psp.(psprouter.Confirmer)
	if !wants || len(details) == 0 {
		return s.inquire(ctx, snapshot, a).Outcome
	}
	outcome, _ := s.call(ctx, psp, "CONFIRM", func(ctx context.Context) psprouter.Outcome {
		return confirmer.Confirm(ctx, s.inquiry(snapshot, a, psp, snapshot.Payment.PSPRef), details)
	})
	return outcome
}

// viewAnswer is a payment as an answer that is not stored: what it is now.
func viewAnswer(p shard.Payment) (Answer, error) {
	body, err := json.Marshal(viewOf(p))
	if err != nil {
		return Answer{}, fmt.Errorf("payment %s: answer: %w", p.ID, err)
	}
	kind := KindProcessing
	switch p.Status {
	case Authorized, VoidPending:
		kind = KindAuthorized
	case Captured, PartiallyCaptured, CapturePending:
		kind = KindCharged
	case RequiresAction:
		kind = KindActionRequired
	case Declined, Expired, Voided:
		kind = KindDeclined
	case Failed, CaptureFailed:
		kind = KindUnavailable
	}
	return Answer{Kind: kind, Body: body, PaymentID: p.ID}, nil
}
