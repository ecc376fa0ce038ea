package simulator

import (
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const maxBodyBytes = 256 << 10

// request is one POST that was read and is well-formed as HTTP.
type request struct {
	op, key, path string
	form          url.Values
	print         [sha256.Size]byte // of path and parameters, for the idempotency layer
	payment       *payment          // that it names; nil if none (yet)
	token         string            // that decides the fault
	problem       *answer           // why it cannot be executed, found while it was admitted
}

func (r *request) ref() string {
	if r.payment == nil {
		return ""
	}
	return r.payment.ref
}

// answer is what goes back. keep saves it under the idempotency key; executed tells the books that something was done.
type answer struct {
	status         int
	body           []byte
	header         map[string]string
	keep, executed bool
	payment        *payment // to book the call on
}

// post serves one kind of call through all its stages; see doc.go. run is called under the lock.
func (s *Simulator) post(op string, run func(*request, effect) answer) http.HandlerFunc {
	return func(w http.ResponseWriter, httpRequest *http.Request) {
		r, refusal := s.read(httpRequest, op)
		if refusal != nil {
			send(w, httpRequest, *refusal, answered)
			return
		}
		b, early := s.admit(r)
		s.wait(s.latency() + b.wait)
		if early != nil {
			send(w, httpRequest, *early, b.end)
			return
		}
		a := s.execute(r, b, run)
		s.wait(b.hold)
		s.finish(r, a)
		send(w, httpRequest, a, b.end)
	}
}

// read checks credentials and form. Nothing that it refuses is kept.
func (s *Simulator) read(httpRequest *http.Request, op string) (*request, *answer) {
	if refusal := s.authenticate(httpRequest); refusal != nil {
		return nil, refusal
	}
	body, err := io.ReadAll(io.LimitReader(httpRequest.Body, maxBodyBytes+1))
	if err != nil || len(body) > maxBodyBytes {
		return nil, invalid("", "", "the request body cannot be read")
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, invalid("", "", "the request body is not a form")
	}
	r := &request{op: op, key: httpRequest.Header.Get("Idempotency-Key"), path: httpRequest.URL.Path, form: form}
	if len(r.key) > 255 {
		return nil, invalid("", "", "the idempotency key is longer than 255 characters")
	}
	if strings.HasSuffix(r.path, "/payment_intents") && form.Get("confirm") != "true" {
		r.op = opCreate
	}
	// Encode sorts by name: the order of parameters has no meaning.
	r.print = sha256.Sum256([]byte(r.path + "?" + form.Encode()))
	return r, nil
}

func (s *Simulator) authenticate(httpRequest *http.Request) *answer {
	key, bearer := strings.CutPrefix(httpRequest.Header.Get("Authorization"), "Bearer ")
	if user, _, basic := httpRequest.BasicAuth(); basic {
		key, bearer = user, true
	}
	if bearer && (key == s.opts.SecretKey || s.opts.SecretKey == "" && strings.HasPrefix(key, "sk_")) {
		return nil
	}
	return fail(http.StatusUnauthorized, stripeError{Type: typeInvalid, Message: "Invalid API Key provided."})
}

// admit passes the idempotency layer and chooses the behaviour. An early answer ends the call.
func (s *Simulator) admit(r *request) (behaviour, *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locate(r)
	if early := s.claimKey(r); early != nil {
		s.book(r.payment, r, *early, early.header[replayedHeader] != "")
		return behaviour{}, early
	}
	if early := s.room(r); early != nil {
		s.releaseKey(r)
		return behaviour{}, early
	}
	b := s.faultFor(r)
	if b.refuse != nil {
		s.releaseKey(r)
		early := b.refuse()
		s.book(r.payment, r, early, false)
		return b, &early
	}
	return b, nil
}

// locate finds the payment that a call names, and the token that decides its fault. The caller holds the lock.
func (s *Simulator) locate(r *request) {
	ref := r.form.Get("payment_intent")
	if rest, ok := strings.CutPrefix(r.path, "/v1/payment_intents/"); ok {
		ref, _, _ = strings.Cut(rest, "/")
	}
	r.token = r.form.Get("payment_method")
	if r.payment = s.payments[ref]; r.payment != nil && r.token == "" {
		r.token = r.payment.token
	}
}

// room keeps the memory bounded. The caller holds the lock.
func (s *Simulator) room(r *request) *answer {
	switch {
	case r.payment == nil && len(s.payments) >= s.opts.MaxPayments:
		full := notProcessed()
		return &full
	case r.payment != nil && len(r.payment.calls) >= maxCallsPerPayment:
		full := limited()
		return &full
	}
	return nil
}

// execute runs the call under the lock, and books it.
func (s *Simulator) execute(r *request, b behaviour, run func(*request, effect) answer) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.payment != nil {
		r.payment.expire(s.opts.Now())
	}
	a := run(r, b.effect)
	if b.hide > 0 && a.executed {
		a.payment.hiddenUntil = s.opts.Now().Add(b.hide)
	}
	if b.end == serverError && a.executed {
		broken := fail(http.StatusInternalServerError, stripeError{Type: typeAPI, Message: "An unknown error occurred."})
		a.status, a.body = broken.status, broken.body
	}
	s.book(a.payment, r, a, false)
	return a
}

