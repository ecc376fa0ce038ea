package localdb

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	temporaryPrefix = "paygrid-db-"  // a temporary Dir whose lock is held while its engine runs
	unlockedPrefix  = "paygrid-new-" // the same before it has its lock
	fallbackRoot    = "/var/tmp"     // as root: where the server's user can reach its data
	lockName        = "postgres.lock"
	homeName        = "postgres"
)

// account is whom the server runs as; nil is the caller.
type account struct{ uid, gid uint32 }

// serverAccount is nil unless the caller is root, whom PostgreSQL refuses.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("localdb: as root, PostgreSQL runs as the system user postgres: "+
			"install the system's package, or run useradd --system postgres: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("localdb: user ID of postgres: %w", err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("localdb: group ID of postgres: %w", err)
	}
	return &account{uid: uint32(uid), gid: uint32(gid)}, nil
}

// own gives a file or folder to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// folder is an engine's place on disk, locked.
type folder struct {
	dir       string
	home      string // dir/postgres, or where that link points
	temporary bool
	lock      *os.File
}

func (f *folder) data() string     { return filepath.Join(f.home, "data") }
func (f *folder) logFile() string  { return filepath.Join(f.home, "server.log") }
func (f *folder) password() string { return filepath.Join(f.home, "password") }

// openFolder makes the folder of o and its home, or finds them, and locks them.
func openFolder(o Options, who *account, logf func(string, ...any)) (*folder, error) {
	f, err := lockedFolder(o)
	if err != nil {
		return nil, err
	}
	if err := f.prepareHome(who, logf); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func lockedFolder(o Options) (*folder, error) {
	if o.Dir == "" {
		return temporaryFolder(temporaryRoot(o.Durable))
	}
	abs, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("localdb: data folder: %w", err)
	}
	if err := os.MkdirAll(abs, 0o755); err != nil {
		return nil, fmt.Errorf("localdb: data folder: %w", err)
	}
	lock, err := lockFile(abs)
	if err != nil {
		return nil, err
	}
	return &folder{dir: abs, lock: lock}, nil
}

// temporaryFolder gets its final name only once it is locked: a sweep takes what has that name and no lock for dead.
func temporaryFolder(root string) (*folder, error) {
	fresh, err := os.MkdirTemp(root, unlockedPrefix)
	if err != nil {
		return nil, fmt.Errorf("localdb: temporary folder: %w", err)
	}
	if err := os.Chmod(fresh, 0o755); err != nil { // the server's user must get through
		return nil, fmt.Errorf("localdb: temporary folder: %w", err)
	}
	lock, err := lockFile(fresh)
	if err != nil {
		return nil, err
	}
	suffix := strings.TrimPrefix(filepath.Base(fresh), unlockedPrefix)
	dir := filepath.Join(filepath.Dir(fresh), temporaryPrefix+suffix)
	if err := os.Rename(fresh, dir); err != nil {
		return nil, fmt.Errorf("localdb: temporary folder: %w", err)
	}
	return &folder{dir: dir, lock: lock, temporary: true}, nil
}

// lockFile takes the lock of dir; the kernel gives it back when this process ends, however it ends.
func lockFile(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("localdb: lock: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return file, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, &BusyError{Dir: dir}
	}
	return nil, fmt.Errorf("localdb: lock %s: %w", dir, err)
}

// prepareHome sets f.home to a folder that belongs to the server's account and that it can reach.
func (f *folder) prepareHome(who *account, logf func(string, ...any)) error {
	f.home = filepath.Join(f.dir, homeName)
	if target, err := os.Readlink(f.home); err == nil {
		f.home = target // made by an earlier start, see below
	} else if who != nil && !reachable(f.dir, who) {
		link := f.home
		f.home = fallbackHome(f.dir)
		if err := os.Symlink(f.home, link); err != nil {
			return fmt.Errorf("localdb: link to the data: %w", err)
		}
		logf("user postgres cannot reach %s: the data is in %s", f.dir, f.home)
	}
	if err := makePrivate(f.home, who); err != nil {
		return fmt.Errorf("localdb: data folder: %w", err)
	}
	return nil
}

// makePrivate makes dir for the account alone. One that is there already must be a real folder of that account:
// in /var/tmp anybody could have put one there.
func makePrivate(dir string, who *account) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return who.own(dir)
	}
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	want := uint32(os.Geteuid())
	if who != nil {
		want = who.uid
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; !info.IsDir() || owner != want {
		return fmt.Errorf("%s exists and is not a folder of user %d: remove it, or use another data folder", dir, want)
	}
	return nil
}

// fallbackHome is the same for every start on dir.
func fallbackHome(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(fallbackRoot, "paygrid-postgres-"+hex.EncodeToString(sum[:8]))
}

// reachable says whether the account may pass through dir and all that is above it.
func reachable(dir string, who *account) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || !searchable(info, who) {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// searchable reads the one set of permission bits that Unix applies: the owner's, else the group's, else all others'.
func searchable(info os.FileInfo, who *account) bool {
	stat := info.Sys().(*syscall.Stat_t)
	mode := info.Mode().Perm()
	switch {
	case stat.Uid == who.uid:
		return mode&0o100 != 0
	case stat.Gid == who.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// close removes a temporary folder and gives the lock back, in this order: nobody else may get in between.
func (f *folder) close() error {
	var err error
	if f.temporary {
		err = errors.Join(os.RemoveAll(f.home), os.RemoveAll(f.dir))
	}
	return errors.Join(err, f.lock.Close())
}

// sweep removes temporary folders whose engine died without Stop. It is a courtesy: what it cannot remove stays.
func sweep(root string) {
	left, _ := filepath.Glob(filepath.Join(root, temporaryPrefix+"*"))
	for _, dir := range left {
		if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil {
			continue
		}
		lock, err := lockFile(dir)
		if err != nil {
			continue // its engine lives
		}
		f := &folder{dir: dir, home: filepath.Join(dir, homeName), temporary: true, lock: lock}
		if target, err := os.Readlink(f.home); err == nil {
			f.home = target
		}
		if orphan(f.data()) != 0 {
			f.temporary = false // its server is still on its way out
		}
		_ = f.close()
	}
}
