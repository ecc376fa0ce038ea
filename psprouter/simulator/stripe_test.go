package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	stripe "github.com/stripe/stripe-go/v82"
)

// official returns Stripe's own client, pointed at the simulator.
func (r *rig) official() *stripe.Client {
	return stripe.NewClient("sk_test_1", stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: stripe.String(r.url), MaxNetworkRetries: stripe.Int64(0), HTTPClient: r.client,
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})))
}

// The official client lives through a whole payment: create, confirm, capture, refund, list, search, errors.
func TestOfficialClient(t *testing.T) {
	r, ctx := newRig(t, nil), t.Context()
	c := r.official()
	create := &stripe.PaymentIntentCreateParams{Amount: stripe.Int64(5000), Currency: stripe.String("usd"), CaptureMethod: stripe.String("manual"),
		Metadata: map[string]string{"attempt": "att_1", "order": "o-1"}}
	intent, err := c.V1PaymentIntents.Create(ctx, create)
	if err != nil || intent.Status != stripe.PaymentIntentStatusRequiresPaymentMethod {
		t.Fatalf("create: %v %v", intent.Status, err)
	}
	confirm := &stripe.PaymentIntentConfirmParams{PaymentMethod: stripe.String("pm_card_visa")}
	confirm.AddExpand("latest_charge")
	intent, err = c.V1PaymentIntents.Confirm(ctx, intent.ID, confirm)
	if err != nil || intent.Status != stripe.PaymentIntentStatusRequiresCapture || intent.AmountCapturable != 5000 {
		t.Fatalf("confirm: %+v %v", intent, err)
	}
	if before := intent.LatestCharge.PaymentMethodDetails.Card.CaptureBefore; before != r.clock().Add(7*24*time.Hour).Unix() {
		t.Errorf("capture_before %d", before)
	}
	intent, err = c.V1PaymentIntents.Capture(ctx, intent.ID, &stripe.PaymentIntentCaptureParams{AmountToCapture: stripe.Int64(3000)})
	if err != nil || intent.Status != stripe.PaymentIntentStatusSucceeded || intent.AmountReceived != 3000 || intent.AmountCapturable != 0 {
		t.Fatalf("capture: %+v %v", intent, err)
	}
	refund, err := c.V1Refunds.Create(ctx, &stripe.RefundCreateParams{PaymentIntent: &intent.ID, Amount: stripe.Int64(1200)})
	if err != nil || refund.Status != stripe.RefundStatusSucceeded || refund.PaymentIntent.ID != intent.ID || refund.Charge.ID != intent.LatestCharge.ID {
		t.Fatalf("refund: %+v %v", refund, err)
	}
	if got, err := c.V1Refunds.Retrieve(ctx, refund.ID, nil); err != nil || got.Amount != 1200 {
		t.Errorf("retrieve refund: %v", err)
	}
	for got, err := range c.V1Refunds.List(ctx, &stripe.RefundListParams{PaymentIntent: &intent.ID}) {
		if err != nil || got.ID != refund.ID {
			t.Errorf("list refunds: %v %v", got, err)
		}
	}
	for got, err := range c.V1PaymentIntents.Search(ctx, &stripe.PaymentIntentSearchParams{SearchParams: stripe.SearchParams{Query: `metadata["attempt"]:"att_1" AND status:"succeeded"`}}) {
		if err != nil || got.ID != intent.ID || got.Metadata["order"] != "o-1" {
			t.Errorf("search: %v %v", got, err)
		}
	}
	_, err = c.V1PaymentIntents.Create(ctx, &stripe.PaymentIntentCreateParams{Amount: stripe.Int64(5000), Currency: stripe.String("usd"),
		Confirm: stripe.Bool(true), PaymentMethod: stripe.String("pm_card_visa_chargeDeclinedInsufficientFunds")})
	var fault *stripe.Error
	if !errors.As(err, &fault) || fault.HTTPStatusCode != 402 || fault.DeclineCode != stripe.DeclineCodeInsufficientFunds ||
		fault.PaymentIntent.Status != stripe.PaymentIntentStatusRequiresPaymentMethod || fault.PaymentIntent.LastPaymentError == nil {
		t.Errorf("decline: %v", err)
	}
	total := r.Books().Totals[0]
	if want := (TotalBooks{Currency: "USD", Payments: 2, Authorizations: 1, Charges: 1, Refunds: 1, CapturedPSP: 3000, CapturedMinor: 3000,
		RefundedPSP: 1200, RefundedMinor: 1200}); total != want {
		t.Errorf("totals %+v, want %+v", total, want)
	}
}

