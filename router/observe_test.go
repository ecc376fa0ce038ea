package router

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"paygrid/payment"
)

func panicWith(v any) func(context.Context) { return func(context.Context) { panic(v) } }

func TestRequestIDs(t *testing.T) {
	for sent, taken := range map[string]bool{
		"r-1": true, "A.b_c-9": true, strings.Repeat("a", 64): true, "550e8400-e29b-41d4-a716-446655440000": true,
		"": false, strings.Repeat("a", 65): false, "a b": false, "a\nb": false, "é": false, `a"b`: false, visa16: false,
	} {
		a := newAPI(t)
		res := a.get("/v1/payments/"+payID, func(r *http.Request) { r.Header["X-Request-Id"] = []string{sent} })
		got := res.Header.Get("X-Request-Id")
		if (got == sent) != taken || !isRequestID(got) {
			t.Errorf("%q: answered with %q", sent, got)
		}
		if !strings.Contains(a.log.String(), `"request_id":"`+got+`"`) {
			t.Errorf("%q is not in the log: %s", got, a.log)
		}
	}
	a := newAPI(t)
	two := a.get("/livez", func(r *http.Request) { r.Header["X-Request-Id"] = []string{"a", "b"} })
	if got := two.Header.Get("X-Request-Id"); !strings.HasPrefix(got, "req_") || got == a.get("/livez").Header.Get("X-Request-Id") {
		t.Errorf("two lines: %q", got)
	}
}

// records decodes the log.
func (a *api) records() []map[string]any {
	a.t.Helper()
	var out []map[string]any
	for dec := json.NewDecoder(bytes.NewReader(a.log.Bytes())); dec.More(); {
		var rec map[string]any
		if err := dec.Decode(&rec); err != nil {
			a.t.Fatal(err)
		}
		out = append(out, rec)
	}
	return out
}

