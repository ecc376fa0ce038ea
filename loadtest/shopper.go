package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// shopper sends requests as shops' servers do: what a router cannot take goes to the next one under the same key, at the time
// that the router asked for.
type shopper struct {
	urls   []string
	http   *http.Client
	now    func() time.Time
	tries  int
	next   atomic.Uint64 // router's turn
	onSend func()        // each request

	shedTries int                                  // of a call that is turned away under stress
	impatient bool                                 // does not wait as long as it is told to
	onShed    func(op Op, at time.Time, told bool) // each answer that turns a call away
}

// The shopper's limits.
const (
	shopperConns     = 2048
	maxShopperConns  = 8192 // to one router; more requests wait, and are measured from their intended start
	shopperTimeout   = 60 * time.Second
	firstRetryPause  = 50 * time.Millisecond
	longestRetry     = 2 * time.Second // what Retry-After says, up to this
	defaultTries     = 40
	maxReplyBytes    = 1 << 20
	laterPatience    = 120 * time.Second // how long a capture waits for its authorization to be known
	laterPause       = 500 * time.Millisecond
	lookAfter        = 4 // refusals "not in this state", after which a shop looks at the payment
	statusNoAnswer   = 0
	wordNoAnswer     = "NO_ANSWER"
	wordNotInTime    = "GENERATOR_OVERRUN"
	paymentsPath     = "/v1/payments"
	wordInDoubt      = "CAPTURE_IN_DOUBT"
	wordVoidInDoubt  = "VOID_IN_DOUBT"
	wordWrongState   = "WRONG_STATE"
	replyFailed      = "FAILED"
	retryAfterHeader = "Retry-After"
)

// errand is one request that is sent until it is answered.
type errand struct {
	op         Op
	path       string
	token, key string
	body       []byte
	early      bool   // "not in this state" may only mean that it is too early: ask again
	payment    string // path of the payment that it is about, where early
}

// reply is the answer that ended an errand.
type reply struct {
	status  int // 0 = nobody answered
	body    replyBody
	retry   time.Duration // what the router asked for
	sentAt  time.Time     // the first time
	doneAt  time.Time
	tries   int
	nothing bool // every try was turned away: nothing can have been done
	lastErr error
}

// replyBody is what is read of a payment, refund or problem.
type replyBody struct {
	ID        string          `json:"id"`
	PaymentID string          `json:"paymentId"`
	Status    json.RawMessage `json:"status"` // a word, or a problem's number
	Code      string          `json:"code"`
	Captured  int64           `json:"captured"`
	Refunded  int64           `json:"refunded"`
	Refunding int64           `json:"refunding"`
}

// word says what became of it: a problem's code or the resource's status.
func (r reply) word() string {
	if r.status == statusNoAnswer {
		return wordNoAnswer
	}
	if r.body.Code != "" {
		return r.body.Code
	}
	var word string
	_ = json.Unmarshal(r.body.Status, &word) // a number stays ""
	return word
}

// decided tells whether sending again could change nothing.
func (r reply) decided(e errand) bool {
	word := r.word()
	switch {
	case r.status == statusNoAnswer, r.status == http.StatusTooManyRequests:
		return false
	case r.status >= http.StatusInternalServerError:
		return r.body.Code == "" && word == replyFailed // the payment's own end, kept with its key
	case r.status == http.StatusConflict:
		early := e.early && (word == wordWrongState || word == wordInDoubt || word == wordVoidInDoubt)
		return !early && word != "PAYMENT_BUSY"
	}
	return true
}

// run sends an errand until it is decided, the tries are used up, or ctx ends.
func (s *shopper) run(ctx context.Context, e errand) reply {
	first := s.now()
	deadline := first.Add(laterPatience)
	var r reply
	turned := 0
	for try := 1; ; try++ {
		r = s.send(ctx, e)
		if r.turnedAway() {
			turned++
			s.onShed(e.op, r.doneAt, r.retry > 0)
		}
		r.sentAt, r.tries, r.nothing = first, try, turned == try
		if r.decided(e) || ctx.Err() != nil || r.turnedAway() && turned >= s.shedTries {
			return r
		}
		wait := s.patience(r, try)
		waitsForState := r.status == http.StatusConflict && e.early
		if waitsForState && try%lookAfter == 0 && s.hopeless(ctx, e) {
			return r
		}
		if !waitsForState && try >= s.tries || s.now().Add(wait).After(deadline) || !pause(ctx, wait) {
			return r
		}
	}
}

