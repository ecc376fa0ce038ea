package simulator

import (
	"net/http"
	"time"
)

// Dialect is the wire format that a simulator speaks.
type Dialect string

// The dialects.
const (
	DialectStripe Dialect = "stripe" // below /v1/
	DialectAdyen  Dialect = "adyen"  // below /v71/
)

// dialect is what the two wire formats do differently. A dialect keeps no state; all that it is asked under the lock may
// read the simulator.
type dialect interface {
	// routes adds the PSP's API to mux.
	routes(mux *http.ServeMux)
	// authenticate returns the refusal of a caller without the account's key, or nil.
	authenticate(r *http.Request) *answer
	// read fills in what a request asks for, from its body; what it refuses is not kept.
	read(r *request, body []byte) *answer
	// locate finds the payment that a request names, and the token that decides its fault. The caller holds the lock.
	locate(r *request)
	// maxKey and keyLife bound an idempotency key: its characters, and the time after which it executes anew.
	maxKey() int
	keyLife() time.Duration
	// otherBody answers a key that comes back with another request; nil means that the first answer is replayed.
	otherBody() *answer
	// refuse answers in place of an execution.
	refuse(why refusal) answer
	// headers sets what every answer carries; replayed marks one from the idempotency layer.
	headers(out http.Header, in http.Header, replayed bool)
	// distort changes a decoded answer as lie says.
	distort(body map[string]any, lie distortion)
	// notice returns the event that tells of a change; false if this PSP sends none. The caller holds the lock.
	notice(c change, id string) (event, bool)
	// twin returns the event as it is sent a second time, as if it were another.
	twin(e event) event
	// sign returns a notice as it goes out now, or a forgery of it.
	sign(e *event, now time.Time, forge bool) (body []byte, header http.Header)
	// acknowledged tells whether an answer to a notice was a receipt.
	acknowledged(status int, body []byte) bool
	// authorizationLife is how long an authorization can be captured.
	authorizationLife() time.Duration
	// isoMinor converts the PSP's unit to ISO minor units; -1 if that is no whole number.
	isoMinor(amount int64, currency string) int64
	// newRef returns a new ID of a kind: payment, charge, refund, modification. The caller holds the lock.
	newRef(kind string) string
}

// The kinds of IDs.
const (
	kindPayment      = "payment"
	kindCharge       = "charge"
	kindRefund       = "refund"
	kindModification = "modification"
)
