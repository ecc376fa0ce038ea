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
		{"--listen", "nowhere:x"}, {"serve"}, {"--nope"}, {"--latency", "1s-2s-3s-4s"}, {"--fault-rate", "2"}, {"--fault-rate", "0.0001"}, {"--fault-rate", "x"},
		{"--dialect", "paypal"}, {"--faults", "meteor"}, {"--webhook", "http://127.0.0.1:1/"}, {"--webhook", "nowhere", "--webhook-secret", "00"},
		{"--dialect", "adyen", "--webhook-secret", "whsec_x"},
	} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
	for text, want := range map[string][3]time.Duration{
		"30ms": {30 * time.Millisecond, 30 * time.Millisecond}, "20ms-80ms": {20 * time.Millisecond, 80 * time.Millisecond},
		"0-1ms-2s": {0, time.Millisecond, 2 * time.Second},
	} {
		low, high, tail, err := parseLatency(text)
		if got := [3]time.Duration{low, high, tail}; err != nil || got != want {
			t.Errorf("%s: %v %v", text, got, err)
		}
	}
	for text, want := range map[string]int{"0": 0, "0.15": 150, "1": 1000, "0.001": 1} {
		if got, err := parseRate(text); err != nil || got != want {
			t.Errorf("%s: %d %v", text, got, err)
		}
	}
}
