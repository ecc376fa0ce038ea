package simulator

import "time"

// Where a payment stands, in Stripe's words for both dialects.
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
	ref, charge, token, currency string // the currency in lower case
	attempt                      string // our own reference: Stripe metadata "attempt", Adyen reference
	place                        int    // in the order of creation
	amount                       int64
	live, manual                 bool // manual: captured by a call of its own
	status                       string
	metadata                     map[string]string
	created, expires             time.Time
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
	timed          []timedEnd
	movements      []movement
	hiddenUntil    time.Time
	held           *task // a notice that waits for the next one to overtake it
	calls          []CallBooks
}

// pendingMove is what a processing payment will do when it is settled.
type pendingMove struct {
	op, key        string
	ref, reference string // Adyen: of the modification, theirs and ours
	amount         int64
	final          bool
	endsBadly      bool // by itself
}

// timedEnd is what a payment does by itself: a pending move or refund ends, or a success is taken back.
type timedEnd struct {
	at         time.Time
	move       *pendingMove
	refund     *refund
	capture    int // of the capture that fails; -1 = none
	succeeded  bool
	wasPending bool // the refund's end, not its return
}

// movement is one taking or giving back of money, as a settlement file lists it; giving back is negative.
type movement struct {
	at             time.Time
	kind, key, ref string
	amount         int64
}

// refund is one refund; its status is Stripe's word.
type refund struct {
	ref, key, reference string // reference is ours, at Adyen
	payment             *payment
	amount              int64
	status              string
	metadata            map[string]string
	created             time.Time
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

// expire releases an authorization that ran out at time at; false if there is none to release.
func (p *payment) expire(at time.Time) bool {
	if p.status != statusAuthorized {
		return false
	}
	p.expired = true
	if p.captured > 0 {
		p.status = statusSucceeded
		return true
	}
	p.status, p.cancelReason, p.canceledAt = statusCanceled, "automatic", at
	return true
}

func (p *payment) void(now time.Time, reason string) {
	p.voided, p.status, p.canceledAt, p.cancelReason = p.authorized > 0, statusCanceled, now, reason
	p.pending = nil
}
