package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// idle makes a queue that nobody serves, so that it can be looked at.
func idle(limit int) *lanes {
	return idleLanes(&Shard{name: "s", opts: Options{BatchLimit: limit}})
}

func (l *lanes) put(b Bucket, payments ...string) {
	for _, id := range payments {
		c := change{}
		c.Payment.ID = PaymentPrefix + "_" + b.String() + "_" + strings.Repeat("0", ulidLength-1) + id
		l.changes = append(l.changes, waiting[change]{item: c, done: make(chan error, 1)})
	}
}

// batchOf are the last letters of the payments that a turn takes.
func batchOf(l *lanes) (letters string, t taken) {
	before := slices.Clone(l.changes)
	t = l.take(0)
	for _, w := range before {
		if !slices.ContainsFunc(l.changes, func(left waiting[change]) bool { return left.done == w.done }) {
			letters += w.item.Payment.ID[len(w.item.Payment.ID)-1:]
		}
	}
	return letters, t
}

// end ends a turn as lanes.turn does.
func (l *lanes) end(t taken) {
	l.free(t.buckets)
	if t.size > 0 {
		l.turns--
	}
}

// TestTakeOncePerPayment: a payment is in a batch once, since a statement can move a row once; what it waits for keeps
// its order, and others overtake it.
func TestTakeOncePerPayment(t *testing.T) {
	l := idle(3)
	l.put(1, "A", "A", "B", "A", "C", "D", "B")
	var got []string
	for range 4 {
		letters, turn := batchOf(l)
		l.end(turn)
		got = append(got, letters)
	}
	if want := []string{"ABC", "ADB", "A", ""}; !slices.Equal(got, want) {
		t.Errorf("batches %q, want %q", got, want)
	}
}

// TestLanesShareNoBucket: while one lane has a turn, another helps only if enough wait, and then takes what lies in other
// buckets; the rest is free again when the first turn's statements are back.
func TestLanesShareNoBucket(t *testing.T) {
	l := idle(64)
	l.put(1, "A")
	l.put(2, "B")
	_, first := batchOf(l)
	l.put(2, "C", "D")
	l.put(3, "E")
	if letters, _ := batchOf(l); letters != "" {
		t.Errorf("a second lane took %s for three that wait", letters)
	}
	for range enough - 4 {
		l.put(1, "F", "F") // one payment, in a bucket that is taken
	}
	letters, second := batchOf(l)
	if letters != "E" {
		t.Errorf("a second lane took %q of a crowd, want what lies elsewhere", letters)
	}
	l.end(second)
	l.free(first.buckets) // its rest goes on
	letters, third := batchOf(l)
	if letters != "CDF" {
		t.Errorf("then it took %q", letters)
	}
	l.end(third)
	l.turns--
	if len(l.buckets) != 0 || l.turns != 0 {
		t.Errorf("left: %v, %d turns", l.buckets, l.turns)
	}
}

func TestTakeAtMostTheLimit(t *testing.T) {
	l := idle(4)
	for _, letter := range "ABCDEFGHJK" {
		l.put(1, string(letter))
	}
	for _, want := range []int{4, 4, 2, 0} {
		turn := l.take(0)
		l.end(turn)
		if turn.size != want {
			t.Errorf("a batch of %d, want %d", turn.size, want)
		}
	}
}

// TestQueueLimit: beyond the limit, and after the end, callers are told at once and nothing was written.
func TestQueueLimit(t *testing.T) {
	l := idle(1)
	l.openings = make([]waiting[opening], maxWaiting)
	if err := l.begin(context.Background(), opening{}); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrInDoubt) {
		t.Errorf("a full queue says %v", err)
	}
	l = idle(1)
	l.closed = true
	if err := l.begin(context.Background(), opening{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("closed lanes say %v", err)
	}
}

// TestCallerLeaves: who stops waiting is told that the outcome is open if a lane has the item, and hinders nobody; if none has, the
// item leaves the queue with its caller, and nothing was written.
func TestCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := idle(1)
		ctx, cancel := context.WithCancel(context.Background())
		left := make(chan error, 1)
		go func() { left <- l.begin(ctx, opening{}) }()
		synctest.Wait()
		taken := l.openings[0]
		l.openings = nil // as takeOnce does
		cancel()
		if err := <-left; !errors.Is(err, ErrInDoubt) || errors.Is(err, ErrUnavailable) {
			t.Errorf("told %v", err)
		}
		taken.done <- nil // nobody listens, and this does not wait

		ctx, cancel = context.WithCancel(context.Background())
		l.openings = []waiting[opening]{taken}
		go func() { left <- l.begin(ctx, opening{}) }()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrInDoubt) {
			t.Errorf("told %v", err)
		}
		if len(l.openings) != 1 || l.openings[0].done != taken.done {
			t.Errorf("%d wait, want the other one alone", len(l.openings))
		}
	})
}

// script is a writer whose runs answer by a list, and whose items are found or not: the protocol of a batch without a
// database.
type script struct {
	runs  []any // per run: an error, or a []error of verdicts
	found []any // per read-back: an error, or a []bool
	wrote []string
}

func (c *script) writer(size int) writer {
	return writer{
		size: size,
		write: func(_ context.Context, picked []int) ([]error, error) {
			c.wrote = append(c.wrote, fmt.Sprint(picked))
			next := c.runs[0]
			c.runs = c.runs[1:]
			if err, failed := next.(error); failed {
				return nil, err
			}
			return slices.Clone(next.([]error)), nil
		},
		find: func(context.Context, []int) ([]bool, error) {
			next := c.found[0]
			c.found = c.found[1:]
			if err, failed := next.(error); failed {
				return nil, err
			}
			return next.([]bool), nil
		},
	}
}

