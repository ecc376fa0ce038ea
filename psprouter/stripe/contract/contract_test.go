package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-mock/embedded"
	"github.com/stripe/stripe-mock/server"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/psprouter/simulator"
	"paygrid/psprouter/stripe"
)

// exchange is one request with its answer.
type exchange struct {
	method, path, query string
	form                url.Values
	status              int
	body                []byte
}

// recorder keeps what passes through it.
type recorder struct {
	next http.RoundTripper
	mu   sync.Mutex
	all  []exchange
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	var form url.Values
	if req.Body != nil {
		text, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		form, _ = url.ParseQuery(string(text))
		req.Body = io.NopCloser(bytes.NewReader(text))
	}
	resp, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, exchange{req.Method, req.URL.Path, req.URL.RawQuery, form, resp.StatusCode, body})
	return resp, err
}

func (r *recorder) take() []exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

func adapter(t *testing.T, base string, next http.RoundTripper, several bool) (*stripe.Adapter, *recorder) {
	t.Helper()
	r := &recorder{next: next}
	a, err := stripe.New(stripe.Config{BaseURL: base, SecretKey: "sk_test_123", Transport: r, SeveralCaptures: several, NotProcessedHeader: simulator.NotProcessedHeader})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, r
}

func stripeMock(t *testing.T) (string, http.RoundTripper) {
	t.Helper()
	spec, err := server.LoadSpec(embedded.OpenAPISpec, "")
	if err != nil {
		t.Fatal(err)
	}
	fixtures, err := server.LoadFixtures(embedded.OpenAPIFixtures, "")
	if err != nil {
		t.Fatal(err)
	}
	stub, err := server.NewStubServer(fixtures, spec, false, false)
	if err != nil {
		t.Fatal(err)
	}
	mock := httptest.NewServer(http.HandlerFunc(stub.HandleRequest))
	t.Cleanup(mock.Close)
	return mock.URL, mock.Client().Transport
}

var (
	eur      = ledger.Money{Minor: 10000, Currency: "EUR"}
	recovery = psprouter.Recovery{Payment: "pay_1", Client: "shop", Key: strings.Repeat("k", 255), Order: "o-1",
		Splits: []ledger.Split{{SellerID: "s-ann", Minor: 7000, CommissionMinor: 700}, {SellerID: "s-bob", Minor: 3000, CommissionMinor: 450}}}
)

// everything makes each kind of call and of look-up once.
func everything(t *testing.T, a *stripe.Adapter) {
	ctx := t.Context()
	for i, change := range []func(*psprouter.AuthorizeRequest){
		func(*psprouter.AuthorizeRequest) {},
		func(r *psprouter.AuthorizeRequest) { r.AutoCapture = true },
		func(r *psprouter.AuthorizeRequest) { r.ReturnURL = "https://shop.example/back" },
		func(r *psprouter.AuthorizeRequest) { r.Recovery = psprouter.Recovery{} },
	} {
		r := psprouter.AuthorizeRequest{Attempt: fmt.Sprintf("att_%d", i), Amount: eur, Token: "pm_card_visa", Recovery: recovery}
		change(&r)
		a.Authorize(ctx, r)
	}
	a.Capture(ctx, psprouter.CaptureRequest{Attempt: "att_c1", PaymentRef: "pi_1", Amount: eur, Authorized: 10000, Final: true})
	a.Capture(ctx, psprouter.CaptureRequest{Attempt: "att_c2", PaymentRef: "pi_1", Amount: eur, Authorized: 20000})
	a.Void(ctx, psprouter.VoidRequest{Attempt: "att_v", PaymentRef: "pi_1", Amount: eur})
	a.Refund(ctx, psprouter.RefundRequest{Attempt: "att_r", Refund: "ref_1", PaymentRef: "pi_1", Amount: eur, Recovery: recovery})
	for _, operation := range []string{psprouter.OpAuthorize, psprouter.OpCapture, psprouter.OpVoid, psprouter.OpRefund} {
		now := time.Unix(1_800_000_000, 0)
		q := psprouter.Inquiry{Attempt: "att_q", Operation: operation, PaymentRef: "pi_1", Amount: eur, Authorized: 10000, SentAt: now, Now: now}
		a.Inquire(ctx, q)
		q.PaymentRef, q.Now = "", now.Add(time.Hour) // so late that the list of that time proves absence, and is read
		a.Inquire(ctx, q)
	}
}

