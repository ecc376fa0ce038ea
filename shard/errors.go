package shard

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
)

// The sentinels of this package, each with when it is returned.
var (
	// ErrConflict: the compare-and-set did not hold; somebody else moved the payment first. Read it again and decide
	// anew.
	ErrConflict = errors.New("the payment was changed by somebody else")
	// ErrNotFound: the owning shard has no such row.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable: the shard could not be asked, or did not stop refusing within the bounded tries. Nothing was
	// written.
	ErrUnavailable = errors.New("the shard is unavailable")
	// ErrInDoubt: the statement was sent, its outcome could not be read back in time. It may or may not have committed.
	ErrInDoubt = errors.New("the commit's outcome is not known")
	// ErrNoOwner: no shard owns the bucket at the epoch of the newest map that could be read. Nothing was written.
	ErrNoOwner = errors.New("no shard owns the bucket")

	// errClosed is what callers hear after Close.
	errClosed = fmt.Errorf("the cluster is closed: %w", ErrUnavailable)
	// errFenced is the fence's refusal inside this package: the shard does not own the bucket at that epoch.
	errFenced = errors.New("the shard does not own the bucket at this epoch")
)

// RefusedError is a change that the database itself refused: a unique key, a CHECK, an overflow. Nothing was written.
type RefusedError struct {
	SQLState   string
	Constraint string
	Err        error
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused by the database (%s %s): %v", e.SQLState, e.Constraint, e.Err)
}

// Unwrap returns the driver's error.
func (e *RefusedError) Unwrap() error { return e.Err }

// verdict is what an error of the driver means for a statement that commits by itself.
type verdict uint8

const (
	fatal       verdict = iota // a fault of ours or of the schema; nothing was written
	again                      // nothing was written; the same statement may be run again
	refused                    // nothing was written; the database will refuse it again
	unreachable                // nothing was sent
	inDoubt                    // it may have committed
)

// judge is the one place that reads SQLSTATEs (cockroach.md 1.2): everything else decides on its verdict.
func judge(err error) verdict {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return judgeState(pg.Code)
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) || pgconn.SafeToRetry(err) || errors.Is(err, puddle.ErrClosedPool) {
		return unreachable
	}
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		connectionLost(err) {
		return inDoubt
	}
	return fatal
}

func judgeState(code string) verdict {
	switch code {
	case "40001", "40P01", "CR000", // serialization, deadlock
		"0A000", // cached plan must not change result type: pgx drops the plan
		"55P03": // lock_not_available
		return again
	case "40003": // CockroachDB: result is ambiguous
		return inDoubt
	case "57P03", "25006": // starting up; a standby, which is for reading only: another server may do
		return unreachable
	}
	return judgeClass(code[:min(2, len(code))])
}

// judgeClass judges by the first two characters of an SQLSTATE, where all of a class mean the same.
func judgeClass(class string) verdict {
	switch class {
	case "21", "22", "23", // cardinality (a row twice in one change), data (overflow), integrity constraint
		"54", // a limit of the server: a text too long for its index
		"P0": // a trigger's RAISE
		return refused
	case "53": // too many connections, disk full, out of memory: refused at the door
		return unreachable
	case "08", // connection
		"57",       // shutdown, cancel, time-out: it may have come too late
		"58", "XX": // I/O and internal errors (CockroachDB: a range is unavailable): the server itself cannot say
		return inDoubt
	}
	return fatal
}

// connectionLost tells a driver error that is neither the server's word nor a network error: pgx reports a connection
// that ended under a statement in several shapes, of which io.ErrUnexpectedEOF is one.
func connectionLost(err error) bool {
	var pg *pgconn.PgError
	return !errors.As(err, &pg) && (errors.Is(err, net.ErrClosed) || isEOF(err))
}

func refusal(err error) error {
	out := &RefusedError{Err: err}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		out.SQLState, out.Constraint = pg.Code, pg.ConstraintName
	}
	return out
}
