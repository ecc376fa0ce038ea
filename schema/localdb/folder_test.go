package localdb

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSearchableReadsTheRightBits(t *testing.T) {
	dir := t.TempDir()
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	owner, member, other := &account{uid, gid + 1}, &account{uid + 1, gid}, &account{uid + 1, gid + 1}
	tests := []struct {
		mode                  os.FileMode
		owner, member, others bool
	}{
		{0o700, true, false, false},
		{0o710, true, true, false},
		{0o711, true, true, true},
		{0o701, true, false, true}, // the group's bits hold for a member, though all others may pass
		{0o077, false, true, true},
		{0o644, false, false, false},
	}
	for _, test := range tests {
		if err := os.Chmod(dir, test.mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		got := [3]bool{searchable(info, owner), searchable(info, member), searchable(info, other)}
		if want := [3]bool{test.owner, test.member, test.others}; got != want {
			t.Errorf("mode %v: owner, member, others may pass: %v, want %v", test.mode, got, want)
		}
	}
	_ = os.Chmod(dir, 0o700) // so that it can be removed
}

func TestReachableLooksAtEveryParent(t *testing.T) {
	stranger := &account{uid: 4_000_000, gid: 4_000_000}
	top := openTemp(t)
	deep := filepath.Join(top, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if !reachable(deep, stranger) {
		t.Errorf("%s is open all the way, and not reachable", deep)
	}
	if err := os.Chmod(filepath.Join(top, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if reachable(deep, stranger) {
		t.Errorf("%s is below a private folder, and reachable", deep)
	}
}

// openTemp is a temporary folder that every user can pass through; t.TempDir is private.
func openTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "localdb-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOneEnginePerFolder(t *testing.T) {
	dir := openTemp(t)
	first, err := openFolder(Options{Dir: dir}, nil, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	_, err = openFolder(Options{Dir: dir}, nil, t.Logf)
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Dir != dir {
		t.Errorf("second open: %v, want a BusyError for %s", err, dir)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	second, err := openFolder(Options{Dir: dir}, nil, t.Logf)
	if err != nil {
		t.Fatalf("open after close: %v", err)
	}
	if err := second.close(); err != nil {
		t.Fatal(err)
	}
}

func TestTemporaryFolderIsRemovedAndSwept(t *testing.T) {
	t.Setenv("TMPDIR", openTemp(t))
	live, err := openFolder(Options{}, nil, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	dead, err := openFolder(Options{}, nil, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.lock.Close(); err != nil { // as the kernel does when its process is killed
		t.Fatal(err)
	}
	sweep(temporaryRoot(false))
	if _, err := os.Stat(dead.dir); !os.IsNotExist(err) {
		t.Errorf("the folder of a dead engine is still there: %v", err)
	}
	if _, err := os.Stat(live.home); err != nil {
		t.Errorf("the folder of a live engine was swept: %v", err)
	}
	if err := live.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(live.dir); !os.IsNotExist(err) {
		t.Errorf("close left the temporary folder: %v", err)
	}
}

func TestPrivateFolderRefusesWhatOthersPut(t *testing.T) {
	top := openTemp(t)
	link := filepath.Join(top, "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if err := makePrivate(link, nil); err == nil {
		t.Error("a symlink was accepted as the data folder")
	}
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := makePrivate(file, nil); err == nil {
		t.Error("a file was accepted as the data folder")
	}
	if err := makePrivate(top, &account{uid: uint32(os.Geteuid()) + 1}); err == nil {
		t.Error("another user's folder was accepted as the data folder")
	}
	if err := makePrivate(filepath.Join(top, "new"), nil); err != nil {
		t.Error(err)
	}
}

func TestFallbackHomeIsStableAndDistinct(t *testing.T) {
	a, again, b := fallbackHome("/root/a"), fallbackHome("/root/a"), fallbackHome("/root/b")
	if a != again || a == b || !strings.HasPrefix(a, fallbackRoot+"/") {
		t.Errorf("homes %q, %q, %q", a, again, b)
	}
}

func TestRootsPrivateFolderFallsBack(t *testing.T) {
	who, err := serverAccount()
	if err != nil || who == nil {
		t.Skipf("needs root, and the system user postgres (%v)", err)
	}
	dir := t.TempDir() // private to root
	var said strings.Builder
	f, err := openFolder(Options{Dir: dir}, who, func(format string, _ ...any) { said.WriteString(format) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(f.home) })
	if f.home != fallbackHome(dir) || !strings.Contains(said.String(), "cannot reach") {
		t.Errorf("home %s, log %q", f.home, said.String())
	}
	if target, err := os.Readlink(filepath.Join(dir, homeName)); err != nil || target != f.home {
		t.Errorf("link to %q, %v; want %s", target, err, f.home)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	again, err := openFolder(Options{Dir: dir}, who, t.Logf)
	if err != nil || again.home != f.home {
		t.Fatalf("second open: %+v, %v; want the same home", again, err)
	}
	if err := again.close(); err != nil {
		t.Fatal(err)
	}
}
