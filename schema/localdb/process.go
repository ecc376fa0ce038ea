package localdb

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	fastWait      = 20 * time.Second // for SIGINT: ends sessions, writes a checkpoint
	immediateWait = 5 * time.Second  // for SIGQUIT: ends at once, recovers at the next start
	pollInterval  = 20 * time.Millisecond
)

// process is a running server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the server has ended
	err  error         // how it ended; read after done
}

// run starts a server that dies with this process.
func run(cmd *exec.Cmd, lastSignal syscall.Signal) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	dieWithParent(cmd.SysProcAttr, lastSignal)
	started := make(chan error)
	go func() {
		// The signal comes when this thread ends, so it must outlive the server.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("localdb: start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// stop ends the server: by the given signal, and by harder ones if it does not obey.
func (p *process) stop(first syscall.Signal) error {
	steps := []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{first, fastWait}, {syscall.SIGQUIT, immediateWait}, {syscall.SIGKILL, immediateWait}}
	for _, step := range steps {
		_ = p.cmd.Process.Signal(step.signal) // fails only if it has ended already
		if p.ended(step.wait) {
			return nil
		}
	}
	return fmt.Errorf("localdb: server %d did not end: end it by hand", p.cmd.Process.Pid)
}

func (p *process) ended(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

// command prepares a program of PostgreSQL's to run as who, in a process group of its own: Ctrl-C is for the parent,
// which still has payments to finish when it gets one.
func command(ctx context.Context, who *account, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	// A program that we only wait for, initdb, clears up after itself when asked to end.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Dir = dir
	// Nothing of ours: PGDATA, PGPORT or a locale would change what it does.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if who != nil {
		// Groups is empty: the server drops root's supplementary groups too.
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: who.uid, Gid: who.gid}
	}
	return cmd
}

// clearStale readies a data folder for a start. The caller holds the lock, so whatever runs there has lost its parent:
// it is ended. A postmaster.pid that names no server of this folder is removed, since PostgreSQL would refuse to
// start if by now any other process of its user had that number.
func clearStale(dataDir string, logf func(string, ...any)) error {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		pid := orphan(dataDir)
		if pid == 0 {
			break
		}
		logf("server %d was left by an earlier run: sending it %v", pid, signal)
		_ = syscall.Kill(pid, signal)
		waitGone(dataDir, fastWait)
	}
	if pid := orphan(dataDir); pid != 0 {
		return fmt.Errorf("localdb: server %d of %s, left by an earlier run, does not end: end it by hand", pid, dataDir)
	}
	err := os.Remove(pidFile(dataDir))
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("localdb: stale process ID: %w", err)
	}
	return nil
}

func waitGone(dataDir string, limit time.Duration) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for range limit / pollInterval {
		if orphan(dataDir) == 0 {
			return
		}
		<-ticker.C
	}
}

// orphan is the process ID of a server that runs on dataDir, 0 if none does.
func orphan(dataDir string) int {
	text, err := os.ReadFile(pidFile(dataDir))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 || !strings.Contains(commandLine(pid), dataDir) {
		return 0
	}
	return pid
}

func pidFile(dataDir string) string { return filepath.Join(dataDir, "postmaster.pid") }
