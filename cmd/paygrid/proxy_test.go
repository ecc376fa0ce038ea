package main

import (
	"bytes"
	"io"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"paygrid/shard"
)

// proxy stands between a router and a shard's database. It delays answers, or is cut.
type proxy struct {
	target string

	mu       sync.Mutex
	listener net.Listener // nil while cut
	address  string       // stays the same when it is mended
	conns    map[net.Conn]bool
	needle   []byte        // what a request must contain …
	delay    time.Duration // … for its answer to be held back this long
	held     int           // how many were
	wait     sync.WaitGroup
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	p := &proxy{target: target, address: "127.0.0.1:0", conns: map[net.Conn]bool{}}
	p.mend(t)
	t.Cleanup(func() {
		p.cut()
		p.wait.Wait()
	})
	return p
}

// mend listens (again), on the same address.
func (p *proxy) mend(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		t.Error(err) // it may run beside the test's own goroutine
		return
	}
	p.mu.Lock()
	p.listener, p.address = l, l.Addr().String()
	p.mu.Unlock()
	p.wait.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.wait.Go(func() { p.serve(conn) })
		}
	})
}

// cut refuses new connections and breaks those that are there.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for conn := range p.conns {
		_ = conn.Close()
	}
}

// hold delays the answers to requests that contain needle; "" ends it.
func (p *proxy) hold(needle string, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.needle, p.delay = []byte(needle), delay
}

func (p *proxy) heldSoFar() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// track remembers a connection so that cut can break it; false if it is cut already.
func (p *proxy) track(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		_ = conn.Close()
		return false
	}
	p.conns[conn] = true
	return true
}

func (p *proxy) forget(conn net.Conn) {
	_ = conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// serve carries one connection until either side ends it.
func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	if !p.track(client) || !p.track(server) {
		_ = client.Close()
		_ = server.Close()
		return
	}
	holds := make(chan time.Time, 1) // until when the next answer waits
	over := make(chan struct{})
	p.wait.Go(func() {
		p.requests(server, client, holds)
		p.forget(server)
		close(over)
	})
	answers(client, server, holds, over)
	p.forget(client)
	p.forget(server)
}

func (p *proxy) requests(server io.Writer, client io.Reader, holds chan time.Time) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := client.Read(chunk)
		if n > 0 {
			p.mu.Lock()
			if len(p.needle) > 0 && bytes.Contains(chunk[:n], p.needle) {
				p.held++
				select {
				case holds <- time.Now().Add(p.delay):
				default: // one is held already
				}
			}
			p.mu.Unlock()
			if _, err := server.Write(chunk[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func answers(client io.Writer, server io.Reader, holds chan time.Time, over chan struct{}) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := server.Read(chunk)
		select {
		case until := <-holds:
			timer := time.NewTimer(time.Until(until))
			select {
			case <-timer.C:
			case <-over: // the client has left: nobody waits
			}
			timer.Stop()
		default:
		}
		if n > 0 {
			if _, err := client.Write(chunk[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// behindProxies starts a router that reaches every shard through a proxy, and returns the proxies by shard.
func (g *testGrid) behindProxies(t *testing.T, statement time.Duration) (caller, map[string]*proxy) {
	t.Helper()
	m := *g.shardMap(t)
	m.URLs = maps.Clone(m.URLs)
	proxies := map[string]*proxy{}
	for name, text := range m.URLs {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		proxies[name] = newProxy(t, u.Host)
		u.Host = proxies[name].address
		m.URLs[name] = u.String()
	}
	path := filepath.Join(t.TempDir(), "proxied.json")
	if err := shard.NewMapFile(path).Write(&m); err != nil {
		t.Fatal(err)
	}
	return g.addRouter(t, func(c *routerConfig) { c.Map, c.StatementMS = path, statement.Milliseconds() }), proxies
}
