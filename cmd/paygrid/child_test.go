package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"paygrid/payment"
)

// childSpec says what a child process does; it travels as JSON in childEnv.
type childSpec struct {
	Config string        // the routers' configuration file
	Die    payment.Point // kill -9 itself when a command first comes here; "" = never
	Ahead  time.Duration // its clock before the machine's: a cluster's clock that was moved on
}

// childRouter is main of a child: one router on a free port, until SIGTERM or the point at which it dies.
func childRouter(text string) int {
	var spec childSpec
	err := json.Unmarshal([]byte(text), &spec)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitMisused
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := readConfig(spec.Config)
	if err == nil {
		err = serve(ctx, config, "127.0.0.1:0", os.Stdout, nodeOptions{Instance: 7, Log: newLog(os.Stderr, slog.LevelWarn),
			Now: func() time.Time { return time.Now().Add(spec.Ahead) }, Pause: dieAt(spec.Die)})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFound
	}
	return exitOK
}

// dieAt returns a Pause that ends the process as kill -9 does: nothing deferred runs, nothing is flushed.
func dieAt(die payment.Point) func(payment.Point) {
	return func(at payment.Point) {
		if at == die {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	}
}

// child is a router in a process of its own.
type child struct {
	URL  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// startChild starts a router process and waits until it can take payments. It ends with the test.
func startChild(t *testing.T, spec childSpec) *child {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = io.Discard
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, done: make(chan struct{})}
	lines := bufio.NewScanner(out)
	if lines.Scan() {
		_, c.URL, _ = strings.Cut(lines.Text(), "url=")
	}
	go func() {
		defer close(c.done)
		for lines.Scan() { // Wait closes the pipe: read it to its end first
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-c.done
	})
	if c.URL == "" {
		t.Fatal("the child did not say that it is ready")
	}
	return c
}

// signal sends a signal to the child.
func (c *child) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		t.Fatalf("signal %v: %v", s, err)
	}
}

// wait returns how the child ended.
func (c *child) wait(t *testing.T) *os.ProcessState {
	t.Helper()
	select {
	case <-c.done:
		return c.cmd.ProcessState
	case <-time.After(20 * time.Second):
		t.Fatal("the child did not end within 20 s")
		return nil
	}
}
