package loadtest

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Quantile is the q-quantile of durations by the nearest rank; 0 if there are none. It sorts its argument.
func Quantile(durations []time.Duration, q float64) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	slices.Sort(durations)
	rank := int(math.Ceil(q * float64(len(durations))))
	return durations[min(max(rank, 1), len(durations))-1]
}

// Histogram is a Prometheus histogram of seconds: Counts[n] observations were at most Bounds[n], the last of which is
// infinite.
type Histogram struct {
	Bounds []float64
	Counts []uint64
}

// Count is how many observations there are.
func (h Histogram) Count() uint64 {
	if len(h.Counts) == 0 {
		return 0
	}
	return h.Counts[len(h.Counts)-1]
}

// Plus adds a histogram of the same bounds, or of none. Others are an error: their counts do not add up.
func (h Histogram) Plus(other Histogram) (Histogram, error) {
	if len(h.Bounds) == 0 {
		return other, nil
	}
	if !slices.Equal(h.Bounds, other.Bounds) {
		return h, fmt.Errorf("loadtest: histograms with bounds %v and %v cannot be added", h.Bounds, other.Bounds)
	}
	sum := Histogram{Bounds: h.Bounds, Counts: slices.Clone(h.Counts)}
	for n := range sum.Counts {
		sum.Counts[n] += other.Counts[n]
	}
	return sum, nil
}

// Quantile is the q-quantile in seconds, by linear interpolation in its bucket as Prometheus does it; the last finite bound
// if it lies above that, and 0 without observations.
func (h Histogram) Quantile(q float64) float64 {
	rank := q * float64(h.Count())
	below, lower := uint64(0), 0.0
	for n, upper := range h.Bounds {
		inside := h.Counts[n] - below
		if float64(h.Counts[n]) >= rank && inside > 0 {
			if math.IsInf(upper, 1) {
				return lower
			}
			return lower + (upper-lower)*(rank-float64(below))/float64(inside)
		}
		below, lower = h.Counts[n], upper
	}
	return 0
}

// Scrape reads the histograms of one name from routers' /metrics, added up by the value of one label.
func Scrape(ctx context.Context, urls []string, name, label string) (map[string]Histogram, error) {
	sum := map[string]Histogram{}
	for _, url := range urls {
		one, err := scrapeOne(ctx, url, name, label)
		if err != nil {
			return nil, err
		}
		for value, h := range one {
			if sum[value], err = sum[value].Plus(h); err != nil {
				return nil, err
			}
		}
	}
	return sum, nil
}

func scrapeOne(ctx context.Context, url, name, label string) (map[string]Histogram, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s/metrics: HTTP %d", url, response.StatusCode)
	}
	return parseHistograms(response.Body, name, label)
}

// parseHistograms reads Prometheus' text format.
func parseHistograms(from io.Reader, name, label string) (map[string]Histogram, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(from)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	out := map[string]Histogram{}
	for _, metric := range families[name].GetMetric() {
		value := labelOf(metric, label)
		h := Histogram{}
		for _, bucket := range metric.GetHistogram().GetBucket() {
			h.Bounds = append(h.Bounds, bucket.GetUpperBound())
			h.Counts = append(h.Counts, bucket.GetCumulativeCount())
		}
		if out[value], err = out[value].Plus(h); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func labelOf(metric *dto.Metric, name string) string {
	for _, pair := range metric.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}
