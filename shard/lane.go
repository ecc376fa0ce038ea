package shard

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"
)

// lanes are the writers of one shard, with the queue that they share. They coalesce: whatever has gathered leaves in one turn of
// a lane, up to the batch limit: openings, Changes and notices in a statement each, and one commit.
//
// A lane helps another only when a crowd waits: more turns at once are smaller ones, and cost more. No bucket is in two turns,
// so two statements of one process never wait for each other's rows. What comes while all lanes are idle leaves at once; a
// lane that has just worked rests before its next turn, as long as nobody but strangers would come: see rest.
type lanes struct {
	shard *Shard

	mu       sync.Mutex
	openings []waiting[opening]
	changes  []waiting[change]
	notices  []waiting[notice]
	turns    int             // under way, their rests included
	buckets  map[Bucket]bool // in a turn's statements
	closed   bool

	wake  chan struct{} // holds one token while something may be waiting
	crowd chan struct{} // holds one token when enough wait for a turn that pays, or the lanes were closed
	ended sync.WaitGroup
}

// waiting is an item and where its caller hears of it. done has room for the one answer, so a caller that left is no
// obstacle.
type waiting[T any] struct {
	item T
	done chan error
}

// maxWaiting bounds a queue; beyond it callers are told at once, and nothing was written.
const maxWaiting = 10_000

func newLanes(s *Shard, n int) *lanes {
	l := idleLanes(s)
	for no := range n {
		l.ended.Go(func() { l.run(no) })
	}
	return l
}

// idleLanes is a queue that nobody serves.
func idleLanes(s *Shard) *lanes {
	return &lanes{shard: s, buckets: map[Bucket]bool{}, wake: make(chan struct{}, 1), crowd: make(chan struct{}, 1)}
}

// stop lets what has gathered leave, and returns when the last statement is back.
func (l *lanes) stop() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	put(l.wake)
	put(l.crowd)
	l.ended.Wait()
}

// put leaves a token, unless one is there.
func put(tokens chan struct{}) {
	select {
	case tokens <- struct{}{}:
	default:
	}
}

// run is one lane.
func (l *lanes) run(no int) {
	for range l.wake {
		for l.turn(no) {
		}
		if l.done() {
			put(l.wake) // for the next lane
			return
		}
	}
}

// turn sends what waits, up to three statements in one commit, and rests. It tells whether there was anything for it to do.
func (l *lanes) turn(no int) bool {
	start := l.shard.opts.Now()
	t := l.take(no)
	if t.size == 0 {
		return false
	}
	l.shard.settle(t.loads)
	l.free(t.buckets)
	if 2*l.gather() < t.size {
		l.rest(l.shard.opts.Now().Sub(start))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns--
	return true
}

// taken is what leaves in one turn.
type taken struct {
	loads   []load
	size    int
	buckets []Bucket
}

// take begins a turn of lane no with a batch of each kind; with nothing if nothing waits, or too little to help another lane.
func (l *lanes) take(no int) taken {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns > 0 && l.waits() < enough {
		return taken{}
	}
	var t taken
	s, busy := l.shard, maps.Clone(l.buckets)
	if batch := takeOnce(l, &t, busy, &l.notices, notice.id); len(batch) > 0 {
		t.loads = append(t.loads, loadOf(s, "put inbox", batch, putStatement, s.findNotices))
	}
	if batch := takeOnce(l, &t, busy, &l.openings, func(o opening) string { return o.Payment.ID }); len(batch) > 0 {
		t.loads = append(t.loads, loadOf(s, "begin", batch, beginStatement, s.findOpenings))
	}
	if batch := takeOnce(l, &t, busy, &l.changes, func(c change) string { return c.Payment.ID }); len(batch) > 0 {
		apply := func(batch []change) statement { return applyStatement(batch, s.slot(no)) }
		t.loads = append(t.loads, loadOf(s, "apply", batch, apply, s.findChanges))
	}
	if t.size > 0 {
		l.turns++
	}
	return t
}

// takeOnce takes a batch of one kind, and each payment or notice once: a second change of a payment waits for the next turn, and
// so does what lies in a bucket that another turn is busy with.
func takeOnce[T interface{ bucket() Bucket }](l *lanes, t *taken, busy map[Bucket]bool, queue *[]waiting[T],
	id func(T) string) []waiting[T] {
	limit := min(l.shard.opts.BatchLimit, len(*queue))
	if limit == 0 {
		return nil
	}
	batch := make([]waiting[T], 0, limit)
	seen := make(map[string]bool, limit)
	var rest []waiting[T]
	for _, w := range *queue {
		name, b := id(w.item), w.item.bucket()
		if len(batch) == limit || seen[name] || busy[b] {
			rest = append(rest, w)
			continue
		}
		seen[name], l.buckets[b] = true, true
		batch, t.buckets = append(batch, w), append(t.buckets, b)
	}
	*queue, t.size = rest, t.size+len(batch)
	return batch
}

// free gives the buckets of a turn back.
func (l *lanes) free(buckets []Bucket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range buckets {
		delete(l.buckets, b)
	}
}

// gather lets the callers that were just answered come in with their next step, and returns how many came: it yields the
// processor as long as that brings somebody. They would miss the next statement by microseconds otherwise, and callers that
// wait for each other's statements in turn halve the batches. It ends, since a queue is bounded, and costs nothing when
// idle.
func (l *lanes) gather() int {
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

// A lane rests restFactor times as long as its last turn took, at most longestRest, or until enough wait. From enough on a
// larger turn saves little, so that is also when another lane helps.
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
func (l *lanes) rest(took time.Duration) {
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
func (l *lanes) length() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits()
}

func (l *lanes) waits() int { return len(l.openings) + len(l.changes) + len(l.notices) }

func (l *lanes) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// done tells whether nothing waits and nothing more will.
func (l *lanes) done() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed && l.waits() == 0
}

func (l *lanes) begin(ctx context.Context, o opening) error {
	return enqueue(ctx, l, &l.openings, o)
}

func (l *lanes) apply(ctx context.Context, c change) error {
	return enqueue(ctx, l, &l.changes, c)
}

func (l *lanes) store(ctx context.Context, n notice) error {
	return enqueue(ctx, l, &l.notices, n)
}

func enqueue[T any](ctx context.Context, l *lanes, queue *[]waiting[T], item T) error {
	w := waiting[T]{item: item, done: make(chan error, 1)}
	l.mu.Lock()
	if l.closed || len(*queue) >= maxWaiting {
		l.mu.Unlock()
		return fmt.Errorf("shard %s: the queue is closed or full: %w", l.shard.name, ErrUnavailable)
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
		if withdraw(l, queue, w.done) {
			return fmt.Errorf("shard %s: no lane had time for it: %w: %w", l.shard.name, ErrUnavailable, ctx.Err())
		}
		return fmt.Errorf("shard %s: %w: %w", l.shard.name, ErrInDoubt, ctx.Err())
	}
}

// withdraw takes an item out of its queue whose caller leaves, and tells whether it was there: then it was not sent, and never is.
// Else it would be written after its caller was told that it cannot be, and before those who still wait.
func withdraw[T any](l *lanes, queue *[]waiting[T], done chan error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := slices.IndexFunc(*queue, func(w waiting[T]) bool { return w.done == done })
	if n < 0 {
		return false
	}
	*queue = slices.Delete(*queue, n, n+1)
	return true
}
