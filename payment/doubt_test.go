package payment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"paygrid/psprouter/adyen"
	"paygrid/psprouter/stripe"
	"paygrid/shard"
)

// doubtful says of one Begin that its outcome is not known, although it committed.
type doubtful struct {
	worldStore
	left *int
}

func (d doubtful) Begin(ctx context.Context, o shard.Opening) error {
	err := d.worldStore.Begin(ctx, o)
	if err == nil && *d.left > 0 {
		*d.left--
		return fmt.Errorf("begin: %w", shard.ErrInDoubt)
	}
	return err
}

// TestDoubtIsSaid: a payment whose opening is in doubt can be carried out by the resolver (at Adyen asking is sending again), so
// nobody may be told that nothing was charged.
func TestDoubtIsSaid(t *testing.T) {
	charged := 0
	for psp, other := range map[string]string{stripe.Name: adyen.Name, adyen.Name: stripe.Name} {
		left := 1
		w, err := newWorld(1, nil, plant{registry: prometheus.NewRegistry(), first: psp, store: func(s worldStore) worldStore { return doubtful{s, &left} }})
		if err != nil {
			t.Fatal(err)
		}
		w.faulty = false
		c := p10("k", "", Automatic)
		c.Method.Tokens = map[string]string{psp: "pm_ok", other: "pm_ok"}
		_, err = w.service.Authorize(w.ctx, c)
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeUnavailable || e.RetryIn == 0 {
			t.Fatalf("%s: %v", psp, err)
		}
		if strings.Contains(e.Detail, "nothing") || !strings.Contains(e.Detail, "may still be carried out") || !strings.Contains(e.Remedy, "no other") {
			t.Errorf("%s: told %q; %q", psp, e.Detail, e.Remedy)
		}
		for range 100 {
			w.clock.pass(longestRecheck)
			w.resolve()
		}
		for _, p := range w.psps[psp].Books().Payments {
			charged += p.Charges
		}
	}
	if charged != 1 {
		t.Errorf("%d charges, want Adyen's: else the words above are too careful", charged)
	}
}
