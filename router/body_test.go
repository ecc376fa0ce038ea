package router

import (
	"net/http"
	"strings"
	"testing"
)

func TestBodyLimit(t *testing.T) {
	padded := func(n int) string { return goodBody + strings.Repeat(" ", n-len(goodBody)) }
	a := newAPI(t)
	if res := a.post("/v1/payments", padded(bodyBytesMax)); res.StatusCode != 201 {
		t.Errorf("64 KiB: %d %s", res.StatusCode, res.body)
	}
	for name, edits := range map[string]edit{
		"length given": func(*http.Request) {},
		"chunked":      func(r *http.Request) { r.ContentLength = -1 },
	} {
		a := newAPI(t)
		a.wantRefused(a.post("/v1/payments", padded(bodyBytesMax+1), edits), 413, CodeBodyTooLarge, "")
		if strings.Contains(a.log.String(), name) {
			t.Error("the body is in the log")
		}
	}
}

func TestMediaTypes(t *testing.T) {
	for _, kind := range []string{"application/json", "application/json; charset=utf-8", "application/json;charset=\"UTF-8\"", "Application/JSON"} {
		a := newAPI(t)
		if res := a.post("/v1/payments", goodBody, header("Content-Type", kind)); res.StatusCode != 201 {
			t.Errorf("%s: %d %s", kind, res.StatusCode, res.body)
		}
	}
	for name, edits := range map[string]edit{
		"none":        header("Content-Type", ""),
		"text":        header("Content-Type", "text/plain"),
		"form":        header("Content-Type", "application/x-www-form-urlencoded"),
		"problem":     header("Content-Type", "application/problem+json"),
		"broken":      header("Content-Type", "application/json; charset"),
		"Latin 1":     header("Content-Type", "application/json; charset=iso-8859-1"),
		"two lines":   func(r *http.Request) { r.Header.Add("Content-Type", "application/json") },
		"compressed":  header("Content-Encoding", "gzip"),
		"application": header("Content-Type", "application"),
	} {
		a := newAPI(t)
		res := a.post("/v1/payments", goodBody, edits)
		if p := res.problem(t); p.Status != 415 || p.Code != CodeUnsupportedMediaType {
			t.Errorf("%s: %d %s", name, res.StatusCode, res.body)
		}
	}
}

// A body that breaks off is nobody's payment.
func TestBodyBreaksOff(t *testing.T) {
	a := newAPI(t)
	res := a.post("/v1/payments", goodBody, func(r *http.Request) { r.Body = http.NoBody; r.ContentLength = -1 })
	a.wantRefused(res, 400, CodeMalformedJSON, "")
}
