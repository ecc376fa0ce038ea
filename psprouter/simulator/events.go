package simulator

import (
	"slices"
	"time"
)

// event is one notice, rendered when the change happened.
type event struct {
	id, kind string
	payment  *payment // nil if it is about none
	at       time.Time
	body     []byte     // Stripe: as it is signed
	item     *adyenItem // Adyen: signed when it leaves

	fault     string // how it was to be delivered
	state     EventState
	tries     int
	delivered time.Time // the first receipt
	forgeries ForgeryBooks
}

// EventState is where an event's delivery stands.
type EventState string

// The states of an event. An event that is sent to several targets, or twice, is delivered with its first receipt.
const (
	EventQueued    EventState = "queued"
	EventDelivered EventState = "delivered"
	EventFailed    EventState = "failed"  // given up after maxTries
	EventDropped   EventState = "dropped" // by a fault, or because the queue was full
)

// EventBooks is one event and how its delivery went.
type EventBooks struct {
	ID      string     `json:"id"`
	Type    string     `json:"type"`    // the PSP's word
	Ref     string     `json:"ref"`     // of the payment
	Attempt string     `json:"attempt"` // of the payment
	At      time.Time  `json:"at"`
	Fault   string     `json:"fault,omitempty"`
	State   EventState `json:"state"`
	Tries   int        `json:"tries"`
	// LagMS is the time from the change to its first receipt.
	LagMS int64 `json:"lagMs"`
	// Forgeries tells how forged copies fared.
	Forgeries ForgeryBooks `json:"forgeries"`
	// Body is what is sent.
	Body []byte `json:"body"`
}

// ForgeryBooks counts forged notices. Accepted must stay 0.
type ForgeryBooks struct {
	Refused  int `json:"refused"`
	Accepted int `json:"accepted"`
}

// WebhookBooks sums up the notices.
type WebhookBooks struct {
	Events    int          `json:"events"`
	Delivered int          `json:"delivered"`
	Queued    int          `json:"queued"`
	Failed    int          `json:"failed"`
	Dropped   int          `json:"dropped"`
	Tries     int          `json:"tries"` // HTTP requests
	MaxLagMS  int64        `json:"maxLagMs"`
	Forgeries ForgeryBooks `json:"forgeries"`
}

// maxEvents bounds the events that are remembered; the oldest that are not queued go first.
const maxEvents = 100_000

// reorderAfter is how long a reordered notice waits to be overtaken.
const reorderAfter = 10 * time.Second

// tell makes and sends the notice of a change. The caller holds the lock.
func (s *Simulator) tell(c change) {
	if len(s.opts.Webhooks) == 0 && !s.opts.RecordEvents {
		return
	}
	made, told := s.dialect.notice(c, s.newID("evt_", 12, len(idAlphabet)))
	if !told {
		return
	}
	made.payment, made.at, made.state = c.p, s.opts.Now(), EventQueued
	if s.during == nil {
		s.dispatch(&made, s.noticeFault(c))
		return
	}
	s.dispatch(&made, *s.during)
}

// noticeFault chooses how a notice that no call caused is delivered. The caller holds the lock.
func (s *Simulator) noticeFault(c change) behaviour {
	ref := ""
	if c.p != nil {
		ref = c.p.ref
	}
	b := s.draw(opWebhook, "notice "+ref+" "+string('a'+rune(c.kind)), false)
	s.count(b.name)
	return b
}

// dispatch queues an event's deliveries as b says, or as a script for notices says. The caller holds the lock.
func (s *Simulator) dispatch(e *event, b behaviour) {
	ref := ""
	if e.payment != nil {
		ref = e.payment.ref
	}
	if scripted, ok := s.takeScript(opWebhook, ref, false); ok {
		b = scripted
		s.count(b.name)
	}
	if b.hook != inTurn {
		e.fault = b.name
	}
	s.remember(e)
	if len(s.opts.Webhooks) == 0 {
		return
	}
	d := delivery{event: e, target: s.nextTarget()}
	now := s.opts.Now()
	switch b.hook {
	case unsent:
		e.state = EventDropped
	case early:
		s.dispatchEarly(d)
	case late:
		s.deliverAt(now.Add(b.hookAfter), d)
	case reordered:
		s.hold(e, s.deliverAt(now.Add(reorderAfter), d))
		return // nothing overtakes itself
	case doubled:
		s.deliverAt(now, d)
		s.deliverAt(now, d)
	case twin:
		s.deliverAt(now, d)
		second := s.dialect.twin(*e)
		second.tries, second.state = 0, EventQueued
		s.remember(&second)
		s.deliverAt(now, delivery{event: &second, target: s.nextTarget()})
	case forged:
		lie := d
		lie.forged = true
		s.deliverAt(now, lie)
		s.deliverAt(now, d)
	case everywhere:
		s.deliverEverywhere(now, d)
	default:
		s.deliverInTurn(now, d)
	}
	s.release(e.payment, now)
}

