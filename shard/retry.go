package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// Retries are bounded: maxTries runs in all, the pause doubling from firstPause to longestPause, each jittered over
// its upper half.
const (
	maxTries     = 12
	firstPause   = 2 * time.Millisecond
	longestPause = 250 * time.Millisecond
)

// retry runs f, which must be safe to run again from the start, until it stops failing with the verdict `again` (40001,
// 40P01, …) or could not even be sent, or the tries are used up. f runs in a new transaction each time. Wrapped errors are
// recognised. Each run has the statement's time limit.
//
// cockroach-go's ExecuteTx is not used: on PostgreSQL it loses the errors of COMMIT.
func (s *Shard) retry(ctx context.Context, op string, f func(ctx context.Context) error) error {
	return s.retryLong(ctx, s.opts.StatementTimeout, op, f)
}

// retryLong is retry with another limit of each run.
func (s *Shard) retryLong(ctx context.Context, limit time.Duration, op string, f func(ctx context.Context) error) error {
	pause := firstPause
	for try := 1; ; try++ {
		err := within(ctx, limit, f)
		if err == nil {
			return nil
		}
		switch judge(err) {
		case again:
			s.metrics.retries.WithLabelValues(s.name, op).Inc()
		case unreachable: // a broken or refused connection: the next may do
		default:
			return err
		}
		if try == maxTries {
			return fmt.Errorf("%s: %w: %w", op, ErrUnavailable, err)
		}
		if !sleep(ctx, jitter(pause)) {
			return fmt.Errorf("%s: %w: %w", op, ErrUnavailable, err)
		}
		pause = min(2*pause, longestPause)
	}
}

// read runs a read, which can be repeated whatever went wrong: a lost connection too. Each run has the statement's time limit.
func (s *Shard) read(ctx context.Context, op string, f func(ctx context.Context) error) error {
	return s.readLong(ctx, s.opts.StatementTimeout, op, f)
}

// readLong is read with another limit of each run.
func (s *Shard) readLong(ctx context.Context, limit time.Duration, op string, f func(ctx context.Context) error) error {
	pause := firstPause
	for try := 1; ; try++ {
		err := within(ctx, limit, f)
		if err == nil {
			return nil
		}
		v := judge(err)
		if v == fatal || v == refused {
			return fmt.Errorf("%s: %w", op, err)
		}
		if try == maxTries || ctx.Err() != nil || !sleep(ctx, jitter(pause)) {
			return fmt.Errorf("%s: %w: %w", op, ErrUnavailable, err)
		}
		pause = min(2*pause, longestPause)
	}
}

// within runs f under a time limit. Without one a host that is lost without a word holds its caller until TCP gives up.
func within(ctx context.Context, limit time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return f(ctx)
}

func jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}

// sleep waits for d and tells whether ctx was still alive at its end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
