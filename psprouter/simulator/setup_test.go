package simulator

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// rig is a simulator behind HTTP, with a clock that the test moves.
type rig struct {
	*Simulator
	t      *testing.T
	url    string
	client *http.Client
	mu     sync.Mutex
	now    time.Time
}

func newSim(t *testing.T, opts Options) *Simulator {
	t.Helper()
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newRig(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, client: &http.Client{Transport: &http.Transport{}}, now: time.Unix(1_800_000_000, 0)}
	opts := Options{Now: r.clock, Seed: 1, Wait: func(time.Duration, <-chan struct{}) {}}
	if change != nil {
		change(&opts)
	}
	r.Simulator = newSim(t, opts)
	server := httptest.NewServer(r.Handler())
	r.url = server.URL
	t.Cleanup(func() { r.Stop(); r.client.CloseIdleConnections(); server.Close() })
	return r
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// reply is an answer as a client sees it; status 0 = no answer.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// at reads a member by path, "" if it is not there: "error.payment_intent.status".
func (r reply) at(path string) string {
	var v any
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.UseNumber()
	_ = decoder.Decode(&v)
	for _, name := range strings.Split(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// post sends a form: "amount=1000&currency=eur".
func (r *rig) post(path, key, form string) reply {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.url+path, strings.NewReader(form))
	if err != nil {
		r.t.Fatal(err)
	}
	req.GetBody = nil // no silent second send
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return r.do(req)
}

func (r *rig) fetch(path string) reply {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodGet, r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.do(req)
}

func (r *rig) do(req *http.Request) reply {
	req.Header.Set("Authorization", "Bearer sk_test_1")
	resp, err := r.client.Do(req)
	if err != nil {
		return reply{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{}
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: body}
}

// form is a confirmed payment of 1000 EUR.
func form(token, method, attempt string) string {
	return "amount=1000&currency=eur&confirm=true&payment_method=" + token + "&capture_method=" + method + "&metadata[attempt]=" + url.QueryEscape(attempt)
}

// create makes a payment and returns its reference.
func (r *rig) create(token, method, attempt string) string {
	r.t.Helper()
	got := r.post("/v1/payment_intents", attempt, form(token, method, attempt))
	if got.status != http.StatusOK {
		r.t.Fatalf("create %s: %d %s", token, got.status, got.body)
	}
	return got.at("id")
}

func (r *rig) want(got reply, status int, pairs ...string) reply {
	r.t.Helper()
	if got.status != status {
		r.t.Fatalf("status %d, want %d: %s", got.status, status, got.body)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if v := got.at(pairs[i]); v != pairs[i+1] {
			r.t.Errorf("%s = %q, want %q: %s", pairs[i], v, pairs[i+1], got.body)
		}
	}
	return got
}
