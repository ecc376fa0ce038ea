package adyen

import (
	"context"
	"time"

	"paygrid/psprouter"
)

// ResendLimit is how long after its first send a request may be sent again under its key: Adyen keeps keys for at least
// seven days, of which one is our margin.
const ResendLimit = 6 * 24 * time.Hour

// Inquire sends the byte-identical request again under the same key, which replays Adyen's answer or, if the first send
// never arrived, executes it now. It never finds absence. After ResendLimit it makes no call and answers Unknown.
func (a *Adapter) Inquire(ctx context.Context, q psprouter.Inquiry) psprouter.Finding {
	if age := q.Now.Sub(q.SentAt); q.SentAt.IsZero() || age >= ResendLimit {
		return psprouter.Finding{Outcome: psprouter.UnknownBecause(
			"sent too long ago to be sent again under its key: only a webhook or the settlement file can tell")}
	}
	return psprouter.Finding{Outcome: afterFirst(a.resend(ctx, q))}
}

func (a *Adapter) resend(ctx context.Context, q psprouter.Inquiry) psprouter.Outcome {
	switch q.Operation {
	case psprouter.OpAuthorize:
		return a.authorize(ctx, psprouter.AuthorizeRequest{
			Attempt: q.Attempt, Amount: q.Amount, Token: q.Token, AutoCapture: q.AutoCapture, ReturnURL: q.ReturnURL, Recovery: q.Recovery,
		}, sentBefore)
	case psprouter.OpCapture:
		return a.capture(ctx, psprouter.CaptureRequest{
			Attempt: q.Attempt, PaymentRef: q.PaymentRef, Amount: q.Amount, Authorized: q.Authorized, Captured: q.Captured,
			Final: q.Final, Recovery: q.Recovery,
		}, sentBefore)
	case psprouter.OpVoid:
		return a.void(ctx, psprouter.VoidRequest{
			Attempt: q.Attempt, PaymentRef: q.PaymentRef, Amount: q.Amount, Recovery: q.Recovery,
		}, sentBefore)
	case psprouter.OpRefund:
		return a.refund(ctx, psprouter.RefundRequest{
			Attempt: q.Attempt, Refund: q.Refund, PaymentRef: q.PaymentRef, Amount: q.Amount, Recovery: q.Recovery,
		}, sentBefore)
	}
	return psprouter.UnknownBecause("no such operation: " + q.Operation)
}

// afterFirst: that the second send never left says nothing about the first.
func afterFirst(out psprouter.Outcome) psprouter.Outcome {
	if out.Class() == psprouter.NotSent {
		return psprouter.UnknownBecause("the second send did not leave: " + out.Reason)
	}
	return out
}

// VisibilityWindow is how long after a call its absence proves nothing.
func (a *Adapter) VisibilityWindow() time.Duration { return a.cfg.VisibilityWindow }
