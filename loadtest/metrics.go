package loadtest

import (
	"context"
	"fmt"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Metrics is what several routers counted.
type Metrics struct {
	routers []map[string]*dto.MetricFamily
}

// ScrapeAll reads routers' /metrics.
func ScrapeAll(ctx context.Context, urls []string) (*Metrics, error) {
	m := &Metrics{}
	for _, url := range urls {
		if err := m.scrape(ctx, url); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) scrape(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s/metrics: HTTP %d", url, response.StatusCode)
	}
	return m.parse(response.Body)
}

// parse reads Prometheus' text format.
func (m *Metrics) parse(from io.Reader) error {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(from)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	m.routers = append(m.routers, families)
	return nil
}

// Histograms are those of one name, added up by the value of one label.
func (m *Metrics) Histograms(name, label string) (map[string]Histogram, error) {
	out := map[string]Histogram{}
	for _, families := range m.routers {
		for _, metric := range families[name].GetMetric() {
			value := labelsOf(metric)[label]
			h := Histogram{}
			for _, bucket := range metric.GetHistogram().GetBucket() {
				h.Bounds = append(h.Bounds, bucket.GetUpperBound())
				h.Counts = append(h.Counts, bucket.GetCumulativeCount())
			}
			var err error
			if out[value], err = out[value].Plus(h); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// Counters visits all counters of one name.
func (m *Metrics) Counters(name string, visit func(labels map[string]string, value float64)) {
	for _, families := range m.routers {
		for _, metric := range families[name].GetMetric() {
			visit(labelsOf(metric), metric.GetCounter().GetValue())
		}
	}
}

func labelsOf(metric *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, pair := range metric.GetLabel() {
		out[pair.GetName()] = pair.GetValue()
	}
	return out
}
