package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// post sends one request through a recorder and returns what was kept of it.
func post(t *testing.T, client *http.Client, url string, body io.Reader) (*Exchange, string, error) {
	t.Helper()
	seen := new(Exchange)
	req, err := http.NewRequestWithContext(With(t.Context(), seen), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return seen, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return seen, string(text), err
}

func TestExchangeKeepsTheAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Got", fmt.Sprint(len(body), r.ContentLength))
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "short and stout")
	}))
	defer server.Close()
	client := NewClient(nil)
	defer CloseIdle(client)
	for _, body := range []string{"a", strings.Repeat("b", maxRequestBytes)} {
		seen, text, err := post(t, client, server.URL, strings.NewReader(body))
		want := fmt.Sprint(len(body), len(body))
		if err != nil || text != "short and stout" || seen.Status() != http.StatusTeapot || seen.Header().Get("X-Got") != want || seen.Unsent(err) != "" {
			t.Errorf("%d bytes: %d %q %v, the peer got %q, want %q", len(body), seen.Status(), text, err, seen.Header().Get("X-Got"), want)
		}
	}
}

func TestRedirectsAreAnswers(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	client := NewClient(nil)
	defer CloseIdle(client)
	if seen, _, err := post(t, client, server.URL, strings.NewReader("x")); err != nil || seen.Status() != 307 || requests != 1 {
		t.Errorf("%d, %v, %d requests", seen.Status(), err, requests)
	}
}

// Only a search for a connection that found none proves that nothing left.
func TestUnsent(t *testing.T) {
	client := NewClient(nil)
	seen, _, err := post(t, client, "http://psp.invalid", strings.NewReader("x"))
	if seen.Unsent(err) == "" {
		t.Errorf("no connection, and no proof: %v", err)
	}
	seen, _, err = post(t, NewClient(silent{}), "http://psp.invalid", strings.NewReader("x"))
	if err == nil || seen.Unsent(err) != "" {
		t.Errorf("a transport that told nothing proves something: %v", err)
	}
	seen, _, err = post(t, client, "http://psp.invalid", broken{})
	if err == nil || seen.Unsent(err) == "" {
		t.Errorf("a request that could not be made left: %v", err)
	}
	seen, _, err = post(t, client, "http://psp.invalid", strings.NewReader(strings.Repeat("x", maxRequestBytes+1)))
	if err == nil || seen.Unsent(err) == "" {
		t.Errorf("a request above the limit left: %v", err)
	}
	if got := new(Exchange).Unsent(nil); got != "" {
		t.Errorf("a success was not sent: %s", got)
	}
}

type silent struct{}

func (silent) RoundTrip(*http.Request) (*http.Response, error) { return nil, errors.New("gone") }

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("no body") }

func TestRecorderNeedsAnExchange(t *testing.T) {
	if _, err := NewClient(silent{}).Get("http://psp.invalid"); err == nil || !strings.Contains(err.Error(), "Exchange") {
		t.Errorf("%v", err)
	}
}

// An exchange that serves several requests tells of the latest, not of the best.
func TestExchangeForgetsTheRequestBefore(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	client := NewClient(nil)
	seen := new(Exchange)
	get := func() error {
		req, err := http.NewRequestWithContext(With(t.Context(), seen), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := get(); err != nil || seen.Status() != http.StatusOK {
		t.Fatalf("%d, %v", seen.Status(), err)
	}
	server.Close()
	CloseIdle(client)
	if err := get(); err == nil || seen.Status() != 0 || seen.Header() != nil || seen.Unsent(err) == "" {
		t.Errorf("%d, %v", seen.Status(), err)
	}
}

// A cut answer must not pass for a whole one.
func TestAnswersAreBounded(t *testing.T) {
	for size, whole := range map[int]bool{maxAnswerBytes - 1: true, maxAnswerBytes + 1: false, 3 * maxAnswerBytes: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", size)) }))
		client := NewClient(nil)
		_, text, err := post(t, client, server.URL, strings.NewReader("x"))
		if (err == nil) != whole || whole && len(text) != size {
			t.Errorf("%d bytes: %d came, %v", size, len(text), err)
		}
		CloseIdle(client)
		server.Close()
	}
}

// A burst's connections are there for the next one.
func TestConnectionsOutliveABurst(t *testing.T) {
	const burst = 300
	var dialled atomic.Int64
	var arrived sync.WaitGroup
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Done()
		arrived.Wait() // all of a burst are under way at once
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			dialled.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	client := NewClient(nil)
	defer CloseIdle(client)
	for range 2 {
		arrived.Add(burst)
		var calls sync.WaitGroup
		for range burst {
			calls.Go(func() {
				if _, _, err := post(t, client, server.URL, strings.NewReader("x")); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
	}
	if n := dialled.Load(); n > burst+burst/10 { // a connection may come back a moment after its answer
		t.Errorf("%d connections for two bursts of %d", n, burst)
	}
}
