package router

import (
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Router serves the API. It is safe for concurrent use and keeps nothing between requests.
type Router struct {
	cfg         Config
	payments    Payments
	credentials []credential // of clients
	operators   []credential
	log         *slog.Logger
	now         func() time.Time
	metrics     *metrics
	engine      *gin.Engine
	phase       atomic.Int32 // see serve.go
}

// New makes a router in front of p. Its metrics are registered in registry, which /metrics shows; log gets one record
// per request; now is the clock. An error names the field of cfg that cannot be used, or a metric registered twice.
func New(cfg Config, p Payments, registry *prometheus.Registry, log *slog.Logger, now func() time.Time) (*Router, error) {
	if p == nil || registry == nil || log == nil || now == nil {
		return nil, errors.New("router: New needs payments, registry, log and clock")
	}
	cfg = cfg.withDefaults()
	clients, operators, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(registry, cfg.Version)
	if err != nil {
		return nil, err
	}
	r := &Router{cfg: cfg, payments: p, credentials: clients, operators: operators, log: log, now: now, metrics: m}
	r.engine = r.routes(registry)
	return r, nil
}

// Handler returns the whole API, for a server or a test of one's own.
func (r *Router) Handler() http.Handler { return r.engine }

// routes is the API's table; openapi.yaml must list the same, and a test compares them.
func (r *Router) routes(registry *prometheus.Registry) *gin.Engine {
	gin.SetMode(gin.ReleaseMode) // the debug mode prints routes to standard output
	e := gin.New()
	// A redirect would answer a POST with HTML and a raw path; a near miss is a 404 like any other.
	e.RedirectTrailingSlash, e.RedirectFixedPath = false, false
	e.HandleMethodNotAllowed = true
	e.Use(r.observe)
	e.NoRoute(r.noRoute)
	e.NoMethod(r.noMethod)

	e.GET("/livez", r.livez)
	e.GET("/readyz", r.readyz)
	// Metrics are scraped within a data centre: to compress them costs more than to send them.
	e.GET("/metrics", gin.WrapH(promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true})))
	if r.cfg.ProbesOnly {
		return e
	}
	e.GET("/openapi.yaml", r.openAPI)
	e.POST("/v1/webhooks/:psp", r.webhook)
	e.GET("/v1/operator/psps", r.operatorOnly, r.pspStatus)

	v1 := e.Group("/v1", r.refuseDrain, r.authenticate)
	v1.POST("/payments", r.authorize)
	v1.POST("/payments/:id/confirm", r.confirm)
	v1.POST("/payments/:id/capture", r.capture)
	v1.POST("/payments/:id/void", r.void)
	v1.POST("/payments/:id/refunds", r.refund)
	v1.GET("/payments", r.byOrder)
	v1.GET("/payments/:id", r.get)
	v1.GET("/payments/:id/ledger", r.ledger)
	return e
}
