package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"paygrid/loadtest"
)

// TestControlsAreAsked: a control is told for how long, in whole seconds, and its refusal is shown.
func TestControlsAreAsked(t *testing.T) {
	var asked []string
	status := http.StatusNoContent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "the broker is elsewhere\n")
	}))
	defer server.Close()
	c := &cluster{urls: []string{"http://r1", "http://r2"}, control: server.URL, sims: map[string]string{"adyen": server.URL}}
	s := saboteur{c: c}
	err := errors.Join(c.tellPSPs(t.Context()), s.do(t.Context(), loadtest.Fault{Kind: loadtest.KafkaDown, For: 1200 * time.Millisecond}),
		s.do(t.Context(), loadtest.Fault{Kind: loadtest.PSPOutage, Name: "adyen", For: 3 * time.Second}))
	want := []string{`PUT /sim/webhooks {"targets":["http://r1/v1/webhooks/adyen","http://r2/v1/webhooks/adyen"]}`, `POST /kafka/outage {"seconds":2}`,
		`POST /sim/outage {"mode":"503","seconds":3}`}
	if err != nil || !slices.Equal(asked, want) {
		t.Errorf("%v, asked %q, want %q", err, asked, want)
	}
	status = http.StatusConflict
	for _, err := range []error{c.tellPSPs(t.Context()), s.do(t.Context(), loadtest.Fault{Kind: loadtest.KafkaDown, For: time.Second})} {
		if err == nil || !strings.Contains(err.Error(), "HTTP 409: the broker is elsewhere") {
			t.Errorf("a refusal: %v", err)
		}
	}
}
