package payment

import (
	"errors"
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
	panics   *prometheus.CounterVec
	races    *prometheus.CounterVec
	shed     *prometheus.CounterVec
	limit    *prometheus.GaugeVec
	waiting  *prometheus.GaugeVec

	escalated *prometheus.CounterVec
	reversals *prometheus.CounterVec
	notices   *prometheus.CounterVec
	applied   *prometheus.CounterVec
	refused   *prometheus.CounterVec
	pending   *prometheus.GaugeVec
	oldest    *prometheus.GaugeVec
	inbox     *prometheus.GaugeVec
	inboxLag  *prometheus.GaugeVec
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
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_panics_total",
			Help: "Faults of ours that ended a command, one item of background work, or a round of it."}, []string{"in"}),
		races: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_command_races_total",
			Help: "Decisions made anew because somebody else changed the payment first."}, []string{"operation"}),
		shed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_commands_shed_total",
			Help: "Commands turned away under stress, before anything was done."}, []string{"shard", "class"}),
		limit: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "paygrid_shard_limit",
			Help: "Writes of this process that may wait for a shard before commands are turned away."}, []string{"shard"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "paygrid_shard_waiting",
			Help: "Writes of this process that wait for a shard."}, []string{"shard"}),
		escalated: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_attempts_escalated_total",
			Help: "Attempts without an answer after many checks; a person must look."}, []string{"psp", "operation"}),
		reversals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_psp_reversals_total",
			Help: "Successes that a PSP took back; a person must look."}, []string{"operation"}),
		notices: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_webhook_notices_total",
			Help: "Notices taken, by whether they were new."}, []string{"psp", "result"}),
		applied: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_inbox_results_total",
			Help: "What became of notices each time they were looked at."}, []string{"psp", "state"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_webhook_rejects_total",
			Help: "Webhooks refused, by fault."}, []string{"psp", "fault"}),
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "paygrid_attempts_pending",
			Help: "Attempts without an answer that are at least as old as the label says."}, []string{"shard", "older_than"}),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "paygrid_attempts_pending_oldest_seconds",
			Help: "Age of the oldest attempt without an answer."}, []string{"shard"}),
		inbox: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "paygrid_inbox_waiting",
			Help: "Notices that wait to be applied."}, []string{"shard"}),
		inboxLag: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "paygrid_inbox_lag_seconds",
			Help: "Age of the oldest notice that waits to be applied."}, []string{"shard"}),
	}
	if r != nil {
		r.MustRegister(m.outcomes, m.calls, m.alerts, m.unsaved, m.panics, m.races, m.escalated, m.reversals, m.notices, m.applied, m.refused, m.pending,
			m.oldest, m.inbox, m.inboxLag, m.shed, m.limit, m.waiting)
	}
	return m
}

// rejected counts a webhook that was refused.
func (m *metrics) rejected(psp string, err error) {
	fault := "unreadable"
	var refused *psprouter.WebhookError
	if errors.As(err, &refused) {
		fault = string(refused.Why)
	}
	m.refused.WithLabelValues(psp, fault).Inc()
}

// notice counts a notice that was stored, or was there already.
func (m *metrics) notice(psp string, stored bool) {
	result := "again"
	if stored {
		result = "new"
	}
	m.notices.WithLabelValues(psp, result).Inc()
}

func (m *metrics) called(psp, operation string, o psprouter.Outcome, took time.Duration) {
	m.outcomes.WithLabelValues(psp, operation, o.Class().String()).Inc()
	m.calls.WithLabelValues(psp, operation).Observe(took.Seconds())
}