// metric scrapes the value of a metric without labels.
func (a *api) metric(name string) string {
	a.t.Helper()
	_, rest, found := strings.Cut(a.get("/metrics").body, "\n"+name+" ")
	if !found {
		a.t.Errorf("no metric %s", name)
	}
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

func TestOneRecordPerRequest(t *testing.T) {
	a := newAPI(t)
	a.script.answer.PSPTime = 300 * time.Millisecond
	a.script.during = func(context.Context) { a.clock.advance(320 * time.Millisecond) }
	a.post("/v1/payments", goodBody, header("X-Request-Id", "r-7"), header("Idempotency-Key", "a-secret-key"))
	recs := a.records()
	if len(recs) != 1 {
		t.Fatalf("%d records: %s", len(recs), a.log)
	}
	for name, want := range map[string]any{"msg": "request", "level": "INFO", "request_id": "r-7", "client": "shop_a", "method": "POST",
		"route": "/v1/payments", "payment_id": payID, "status": 201.0, "duration": 320e6, "psp_time": 300e6} {
		if recs[0][name] != want {
			t.Errorf("%s: %v, want %v", name, recs[0][name], want)
		}
	}
	for _, secret := range []string{"a-secret-key", "pm_ok", "tk_shop_a", "o-1", "s-ann", "10000"} {
		if strings.Contains(a.log.String(), secret) {
			t.Errorf("%s is in the log: %s", secret, a.log)
		}
	}
}

func TestRecordOfARefusal(t *testing.T) {
	a := newAPI(t)
	a.script.err = &payment.Error{Code: payment.CodeUnavailable, Detail: "d", Err: context.DeadlineExceeded}
	a.post("/v1/payments/"+payID+"/capture", `{}`)
	rec := a.records()[0]
	if rec["code"] != "SHARD_UNAVAILABLE" || rec["cause"] != "context deadline exceeded" || rec["payment_id"] != payID ||
		rec["route"] != "/v1/payments/:id/capture" || rec["level"] != "WARN" {
		t.Errorf("%v", rec)
	}
	a.log.Reset()
	a.script.err = &payment.Error{Code: payment.CodeOverloaded}
	a.post("/v1/payments", goodBody)
	if rec := a.records()[0]; rec["code"] != "SHARD_OVERLOADED" || rec["level"] != "DEBUG" {
		t.Errorf("what is turned away under stress is counted, not logged: %v", rec)
	}
	a.log.Reset()
	a.get("/no/such/path")
	if rec := a.records()[0]; rec["route"] != "unmatched" || strings.Contains(a.log.String(), "/no/such") {
		t.Errorf("%s", a.log)
	}
}

func TestMetrics(t *testing.T) {
	a := newAPI(t)
	a.script.answer.PSPTime = 300 * time.Millisecond
	a.script.during = func(context.Context) {
		if got := a.metric("paygrid_http_requests_in_flight"); got != "2" {
			t.Errorf("in flight: %v, want the command and the scrape", got)
		}
		a.clock.advance(312 * time.Millisecond)
	}
	a.post("/v1/payments", goodBody)
	a.get("/v1/payments/" + payID)
	a.post("/v1/payments", `{`)
	a.do("BREW", "/pot-"+payID, "")
	got := a.get("/metrics").body
	for _, want := range []string{
		`paygrid_http_requests_total{method="POST",route="/v1/payments",status="201"} 1`,
		`paygrid_http_requests_total{method="POST",route="/v1/payments",status="400"} 1`,
		`paygrid_http_requests_total{method="GET",route="/v1/payments/:id",status="200"} 1`,
		`paygrid_http_requests_total{method="OTHER",route="unmatched",status="404"} 1`,
		// 312 ms less the PSP's 300; refusals and reads do not dilute it
		`paygrid_own_share_seconds_bucket{route="/v1/payments",le="0.01"} 0`,
		`paygrid_own_share_seconds_bucket{route="/v1/payments",le="0.015"} 1`,
		`paygrid_own_share_seconds_count{route="/v1/payments"} 1`,
		`paygrid_http_request_seconds_bucket{route="/v1/payments",le="0.25"} 1`,
		`paygrid_http_request_seconds_count{route="/v1/payments"} 2`,
		`paygrid_http_requests_in_flight 1`, // the scrape itself
		`paygrid_http_panics_total 0`,
		`version="test"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, payID) || strings.Contains(got, `paygrid_own_share_seconds_count{route="/v1/payments/:id"}`) {
		t.Errorf("metrics hold an ID, or the own share of a read:\n%s", got)
	}
	problems, err := promlint.New(strings.NewReader(got)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// A PSP time above the whole request's (two clocks) counts as no share of ours, not as a negative one.
func TestOwnShareIsNeverNegative(t *testing.T) {
	x := exchange{pspTime: 2 * time.Second}
	if got := x.ownShare(time.Second); got != 0 {
		t.Error(got)
	}
}

// A command that panicked beside its request is answered, counted and logged as if the request had.
func TestPanicsOfCommands(t *testing.T) {
	a := newAPI(t)
	a.script.err = fmt.Errorf("somewhere: %w", &payment.PanicError{Value: "a fault of ours"})
	p := a.post("/v1/payments", goodBody).problem(t)
	if p.Status != 500 || p.Code != CodeInternal || !strings.Contains(p.Remedy, "same Idempotency-Key") {
		t.Errorf("%+v", p)
	}
	if rec := a.records()[0]; rec["level"] != "ERROR" || rec["cause"] != "panic: a fault of ours" || rec["request_id"] != p.RequestID {
		t.Errorf("%v", rec)
	}
	if got := a.metric("paygrid_http_panics_total"); got != "1" {
		t.Errorf("panics counted: %v", got)
	}
}

func TestPanics(t *testing.T) {
	a := newAPI(t)
	a.script.during = panicWith("a fault of ours")
	res := a.post("/v1/payments", goodBody)
	p := res.problem(t)
	if p.Status != 500 || p.Code != CodeInternal || strings.Contains(res.body, "fault of ours:") {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
	rec := a.records()[0]
	if rec["level"] != "ERROR" || rec["cause"] != "panic: a fault of ours" || !strings.Contains(rec["stack"].(string), "panicWith") || rec["request_id"] != p.RequestID {
		t.Errorf("%v", rec)
	}
	if got := a.metric("paygrid_http_panics_total"); got != "1" {
		t.Errorf("panics counted: %v", got)
	}
	if got := a.metric("paygrid_http_requests_in_flight"); got != "1" { // the scrape itself
		t.Errorf("in flight afterwards: %v", got)
	}
}
