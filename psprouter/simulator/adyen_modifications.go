package simulator

import (
	"net/http"
	"strings"
)

// modification reads what captures, cancels and refunds share. Whatever comes of it, the answer is that it was received;
// the result is a notice.
func (s *adyenDialect) modification(r *request, withAmount bool) (pendingMove, *answer) {
	in, p := r.body, r.payment
	if p == nil {
		return pendingMove{}, unprocessable("167", "Original pspReference required for this operation")
	}
	move := pendingMove{op: r.op, key: r.key, ref: s.newRef(kindModification), reference: in.Reference, amount: p.amount}
	if !withAmount {
		return move, nil
	}
	if bad := s.checkAmount(in.Amount); bad != nil {
		return move, bad
	}
	if in.Amount.Currency != strings.ToUpper(p.currency) {
		return move, unprocessable("138", "Unsupported currency specified")
	}
	move.amount = in.Amount.Value
	return move, nil
}

// received is the answer to every modification.
func (s *adyenDialect) received(r *request, move pendingMove, executed bool) answer {
	w := adyenModification{MerchantAccount: s.opts.MerchantAccount, PSPReference: move.ref, Reference: move.reference, Status: "received",
		Amount: r.body.Amount, PaymentReference: r.body.PaymentReference}
	if r.id != "" {
		w.PaymentPSPReference = r.id
	}
	return kept(http.StatusCreated, w, r.payment, executed)
}

// captures serves POST /v71/payments/{id}/captures. The caller holds the lock.
func (s *adyenDialect) captures(r *request, b behaviour) answer {
	move, bad := s.modification(r, true)
	if bad != nil {
		return *bad
	}
	p := r.payment
	s.changing[move.ref] = p
	reason := ""
	switch {
	case b.effect == decline:
		reason = "Transaction refused"
	case p.expired:
		reason = "Authorisation expired"
	case p.status != statusAuthorized:
		reason = "Transaction not capturable"
	case move.amount > p.capturable():
		reason = "Insufficient balance on payment"
	}
	if reason != "" {
		s.tell(change{kind: changeCapture, p: p, move: move, reason: reason})
		return s.received(r, move, false)
	}
	move.final = !s.opts.SeveralCaptures || move.amount == p.capturable()
	s.capture(p, move, b)
	return s.received(r, move, true)
}

// cancels serves POST /v71/payments/{id}/cancels. The caller holds the lock.
func (s *adyenDialect) cancels(r *request, b behaviour) answer {
	move, bad := s.modification(r, false)
	if bad != nil {
		return *bad
	}
	return s.cancel(r, move, b)
}

// technicalCancel serves POST /v71/cancels: a cancel by our own reference. A reference that is not known is received as
// well. The caller holds the lock.
func (s *adyenDialect) technicalCancel(r *request, b behaviour) answer {
	if r.body.PaymentReference == "" {
		return *unprocessable("130", "paymentReference is missing")
	}
	if r.payment == nil || !s.visible(r.payment) {
		r.payment = nil
		move := pendingMove{op: opTechnicalCancel, key: r.key, ref: s.newRef(kindModification), reference: r.body.Reference}
		s.tell(change{kind: changeTechnicalCancel, move: move, reason: "Payment not found"})
		return s.received(r, move, false)
	}
	move, bad := s.modification(r, false)
	if bad != nil {
		return *bad
	}
	move.op = opTechnicalCancel
	return s.cancel(r, move, b)
}

func (s *adyenDialect) cancel(r *request, move pendingMove, b behaviour) answer {
	p := r.payment
	s.changing[move.ref] = p
	reason := ""
	switch {
	case b.effect == decline:
		reason = "Transaction refused"
	case p.captured > 0 || p.status == statusSucceeded:
		reason = "Transaction already captured"
	case p.status == statusCanceled || p.status == statusNeedsMethod:
		reason = "Transaction not cancellable"
	case p.pending != nil && p.pending.op != opAuthorize:
		reason = "Another modification is in progress"
	}
	if reason != "" {
		s.tell(change{kind: voidKind(move), p: p, move: move, reason: reason})
		return s.received(r, move, false)
	}
	s.void(p, move, "requested_by_customer", b)
	return s.received(r, move, true)
}

// refundsOf serves POST /v71/payments/{id}/refunds. The caller holds the lock.
func (s *adyenDialect) refundsOf(r *request, b behaviour) answer {
	move, bad := s.modification(r, true)
	if bad != nil {
		return *bad
	}
	p := r.payment
	asked := refund{ref: move.ref, key: r.key, reference: move.reference, amount: move.amount}
	reason := ""
	switch {
	case b.effect == decline:
		reason = "Transaction refused"
	case p.captured == 0:
		reason = "Transaction hasn't been captured, refund not possible"
	case move.amount > p.refundable():
		reason = "Insufficient balance on payment"
	}
	if reason != "" {
		s.tell(change{kind: changeRefund, p: p, refund: &asked, reason: reason})
		return s.received(r, move, false)
	}
	s.refundMove(p, asked, b)
	return s.received(r, move, true)
}
