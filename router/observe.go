package router

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"

	"paygrid/payment"
)

const requestIDHeader = "X-Request-Id"

// exchange is what a request gathers on its way for its one log record and its metrics. It never holds a value that
// the caller chose, but for the request ID and the form of a payment ID.
type exchange struct {
	requestID string
	client    string
	paymentID string
	code      payment.Code  // "" unless refused
	cause     error         // behind a refusal
	stack     []byte        // of a panic
	answered  bool          // the domain carried a command out (or replayed it)
	pspTime   time.Duration // part of the request's time
}

// ownShare is the part of took that was not spent waiting for the PSP. Two clocks measure the two, so that their
// difference can be below zero by a hair.
func (x *exchange) ownShare(took time.Duration) time.Duration { return max(0, took-x.pspTime) }

const exchangeKey = "paygrid/router.exchange"

// exchangeOf is set by observe, which is in front of every handler.
func exchangeOf(c *gin.Context) *exchange { return c.MustGet(exchangeKey).(*exchange) }

// observe is the outermost layer of every request, known route or not.
func (r *Router) observe(c *gin.Context) {
	begin := r.now()
	x := &exchange{requestID: requestIDOf(c.Request.Header)}
	c.Set(exchangeKey, x)
	r.setCommonHeaders(c.Writer.Header(), x)
	r.metrics.inFlight.Inc()
	defer r.metrics.inFlight.Dec()
	defer func() { r.record(c, x, r.now().Sub(begin)) }()
	defer r.recoverPanic(c)
	c.Next()
}

// setCommonHeaders adds what every answer has. An answer of a router that is leaving asks the caller to connect anew,
// by then to another one.
func (r *Router) setCommonHeaders(h http.Header, x *exchange) {
	h.Set(requestIDHeader, x.requestID)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.phase.Load() != phaseServing {
		h.Set("Connection", "close")
	}
}

// requestIDOf takes over the caller's request ID if it is one line of harmless characters, else makes one. What looks
// like a card number is not harmless: the ID is logged and echoed.
func requestIDOf(h http.Header) string {
	if lines := h.Values(requestIDHeader); len(lines) == 1 && isRequestID(lines[0]) && !holdsCardNumber(lines[0]) {
		return lines[0]
	}
	return "req_" + rand.Text()
}

func isRequestID(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= requestIDBytesMax
}

// recoverPanic turns a panic into a 500, or cuts the connection if an answer has begun: half an answer must not look
// like a whole one.
func (r *Router) recoverPanic(c *gin.Context) {
	fault := recover()
	if fault == nil {
		return
	}
	begun := c.Writer.Written()
	r.panicked(c, fmt.Errorf("panic: %v", fault), debug.Stack())
	if begun {
		panic(http.ErrAbortHandler)
	}
}

// panicked counts a panic, of the request or of its command, and answers for it if no answer has begun.
func (r *Router) panicked(c *gin.Context, cause error, stack []byte) {
	r.metrics.panics.Inc()
	if !c.Writer.Written() {
		r.internal(c)
	}
	x := exchangeOf(c)
	x.code, x.cause, x.stack = CodeInternal, cause, stack
}

// record writes the request's one log record and counts it. It names the route by its template: a path may hold
// anything.
func (r *Router) record(c *gin.Context, x *exchange, took time.Duration) {
	route := orElse(c.FullPath(), routeUnmatched)
	method := methodLabel(c.Request.Method)
	status := c.Writer.Status()
	r.metrics.count(route, method, status, took, x)
	level, ctx := levelOf(route, status, x), c.Request.Context()
	if !r.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", x.requestID), slog.String("client", x.client),
		slog.String("method", method), slog.String("route", route),
		slog.String("payment_id", x.paymentID), slog.Int("status", status),
		slog.Duration("duration", took), slog.Duration("psp_time", x.pspTime),
	}
	if x.code != "" {
		attrs = append(attrs, slog.String("code", string(x.code)))
	}
	if x.cause != nil {
		attrs = append(attrs, slog.String("cause", loggable(x.cause)))
	}
	if x.stack != nil {
		attrs = append(attrs, slog.String("stack", string(x.stack)))
	}
	r.log.LogAttrs(ctx, level, "request", attrs...)
}

// loggable is the cause's text. A driver may quote values of the request in it, so it is searched as those are.
func loggable(cause error) string {
	if s := cause.Error(); !holdsCardNumber(s) {
		return s
	}
	return "withheld: the text holds what looks like a card number"
}

// levelOf keeps probes out of the way and lifts our own failures up. A declined card or a refused request is business.
func levelOf(route string, status int, x *exchange) slog.Level {
	switch {
	case x.code == CodeInternal:
		return slog.LevelError
	case x.code == payment.CodeOverloaded:
		return slog.LevelDebug // counted, not logged: under stress the log of it would be a part of it
	case status >= http.StatusInternalServerError:
		return slog.LevelWarn
	case route == "/livez" || route == "/readyz" || route == "/metrics":
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
