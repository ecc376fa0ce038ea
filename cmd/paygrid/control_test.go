package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ask calls a control and wants a status.
func ask(t *testing.T, method, url, body string, want int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != want {
		t.Errorf("%s %s %s: HTTP %d, want %d", method, url, body, response.StatusCode, want)
	}
}

// TestClusterWithoutRouters: routers that join a database, simulators and a broker take payments and notices, and the broker
// comes back from an outage with all that was published, and takes what was not.
func TestClusterWithoutRouters(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Shards: 2, Routers: -1, Events: true, Webhooks: true, WorkEvery: 50 * time.Millisecond})
	if len(g.URLs) != 0 {
		t.Fatalf("routers at %v, want none", g.URLs)
	}
	first := g.addRouter(t, func(*routerConfig) {})
	second := g.addRouter(t, func(c *routerConfig) { c.WorkEveryMS = 0 }) // the same process, so the same owner of leases
	for psp, url := range map[string]string{"stripe": g.SimURL, "adyen": g.AdyenURL} {
		hook := "/v1/webhooks/" + psp
		ask(t, http.MethodPut, url+"/sim/webhooks", `{"targets":["`+first.base+hook+`","`+second.base+hook+`"]}`, http.StatusOK)
	}
	ask(t, http.MethodGet, g.ControlURL+"/metrics", "", http.StatusOK)
	charge10(t, first, "one")
	charge10(t, second, "two")
	eventually(t, "all notices are received", func() bool {
		b := g.Sim.Books().Webhooks
		return b.Events > 0 && b.Delivered == b.Events
	})
	g.published(t)

	client, err := kgo.NewClient(kgo.SeedBrokers(g.Events.Brokers...), kgo.RequestRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	outage := g.ControlURL + "/kafka/outage"
	ask(t, http.MethodPost, outage, `{"seconds":3600}`, http.StatusNoContent)
	for range 3 { // not the first request alone
		if err := client.Ping(t.Context()); err == nil {
			t.Error("the broker answers in its outage")
		}
	}
	charge10(t, first, "three")
	if n := g.unpublished(t); n <= 0 {
		t.Errorf("%d events wait in the broker's outage, want those of a payment", n)
	}
	ask(t, http.MethodPost, outage, `{"seconds":0}`, http.StatusNoContent)
	if err := client.Ping(t.Context()); err != nil {
		t.Errorf("after the outage: %v", err)
	}
	g.published(t)
	for _, args := range [][]string{{"events", "check", "--config", g.ConfigPath, "--map", g.MapPath}, {"verify", "--map", g.MapPath, "--books", g.SimURL + "/sim/books"}} {
		if code, out, errs := paygrid(t, args...); code != exitOK || !strings.Contains(out, "PASS") {
			t.Errorf("%v: exit code %d, %s\n%s", args, code, errs, out)
		}
	}
}

func TestOutageThatCannotBe(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`: "seconds: want 0 to 86400", `{"seconds":-1}`: "seconds: want", `{"seconds":86401}`: "seconds: want", `{"minutes":1}`: "minutes", `{"seconds":"1"}`: "seconds",
		``: `want {"seconds":20}`, `{"seconds":1}`: "not in this process",
	} {
		answer := httptest.NewRecorder()
		new(grid).control().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/kafka/outage", strings.NewReader(body)))
		if answer.Code < 400 || answer.Code > 409 || !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: HTTP %d %s, want %q", body, answer.Code, answer.Body, want)
		}
	}
}
