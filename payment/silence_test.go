package payment

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"paygrid/psprouter/adyen"
	"paygrid/psprouter/simulator"
	"paygrid/psprouter/stripe"
)

const (
	silentDays = 30
	day        = 24 * time.Hour
)

// A PSP takes the money, loses its answer and then says nothing for thirty days: the payment stays unknown, people are told
// once and can see how old it is, and nobody is charged again, at that PSP or the other. Then its notice tells.
func TestThirtyDaysOfSilence(t *testing.T) {
	for psp, other := range map[string]string{stripe.Name: adyen.Name, adyen.Name: stripe.Name} {
		for _, mode := range []simulator.OutageMode{simulator.OutageTimeout, simulator.OutageReset, simulator.Outage503, simulator.OutageRefuse} {
			t.Run(psp+" "+string(mode), func(t *testing.T) {
				w := silent(t, psp, other)
				if err := w.psps[psp].Outage(silentDays*day+time.Hour, mode); err != nil {
					t.Fatal(err)
				}
				for n := range silentDays {
					w.oneDay(t, n+1, psp, other)
				}
				w.clock.pass(2 * time.Hour)
				w.settles()
				if w.asked[0].first != nil {
					t.Error("the client heard an end before there was one")
				}
				w.again()
				if first := w.asked[0].first; first == nil || first.Kind != KindCharged {
					t.Errorf("in the end the client hears %+v\n%v", first, w.trace)
				}
				w.verifies()
				for _, what := range w.broken {
					t.Error(what)
				}
			})
		}
	}
}

// silent is a world in which psp took a payment and lost its answer; the payment could also go to other.
func silent(t *testing.T, psp, other string) *world {
	w, err := newWorld(1, nil, plant{registry: prometheus.NewRegistry(), first: psp})
	if err != nil {
		t.Fatal(err)
	}
	w.faulty = false
	c := p10("k", "", Automatic)
	c.Method.Tokens = map[string]string{psp: "pm_ok_drop", other: "pm_ok"}
	w.give(&request{name: "authorize", kind: "authorize", give: func(ctx context.Context) (Answer, error) { return w.service.Authorize(ctx, c) }})
	return w
}

// oneDay passes a day with its workers, and looks at what people see in the evening.
func (w *world) oneDay(t *testing.T, n int, psp, other string) {
	t.Helper()
	for range int(day / longestRecheck) {
		w.clock.pass(longestRecheck)
		w.resolve()
	}
	w.again()
	w.ledger()
	id := w.asked[0].id
	s, err := w.store.Snapshot(w.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	a := s.Attempts[0]
	if len(s.Attempts) != 1 || s.Payment.Status != AuthPending || a.Status != Pending || a.PSP != psp || s.Payment.FailureCode != "" {
		t.Fatalf("day %d: %+v", n, s)
	}
	count := int64(0)
	for _, name := range w.store.ShardNames() {
		old, oldest, err := w.store.PendingCount(w.ctx, name, w.clock.pass(0).Add(-time.Duration(n)*day+time.Hour))
		if count += old; err != nil || (old == 1 && !oldest.Equal(a.SentAt)) {
			t.Errorf("day %d: %d pending since %v, %v", n, old, oldest, err)
		}
	}
	if count != 1 {
		t.Errorf("day %d: %d attempts are listed as that old", n, count)
	}
	if age := w.gauge(t, "paygrid_attempts_pending_oldest_seconds"); age < float64(n)*day.Seconds()-60 {
		t.Errorf("day %d: the oldest unknown is %v s old by the metric", n, age)
	}
	if told := w.gauge(t, "paygrid_attempts_escalated_total"); told != 1 {
		t.Errorf("day %d: people were told %v times", n, told)
	}
	if len(w.psps[other].Books().Payments) != 0 {
		t.Fatalf("day %d: %s was asked", n, other)
	}
	if books := w.psps[psp].Books().Payments; len(books) != 1 || books[0].Charges != 1 {
		t.Fatalf("day %d: the PSP has %+v", n, books)
	}
}

// gauge sums a metric over its labels.
func (w *world) gauge(t *testing.T, name string) float64 {
	t.Helper()
	families, err := w.plant.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return sum
}
