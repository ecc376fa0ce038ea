package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	stripego "github.com/stripe/stripe-go/v82"

	"paygrid/psprouter"
)

const clockMargin = 30 * time.Second // between our clock and Stripe's, both ways; a census checks that they agree better

// VisibilityWindow is how long after a call its absence proves nothing.
func (a *Adapter) VisibilityWindow() time.Duration { return a.window }

// Inquire looks a call up; it sends no POST. A known payment is read by its ID, which is consistent. An authorization
// without one is searched by our attempt, which lags, and, once absence can prove something, listed by the time of its
// creation, which does not: only both together say Absent. Whatever goes wrong with a look-up is Unknown: it says nothing of the call that it asks about.
func (a *Adapter) Inquire(ctx context.Context, q psprouter.Inquiry) psprouter.Finding {
	want, err := a.askedBy(q)
	if err != nil {
		return notFound(err.Error())
	}
	ref := q.PaymentRef
	if ref == "" && q.Operation == psprouter.OpAuthorize {
		ref = q.AttemptRef
	}
	switch {
	case q.Operation == psprouter.OpAuthorize && ref == "":
		return a.search(ctx, q, want)
	case ref == "":
		return notFound("the payment's reference is not known")
	case q.Operation == psprouter.OpRefund:
		return a.findRefund(ctx, q, want)
	}
	intent, err := a.retrieve(ctx, ref)
	if err != nil {
		return notFound(err.Error())
	}
	return judgeIntent(intent, ref, q, want)
}

func notFound(why string) psprouter.Finding {
	return psprouter.Finding{Outcome: psprouter.UnknownBecause(why)}
}

// wanted is an inquiry's amounts in Stripe's unit.
type wanted struct {
	amount, authorized, before int64
	currency                   string
}

func (a *Adapter) askedBy(q psprouter.Inquiry) (wanted, error) {
	w := wanted{currency: wireCurrency(q.Amount)}
	var err, err2, err3 error
	w.amount, err = a.units.toStripe(q.Amount)
	if q.Operation == psprouter.OpCapture {
		whole, before := q.Amount, q.Amount
		whole.Minor, before.Minor = q.Authorized, q.Captured
		w.authorized, err2 = a.units.toStripe(whole)
		w.before, err3 = a.units.toStripe(before)
	}
	return w, errors.Join(err, err2, err3)
}

func (a *Adapter) retrieve(ctx context.Context, ref string) (*stripego.PaymentIntent, error) {
	var intent *stripego.PaymentIntent
	err := a.lookUp(ctx, func(ctx context.Context) (err error) {
		intent, err = a.client.V1PaymentIntents.Retrieve(ctx, ref, &stripego.PaymentIntentRetrieveParams{
			Expand: stripego.StringSlice([]string{"latest_charge"}),
		})
		return err
	})
	return intent, err
}

// lookUp makes one look-up and turns everything but a readable 200 into an error.
func (a *Adapter) lookUp(ctx context.Context, call func(context.Context) error) error {
	var failed error
	seen := a.do(ctx, func(ctx context.Context) error {
		failed = call(ctx)
		return failed
	})
	switch {
	case seen.unsent != "":
		return errors.New(seen.unsent)
	case seen.fault != nil:
		return fmt.Errorf("the look-up was answered with %s", unrecognised(seen).Reason)
	case failed != nil:
		return fmt.Errorf("the look-up has no readable answer: %w", failed)
	case seen.status != http.StatusOK:
		return fmt.Errorf("the look-up was answered with status %d", seen.status)
	}
	return nil
}

// search finds an authorization by our attempt alone. A payment that search knows is read again by its ID, since what
// search shows of it may be old. The list has all payments of those minutes, some hundred thousand bytes a page: after an
// outage hundreds of attempts ask, so it is only read when it can prove absence, or in place of a search that fails, and by
// a census for all who ask.
func (a *Adapter) search(ctx context.Context, q psprouter.Inquiry, want wanted) psprouter.Finding {
	if q.SentAt.IsZero() {
		return notFound("when the request was sent is not known: there is no time window to list")
	}
	mine := func(one *listed) bool { return one.Metadata[metaAttempt] == q.Attempt }
	searched, searchFailed := pages(ctx, a, list[listed]{
		path: "/v1/payment_intents/search", keep: mine,
		query: url.Values{"query": {fmt.Sprintf("metadata[%q]:%q", metaAttempt, q.Attempt)}},
	})
	switch {
	case searchFailed == nil && len(searched) == 1:
		return a.again(ctx, searched[0].ID, q, want)
	case searchFailed == nil && len(searched) == 0 && q.Now.Sub(q.SentAt) < a.window:
		return notFound("search does not know the attempt; that proves nothing yet")
	}
	inList, listFailed := a.created(ctx, q)
	switch {
	case max(len(searched), len(inList)) > 1:
		out := psprouter.Contradiction(fmt.Sprintf("%d payments of one attempt", max(len(searched), len(inList))))
		return psprouter.Finding{Outcome: out}
	case len(inList) == 1:
		return a.again(ctx, inList[0], q, want)
	case searchFailed != nil || listFailed != nil:
		return notFound(errors.Join(searchFailed, listFailed).Error())
	}
	return psprouter.AbsentBecause("neither search nor the list of that time knows the attempt")
}

// listed is what of a payment tells whose it is. The rest is read again by the ID; to decode it a hundred times a page
// would cost a router more than its payments do.
type listed struct {
	ID       string            `json:"id"`
	Metadata map[string]string `json:"metadata"`
}

func (a *Adapter) again(ctx context.Context, ref string, q psprouter.Inquiry, want wanted) psprouter.Finding {
	intent, err := a.retrieve(ctx, ref)
	if err != nil {
		return notFound(err.Error())
	}
	return judgeIntent(intent, ref, q, want)
}

// findRefund lists the payment's refunds, which is consistent, and looks for our attempt.
func (a *Adapter) findRefund(ctx context.Context, q psprouter.Inquiry, want wanted) psprouter.Finding {
	found, err := pages(ctx, a, list[stripego.Refund]{
		path: "/v1/refunds", query: url.Values{"payment_intent": {q.PaymentRef}},
		id:   func(refund *stripego.Refund) string { return refund.ID },
		keep: func(refund *stripego.Refund) bool { return refund.Metadata[metaAttempt] == q.Attempt },
	})
	switch {
	case err != nil:
		return notFound(err.Error())
	case len(found) == 0:
		return psprouter.AbsentBecause("none of the payment's refunds is of this attempt")
	case len(found) > 1:
		return psprouter.Finding{Outcome: psprouter.Contradiction(fmt.Sprintf("%d refunds of one attempt", len(found)))}
	}
	return psprouter.Finding{Outcome: refundStatus(found[0], askedRefund{
		attempt: q.Attempt, intent: q.PaymentRef, amount: want.amount, currency: want.currency,
	})}
}
