package simulator

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Limits of the delivery of notices.
const (
	maxQueued     = 100_000 // tasks; a notice that finds no room is dropped, and can be asked for again
	maxTries      = 15      // per delivery
	firstBackOff  = time.Second
	maxBackOff    = time.Minute
	noticeTimeout = 10 * time.Second
	maxReceipt    = 4 << 10 // bytes read of an answer
	// senders is how many deliveries are under way at one moment: a PSP has many, and a peak of 600 payments a second makes
	// 1,200 notices, each answered once it is stored.
	senders = 32
)

// delivery is one copy of an event on its way to one target.
type delivery struct {
	event  *event
	target int // the first, counted round the receivers; each retry takes the next, unless it is fixed
	fixed  bool
	try    int
	group  int // deliveries of one group leave at the same moment; 0 = none
	forged bool
}

// task is something to be done at a time: a delivery, or what a payment does by itself.
type task struct {
	due      time.Time
	serial   int64
	index    int       // in the heap; -1 once it was taken
	delivery *delivery // or
	payment  *payment
}

// queue holds the tasks by their time, and the events. It is guarded by the simulator's lock.
type queue struct {
	tasks  taskHeap
	serial int64
	groups int
	turn   int           // the last target
	busy   int           // batches that are being done
	awoken chan struct{} // closed and replaced when there is something new to wait for

	events    []*event
	made      int
	receipts  int // events with a receipt
	tries     int
	maxLag    time.Duration
	forgeries ForgeryBooks
}

func newQueue() queue { return queue{awoken: make(chan struct{})} }

type taskHeap []*task

func (h taskHeap) Len() int { return len(h) }

func (h taskHeap) Less(i, j int) bool {
	if !h[i].due.Equal(h[j].due) {
		return h[i].due.Before(h[j].due)
	}
	return h[i].serial < h[j].serial
}

