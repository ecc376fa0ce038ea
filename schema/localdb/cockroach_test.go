package localdb

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestCockroachIsOnlyWhatTheEnvironmentNames(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "cockroach")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, binary, db, path string
		wants                  bool
		found                  string
	}{
		{name: "nothing set, though it is on PATH", path: filepath.Dir(binary), found: binary},
		{name: "named", binary: binary, wants: true, found: binary},
		{name: "named and missing", binary: "/nowhere/cockroach", wants: true},
		{name: "asked for and on PATH", db: "cockroach", path: filepath.Dir(binary), wants: true, found: binary},
		{name: "asked for and missing", db: "cockroach", wants: true},
		{name: "PostgreSQL asked for", db: "postgres"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("COCKROACH_BINARY", test.binary)
			t.Setenv("PAYGRID_DB", test.db)
			t.Setenv("PATH", test.path)
			found, err := cockroachBinary()
			if wantsCockroach() != test.wants || found != test.found || (err != nil) != (test.found == "") {
				t.Errorf("wanted %v, found %q, %v", wantsCockroach(), found, err)
			}
		})
	}
}

// TestMissingCockroachIsNotDownloaded: testserver would fetch a binary if it were called without one.
func TestMissingCockroachIsNotDownloaded(t *testing.T) {
	t.Setenv("COCKROACH_BINARY", "")
	t.Setenv("PAYGRID_DB", "cockroach")
	t.Setenv("PATH", t.TempDir())
	_, err := Start(t.Context(), Options{})
	if !errors.Is(err, exec.ErrNotFound) || !strings.Contains(err.Error(), "COCKROACH_BINARY") {
		t.Errorf("error %v, want one that names COCKROACH_BINARY", err)
	}
}

// TestBrokenCockroachIsAnError plants a program that is no CockroachDB.
func TestBrokenCockroachIsAnError(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "cockroach")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("COCKROACH_BINARY", binary)
	if _, err := Start(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "start CockroachDB") {
		t.Errorf("error %v, want one of the start of CockroachDB", err)
	}
}
