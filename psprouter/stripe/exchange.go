package stripe

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

	stripego "github.com/stripe/stripe-go/v82"
)

// Limits of one exchange. A payment intent with everything expanded is some 10 kB.
const (
	maxRequestBytes = 256 << 10
	maxAnswerBytes  = 1 << 20
)

// exchange records what can be known of one HTTP request from outside stripe-go, which keeps neither the status of an
// answer it cannot read nor whether a request left at all.
type exchange struct {
	entered  atomic.Bool // our transport was asked to send
	searched atomic.Bool // http.Transport began to look for a connection
	got      atomic.Bool // it had one: from here on bytes may have left
	status   int
	header   http.Header
}

type exchangeKey struct{}

func withExchange(ctx context.Context, e *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, e)
}

// answer sums up the exchange after the call returned err.
func (e *exchange) answer(err error) answer {
	a := answer{status: e.status, header: e.header}
	var fault *stripego.Error
	switch {
	case err == nil:
	case e.status == 0 && !e.entered.Load():
		a.unsent = "the request could not be made: " + err.Error()
	case e.status == 0 && e.searched.Load() && !e.got.Load():
		a.unsent = "no connection: " + err.Error()
	case errors.As(err, &fault) && e.status >= http.StatusBadRequest:
		a.fault = fault
	default:
		a.broken = err
	}
	return a
}

// trace returns the hooks that prove whether a connection was ever had. WroteHeaders would prove too little: a request
// larger than the write buffer leaves in part before it fires.
func (e *exchange) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { e.searched.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { e.got.Store(true) },
	}
}

// recorder is the only way out for requests. It fills the exchange in the request's context and makes a second, silent
// send impossible.
type recorder struct{ next http.RoundTripper }

// RoundTrip sends the request once.
//
// net/http sends a POST with an Idempotency-Key again by itself when a kept-alive connection breaks before the answer, if
// it can rewind the body. The copy that we hand on has a body but no GetBody: it cannot be rewound, and connections
// are still reused. A body of no bytes stays non-nil for the same reason.
func (t *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readBody(req)
	if err != nil {
		return nil, err
	}
	seen, _ := req.Context().Value(exchangeKey{}).(*exchange)
	if seen == nil {
		return nil, errors.New("stripe: a request outside Adapter.do")
	}
	out := req.Clone(httptrace.WithClientTrace(req.Context(), seen.trace()))
	out.Body, out.GetBody, out.ContentLength = io.NopCloser(bytes.NewReader(body)), nil, int64(len(body))
	seen.entered.Store(true)
	resp, err := t.next.RoundTrip(out)
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
		err = fmt.Errorf("stripe: a request body above %d bytes", maxRequestBytes)
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
		return 0, fmt.Errorf("stripe: an answer above %d bytes", maxAnswerBytes)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// newTransport returns a transport for one PSP host. It speaks HTTP/1.1 alone: on a shared HTTP/2 connection one broken
// stream takes other payments' requests along. Idle connections go before Stripe's side closes them (after 60 s or
// more), since a request on a connection that breaks is Unknown.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConns:        256,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     30 * time.Second,
	}
}
