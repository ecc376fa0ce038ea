package router

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"paygrid/payment"
	"paygrid/psprouter"
)

// A webhook's bytes and headers reach the domain as they came, without a key, and the PSP hears what it wants to hear.
func TestWebhookPassesBytes(t *testing.T) {
	for _, c := range []struct{ psp, kind, answer, body string }{
		{"stripe", "application/json", `{"received":true}`, " { \"id\": \"evt_1\",\r\n \"note\":\"caf\u00e9 \\u001B[0m \\/ 1.0\"}\n"},
		{"adyen", "text/plain; charset=utf-8", "[accepted]", `{"notificationItems":[]}`},
	} {
		a := newAPI(t)
		a.script.webhookKind, a.script.webhookAnswer = c.kind, c.answer
		res := a.post("/v1/webhooks/"+c.psp, c.body, header("Authorization", ""), header("Idempotency-Key", ""), header("Stripe-Signature", "t=1,v1=ab"))
		if res.StatusCode != 200 || res.body != c.answer || res.Header.Get("Content-Type") != c.kind {
			t.Errorf("%s: %d %s %s", c.psp, res.StatusCode, res.Header.Get("Content-Type"), res.body)
		}
		got := a.script.asked[0].(hook)
		if got.psp != c.psp || got.body != c.body || got.header.Get("Stripe-Signature") != "t=1,v1=ab" {
			t.Errorf("%s: the domain got %+v", c.psp, got)
		}
		if rec := a.records()[0]; rec["client"] != "psp:"+c.psp || rec["route"] != "/v1/webhooks/:psp" || strings.Contains(a.log.String(), "evt_1") {
			t.Errorf("%s: logged %s", c.psp, a.log)
		}
	}
}

// Whoever sends a forgery learns nothing from its refusal: not which check failed, and no signature.
func TestC032RefusalsAreAllTheSame(t *testing.T) {
	const right = "8494cb15b8300ebd33243261db77955c79ded288128e344e9aa3172a9a20f12d"
	var first problem
	for n, fault := range []*psprouter.WebhookError{
		{Why: psprouter.WebhookUnsigned},
		{Why: psprouter.WebhookUnsigned, Err: errors.New("want " + right)},
		{Why: psprouter.WebhookStale, Err: errors.New("signed 301 s before now")},
	} {
		a := newAPI(t)
		a.script.err = errors.Join(errors.New("outer"), fault)
		res := a.post("/v1/webhooks/stripe", `{}`, header("X-Request-Id", "r-1"), header("Authorization", ""))
		p := res.problem(t)
		if n == 0 {
			first = p
		}
		if p != first || p.Status != 401 || p.Code != CodeWebhookRefused || res.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%v: %d %s", fault, res.StatusCode, res.body)
		}
		if strings.Contains(res.body, right[:8]) || strings.Contains(res.body, "301") {
			t.Errorf("the answer tells the cause: %s", res.body)
		}
		if rec := a.records()[0]; rec["cause"] == nil || rec["client"] != "psp:stripe" {
			t.Errorf("the log does not tell the cause: %v", rec)
		}
	}
}

func TestWebhookRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		code   payment.Code
	}{
		"malformed":   {&psprouter.WebhookError{Why: psprouter.WebhookMalformed, Err: errors.New("no items")}, 400, CodeWebhookMalformed},
		"unknown PSP": {&payment.Error{Code: payment.CodeNotFound, Reference: visa16}, 404, CodeRouteNotFound},
		"not stored":  {&payment.Error{Code: payment.CodeUnavailable}, 503, payment.CodeUnavailable},
		"anything":    {errors.New("dial tcp"), 503, CodeDependency},
	} {
		a := newAPI(t)
		a.script.err = c.err
		res := a.post("/v1/webhooks/"+visa16, `{"card":"`+visa16+`"}`)
		if p := res.problem(t); p.Status != c.status || p.Code != c.code || (c.status == 503) != (res.Header.Get("Retry-After") != "") {
			t.Errorf("%s: %d %s", name, res.StatusCode, res.body)
		}
		if c.status != 400 { // there the domain has said that it knows the PSP
			a.wantNoTrace(name, res)
		}
	}
}

// The rule about card numbers does not concern what a PSP says: it is stored as it came or not at all.
func TestWebhookBodiesAreNotSearched(t *testing.T) {
	a := newAPI(t)
	if res := a.post("/v1/webhooks/stripe", `{"reference":"`+visa16+`"}`); res.StatusCode != 200 {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
}

// TestC034TooLarge: 2 MiB are 413, whether or not their length is told, and no more than the limit is ever read.
func TestC034TooLarge(t *testing.T) {
	for name, length := range map[string]int64{"length told": 2 << 20, "chunked": -1} {
		a := newAPI(t)
		source := &countingReader{Reader: io.LimitReader(zeros{}, 2<<20)}
		req := httptest.NewRequest(http.MethodPost, "/v1/webhooks/stripe", source)
		req.ContentLength = length
		rec := httptest.NewRecorder()
		a.router.Handler().ServeHTTP(rec, req)
		a.wantRefused(reply{rec.Result(), rec.Body.String()}, 413, CodeBodyTooLarge, "")
		if most := int64(webhookBytesMax + 1); source.n > most || length > 0 && source.n > 0 {
			t.Errorf("%s: %d bytes were read", name, source.n)
		}
	}
	a := newAPI(t)
	if res := a.post("/v1/webhooks/stripe", `"`+strings.Repeat("a", webhookBytesMax-2)+`"`); res.StatusCode != 200 {
		t.Errorf("1 MiB: %d", res.StatusCode)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte{'0'}, len(p))), nil }

type countingReader struct {
	io.Reader
	n int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += int64(n)
	return n, err
}

// A body that breaks off was never checked, so it is not taken.
func TestWebhookBreaksOff(t *testing.T) {
	a := newAPI(t)
	req := httptest.NewRequest(http.MethodPost, "/v1/webhooks/stripe", io.MultiReader(strings.NewReader(`{"id":`), broken{}))
	rec := httptest.NewRecorder()
	a.router.Handler().ServeHTTP(rec, req)
	a.wantRefused(reply{rec.Result(), rec.Body.String()}, 400, CodeWebhookMalformed, "")
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// What is stored needs nobody who stays: a draining router takes webhooks to its end.
func TestWebhooksWhileDraining(t *testing.T) {
	a := newAPI(t)
	a.router.phase.Store(phaseDraining)
	if res := a.post("/v1/webhooks/stripe", `{}`); res.StatusCode != 200 || res.Header.Get("Connection") != "close" {
		t.Errorf("%d, Connection %q", res.StatusCode, res.Header.Get("Connection"))
	}
	a.script.asked = nil
	a.wantRefused(a.post("/v1/payments/"+payID+"/confirm", `{}`), 503, CodeDraining, "")
}
