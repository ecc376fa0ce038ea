package shard

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// lane coalesces the writes of its buckets. Whatever has gathered leaves together, up to the batch limit: openings, Changes and
// notices in a statement each, and one commit. A lane has one turn under way at a time, so two statements of one process
// never wait for each other's bucket rows.
//
// What comes to an idle lane leaves at once. A lane that has just worked rests before its next turn, as long as nobody but
// strangers would come: see rest.
type lane struct {
	shard *Shard
	no    int

	mu       sync.Mutex
	openings []waiting[opening]
	changes  []waiting[change]
	notices  []waiting[notice]
	closed   bool

	wake    chan struct{} // holds one token while something may be waiting
	crowd   chan struct{} // holds one token when enough wait for a turn that pays, or the lane was closed
	stopped chan struct{}
}

// waiting is an item and where its caller hears of it. done has room for the one answer, so a caller that left is no
// obstacle.
type waiting[T any] struct {
	item T
	done chan error
}

// maxWaiting bounds a lane's queue; beyond it callers are told at once, and nothing was written.
const maxWaiting = 10_000

func newLane(s *Shard, no int) *lane {
	l := &lane{shard: s, no: no, wake: make(chan struct{}, 1), crowd: make(chan struct{}, 1), stopped: make(chan struct{})}
	go l.run()
	return l
}

// stop lets what has gathered leave, and returns when the last statement is back.
func (l *lane) stop() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	put(l.wake)
	put(l.crowd)
	<-l.stopped
}

// put leaves a token, unless one is there.
func put(tokens chan struct{}) {
	select {
	case tokens <- struct{}{}:
	default:
	}
}

func (l *lane) run() {
	defer close(l.stopped)
	for range l.wake {
		for l.turn() {
		}
		if l.done() {
			return
		}
	}
}

// turn sends what waits, up to three statements in one commit, and rests.
func (l *lane) turn() bool {
	start := l.shard.opts.Now()
	loads, size := l.take()
	if size == 0 {
		return false
	}
	l.shard.settle(loads)
	if 2*l.gather() < size {
		l.rest(l.shard.opts.Now().Sub(start))
	}
	return true
}

// take takes a batch of each kind, and tells how many items they are.
func (l *lane) take() (loads []load, size int) {
	s := l.shard
	if batch := l.takeOpenings(); len(batch) > 0 {
		loads, size = append(loads, loadOf(s, "begin", batch, beginStatement, s.findOpenings)), size+len(batch)
	}
	if batch := l.takeChanges(); len(batch) > 0 {
		loads, size = append(loads, loadOf(s, "apply", batch, l.applyStatement, s.findChanges)), size+len(batch)
	}
	if batch := l.takeNotices(); len(batch) > 0 {
		loads, size = append(loads, loadOf(s, "put inbox", batch, putStatement, s.findNotices)), size+len(batch)
	}
	return loads, size
}

// gather lets the callers that were just answered come in with their next step, and returns how many came: it yields the
// processor as long as that brings somebody. They would miss the next statement by microseconds otherwise, and callers that
// wait for each other's statements in turn halve the batches. It ends, since a queue is bounded, and costs nothing when
// idle.
func (l *lane) gather() int {
	first := l.length()
	for before := first; ; {
		runtime.Gosched()
		now := l.length()
		if now <= before {
			return now - first
		}
		before = now
	}
}

// A lane rests restFactor times as long as its last turn took, at most longestRest, or until enough wait.
const (
	restFactor  = 2
	longestRest = 15 * time.Millisecond
	enough      = 16
)

// rest lets strangers gather. What a statement costs before its first Change is five times what each Change adds, and
// payments that spend most of their lives at a PSP come one by one: without a rest each would have a statement of its own,
// until the database is full. Callers that come back as soon as they are answered need no rest, nor does a crowd: from
// enough on a larger batch saves little.
//
// The rest follows the turn's length, so it is short where the database is fast, and long where it is busy. It never holds
// up what comes to an idle lane.
func (l *lane) rest(took time.Duration) {
	drain(l.crowd) // of an earlier turn
	if l.length() >= enough || l.isClosed() {
		return
	}
	timer := time.NewTimer(min(restFactor*took, longestRest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.crowd:
	}
}

// drain takes the token away, if one is there.
func drain(tokens chan struct{}) {
	select {
	case <-tokens:
	default:
	}
}

// length is how many wait.
func (l *lane) length() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits()
}

func (l *lane) waits() int { return len(l.openings) + len(l.changes) + len(l.notices) }

func (l *lane) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// done tells whether nothing waits and nothing more will.
func (l *lane) done() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed && l.waits() == 0
}

func (l *lane) applyStatement(batch []change) statement {
	return applyStatement(batch, l.shard.slot(l.no))
}

func (l *lane) takeOpenings() []waiting[opening] {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(l.shard.opts.BatchLimit, len(l.openings))
	batch := l.openings[:n:n]
	l.openings = l.openings[n:]
	return batch
}

// takeChanges takes a payment once: a second change of it waits for the next batch.
func (l *lane) takeChanges() []waiting[change] {
	return takeOnce(l, &l.changes, func(c change) string { return c.Payment.ID })
}

// takeNotices takes a notice once: its copy waits for the next batch, and finds it stored.
func (l *lane) takeNotices() []waiting[notice] {
	return takeOnce(l, &l.notices, notice.id)
}

func takeOnce[T any](l *lane, queue *[]waiting[T], id func(T) string) []waiting[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := min(l.shard.opts.BatchLimit, len(*queue))
	if limit == 0 {
		return nil
	}
	batch := make([]waiting[T], 0, limit)
	seen := make(map[string]bool, limit)
	var rest []waiting[T]
	for _, w := range *queue {
		if name := id(w.item); len(batch) < limit && !seen[name] {
			seen[name] = true
			batch = append(batch, w)
		} else {
			rest = append(rest, w)
		}
	}
	*queue = rest
	return batch
}

func (l *lane) begin(ctx context.Context, o opening) error {
	return enqueue(ctx, l, &l.openings, o)
}

func (l *lane) apply(ctx context.Context, c change) error {
	return enqueue(ctx, l, &l.changes, c)
}

func (l *lane) store(ctx context.Context, n notice) error {
	return enqueue(ctx, l, &l.notices, n)
}

func enqueue[T any](ctx context.Context, l *lane, queue *[]waiting[T], item T) error {
	w := waiting[T]{item: item, done: make(chan error, 1)}
	l.mu.Lock()
	if l.closed || len(*queue) >= maxWaiting {
		l.mu.Unlock()
		return fmt.Errorf("shard %s: the lane is closed or full: %w", l.shard.name, ErrUnavailable)
	}
	*queue = append(*queue, w)
	many := l.waits() >= enough
	l.mu.Unlock()
	put(l.wake)
	if many {
		put(l.crowd)
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("shard %s: %w: %w", l.shard.name, ErrInDoubt, ctx.Err())
	}
}
