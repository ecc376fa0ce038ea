package stripe

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"paygrid/psprouter"
	"paygrid/psprouter/simulator"
)

// inbox receives the simulator's notices as a router does: checked, read, answered.
type inbox struct {
	*Adapter
	t       *testing.T
	now     time.Time
	notices []psprouter.Notice
}

func (b *inbox) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if err := b.CheckWebhook(r.Header, body, b.now); err != nil {
		b.t.Errorf("%v: %s", err, body)
	}
	notices, err := b.ReadWebhook(body)
	if err != nil {
		b.t.Errorf("%v: %s", err, body)
	}
	b.notices = append(b.notices, notices...)
	return &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
}

// What the simulator signs and sends passes our check, and each notice names the attempt that its call had, though a
// capture's and a void's object still name the authorization's.
func TestDeliveredNotices(t *testing.T) {
	b := &inbox{t: t, now: time.Unix(1_800_000_000, 0).UTC()}
	sim, err := simulator.New(simulator.Options{Now: func() time.Time { return b.now }, Seed: 1, Live: true, WebhookSecrets: secrets[:2],
		WebhookTransport: b, Webhooks: []simulator.Target{{URL: "http://router.invalid/v1/webhooks/stripe"}}, Wait: func(time.Duration, <-chan struct{}) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Stop)
	b.Adapter = newAdapter(t, "http://psp.invalid", func(c *Config) {
		c.Transport, c.Live, c.WebhookSecrets = sim.Transport(), true, secrets[1:2] // the old one of two that sign
	})
	const attCharge, attVoid, attRefund = "att_0001_01JD0000000000000000000004", "att_0001_01JD0000000000000000000005", "att_0001_01JD0000000000000000000006"
	authorize := func(attempt, token string, auto bool) string {
		return b.Authorize(t.Context(), psprouter.AuthorizeRequest{Attempt: attempt, Amount: eur(10000), Token: token, AutoCapture: auto}).Reference
	}
	manual, charged, voided := authorize(attAuth, "pm_ok", false), authorize(attCharge, "pm_ok", true), authorize(attOther, "pm_ok", false)
	b.Capture(t.Context(), psprouter.CaptureRequest{Attempt: attCapture, PaymentRef: manual, Amount: eur(6000), Authorized: 10000, Final: true})
	b.Void(t.Context(), psprouter.VoidRequest{Attempt: attVoid, PaymentRef: voided, Amount: eur(10000)})
	refund := b.Refund(t.Context(), psprouter.RefundRequest{Attempt: attRefund, PaymentRef: charged, Amount: eur(2500)})
	sim.Reverse(refund.Reference)
	if err := sim.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	type settled struct {
		attempt, operation string
		class              psprouter.Class
		captured, reversed bool
		minor              int64
	}
	got := map[settled]bool{}
	for _, n := range b.notices {
		if n.Foreign != "" || n.AmountProblem != "" {
			t.Errorf("%s: %q %q", n.Kind, n.Foreign, n.AmountProblem)
		}
		if n.Operation != "" {
			got[settled{n.Attempt, n.Operation, n.Outcome.Class(), n.Outcome.Captured, n.Reversed, n.Amount.Minor}] = true
		}
	}
	for _, want := range []settled{
		{attAuth, auth, psprouter.Approved, false, false, 10000},
		{attCapture, capture, psprouter.Approved, true, false, 6000},
		{attCharge, auth, psprouter.Approved, true, false, 10000},
		{attVoid, void, psprouter.Approved, false, false, 10000},
		{attRefund, refunding, psprouter.Approved, false, false, 2500},
		{attRefund, refunding, psprouter.Declined, false, true, 2500},
	} {
		if !got[want] {
			t.Errorf("nobody told %+v\nof %+v", want, got)
		}
	}
}
