package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Probe reads routers' and workers' /metrics again and again, and adds up what they count although one of them may die and
// begin at zero. It is safe for concurrent use.
type Probe struct {
	urls  []string
	names map[string]string // what the plots call them
	start time.Time
	now   func() time.Time
	http  *http.Client

	mu       sync.Mutex
	last     map[string]map[string]Histogram // url -> route -> own share, as it stood
	counted  map[string]map[string]float64   // url -> counter, as it stood
	own      map[string]Histogram            // route -> all
	each     map[string]*seen                // url -> what this run saw of it
	recent   []round                         // of authorizations
	totals   map[string]float64
	series   map[string]*Series
	gauges   map[string]float64 // last values, the worst of all processes
	failures int
}

// seen is what a run saw of one process.
type seen struct {
	own    map[string]Histogram // route -> all
	recent []round
	totals map[string]float64
	starts []float64 // of the process, in seconds since 1970
}

// round is what our own share of authorizations grew by until a time of the run.
type round struct {
	at  time.Duration
	own Histogram
}

const (
	ownShareName   = "paygrid_own_share_seconds"
	authorizeRoute = "/v1/payments"
	probeTimeout   = 2 * time.Second
	recentRounds   = 5
)

// NewProbe takes the base URLs and what to call them ("router 1").
func NewProbe(urls []string, names map[string]string, start time.Time, now func() time.Time) *Probe {
	return &Probe{urls: urls, names: names, start: start, now: now, http: &http.Client{Timeout: probeTimeout}, last: map[string]map[string]Histogram{},
		each: map[string]*seen{}, counted: map[string]map[string]float64{}, own: map[string]Histogram{}, totals: map[string]float64{}, series: map[string]*Series{},
		gauges: map[string]float64{}}
}

// Round reads every process once. One that does not answer is left out and counted: it may be dead on purpose.
func (p *Probe) Round(ctx context.Context) {
	families := make([]map[string]*dto.MetricFamily, len(p.urls))
	var group sync.WaitGroup
	for n, url := range p.urls {
		group.Go(func() { families[n], _ = p.fetch(ctx, url) })
	}
	group.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.now().Sub(p.start)
	var own Histogram
	clear(p.gauges)
	for n, url := range p.urls {
		if families[n] == nil {
			p.failures++
			continue
		}
		if delta, err := p.histograms(url, families[n]); err == nil {
			p.of(url).recent = append(p.of(url).recent, round{at, delta})
			if sum, err := own.Plus(delta); err == nil {
				own = sum
			}
		}
		p.counters(url, families[n])
		p.process(url, at, families[n])
	}
	p.recent = append(p.recent, round{at, own})
	if own.Count() > 0 {
		p.plot("Own share of authorizations", "p50", "ms").add(at, own.Quantile(.50)*1000)
		p.plot("Own share of authorizations", "p99", "ms").add(at, own.Quantile(.99)*1000)
	}
	p.plot("Lag", "inbox, oldest", "s").add(at, p.gauges["paygrid_inbox_lag_seconds"])
	p.plot("Lag", "attempts without an answer, oldest", "s").add(at, p.gauges["paygrid_attempts_pending_oldest_seconds"])
}

// Begin forgets what was seen so far, but not where the counters stand: a run counts what comes after.
func (p *Probe) Begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own, p.recent, p.totals, p.series, p.failures = map[string]Histogram{}, nil, map[string]float64{}, map[string]*Series{}, 0
	clear(p.each)
}

// of is what was seen of a process.
func (p *Probe) of(url string) *seen {
	if p.each[url] == nil {
		p.each[url] = &seen{own: map[string]Histogram{}, totals: map[string]float64{}}
	}
	return p.each[url]
}

