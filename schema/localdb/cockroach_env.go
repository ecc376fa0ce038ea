package localdb

import (
	"os"
	"os/exec"
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
