package shard_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// patience is how long a test waits for what must happen before it calls it lost.
const patience = 20 * time.Second

func now() time.Time { return time.Now() }

// conn is a connection beside those of the cluster.
type conn struct{ *pgx.Conn }

func connect(t testing.TB, url string) *conn {
	t.Helper()
	c, err := pgx.Connect(context.Background(), url)
	must(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return &conn{c}
}

func (c *conn) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := c.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (c *conn) count(t testing.TB, sql string, args ...any) (n int64) {
	t.Helper()
	if err := c.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// until asks until the answer is want.
func (c *conn) until(t testing.TB, want int64, sql string, args ...any) {
	t.Helper()
	eventually(t, sql, func() bool { return c.count(t, sql, args...) == want })
}

// eventually asks again until ok; what it asks (the server's views, a lane's queue) sends no event when it changes.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never came true: %s", what)
		}
	}
}

// waitQueued returns when n calls wait in the cluster's lanes.
func (b bench) waitQueued(t testing.TB, n int) {
	t.Helper()
	eventually(t, "calls wait in the lanes", func() bool { return b.Waiting() == n })
}

// sqlState returns the server's code of an error, "" if it is another's.
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

func (c *conn) text(t testing.TB, sql string, args ...any) (text string) {
	t.Helper()
	if err := c.QueryRow(context.Background(), sql, args...).Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// constraintOf returns the name of the constraint that an error tells of.
func constraintOf(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.ConstraintName
	}
	return ""
}
