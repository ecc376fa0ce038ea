package simulator

import (
	"cmp"
	"fmt"
	"net/http"
)

// createRefund serves POST /v1/refunds. The caller holds the lock.
func (s *stripeDialect) createRefund(r *request, b behaviour) answer {
	p := r.payment
	if bad := checkNames(r.form, refundParams); bad != nil {
		return *bad
	}
	if p == nil {
		return *missing("payment_intent", r.form.Get("payment_intent"))
	}
	amount, metadata, bad := s.refundIn(r)
	switch {
	case bad != nil:
		return *bad
	case p.captured == 0:
		return keptError(p, stripeError{Type: typeInvalid, Param: "payment_intent",
			Message: "This PaymentIntent does not have a successful charge to refund."})
	case p.refundable() == 0:
		return keptError(p, stripeError{Type: typeInvalid, Code: "charge_already_refunded", Charge: p.charge,
			Message: "Charge " + p.charge + " has already been refunded."})
	case amount > p.refundable():
		return keptError(p, stripeError{Type: typeInvalid, Param: "amount",
			Message: fmt.Sprintf("Refund amount (%d) is greater than unrefunded amount on charge (%d)", amount, p.refundable())})
	case b.effect == decline:
		return keptError(p, stripeError{Type: typeInvalid, Code: "charge_disputed", Charge: p.charge,
			Message: "The charge has been charged back and cannot be refunded."})
	}
	made := s.refundMove(p, refund{ref: s.newRef(kindRefund), key: r.key, amount: amount, metadata: metadata}, b)
	return kept(http.StatusOK, renderRefund(made), p, true)
}

// refundIn reads a refund's parameters; no amount means all that is left.
func (s *stripeDialect) refundIn(r *request) (int64, map[string]string, *answer) {
	metadata, bad := metadataIn(r.form)
	amount := r.payment.refundable()
	var bad2 *answer
	if r.form.Has("amount") {
		amount, bad2 = s.amountIn(r.form, "amount")
	}
	return amount, metadata, cmp.Or(bad, bad2)
}
