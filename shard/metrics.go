package shard

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what a process tells of its shards. No label is unbounded.
type Metrics struct {
	retries    *prometheus.CounterVec
	readBacks  *prometheus.CounterVec
	fenced     *prometheus.CounterVec
	batch      *prometheus.HistogramVec
	statements *prometheus.HistogramVec
	now        func() time.Time
}

// NewMetrics makes the metrics and registers them; r may be nil.
func NewMetrics(r prometheus.Registerer, now func() time.Time) *Metrics {
	m := &Metrics{
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_shard_retries_total",
			Help: "Statements run again because the database asked for it (40001, 40P01)."}, []string{"shard", "op"}),
		readBacks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_shard_read_backs_total",
			Help: "Changes whose commit was in doubt, by what reading back found."}, []string{"shard", "op", "result"}),
		fenced: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_shard_fenced_total",
			Help: "Calls refused by the bucket fence: the shard map was old."}, []string{"shard"}),
		batch: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "paygrid_shard_batch_changes",
			Help: "Changes per statement.", Buckets: prometheus.ExponentialBuckets(1, 2, 8)}, []string{"shard", "op"}),
		statements: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "paygrid_shard_statement_seconds",
			Help: "Time of one write statement, its commit included.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)},
			[]string{"shard", "op"}),
		now: now,
	}
	if r != nil {
		r.MustRegister(m.retries, m.readBacks, m.fenced, m.batch, m.statements)
	}
	return m
}

// time starts a measurement; the returned function ends it.
func (m *Metrics) time(shard, op string) func() {
	start := m.now()
	return func() { m.statements.WithLabelValues(shard, op).Observe(m.now().Sub(start).Seconds()) }
}
