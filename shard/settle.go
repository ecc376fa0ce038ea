package shard

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// statement is one of the write statements with its arguments, the batch's buckets first. It says of each item by its id
// what became of it.
type statement struct {
	sql  string
	args []any
	size int
	id   func(n int) string
}

// run sends the statement alone; it commits by itself.
func (s *Shard) run(ctx context.Context, st statement) ([]error, error) {
	rows, err := s.writers.Query(ctx, st.sql, st.args...)
	if err != nil {
		return nil, err
	}
	return st.collect(rows)
}

// collect reads what the statement says of each item: owned by this shard, written. The errors are, in the batch's order,
// nil, errFenced, or ErrConflict: the key is taken, the compare-and-set or a cap did not hold, the notice is stored. An item
// that the statement did not name at all is a fault of the statement.
func (st statement) collect(rows pgx.Rows) ([]error, error) {
	verdicts := make(map[string]error, st.size)
	var name string
	var owned, written bool
	_, err := pgx.ForEachRow(rows, []any{&name, &owned, &written}, func() error {
		switch {
		case written:
			verdicts[name] = nil
		case owned:
			verdicts[name] = ErrConflict
		default:
			verdicts[name] = errFenced
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]error, st.size)
	for n := range out {
		verdict, ok := verdicts[st.id(n)]
		if !ok {
			return nil, fmt.Errorf("the statement said nothing of %s", st.id(n))
		}
		out[n] = verdict
	}
	return out, nil
}

// load is a batch of one kind on its way, its type hidden: what follows does not depend on it.
type load struct {
	op   string
	tell func(n int, err error)
	writer
}

// writer is how a batch is written, and how those of its items are found that have committed, by their own IDs.
type writer struct {
	size      int
	statement func(picked []int) statement
	write     func(ctx context.Context, picked []int) ([]error, error)
	find      func(ctx context.Context, picked []int) ([]bool, error)
}

func loadOf[T any](s *Shard, op string, batch []waiting[T], of func([]T) statement,
	find func(context.Context, []T) ([]bool, error)) load {
	pick := func(picked []int) []T { return column(picked, func(n int) T { return batch[n].item }) }
	return load{
		op:   op,
		tell: func(n int, err error) { batch[n].done <- err },
		writer: writer{
			size:      len(batch),
			statement: func(picked []int) statement { return of(pick(picked)) },
			write:     func(ctx context.Context, picked []int) ([]error, error) { return s.run(ctx, of(pick(picked))) },
			find:      func(ctx context.Context, picked []int) ([]bool, error) { return find(ctx, pick(picked)) },
		},
	}
}

// all are the numbers of the writer's items.
func (w writer) all() []int {
	out := make([]int, w.size)
	for n := range out {
		out[n] = n
	}
	return out
}

// settle writes batches and tells each caller what became of its item: all in one commit, or, should that fail in any way,
// each kind by itself.
func (s *Shard) settle(loads []load) {
	for _, l := range loads {
		s.metrics.batch.WithLabelValues(s.name, l.op).Observe(float64(l.size))
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.CallTimeout)
	defer cancel()
	doubted := false
	if len(loads) > 1 {
		verdicts, err := s.writeTogether(ctx, loads)
		if err == nil {
			for n, l := range loads {
				s.told(l, verdicts[n])
			}
			return
		}
		v := judge(err)
		if v == again {
			s.metrics.retries.WithLabelValues(s.name, "together").Inc()
		}
		doubted = v == inDoubt
	}
	for _, l := range loads {
		out := make([]error, l.size)
		s.writeSome(ctx, l.op, l.writer, l.all(), doubted, out)
		s.told(l, out)
	}
}

// told tells the callers.
func (s *Shard) told(l load, verdicts []error) {
	s.signal(verdicts)
	for n, err := range verdicts {
		l.tell(n, err)
	}
}

// sqlLock locks the bucket rows of several statements that take numbers in one order, so that two processes whose statements
// share a commit cannot wait for each other. It relies on the primary key.
const sqlLock = `
SELECT b.bucket FROM buckets b WHERE b.bucket = ANY($1::INT4[]) AND b.state = 'OWNED' ORDER BY b.bucket FOR NO KEY UPDATE`

// writeTogether writes batches of several kinds in one round trip. The statements of a pipeline are one transaction, on both
// engines (CockroachDB since 22.1): all of them have committed or none has. Notices come first (take): they lock no row against
// those who take numbers, and none waits for them.
func (s *Shard) writeTogether(ctx context.Context, loads []load) ([][]error, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.StatementTimeout)
	defer cancel()
	defer s.metrics.time(s.name, "together")()
	out := make([][]error, len(loads))
	var buckets []int32
	numbering := 0 // statements
	parts := &pgx.Batch{}
	for n, l := range loads {
		st := l.statement(l.all())
		if st.sql != sqlPutInbox {
			buckets = append(buckets, st.args[0].([]int32)...)
			numbering++
		}
		parts.Queue(st.sql, st.args...).Query(func(rows pgx.Rows) (err error) {
			out[n], err = st.collect(rows)
			return err
		})
	}
	batch := &pgx.Batch{}
	if numbering > 1 {
		batch.Queue(sqlLock, buckets)
	}
	batch.QueuedQueries = append(batch.QueuedQueries, parts.QueuedQueries...)
	return out, s.writers.SendBatch(ctx, batch).Close()
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
