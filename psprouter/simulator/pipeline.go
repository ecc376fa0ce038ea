package simulator

import (
	"crypto/sha256"
	"io"
	"net/http"
	"net/url"
	"time"
)

const maxBodyBytes = 256 << 10

// request is one POST that was read and is well-formed as HTTP.
type request struct {
	op, key, path, id string            // id is the payment's in the path
	form              url.Values        // Stripe's parameters
	body              *adyenRequest     // Adyen's
	print             [sha256.Size]byte // of path and parameters, for the idempotency layer
	payment           *payment          // that it names; nil if none (yet)
	token             string            // that decides the fault
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
	replayed       bool       // from the idempotency layer
	payment        *payment   // to book the call on
	early          []delivery // notices that leave before this answer
}

// post serves one kind of call through all its stages; see doc.go. run is called under the lock.
func (s *Simulator) post(op string, run func(*request, behaviour) answer) http.HandlerFunc {
	return func(w http.ResponseWriter, httpRequest *http.Request) {
		if s.cutOff(w, httpRequest, op) {
			return
		}
		r, refused := s.read(httpRequest, op)
		if refused != nil {
			s.send(w, httpRequest, *refused, behaviour{})
			return
		}
		b, instead := s.admit(r)
		s.pause(w, s.latency()+b.wait)
		if instead != nil {
			s.send(w, httpRequest, *instead, b)
			return
		}
		a := s.execute(r, b, run)
		s.deliverEarly(httpRequest.Context(), a.early)
		s.pause(w, b.hold)
		s.finish(r, a, b)
		s.send(w, httpRequest, a, b)
	}
}

// cutOff ends a call that meets an outage, or a fault that cuts it before it is read. Whoever the call is for is not
// known yet, so such a fault must be scripted or drawn.
func (s *Simulator) cutOff(w http.ResponseWriter, httpRequest *http.Request, op string) bool {
	key := httpRequest.Header.Get("Idempotency-Key")
	if mode, down := s.down(); down {
		b := behaviour{refuse: silence, end: reset}
		switch mode {
		case Outage503:
			b = behaviour{refuse: unavailable}
		case OutageTimeout:
			b.wait = timeoutAfter
		}
		s.pause(w, b.wait)
		a := s.dialect.refuse(b.refuse)
		s.bookUnplaced(op, key, a)
		s.send(w, httpRequest, a, b)
		return true
	}
	if httpRequest.Method != http.MethodPost || !s.unread(op, key) {
		return false
	}
	s.bookUnplaced(op, key, answer{})
	s.send(w, httpRequest, answer{}, behaviour{end: reset})
	return true
}

// unread tells whether a call is to be cut before it is read.
func (s *Simulator) unread(op, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, scripted := s.takeScript(op, "", true)
	if !scripted {
		b = s.draw(op, key, true)
	}
	s.count(b.name)
	return b.unread
}

func (s *Simulator) bookUnplaced(op, key string, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book(nil, &request{op: op, key: key}, a)
}

// read checks credentials and body. Nothing that it refuses is kept.
func (s *Simulator) read(httpRequest *http.Request, op string) (*request, *answer) {
	if refused := s.dialect.authenticate(httpRequest); refused != nil {
		return nil, refused
	}
	body, err := io.ReadAll(io.LimitReader(httpRequest.Body, maxBodyBytes+1))
	if err != nil || len(body) > maxBodyBytes {
		a := s.dialect.refuse(unreadable)
		return nil, &a
	}
	r := &request{op: op, key: httpRequest.Header.Get("Idempotency-Key"), path: httpRequest.URL.Path, id: httpRequest.PathValue("id")}
	if len(r.key) > s.dialect.maxKey() {
		a := s.dialect.refuse(keyTooLong)
		return nil, &a
	}
	return r, s.dialect.read(r, body)
}

