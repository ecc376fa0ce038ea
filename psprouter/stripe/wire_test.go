package stripe

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/psprouter/wire"
)

func newAdapter(t *testing.T, base string, change func(*Config)) *Adapter {
	t.Helper()
	cfg := Config{BaseURL: base, SecretKey: "sk_test_1", Timeout: 5 * time.Second}
	if change != nil {
		change(&cfg)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// all makes one call of each kind and names its outcome.
func all(a *Adapter, ctx context.Context) map[string]psprouter.Outcome {
	eur := ledger.Money{Minor: 1000, Currency: "EUR"}
	return map[string]psprouter.Outcome{
		"authorize": a.Authorize(ctx, psprouter.AuthorizeRequest{Attempt: "att_1", Amount: eur, Token: "pm_ok"}),
		"capture":   a.Capture(ctx, psprouter.CaptureRequest{Attempt: "att_2", PaymentRef: "pi_1", Amount: eur, Authorized: 1000}),
		"void":      a.Void(ctx, psprouter.VoidRequest{Attempt: "att_3", PaymentRef: "pi_1", Amount: eur}),
		"refund":    a.Refund(ctx, psprouter.RefundRequest{Attempt: "att_4", PaymentRef: "pi_1", Amount: eur}),
	}
}

// rawServer answers each connection with serve, which gets one whole request. It returns the address and the number of
// requests that were read.
func rawServer(t *testing.T, serve func(conn *net.TCPConn, r *bufio.Reader)) (string, *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	requests := new(atomic.Int64)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for readRequest(r) == nil {
					requests.Add(1)
					serve(conn.(*net.TCPConn), r)
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return "http://" + l.Addr().String(), requests
}

func readRequest(r *bufio.Reader) error {
	req, err := http.ReadRequest(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err
}

const (
	whole = `{"object":"payment_intent","id":"pi_1"}`
	// What would be a yes to att_1, were it not for its size or for one field that cannot be read.
	approval    = `{"object":"payment_intent","id":"pi_1","amount":1000,"currency":"eur","metadata":{"attempt":"att_1"},"status":"requires_capture","amount_capturable":1000`
	oddApproval = approval + `,"created":"yesterday"}`
)

var hugeApproval = approval + `,"description":"` + strings.Repeat("x", 2<<20) + `"}`

func respond(status, body string, length int) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, length, body)
}

// At whatever point the connection fails after the request was read: Unknown, and exactly one request per call.
func TestBrokenAnswersAreUnknown(t *testing.T) {
	for name, serve := range map[string]func(*net.TCPConn){
		"closed before the answer":  func(c *net.TCPConn) { c.Close() },
		"reset before the answer":   func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
		"closed inside the headers": func(c *net.TCPConn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nConte"); c.Close() },
		"reset after the headers":   func(c *net.TCPConn) { io.WriteString(c, respond("200 OK", "", 100)); c.SetLinger(0); c.Close() },
		"closed inside the body":    func(c *net.TCPConn) { io.WriteString(c, respond("200 OK", whole[:20], len(whole))); c.Close() },
		"a decline cut in its body": func(c *net.TCPConn) {
			io.WriteString(c, respond("402 Payment Required", `{"error":{"type":"card_error"`, 900))
			c.Close()
		},
		"truncated JSON":   func(c *net.TCPConn) { io.WriteString(c, respond("200 OK", whole[:20], 20)) },
		"two JSON objects": func(c *net.TCPConn) { io.WriteString(c, respond("200 OK", whole+whole, 2*len(whole))) },
		"HTML":             func(c *net.TCPConn) { io.WriteString(c, respond("200 OK", "<html>", 6)) },
		"HTML with 400":    func(c *net.TCPConn) { io.WriteString(c, respond("400 Bad Request", "<html>", 6)) },
		"HTML with 401":    func(c *net.TCPConn) { io.WriteString(c, respond("401 Unauthorized", "<html>", 6)) },
		"HTML with 502":    func(c *net.TCPConn) { io.WriteString(c, respond("502 Bad Gateway", "<html>", 6)) },
		"no body":          func(c *net.TCPConn) { io.WriteString(c, respond("200 OK", "", 0)) },
		"an empty error":   func(c *net.TCPConn) { io.WriteString(c, respond("402 Payment Required", "{}", 2)) },
		"not HTTP":         func(c *net.TCPConn) { io.WriteString(c, "SSH-2.0-OpenSSH\r\n\r\n"); c.Close() },
		"a redirect": func(c *net.TCPConn) {
			io.WriteString(c, "HTTP/1.1 307 T\r\nLocation: /v1/elsewhere\r\nContent-Length: 0\r\n\r\n")
		},
		"an answer without end":   func(c *net.TCPConn) { io.WriteString(c, respond("200 OK", hugeApproval, len(hugeApproval))) },
		"a field of another type": func(c *net.TCPConn) { io.WriteString(c, respond("200 OK", oddApproval, len(oddApproval))) },
	} {
		t.Run(name, func(t *testing.T) {
			base, requests := rawServer(t, func(c *net.TCPConn, _ *bufio.Reader) { serve(c) })
			a := newAdapter(t, base, nil)
			for call, out := range all(a, t.Context()) {
				if out.Class() != psprouter.Unknown || out.Alert {
					t.Errorf("%s: %v, alert %t, %.200q", call, out.Class(), out.Alert, out.Reason)
				}
			}
			if got := requests.Load(); got != 4 {
				t.Errorf("%d requests for 4 calls", got)
			}
		})
	}
}

func TestSlowAnswerIsUnknown(t *testing.T) {
	gone := make(chan struct{})
	base, requests := rawServer(t, func(*net.TCPConn, *bufio.Reader) { <-gone })
	a := newAdapter(t, base, func(c *Config) { c.Timeout = 30 * time.Millisecond })
	for call, out := range all(a, t.Context()) {
		if out.Class() != psprouter.Unknown {
			t.Errorf("%s: %v %q", call, out.Class(), out.Reason)
		}
	}
	close(gone)
	if got := requests.Load(); got != 4 {
		t.Errorf("%d requests for 4 calls", got)
	}
}

// A caller that hangs up after the request left knows nothing; one that had hung up before knows that nothing left.
func TestCanceledCallers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	base, requests := rawServer(t, func(c *net.TCPConn, _ *bufio.Reader) { cancel(); c.Read(make([]byte, 1)) })
	a := newAdapter(t, base, nil)
	eur := ledger.Money{Minor: 1000, Currency: "EUR"}
	out := a.Authorize(ctx, psprouter.AuthorizeRequest{Attempt: "att_1", Amount: eur, Token: "pm_ok"})
	if out.Class() != psprouter.Unknown {
		t.Errorf("hung up during the call: %v %q", out.Class(), out.Reason)
	}
	for call, out := range all(a, ctx) {
		if out.Class() != psprouter.NotSent {
			t.Errorf("hung up before %s: %v %q", call, out.Class(), out.Reason)
		}
	}
	if requests.Load() != 1 {
		t.Errorf("%d requests", requests.Load())
	}
}

func TestNoConnectionIsNotSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + l.Addr().String()
	l.Close()
	tlsServer := httptest.NewUnstartedServer(http.NotFoundHandler())
	tlsServer.Config.ErrorLog = log.New(io.Discard, "", 0) // failed handshakes are the point
	tlsServer.StartTLS()
	defer tlsServer.Close()
	// Plain HTTP behind an https address: the handshake fails.
	plain, _ := rawServer(t, func(c *net.TCPConn, _ *bufio.Reader) { c.Close() })
	stuck := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	for name, change := range map[string]func(*Config){
		"dial refused":              func(c *Config) { c.BaseURL = refused },
		"no such host":              func(c *Config) { c.BaseURL = "http://psp.invalid" },
		"certificate not trusted":   func(c *Config) { c.BaseURL = tlsServer.URL },
		"handshake with plain HTTP": func(c *Config) { c.BaseURL = strings.Replace(plain, "http:", "https:", 1) },
		"time-out while dialling":   func(c *Config) { c.Transport, c.Timeout = stuck, 20*time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			a := newAdapter(t, refused, change)
			for call, out := range all(a, t.Context()) {
				if out.Class() != psprouter.NotSent || out.Rejected {
					t.Errorf("%s: %v %q", call, out.Class(), out.Reason)
				}
			}
		})
	}
}