func (p *Probe) fetch(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := p.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s/metrics: HTTP %d", url, response.StatusCode)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// histograms adds what the own share grew by, and returns that of authorizations.
func (p *Probe) histograms(url string, families map[string]*dto.MetricFamily) (authorizations Histogram, err error) {
	if p.last[url] == nil {
		p.last[url] = map[string]Histogram{}
	}
	for _, metric := range families[ownShareName].GetMetric() {
		route := labelled(metric, "route")
		h := Histogram{}
		for _, bucket := range metric.GetHistogram().GetBucket() {
			h.Bounds = append(h.Bounds, bucket.GetUpperBound())
			h.Counts = append(h.Counts, bucket.GetCumulativeCount())
		}
		delta := h.since(p.last[url][route])
		p.last[url][route] = h
		sum, failed := p.own[route].Plus(delta)
		if err = errors.Join(err, failed); failed == nil {
			p.own[route] = sum
		}
		if one, err := p.of(url).own[route].Plus(delta); err == nil {
			p.of(url).own[route] = one
		}
		if route == authorizeRoute {
			authorizations = delta
		}
	}
	return authorizations, err
}

// since is what a histogram grew by. One that shrank belongs to a new process: all of it is new.
func (h Histogram) since(before Histogram) Histogram {
	if !slices.Equal(h.Bounds, before.Bounds) || h.Count() < before.Count() {
		return h
	}
	out := Histogram{Bounds: h.Bounds, Counts: slices.Clone(h.Counts)}
	for n := range out.Counts {
		out.Counts[n] -= min(before.Counts[n], out.Counts[n])
	}
	return out
}

// probed are the counters that the report shows, with the labels that it keeps.
var probed = map[string][]string{
	"paygrid_psp_choices_total":       {"psp"},
	"paygrid_psp_outcomes_total":      {"psp", "outcome"},
	"paygrid_psp_breaker_trips_total": {"psp"},
	"paygrid_http_requests_total":     {"status"},
	"paygrid_webhook_notices_total":   {"psp", "result"},
}

func (p *Probe) counters(url string, families map[string]*dto.MetricFamily) {
	now := map[string]float64{}
	for name, labels := range probed {
		for _, metric := range families[name].GetMetric() {
			key := []string{name}
			for _, label := range labels {
				key = append(key, labelled(metric, label))
			}
			now[strings.Join(key, " ")] += metric.GetCounter().GetValue()
		}
	}
	for key, value := range now {
		before := p.counted[url][key]
		if value < before {
			before = 0 // a new process
		}
		p.totals[key] += value - before
		p.of(url).totals[key] += value - before
	}
	p.counted[url] = now
}

// process plots what one process uses, and keeps the worst of the gauges that all shards have.
func (p *Probe) process(url string, at time.Duration, families map[string]*dto.MetricFamily) {
	one := func(name string) float64 {
		if metrics := families[name].GetMetric(); len(metrics) == 1 {
			return metrics[0].GetGauge().GetValue()
		}
		return 0
	}
	name := cmp.Or(p.names[url], url)
	if began := one("process_start_time_seconds"); began > 0 && !slices.Contains(p.of(url).starts, began) {
		p.of(url).starts = append(p.of(url).starts, began)
	}
	p.plot("Memory", name, "MiB").add(at, one("process_resident_memory_bytes")/(1<<20))
	p.plot("Goroutines", name, "").add(at, one("go_goroutines"))
	p.plot("Connections and files open", name, "").add(at, one("process_open_fds"))
	for _, gauge := range []string{"paygrid_inbox_lag_seconds", "paygrid_attempts_pending_oldest_seconds", "paygrid_attempts_pending", "paygrid_inbox_waiting"} {
		for _, metric := range families[gauge].GetMetric() {
			p.gauges[gauge] = math.Max(p.gauges[gauge], metric.GetGauge().GetValue())
		}
	}
}

func (p *Probe) plot(plot, name, unit string) *Series {
	key := plot + "\x00" + name
	if p.series[key] == nil {
		p.series[key] = &Series{Plot: plot, Name: name, Unit: unit}
	}
	return p.series[key]
}

// Waiting is how many attempts without an answer and notices not yet applied the last round saw on the worst shard.
func (p *Probe) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.gauges["paygrid_attempts_pending"] + p.gauges["paygrid_inbox_waiting"])
}

// OwnLately is the 99th percentile of our own share of authorizations in the last rounds; 0 without any.
func (p *Probe) OwnLately() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return ownOf(p.recent[max(0, len(p.recent)-recentRounds):])
}

