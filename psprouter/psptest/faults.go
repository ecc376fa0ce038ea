package psptest

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"paygrid/psprouter"
)

const (
	patient   = 10 * time.Second      // no fault waits that long
	impatient = 40 * time.Millisecond // for peers that never answer
)

// fault breaks one call off at one point. whole is the success that it spoils.
type fault struct {
	name    string
	timeout time.Duration
	serve   func(c *net.TCPConn, whole Response)
}

// faultPoints are the points of one HTTP exchange after the request was read. At each of them the PSP may have done as asked.
var faultPoints = []fault{
	{"end before the answer", patient, func(*net.TCPConn, Response) {}},
	{"reset before the answer", patient, func(c *net.TCPConn, _ Response) { reset(c) }},
	{"end inside the status line", patient, func(c *net.TCPConn, _ Response) { io.WriteString(c, "HTTP/1.1 20") }},
	{"end inside the headers", patient, func(c *net.TCPConn, w Response) { io.WriteString(c, w.wire(0)[:40]) }},
	{"end after the headers", patient, func(c *net.TCPConn, w Response) { io.WriteString(c, headers(w)) }},
	{"reset after the headers", patient, func(c *net.TCPConn, w Response) { io.WriteString(c, headers(w)); reset(c) }},
	{"end inside the body", patient, func(c *net.TCPConn, w Response) { text := w.wire(0); io.WriteString(c, text[:len(text)-5]) }},
	{"end one byte early", patient, func(c *net.TCPConn, w Response) { io.WriteString(c, w.wire(1)) }},
	{"a cut body of full length", patient, func(c *net.TCPConn, w Response) { respond(c, w.Status, w.Body[:len(w.Body)/2]) }},
	{"two bodies", patient, func(c *net.TCPConn, w Response) { respond(c, w.Status, w.Body+w.Body) }},
	{"no body", patient, func(c *net.TCPConn, w Response) { respond(c, w.Status, "") }},
	{"an empty object", patient, func(c *net.TCPConn, w Response) { respond(c, w.Status, "{}") }},
	{"null", patient, func(c *net.TCPConn, w Response) { respond(c, w.Status, "null") }},
	{"garbage", patient, func(c *net.TCPConn, w Response) { respond(c, w.Status, "<html>busy</html>") }},
	{"garbage with 400", patient, func(c *net.TCPConn, _ Response) { respond(c, 400, "<html>bad</html>") }},
	{"garbage with 401", patient, func(c *net.TCPConn, _ Response) { respond(c, 401, "<html>no</html>") }},
	{"garbage with 404", patient, func(c *net.TCPConn, _ Response) { respond(c, 404, "<html>no</html>") }},
	{"garbage with 422", patient, func(c *net.TCPConn, _ Response) { respond(c, 422, "") }},
	{"garbage with 429", patient, func(c *net.TCPConn, _ Response) { respond(c, 429, "slow down") }},
	{"garbage with 500", patient, func(c *net.TCPConn, _ Response) { respond(c, 500, "") }},
	{"garbage with 502", patient, func(c *net.TCPConn, _ Response) { respond(c, 502, "<html>gateway</html>") }},
	{"garbage with 503", patient, func(c *net.TCPConn, _ Response) { respond(c, 503, "<html>later</html>") }},
	{"success with 500", patient, func(c *net.TCPConn, w Response) { respond(c, 500, w.Body) }},
	{"success with 202", patient, func(c *net.TCPConn, w Response) { respond(c, 202, w.Body) }},
	{"not HTTP", patient, func(c *net.TCPConn, _ Response) { io.WriteString(c, "SSH-2.0-OpenSSH\r\n\r\n") }},
	{"redirect", patient, func(c *net.TCPConn, _ Response) {
		io.WriteString(c, "HTTP/1.1 307 T\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")
	}},
	{"an answer without end", patient, func(c *net.TCPConn, _ Response) { respond(c, 200, `{"id":"`+strings.Repeat("x", 2<<20)) }},
	{"no answer in time", impatient, func(c *net.TCPConn, _ Response) { waitForEnd(c) }},
	{"headers, and no body in time", impatient, func(c *net.TCPConn, w Response) { io.WriteString(c, headers(w)); waitForEnd(c) }},
	{"a body that never ends", impatient, func(c *net.TCPConn, w Response) { io.WriteString(c, w.wire(10)); waitForEnd(c) }},
}

func headers(w Response) string { text := w.wire(0); return text[:len(text)-len(w.Body)] }

func respond(c *net.TCPConn, status int, body string) {
	io.WriteString(c, Response{Status: status, Body: body}.wire(0))
}

// reset makes the end of the connection an RST.
func reset(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() }

// waitForEnd returns when the client gives up.
func waitForEnd(c *net.TCPConn) { _, _ = c.Read(make([]byte, 1)) }