func TestListPagesAreComplete(t *testing.T) {
	r, ctx := newRig(t, nil), t.Context()
	var refs []string
	for i := range 25 {
		refs = append(refs, r.create("pm_ok", "automatic", fmt.Sprintf("att_%d", i)))
		r.advance(time.Second)
	}
	start := time.Unix(1_800_000_000, 0).Unix()
	params := &stripe.PaymentIntentListParams{CreatedRange: &stripe.RangeQueryParams{GreaterThanOrEqual: start + 3, LesserThan: start + 20}}
	params.Limit = stripe.Int64(4)
	var got []string
	for intent, err := range r.official().V1PaymentIntents.List(ctx, params) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, intent.ID)
	}
	if len(got) != 17 || got[0] != refs[19] || got[16] != refs[3] {
		t.Errorf("%d payments, %v", len(got), got)
	}
	// Backwards from a cursor: the page next to it, newest first.
	page := r.want(r.fetch("/v1/payment_intents?limit=2&ending_before="+refs[5]), 200)
	var list struct {
		Data    []struct{ ID string }
		HasMore bool `json:"has_more"`
	}
	if err := json.Unmarshal(page.body, &list); err != nil || len(list.Data) != 2 || list.Data[0].ID != refs[7] || !list.HasMore {
		t.Errorf("%s", page.body)
	}
	r.want(r.fetch("/v1/payment_intents?starting_after=pi_nope"), 400, "error.code", "resource_missing")
	r.want(r.fetch("/v1/payment_intents?limit=101"), 400)
	r.want(r.fetch("/v1/payment_intents?created[ne]=5"), 400)
	r.want(r.fetch("/v1/payment_intents?metadata[attempt]=x"), 400, "error.code", "parameter_unknown")
}

func TestSearchPages(t *testing.T) {
	r := newRig(t, nil)
	for i := range 23 {
		r.create("pm_ok", "automatic", fmt.Sprintf("att_%d", i))
	}
	n := 0
	for _, err := range r.official().V1PaymentIntents.Search(t.Context(), &stripe.PaymentIntentSearchParams{SearchParams: stripe.SearchParams{Query: "currency:'eur' AND amount:1000"}}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 23 {
		t.Errorf("%d found", n)
	}
	r.want(r.fetch("/v1/payment_intents/search?query=colour:%22red%22"), 400)
	r.want(r.fetch("/v1/payment_intents/search?query=metadata:%22red%22"), 400)
}

func TestHiddenPayment(t *testing.T) {
	r := newRig(t, nil)
	r.post("/v1/payment_intents", "k1", form("pm_hidden_20s", "automatic", "att_1"))
	ref := r.Books().Payments[0].Ref
	search := "/v1/payment_intents/search?query=metadata%5B%22attempt%22%5D:%22att_1%22"
	for _, found := range []bool{false, true} {
		status := map[bool]int{false: 404, true: 200}[found]
		r.want(r.fetch("/v1/payment_intents/"+ref), status)
		for _, path := range []string{search, "/v1/payment_intents"} {
			if got := r.want(r.fetch(path), 200); strings.Contains(string(got.body), ref) != found {
				t.Errorf("%s: found %t: %s", path, !found, got.body)
			}
		}
		r.advance(20 * time.Second)
	}
}

// What Stripe refuses before it does anything; nothing of it is a payment.
func TestMalformedRequests(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxAmount = 5000 })
	base := "currency=eur&confirm=true&payment_method=pm_ok&"
	for form, code := range map[string]string{
		"currency=eur":                     "parameter_missing",
		base + "amount=10.5":               "parameter_invalid_integer",
		base + "amount=1e3":                "parameter_invalid_integer",
		base + "amount=%2B5":               "parameter_invalid_integer",
		base + "amount=0":                  "amount_too_small",
		base + "amount=-5":                 "amount_too_small",
		base + "amount=5001":               "amount_too_large",
		base + "amount=5&amount=6":         "",
		base + "amount=5&colour=red":       "parameter_unknown",
		base + "amount=5&metadata[a[b]]=x": "",
		base + "amount=5&metadata[]=x":     "",
		base + "amount=5&metadata[a]=" + strings.Repeat("x", 501):                 "",
		base + "amount=5&capture_method=later":                                    "",
		"amount=5&currency=EUR&confirm=true&payment_method=pm_ok":                 "",
		"amount=5&currency=eur&confirm=true":                                      "parameter_missing",
		"amount=5&currency=eur&confirm=true&payment_method=pm_ok_capture":         "resource_missing",
		"amount=5&currency=eur&confirm=true&payment_method=pm_ok_void_action":     "resource_missing",
		"amount=5&currency=eur&confirm=true&payment_method=pm_slow_ok_601s":       "resource_missing",
		"amount=5&currency=eur&confirm=true&payment_method=pm_ok_capture_slow_Ns": "resource_missing",
	} {
		r.want(r.post("/v1/payment_intents", "", form), 400, "error.code", code)
	}
	r.want(r.post("/v1/payment_intents/pi_nope/capture", "", ""), 404, "error.code", "resource_missing")
	r.want(r.post("/v1/payment_intents/pi_nope/cancel", "", ""), 404)
	r.want(r.post("/v1/payment_intents/pi_nope/confirm", "", ""), 404)
	r.want(r.post("/v1/refunds", "", "payment_intent=pi_nope"), 404)
	r.want(r.fetch("/v1/payment_intents/pi_nope"), 404)
	r.want(r.fetch("/v1/refunds/re_nope"), 404)
	r.want(r.fetch("/v1/balance"), 404, "error.type", "invalid_request_error")
	if b := r.Books(); len(b.Payments) != 0 {
		t.Errorf("payments %+v", b.Payments)
	}
}