type brokenTransport struct{}

func (brokenTransport) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, tls.AlertError(40)
}

// A transport that tells httptrace nothing proves nothing.
func TestSilentTransportIsUnknown(t *testing.T) {
	a := newAdapter(t, "http://127.0.0.1:1", func(c *Config) { c.Transport = brokenTransport{} })
	for call, out := range all(a, t.Context()) {
		if out.Class() != psprouter.Unknown {
			t.Errorf("%s: %v %q", call, out.Class(), out.Reason)
		}
	}
}

// net/http sends a POST with an Idempotency-Key again by itself if a kept-alive connection breaks before the answer. The
// first call leaves such a connection; the server closes it on the second. One call must be one request.
func TestNoSilentSecondSend(t *testing.T) {
	for name, end := range map[string]func(*net.TCPConn){
		"closed": func(c *net.TCPConn) { c.Close() },
		"reset":  func(c *net.TCPConn) { c.SetLinger(0); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			var served sync.Map
			base, requests := rawServer(t, func(c *net.TCPConn, _ *bufio.Reader) {
				if _, again := served.LoadOrStore(c, true); again {
					end(c)
					return
				}
				io.WriteString(c, respond("404 Not Found", `{"error":{"type":"invalid_request_error"}}`, 42))
			})
			all(newAdapter(t, base, nil), t.Context()) // over one pool: calls 1 and 3 are answered, 2 and 4 cut
			if got := requests.Load(); got != 4 {
				t.Errorf("%d requests for 4 calls", got)
			}
			connections := 0
			served.Range(func(any, any) bool { connections++; return true })
			if connections != 2 {
				t.Errorf("%d connections for 4 calls: connections are not reused", connections)
			}
		})
	}
}

