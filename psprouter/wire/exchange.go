package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// Limits of one exchange. The largest objects that PSPs send about one payment are some 10 kB.
const (
	maxRequestBytes = 256 << 10
	maxAnswerBytes  = 1 << 20
)

// Exchange records what can be known of one HTTP request from outside a client library, which may keep neither the status
// of an answer that it cannot read nor whether a request left at all. Used for several requests in turn, as by a look-up over
// pages, it tells of the latest. Its zero value is ready.
type Exchange struct {
	entered  atomic.Bool // the recorder was asked to send
	searched atomic.Bool // http.Transport began to look for a connection
	got      atomic.Bool // it had one: from here on bytes may have left
	status   int
	header   http.Header
}

type exchangeKey struct{}

// With returns a context whose request is recorded in e.
func With(ctx context.Context, e *Exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, e)
}

// Status is the HTTP status of the answer, 0 if there was none.
func (e *Exchange) Status() int { return e.status }

// Header is the header of the answer, nil if there was none.
func (e *Exchange) Header() http.Header { return e.header }

// Unsent says why provably nothing was sent by a call that returned err; "" = something may have been.
func (e *Exchange) Unsent(err error) string {
	switch {
	case err == nil || e.status != 0:
		return ""
	case !e.entered.Load():
		return "the request could not be made: " + err.Error()
	case e.searched.Load() && !e.got.Load():
		return "no connection: " + err.Error()
	}
	return ""
}

// begin forgets an earlier request.
func (e *Exchange) begin() {
	e.searched.Store(false)
	e.got.Store(false)
	e.status, e.header = 0, nil
	e.entered.Store(true)
}

// trace returns the hooks that prove whether a connection was ever had. WroteHeaders would prove too little: a request
// larger than the write buffer leaves in part before it fires.
func (e *Exchange) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { e.searched.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { e.got.Store(true) },
	}
}

// Recorder is an adapter's only way out. It fills the Exchange of the request's context and makes a second, silent send
// impossible. A Next that does not report to httptrace as http.Transport does can never prove that nothing was sent.
type Recorder struct{ Next http.RoundTripper }

// RoundTrip sends the request once. It fails for a context without an Exchange.
//
// net/http sends a POST with an Idempotency-Key again by itself when a kept-alive connection breaks before the answer, if
// it can rewind the body. The copy that we hand on has a body but no GetBody: it cannot be rewound, and connections
// are still reused. A body of no bytes stays non-nil for the same reason; so does that of a GET, which is a look-up and
// may fail.
func (t *Recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	seen, _ := req.Context().Value(exchangeKey{}).(*Exchange)
	if seen == nil {
		return nil, errors.New("wire: a request whose context has no Exchange: see With")
	}
	out := req.WithContext(httptrace.WithClientTrace(req.Context(), seen.trace())) // its header is the caller's: no RoundTripper changes it
	out.Body, out.GetBody, out.ContentLength = io.NopCloser(bytes.NewReader(body)), nil, int64(len(body))
	seen.begin()
	resp, err := t.Next.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	seen.status, seen.header = resp.StatusCode, resp.Header
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxAnswerBytes}
	return resp, nil
}

func readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer req.Body.Close()
	body, err := io.ReadAll(io.LimitReader(req.Body, maxRequestBytes+1))
	if err == nil && len(body) > maxRequestBytes {
		err = fmt.Errorf("wire: a request body above %d bytes", maxRequestBytes)
	}
	return body, err
}

// boundedBody fails, rather than ends, after left bytes: a cut answer must not pass for a whole one.
type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("wire: an answer above %d bytes", maxAnswerBytes)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// NewClient returns a client that records, does not follow redirects and sends once. A redirect is not an answer of a
// PSP, and following it would send a card's token elsewhere. Nil next means NewTransport.
func NewClient(next http.RoundTripper) *http.Client {
	if next == nil {
		next = NewTransport()
	}
	return &http.Client{
		Transport:     &Recorder{Next: next},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// CloseIdle drops the idle connections of a client of NewClient. Calls that run are not touched.
func CloseIdle(c *http.Client) {
	if r, ok := c.Transport.(*Recorder); ok {
		if next, ok := r.Next.(interface{ CloseIdleConnections() }); ok {
			next.CloseIdleConnections()
		}
	}
}

// maxIdleConns bounds the idle connections to one PSP.
const maxIdleConns = 2048

// NewTransport returns a transport for one PSP host. It speaks HTTP/1.1 alone: on a shared HTTP/2 connection one broken
// stream takes other payments' requests along. Idle connections go before a PSP's side closes them (after 60 s or
// more), since a request on a connection that breaks is Unknown. As many are kept as a burst uses: 600 payments a second
// with two calls of 300 ms have 360 under way, and of 2 s 2,400; what is not kept is dialled anew, with TLS, when there is the
// least time for it.
func NewTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConns:        maxIdleConns,
		MaxIdleConnsPerHost: maxIdleConns,
		IdleConnTimeout:     30 * time.Second,
	}
}
