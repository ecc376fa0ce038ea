package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
)

// TestJudge is the table of everything that a driver can say. Each line is judged bare, wrapped once and joined: a
// retryable error in another text is still one (C041).
func TestJudge(t *testing.T) {
	state := func(code string) error { return &pgconn.PgError{Code: code} }
	for name, c := range map[string]struct {
		err  error
		want verdict
	}{
		"serialization failure":      {state("40001"), again},
		"deadlock":                   {state("40P01"), again},
		"CockroachDB's old restart":  {state("CR000"), again},
		"plan is out of date":        {state("0A000"), again},
		"lock not available":         {state("55P03"), again},
		"result is ambiguous":        {state("40003"), inDoubt},
		"admin shutdown":             {state("57P01"), inDoubt},
		"crash shutdown":             {state("57P02"), inDoubt},
		"idle session timeout":       {state("57P05"), inDoubt},
		"query canceled":             {state("57014"), inDoubt},
		"connection failure":         {state("08006"), inDoubt},
		"I/O error":                  {state("58030"), inDoubt},
		"internal error":             {state("XX000"), inDoubt},
		"starting up":                {state("57P03"), unreachable},
		"too many connections":       {state("53300"), unreachable},
		"disk full":                  {state("53100"), unreachable},
		"a standby":                  {state("25006"), unreachable},
		"unique violation":           {state("23505"), refused},
		"check violation":            {state("23514"), refused},
		"numeric out of range":       {state("22003"), refused},
		"NUL in a text":              {state("22021"), refused},
		"a row twice":                {state("21000"), refused},
		"too long for the index":     {state("54000"), refused},
		"a trigger's refusal":        {state("P0001"), refused},
		"no such table":              {state("42P01"), fatal},
		"no right":                   {state("42501"), fatal},
		"wrong password":             {state("28P01"), fatal},
		"no code at all":             {state(""), fatal},
		"half a code":                {state("2"), fatal},
		"end of file":                {io.EOF, inDoubt},
		"end in the middle":          {io.ErrUnexpectedEOF, inDoubt},
		"closed socket":              {net.ErrClosed, inDoubt},
		"network error":              {&net.OpError{Op: "read", Err: errors.New("reset")}, inDoubt},
		"time limit":                 {context.DeadlineExceeded, inDoubt},
		"cancelled":                  {context.Canceled, inDoubt},
		"closed pool":                {puddle.ErrClosedPool, unreachable},
		"something else":             {errors.New("scan"), fatal},
		"retryable inside a network": {errors.Join(io.EOF, state("40001")), again},
	} {
		for form, err := range map[string]error{
			"bare": c.err, "wrapped": fmt.Errorf("post: %w", c.err), "twice": fmt.Errorf("a: %w", fmt.Errorf("b: %w", c.err)),
			"joined": errors.Join(errors.New("x"), c.err),
		} {
			if got := judge(err); got != c.want {
				t.Errorf("%s, %s: judged %d, want %d", name, form, got, c.want)
			}
		}
	}
}

// TestGiveUp: what a caller hears. After a doubt nobody may hear that nothing was written.
func TestGiveUp(t *testing.T) {
	unavailable := fmt.Errorf("%w: %w", ErrUnavailable, &pgconn.PgError{Code: "40001"})
	for name, c := range map[string]struct {
		err     error
		doubted bool
		want    error
		not     error
	}{
		"40001 for ever":               {unavailable, false, ErrUnavailable, ErrInDoubt},
		"40001 for ever after a doubt": {unavailable, true, ErrInDoubt, ErrUnavailable},
		"no connection":                {&pgconn.PgError{Code: "53300"}, false, ErrUnavailable, ErrInDoubt},
		"no connection after a doubt":  {&pgconn.PgError{Code: "53300"}, true, ErrInDoubt, ErrUnavailable},
		"lost":                         {io.EOF, false, ErrInDoubt, ErrUnavailable},
		"a fault after a doubt":        {&pgconn.PgError{Code: "42P01"}, true, ErrInDoubt, ErrUnavailable},
	} {
		err := giveUp("apply", c.err, c.doubted)
		if !errors.Is(err, c.want) || errors.Is(err, c.not) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var refused *RefusedError
	err := giveUp("apply", &pgconn.PgError{Code: "23514", ConstraintName: "payments_captured", Message: "no"}, true)
	if !errors.As(err, &refused) || refused.Constraint != "payments_captured" || !strings.Contains(err.Error(), "23514") {
		t.Errorf("a refusal: %v", err)
	}
}

func TestJitter(t *testing.T) {
	for _, d := range []time.Duration{firstPause, longestPause, 1, 2} {
		low, high := d, time.Duration(0)
		for range 1000 {
			got := jitter(d)
			low, high = min(low, got), max(high, got)
		}
		if low < d/2 || high > d {
			t.Errorf("jitter(%v) went from %v to %v", d, low, high)
		}
		if d > time.Millisecond && low == high {
			t.Errorf("jitter(%v) is always %v", d, low)
		}
	}
}
