package simulator

import (
	"slices"
	"time"
)

// Everything in this file changes a payment and tells of it. The caller holds the lock.

// changeKind says what happened.
type changeKind uint8

const (
	changeAuthorization   changeKind = iota // ok: approved; else declined
	changeWaiting                           // for the buyer, or for an end that comes later
	changeCapture                           // ok: taken; else refused
	changeCaptureReversed                   // a capture that was taken has failed
	changeVoid                              // ok: released; else refused
	changeTechnicalCancel                   // the same by our own reference
	changeExpiry
	changeRefund         // ok: made, perhaps pending; else refused
	changeRefundEnd      // a pending one ended
	changeRefundReversed // one that was made came back
)

// change is one state change, as a notice tells it.
type change struct {
	kind   changeKind
	ok     bool
	p      *payment // nil only for a technical cancel that found nothing
	refund *refund
	move   pendingMove // whose key, references and amount they are
	reason string      // of what is not ok
}

// authorize is the card's answer to a confirmed payment.
func (s *Simulator) authorize(p *payment, key string, b behaviour) {
	p.declined = nil
	move := pendingMove{op: opAuthorize, key: key, amount: p.amount, endsBadly: b.endsBadly}
	switch b.effect {
	case approve:
		s.approve(p, move)
		if n := len(p.captures); b.takesBack > 0 && n > 0 {
			s.later(p, timedEnd{at: s.opts.Now().Add(b.takesBack), capture: n - 1})
		}
	case decline:
		s.decline(p, move, declineOf(b.kind, p.token))
	case pend, act:
		p.status = statusProcessing
		if b.effect == act {
			p.status = statusNeedsAction
		}
		s.wait(p, move, b)
	}
}

// enter puts a new payment into the books.
func (s *Simulator) enter(p *payment) {
	p.place = len(s.order)
	s.payments[p.ref] = p
	s.order = append(s.order, p)
}

// wait leaves a move pending; the caller has set the status.
func (s *Simulator) wait(p *payment, move pendingMove, b behaviour) {
	p.pending = &move
	s.tell(change{kind: changeWaiting, ok: true, p: p, move: move})
	if b.ends > 0 {
		s.later(p, timedEnd{at: s.opts.Now().Add(b.ends), move: p.pending, capture: -1, succeeded: !b.endsBadly})
	}
}

func (s *Simulator) decline(p *payment, move pendingMove, why *declineReason) {
	p.status, p.declined = statusNeedsMethod, why
	s.tell(change{kind: changeAuthorization, p: p, move: move, reason: adyenRefusals[why.refusal]})
}

func (s *Simulator) approve(p *payment, move pendingMove) {
	p.authorized = p.amount
	p.authorizations++
	p.status = statusAuthorized
	p.expires = p.created.Add(s.dialect.authorizationLife())
	if !p.manual {
		move.final = true
		s.take(p, move)
	}
	s.tell(change{kind: changeAuthorization, ok: true, p: p, move: move})
}

// capture takes a part of an authorization; the caller has checked what is capturable.
func (s *Simulator) capture(p *payment, move pendingMove, b behaviour) {
	if b.effect == pend {
		p.status = statusProcessing
		s.wait(p, move, b)
		return
	}
	s.take(p, move)
	s.tell(change{kind: changeCapture, ok: true, p: p, move: move})
	if b.takesBack > 0 {
		s.later(p, timedEnd{at: s.opts.Now().Add(b.takesBack), capture: len(p.captures) - 1})
	}
}

// take moves money; final releases the rest of the authorization.
func (s *Simulator) take(p *payment, move pendingMove) {
	p.captures = append(p.captures, CaptureBooks{Key: move.key, Ref: move.ref, AmountPSP: move.amount,
		AmountMinor: s.dialect.isoMinor(move.amount, p.currency)})
	p.captured += move.amount
	s.moved(p, MovementCapture, move.key, move.ref, move.amount)
	p.status = statusAuthorized
	if move.final {
		p.status = statusSucceeded
	}
}

func (s *Simulator) moved(p *payment, kind, key, ref string, amount int64) {
	p.movements = append(p.movements, movement{s.opts.Now(), kind, key, ref, amount})
}

// void releases an authorization, or ends a payment that has none.
func (s *Simulator) void(p *payment, move pendingMove, reason string, b behaviour) {
	if b.effect == pend && p.status == statusAuthorized {
		p.status = statusProcessing
		s.wait(p, move, b)
		return
	}
	p.void(s.opts.Now(), reason)
	s.tell(change{kind: voidKind(move), ok: true, p: p, move: move})
}

func voidKind(move pendingMove) changeKind {
	if move.op == opTechnicalCancel {
		return changeTechnicalCancel
	}
	return changeVoid
}

