package localdb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// install plants a folder with a postgres that prints a version, and an initdb.
func install(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\necho '%s'\n", version)
	for _, program := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestParseMajor(t *testing.T) {
	tests := []struct {
		version string
		major   int
		ok      bool
	}{
		{"postgres (PostgreSQL) 15.19 (Debian 15.19-0+deb12u1)\n", 15, true},
		{"postgres (PostgreSQL) 9.6.24\n", 9, true},
		{"postgres (PostgreSQL) 18beta1\n", 18, true},
		{"postgres (PostgreSQL) 17devel\n", 17, true},
		{"postgres (EnterpriseDB) x\n", 0, false},
		{"", 0, false},
	}
	for _, test := range tests {
		if major, ok := parseMajor(test.version); major != test.major || ok != test.ok {
			t.Errorf("parseMajor(%q) = %d, %v; want %d, %v", test.version, major, ok, test.major, test.ok)
		}
	}
}

func TestFindNewestFirstAndSkipsOld(t *testing.T) {
	v14, v15, v17 := install(t, "postgres (PostgreSQL) 14.9"), install(t, "postgres (PostgreSQL) 15.1"), install(t, "postgres (PostgreSQL) 17.0")
	empty := t.TempDir()
	s := search{path: strings.Join([]string{empty, v15, v14}, string(os.PathListSeparator)), globs: []string{v17, v15}}
	found, err := s.find()
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 || found[0].bin != v17 || found[1].bin != v15 {
		t.Errorf("found %+v, want %s then %s", found, v17, v15)
	}
}

func TestFindFollowsALinkOnPath(t *testing.T) {
	real, links := install(t, "postgres (PostgreSQL) 16.2"), t.TempDir()
	if err := os.Symlink(filepath.Join(real, "postgres"), filepath.Join(links, "postgres")); err != nil {
		t.Fatal(err)
	}
	found, err := search{path: links}.find()
	if err != nil || found[0].bin != real {
		t.Errorf("found %+v, %v; want %s", found, err, real)
	}
}

func TestFindOverrideIsTheOnlyPlace(t *testing.T) {
	v15, v17 := install(t, "postgres (PostgreSQL) 15.1"), install(t, "postgres (PostgreSQL) 17.0")
	found, err := search{override: v15, path: v17}.find()
	if err != nil || len(found) != 1 || found[0].bin != v15 {
		t.Errorf("found %+v, %v; want %s alone", found, err, v15)
	}
	_, err = search{override: t.TempDir(), path: v17}.find()
	var missing *NotFoundError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), binEnv) {
		t.Errorf("error %v, want a NotFoundError that names %s", err, binEnv)
	}
}

func TestFindNothing(t *testing.T) {
	tests := []struct {
		name string
		s    search
		want []string
	}{
		{"empty path", search{}, []string{"apt-get install postgresql", "dnf install", "brew install", "install-postgres"}},
		{"too old", search{path: install(t, "postgres (PostgreSQL) 13.4")}, []string{"too old", "version 13", "apt.postgresql.org.sh"}},
		{"no initdb", search{path: withoutInitdb(t)}, []string{"apt-get install postgresql"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.s.find()
			var missing *NotFoundError
			if !errors.As(err, &missing) {
				t.Fatalf("error %v, want a NotFoundError", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in the message:\n%v", want, err)
				}
			}
		})
	}
}

func withoutInitdb(t *testing.T) string {
	t.Helper()
	dir := install(t, "postgres (PostgreSQL) 16.0")
	if err := os.Remove(filepath.Join(dir, "initdb")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPickTheMajorThatMadeTheData(t *testing.T) {
	found := []installation{{bin: "/17", major: 17}, {bin: "/15", major: 15}}
	tests := []struct{ made, bin string }{{"", "/17"}, {"15\n", "/15"}, {"16\n", ""}}
	for _, test := range tests {
		data := t.TempDir()
		if test.made != "" {
			if err := os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte(test.made), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := pick(found, data)
		var version *VersionError
		if got.bin != test.bin || (test.bin == "") != errors.As(err, &version) {
			t.Errorf("data of %q: picked %q, %v; want %q", test.made, got.bin, err, test.bin)
		}
	}
}
