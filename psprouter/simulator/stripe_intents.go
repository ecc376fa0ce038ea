package simulator

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// metaAttempt is the metadata key under which our adapter writes its attempt.
const metaAttempt = "attempt"

// createIntent serves POST /v1/payment_intents. The caller holds the lock.
func (s *stripeDialect) createIntent(r *request, b behaviour) answer {
	p, bad := s.newPayment(r)
	if bad != nil {
		return *bad
	}
	if r.op == opCreate {
		s.admitPayment(p)
		return kept(http.StatusOK, renderIntent(p, expands(r.form)), p, true)
	}
	if p.token == "" {
		return *invalid("parameter_missing", "payment_method", "A payment needs a payment_method to be confirmed.")
	}
	s.admitPayment(p)
	return s.confirm(r, p, b)
}

// newPayment reads a payment from the form; it is not in the books yet.
func (s *stripeDialect) newPayment(r *request) (*payment, *answer) {
	bad := checkNames(r.form, createParams)
	amount, bad2 := s.amountIn(r.form, "amount")
	currency, bad3 := currencyIn(r.form)
	metadata, bad4 := metadataIn(r.form)
	manual, bad5 := manualIn(r)
	bad6 := checkToken(r.form.Get("payment_method"))
	if bad = cmp.Or(bad, bad2, bad3, bad4, bad5, bad6); bad != nil {
		return nil, bad
	}
	p := &payment{
		currency: currency, amount: amount, manual: manual, metadata: metadata, created: s.opts.Now(), live: s.opts.Live,
		attempt: metadata[metaAttempt],
		token:   r.form.Get("payment_method"), returnURL: r.form.Get("return_url"), status: statusNeedsConfirm,
	}
	if p.token == "" {
		p.status = statusNeedsMethod
	}
	return p, nil
}

func (s *stripeDialect) admitPayment(p *payment) {
	p.ref = s.newRef(kindPayment)
	s.enter(p)
	s.label(p, p.metadata)
}

// label adds metadata to a payment. What it says of the attempt is indexed: resolvers search by it, many at once after an
// outage, and reading all payments for each would cost more than the payments did.
func (s *stripeDialect) label(p *payment, metadata map[string]string) {
	maps.Copy(p.metadata, metadata)
	attempt := metadata[metaAttempt]
	if attempt == "" || slices.Contains(s.labelled[attempt], p) {
		return
	}
	list := append(s.labelled[attempt], p)
	slices.SortFunc(list, func(a, b *payment) int { return cmp.Compare(a.place, b.place) })
	s.labelled[attempt] = list
}

func manualIn(r *request) (bool, *answer) {
	switch method := r.form.Get("capture_method"); method {
	case "manual":
		return true, nil
	case "", "automatic", "automatic_async":
		return false, nil
	default:
		return false, invalid("", "capture_method", "Invalid capture_method: "+method)
	}
}

func checkToken(token string) *answer {
	if authorize, _ := parseToken(token); token != "" && authorize == "" {
		return invalid("resource_missing", "payment_method", fmt.Sprintf("No such PaymentMethod: '%.80s'", token))
	}
	return nil
}

// confirmIntent serves POST /v1/payment_intents/{id}/confirm. The caller holds the lock.
func (s *stripeDialect) confirmIntent(r *request, b behaviour) answer {
	p := r.payment
	bad := cmp.Or(checkNames(r.form, confirmParams), checkToken(r.form.Get("payment_method")))
	switch {
	case p == nil:
		return *missing("payment_intent", r.path)
	case bad != nil:
		return *bad
	case p.status != statusNeedsMethod && p.status != statusNeedsConfirm:
		return unexpected(p, "confirmed")
	}
	p.token = cmp.Or(r.form.Get("payment_method"), p.token)
	p.returnURL = cmp.Or(r.form.Get("return_url"), p.returnURL)
	if p.token == "" {
		return *invalid("parameter_missing", "payment_method", "A payment needs a payment_method to be confirmed.")
	}
	return s.confirm(r, p, b)
}