// refundMove gives money back; the caller has checked what is refundable.
func (s *Simulator) refundMove(p *payment, r refund, b behaviour) *refund {
	made := &r
	made.payment, made.status, made.created = p, refundSucceeded, s.opts.Now()
	if b.effect == pend {
		made.status = refundPending
	}
	p.refunding += made.amount
	p.refunds = append(p.refunds, made)
	s.refunds[made.ref] = made
	if made.status == refundSucceeded {
		s.moved(p, MovementRefund, made.key, made.ref, -made.amount)
	}
	s.tell(change{kind: changeRefund, ok: true, p: p, refund: made})
	switch end := (timedEnd{refund: made, capture: -1, succeeded: !b.endsBadly}); {
	case b.ends > 0:
		end.at, end.wasPending = s.opts.Now().Add(b.ends), true
		s.later(p, end)
	case b.takesBack > 0:
		end.at, end.succeeded = s.opts.Now().Add(b.takesBack), false
		s.later(p, end)
	}
	return made
}

// endRefund ends a refund: a pending one either way, and a succeeded one may still be returned by the bank. It returns
// false if nothing could end so.
func (s *Simulator) endRefund(r *refund, succeeded bool) bool {
	kind := changeRefundEnd
	switch {
	case r.status == refundPending && succeeded:
		r.status = refundSucceeded
		s.moved(r.payment, MovementRefund, r.key, r.ref, -r.amount)
	case r.status != refundFailed && !succeeded:
		if r.status == refundSucceeded {
			kind = changeRefundReversed
			s.moved(r.payment, MovementRefundReversed, r.key, r.ref, r.amount)
		}
		r.status = refundFailed
		r.payment.refunding -= r.amount
	default:
		return false
	}
	s.tell(change{kind: kind, ok: succeeded, p: r.payment, refund: r, reason: reasonUnless(succeeded, "Refund failed")})
	return true
}

func reasonUnless(ok bool, reason string) string {
	if ok {
		return ""
	}
	return reason
}

// endPending ends a payment's pending move. A failed capture or void leaves the authorization as it was.
func (s *Simulator) endPending(p *payment, succeeded bool) bool {
	if p.pending == nil {
		return false
	}
	move := *p.pending
	acted := p.status == statusNeedsAction
	p.pending = nil
	switch {
	case move.op == opAuthorize && succeeded:
		s.approve(p, move)
	case move.op == opAuthorize && acted:
		s.decline(p, move, declineOf("failed3ds", ""))
	case move.op == opAuthorize:
		s.decline(p, move, declineOf("generic", ""))
	case !succeeded:
		p.status = statusAuthorized
		kind := changeCapture
		if move.op != opCapture {
			kind = voidKind(move)
		}
		s.tell(change{kind: kind, p: p, move: move, reason: "Transaction refused"})
	case move.op == opCapture:
		s.take(p, move)
		s.tell(change{kind: changeCapture, ok: true, p: p, move: move})
	default:
		p.void(s.opts.Now(), "requested_by_customer")
		s.tell(change{kind: voidKind(move), ok: true, p: p, move: move})
	}
	return true
}

// takeBack makes a capture fail after it succeeded. It returns false if it failed already, or if some of its money
// has gone back to the buyer.
func (s *Simulator) takeBack(p *payment, n int) bool {
	if n < 0 || n >= len(p.captures) || p.captures[n].Failed || p.refundable() < p.captures[n].AmountPSP {
		return false
	}
	failed := &p.captures[n]
	failed.Failed = true
	p.captured -= failed.AmountPSP
	p.status, p.declined = statusNeedsMethod, declineOf("generic", "")
	s.moved(p, MovementCaptureReversed, failed.Key, failed.Ref, -failed.AmountPSP)
	s.tell(change{kind: changeCaptureReversed, p: p, reason: "Capture failed",
		move: pendingMove{op: opCapture, key: failed.Key, ref: failed.Ref, amount: failed.AmountPSP}})
	return true
}

// later remembers what a payment does by itself. It happens when its time has come and somebody looks, or the queue runs.
func (s *Simulator) later(p *payment, end timedEnd) {
	p.timed = append(p.timed, end)
	s.enqueue(&task{due: end.at, payment: p})
}

// catchUp does all that a payment should have done by itself by now. It is called before anything looks at it.
func (s *Simulator) catchUp(p *payment, now time.Time) {
	if p.status == statusAuthorized && !now.Before(p.expires) && p.expire(p.expires) {
		s.tell(change{kind: changeExpiry, ok: true, p: p, move: pendingMove{op: opVoid, amount: p.amount}})
	}
	for {
		i := slices.IndexFunc(p.timed, func(end timedEnd) bool { return !now.Before(end.at) })
		if i < 0 {
			return
		}
		end := p.timed[i]
		p.timed = slices.Delete(p.timed, i, i+1)
		switch {
		case end.refund != nil && end.wasPending && end.refund.status != refundPending: // ended by hand
		case end.refund != nil:
			s.endRefund(end.refund, end.succeeded)
		case end.capture >= 0:
			s.takeBack(p, end.capture)
		case end.move == p.pending:
			s.endPending(p, end.succeeded)
		}
	}
}
