package stripe

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	stripego "github.com/stripe/stripe-go/v82"

	"paygrid/psprouter"
)

// verdict is what a row expects: the class, and how people and codes are told.
type verdict struct {
	class    psprouter.Class
	code     string
	rejected bool
	alert    bool
}

func unknown() verdict       { return verdict{class: psprouter.Unknown} }
func alert() verdict         { return verdict{class: psprouter.Unknown, alert: true} }
func no(code string) verdict { return verdict{class: psprouter.Declined, code: code} }
func notSent() verdict       { return verdict{class: psprouter.NotSent} }
func rejected(code string) verdict {
	return verdict{class: psprouter.NotSent, code: code, rejected: true}
}
func is(class psprouter.Class) verdict { return verdict{class: class} }

func (v verdict) check(t *testing.T, name string, out psprouter.Outcome) {
	t.Helper()
	if out.Class() != v.class || out.Code != v.code || out.Rejected != v.rejected || out.Alert != v.alert {
		t.Errorf("%s:\n got %v code=%q rejected=%t alert=%t (%s)\nwant %v code=%q rejected=%t alert=%t",
			name, out.Class(), out.Code, out.Rejected, out.Alert, out.Reason, v.class, v.code, v.rejected, v.alert)
	}
}

// decoded makes an answer as it would be read: objects are decoded by stripe-go's own types.
func decoded(t *testing.T, status int, header http.Header, errorJSON string) answer {
	t.Helper()
	a := answer{status: status, header: header}
	if errorJSON != "" {
		a.fault = new(stripego.Error)
		if err := json.Unmarshal([]byte(errorJSON), a.fault); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func intentOf(t *testing.T, body string) *stripego.PaymentIntent {
	t.Helper()
	intent := new(stripego.PaymentIntent)
	if err := json.Unmarshal([]byte(body), intent); err != nil {
		t.Fatal(err)
	}
	return intent
}

var (
	limitedHeader  = http.Header{"Stripe-Rate-Limited-Reason": {"global-rate"}}
	promisedHeader = http.Header{"X-Not-Processed": {"true"}}
	replayed       = func(h http.Header) http.Header {
		h = h.Clone()
		h.Set("Idempotent-Replayed", "true")
		return h
	}
)

// errorRows hold for every call alike: what Stripe's answer without an object means.
var errorRows = []struct {
	name                    string
	status                  int
	header                  http.Header
	err                     string
	authorize, modification verdict
}{
	{"400 validation", 400, nil, `{"type":"invalid_request_error","code":"parameter_missing"}`, rejected("parameter_missing"), no("parameter_missing")},
	{"400 without a code", 400, nil, `{"type":"invalid_request_error","message":"x"}`, rejected("invalid_request_error"), no("invalid_request_error")},
	{"400 too large", 400, nil, `{"type":"invalid_request_error","code":"amount_too_large"}`, rejected("amount_too_large"), no("amount_too_large")},
	{"400 api_error", 400, nil, `{"type":"api_error"}`, unknown(), unknown()},
	{"400 no type", 400, nil, `{}`, unknown(), unknown()},
	{"400 an unheard-of type", 400, nil, `{"type":"quantum_error","code":"x"}`, unknown(), unknown()},
	{"400 key reused", 400, nil, `{"type":"idempotency_error"}`, alert(), alert()},
	{"409 key reused, as third parties say", 409, nil, `{"type":"idempotency_error"}`, alert(), alert()},
	{"409 in flight", 409, nil, `{"type":"invalid_request_error","code":"idempotency_key_in_use"}`, unknown(), unknown()},
	{"400 in flight", 400, nil, `{"type":"invalid_request_error","code":"idempotency_key_in_use"}`, unknown(), unknown()},
	{"400 object exists", 400, nil, `{"type":"invalid_request_error","code":"resource_already_exists"}`, unknown(), alert()},
	{"401", 401, nil, `{"type":"invalid_request_error"}`, rejected("invalid_request_error"), notSent()},
	{"403", 403, nil, `{"type":"invalid_request_error"}`, rejected("invalid_request_error"), notSent()},
	{"404", 404, nil, `{"type":"invalid_request_error","code":"resource_missing"}`, rejected("resource_missing"), no("resource_missing")},
	{"402 that is no card's", 402, nil, `{"type":"invalid_request_error"}`, unknown(), unknown()},
	{"418", 418, nil, `{"type":"invalid_request_error"}`, unknown(), unknown()},
	{"424", 424, nil, `{"type":"api_error"}`, unknown(), unknown()},
	{"429 of the limiter", 429, limitedHeader, `{"type":"invalid_request_error","code":"rate_limit"}`, notSent(), notSent()},
	{"429 replayed", 429, replayed(limitedHeader), `{"type":"invalid_request_error","code":"rate_limit"}`, unknown(), unknown()},
	{"429 without a reason", 429, nil, `{"type":"invalid_request_error","code":"rate_limit"}`, unknown(), unknown()},
	{"429 an unheard-of reason", 429, http.Header{"Stripe-Rate-Limited-Reason": {"moon"}}, `{"type":"invalid_request_error"}`, unknown(), unknown()},
	{"429 lock_timeout", 429, limitedHeader, `{"type":"invalid_request_error","code":"lock_timeout"}`, unknown(), unknown()},
	{"500", 500, nil, `{"type":"api_error"}`, unknown(), unknown()},
	{"500 that calls itself a card's no", 500, nil, `{"type":"card_error","code":"card_declined"}`, unknown(), unknown()},
	{"502", 502, nil, `{"type":"api_error"}`, unknown(), unknown()},
	{"503", 503, nil, `{"type":"api_error"}`, unknown(), unknown()},
	{"503 with the promise", 503, promisedHeader, `{"type":"api_error"}`, notSent(), notSent()},
	{"503 with the promise, replayed", 503, replayed(promisedHeader), `{"type":"api_error"}`, unknown(), unknown()},
	{"503 with the promise denied", 503, http.Header{"X-Not-Processed": {"false"}}, `{"type":"api_error"}`, unknown(), unknown()},
	{"500 with the promise", 500, promisedHeader, `{"type":"api_error"}`, unknown(), unknown()},
	{"504", 504, nil, `{"type":"api_error"}`, unknown(), unknown()},
	{"302 without a body", 302, nil, ``, unknown(), unknown()},
	{"201", 201, nil, ``, unknown(), unknown()},
}

func TestErrorsClassify(t *testing.T) {
	j := judge{notProcessedHeader: "X-Not-Processed"}
	for _, row := range errorRows {
		a := decoded(t, row.status, row.header, row.err)
		row.authorize.check(t, row.name+", authorize", j.authorize(a, nil, asked{attempt: "att_1"}))
		row.modification.check(t, row.name+", capture", j.capture(a, nil, askedCapture{}))
		row.modification.check(t, row.name+", void", j.void(a, nil, askedVoid{}))
		row.modification.check(t, row.name+", refund", j.refund(a, nil, askedRefund{}))
	}
}

// Without configuration no 503 is ever "not processed": Stripe documents no such marker.
func TestPromiseCountsOnlyWhenConfigured(t *testing.T) {
	a := decoded(t, 503, http.Header{"X-Not-Processed": {"true"}, "": {"true"}}, `{"type":"api_error"}`)
	unknown().check(t, "503", judge{}.authorize(a, nil, asked{}))
}

func TestNoAnswerClassifies(t *testing.T) {
	j := judge{}
	for _, row := range []struct {
		name string
		a    answer
		want verdict
	}{
		{"provably unsent", answer{unsent: "refused"}, notSent()},
		{"cut off", answer{broken: errors.New("EOF")}, unknown()},
		{"a 200 that cannot be read", answer{status: 200, broken: errors.New("EOF")}, unknown()},
		{"a 400 that cannot be read", answer{status: 400, broken: errors.New("html")}, unknown()},
		{"a 429 that cannot be read", answer{status: 429, header: limitedHeader, broken: errors.New("html")}, unknown()},
		{"nothing at all", answer{}, unknown()},
	} {
		row.want.check(t, row.name, j.authorize(row.a, nil, asked{}))
		row.want.check(t, row.name, j.refund(row.a, nil, askedRefund{}))
		row.want.check(t, row.name, j.void(row.a, nil, askedVoid{}))
		row.want.check(t, row.name, j.capture(row.a, nil, askedCapture{}))
	}
}

func TestAuthorizeAnswers(t *testing.T) {
	const head = `{"object":"payment_intent","id":"pi_1","amount":1000,"currency":"eur","metadata":{"attempt":"att_1"},`
	manual := asked{attempt: "att_1", amount: 1000, currency: "eur"}
	auto := manual
	auto.captured = true
	for _, row := range []struct {
		name string
		want asked
		body string
		verdict
	}{
		{"authorized", manual, head + `"status":"requires_capture","amount_capturable":1000}`, is(psprouter.Approved)},
		{"captured", auto, head + `"status":"succeeded","amount_received":1000}`, is(psprouter.Approved)},
		{"captured, not asked to", manual, head + `"status":"succeeded","amount_received":1000}`, alert()},
		{"authorized, asked to capture", auto, head + `"status":"requires_capture","amount_capturable":1000}`, alert()},
		{"authorized in part", manual, head + `"status":"requires_capture","amount_capturable":900}`, alert()},
		{"captured in part", auto, head + `"status":"succeeded","amount_received":900}`, alert()},
		{"authorized and captured", manual, head + `"status":"requires_capture","amount_capturable":1000,"amount_received":1}`, alert()},
		{"processing", manual, head + `"status":"processing"}`, is(psprouter.Accepted)},
		{"redirect", manual, head + `"status":"requires_action","next_action":{"type":"redirect_to_url","redirect_to_url":{"url":"https://x"}}}`, is(psprouter.ActionRequired)},
		{"an action that is no redirect", manual, head + `"status":"requires_action","next_action":{"type":"use_stripe_sdk"}}`, unknown()},
		{"canceled", manual, head + `"status":"canceled"}`, alert()},
		{"a 200 that says no card", manual, head + `"status":"requires_payment_method"}`, unknown()},
		{"unconfirmed", manual, head + `"status":"requires_confirmation"}`, unknown()},
		{"an unheard-of status", manual, head + `"status":"blessed"}`, unknown()},
		{"no status", manual, head + `"livemode":false}`, unknown()},
		{"another amount", manual, `{"object":"payment_intent","id":"pi_1","amount":999,"currency":"eur","status":"requires_capture","amount_capturable":999,"metadata":{"attempt":"att_1"}}`, alert()},
		{"another currency", manual, `{"object":"payment_intent","id":"pi_1","amount":1000,"currency":"usd","status":"requires_capture","amount_capturable":1000,"metadata":{"attempt":"att_1"}}`, alert()},
		{"another attempt", manual, `{"object":"payment_intent","id":"pi_1","amount":1000,"currency":"eur","status":"requires_capture","amount_capturable":1000,"metadata":{"attempt":"att_2"}}`, alert()},
		{"no metadata", manual, `{"object":"payment_intent","id":"pi_1","amount":1000,"currency":"eur","status":"requires_capture","amount_capturable":1000}`, alert()},
		{"another object", manual, `{"object":"charge","id":"ch_1","amount":1000,"currency":"eur","status":"succeeded"}`, alert()},
		{"an empty object", manual, `{}`, alert()},
	} {
		row.check(t, row.name, judge{}.authorize(answer{status: 200}, intentOf(t, row.body), row.want))
	}
}

func TestAuthorizeDeclines(t *testing.T) {
	intent := func(status, attempt string) string {
		return `"payment_intent":{"object":"payment_intent","id":"pi_1","status":"` + status + `","metadata":{"attempt":"` + attempt + `"}}`
	}
	for _, row := range []struct {
		name, err string
		status    int
		verdict
	}{
		{"declined", `{"type":"card_error","code":"card_declined","decline_code":"insufficient_funds",` + intent("requires_payment_method", "att_1") + `}`, 402, no("insufficient_funds")},
		{"expired card", `{"type":"card_error","code":"expired_card",` + intent("requires_payment_method", "att_1") + `}`, 402, no("expired_card")},
		{"declined, of another attempt", `{"type":"card_error","code":"card_declined",` + intent("requires_payment_method", "att_2") + `}`, 402, alert()},
		{"declined, yet captured", `{"type":"card_error","code":"card_declined",` + intent("succeeded", "att_1") + `}`, 402, unknown()},
		{"declined, yet processing", `{"type":"card_error","code":"card_declined",` + intent("processing", "att_1") + `}`, 402, unknown()},
		{"declined without the payment", `{"type":"card_error","code":"card_declined"}`, 402, unknown()},
		{"400 of a card", `{"type":"card_error","code":"card_declined",` + intent("requires_payment_method", "att_1") + `}`, 400, unknown()},
		{"rejected, payment left open", `{"type":"invalid_request_error","code":"x",` + intent("requires_payment_method", "att_1") + `}`, 400, rejected("x")},
		{"rejected, yet captured", `{"type":"invalid_request_error","code":"x",` + intent("succeeded", "att_1") + `}`, 400, unknown()},
		{"unexpected state", `{"type":"invalid_request_error","code":"payment_intent_unexpected_state",` + intent("requires_payment_method", "att_1") + `}`, 400, unknown()},
	} {
		row.check(t, row.name, judge{}.authorize(decoded(t, row.status, nil, row.err), nil, asked{attempt: "att_1"}))
	}
}

func TestModificationRefusals(t *testing.T) {
	state := func(status, received string) string {
		return `{"type":"invalid_request_error","code":"payment_intent_unexpected_state","payment_intent":{"object":"payment_intent","id":"pi_1","status":"` +
			status + `","amount_received":` + received + `}}`
	}
	card := func(status string) string {
		return `{"type":"card_error","code":"card_declined","payment_intent":{"object":"payment_intent","id":"pi_1","status":"` + status + `"}}`
	}
	const gone = "payment_intent_unexpected_state"
	for _, row := range []struct {
		name                  string
		status                int
		err                   string
		capture, void, refund verdict
	}{
		{"already succeeded", 400, state("succeeded", "1000"), alert(), no(gone), unknown()},
		{"already canceled", 400, state("canceled", "0"), no(gone), alert(), unknown()},
		{"canceled with money", 400, state("canceled", "5"), unknown(), alert(), unknown()},
		{"still processing", 400, state("processing", "0"), unknown(), unknown(), unknown()},
		{"no payment in it", 400, `{"type":"invalid_request_error","code":"payment_intent_unexpected_state"}`, unknown(), unknown(), unknown()},
		{"already captured", 400, `{"type":"invalid_request_error","code":"charge_already_captured"}`, alert(), alert(), alert()},
		{"already refunded", 400, `{"type":"invalid_request_error","code":"charge_already_refunded"}`, alert(), alert(), alert()},
		{"expired", 400, `{"type":"invalid_request_error","code":"charge_expired_for_capture"}`, no("charge_expired_for_capture"), no("charge_expired_for_capture"), no("charge_expired_for_capture")},
		{"card's no, still authorized", 402, card("requires_capture"), no("card_declined"), no("card_declined"), no("card_declined")},
		{"card's no, yet captured", 402, card("succeeded"), unknown(), unknown(), no("card_declined")},
		{"card's no without the payment", 402, `{"type":"card_error","code":"card_declined"}`, unknown(), unknown(), no("card_declined")},
	} {
		a := decoded(t, row.status, nil, row.err)
		row.capture.check(t, row.name+", capture", judge{}.capture(a, nil, askedCapture{intent: "pi_1"}))
		row.void.check(t, row.name+", void", judge{}.void(a, nil, askedVoid{intent: "pi_1"}))
		row.refund.check(t, row.name+", refund", judge{}.refund(a, nil, askedRefund{intent: "pi_1"}))
	}
}

func TestCaptureAndVoidAnswers(t *testing.T) {
	const head = `{"object":"payment_intent","id":"pi_1","amount":1000,"currency":"eur","metadata":{"attempt":"att_1","capture_attempt":"att_2"},`
	all := askedCapture{attempt: "att_2", intent: "pi_1", currency: "eur", authorized: 1000, received: 1000}
	last, open, other, another := all, all, all, all
	last.received, open.received, open.open = 600, 600, true
	other.attempt, another.intent = "att_3", "pi_2"
	for _, row := range []struct {
		name string
		want askedCapture
		body string
		verdict
	}{
		{"all", all, head + `"status":"succeeded","amount_received":1000}`, is(psprouter.Approved)},
		{"a part, rest released", last, head + `"status":"succeeded","amount_received":600}`, is(psprouter.Approved)},
		{"a part, rest open", open, head + `"status":"requires_capture","amount_received":600,"amount_capturable":400}`, is(psprouter.Approved)},
		{"a part, rest open, less than there should be", open, head + `"status":"requires_capture","amount_received":600,"amount_capturable":300}`, alert()},
		{"rest released, asked to keep it", open, head + `"status":"succeeded","amount_received":600}`, alert()},
		{"rest open, asked to release it", last, head + `"status":"requires_capture","amount_received":600,"amount_capturable":400}`, alert()},
		{"too little", all, head + `"status":"succeeded","amount_received":999}`, alert()},
		{"not at all", all, head + `"status":"requires_capture","amount_capturable":1000}`, alert()},
		{"canceled", all, head + `"status":"canceled"}`, alert()},
		{"processing", all, head + `"status":"processing"}`, is(psprouter.Accepted)},
		{"an unheard-of status", all, head + `"status":"blessed"}`, unknown()},
		{"another capture's answer", other, head + `"status":"succeeded","amount_received":1000}`, alert()},
		{"another payment", another, head + `"status":"succeeded","amount_received":1000}`, alert()},
		{"an empty object", all, `{}`, alert()},
	} {
		row.check(t, row.name, judge{}.capture(answer{status: 200}, intentOf(t, row.body), row.want))
	}
	void := askedVoid{intent: "pi_1", amount: 1000, currency: "eur"}
	for body, want := range map[string]verdict{
		head + `"status":"canceled"}`:                                                                is(psprouter.Approved),
		head + `"status":"canceled","amount_received":1}`:                                            alert(),
		head + `"status":"requires_capture"}`:                                                        alert(),
		head + `"status":"succeeded","amount_received":1000}`:                                        alert(),
		head + `"status":"processing"}`:                                                              is(psprouter.Accepted),
		`{"object":"payment_intent","id":"pi_2","amount":1000,"currency":"eur","status":"canceled"}`: alert(),
	} {
		want.check(t, "void "+body, judge{}.void(answer{status: 200}, intentOf(t, body), void))
	}
}

func TestRefundAnswers(t *testing.T) {
	want := askedRefund{attempt: "att_3", intent: "pi_1", amount: 400, currency: "eur"}
	body := func(status, amount, currency, intent, attempt string) string {
		return `{"object":"refund","id":"re_1","status":"` + status + `","amount":` + amount + `,"currency":"` + currency +
			`","payment_intent":"` + intent + `","metadata":{"attempt":"` + attempt + `"}}`
	}
	for _, row := range []struct {
		name, body string
		verdict
	}{
		{"succeeded", body("succeeded", "400", "eur", "pi_1", "att_3"), is(psprouter.Approved)},
		{"pending", body("pending", "400", "eur", "pi_1", "att_3"), is(psprouter.Accepted)},
		{"requires_action", body("requires_action", "400", "eur", "pi_1", "att_3"), is(psprouter.Accepted)},
		{"failed", body("failed", "400", "eur", "pi_1", "att_3"), no("failed")},
		{"canceled", body("canceled", "400", "eur", "pi_1", "att_3"), no("canceled")},
		{"unheard-of", body("blessed", "400", "eur", "pi_1", "att_3"), unknown()},
		{"another amount", body("succeeded", "401", "eur", "pi_1", "att_3"), alert()},
		{"another currency", body("succeeded", "400", "usd", "pi_1", "att_3"), alert()},
		{"another payment", body("succeeded", "400", "eur", "pi_2", "att_3"), alert()},
		{"another attempt", body("succeeded", "400", "eur", "pi_1", "att_4"), alert()},
		{"another object", `{"object":"charge","id":"ch_1"}`, unknown()},
	} {
		refund := new(stripego.Refund)
		if err := json.Unmarshal([]byte(row.body), refund); err != nil {
			t.Fatal(err)
		}
		row.check(t, row.name, judge{}.refund(answer{status: 200}, refund, want))
	}
}

func TestCaptureBefore(t *testing.T) {
	intent := intentOf(t, `{"object":"payment_intent","id":"pi_1","amount":1000,"currency":"eur","metadata":{"attempt":"att_1"},"status":"requires_capture",
		"amount_capturable":1000,"latest_charge":{"object":"charge","id":"ch_1","payment_method_details":{"card":{"capture_before":1700000000}}}}`)
	out := judge{}.authorize(answer{status: 200}, intent, asked{attempt: "att_1", amount: 1000, currency: "eur"})
	if want := time.Unix(1700000000, 0).UTC(); !out.ExpiresAt.Equal(want) || out.Reference != "pi_1" {
		t.Fatalf("expires %v, reference %q", out.ExpiresAt, out.Reference)
	}
}
