package psptest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
)

// peer is a raw HTTP server: it reads whole requests and answers by hand, so that it can break off anywhere.
type peer struct {
	base string

	mu       sync.Mutex
	requests []request
}

type request struct {
	*http.Request
	body []byte
}

// newPeer serves each request with serve, on any number of connections, until the test ends. A connection is closed
// when serve returns false.
func newPeer(t testing.TB, serve func(*net.TCPConn, request) bool) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{base: "http://" + l.Addr().String()}
	var running sync.WaitGroup
	open := map[net.Conn]bool{}
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			open[conn] = true
			p.mu.Unlock()
			running.Go(func() {
				defer conn.Close()
				p.connection(conn.(*net.TCPConn), serve)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for conn := range open {
			conn.Close()
		}
		p.mu.Unlock()
		running.Wait()
	})
	return p
}

func (p *peer) connection(conn *net.TCPConn, serve func(*net.TCPConn, request) bool) {
	r := bufio.NewReader(conn)
	for {
		got, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(got.Body)
		if err != nil {
			return
		}
		one := request{got, body}
		p.mu.Lock()
		p.requests = append(p.requests, one)
		p.mu.Unlock()
		if !serve(conn, one) {
			return
		}
	}
}

// take returns the requests so far and forgets them.
func (p *peer) take() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.requests
	p.requests = nil
	return all
}

// wire is the response as bytes, its body announced with length bytes more than it has.
func (r Response) wire(more int) string {
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", r.Status, http.StatusText(r.Status), len(r.Body)+more)
	for name, values := range r.Header {
		for _, value := range values {
			head += name + ": " + value + "\r\n"
		}
	}
	return head + "\r\n" + r.Body
}

// answering serves every request with what respond returns.
func answering(respond func(request) Response) func(*net.TCPConn, request) bool {
	return func(c *net.TCPConn, r request) bool {
		_, err := io.WriteString(c, respond(r).wire(0))
		return err == nil
	}
}