// finish ends the key's flight: from here on it replays, or is free again if the answer is not to be kept.
func (s *Simulator) finish(r *request, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.keep {
		s.keepAnswer(r, a)
		return
	}
	s.releaseKey(r)
}

// send writes an answer, or fails to in the way asked for.
func send(w http.ResponseWriter, httpRequest *http.Request, a answer, end ending) {
	switch end {
	case dropped, reset:
		cut(w, end == reset)
		return
	case garbled:
		a = answer{status: http.StatusOK, body: []byte("<html><body>upstream connect error</body></html>")}
	case redirected:
		a = answer{status: http.StatusFound, header: map[string]string{"Location": "/elsewhere"}}
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(a.body)))
	for _, echoed := range []string{"Idempotency-Key", "Stripe-Version"} {
		if value := httpRequest.Header.Get(echoed); value != "" {
			header.Set(echoed, value)
		}
	}
	for name, value := range a.header {
		header.Set(name, value)
	}
	w.WriteHeader(a.status)
	if end == truncated {
		_, _ = w.Write(a.body[:len(a.body)/2]) // net/http then closes the connection
		return
	}
	_, _ = w.Write(a.body) // nobody is left to be told
}

// cut closes the connection without an answer; hard resets it, so that the client sees ECONNRESET rather than an end.
func cut(w http.ResponseWriter, hard bool) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok && hard {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// book records a call on its payment, or among those that left none. The caller holds the lock.
func (s *Simulator) book(p *payment, r *request, a answer, replayed bool) {
	call := CallBooks{Op: r.op, Key: r.key, Executed: a.executed && !replayed, Replayed: replayed, Status: a.status}
	switch {
	case p != nil && len(p.calls) < maxCallsPerPayment:
		p.calls = append(p.calls, call)
	case p == nil && len(s.unplaced) < s.opts.MaxPayments:
		s.unplaced = append(s.unplaced, call)
	default:
		s.skipped++
	}
}

// keyRecord is one idempotency key.
type keyRecord struct {
	print   [sha256.Size]byte
	since   time.Time
	flying  bool
	status  int
	body    []byte
	payment *payment
}

const replayedHeader = "Idempotent-Replayed"

// claimKey starts a key's flight, or answers in its place. The caller holds the lock.
func (s *Simulator) claimKey(r *request) *answer {
	if r.key == "" {
		return nil
	}
	now := s.opts.Now()
	known := s.keys[r.key]
	switch {
	case known == nil || !known.flying && now.Sub(known.since) >= keyLife:
		s.keys[r.key] = &keyRecord{print: r.print, since: now, flying: true}
		return nil
	case known.print != r.print:
		return fail(http.StatusBadRequest, stripeError{Type: typeIdempotency,
			Message: "Keys for idempotent requests can only be used with the same parameters they were first used with."})
	case known.flying:
		return fail(http.StatusConflict, stripeError{Type: typeInvalid, Code: "idempotency_key_in_use",
			Message: "There is currently another in-progress request using this idempotency key."})
	}
	r.payment = known.payment
	return &answer{status: known.status, body: known.body, header: map[string]string{replayedHeader: "true"}}
}

func (s *Simulator) releaseKey(r *request) { delete(s.keys, r.key) }

func (s *Simulator) keepAnswer(r *request, a answer) {
	if known := s.keys[r.key]; known != nil {
		known.flying, known.status, known.body, known.payment = false, a.status, a.body, a.payment
	}
}
