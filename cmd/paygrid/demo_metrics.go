package main

import (
	"context"
	"slices"
	"strings"

	"paygrid/loadtest"
	"paygrid/psprouter/simulator"
)

// demoPSP is what one PSP did. Answers are HTTP answers to our calls, look-ups left out.
type demoPSP struct {
	PSP      string                 `json:"psp"`
	Payments int                    `json:"payments"` // that it has in the end
	Calls    int                    `json:"calls"`
	Faulty   int                    `json:"faulty"` // calls that met a fault or the outage
	Faults   map[string]int         `json:"faults"`
	Webhooks simulator.WebhookBooks `json:"webhooks"`
	Outcomes map[string]int         `json:"outcomes"` // what our calls told us, by class
	Asked    map[string]int         `json:"asked"`    // … and what the resolver's inquiries did
	Trips    int                    `json:"breakerTrips"`
	MovedTo  int                    `json:"movedTo"` // payments that another PSP was proved not to have
	Notices  map[string]int         `json:"notices"` // that the routers took: new, or again
	Refused  int                    `json:"refused"` // … and did not
	Applied  map[string]int         `json:"applied"` // what became of notices each time they were looked at
}

// scrape reads what the routers counted.
func (r *demoReport) scrape(ctx context.Context, urls []string) error {
	m, err := loadtest.ScrapeAll(ctx, urls)
	if err != nil {
		return err
	}
	own, err := m.Histograms("paygrid_own_share_seconds", "route")
	if err != nil {
		return err
	}
	for n := range r.PSPs {
		r.PSPs[n].count(m)
	}
	return r.ownShare(own)
}

// count adds what the routers counted for one PSP.
func (p *demoPSP) count(m *loadtest.Metrics) {
	p.Outcomes, p.Asked, p.Notices, p.Applied = map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	each := func(name string, visit func(l map[string]string, n int)) {
		m.Counters(name, func(labels map[string]string, value float64) {
			if labels["psp"] == p.PSP {
				visit(labels, int(value))
			}
		})
	}
	each("paygrid_psp_outcomes_total", func(l map[string]string, n int) {
		if strings.HasPrefix(l["operation"], "INQUIRE_") {
			p.Asked[l["outcome"]] += n
			return
		}
		p.Outcomes[l["outcome"]] += n
	})
	each("paygrid_psp_breaker_trips_total", func(_ map[string]string, n int) { p.Trips += n })
	each("paygrid_psp_choices_total", func(l map[string]string, n int) {
		if l["reason"] == "rerouted" {
			p.MovedTo += n
		}
	})
	each("paygrid_webhook_notices_total", func(l map[string]string, n int) { p.Notices[l["result"]] += n })
	each("paygrid_webhook_rejects_total", func(_ map[string]string, n int) { p.Refused += n })
	each("paygrid_inbox_results_total", func(l map[string]string, n int) { p.Applied[l["state"]] += n })
}

// ownShare reads our own share of the time per route, and over all of them.
func (r *demoReport) ownShare(routes map[string]loadtest.Histogram) error {
	var all loadtest.Histogram
	for route, h := range routes {
		var err error
		if all, err = all.Plus(h); err != nil {
			return err
		}
		r.OwnShare = append(r.OwnShare, ownShareOf("POST "+route, h))
	}
	slices.SortFunc(r.OwnShare, func(a, b demoLatency) int { return strings.Compare(a.What, b.What) })
	r.OwnShare = append(r.OwnShare, ownShareOf("all", all))
	return nil
}

const millisecond = 1000 // of a second

func ownShareOf(what string, h loadtest.Histogram) demoLatency {
	return demoLatency{What: what, Count: int(h.Count()), P50: h.Quantile(.50) * millisecond, P99: h.Quantile(.99) * millisecond}
}