// written writes a whole batch alone.
func written(s *Shard, w writer) []error {
	out := make([]error, w.size)
	s.writeSome(context.Background(), "apply", w, w.all(), false, out)
	return out
}

// TestWritten walks the protocol of a batch: one by one after a refusal, read back after a doubt, looked behind after
// a conflict that follows a doubt.
func TestWritten(t *testing.T) {
	lost, gone := error(&pgconn.PgError{Code: "57P01"}), fmt.Errorf("find: %w", ErrUnavailable)
	bad := error(&pgconn.PgError{Code: "23514", ConstraintName: "payments_captured"})
	fault, busy := error(&pgconn.PgError{Code: "42P01"}), error(&pgconn.PgError{Code: "40001"})
	ok, conflict := []error{nil}, []error{ErrConflict}
	for name, c := range map[string]struct {
		size  int
		runs  []any
		found []any
		want  string // one word per item
		wrote string
	}{
		"all is well":                       {2, []any{[]error{nil, ErrConflict}}, nil, "ok conflict", "[0 1]"},
		"busy once":                         {1, []any{busy, ok}, nil, "ok", "[0] [0]"},
		"one is bad":                        {3, []any{bad, ok, bad, ok}, nil, "ok refused ok", "[0 1 2] [0] [1] [2]"},
		"a fault":                           {2, []any{fault, fault, ok}, nil, "fault ok", "[0 1] [0] [1]"},
		"lost, all committed":               {2, []any{lost}, []any{[]bool{true, true}}, "ok ok", "[0 1]"},
		"lost, none committed":              {2, []any{lost, []error{nil, nil}}, []any{[]bool{false, false}}, "ok ok", "[0 1] [0 1]"},
		"lost, one had committed":           {2, []any{lost, ok}, []any{[]bool{true, false}}, "ok ok", "[0 1] [1]"},
		"lost, cannot be read back":         {1, []any{lost}, []any{gone}, "doubt", "[0]"},
		"lost, late, conflict with oneself": {1, []any{lost, conflict}, []any{[]bool{false}, []bool{true}}, "ok", "[0] [0]"},
		"lost, a conflict with another":     {1, []any{lost, conflict}, []any{[]bool{false}, []bool{false}}, "conflict", "[0] [0]"},
		"lost, conflict, not read back":     {1, []any{lost, conflict}, []any{[]bool{false}, gone}, "doubt", "[0] [0]"},
		"lost, late, then fenced": {
			1, []any{lost, []error{errFenced}}, []any{[]bool{false}, []bool{true}}, "ok", "[0] [0]",
		},
		"lost, then fenced": {1, []any{lost, []error{errFenced}}, []any{[]bool{false}, []bool{false}}, "fenced", "[0] [0]"},
		"lost, late, then one by one": {
			2, []any{lost, bad, conflict, bad}, []any{[]bool{false, false}, []bool{true}}, "ok refused", "[0 1] [0 1] [0] [1]",
		},
		"lost, then a fault": {1, []any{lost, fault}, []any{[]bool{false}}, "doubt", "[0] [0]"},
		"lost for ever": {
			1, []any{lost, lost, lost, lost}, []any{[]bool{false}, []bool{false}, []bool{false}, []bool{false}}, "doubt", "[0] [0] [0] [0]",
		},
		"lost for ever, committed at last": {
			1, []any{lost, lost, lost, lost}, []any{[]bool{false}, []bool{false}, []bool{false}, []bool{true}}, "ok", "[0] [0] [0] [0]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Shard{name: "s", opts: Options{}.withDefaults(), metrics: NewMetrics(nil, noTime)}
				play := &script{runs: c.runs, found: c.found}
				verdicts := written(s, play.writer(c.size))
				if got := strings.Join(column(verdicts, wordOf), " "); got != c.want {
					t.Errorf("told %q, want %q: %v", got, c.want, verdicts)
				}
				if got := strings.Join(play.wrote, " "); got != c.wrote {
					t.Errorf("wrote %s, want %s", got, c.wrote)
				}
				if len(play.runs)+len(play.found) != 0 {
					t.Errorf("not asked for: runs %v, read-backs %v", play.runs, play.found)
				}
			})
		})
	}
}

// wordOf names a verdict and holds that a doubt is never also called unwritten.
func wordOf(err error) string {
	var refused *RefusedError
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, ErrInDoubt) && errors.Is(err, ErrUnavailable):
		return "both"
	case errors.Is(err, ErrInDoubt):
		return "doubt"
	case errors.Is(err, ErrUnavailable):
		return "unavailable"
	case errors.Is(err, ErrConflict):
		return "conflict"
	case errors.Is(err, errFenced):
		return "fenced"
	case errors.As(err, &refused):
		return "refused"
	}
	return "fault"
}

// TestTriesAreBounded: the tries are bounded, and the caller hears that nothing was written.
func TestTriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Shard{name: "s", opts: Options{}.withDefaults(), metrics: NewMetrics(nil, noTime)}
		runs := 0
		w := writer{size: 1, write: func(context.Context, []int) ([]error, error) {
			runs++
			return nil, fmt.Errorf("post: %w", &pgconn.PgError{Code: "40001"})
		}}
		verdicts := written(s, w)
		if runs != maxTries || wordOf(verdicts[0]) != "unavailable" {
			t.Errorf("%d runs, told %v", runs, verdicts[0])
		}
	})
}

func noTime() time.Time { return time.Time{} }
