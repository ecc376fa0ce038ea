package psprouter

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// gathered is every sample of a registry that is not 0, as "name{label=value,…} number".
func gathered(t *testing.T, registry *prometheus.Registry) (out []string) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			if value := m.GetCounter().GetValue() + m.GetGauge().GetValue(); value != 0 {
				out = append(out, fmt.Sprintf("%s{%s} %v", family.GetName(), strings.Join(labels, ","), value))
			}
		}
	}
	return out
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		rules := Rules{PSPs: []Rule{{Name: "stripe", Weight: 1}, {Name: "adyen", Weight: 1, RatePerSecond: 1, Burst: 1}}}
		r, err := NewConfigured(rules, time.Now, seeded(1), registry, account{"stripe", 1}, account{"adyen", 10})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			w := both(100)
			delete(w.Tokens, "adyen")
			mustChoose(t, r, w).Done(UnknownBecause("time-out"))
		}
		_ = r.Drain("stripe", true, "outage")
		mustChoose(t, r, both(100)).Done(ApprovedAs("r")) // adyen takes its only token
		_, err = r.Choose(both(100))
		wantUnavailable(t, err)
		_ = r.Drain("adyen", true, "too")
		w := both(5)
		delete(w.Tokens, "stripe")
		_, _ = r.Choose(w)
		_, _ = r.Choose(Wish{})
		want := []string{
			"paygrid_psp_breaker_state{operation=AUTHORIZE,psp=stripe} 2",
			"paygrid_psp_breaker_trips_total{operation=AUTHORIZE,psp=stripe} 1",
			"paygrid_psp_choices_total{psp=adyen,reason=only} 1",
			"paygrid_psp_choices_total{psp=none,reason=amount} 1",
			"paygrid_psp_choices_total{psp=none,reason=no_psp} 1",
			"paygrid_psp_choices_total{psp=none,reason=unavailable} 1",
			"paygrid_psp_choices_total{psp=stripe,reason=only} 10",
			"paygrid_psp_drained{psp=adyen} 1",
			"paygrid_psp_drained{psp=stripe} 1",
			"paygrid_psp_limiter_refusals_total{psp=adyen} 1",
		}
		if got := gathered(t, registry); !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		pass(openFor + time.Millisecond)
		if got := gathered(t, registry); got[0] != "paygrid_psp_breaker_state{operation=AUTHORIZE,psp=stripe} 1" {
			t.Errorf("time alone makes it half open, but %s", got[0])
		}
		if _, err := NewConfigured(Rules{}, time.Now, seeded(1), registry, account{"stripe", 1}); err == nil {
			t.Error("registered twice")
		}
	})
}

func TestStatus(t *testing.T) {
	r := configured(t, Rules{}, noon().now, "stripe", "adyen")
	answers(r, "adyen", 3, 1)
	_ = r.Drain("stripe", true, "outage")
	got := r.Status()
	if len(got) != 10 || got[0].PSP != "stripe" || got[0].Operation != OpAuthorize || !got[0].Drained || got[0].DrainReason != "outage" {
		t.Fatalf("%+v", got)
	}
	if s := got[0]; s.ApprovalPermille != -1 || s.ErrorPermille != -1 || s.Breaker != "closed" || s.RetryIn != 0 {
		t.Errorf("of nothing: %+v", s)
	}
	if s := got[5]; s.ApprovalPermille != 750 || s.ErrorPermille != 0 || s.Answered != 4 || s.Drained {
		t.Errorf("of four answers: %+v", s)
	}
	if s := got[9]; s.Operation != OpInquiry || s.Breaker != "none" {
		t.Errorf("inquiries: %+v", s)
	}
	if s := NewRouter(account{"stripe", 1}).Status()[0]; s.Breaker != "none" {
		t.Errorf("without rules: %+v", s)
	}
}
