package adyen

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/psprouter/simulator"
)

// bench is the adapter in front of an Adyen simulator in this process, whose notices come to the adapter's own reader.
type bench struct {
	*Adapter
	sim *simulator.Simulator
	t   *testing.T
	now time.Time

	mu      sync.Mutex
	notices []psprouter.Notice
	n       int
}

// RoundTrip receives a notice, as a router does: checked, read, answered.
func (b *bench) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if err := b.CheckWebhook(r.Header, body, b.now); err != nil {
		b.t.Errorf("%v: %s", err, body)
	}
	notices, err := b.ReadWebhook(body)
	if err != nil {
		b.t.Error(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notices = append(b.notices, notices...)
	kind, answer := b.WebhookAnswer()
	return &http.Response{StatusCode: 200, Request: r, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(string(answer)))}, nil
}

func newBench(t *testing.T, change func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t, now: time.Unix(1_800_000_000, 0).UTC()}
	sim, err := simulator.New(simulator.Options{Now: func() time.Time { return b.now }, Dialect: simulator.DialectAdyen, Seed: 1,
		MerchantAccount: "ShopEUMain", StrictKeys: true, Live: true, WebhookSecrets: hmacKeys[:1], WebhookTransport: b,
		Webhooks: []simulator.Target{{URL: "http://router.invalid/v1/webhooks/adyen"}}, Wait: func(time.Duration, <-chan struct{}) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Stop)
	b.sim = sim
	b.Adapter = newAdapter(t, "http://psp.invalid", func(c *Config) {
		c.Transport, c.NotProcessedHeader = sim.Transport(), simulator.NotProcessedHeader
		if change != nil {
			change(c)
		}
	})
	return b
}

func (b *bench) attempt() string {
	b.n++
	return fmt.Sprintf("att_0001_%026d", b.n)
}

func (b *bench) want(what string, out psprouter.Outcome, class psprouter.Class) psprouter.Outcome {
	b.t.Helper()
	if out.Class() != class {
		b.t.Fatalf("%s: %v %q %q, want %v", what, out.Class(), out.Code, out.Reason, class)
	}
	return out
}

