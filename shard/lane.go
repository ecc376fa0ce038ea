package shard

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// lane coalesces the writes of its buckets. A statement leaves with whatever has gathered, up to the batch limit; openings,
// Changes and notices take turns, each in a statement of its own. A lane has one statement under way at a time, so two
// statements of one process never wait for each other's bucket rows.
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

// turn sends one statement of each kind, if there is anything to send, and rests. Changes are taken after the openings are
// back, so that a caller whose opening has just committed is in time with its first Change.
func (l *lane) turn() bool {
	start := l.shard.opts.Now()
	answered, back := 0, 0
	sent := func(size, came int) { answered, back = answered+size, back+came }
	if batch := l.takeOpenings(); len(batch) > 0 {
		settle(l.shard, "begin", batch, l.shard.beginBatch, l.shard.findOpenings)
		sent(len(batch), l.gather())
	}
	if batch := l.takeChanges(); len(batch) > 0 {
		settle(l.shard, "apply", batch, l.applyBatch, l.shard.findChanges)
		sent(len(batch), l.gather())
	}
	if batch := l.takeNotices(); len(batch) > 0 {
		settle(l.shard, "put inbox", batch, l.shard.putBatch, l.shard.findNotices)
		sent(len(batch), l.gather())
	}
	if 2*back < answered {
		l.rest(l.shard.opts.Now().Sub(start))
	}
	return answered > 0
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
	take(l.crowd) // of an earlier turn
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

// take takes the token away, if one is there.
func take(tokens chan struct{}) {
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

func (l *lane) applyBatch(ctx context.Context, batch []change) ([]error, error) {
	return l.shard.applyBatch(ctx, batch, l.shard.slot(l.no))
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

// settle writes a batch and tells each caller what became of its item. write runs the statement; find tells which items
// have committed, by their own IDs.
func settle[T any](s *Shard, op string, batch []waiting[T], write func(context.Context, []T) ([]error, error),
	find func(context.Context, []T) ([]bool, error)) {
	items := column(batch, func(w waiting[T]) T { return w.item })
	s.metrics.batch.WithLabelValues(s.name, op).Observe(float64(len(items)))
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.CallTimeout)
	defer cancel()
	verdicts := s.written(ctx, op, writerOf(items, write, find))
	s.signal(verdicts)
	for n, err := range verdicts {
		batch[n].done <- err
	}
}

// writer is a batch with its two statements, its type hidden: what follows does not depend on it.
type writer struct {
	size  int
	write func(ctx context.Context, picked []int) ([]error, error)
	find  func(ctx context.Context, picked []int) ([]bool, error)
}

func writerOf[T any](items []T, write func(context.Context, []T) ([]error, error),
	find func(context.Context, []T) ([]bool, error)) writer {
	pick := func(picked []int) []T { return column(picked, func(n int) T { return items[n] }) }
	return writer{
		size:  len(items),
		write: func(ctx context.Context, picked []int) ([]error, error) { return write(ctx, pick(picked)) },
		find:  func(ctx context.Context, picked []int) ([]bool, error) { return find(ctx, pick(picked)) },
	}
}

// written writes the whole batch: retried on 40001, read back when in doubt, one by one should the database refuse it.
func (s *Shard) written(ctx context.Context, op string, w writer) []error {
	all := make([]int, w.size)
	for n := range all {
		all[n] = n
	}
	out := make([]error, w.size)
	s.writeSome(ctx, op, w, all, false, out)
	return out
}

// maxReadBacks bounds how often one batch is run again because it was in doubt and proved not committed.
const maxReadBacks = 3

// writeSome writes the picked items and puts their verdicts into out. doubted says that an earlier run of them was in
// doubt and can still be under way.
func (s *Shard) writeSome(ctx context.Context, op string, w writer, picked []int, doubted bool, out []error) {
	for run := 0; len(picked) > 0; run++ {
		verdicts, err := s.writeOnce(ctx, op, w, picked)
		if err == nil {
			s.confirm(ctx, op, w, picked, verdicts, doubted)
			for k, n := range picked {
				out[n] = verdicts[k]
			}
			return
		}
		v := judge(err)
		if (v == refused || v == fatal) && len(picked) > 1 {
			for _, n := range picked {
				s.writeSome(ctx, op, w, []int{n}, doubted, out)
			}
			return
		}
		if v == inDoubt {
			doubted = true
			picked = s.readBack(ctx, op, w, picked, out)
		}
		if v != inDoubt || run == maxReadBacks {
			tellAll(picked, out, giveUp(op, err, doubted))
			return
		}
	}
}

// writeOnce runs the statement under its own time limit, again while the database asks for it.
func (s *Shard) writeOnce(ctx context.Context, op string, w writer, picked []int) (verdicts []error, err error) {
	err = s.retry(ctx, op, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, s.opts.StatementTimeout)
		defer cancel()
		done := s.metrics.time(s.name, op)
		defer done()
		verdicts, err = w.write(ctx, picked)
		return err
	})
	return verdicts, err
}

// readBack asks which of the picked items committed after all, tells those callers, and returns the rest, which may be
// run again: the compare-and-set and the unique keys stop a first run that is still under way.
func (s *Shard) readBack(ctx context.Context, op string, w writer, picked []int, out []error) []int {
	found, err := w.find(ctx, picked)
	if err != nil {
		s.metrics.readBacks.WithLabelValues(s.name, op, "failed").Add(float64(len(picked)))
		tellAll(picked, out, stillInDoubt(op, err))
		return nil
	}
	var rest []int
	for k, n := range picked {
		result := "absent"
		if found[k] {
			result, out[n] = "committed", nil
		} else {
			rest = append(rest, n)
		}
		s.metrics.readBacks.WithLabelValues(s.name, op, result).Inc()
	}
	return rest
}

// confirm looks behind the conflicts and the fence's refusals of a run that followed a doubt: the earlier run may have
// committed meanwhile. Then the conflict is with ourselves, or the bucket moved after our commit.
func (s *Shard) confirm(ctx context.Context, op string, w writer, picked []int, verdicts []error, doubted bool) {
	if !doubted {
		return
	}
	for k, n := range picked {
		if verdicts[k] == nil {
			continue
		}
		found, err := w.find(ctx, []int{n})
		switch {
		case err != nil:
			verdicts[k] = stillInDoubt(op, err)
		case found[0]:
			verdicts[k] = nil
		}
	}
}

func tellAll(picked []int, out []error, err error) {
	for _, n := range picked {
		out[n] = err
	}
}

// giveUp turns the last error of a statement into what a caller can act on. After a doubt only the database's refusal is
// certain: an earlier run can still be under way, so "nothing was written" would be a guess.
func giveUp(op string, err error, doubted bool) error {
	v := judge(err)
	switch {
	case v == refused:
		return fmt.Errorf("%s: %w", op, refusal(err))
	case v == inDoubt || doubted:
		return stillInDoubt(op, err)
	case v == unreachable:
		return fmt.Errorf("%s: %w: %w", op, ErrUnavailable, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// stillInDoubt keeps err as text alone: it can wrap ErrUnavailable, which promises that nothing was written.
func stillInDoubt(op string, err error) error {
	return fmt.Errorf("%s: %w: %v", op, ErrInDoubt, err)
}