// Every request of the adapter is one that Stripe knows. stripe-mock answers 200 to those, and to no other.
func TestRequestsAreStripes(t *testing.T) {
	base, next := stripeMock(t)
	a, r := adapter(t, base, next, true)
	everything(t, a)
	seen := map[string]bool{}
	for _, x := range r.take() {
		seen[x.method+" "+x.path] = true
		if x.status != http.StatusOK {
			t.Errorf("%s %s?%s %v: %d %s", x.method, x.path, x.query, x.form, x.status, x.body)
		}
	}
	for _, want := range []string{
		"POST /v1/payment_intents", "POST /v1/payment_intents/pi_1/capture", "POST /v1/payment_intents/pi_1/cancel", "POST /v1/refunds",
		"GET /v1/payment_intents/pi_1", "GET /v1/payment_intents/search", "GET /v1/payment_intents", "GET /v1/refunds",
	} {
		if !seen[want] {
			t.Errorf("%s was not asked: %v", want, seen)
		}
	}
}

// stripe-mock must be able to say no, or the test above says nothing.
func TestMockRefuses(t *testing.T) {
	base, next := stripeMock(t)
	client := &http.Client{Transport: next}
	for body, want := range map[string]int{
		"amount=1000&currency=eur":                  200,
		"amount=1000&currency=eur&attempt=x":        400,
		"amount=ten&currency=eur":                   400,
		"amount=1000":                               400,
		"amount=1000&currency=eur&metadata[a]=b":    200,
		"amount=1000&currency=eur&capture_method=x": 400,
	} {
		req, _ := http.NewRequest(http.MethodPost, base+"/v1/payment_intents", strings.NewReader(body))
		req.Header.Set("Authorization", "Bearer sk_test_123")
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", body, resp.StatusCode, want)
		}
	}
}

// life lets the simulator show each kind of answer that it has.
func life(t *testing.T, a *stripe.Adapter) {
	ctx := t.Context()
	now := time.Unix(1_800_000_000, 0)
	authorize := func(attempt, token string, auto bool) string {
		return a.Authorize(ctx, psprouter.AuthorizeRequest{Attempt: attempt, Amount: eur, Token: token, AutoCapture: auto,
			ReturnURL: "https://shop.example/back", Recovery: recovery}).Reference
	}
	manual, auto, voided := authorize("att_1", "pm_ok", false), authorize("att_2", "pm_ok", true), authorize("att_3", "pm_ok", false)
	for i, token := range []string{"pm_decline", "pm_3ds", "pm_pending", "pm_503", "pm_nonsense", "pm_500_charged", "pm_card_visa_chargeDeclinedLostCard"} {
		authorize(fmt.Sprintf("att_t%d", i), token, false)
	}
	a.Capture(ctx, psprouter.CaptureRequest{Attempt: "att_4", PaymentRef: manual, Amount: ledger.Money{Minor: 6000, Currency: "EUR"}, Authorized: 10000})
	a.Capture(ctx, psprouter.CaptureRequest{Attempt: "att_5", PaymentRef: manual, Amount: ledger.Money{Minor: 4000, Currency: "EUR"}, Authorized: 10000, Captured: 6000, Final: true})
	a.Capture(ctx, psprouter.CaptureRequest{Attempt: "att_6", PaymentRef: manual, Amount: eur, Authorized: 10000}) // captured before
	a.Void(ctx, psprouter.VoidRequest{Attempt: "att_7", PaymentRef: voided, Amount: eur})
	a.Void(ctx, psprouter.VoidRequest{Attempt: "att_8", PaymentRef: auto, Amount: eur}) // captured
	a.Refund(ctx, psprouter.RefundRequest{Attempt: "att_9", Refund: "ref_1", PaymentRef: auto, Amount: ledger.Money{Minor: 2500, Currency: "EUR"}, Recovery: recovery})
	a.Refund(ctx, psprouter.RefundRequest{Attempt: "att_10", PaymentRef: auto, Amount: eur}) // too much
	a.Refund(ctx, psprouter.RefundRequest{Attempt: "att_11", PaymentRef: "pi_none", Amount: eur})
	for _, ref := range []string{manual, auto, voided, ""} {
		for _, operation := range []string{psprouter.OpAuthorize, psprouter.OpVoid, psprouter.OpRefund} {
			a.Inquire(ctx, psprouter.Inquiry{Attempt: "att_1", Operation: operation, PaymentRef: ref, Amount: eur, SentAt: now, Now: now})
		}
	}
}

