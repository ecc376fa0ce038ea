package simulator

import "time"

// Stripe's words for where a payment stands.
const (
	statusNeedsMethod  = "requires_payment_method"
	statusNeedsConfirm = "requires_confirmation"
	statusNeedsAction  = "requires_action"
	statusProcessing   = "processing"
	statusAuthorized   = "requires_capture"
	statusSucceeded    = "succeeded"
	statusCanceled     = "canceled"
)

// payment is one payment and all money that it moved, in the PSP's unit.
type payment struct {
	ref, charge, token, currency string
	amount                       int64
	manual                       bool // captured by a call of its own
	status                       string
	metadata                     map[string]string
	created                      time.Time
	canceledAt                   time.Time
	cancelReason                 string
	returnURL                    string
	declined                     *declineReason

	authorized     int64 // approved by the card, 0 before
	authorizations int   // approvals; more than one would be a fault of this simulator
	captures       []CaptureBooks
	captured       int64
	refunds        []*refund
	refunding      int64 // pending and succeeded refunds
	voided         bool
	expired        bool
	pending        *pendingMove
	hiddenUntil    time.Time
	calls          []CallBooks
}

// pendingMove is what a processing payment will do when it is settled.
type pendingMove struct {
	op     string
	key    string
	amount int64
	final  bool
}

// refund is one refund; its status is Stripe's word.
type refund struct {
	ref, key string
	payment  *payment
	amount   int64
	status   string
	metadata map[string]string
	created  time.Time
}

const (
	refundPending   = "pending"
	refundSucceeded = "succeeded"
	refundFailed    = "failed"
)

// capturable is what is left of the authorization.
func (p *payment) capturable() int64 {
	if p.status != statusAuthorized {
		return 0
	}
	return p.authorized - p.captured
}

// refundable is what was captured and is not on its way back.
func (p *payment) refundable() int64 { return p.captured - p.refunding }

// refunded is what went back for good.
func (p *payment) refunded() (sum int64) {
	for _, r := range p.refunds {
		if r.status == refundSucceeded {
			sum += r.amount
		}
	}
	return sum
}

// expire releases an authorization that ran out. It is called before anything looks at p, so no timer is needed.
func (p *payment) expire(now time.Time) {
	if p.status != statusAuthorized || now.Before(p.created.Add(authorizationLife)) {
		return
	}
	p.expired = true
	if p.captured > 0 {
		p.status = statusSucceeded
		return
	}
	p.status, p.cancelReason, p.canceledAt = statusCanceled, "automatic", p.created.Add(authorizationLife)
}

// authorize is the card's answer to a confirmed payment.
func (p *payment) authorize(key string, e effect) {
	p.declined = nil
	switch e {
	case approve:
		p.approve(key)
	case decline:
		reason := declineOf(p.token)
		p.status, p.declined = statusNeedsMethod, &reason
	case pend:
		p.status, p.pending = statusProcessing, &pendingMove{op: opAuthorize, key: key}
	case act:
		p.status, p.pending = statusNeedsAction, &pendingMove{op: opAuthorize, key: key}
	}
}

func (p *payment) approve(key string) {
	p.authorized = p.amount
	p.authorizations++
	p.status = statusAuthorized
	if !p.manual {
		p.capture(key, p.amount, true)
	}
}

// capture moves amount; final releases the rest. The caller has checked what is capturable.
func (p *payment) capture(key string, amount int64, final bool) {
	p.captures = append(p.captures, CaptureBooks{Key: key, AmountStripe: amount, AmountMinor: isoMinor(amount, p.currency)})
	p.captured += amount
	p.status = statusAuthorized
	if final {
		p.status = statusSucceeded
	}
}

func (p *payment) void(now time.Time, reason string) {
	p.voided, p.status, p.canceledAt, p.cancelReason = p.authorized > 0, statusCanceled, now, reason
}

// settle ends a processing payment. A failed capture or void leaves the authorization as it was.
func (p *payment) settle(succeeded bool, now time.Time) bool {
	move := p.pending
	if move == nil {
		return false
	}
	p.pending = nil
	switch {
	case move.op == opAuthorize && succeeded:
		p.approve(move.key)
	case move.op == opAuthorize:
		reason := declineOf("")
		p.status, p.declined = statusNeedsMethod, &reason
	case !succeeded:
		p.status = statusAuthorized
	case move.op == opCapture:
		p.capture(move.key, move.amount, move.final)
	default:
		p.void(now, "requested_by_customer")
	}
	return true
}

// settle ends a refund: a pending one either way, and a succeeded one may still be returned by the bank.
func (r *refund) settle(succeeded bool) bool {
	switch {
	case r.status == refundPending && succeeded:
		r.status = refundSucceeded
	case r.status != refundFailed && !succeeded:
		r.status = refundFailed
		r.payment.refunding -= r.amount
	default:
		return false
	}
	return true
}