// The control of the test above: with a body that can be rewound the transport does send twice.
func TestTransportWouldSendTwice(t *testing.T) {
	var served sync.Map
	base, requests := rawServer(t, func(c *net.TCPConn, _ *bufio.Reader) {
		if _, again := served.LoadOrStore(c, true); again {
			c.Close()
			return
		}
		io.WriteString(c, respond("200 OK", "{}", 2))
	})
	transport := wire.NewTransport()
	defer transport.CloseIdleConnections()
	for range 2 {
		req, _ := http.NewRequest(http.MethodPost, base, strings.NewReader("x"))
		req.Header.Set("Idempotency-Key", "k")
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	if requests.Load() != 3 {
		t.Skipf("net/http no longer re-sends (%d requests): GetBody could stay", requests.Load())
	}
}

func TestConfigErrorsNameTheField(t *testing.T) {
	for field, cfg := range map[string]Config{
		"BaseURL":   {SecretKey: "sk"},
		"SecretKey": {BaseURL: "http://x", SecretKey: " "},
		"Timeout":   {BaseURL: "http://x", SecretKey: "sk", Timeout: -1},
	} {
		_, err := New(cfg)
		config, ok := err.(*ConfigError)
		if !ok || config.Field != field || config.Remedy == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := New(Config{BaseURL: "ftp://x", SecretKey: "sk"}); err == nil {
		t.Error("ftp is taken")
	}
}

// Requests that could not be found again, or not be converted, never leave.
func TestUnsendableRequestsAreRejected(t *testing.T) {
	base, requests := rawServer(t, func(c *net.TCPConn, _ *bufio.Reader) { c.Close() })
	a := newAdapter(t, base, nil)
	eur := ledger.Money{Minor: 1000, Currency: "EUR"}
	for name, out := range map[string]psprouter.Outcome{
		"no attempt":        a.Authorize(t.Context(), psprouter.AuthorizeRequest{Amount: eur, Token: "pm_ok"}),
		"attempt with line": a.Authorize(t.Context(), psprouter.AuthorizeRequest{Attempt: "a\nb", Amount: eur, Token: "pm_ok"}),
		"attempt too long":  a.Authorize(t.Context(), psprouter.AuthorizeRequest{Attempt: strings.Repeat("a", 256), Amount: eur, Token: "pm_ok"}),
		"no token":          a.Authorize(t.Context(), psprouter.AuthorizeRequest{Attempt: "att_1", Amount: eur}),
		"KWD 5124":          a.Authorize(t.Context(), psprouter.AuthorizeRequest{Attempt: "att_1", Token: "pm_ok", Amount: ledger.Money{Minor: 5124, Currency: "KWD"}}),
		"no payment":        a.Void(t.Context(), psprouter.VoidRequest{Attempt: "att_1", Amount: eur}),
		"over-capture":      a.Capture(t.Context(), psprouter.CaptureRequest{Attempt: "att_1", PaymentRef: "pi_1", Amount: eur, Authorized: 1500, Captured: 501}),
	} {
		if out.Class() != psprouter.NotSent || !out.Rejected || out.Code == "" {
			t.Errorf("%s: %+v", name, out)
		}
	}
	if requests.Load() != 0 {
		t.Errorf("%d requests left", requests.Load())
	}
}

func TestSupports(t *testing.T) {
	a := newAdapter(t, "http://127.0.0.1:1", func(c *Config) { c.SeveralCaptures = true })
	if a.Supports(ledger.Money{Minor: 1, Currency: "EUR"}) != nil || !a.SeveralCaptures() || a.Name() != "stripe" {
		t.Error("one cent is refused, or the account is told wrong")
	}
	for _, m := range []ledger.Money{{Minor: 0, Currency: "EUR"}, {Minor: -5, Currency: "EUR"}, {Minor: 5, Currency: "UGX"}, {Minor: 1001, Currency: "KWD"}} {
		if a.Supports(m) == nil {
			t.Errorf("%v is supported", m)
		}
	}
}