func (h taskHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is heap.Interface's.
func (h *taskHeap) Push(x any) {
	t, _ := x.(*task)
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop is heap.Interface's.
func (h *taskHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = -1
	return t
}

// move gives a waiting task a new time, behind all others of that time.
func (q *queue) move(t *task, due time.Time) {
	q.serial++
	t.due, t.serial = due, q.serial
	heap.Fix(&q.tasks, t.index)
}

// enqueue adds a task; false if there is no room. The caller holds the lock.
func (s *Simulator) enqueue(t *task) bool {
	if len(s.queue.tasks) >= maxQueued {
		return false
	}
	s.queue.serial++
	t.serial = s.queue.serial
	heap.Push(&s.queue.tasks, t)
	if t.index == 0 { // else the first is still the one to wait for
		s.wakeLocked()
	}
	return true
}

// deliverAt queues a delivery and returns its task, nil if there is no room. The caller holds the lock.
func (s *Simulator) deliverAt(due time.Time, d delivery) *task {
	t := &task{due: due, delivery: &d}
	if !s.enqueue(t) {
		if d.event.state == EventQueued {
			d.event.state = EventDropped
		}
		return nil
	}
	return t
}

// wake lets everything that waits for the queue look again.
func (s *Simulator) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeLocked()
}

func (s *Simulator) wakeLocked() {
	close(s.queue.awoken)
	s.queue.awoken = make(chan struct{})
}

// Run delivers notices, and ends what ends by itself, until ctx ends or Stop is called. Serve runs it; a caller with its
// own server does so, once.
func (s *Simulator) Run(ctx context.Context) {
	release := context.AfterFunc(ctx, s.wake)
	defer release()
	var running sync.WaitGroup
	batches := make(chan []*task)
	for range senders {
		running.Go(func() {
			for batch := range batches {
				s.perform(ctx, batch)
			}
		})
	}
	for !s.stopped(ctx) { // one alone waits for the queue: each change would wake all that do
		if batch, _ := s.await(ctx, false); batch != nil {
			batches <- batch
		}
	}
	close(batches)
	running.Wait()
	s.client.CloseIdleConnections()
}

func (s *Simulator) stopped(ctx context.Context) bool {
	select {
	case <-s.stop:
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// ErrStopped is returned by Flush when Stop was called before the queue was empty.
var ErrStopped = errors.New("the simulator was stopped with notices in its queue")

// Flush does what is queued, in order and by Options.Wait's time, and returns nil once nothing is left, or ctx's error.
// It may run beside Run. A receiver that does not answer costs maxTries tries.
func (s *Simulator) Flush(ctx context.Context) error {
	release := context.AfterFunc(ctx, s.wake)
	defer release()
	for !s.stopped(ctx) {
		batch, idle := s.await(ctx, true)
		if idle {
			return nil
		}
		s.perform(ctx, batch)
	}
	return cmp.Or(ctx.Err(), ErrStopped)
}

// Deliver does what is due by now, in order, and returns how many tasks that was. It waits for nothing: with it and NextDue
// a test plays the events of a virtual time.
func (s *Simulator) Deliver(ctx context.Context) int {
	n := 0
	for ctx.Err() == nil {
		s.mu.Lock()
		var batch []*task
		if len(s.queue.tasks) > 0 && !s.opts.Now().Before(s.queue.tasks[0].due) {
			batch = s.claim(s.queue.tasks[0])
		}
		s.mu.Unlock()
		if batch == nil {
			return n
		}
		n += len(batch)
		s.perform(ctx, batch)
	}
	return n
}

// NextDue returns the time of the next task; false if there is none.
func (s *Simulator) NextDue() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue.tasks) == 0 {
		return time.Time{}, false
	}
	return s.queue.tasks[0].due, true
}

// await waits for the first task and claims it, or returns nil after a change. idle tells that nothing is queued or being
// done; with untilIdle it does not wait then.
func (s *Simulator) await(ctx context.Context, untilIdle bool) (batch []*task, idle bool) {
	s.mu.Lock()
	awoken := s.queue.awoken
	if len(s.queue.tasks) == 0 {
		idle = s.queue.busy == 0
		s.mu.Unlock()
		if !idle || !untilIdle {
			select {
			case <-awoken:
			case <-ctx.Done():
			case <-s.stop:
			}
		}
		return nil, idle
	}
	first := s.queue.tasks[0]
	wait := first.due.Sub(s.opts.Now())
	s.mu.Unlock()
	if wait > 0 {
		s.opts.Wait(wait, awoken)
		select {
		case <-awoken:
			return nil, false // something changed: look again
		default:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claim(first), false
}

// claim takes a task, and those that must happen at the same moment; nil if it is no longer the first. The caller holds
// the lock.
func (s *Simulator) claim(first *task) []*task {
	if len(s.queue.tasks) == 0 || s.queue.tasks[0] != first {
		return nil
	}
	s.queue.busy++
	batch := []*task{first}
	heap.Pop(&s.queue.tasks)
	for d := first.delivery; d != nil && d.group != 0 && len(s.queue.tasks) > 0; {
		other := s.queue.tasks[0]
		if other.delivery == nil || other.delivery.group != d.group {
			break
		}
		batch = append(batch, other)
		heap.Pop(&s.queue.tasks)
	}
	return batch
}

// perform does a batch, its parts at the same moment.
func (s *Simulator) perform(ctx context.Context, batch []*task) {
	if batch == nil {
		return
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.queue.busy--; s.queue.busy == 0 { // a Flush may wait for it
			s.wakeLocked()
		}
	}()
	if len(batch) == 1 {
		s.do(ctx, batch[0])
		return
	}
	var together sync.WaitGroup
	for _, t := range batch {
		together.Go(func() { s.do(ctx, t) })
	}
	together.Wait()
}

func (s *Simulator) do(ctx context.Context, t *task) {
	if t.delivery != nil {
		s.deliver(ctx, *t.delivery)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	if now.Before(t.due) {
		now = t.due // a virtual wait has ended
	}
	s.catchUp(t.payment, now)
}

// deliverEarly sends the notices that leave before their call's answer. No lock is held: the receiver may ask us.
func (s *Simulator) deliverEarly(ctx context.Context, list []delivery) {
	for _, d := range list {
		s.deliver(context.WithoutCancel(ctx), d)
	}
}

// deliver makes one try, and queues the next one if it fails.
func (s *Simulator) deliver(ctx context.Context, d delivery) {
	url, body, header := s.signed(d)
	received := url != "" && s.call(ctx, url, body, header)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, now := d.event, s.opts.Now()
	e.tries++
	s.queue.tries++
	switch {
	case d.forged && received:
		e.forgeries.Accepted++
		s.queue.forgeries.Accepted++
	case d.forged:
		e.forgeries.Refused++
		s.queue.forgeries.Refused++
	case received && e.delivered.IsZero():
		e.state, e.delivered = EventDelivered, now
		s.queue.receipts++
		s.queue.maxLag = max(s.queue.maxLag, now.Sub(e.at))
	case received:
	default:
		s.retry(d, now)
	}
}

// signed is a notice as it leaves, and its receiver by now: others may have been named since it was queued. "" = there is none.
func (s *Simulator) signed(d delivery) (url string, body []byte, header http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.opts.Webhooks); n > 0 {
		url = s.opts.Webhooks[d.target%n].URL
	}
	body, header = s.dialect.sign(d.event, s.opts.Now(), d.forged)
	return url, body, header
}

// retry queues a delivery again: later each time, with jitter, and to the next target. The caller holds the lock.
func (s *Simulator) retry(d delivery, now time.Time) {
	d.try++
	if d.try >= maxTries {
		if d.event.state == EventQueued {
			d.event.state = EventFailed
		}
		return
	}
	if !d.fixed {
		d.target++
	}
	d.group = 0
	backOff := min(firstBackOff<<(d.try-1), maxBackOff)
	s.deliverAt(now.Add(backOff/2+time.Duration(s.random.Int64N(int64(backOff/2)+1))), d)
}

// call posts a notice and tells whether it was received.
func (s *Simulator) call(ctx context.Context, url string, body []byte, header http.Header) bool {
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return false
	}
	req.GetBody = nil // no silent second send
	req.Header = header
	resp, err := s.client.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	receipt, err := io.ReadAll(io.LimitReader(resp.Body, maxReceipt))
	return err == nil && s.dialect.acknowledged(resp.StatusCode, receipt)
}

func newWebhookClient(transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = &http.Transport{MaxIdleConnsPerHost: senders, IdleConnTimeout: noticeTimeout}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
