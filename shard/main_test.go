package shard_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"paygrid/shard/shardtest"
)

var databases shardtest.Databases

// TestMain runs the tests on one engine, and then wants that no lane, pool or proxy still runs.
func TestMain(m *testing.M) {
	code := databases.Main(m)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
