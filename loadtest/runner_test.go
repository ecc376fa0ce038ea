package loadtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func options(urls ...string) Options {
	return Options{URLs: urls, Key: "k", StrangerKey: "s", Payments: 40, Concurrency: 4, Seed: 1, Now: time.Now,
		Buyer: func(string, bool, bool) (map[string]string, error) { return nil, nil }}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, spoil := range map[string]func(*Options){
		"no router":         func(o *Options) { o.URLs = nil },
		"no key":            func(o *Options) { o.Key = "" },
		"no other key":      func(o *Options) { o.StrangerKey = "" },
		"no clock":          func(o *Options) { o.Now = nil },
		"no buyers":         func(o *Options) { o.Buyer = nil },
		"no payments":       func(o *Options) { o.Payments = 0 },
		"too many payments": func(o *Options) { o.Payments = MaxPayments + 1 },
		"nobody pays":       func(o *Options) { o.Concurrency = 0 },
		"too many at once":  func(o *Options) { o.Concurrency = MaxConcurrency + 1 },
	} {
		o := options("http://127.0.0.1:1")
		if spoil(&o); o.Payments == 40 && o.Concurrency == 4 && len(o.URLs) == 1 && o.Key != "" && o.StrangerKey != "" && o.Now != nil && o.Buyer != nil {
			t.Fatalf("%s: nothing was spoilt", name)
		}
		if _, err := New(o); err == nil {
			t.Errorf("%s: was taken", name)
		}
	}
}

// serve answers every request of a run, and returns the run's result.
func serve(t *testing.T, ctx context.Context, change func(*Options), handler http.HandlerFunc) (*Runner, *Result, error) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	o := options(server.URL)
	change(&o)
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	result, err := r.Run(ctx)
	return r, result, err
}

// TestRunIsBounded: no more journeys at once than asked for, each with at most two calls; and every wrong answer is found.
func TestRunIsBounded(t *testing.T) {
	var now, most atomic.Int64
	r, result, err := serve(t, t.Context(), func(*Options) {}, func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"code":"INTERNAL"}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	if most.Load() > 2*4 {
		t.Errorf("%d calls at once, want at most 8", most.Load())
	}
	if result.Found < 40 || len(result.Findings) != result.Found {
		t.Errorf("%d findings on 40 payments that all failed", result.Found)
	}
	for _, tally := range result.Tallies() {
		if tally.OK != 0 {
			t.Errorf("%s: %d were as planned", tally.Journey, tally.OK)
		}
	}
	if p := r.Progress(); p != (Progress{Phase: "read", Done: 40, Total: 40}) {
		t.Errorf("ended at %+v", p)
	}
}

// TestBusyIsRepeated: what a router cannot take is sent again under its key, and is no finding by itself.
func TestBusyIsRepeated(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	_, result, err := serve(t, t.Context(), func(o *Options) { o.Payments = 1 }, func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		key := q.Header.Get("Idempotency-Key")
		if seen[key]++; seen[key] == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code":"SHARD_UNAVAILABLE"}`))
			return
		}
		_, _ = w.Write([]byte(`{}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen["demo-o1-k1"] < 2 || result.Retries == 0 || result.Answers[Answer{503, "SHARD_UNAVAILABLE"}] != 0 {
		t.Errorf("keys %v, %d retries, answers %v", seen, result.Retries, result.Answers)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, result, err := serve(t, ctx, func(*Options) {}, func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body) // only then does a server see its caller leave
		cancel()
		<-q.Context().Done()
	})
	if !errors.Is(err, context.Canceled) || result != nil {
		t.Errorf("%v, %v", result, err)
	}
}

// TestHangUpLeaves: the server gets the whole request, and sees its caller leave.
func TestHangUpLeaves(t *testing.T) {
	left := make(chan string, 50)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		<-q.Context().Done()
		left <- string(body)
	}))
	defer server.Close()
	c := newClient([]string{server.URL}, time.Now)
	// On a busy machine the caller can be gone before the server has read anything; then it hangs up on the next.
	for range 50 {
		_, err := c.send(t.Context(), 0, request{method: http.MethodPost, path: "/", key: "k", body: []byte("all"), hangUp: true})
		if err == nil {
			t.Fatal("the caller had an answer")
		}
		select {
		case got := <-left:
			if got == "all" {
				return
			}
		case <-time.After(200 * time.Millisecond):
		}
	}
	t.Error("the server never had a whole request")
}

func TestFindingsAreBounded(t *testing.T) {
	result := newResult(nil)
	for range maxFindings + 5 {
		result.find(&Order{}, "x")
	}
	if len(result.Findings) != maxFindings || result.Found != maxFindings+5 {
		t.Errorf("%d of %d", len(result.Findings), result.Found)
	}
}
