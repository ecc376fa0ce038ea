package shard_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"paygrid/shard"
	"paygrid/shard/shardtest"
)

// fault is what a proxy does with a message from the client that carries a rule's marker.
type fault int

const (
	holdAnswer fault = iota // the server gets it; its answer waits until the client has left
	cutBefore               // the connection ends and the server never gets it
	cutAfter                // the server answers, and the connection ends instead of the answer
	tell                    // nothing but to count it
)

// rule hits the next `times` messages with its marker. Statements go as text and arguments as bytes, so a marker is a text
// among the arguments.
type rule struct {
	marker string
	fault  fault
	times  int
	hit    chan struct{} // gets one token per hit
}

// proxy forwards PostgreSQL's protocol between a cluster and its server, and fails by rules.
type proxy struct {
	listener net.Listener
	server   string
	group    sync.WaitGroup

	mu          sync.Mutex
	rules       []*rule
	dropCancels bool
	open        map[net.Conn]bool
	closed      bool
}

// through puts a proxy before the only shard of a layout and returns a layout that goes through it.
func through(t testing.TB, layout shardtest.Layout) (shardtest.Layout, *proxy) {
	t.Helper()
	address, err := url.Parse(layout.URLs[layout.Names[0]])
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{listener: listener, server: address.Host, open: map[net.Conn]bool{}}
	p.group.Go(p.accept)
	t.Cleanup(p.close)

	address.Host = listener.Addr().String()
	layout.URLs = map[string]string{layout.Names[0]: address.String()}
	layout.Map = shard.EvenMap(layout.Names, layout.URLs)
	layout.MapPath = filepath.Join(t.TempDir(), "shards.json")
	must(t, shard.NewMapFile(layout.MapPath).Write(layout.Map))
	return layout, p
}

// add makes a rule; rules are tried in the order in which they were added.
func (p *proxy) add(marker string, f fault, times int) *rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &rule{marker: marker, fault: f, times: times, hit: make(chan struct{}, times)}
	p.rules = append(p.rules, r)
	return r
}

// heal ends all rules.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules, p.dropCancels = nil, false
}

// deafToCancels lets statements run on at the server although the client has given them up, as a cancel request that is
// lost or late does.
func (p *proxy) deafToCancels() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropCancels = true
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.group.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		s := &session{proxy: p, client: client, server: server, left: make(chan struct{})}
		if !p.keep(client, server) {
			return
		}
		p.group.Go(s.requests)
		p.group.Go(s.answers)
	}
}

// keep notes connections for close, and closes them itself if that has been.
func (p *proxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.open[c] = true
		if p.closed {
			_ = c.Close()
		}
	}
	return !p.closed
}

// verdict tells what to do with a message.
func (p *proxy) verdict(message []byte) (fault, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropCancels && len(message) == 16 && binary.BigEndian.Uint32(message[4:]) == 80877102 { // CancelRequest
		return cutBefore, true
	}
	for _, r := range p.rules {
		if r.times > 0 && bytes.Contains(message, []byte(r.marker)) {
			r.times--
			r.hit <- struct{}{}
			return r.fault, true
		}
	}
	return 0, false
}

// session is one connection through the proxy.
type session struct {
	proxy          *proxy
	client, server net.Conn
	left           chan struct{} // closed when the client has left

	mu   sync.Mutex
	next *fault // what becomes of the next answer
}

func (s *session) end() {
	_ = s.client.Close()
	_ = s.server.Close()
}

func (s *session) requests() {
	defer s.end()
	defer close(s.left)
	buffer := make([]byte, 1<<20)
	for {
		n, err := s.client.Read(buffer)
		if err != nil {
			return
		}
		if f, hit := s.proxy.verdict(buffer[:n]); hit {
			if f == cutBefore {
				return
			}
			s.mu.Lock()
			s.next = &f
			s.mu.Unlock()
		}
		if _, err := s.server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (s *session) answers() {
	defer s.end()
	buffer := make([]byte, 1<<20)
	for {
		n, err := s.server.Read(buffer)
		if err != nil {
			return
		}
		s.mu.Lock()
		next := s.next
		s.next = nil
		s.mu.Unlock()
		if next != nil && *next == holdAnswer {
			<-s.left
		}
		if next != nil && *next == cutAfter {
			return
		}
		if _, err := s.client.Write(buffer[:n]); err != nil {
			return
		}
	}
}
