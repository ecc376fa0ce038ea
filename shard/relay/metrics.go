package relay

import "github.com/prometheus/client_golang/prometheus"

// metrics are what a process tells of its relays. A shard's gauges are told by whoever holds its lease.
type metrics struct {
	lagEvents  *prometheus.GaugeVec
	lagSeconds *prometheus.GaugeVec
	held       *prometheus.GaugeVec
	leader     *prometheus.GaugeVec
	errors     *prometheus.CounterVec
	parked     *prometheus.CounterVec
	published  *prometheus.CounterVec
	pruned     *prometheus.CounterVec
	delay      *prometheus.HistogramVec
	round      *prometheus.HistogramVec
}

// shardMetrics are those that every event or round of one shard counts.
type shardMetrics struct {
	published prometheus.Counter
	pruned    prometheus.Counter
	delay     prometheus.Observer
	round     prometheus.Observer
}

func newMetrics(r prometheus.Registerer) *metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "paygrid_relay_" + name, Help: help}, append([]string{"shard"}, labels...))
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "paygrid_relay_" + name, Help: help}, append([]string{"shard"}, labels...))
	}
	m := &metrics{
		lagEvents:  gauge("lag_events", "Events that committed and are not yet passed by the relay."),
		lagSeconds: gauge("lag_seconds", "Age of the oldest event that is not yet passed by the relay."),
		held:       gauge("parked_payments", "Payments whose events wait because one of them was refused, by state.", "state"),
		leader:     gauge("leader", "1 where this process holds the shard's lease."),
		errors:     counter("publish_errors_total", "Records that were not acknowledged, by whose fault: event, broker or unclear.", "fault"),
		parked:     counter("parked_total", "Payments given up after the set number of tries: people must look."),
		published:  counter("published_total", "Records acknowledged by the broker, duplicates included."),
		pruned:     counter("pruned_total", "Published events removed from the outbox."),
		delay: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "paygrid_relay_commit_to_topic_seconds",
			Help:    "Time from an event's decision, its commit included, to the broker's acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2, 16)}, []string{"shard"}),
		round: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "paygrid_relay_round_events", Help: "Events per round that passed some.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11)}, []string{"shard"}),
	}
	if r != nil {
		r.MustRegister(m.lagEvents, m.lagSeconds, m.held, m.leader, m.errors, m.parked, m.published, m.pruned, m.delay, m.round)
	}
	return m
}

// of looks a shard's up once: a label costs more than counting does.
func (m *metrics) of(shardName string) shardMetrics {
	return shardMetrics{published: m.published.WithLabelValues(shardName), pruned: m.pruned.WithLabelValues(shardName),
		delay: m.delay.WithLabelValues(shardName), round: m.round.WithLabelValues(shardName)}
}

// forget drops the gauges of a shard that another relay now tells.
func (m *metrics) forget(shardName string) {
	labels := prometheus.Labels{"shard": shardName}
	for _, gauge := range []*prometheus.GaugeVec{m.lagEvents, m.lagSeconds, m.held, m.leader} {
		gauge.DeletePartialMatch(labels)
	}
}