// faults: at whatever point the call breaks off, nothing is known, one request left, and it had its key. So it is for the
// inquiry, which must neither take a broken look-up for absence nor a lost re-send for a call that was never sent.
func faults(t *testing.T, h Harness) {
	for _, f := range faultPoints {
		t.Run(f.name, func(t *testing.T) {
			for _, c := range Calls() {
				p := newPeer(t, func(conn *net.TCPConn, _ request) bool { f.serve(conn, h.Success(c)); return false })
				a := newAdapter(t, h, p.base, f.timeout)
				expect(t, c, c.send(t.Context(), a), psprouter.Unknown)
				once(t, c, p)
				q := newPeer(t, func(conn *net.TCPConn, r request) bool { f.serve(conn, h.Found(c, r.Request)); return false })
				b := newAdapter(t, h, q.base, f.timeout)
				nothingFound(t, c, c.inquire(t.Context(), b))
				keyed(t, c, q.take())
			}
		})
	}
}

func newAdapter(t testing.TB, h Harness, base string, timeout time.Duration) Adapter {
	t.Helper()
	a := h.New(t, base, timeout)
	t.Cleanup(a.Close)
	return a
}

func expect(t *testing.T, c Call, out psprouter.Outcome, class psprouter.Class) {
	t.Helper()
	if out.Class() != class {
		t.Errorf("%s: %v (%s), want %v", c.Operation, out.Class(), out.Reason, class)
	}
	if strings.Contains(out.Reason+out.Code, token) {
		t.Errorf("%s: the token is in the words for people: %q", c.Operation, out.Reason)
	}
}

func nothingFound(t *testing.T, c Call, f psprouter.Finding) {
	t.Helper()
	expect(t, Call{Operation: "inquiry of " + c.Operation}, f.Outcome, psprouter.Unknown)
	if f.Absent {
		t.Errorf("inquiry of %s: absent, though nobody said so: %s", c.Operation, f.Outcome.Reason)
	}
}

// once checks that exactly one request left, under the attempt ID.
func once(t *testing.T, c Call, p *peer) {
	t.Helper()
	requests := p.take()
	if len(requests) != 1 {
		t.Errorf("%s: %d requests for one call", c.Operation, len(requests))
	}
	keyed(t, c, requests)
}

// keyed checks that whatever could move money carries the attempt ID as its only key.
func keyed(t *testing.T, c Call, requests []request) {
	t.Helper()
	for _, r := range requests {
		if keys := r.Header.Values("Idempotency-Key"); r.Method != "GET" && (len(keys) != 1 || keys[0] != c.Attempt) {
			t.Errorf("%s: %s %s under key %q, want %q", c.Operation, r.Method, r.URL.Path, keys, c.Attempt)
		}
	}
}

// success: an answer that fits is taken, and the inquiry finds the same.
func success(t *testing.T, h Harness) {
	for _, c := range Calls() {
		p := newPeer(t, answering(func(request) Response { return h.Success(c) }))
		a := newAdapter(t, h, p.base, patient)
		out := c.send(t.Context(), a)
		expect(t, c, out, h.Class(c.Operation))
		if out.Reference == "" {
			t.Errorf("%s: no reference", c.Operation)
		}
		once(t, c, p)
		q := newPeer(t, answering(func(r request) Response { return h.Found(c, r.Request) }))
		b := newAdapter(t, h, q.base, patient)
		expect(t, Call{Operation: "inquiry of " + c.Operation}, c.inquire(t.Context(), b).Outcome, h.Inquired(c.Operation))
		keyed(t, c, q.take())
	}
}

// refusals: the PSP's own words. An inquiry that is refused is no answer about the call.
func refusals(t *testing.T, h Harness) {
	for _, r := range h.Refusals {
		t.Run(r.Name, func(t *testing.T) {
			p := newPeer(t, answering(func(request) Response { return r.Response }))
			a := newAdapter(t, h, p.base, patient)
			for _, c := range Calls() {
				class := r.Modified
				if c.Operation == psprouter.OpAuthorize {
					class = r.Authorized
				}
				expect(t, c, c.send(t.Context(), a), class)
				once(t, c, p)
				if r.Response.Status >= 300 {
					nothingFound(t, c, c.inquire(t.Context(), a))
					keyed(t, c, p.take())
				}
			}
		})
	}
}

// noConnection: what provably did not leave is NotSent; of an inquiry that is Unknown all the same.
func noConnection(t *testing.T, h Harness) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + l.Addr().String()
	l.Close()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	p := newPeer(t, func(*net.TCPConn, request) bool { return false })
	for name, where := range map[string]struct {
		base string
		ctx  context.Context
	}{
		"dial refused":            {refused, t.Context()},
		"no such host":            {"http://psp.invalid", t.Context()},
		"TLS to a plain peer":     {strings.Replace(p.base, "http:", "https:", 1), t.Context()},
		"the caller was gone":     {p.base, gone},
		"gone, and no connection": {refused, gone},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAdapter(t, h, where.base, patient)
			for _, c := range Calls() {
				out := c.send(where.ctx, a)
				expect(t, c, out, psprouter.NotSent)
				if out.Rejected {
					t.Errorf("%s: rejected, though nobody was asked", c.Operation)
				}
				nothingFound(t, c, c.inquire(where.ctx, a))
			}
			if n := len(p.take()); n != 0 {
				t.Errorf("%d requests left", n)
			}
		})
	}
}
