package localdb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/cockroachdb/cockroach-go/v2/testserver"
)

// wantsCockroach is decided by the environment: COCKROACH_BINARY, or PAYGRID_DB=cockroach with cockroach on PATH.
func wantsCockroach() bool {
	return os.Getenv("COCKROACH_BINARY") != "" || os.Getenv("PAYGRID_DB") == KindCockroach
}

// cockroachBinary is the program to run. An error, never a download, if there is none.
func cockroachBinary() (string, error) {
	if named := os.Getenv("COCKROACH_BINARY"); named != "" {
		return exec.LookPath(named)
	}
	return exec.LookPath("cockroach")
}

// startCockroach runs one node by cockroach-go's testserver (v2.4.2), with certificates and passwords: without them
// CockroachDB refuses CREATE ROLE … PASSWORD, and the same SQL could not run on both engines.
//
// It differs from PostgreSQL in three ways, all testserver's: the data is gone after Stop, also with Options.Dir; a
// parent killed with -9 leaves the node behind; and it prints to the standard logger.
func startCockroach(ctx context.Context, o Options) (*Engine, error) {
	binary, err := cockroachBinary()
	if err != nil {
		// Without this testserver would download one.
		return nil, fmt.Errorf("localdb: cockroach: set COCKROACH_BINARY to the program, or unset PAYGRID_DB: %w", err)
	}
	if o.Dir != "" {
		fmt.Fprintf(o.Log, "localdb: CockroachDB keeps nothing in %s: its data is gone when it stops\n", o.Dir)
	}
	node, err := newNode(ctx, cockroachOptions(o, binary))
	if err != nil {
		return nil, err
	}
	admin := *node.PGURL()
	fmt.Fprintf(o.Log, "localdb: CockroachDB listens on %s\n", admin.Host)
	return &Engine{kind: KindCockroach, admin: admin, stop: func() error { node.Stop(); return nil }}, nil
}

func cockroachOptions(o Options, binary string) []testserver.TestServerOpt {
	opts := []testserver.TestServerOpt{
		testserver.CockroachBinaryPathOpt(binary),
		testserver.SecureOpt(),
		testserver.RootPasswordOpt(rand.Text()),
	}
	if o.Durable {
		opts = append(opts, testserver.StoreOnDiskOpt())
	}
	if o.Port != 0 {
		opts = append(opts, testserver.AddListenAddrPortOpt(o.Port))
	}
	return opts
}

// newNode starts a node. testserver knows no context: when ctx ends first, the node is stopped as soon as it is up.
func newNode(ctx context.Context, opts []testserver.TestServerOpt) (testserver.TestServer, error) {
	type result struct {
		node testserver.TestServer
		err  error
	}
	results := make(chan result, 1)
	go func() {
		node, err := testserver.NewTestServer(opts...)
		results <- result{node, err}
	}()
	select {
	case r := <-results:
		return r.node, wrapStart(r.err)
	case <-ctx.Done():
		r := <-results // bounded by testserver's own time-outs, 60 s each
		if r.err == nil {
			r.node.Stop()
		}
		return nil, wrapStart(errors.Join(ctx.Err(), r.err))
	}
}

func wrapStart(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("localdb: start CockroachDB: %w", err)
}
