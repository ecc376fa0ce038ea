package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"paygrid/loadtest"
)

// TestTrafficCommandsRefuse what it cannot play before it starts anything.
func TestTrafficCommandsRefuse(t *testing.T) {
	for name, args := range map[string][]string{
		"no command": {}, "unknown command": {"dance"}, "argument": {"run", "now"}, "profile": {"run", "--profile", "sunny:1:1s"},
		"part": {"run", "--part", "5/4"}, "part zero": {"run", "--part", "0/4"}, "part word": {"run", "--part", "one"},
		"faults": {"run", "--faults", "at noon: rain"}, "faults file": {"run", "--faults", "@/nowhere"}, "shards": {"run", "--shards", "0"},
		"limit without ramp": {"run", "--limit-own-p99", "100ms"}, "limit of a trace": {"run", "--trace", "x", "--profile", "ramp:9:9s", "--limit-own-p99", "1s"},
		"overload": {"run", "--overload", "much"}, "no overload": {"run", "--overload", "-1"}, "overload of a trace": {"run", "--trace", "x", "--overload", "9"}, "limit of an overload": {"run", "--overload", "find", "--limit-own-p99", "1s"},
		"url": {"run", "--url", "nowhere", "--key", "a=b"}, "no key": {"run", "--url", "http://127.0.0.1:1"}, "key": {"run", "--key", "a"},
		"start": {"run", "--start", "noon"}, "trace flag": {"trace", "--refunds", "many"}, "sellers": {"trace", "--sellers", "0"},
		"target": {"record", "--target", "nowhere"}, "merge": {"merge"}, "merge of nothing": {"merge", "/nowhere"}, "report": {"report"}, "no report": {"report", "/nowhere"}, "compare": {"compare", "one"},
		"trace that is not there": {"run", "--trace", "/nowhere", "--url", "http://127.0.0.1:1", "--key", "a=b"},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestOverloadIsPlanned: a known capacity lays the profile at once, an unknown one lays the climb to it first.
func TestOverloadIsPlanned(t *testing.T) {
	known, err := runFlags([]string{"--overload", "50"}, io.Discard)
	if s := known.traffic.segments; err != nil || len(s) != 3 || s[0].Rate != 50 || s[1].Rate != 100 || s[1].Duration != time.Minute || s[2].Rate != 25 ||
		known.bounds.MinKept != 90 || known.bounds.MaxRecovery != 5*time.Second || known.shedTries != 2 {
		t.Errorf("%v: %+v", err, known)
	}
	unknown, err := runFlags([]string{"--overload", "find", "--min-kept", "80", "--shed-tries", "3"}, io.Discard)
	if s := unknown.traffic.segments; err != nil || len(s) != 1 || s[0].Profile != loadtest.Ramp || unknown.bounds.MinKept != 80 ||
		unknown.shedTries != 3 {
		t.Errorf("%v: %+v", err, unknown)
	}
	if plain, err := runFlags(nil, io.Discard); err != nil || plain.bounds.MinKept != 0 || plain.bounds.MaxRecovery != 0 || plain.shedTries != 0 {
		t.Errorf("%v: without an overload nothing is asked of one: %+v", err, plain.bounds)
	}
}

func TestTraceIsRepeatable(t *testing.T) {
	write := func(seed string) string {
		var out bytes.Buffer
		if err := run(t.Context(), []string{"trace", "--profile", "black-friday:50:10s", "--seed", seed}, &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if one := write("4"); one != write("4") || one == write("5") || strings.Count(one, "\n") < 100 {
		t.Error("the same seed writes another trace, or another seed the same")
	}
}

// TestReportsAreKept: a report that run wrote is read, shown and compared.
func TestReportsAreKept(t *testing.T) {
	dir := t.TempDir()
	r := &loadtest.Report{Title: "kept", Paid: 5, Books: &loadtest.BooksRow{}, Series: []loadtest.Series{{Plot: "Throughput", Name: "paid", Points: []loadtest.Point{{Seconds: 1, Value: 2}}}}}
	r.Conclude(loadtest.Bounds{})
	kept, page := filepath.Join(dir, "a.json"), filepath.Join(dir, "a.html")
	if err := writeFile(kept, func(w io.Writer) error { return writeJSON(w, r) }); err != nil {
		t.Fatal(err)
	}
	var text, both bytes.Buffer
	if err := run(t.Context(), []string{"report", "--html", page, kept}, &text, io.Discard); err != nil || !strings.Contains(text.String(), "VERDICT PASS") {
		t.Errorf("%v: %s", err, text.String())
	}
	if data, err := os.ReadFile(page); err != nil || !bytes.Contains(data, []byte("kept")) {
		t.Errorf("page: %v", err)
	}
	if err := run(t.Context(), []string{"compare", kept, kept}, &both, io.Discard); err != nil || !strings.Contains(both.String(), "final balances: the same") {
		t.Errorf("%v: %s", err, both.String())
	}
}

// TestOnlyOursIsTouched: faults of a cluster that is there already say that they cannot be made.
func TestOnlyOursIsTouched(t *testing.T) {
	s := saboteur{c: &cluster{urls: []string{"http://127.0.0.1:1"}}}
	for _, text := range []string{"psp stripe outage 1s", "kill router 1", "start router 2", "kafka down 1s", "database restart", "worker pause 1s"} {
		faults, err := loadtest.ParseFaults("at 0s: " + text)
		if err != nil {
			t.Fatal(err)
		}
		var refused *notPossible
		if err := s.do(t.Context(), faults[0]); !errors.As(err, &refused) {
			t.Errorf("%s: %v, want that it is not possible", text, err)
		}
	}
	if descends(1, os.Getpid()) || !descends(os.Getpid(), os.Getppid()) {
		t.Error("descent is read wrongly")
	}
}

// TestChildren: the first line is read, a silent child is an error, and an ended one is told from a running one.
func TestChildren(t *testing.T) {
	p, said, err := startProcess(t.Context(), "child", io.Discard, "/bin/sh", "-c", "echo paygrid ready url=http://x,http://y map=/m; exec cat /dev/zero >/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	if said["url"] != "http://x,http://y" || said["map"] != "/m" || !p.alive() {
		t.Errorf("said %v, alive %t", said, p.alive())
	}
	if err := errors.Join(p.signal(syscall.SIGSTOP), p.stop()); err != nil || p.alive() { // a paused child is woken to end
		t.Errorf("stop: %v", err)
	}
	if err := p.signal(syscall.SIGCONT); err == nil {
		t.Error("an ended child took a signal")
	}
	if _, _, err := startProcess(t.Context(), "silent", io.Discard, "/bin/true"); err == nil || !strings.Contains(err.Error(), "silent did not start") {
		t.Errorf("a silent child: %v", err)
	}
	if _, _, err := startProcess(t.Context(), "missing", io.Discard, "/nowhere"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing program: %v", err)
	}
	dead, _, err := startProcess(t.Context(), "dead", io.Discard, "/bin/sh", "-c", "echo ready; exec cat /dev/zero >/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.kill(); err != nil || dead.alive() {
		t.Errorf("kill: %v", err)
	}
}

// TestSaboteurEndsWithTheRun: what is not due yet is not made, and says so.
func TestSaboteurEndsWithTheRun(t *testing.T) {
	faults, err := loadtest.ParseFaults("at 1h: kill router 2")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := saboteur{c: &cluster{}}
	s.sabotage(ctx, time.Now(), faults, io.Discard)
	if len(s.rows) != 1 || s.rows[0].OK || s.rows[0].Result != "the run ended before" {
		t.Errorf("%+v", s.rows)
	}
}