func TestBearerKey(t *testing.T) {
	for _, c := range []struct {
		only, header string
		status       int
	}{
		{"", "Bearer sk_test_x", 200}, {"", "Bearer pk_test_x", 401}, {"", "", 401}, {"", "sk_test_x", 401},
		{"sk_1", "Bearer sk_1", 200}, {"sk_1", "Bearer sk_2", 401}, {"sk_1", "Basic c2tfMTo=", 200},
	} {
		handler := newSim(t, Options{Now: time.Now, SecretKey: c.only}).Handler()
		req, _ := http.NewRequest(http.MethodGet, "/v1/payment_intents", nil)
		req.Header.Set("Authorization", c.header)
		w := newRecorder()
		handler.ServeHTTP(w, req)
		if w.status != c.status {
			t.Errorf("%q with key %q: %d", c.header, c.only, w.status)
		}
	}
}

type recorder struct {
	header http.Header
	status int
}

func newRecorder() *recorder                    { return &recorder{header: http.Header{}} }
func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(p []byte) (int, error) { return len(p), nil }

func TestRefusedTransitions(t *testing.T) {
	r := newRig(t, nil)
	manual, auto := r.create("pm_ok", "manual", "a1"), r.create("pm_ok", "automatic", "a2")
	const unexpected = "payment_intent_unexpected_state"
	path := func(ref, verb string) string { return "/v1/payment_intents/" + ref + "/" + verb }
	r.want(r.post(path(manual, "capture"), "", "amount_to_capture=1001"), 400, "error.param", "amount_to_capture")
	r.want(r.post(path(auto, "capture"), "", ""), 400, "error.code", unexpected, "error.payment_intent.status", "succeeded")
	r.want(r.post(path(auto, "cancel"), "", ""), 400, "error.code", unexpected)
	r.want(r.post(path(auto, "confirm"), "", ""), 400, "error.code", unexpected)
	r.want(r.post("/v1/refunds", "", "payment_intent="+manual), 400, "error.param", "payment_intent")
	r.want(r.post("/v1/refunds", "", "amount=1001&payment_intent="+auto), 400, "error.param", "amount")
	r.want(r.post("/v1/refunds", "", "payment_intent="+auto), 200, "amount", "1000")
	r.want(r.post("/v1/refunds", "", "payment_intent="+auto), 400, "error.code", "charge_already_refunded")
	r.want(r.post(path(manual, "cancel"), "", "cancellation_reason=abandoned"), 200, "status", "canceled", "cancellation_reason", "abandoned")
	r.want(r.post(path(manual, "cancel"), "", ""), 400, "error.payment_intent.status", "canceled")
	r.want(r.post(path(manual, "capture"), "", ""), 400, "error.code", unexpected)
}

func TestExpiry(t *testing.T) {
	r := newRig(t, nil)
	whole, part := r.create("pm_ok", "manual", "a1"), r.create("pm_ok", "manual", "a2")
	r.want(r.post("/v1/payment_intents/"+part+"/capture", "", "amount_to_capture=400&final_capture=false"), 200, "status", "requires_capture", "amount_capturable", "600")
	r.advance(7*24*time.Hour - time.Second)
	r.want(r.fetch("/v1/payment_intents/"+whole), 200, "status", "requires_capture")
	r.advance(time.Second)
	for _, ref := range []string{whole, part} {
		r.want(r.post("/v1/payment_intents/"+ref+"/capture", "", ""), 400, "error.code", "charge_expired_for_capture")
	}
	r.want(r.fetch("/v1/payment_intents/"+whole), 200, "status", "canceled", "cancellation_reason", "automatic")
	r.want(r.fetch("/v1/payment_intents/"+part), 200, "status", "succeeded", "amount_received", "400", "amount_capturable", "0")
}