// dispatchEarly lets a notice leave before the answer of the call that caused it; without a call it leaves in turn.
func (s *Simulator) dispatchEarly(d delivery) {
	if s.during == nil {
		s.deliverAt(s.opts.Now(), d)
		return
	}
	s.early = append(s.early, d)
}

func (s *Simulator) deliverInTurn(now time.Time, d delivery) {
	if s.opts.Broadcast {
		s.deliverEverywhere(now, d)
		return
	}
	s.deliverAt(now, d)
}

func (s *Simulator) deliverEverywhere(now time.Time, d delivery) {
	s.queue.groups++
	for i := range s.opts.Webhooks {
		d.target, d.fixed, d.group = i, true, s.queue.groups
		s.deliverAt(now, d)
	}
}

// hold keeps a notice back until the payment's next one is queued.
func (s *Simulator) hold(e *event, t *task) {
	if e.payment != nil && t != nil {
		s.release(e.payment, s.opts.Now())
		e.payment.held = t
	}
}

// release lets a notice follow the one that has overtaken it.
func (s *Simulator) release(p *payment, now time.Time) {
	if p == nil || p.held == nil {
		return
	}
	held := p.held
	p.held = nil
	if held.index >= 0 {
		s.queue.move(held, now)
		s.wakeLocked()
	}
}

// remember keeps an event for Events and redelivery, and forgets old ones.
func (s *Simulator) remember(e *event) {
	q := &s.queue
	if len(q.events) >= maxEvents {
		oldest := len(q.events) / 10 // many at once: moving the rest up is dear
		kept := slices.DeleteFunc(q.events[:oldest:oldest], func(old *event) bool { return old.state != EventQueued })
		q.events = append(kept, q.events[oldest:]...)
	}
	q.events = append(q.events, e)
	q.made++
}

func (s *Simulator) nextTarget() int {
	if len(s.opts.Webhooks) == 0 {
		return 0
	}
	s.queue.turn = (s.queue.turn + 1) % len(s.opts.Webhooks)
	return s.queue.turn
}

// SetWebhooks names the receivers of notices from now on, in place of those before; those of what is queued, too. Without any
// nothing is received: no further events are made unless Options.RecordEvents asks for them. Errors are *OptionError.
func (s *Simulator) SetWebhooks(targets []Target) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.opts.checkTargets(targets); err != nil {
		return err
	}
	s.opts.Webhooks = slices.Clone(targets)
	return nil
}

// Events returns the events that are remembered, oldest first, and how their delivery stands.
func (s *Simulator) Events() []EventBooks {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]EventBooks, 0, len(s.queue.events))
	for _, e := range s.queue.events {
		list = append(list, s.eventBook(e))
	}
	return list
}

func (s *Simulator) eventBook(e *event) EventBooks {
	body, _ := s.dialect.sign(e, s.opts.Now(), false)
	b := EventBooks{ID: e.id, Type: e.kind, At: e.at, Fault: e.fault, State: e.state, Tries: e.tries, Forgeries: e.forgeries, Body: body}
	if e.payment != nil {
		b.Ref, b.Attempt = e.payment.ref, e.payment.attempt
	}
	if e.state == EventDelivered {
		b.LagMS = e.delivered.Sub(e.at).Milliseconds()
	}
	return b
}

// Redeliver sends an event once more, or with "all" every one that was not delivered. It returns how many will be sent;
// 0 if there is none of that ID.
func (s *Simulator) Redeliver(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, e := range s.queue.events {
		if e.id != id && (id != "all" || e.state != EventFailed && e.state != EventDropped) {
			continue
		}
		if e.state != EventDelivered {
			e.state = EventQueued
		}
		if s.deliverAt(s.opts.Now(), delivery{event: e, target: s.nextTarget()}) != nil {
			n++
		}
	}
	return n
}

// webhookBooks sums up the events. The caller holds the lock.
func (s *Simulator) webhookBooks() WebhookBooks {
	b := WebhookBooks{Events: s.queue.made, Tries: s.queue.tries, MaxLagMS: s.queue.maxLag.Milliseconds(), Forgeries: s.queue.forgeries}
	for _, e := range s.queue.events {
		switch e.state {
		case EventQueued:
			b.Queued++
		case EventFailed:
			b.Failed++
		case EventDropped:
			b.Dropped++
		}
	}
	b.Delivered = s.queue.receipts
	return b
}
