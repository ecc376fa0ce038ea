package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// severer is a response writer that can lose its connection by itself, as those of Transport can.
type severer interface {
	// sever ends the connection; hard resets it.
	sever(hard bool)
}

// send writes an answer, or fails to in the way asked for.
func (s *Simulator) send(w http.ResponseWriter, httpRequest *http.Request, a answer, b behaviour) {
	switch b.end {
	case dropped, reset:
		cut(w, b.end == reset, nil)
		return
	case resetHeaders:
		cut(w, true, fmt.Appendf(nil, "HTTP/1.1 %d OK\r\nContent-Ty", a.status))
		return
	case resetBody:
		if own, ok := w.(severer); ok {
			w.WriteHeader(a.status)
			_, _ = w.Write(a.body[:len(a.body)/2])
			own.sever(true)
			return
		}
		cut(w, true, fmt.Appendf(nil, "HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n%s", a.status, len(a.body), a.body[:len(a.body)/2]))
		return
	case badGateway, lateGateway:
		a = proxyError(b.end)
	case garbled:
		a = answer{status: http.StatusOK, body: []byte("<html><body>upstream connect error</body></html>")}
	case empty:
		a = answer{status: http.StatusOK}
	case redirected:
		a = answer{status: http.StatusFound, header: map[string]string{"Location": "/elsewhere"}}
	}
	if b.lie != truthful && a.status < http.StatusBadRequest {
		a.body = s.distorted(a.body, b.lie)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(a.body)))
	header.Set("Date", s.opts.Now().UTC().Format(http.TimeFormat)) // by the clock that dates payments
	s.dialect.headers(header, httpRequest.Header, a.replayed)
	for name, value := range a.header {
		header.Set(name, value)
	}
	w.WriteHeader(a.status)
	if b.end == truncated {
		_, _ = w.Write(a.body[:len(a.body)/2]) // net/http then closes the connection
		return
	}
	_, _ = w.Write(a.body) // nobody is left to be told
}

// proxyError is what stands between a client and its PSP has to say.
func proxyError(e ending) answer {
	status := http.StatusBadGateway
	if e == lateGateway {
		status = http.StatusGatewayTimeout
	}
	return answer{status: status, header: map[string]string{"Content-Type": "text/html"},
		body: fmt.Appendf(nil, "<html><body>%d %s</body></html>", status, http.StatusText(status))}
}

// distorted returns an answer's body with one lie in it.
func (s *Simulator) distorted(body []byte, lie distortion) []byte {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var members map[string]any
	if decoder.Decode(&members) != nil {
		return body
	}
	s.dialect.distort(members, lie)
	return encode(members)
}

// bump adds 1 to a number of a decoded body; what is not there or 0 stays.
func bump(members map[string]any, name string) {
	number, _ := members[name].(json.Number)
	if n, err := number.Int64(); err == nil && n != 0 {
		members[name] = n + 1
	}
}

// cut closes the connection, after the first bytes of an answer if any; hard resets it, so that the client sees
// ECONNRESET rather than an end.
func cut(w http.ResponseWriter, hard bool, first []byte) {
	if own, ok := w.(severer); ok {
		own.sever(hard)
		return
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = conn.Write(first)
	if tcp, ok := conn.(*net.TCPConn); ok && hard {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
