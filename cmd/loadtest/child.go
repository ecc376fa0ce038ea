package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// child is a process of ours. Nothing else is ever signalled.
type child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// Limits of children.
const (
	readyTimeout = 2 * time.Minute // a first start makes the database
	stopTimeout  = 60 * time.Second
)

// startProcess starts a child and returns the fields of its first line, such as "paygrid ready url=http://… map=…".
func startProcess(ctx context.Context, name string, log io.Writer, binary string, args ...string) (*child, map[string]string, error) {
	cmd := exec.Command(binary, args...) //nolint:gosec // the binary is named by who runs us
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the terminal is ours to pass on, in order
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &child{name: name, cmd: cmd, done: make(chan struct{})}
	first := make(chan string, 1)
	go func() {
		defer close(p.done)
		lines := bufio.NewScanner(out)
		if lines.Scan() {
			first <- lines.Text()
		}
		close(first)
		_, _ = io.Copy(io.Discard, out) // Wait closes the pipe: read it to its end first
		_ = cmd.Wait()
	}()
	select {
	case line, ok := <-first:
		if ok && strings.Contains(line, "ready") {
			return p, fieldsOf(line), nil
		}
		return nil, nil, errors.Join(fmt.Errorf("%s did not start; it said %q: see the log", name, line), p.stop())
	case <-time.After(readyTimeout):
		return nil, nil, errors.Join(fmt.Errorf("%s was not ready within %s", name, readyTimeout), p.stop())
	case <-ctx.Done():
		return nil, nil, errors.Join(ctx.Err(), p.stop())
	}
}

// fieldsOf reads name=value words.
func fieldsOf(line string) map[string]string {
	out := map[string]string{}
	for word := range strings.FieldsSeq(line) {
		if name, value, ok := strings.Cut(word, "="); ok {
			out[name] = value
		}
	}
	return out
}

// alive tells whether the child still runs.
func (p *child) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (p *child) signal(s syscall.Signal) error {
	if !p.alive() {
		return fmt.Errorf("%s has ended", p.name)
	}
	return p.cmd.Process.Signal(s)
}

// kill ends the child as a lost machine does, and waits for it.
func (p *child) kill() error {
	err := p.signal(syscall.SIGKILL)
	<-p.done
	return err
}

// stop lets the child end by itself.
func (p *child) stop() error {
	if !p.alive() {
		return nil
	}
	if err := errors.Join(p.signal(syscall.SIGCONT), p.signal(syscall.SIGTERM)); err != nil && p.alive() {
		return err
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("%s did not end within %s and was killed", p.name, stopTimeout), p.kill())
	}
}
