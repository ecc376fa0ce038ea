package relay_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"paygrid/shard/shardtest"
)

var databases shardtest.Databases

// childEnv makes this test binary a relay that tests may kill.
const childEnv = "PAYGRID_TEST_RELAY"

// TestMain runs the tests on one engine, and then wants that no relay, producer or broker still runs.
func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		os.Exit(childRelay(spec))
	}
	code := databases.Main(m)
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
