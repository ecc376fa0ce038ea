package main

import (
	"os"
	"testing"

	"paygrid/schema/localdb"
)

// db is the one engine of this package's tests.
var db localdb.Shared

// childEnv makes this test binary a router process that tests may kill. It is read here alone: the program itself has no
// such door.
const childEnv = "PAYGRID_TEST_CHILD"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childEnv); spec != "" {
		os.Exit(childRouter(spec))
	}
	os.Exit(db.Main(m))
}