// admit passes the idempotency layer and chooses the behaviour. An answer ends the call.
func (s *Simulator) admit(r *request) (behaviour, *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialect.locate(r)
	if instead := s.claimKey(r); instead != nil {
		s.book(r.payment, r, *instead)
		return behaviour{}, instead
	}
	if instead := s.room(r); instead != nil {
		s.releaseKey(r)
		return behaviour{}, instead
	}
	b := s.faultFor(r)
	if b.refuse != notRefused {
		s.releaseKey(r)
		instead := s.dialect.refuse(b.refuse)
		s.book(r.payment, r, instead)
		return b, &instead
	}
	return b, nil
}

// room keeps the memory bounded. The caller holds the lock.
func (s *Simulator) room(r *request) *answer {
	why := notRefused
	switch {
	case r.payment == nil && len(s.payments) >= s.opts.MaxPayments:
		why = notProcessed
	case r.payment != nil && len(r.payment.calls) >= maxCallsPerPayment:
		why = limited
	}
	if why == notRefused {
		return nil
	}
	full := s.dialect.refuse(why)
	return &full
}

// execute runs the call under the lock, and books it.
func (s *Simulator) execute(r *request, b behaviour, run func(*request, behaviour) answer) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.payment != nil {
		s.catchUp(r.payment, s.opts.Now())
	}
	s.during, s.early = &b, nil
	a := run(r, b)
	a.early, s.during, s.early = s.early, nil, nil
	if b.hide > 0 && a.executed && a.payment != nil {
		a.payment.hiddenUntil = s.opts.Now().Add(b.hide)
	}
	if b.end == serverError && a.keep {
		broken := s.dialect.refuse(internal)
		a.status, a.body = broken.status, broken.body
	}
	s.book(a.payment, r, a)
	return a
}

// finish ends the key's flight: from here on it replays, or is free again if the answer is not to be kept.
func (s *Simulator) finish(r *request, a answer, b behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.keep {
		s.keepAnswer(r, a, b.again)
		return
	}
	s.releaseKey(r)
}

// book records a call on its payment, or among those that left none. The caller holds the lock.
func (s *Simulator) book(p *payment, r *request, a answer) {
	call := CallBooks{Op: r.op, Key: r.key, Executed: a.executed && !a.replayed, Replayed: a.replayed, Status: a.status}
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
	again   refusal // answers the first re-send
	status  int
	body    []byte
	payment *payment
}

// claimKey starts a key's flight, or answers in its place. The caller holds the lock.
func (s *Simulator) claimKey(r *request) *answer {
	if r.key == "" {
		return nil
	}
	now := s.opts.Now()
	known := s.keys[r.key]
	if known == nil || !known.flying && now.Sub(known.since) >= s.dialect.keyLife() {
		s.keys[r.key] = &keyRecord{print: r.print, since: now, flying: true}
		return nil
	}
	if known.print != r.print {
		if other := s.dialect.otherBody(); other != nil {
			return other
		}
	}
	if known.flying || known.again != notRefused {
		why := inFlight
		if !known.flying {
			why, known.again = known.again, notRefused
		}
		a := s.dialect.refuse(why)
		return &a
	}
	r.payment = known.payment
	return &answer{status: known.status, body: known.body, replayed: true}
}

func (s *Simulator) releaseKey(r *request) { delete(s.keys, r.key) }

func (s *Simulator) keepAnswer(r *request, a answer, again refusal) {
	if known := s.keys[r.key]; known != nil {
		known.flying, known.again, known.status, known.body, known.payment = false, again, a.status, a.body, a.payment
	}
}

// get serves a look-up: it changes nothing but what time changes, and has no faults of its own but outages. find is
// called under the lock.
func (s *Simulator) get(find func(*http.Request) answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.cutOff(w, r, "look-up") {
			return
		}
		if refused := s.dialect.authenticate(r); refused != nil {
			s.send(w, r, *refused, behaviour{})
			return
		}
		s.pause(w, s.latency())
		s.send(w, r, s.locked(find, r), behaviour{})
	}
}

func (s *Simulator) locked(find func(*http.Request) answer, r *http.Request) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return find(r)
}
