package simulator

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

const byAttempt = "/v1/payment_intents/search?query=metadata%5B%22attempt%22%5D:"

// Search finds a payment by what its metadata say now, and the newest first, whichever way it got its label.
func TestSearchByAttempt(t *testing.T) {
	r := newRig(t, nil)
	first, second := r.create("pm_ok", "manual", "att_1"), r.create("pm_ok", "manual", "att_2")
	found := func(attempt string) string {
		var refs []string
		for _, part := range strings.Split(string(r.want(r.fetch(byAttempt+attempt), 200).body), `{"id":"`)[1:] {
			ref, _, _ := strings.Cut(part, `"`)
			refs = append(refs, ref)
		}
		return strings.Join(refs, " ")
	}
	if got := found("att_1"); got != first {
		t.Errorf("att_1: %q, want %q", got, first)
	}
	r.want(r.post("/v1/payment_intents/"+first+"/capture", "k", "metadata[attempt]=att_2"), 200)
	if got := found("att_2"); got != second+" "+first {
		t.Errorf("att_2: %q, want %q", got, second+" "+first)
	}
	if got := found("att_1") + found("att_3"); got != "" {
		t.Errorf("labels that nobody has: %q", got)
	}
}

// populated has as many payments as a peak minute leaves.
func populated(b *testing.B, n int) (http.Handler, *Simulator) {
	b.Helper()
	now := time.Unix(1_800_000_000, 0)
	s, err := New(Options{Now: func() time.Time { return now }, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	handler := s.Handler()
	for i := range n {
		now = now.Add(2 * time.Millisecond)
		serve(b, handler, http.MethodPost, "/v1/payment_intents", form("pm_ok", "manual", fmt.Sprintf("att_%d", i)))
	}
	return handler, s
}

func serve(b *testing.B, handler http.Handler, method, path, body string) {
	req, err := http.NewRequest(method, path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer sk_test_1")
	w := newRecorder()
	handler.ServeHTTP(w, req)
	if w.status != http.StatusOK {
		b.Fatalf("%s: status %d", path, w.status)
	}
}

func BenchmarkAuthorize(b *testing.B) {
	handler, _ := populated(b, 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		serve(b, handler, http.MethodPost, "/v1/payment_intents", form("pm_ok", "manual", fmt.Sprintf("att_%d", i)))
	}
}

func BenchmarkSearch(b *testing.B) {
	handler, _ := populated(b, 30_000)
	for b.Loop() {
		serve(b, handler, http.MethodGet, byAttempt+"att_none", "")
	}
}

func BenchmarkListPage(b *testing.B) {
	handler, s := populated(b, 30_000)
	path := "/v1/payment_intents?" + url.Values{"limit": {"100"}, "created[gte]": {"1800000000"}, "starting_after": {s.order[15_000].ref}}.Encode()
	for b.Loop() {
		serve(b, handler, http.MethodGet, path, "")
	}
}
