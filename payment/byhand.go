package payment

import (
	"context"
	"errors"
	"fmt"

	"paygrid/psprouter"
	"paygrid/shard"
)

// maxReason bounds why people settle an attempt by hand, so that their names and it stand on the attempt in full.
const maxReason = 300

// CheckByHand tells whether people may settle an attempt so: it waits for an answer, and the outcome ends it. It returns a
// *Error with CodeNotFound, CodeWrongState, CodeInvalid or CodeUnavailable.
func (s *Service) CheckByHand(ctx context.Context, paymentID, attemptID string, o psprouter.Outcome, reason string) error {
	_, err := s.byHand(ctx, paymentID, attemptID, o, reason)
	return err
}

// SettleByHand commits what people know of an attempt, by the same decision as everything else that we learn. actor names
// both of them; that there were two is for the caller to have made sure (shard.Cluster.DecideApproval). The outcome is
// Approved with the PSP's reference, Declined or NotSent. Should the PSP say something else later, late news is dealt with
// as always. It returns a *Error as CheckByHand does.
func (s *Service) SettleByHand(ctx context.Context, paymentID, attemptID string, o psprouter.Outcome, actor, reason string) error {
	if actor == "" {
		return invalid("/actor", "nobody is named", "name who asked and who approved")
	}
	o, err := s.byHand(ctx, paymentID, attemptID, o, reason)
	if err != nil {
		return err
	}
	o.Reason = "settled by hand" // clients may read it, in an answer or a payment; who and why is ours
	err = s.learned(ctx, paymentID, attemptID, fact{outcome: o, record: fmt.Sprintf("settled by hand, %s: %s", actor, reason)})
	var transition *TransitionError
	switch {
	case err == nil:
		s.config.Log.InfoContext(ctx, "an attempt was settled by hand", "payment", paymentID, "attempt", attemptID, "outcome", o.Class().String(),
			"reference", o.Reference, "by", actor, "reason", reason)
		return nil
	case errors.Is(err, errClosed):
		return closedAlready(attemptID)
	case errors.Is(err, errEarly), errors.As(err, &transition):
		return &Error{Code: CodeWrongState, Detail: "the payment is not ready for this: " + err.Error(), Reference: attemptID,
			Remedy: "settle what else waits first", Err: err}
	}
	return unavailable(err)
}

// record puts what is to stand on the attempt there.
func record(change shard.Change, attemptID string, f fact) {
	for n, a := range change.Attempts {
		if a.ID == attemptID && f.record != "" {
			change.Attempts[n].Detail = clip(f.record)
		}
	}
}

// byHand checks the rules, and returns the outcome as the attempt's kind wants it.
func (s *Service) byHand(ctx context.Context, paymentID, attemptID string, o psprouter.Outcome, reason string) (psprouter.Outcome, error) {
	if reason == "" || len(reason) > maxReason || !printable(reason) {
		return o, invalid("/reason", fmt.Sprintf("must have 1 to %d bytes, all printable", maxReason), "say where you saw it")
	}
	snapshot, err := s.shards.Snapshot(ctx, paymentID)
	if errors.Is(err, shard.ErrNotFound) {
		return o, notFound(paymentID)
	}
	if err != nil {
		return o, unavailable(err)
	}
	a, ok := attemptOf(snapshot, attemptID)
	if !ok {
		return o, &Error{Code: CodeNotFound, Detail: "the payment has no such attempt", Reference: clip(attemptID), Remedy: "check the ID"}
	}
	if a.Status != Pending {
		return o, closedAlready(attemptID)
	}
	return fitsByHand(snapshot.Payment, a, o)
}

// fitsByHand holds what an outcome by hand must be like. It is pure.
func fitsByHand(p shard.Payment, a shard.Attempt, o psprouter.Outcome) (psprouter.Outcome, error) {
	switch o.Class() {
	case psprouter.Approved:
		if o.Reference == "" || len(o.Reference) > maxReference || !printable(o.Reference) {
			return o, invalid("/reference", fmt.Sprintf("an approval needs the PSP's ID, of 1 to %d printable bytes", maxReference),
				"take it from the PSP's dashboard")
		}
		o.Captured = a.Kind == AttemptAuthorize && CaptureMode(p.CaptureMode) == Automatic
		return o, nil
	case psprouter.Declined:
		return o, nil
	case psprouter.NotSent:
		if returns(a) == "" {
			return o, nil
		}
		return o, &Error{Code: CodeWrongState, Detail: "it gives a late success back and is sent again until that is done", Reference: a.ID,
			Remedy: "settle it as approved once the PSP shows it"}
	}
	return o, invalid("/outcome", "it settles nothing", "say approved, declined or absent")
}

func closedAlready(attemptID string) *Error {
	return &Error{Code: CodeWrongState, Detail: "the attempt has its end already", Reference: attemptID, Remedy: "read it with explain"}
}
