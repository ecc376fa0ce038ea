package router

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes, so that a whole server runs in virtual time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

var errListenerClosed = errors.New("listener is closed")

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, errListenerClosed
	}
}

// running is a router that serves on pipes until stop.
type running struct {
	*api
	pipes  *pipes
	stop   context.CancelFunc
	done   chan error
	client *http.Client
}

// serve must run in a synctest bubble.
func serve(t *testing.T, change func(*Config)) *running {
	a := newAPI(t)
	change(&a.router.cfg)
	ctx, stop := context.WithCancel(context.Background())
	r := &running{api: a, pipes: newPipes(), stop: stop, done: make(chan error, 1)}
	go func() { r.done <- a.router.Serve(ctx, r.pipes) }()
	transport := &http.Transport{DialContext: r.pipes.dial}
	r.client = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	return r
}

func (r *running) send(method, path string) (int, http.Header, string, error) {
	body := ""
	if method == http.MethodPost {
		body = goodBody
	}
	req, err := http.NewRequest(method, "http://router"+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer tk_shop_a", "Idempotency-Key": "k-1", "Content-Type": "application/json"} {
		req.Header.Set(name, value)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, string(text), err
}

func (r *running) want(method, path string, status int) http.Header {
	r.t.Helper()
	got, header, body, err := r.send(method, path)
	if err != nil || got != status {
		r.t.Errorf("%s %s: %d %v %s, want %d", method, path, got, err, body, status)
	}
	return header
}

func TestDrain(t *testing.T) {
	loadContract()
	synctest.Test(t, func(t *testing.T) {
		r := serve(t, func(c *Config) { c.DrainDelay, c.DrainTimeout = 10*time.Second, time.Minute })
		r.want("GET", "/readyz", 200)
		r.want("POST", "/v1/payments", 201)

		// A payment is under way when the router is told to go.
		entered, release := make(chan struct{}), make(chan struct{})
		r.script.during = func(context.Context) {
			close(entered)
			<-release
		}
		slow := make(chan int)
		go func() {
			status, _, _, _ := r.send("POST", "/v1/payments")
			slow <- status
		}()
		<-entered
		r.script.during = nil
		r.stop()
		synctest.Wait()

		// Leaving: not ready, and everything is still served, on connections that end.
		if h := r.want("GET", "/readyz", 503); h.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		r.want("GET", "/livez", 200)
		r.want("POST", "/v1/payments", 201)

		// Draining: the listener is closed, what runs goes on to its end.
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if _, _, _, err := r.send("GET", "/livez"); !errors.Is(err, errListenerClosed) {
			t.Errorf("a new connection: %v", err)
		}
		select {
		case err := <-r.done:
			t.Fatalf("Serve returned %v with a request running", err)
		default:
		}
		close(release)
		if got := <-slow; got != 201 {
			t.Errorf("the payment under way: %d", got)
		}
		if err := <-r.done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

// A POST that crosses with the closing of its connection is refused, a read is answered.
func TestDrainingRefusesNewCommands(t *testing.T) {
	a := newAPI(t)
	a.router.phase.Store(phaseLeaving)
	if res := a.post("/v1/payments", goodBody); res.StatusCode != 201 || res.Header.Get("Connection") != "close" {
		t.Errorf("leaving: %d, Connection %q", res.StatusCode, res.Header.Get("Connection"))
	}
	a.script.asked = nil
	a.router.phase.Store(phaseDraining)
	res := a.post("/v1/payments", goodBody)
	a.wantRefused(res, 503, CodeDraining, "")
	if res.Header.Get("Retry-After") != "1" || res.Header.Get("Connection") != "close" {
		t.Errorf("%v", res.Header)
	}
	if res := a.get("/v1/payments/" + payID); res.StatusCode != 200 {
		t.Errorf("a read: %d", res.StatusCode)
	}
}

// A request that never ends is cut off after DrainTimeout, and Serve says so.
func TestDrainTimeout(t *testing.T) {
	loadContract()
	synctest.Test(t, func(t *testing.T) {
		r := serve(t, func(c *Config) { c.DrainTimeout = 30 * time.Second })
		entered := make(chan struct{})
		r.script.during = func(ctx context.Context) {
			close(entered)
			<-ctx.Done() // ends when the connection is cut
		}
		failed := make(chan error)
		go func() {
			_, _, _, err := r.send("POST", "/v1/payments")
			failed <- err
		}()
		<-entered
		begin := time.Now()
		r.stop()
		if err := <-r.done; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Serve: %v", err)
		}
		if took := time.Since(begin); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("after %s", took)
		}
		if err := <-failed; err == nil {
			t.Error("the caller got an answer")
		}
	})
}

func TestServeReportsABrokenListener(t *testing.T) {
	loadContract()
	synctest.Test(t, func(t *testing.T) {
		r := serve(t, func(c *Config) { c.DrainDelay = time.Hour })
		r.pipes.Close()
		if err := <-r.done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
		// While leaving it does not wait for the delay.
		r = serve(t, func(c *Config) { c.DrainDelay = time.Hour })
		r.want("GET", "/livez", 200)
		r.stop()
		synctest.Wait()
		begin := time.Now()
		r.pipes.Close()
		if err := <-r.done; !errors.Is(err, net.ErrClosed) || time.Since(begin) > time.Minute {
			t.Errorf("Serve: %v after %s", err, time.Since(begin))
		}
	})
}

// A caller that sends its headers or body too slowly is cut off.
func TestSlowCallers(t *testing.T) {
	loadContract()
	for name, begin := range map[string]string{
		"headers": "POST /v1/payments HTTP/1.1\r\nHost: router\r\n",
		"body": "POST /v1/payments HTTP/1.1\r\nHost: router\r\nAuthorization: Bearer tk_shop_a\r\nContent-Type: application/json\r\n" +
			"Idempotency-Key: k\r\nContent-Length: 100\r\n\r\n{",
	} {
		synctest.Test(t, func(t *testing.T) {
			r := serve(t, func(*Config) {})
			conn, err := r.pipes.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			start := time.Now()
			go io.WriteString(conn, begin)
			if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(start); took > 16*time.Second || len(r.script.asked) > 0 {
				t.Errorf("%s: held for %s, asked %v", name, took, r.script.asked)
			}
			r.stop()
			if err := <-r.done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestReadiness(t *testing.T) {
	a := newAPI(t)
	if res := a.get("/readyz"); res.StatusCode != 200 || res.body != `{"status":"pass"}` {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
	a.script.ready = errors.New("shard s3: refused")
	res := a.get("/readyz")
	if p := res.problem(t); p.Status != 503 || p.Code != CodeNotReady || strings.Contains(res.body, "s3") || !strings.Contains(a.log.String(), "shard s3") {
		t.Errorf("%s\n%s", res.body, a.log)
	}
	if res := a.get("/livez"); res.StatusCode != 200 {
		t.Errorf("liveness asks a shard: %d", res.StatusCode)
	}
}
