package simulator

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Transport returns the PSP without a network: each request is answered by the handler in this process, whatever its host.
// Connections that are cut come back as the errors that http.Transport gives for them, after the same httptrace calls, so
// that an adapter learns from them what it would learn from a socket. With Options.Patience the call runs in the caller's
// own goroutine, and time is virtual.
func (s *Simulator) Transport() http.RoundTripper { return &transport{sim: s, handler: s.Handler()} }

type transport struct {
	sim     *Simulator
	handler http.Handler
}

// RoundTrip is http.RoundTripper's.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readAll(req)
	if err != nil {
		return nil, err
	}
	ctx := req.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	trace := httptrace.ContextClientTrace(ctx)
	if refused := t.connect(req, trace); refused != nil {
		return nil, refused
	}
	x := &inProcess{header: http.Header{}}
	served := t.serverSide(req, body)
	if t.sim.opts.Patience > 0 {
		t.handler.ServeHTTP(x, served)
		return x.result(req, t.sim.opts.Patience)
	}
	done := make(chan struct{})
	go func() { defer close(done); t.handler.ServeHTTP(x, served) }()
	select {
	case <-done:
		return x.result(req, 0)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func readAll(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer func() { _ = req.Body.Close() }()
	return io.ReadAll(req.Body)
}

// connect plays the connection's part of httptrace. A refused dial never has one.
func (t *transport) connect(req *http.Request, trace *httptrace.ClientTrace) error {
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(req.URL.Host)
	}
	if t.sim.refuses() {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	if trace == nil {
		return nil
	}
	if trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Reused: true})
	}
	if trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
	if trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{})
	}
	return nil
}

// refuses tells whether no connection is to be had, and counts the call.
func (s *Simulator) refuses() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outageMode != OutageRefuse || !s.opts.Now().Before(s.outageUntil) {
		return false
	}
	s.count("outage_" + string(OutageRefuse))
	return true
}

// serverSide is the request as a server sees it. A client that hangs up changes nothing.
func (t *transport) serverSide(req *http.Request, body []byte) *http.Request {
	served := req.WithContext(context.WithoutCancel(req.Context()))
	served.Body = io.NopCloser(bytes.NewReader(body))
	served.RequestURI = req.URL.RequestURI()
	return served
}

// inProcess takes an answer. The handler's goroutine alone writes to it until the handler returns.
type inProcess struct {
	header  http.Header
	status  int
	body    []byte
	severed bool
	hard    bool
	waited  time.Duration
}

// Header is http.ResponseWriter's.
func (x *inProcess) Header() http.Header { return x.header }

// WriteHeader is http.ResponseWriter's.
func (x *inProcess) WriteHeader(status int) { x.status = status }

// Write is http.ResponseWriter's.
func (x *inProcess) Write(p []byte) (int, error) {
	x.body = append(x.body, p...)
	return len(p), nil
}

func (x *inProcess) sever(hard bool) { x.severed, x.hard = true, hard }

func (x *inProcess) waits(d time.Duration) { x.waited += d }

// result is what the client gets.
func (x *inProcess) result(req *http.Request, patience time.Duration) (*http.Response, error) {
	switch {
	case patience > 0 && x.waited > patience:
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
	case x.severed && x.hard && x.status == 0:
		return nil, connectionReset()
	case x.severed && x.status == 0:
		return nil, io.EOF
	}
	length, err := strconv.Atoi(x.header.Get("Content-Length"))
	if err != nil {
		length = len(x.body)
	}
	body := io.ReadCloser(io.NopCloser(bytes.NewReader(x.body)))
	switch {
	case x.severed:
		length, body = -1, io.NopCloser(io.MultiReader(bytes.NewReader(x.body), cutReader{connectionReset()}))
	case length > len(x.body):
		body = io.NopCloser(io.MultiReader(bytes.NewReader(x.body), cutReader{io.ErrUnexpectedEOF}))
	}
	return &http.Response{Status: strconv.Itoa(x.status) + " " + http.StatusText(x.status), StatusCode: x.status, Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1, Header: x.header, Body: body, ContentLength: int64(length), Request: req}, nil
}

func connectionReset() error {
	return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
}

// cutReader fails where an answer was cut.
type cutReader struct{ err error }

// Read is io.Reader's.
func (c cutReader) Read([]byte) (int, error) { return 0, c.err }
