package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"paygrid/loadtest"
)

// notPossible says why a fault cannot be made here.
type notPossible struct{ why string }

func (e *notPossible) Error() string { return "not possible here: " + e.why }

// saboteur makes the faults of a script.
type saboteur struct {
	c    *cluster
	rows []loadtest.FaultRow
	mu   sync.Mutex
}

// sabotage makes each fault at its time and returns when the last is over, or ctx ends; what was paused goes on in any case.
func (s *saboteur) sabotage(ctx context.Context, start time.Time, faults []loadtest.Fault, say io.Writer) {
	var group sync.WaitGroup
	s.rows = make([]loadtest.FaultRow, len(faults))
	for n, f := range faults {
		s.rows[n] = loadtest.FaultRow{Fault: f, Result: "the run ended before"}
		group.Go(func() {
			if !waitUntil(ctx, start.Add(f.At)) {
				return
			}
			fmt.Fprintln(say, f)
			err := s.do(ctx, f)
			row := loadtest.FaultRow{Fault: f, Result: "done", OK: err == nil}
			if err != nil {
				row.Result = err.Error()
				fmt.Fprintf(say, "%s: %v\n", f, err)
			}
			s.mu.Lock()
			s.rows[n] = row
			s.mu.Unlock()
		})
	}
	group.Wait()
}

func (s *saboteur) do(ctx context.Context, f loadtest.Fault) error {
	switch f.Kind {
	case loadtest.PSPOutage:
		return s.outage(ctx, f)
	case loadtest.KillRouter:
		return s.killRouter(f.Number)
	case loadtest.StartRouter:
		return s.startAgain(ctx, f.Number)
	case loadtest.WorkerPause:
		return s.pauseWorker(ctx, f.For)
	case loadtest.DatabaseRestart:
		return s.restartDatabase()
	case loadtest.KafkaDown:
		return s.kafkaDown(ctx, f.For)
	}
	return &notPossible{fmt.Sprintf("%q is unknown", f.Kind)}
}

// outage asks the PSP's simulator to be out of order.
func (s *saboteur) outage(ctx context.Context, f loadtest.Fault) error {
	sim := s.c.sims[f.Name]
	if sim == "" {
		return &notPossible{fmt.Sprintf("no simulator of %q is known: name it with --sim %s=URL", f.Name, f.Name)}
	}
	mode := f.Mode
	if mode == "" {
		mode = "503"
	}
	return ask(ctx, http.MethodPost, sim+"/sim/outage", map[string]any{"seconds": seconds(f.For), "mode": mode})
}

// kafkaDown asks paygrid dev that its broker answer nobody for a time.
func (s *saboteur) kafkaDown(ctx context.Context, d time.Duration) error {
	if s.c.control == "" {
		return &notPossible{"the load test did not start this cluster's broker"}
	}
	return ask(ctx, http.MethodPost, s.c.control+"/kafka/outage", map[string]int{"seconds": seconds(d)})
}

// seconds rounds up.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

// maxComplaint bounds what is read of a control's answer.
const maxComplaint = 1 << 10

// ask tells the control of a simulator or of paygrid dev what to do.
func ask(ctx context.Context, method, url string, what any) error {
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode/100 != 2 {
		complaint, err := io.ReadAll(io.LimitReader(response.Body, maxComplaint))
		return errors.Join(fmt.Errorf("%s answers HTTP %d: %s", url, response.StatusCode, bytes.TrimSpace(complaint)), err)
	}
	return nil
}

// router is the process of a router that can be ended.
func (s *saboteur) router(number int) (*child, error) {
	if p := s.c.routers[number]; p != nil {
		return p, nil
	}
	return nil, &notPossible{fmt.Sprintf("router %d was not started by the load test", number)}
}

func (s *saboteur) killRouter(number int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.router(number)
	if err != nil {
		return err
	}
	return p.kill()
}

func (s *saboteur) startAgain(ctx context.Context, number int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.router(number)
	if err != nil {
		return err
	}
	if p.alive() {
		return fmt.Errorf("router %d runs", number)
	}
	return s.c.startRouter(ctx, number, strings.TrimPrefix(s.c.urls[number-1], "http://"))
}

// pauseWorker stops the worker's process, so that its leases run out, and lets it go on with what it believes to hold.
func (s *saboteur) pauseWorker(ctx context.Context, d time.Duration) error {
	if s.c.work == nil {
		return &notPossible{"the load test started no worker process"}
	}
	if err := s.c.work.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	waitUntil(ctx, time.Now().Add(d))
	return s.c.work.signal(syscall.SIGCONT)
}

// restartDatabase ends one backend of our own PostgreSQL hard. PostgreSQL then ends all others, recovers what was
// committed from its log, and accepts connections again: a restart after a crash.
func (s *saboteur) restartDatabase() error {
	if s.c.dev == nil {
		return &notPossible{"the load test did not start this database"}
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(s.c.mapPath), "postgres", "data", "postmaster.pid"))
	if err != nil {
		return &notPossible{fmt.Sprintf("no PostgreSQL of ours: %v", err)}
	}
	first, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || !descends(postmaster, s.c.dev.cmd.Process.Pid) {
		return &notPossible{"the process that postmaster.pid names is no child of paygrid dev"}
	}
	backend, err := backendOf(postmaster)
	if err != nil {
		return err
	}
	return syscall.Kill(backend, syscall.SIGKILL)
}

// descends tells whether a process was started by another, directly or not.
func descends(pid, ancestor int) bool {
	for range 10 {
		if pid == ancestor {
			return true
		}
		parent, _, ok := statOf(pid)
		if !ok || parent <= 1 {
			return false
		}
		pid = parent
	}
	return false
}

// backendOf finds a process of a postmaster that serves a client.
func backendOf(postmaster int) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, &notPossible{err.Error()}
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if parent, line, ok := statOf(pid); ok && parent == postmaster && strings.HasPrefix(line, "postgres: ") && strings.Contains(line, " paygrid_app ") {
			return pid, nil
		}
	}
	return 0, errors.New("PostgreSQL serves nobody")
}

// statOf is a process's parent and command line.
func statOf(pid int) (parent int, line string, ok bool) {
	folder := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return 0, "", false
	}
	command, err := os.ReadFile(folder + "/cmdline")
	if err != nil {
		return 0, "", false
	}
	// The name, in parentheses, may hold anything; the state and the parent follow the last of them.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0, "", false
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, string(bytes.ReplaceAll(command, []byte{0}, []byte{' '})), err == nil
}

// waitUntil returns false if ctx ended first.
func waitUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
