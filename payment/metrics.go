package payment

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"paygrid/psprouter"
)

// metrics are what the commands tell. No label is unbounded.
type metrics struct {
	outcomes *prometheus.CounterVec
	calls    *prometheus.HistogramVec
	alerts   *prometheus.CounterVec
	unsaved  *prometheus.CounterVec
	races    *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_psp_outcomes_total",
			Help: "What PSP calls told us."}, []string{"psp", "operation", "outcome"}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "paygrid_psp_call_seconds",
			Help: "Time of one PSP call.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 13)}, []string{"psp", "operation"}),
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_psp_contradictions_total",
			Help: "PSP answers that do not fit what was asked; a person must look."}, []string{"psp", "operation"}),
		unsaved: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_outcomes_unsaved_total",
			Help: "Outcomes that could not be committed; their attempts stay pending."}, []string{"operation"}),
		races: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_command_races_total",
			Help: "Decisions made anew because somebody else changed the payment first."}, []string{"operation"}),
	}
	if r != nil {
		r.MustRegister(m.outcomes, m.calls, m.alerts, m.unsaved, m.races)
	}
	return m
}

func (m *metrics) called(psp, operation string, o psprouter.Outcome, took time.Duration) {
	m.outcomes.WithLabelValues(psp, operation, o.Class().String()).Inc()
	m.calls.WithLabelValues(psp, operation).Observe(took.Seconds())
}