// confirm asks the simulated card. A payment that needs its buyer while the caller wants none of that is declined.
func (s *stripeDialect) confirm(r *request, p *payment, b behaviour) answer {
	refuseAction, bad := boolIn(r.form, "error_on_requires_action", false)
	if bad != nil {
		return *bad
	}
	p.charge = s.newRef(kindCharge)
	if b.effect == act && refuseAction {
		b.effect, b.kind = decline, "authentication"
	}
	s.authorize(p, r.key, b)
	if p.declined != nil {
		intent := renderIntent(p, expands(r.form))
		return kept(http.StatusPaymentRequired, map[string]any{"error": declineError(p, intent)}, p, true)
	}
	return kept(http.StatusOK, renderIntent(p, expands(r.form)), p, true)
}

// captureIntent serves POST /v1/payment_intents/{id}/capture. The caller holds the lock.
func (s *stripeDialect) captureIntent(r *request, b behaviour) answer {
	p := r.payment
	if p == nil {
		return *missing("payment_intent", r.path)
	}
	amount, final, metadata, bad := s.captureIn(r)
	switch {
	case bad != nil:
		return *bad
	case p.expired:
		return keptError(p, stripeError{Type: typeInvalid, Code: "charge_expired_for_capture", Charge: p.charge,
			Message: "The authorization has expired; it can no longer be captured."})
	case p.status != statusAuthorized:
		return unexpected(p, "captured")
	case amount > p.capturable():
		return keptError(p, stripeError{Type: typeInvalid, Code: "amount_too_large", Param: "amount_to_capture",
			Message: fmt.Sprintf("The amount to capture is above the %d capturable.", p.capturable())})
	case b.effect == decline:
		return refused(p)
	}
	s.label(p, metadata)
	s.capture(p, pendingMove{op: opCapture, key: r.key, amount: amount, final: final, endsBadly: b.endsBadly}, b)
	return kept(http.StatusOK, renderIntent(p, expands(r.form)), p, true)
}

// captureIn reads a capture's parameters; no amount means all that is left.
func (s *stripeDialect) captureIn(r *request) (amount int64, final bool, metadata map[string]string, bad *answer) {
	bad = checkNames(r.form, captureParams)
	final, bad2 := boolIn(r.form, "final_capture", true)
	metadata, bad3 := metadataIn(r.form)
	amount = r.payment.capturable()
	var bad4 *answer
	if r.form.Has("amount_to_capture") {
		amount, bad4 = s.amountIn(r.form, "amount_to_capture")
	}
	return amount, final, metadata, cmp.Or(bad, bad2, bad3, bad4)
}

// cancelIntent serves POST /v1/payment_intents/{id}/cancel. The caller holds the lock.
func (s *stripeDialect) cancelIntent(r *request, b behaviour) answer {
	p := r.payment
	if p == nil {
		return *missing("payment_intent", r.path)
	}
	if bad := checkNames(r.form, cancelParams); bad != nil {
		return *bad
	}
	switch p.status {
	case statusNeedsMethod, statusNeedsConfirm, statusNeedsAction, statusAuthorized:
	default:
		return unexpected(p, "canceled")
	}
	if b.effect == decline {
		return refused(p)
	}
	s.void(p, pendingMove{op: opVoid, key: r.key, amount: p.amount, endsBadly: b.endsBadly}, r.form.Get("cancellation_reason"), b)
	return kept(http.StatusOK, renderIntent(p, expands(r.form)), p, true)
}

// kept returns an answer that the idempotency layer keeps.
func kept(status int, body any, p *payment, executed bool) answer {
	return answer{status: status, body: encode(body), keep: true, executed: executed, payment: p}
}

func keptError(p *payment, e stripeError) answer {
	return kept(http.StatusBadRequest, map[string]stripeError{"error": e}, p, false)
}

func unexpected(p *payment, verb string) answer {
	return keptError(p, stripeError{Type: typeInvalid, Code: "payment_intent_unexpected_state",
		Message:       fmt.Sprintf("This PaymentIntent could not be %s because it has a status of %s.", verb, p.status),
		PaymentIntent: renderIntent(p, false)})
}

// refused is the card's or the network's no to a capture or a void; the authorization stays as it was.
func refused(p *payment) answer {
	e := stripeError{Type: typeCard, Code: "card_declined", DeclineCode: "generic_decline", Charge: p.charge,
		Message: "Your card was declined.", PaymentIntent: renderIntent(p, false)}
	return kept(http.StatusPaymentRequired, map[string]stripeError{"error": e}, p, false)
}
