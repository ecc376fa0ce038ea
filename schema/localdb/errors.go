package localdb

import (
	"fmt"
	"strings"
)

// NotFoundError is returned by [Start] when this machine has no PostgreSQL 15 or later.
type NotFoundError struct {
	Override string   // the value of PAYGRID_POSTGRES_BIN, "" if not set
	Searched []string // folders that were looked into
	TooOld   []string // installations that were passed over, with their version
}

// Error says what to install on each system.
func (e *NotFoundError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "localdb: no PostgreSQL %d or later found", oldestMajor)
	if e.Override != "" {
		fmt.Fprintf(&b, " in %s, which %s names: it must hold postgres and initdb; correct it or unset it", e.Override, binEnv)
		return b.String()
	}
	if len(e.TooOld) > 0 {
		fmt.Fprintf(&b, " (too old: %s)", strings.Join(e.TooOld, ", "))
	}
	b.WriteString(`. Run deploy/install-postgres, or install it by hand:
  Debian 12+, Ubuntu 24.04+:  apt-get install postgresql
  Debian 11, Ubuntu 22.04:    apt-get install postgresql-common ca-certificates,
                              /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh -y, apt-get install postgresql-17
  Fedora, RHEL 10:            dnf install postgresql-server
  RHEL 9 and its kin:         dnf module install postgresql:16/server
  Alpine:                     apk add postgresql16
  Arch:                       pacman -S postgresql
  macOS:                      brew install postgresql@17
  elsewhere:                  set ` + binEnv + ` to the folder that holds postgres and initdb`)
	return b.String()
}

// VersionError is returned by [Start] for a Dir whose data was made by a major version that is not installed.
type VersionError struct {
	DataDir string
	Made    string // major version that made the data
	Newest  int    // newest major version installed
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("localdb: %s was made by PostgreSQL %s, installed is %d: install %s again, or use another data folder",
		e.DataDir, e.Made, e.Newest, e.Made)
}

// BusyError is returned by [Start] when another engine runs in the same Dir.
type BusyError struct{ Dir string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("localdb: another engine runs in %s: stop it, or use another data folder", e.Dir)
}

// StartError is returned by [Start] when the server ended before it answered.
type StartError struct {
	LogFile string
	Tail    string // last lines of LogFile
	Err     error  // how the process ended
}

func (e *StartError) Error() string {
	return fmt.Sprintf("localdb: the server did not start (%v); the end of %s:\n%s", e.Err, e.LogFile, e.Tail)
}

// Unwrap returns how the process ended.
func (e *StartError) Unwrap() error { return e.Err }