// hopeless tells whether the payment has come to an end from which nothing is captured, voided or refunded: a shop that is told
// "not in this state" again and again looks.
func (s *shopper) hopeless(ctx context.Context, e errand) bool {
	seen := s.send(ctx, errand{op: Read, path: e.payment, token: e.token})
	switch seen.word() {
	case "DECLINED", replyFailed, "EXPIRED", "VOIDED":
		return seen.status == http.StatusOK
	}
	return false
}

// patience is the pause before the next try: what the router asked for, or a little longer each time.
func (s *shopper) patience(r reply, try int) time.Duration {
	switch {
	case r.turnedAway() && r.retry > 0 && !s.impatient:
		return r.retry
	case r.retry > 0 && !s.impatient:
		return min(r.retry, longestRetry)
	case r.status == http.StatusConflict:
		return laterPause
	}
	return min(firstRetryPause*time.Duration(try), longestRetry)
}

// send makes one request to the router whose turn it is.
func (s *shopper) send(ctx context.Context, e errand) (r reply) {
	defer func() { r.doneAt = s.now() }()
	url := s.urls[s.next.Add(1)%uint64(len(s.urls))]
	method := http.MethodPost
	if e.op == Read {
		method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(ctx, method, url+e.path, bytes.NewReader(e.body))
	if err != nil {
		return reply{lastErr: err}
	}
	request.Header.Set("Authorization", "Bearer "+e.token)
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", e.key)
	}
	s.onSend()
	response, err := s.http.Do(request)
	if err != nil {
		return reply{lastErr: err}
	}
	defer func() { _ = response.Body.Close() }()
	return readReply(response)
}

func readReply(response *http.Response) reply {
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReplyBytes))
	if err != nil {
		return reply{lastErr: err} // half an answer is none
	}
	r := reply{status: response.StatusCode}
	if seconds, err := strconv.Atoi(response.Header.Get(retryAfterHeader)); err == nil {
		r.retry = time.Duration(seconds) * time.Second
	}
	if err := json.Unmarshal(body, &r.body); err != nil {
		return reply{lastErr: fmt.Errorf("HTTP %d is no JSON: %w", response.StatusCode, err)}
	}
	return r
}

// purchase is the body of an authorization.
type purchase struct {
	OrderID       string        `json:"orderId"`
	Amount        any           `json:"amount"`
	PaymentMethod paymentMethod `json:"paymentMethod"`
	CaptureMode   string        `json:"captureMode"`
	Splits        any           `json:"splits"`
	ReturnURL     string        `json:"returnUrl"`
}

type paymentMethod struct {
	Tokens  map[string]string `json:"tokens"`
	Country string            `json:"country,omitempty"`
}

// authorization is the errand of an arrival's payment with a card.
func (a Arrival) authorization(prefix, token string, card Card, key string) (errand, error) {
	method := paymentMethod{Tokens: map[string]string{}, Country: a.Country}
	for _, psp := range a.psps() {
		method.Tokens[psp] = card.Token()
	}
	p := purchase{OrderID: prefix + a.Order, Amount: a.Amount, PaymentMethod: method, CaptureMode: "manual", Splits: a.Sellers,
		ReturnURL: "https://shop.example/return"}
	if a.Charge {
		p.CaptureMode = "automatic"
	}
	body, err := json.Marshal(p)
	return errand{op: Authorize, path: paymentsPath, token: token, key: prefix + key, body: body}, err
}

// later is the errand of the n-th thing that follows.
func (a Arrival) later(prefix, token, payment, key string, n int) (errand, error) {
	l := a.Then[n]
	e := errand{op: l.Op, path: paymentsPath + "/" + payment, token: token, key: fmt.Sprintf("%s%s/%d", prefix, key, n+1), early: true}
	e.payment = e.path
	e.body = []byte("{}")
	switch l.Op {
	case Capture:
		e.path += "/capture"
	case Void:
		e.path += "/void"
	case Refund:
		e.path += "/refunds"
	default:
		return e, errors.New("loadtest: a trace holds captures, voids and refunds alone")
	}
	if l.Minor == 0 {
		return e, nil
	}
	amount := a.Amount
	amount.Minor = l.Minor
	var err error
	e.body, err = json.Marshal(part{Amount: amount})
	return e, err
}