// recorded is the adapter with what passed between it and the simulator.
type recorded struct {
	*stripe.Adapter
	*recorder
}

// run returns a simulator that moves no time, and an adapter that speaks to it.
func run(t *testing.T) (*simulator.Simulator, recorded) {
	t.Helper()
	sim, err := simulator.New(simulator.Options{Now: func() time.Time { return time.Unix(1_800_000_000, 0) }, Seed: 1,
		Wait: func(time.Duration, <-chan struct{}) {}, RecordEvents: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Stop)
	a, r := adapter(t, "http://psp.invalid", sim.Transport(), true)
	return sim, recorded{a, r}
}

// Every answer of the simulator is one that Stripe's document describes.
func TestSimulatorAnswersAreStripes(t *testing.T) {
	d := stripeDocument(t)
	_, a := run(t)
	life(t, a.Adapter)
	judged := map[string]int{}
	for _, x := range a.take() {
		pointer, err := d.answerSchema(x.method, x.path, x.status)
		if err == nil {
			err = d.judge(pointer, x.body)
		}
		if err != nil {
			t.Errorf("%s %s, %d: %v\n%s", x.method, x.path, x.status, err, x.body)
		}
		judged[fmt.Sprintf("%s %d", x.method, x.status)]++
	}
	for _, kind := range []string{"POST 200", "POST 402", "POST 400", "POST 404", "POST 500", "POST 503", "GET 200"} {
		if judged[kind] == 0 {
			t.Errorf("no %s among the answers: %v", kind, judged)
		}
	}
}

// Every notice of the simulator is an event of Stripe's, about an object of Stripe's.
func TestSimulatorEventsAreStripes(t *testing.T) {
	d := stripeDocument(t)
	sim, a := run(t)
	life(t, a.Adapter)
	for _, p := range sim.Books().Payments {
		sim.Settle(p.Ref, true)
		for _, refund := range p.Refunds {
			sim.Reverse(refund.Ref)
		}
	}
	kinds := map[string]bool{}
	for _, e := range sim.Events() {
		var event struct {
			Data struct {
				Object json.RawMessage `json:"object"`
			} `json:"data"`
		}
		var object struct {
			Object string `json:"object"`
		}
		if err := errors.Join(json.Unmarshal(e.Body, &event), json.Unmarshal(event.Data.Object, &object)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.judge("#/components/schemas/event", e.Body), d.judge("#/components/schemas/"+object.Object, event.Data.Object)); err != nil {
			t.Errorf("%s: %v\n%s", e.Type, err, e.Body)
		}
		kinds[e.Type] = true
	}
	for _, kind := range []string{"payment_intent.amount_capturable_updated", "payment_intent.succeeded", "payment_intent.payment_failed", "payment_intent.canceled"} {
		if !kinds[kind] {
			t.Errorf("no %s among the events: %v", kind, kinds)
		}
	}
}