// OwnBetween is the same for the rounds that ended after from and not after to.
func (p *Probe) OwnBetween(from, to time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return ownOf(between(p.recent, from, to))
}

func between(rounds []round, from, to time.Duration) []round {
	return slices.DeleteFunc(slices.Clone(rounds), func(r round) bool { return r.at <= from || r.at > to })
}

func ownOf(rounds []round) time.Duration { return p99(sumOf(rounds)) }

func p99(h Histogram) time.Duration { return time.Duration(h.Quantile(.99) * float64(time.Second)) }

func sumOf(rounds []round) (sum Histogram) {
	for _, r := range rounds {
		if more, err := sum.Plus(r.own); err == nil {
			sum = more
		}
	}
	return sum
}

// Probed writes what the probe saw into a report, whose segments are known.
func (p *Probe) Probed(r *Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.ownShare(p.own)
	r.ScrapesFailed = p.failures
	r.PSPs = pspsOf(p.totals)
	if r.Raw == nil {
		r.Raw = &Raw{}
	}
	for _, url := range p.urls {
		r.Raw.Processes = append(r.Raw.Processes, p.processRow(url, r.Segments))
	}
	for _, s := range p.series {
		s.thin()
		r.Series = append(r.Series, *s)
	}
	r.sortSeries()
	r.Growth = growth(r.Series)
}

// ownShare writes the rows of our own share by route.
func (r *Report) ownShare(own map[string]Histogram) {
	for route, h := range own {
		r.OwnShare = append(r.OwnShare, LatencyRow{What: route, Count: int64(h.Count()), P50: h.Quantile(.5) * 1000, P90: h.Quantile(.9) * 1000,
			P99: h.Quantile(.99) * 1000, P999: h.Quantile(.999) * 1000, Max: h.Quantile(1) * 1000})
		if route == authorizeRoute {
			r.OwnP99 = h.Quantile(.99) * 1000
		}
	}
	slices.SortFunc(r.OwnShare, func(a, b LatencyRow) int { return strings.Compare(a.What, b.What) })
}

func (r *Report) sortSeries() {
	slices.SortStableFunc(r.Series, func(a, b Series) int {
		return cmp.Or(plotRank(a.Plot)-plotRank(b.Plot), strings.Compare(a.Name, b.Name))
	})
}

// processRow is what is kept of one process.
func (p *Probe) processRow(url string, segments []SegmentRow) ProcessRow {
	s := p.of(url)
	row := ProcessRow{URL: url, Name: cmp.Or(p.names[url], url), Starts: s.starts, Own: s.own, PSPs: pspsOf(s.totals)}
	begin := time.Duration(0)
	for _, segment := range segments {
		end := begin + segment.Duration
		row.Segments = append(row.Segments, sumOf(between(s.recent, begin, end)))
		begin = end
	}
	return row
}

// pspsOf reads the counters by PSP.
func pspsOf(totals map[string]float64) []PSPRow {
	rows := map[string]*PSPRow{}
	for key, value := range totals {
		fields := strings.Split(key, " ")
		if len(fields) < 2 || !strings.HasPrefix(key, "paygrid_psp_") {
			continue
		}
		name := fields[1]
		if rows[name] == nil {
			rows[name] = &PSPRow{PSP: name, Outcomes: map[string]int{}}
		}
		switch fields[0] {
		case "paygrid_psp_choices_total":
			rows[name].Chosen += int(value)
		case "paygrid_psp_breaker_trips_total":
			rows[name].Trips += int(value)
		case "paygrid_psp_outcomes_total":
			rows[name].Outcomes[fields[2]] += int(value)
		}
	}
	var out []PSPRow
	for _, row := range rows {
		out = append(out, *row)
	}
	slices.SortFunc(out, comparePSPs)
	return out
}

func comparePSPs(a, b PSPRow) int { return strings.Compare(a.PSP, b.PSP) }

// labelled is a metric's label, "" if it has none of that name.
func labelled(metric *dto.Metric, name string) string {
	for _, pair := range metric.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}
