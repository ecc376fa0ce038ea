package router

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are labelled only by what we choose: route templates, methods that we serve, statuses.
type metrics struct {
	requests *prometheus.CounterVec   // route, method, status
	seconds  *prometheus.HistogramVec // route
	ownShare *prometheus.HistogramVec // route
	inFlight prometheus.Gauge
	panics   prometheus.Counter
}

// Labels for what is outside the table of routes, so that callers cannot make label values.
const (
	routeUnmatched = "unmatched"
	methodOther    = "OTHER"
)

// ownShareBuckets in seconds are fine around 100 ms, where our promise lies (p99).
func ownShareBuckets() []float64 {
	return []float64{.001, .002, .003, .005, .0075, .01, .015, .02, .03, .04, .05, .06, .07, .08, .09, .1, .11, .125, .15, .2, .3, .5, .75, 1, 2}
}

// requestBuckets in seconds reach over a PSP's time-out.
func requestBuckets() []float64 {
	return []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

func newMetrics(registry prometheus.Registerer, version string) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_http_requests_total",
			Help: "Requests answered."}, []string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "paygrid_http_request_seconds",
			Help: "Time to answer a request, the PSP's included.", Buckets: requestBuckets()}, []string{"route"}),
		ownShare: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "paygrid_own_share_seconds",
			Help: "Time to answer a command that was carried out, less the time spent waiting for the PSP.", Buckets: ownShareBuckets()}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "paygrid_http_requests_in_flight",
			Help: "Requests being answered now."}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{Name: "paygrid_http_panics_total",
			Help: "Requests that met a fault of ours."}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "paygrid_build_info", Help: "Always 1.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()}})
	build.Set(1)
	for _, c := range []prometheus.Collector{m.requests, m.seconds, m.ownShare, m.inFlight, m.panics, build} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("router: register metrics: %w", err)
		}
	}
	return m, nil
}

// count notes one answered request.
func (m *metrics) count(route, method string, status int, took time.Duration, x *exchange) {
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
	if x.answered {
		m.ownShare.WithLabelValues(route).Observe(x.ownShare(took).Seconds())
	}
}

// methodLabel keeps invented methods out of the label's values.
func methodLabel(method string) string {
	known := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead, http.MethodOptions}
	if slices.Contains(known, method) {
		return method
	}
	return methodOther
}