// told flushes the notices and returns the latest of a kind.
func (b *bench) told(kind string) psprouter.Notice {
	b.t.Helper()
	if err := b.sim.Flush(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range slices.Backward(b.notices) {
		if n.Kind == kind {
			return n
		}
	}
	b.t.Fatalf("no %s among %d notices", kind, len(b.notices))
	return psprouter.Notice{}
}

func eur(minor int64) ledger.Money { return ledger.Money{Minor: minor, Currency: "EUR"} }

func (b *bench) authorize(token string, auto bool) (string, psprouter.Outcome) {
	attempt := b.attempt()
	return attempt, b.Authorize(b.t.Context(), psprouter.AuthorizeRequest{Attempt: attempt, Amount: eur(10000), Token: token, AutoCapture: auto,
		Recovery: psprouter.Recovery{Payment: "pay_1", Client: "tk", Key: "k", Order: "o", Splits: []ledger.Split{{SellerID: "s-ann", Minor: 10000, CommissionMinor: 700}}}})
}

// Every token of the table: our outcome.
func TestEveryToken(t *testing.T) {
	for _, row := range []struct {
		token string
		class psprouter.Class
		code  string
	}{
		{"pm_ok", psprouter.Approved, ""},
		{"shopper-1/pm_ok", psprouter.Approved, ""},
		{"pm_decline", psprouter.Declined, "not_enough_balance"},
		{"pm_ok_drop", psprouter.Unknown, ""},
		{"pm_500_charged", psprouter.Unknown, ""},
		{"pm_never", psprouter.Unknown, ""},
		{"pm_pending", psprouter.Accepted, ""},
		{"pm_3ds", psprouter.ActionRequired, ""},
		{"pm_503", psprouter.NotSent, ""},
		{"pm_nonsense", psprouter.NotSent, "803"},
	} {
		for _, auto := range []bool{true, false} {
			b := newBench(t, nil)
			_, out := b.authorize(row.token, auto)
			b.want(row.token, out, row.class)
			if out.Code != row.code || out.Captured != (auto && row.class == psprouter.Approved) {
				t.Errorf("%s: code %q, captured %t", row.token, out.Code, out.Captured)
			}
		}
	}
}

// A payment's life: each modification is only received, and its notice finds the attempt and tells the end.
func TestLifeOfAPayment(t *testing.T) {
	b := newBench(t, nil)
	attempt, auth := b.authorize("pm_ok", false)
	ref := b.want("authorize", auth, psprouter.Approved).Reference
	if n := b.told("AUTHORISATION"); n.Attempt != attempt || n.Reference != ref || n.Outcome.Class() != psprouter.Approved || n.Amount != eur(10000) || n.Foreign != "" {
		t.Errorf("%+v", n)
	}
	for _, step := range []struct {
		kind, operation string
		amount          int64
		call            func(attempt string) psprouter.Outcome
	}{
		{"CAPTURE", psprouter.OpCapture, 6000, func(a string) psprouter.Outcome {
			return b.Capture(t.Context(), psprouter.CaptureRequest{Attempt: a, PaymentRef: ref, Amount: eur(6000), Authorized: 10000, Final: true})
		}},
		{"REFUND", psprouter.OpRefund, 2500, func(a string) psprouter.Outcome {
			return b.Refund(t.Context(), psprouter.RefundRequest{Attempt: a, Refund: "ref_1", PaymentRef: ref, Amount: eur(2500)})
		}},
	} {
		attempt := b.attempt()
		out := b.want(step.kind, step.call(attempt), psprouter.Accepted)
		n := b.told(step.kind)
		if n.Attempt != attempt || n.Reference != out.Reference || n.Original != ref || n.Operation != step.operation ||
			n.Outcome.Class() != psprouter.Approved || n.Amount != eur(step.amount) {
			t.Errorf("%s: %+v", step.kind, n)
		}
	}
	if p := b.sim.Books().Payments[0]; p.CapturedMinor != 6000 || p.RefundedMinor != 2500 || p.Charges != 1 {
		t.Errorf("books: %+v", p)
	}
}

func TestVoid(t *testing.T) {
	b := newBench(t, nil)
	_, auth := b.authorize("pm_ok", false)
	attempt := b.attempt()
	b.want("void", b.Void(t.Context(), psprouter.VoidRequest{Attempt: attempt, PaymentRef: auth.Reference, Amount: eur(10000)}), psprouter.Accepted)
	if n := b.told("CANCELLATION"); n.Attempt != attempt || n.Operation != psprouter.OpVoid || n.Outcome.Class() != psprouter.Approved || n.Original != auth.Reference {
		t.Errorf("%+v", n)
	}
	if p := b.sim.Books().Payments[0]; !p.Voided {
		t.Errorf("books: %+v", p)
	}
}

// C021 as far as the adapter goes: what worked, and days later did not, is told as taken back.
func TestC021LateFailuresAreReversals(t *testing.T) {
	b := newBench(t, nil)
	_, auth := b.authorize("pm_ok", true)
	attempt := b.attempt()
	refund := b.want("refund", b.Refund(t.Context(), psprouter.RefundRequest{Attempt: attempt, PaymentRef: auth.Reference, Amount: eur(3000)}), psprouter.Accepted)
	if !b.sim.Reverse(refund.Reference) {
		t.Fatal("the simulator has no such refund")
	}
	n := b.told("REFUND_FAILED")
	if !n.Reversed || n.Operation != psprouter.OpRefund || n.Outcome.Class() != psprouter.Declined || n.Reference != refund.Reference || n.Original != auth.Reference || n.Amount != eur(3000) {
		t.Errorf("%+v", n)
	}
	if first := b.told("REFUND"); first.Reference != n.Reference || first.EventID == n.EventID || first.Reversed {
		t.Errorf("%+v", first)
	}
	if !b.sim.Reverse(auth.Reference) {
		t.Fatal("the simulator takes no automatic capture back")
	}
	if n := b.told("CAPTURE_FAILED"); !n.Reversed || n.Operation != psprouter.OpCapture || n.Original != auth.Reference || n.Amount != eur(10000) {
		t.Errorf("%+v", n)
	}
}

// An answer that was lost is found by asking again, and asking moves nothing twice. A request that never arrived is carried
// out by being sent again: once.
func TestInquireResends(t *testing.T) {
	for _, token := range []string{"pm_ok_drop", "pm_never"} {
		b := newBench(t, nil)
		attempt, out := b.authorize(token, true)
		b.want(token, out, psprouter.Unknown)
		q := psprouter.Inquiry{Attempt: attempt, Operation: psprouter.OpAuthorize, Amount: eur(10000), Token: token, AutoCapture: true, SentAt: b.now, Now: b.now,
			Recovery: psprouter.Recovery{Payment: "pay_1", Client: "tk", Key: "k", Order: "o", Splits: []ledger.Split{{SellerID: "s-ann", Minor: 10000, CommissionMinor: 700}}}}
		for range 3 {
			f := b.Inquire(t.Context(), q)
			if token == "pm_ok_drop" && f.Outcome.Class() != psprouter.Approved || f.Absent {
				t.Errorf("%s: %v %s", token, f.Outcome.Class(), f.Outcome.Reason)
			}
		}
		for _, p := range b.sim.Books().Payments {
			if p.Charges != 1 || p.CapturedMinor != 10000 {
				t.Errorf("%s: %+v", token, p)
			}
		}
		// The simulator is strict: another body under the key is refused, and that is no answer.
		q.Recovery.Order = "another"
		if f := b.Inquire(t.Context(), q); f.Outcome.Class() != psprouter.Unknown {
			t.Errorf("%s, another body: %v", token, f.Outcome.Class())
		}
	}
}

// C010: a capture in doubt is asked again under its own key: the PSP captures once.
func TestC010CaptureInDoubtKeepsItsKey(t *testing.T) {
	b := newBench(t, nil)
	_, auth := b.authorize("pm_ok", false)
	if err := b.sim.Script("capture", "drop_after", "", 1); err != nil {
		t.Fatal(err)
	}
	attempt := b.attempt()
	r := psprouter.CaptureRequest{Attempt: attempt, PaymentRef: auth.Reference, Amount: eur(10000), Authorized: 10000, Final: true}
	b.want("capture", b.Capture(t.Context(), r), psprouter.Unknown)
	q := psprouter.Inquiry{Attempt: attempt, Operation: psprouter.OpCapture, PaymentRef: auth.Reference, Amount: eur(10000), Authorized: 10000, Final: true, SentAt: b.now, Now: b.now}
	for range 3 {
		b.want("asked again", b.Inquire(t.Context(), q).Outcome, psprouter.Accepted)
	}
	if p := b.sim.Books().Payments[0]; p.Charges != 1 || p.CapturedMinor != 10000 {
		t.Errorf("books: %+v", p)
	}
}
