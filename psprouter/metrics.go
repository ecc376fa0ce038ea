package psprouter

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what a router tells. Labels are names of adapters, operations and classes of reasons: all bounded.
type metrics struct {
	choices *prometheus.CounterVec
	limited *prometheus.CounterVec
	trips   *prometheus.CounterVec
	states  *prometheus.GaugeVec
	drained *prometheus.GaugeVec
}

func newMetrics() *metrics {
	return &metrics{
		choices: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_psp_choices_total",
			Help: "Choices of a PSP for a payment, by why; psp is none where nobody could be asked."}, []string{"psp", "reason"}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_psp_limiter_refusals_total",
			Help: "Calls that our own rate limit did not let through."}, []string{"psp"}),
		trips: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_psp_breaker_trips_total",
			Help: "How often a breaker opened."}, []string{"psp", "operation"}),
		states: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "paygrid_psp_breaker_state",
			Help: "0 closed, 1 half open, 2 open."}, []string{"psp", "operation"}),
		drained: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "paygrid_psp_drained",
			Help: "1 if an operator keeps new payments from the PSP."}, []string{"psp"}),
	}
}

func (m *metrics) register(registry prometheus.Registerer, r *Router) error {
	for _, c := range []prometheus.Collector{m.choices, m.limited, m.trips, gauges{r}} {
		if err := registry.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *metrics) tripped(psp, operation string) { m.trips.WithLabelValues(psp, operation).Inc() }

// passedOver counts a call that our own rate limit did not let through; of why else a PSP cannot be asked, gauges tell.
func (m *metrics) passedOver(psp, why string) {
	if why == whyLimited {
		m.limited.WithLabelValues(psp).Inc()
	}
}

// refused counts a payment that nobody could be asked for.
func (m *metrics) refused(err error) {
	class := "no_psp"
	var unavailable *UnavailableError
	var amount *AmountError
	switch {
	case errors.As(err, &unavailable):
		class = "unavailable"
	case errors.As(err, &amount):
		class = "amount"
	}
	m.choices.WithLabelValues("none", class).Inc()
}

// gauges are read when they are asked for: a breaker turns half-open by time alone, and no event tells.
type gauges struct{ r *Router }

// Describe implements prometheus.Collector.
func (g gauges) Describe(ch chan<- *prometheus.Desc) {
	g.r.metrics.states.Describe(ch)
	g.r.metrics.drained.Describe(ch)
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	for _, p := range g.r.paths {
		for operation, gate := range p.gates {
			if gate.breaker != nil {
				g.r.metrics.states.WithLabelValues(p.name, operation).Set(float64(gate.breaker.State()))
			}
		}
		drained := 0
		if p.drained.Load() != nil {
			drained = 1
		}
		g.r.metrics.drained.WithLabelValues(p.name).Set(float64(drained))
	}
	g.r.metrics.states.Collect(ch)
	g.r.metrics.drained.Collect(ch)
}
