package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"paygrid/psprouter/simulator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The program prints its address, serves, and ends when it is told to.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"--listen", "127.0.0.1:0", "--latency", "1ms-2ms"}, stdout, io.Discard)
	}()
	line := make([]byte, 100)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "pspsim: "))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(url + "/sim/books")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestHelpNamesEveryTokenAndFault(t *testing.T) {
	var help bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, io.Discard, &help); !errors.Is(err, flag.ErrHelp) {
		t.Fatal(err)
	}
	for _, token := range simulator.Tokens() {
		if !strings.Contains(help.String(), token.Name) {
			t.Errorf("%s is missing", token.Name)
		}
	}
	for _, fault := range simulator.Faults() {
		if !strings.Contains(help.String(), "  "+fault.Name+" ") {
			t.Errorf("%s is missing", fault.Name)
		}
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--latency", "fast"}, {"--latency", "9ms-1ms"}, {"--latency", "-5ms"}, {"--max-payments", "0"}, {"--max-amount", "-1"},
		{"--listen", "nowhere:x"}, {"serve"}, {"--nope"},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
	low, high, err := parseLatency("20ms-80ms")
	if err != nil || low != 20*time.Millisecond || high != 80*time.Millisecond {
		t.Errorf("%v %v %v", low, high, err)
	}
}
