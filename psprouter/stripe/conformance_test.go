package stripe

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"paygrid/psprouter"
	"paygrid/psprouter/psptest"
)

// The webhook secrets of these tests; the third is nobody's.
var secrets = []string{"whsec_new", "whsec_old", "whsec_forged"}

func signed(body []byte, at time.Time, secret string) http.Header {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return http.Header{SignatureHeader: {fmt.Sprintf("t=%d,v1=%x", at.Unix(), mac.Sum(nil))}}
}

// intentAs is the payment as it stands after the call.
func intentAs(c psptest.Call) string {
	status, capturable, received, extra := "requires_capture", c.Amount.Minor, int64(0), ""
	ref := c.PaymentRef
	switch c.Operation {
	case psprouter.OpAuthorize:
		ref, extra = "PSPREF0000000001", `"attempt":"`+c.Attempt+`"`
	case psprouter.OpCapture:
		status, capturable, received, extra = "succeeded", 0, c.Amount.Minor, `"capture_attempt":"`+c.Attempt+`"`
	case psprouter.OpVoid:
		status, capturable = "canceled", 0
	}
	return fmt.Sprintf(`{"object":"payment_intent","id":%q,"amount":%d,"currency":"eur","status":%q,"amount_capturable":%d,"amount_received":%d,"metadata":{%s}}`,
		ref, c.Amount.Minor, status, capturable, received, extra)
}

func objectAs(c psptest.Call) string {
	if c.Operation != psprouter.OpRefund {
		return intentAs(c)
	}
	return fmt.Sprintf(`{"object":"refund","id":"re_1","amount":%d,"currency":"eur","status":"succeeded","payment_intent":%q,"metadata":{"attempt":%q}}`,
		c.Amount.Minor, c.PaymentRef, c.Attempt)
}

func foundBy(c psptest.Call, r *http.Request) psptest.Response {
	switch r.URL.Path {
	case "/v1/payment_intents/search":
		return psptest.Response{Status: 200, Body: `{"object":"search_result","url":"/v1/payment_intents/search","has_more":false,"data":[` + intentAs(c) + `]}`}
	case "/v1/payment_intents", "/v1/refunds":
		return psptest.Response{Status: 200, Body: `{"object":"list","url":"` + r.URL.Path + `","has_more":false,"data":[` + objectAs(c) + `]}`}
	}
	return psptest.Response{Status: 200, Body: intentAs(c)}
}

func noticeOf(e psptest.Event) []byte {
	return fmt.Appendf(nil, `{"id":%q,"object":"event","livemode":%t,"type":"payment_intent.amount_capturable_updated","data":{"object":{
		"object":"payment_intent","id":%q,"status":"requires_capture","capture_method":"manual","amount":%d,"amount_capturable":%d,"amount_received":0,
		"currency":%q,"metadata":{"attempt":%q}}}}`, e.ID, !e.Foreign, e.PaymentRef, e.Amount, e.Amount, strings.ToLower(e.Currency), e.Attempt)
}

func amountIn(body []byte) (int64, string) {
	form, _ := url.ParseQuery(string(body))
	amount, _ := strconv.ParseInt(form.Get("amount"), 10, 64)
	return amount, strings.ToUpper(form.Get("currency"))
}

func failure(status int, header http.Header, object string) psptest.Response {
	return psptest.Response{Status: status, Header: header, Body: `{"error":` + object + `}`}
}

func TestConformance(t *testing.T) {
	is := func(class psprouter.Class) func(string) psprouter.Class {
		return func(string) psprouter.Class { return class }
	}
	psptest.Run(t, psptest.Harness{
		New: func(t testing.TB, base string, timeout time.Duration) psptest.Adapter {
			a, err := New(Config{BaseURL: base, SecretKey: "sk_test_1", Timeout: timeout, AllowUGX: true, Live: true, WebhookSecrets: secrets[:2]})
			if err != nil {
				t.Fatal(err)
			}
			return a
		},
		Success: func(c psptest.Call) psptest.Response { return psptest.Response{Status: 200, Body: objectAs(c)} },
		Class:   is(psprouter.Approved), Found: foundBy, Inquired: is(psprouter.Approved), WireAmount: amountIn,
		Refusals: []psptest.Refusal{
			psptest.Refuse("rate limit", failure(429, limitedHeader, `{"type":"invalid_request_error","code":"rate_limit"}`), psprouter.NotSent, psprouter.NotSent),
			psptest.Refuse("rate limit, replayed", failure(429, replayed(limitedHeader), `{"type":"invalid_request_error","code":"rate_limit"}`), psprouter.Unknown, psprouter.Unknown),
			psptest.Refuse("lock time-out", failure(429, nil, `{"type":"invalid_request_error","code":"lock_timeout"}`), psprouter.Unknown, psprouter.Unknown),
			psptest.Refuse("key in use", failure(409, nil, `{"type":"invalid_request_error","code":"idempotency_key_in_use"}`), psprouter.Unknown, psprouter.Unknown),
			psptest.Refuse("key of another request", failure(400, nil, `{"type":"idempotency_error"}`), psprouter.Unknown, psprouter.Unknown),
			psptest.Refuse("validation", failure(400, nil, `{"type":"invalid_request_error","code":"parameter_missing"}`), psprouter.NotSent, psprouter.Declined),
			psptest.Refuse("no key", failure(401, nil, `{"type":"invalid_request_error"}`), psprouter.NotSent, psprouter.NotSent),
			psptest.Refuse("not there", failure(404, nil, `{"type":"invalid_request_error","code":"resource_missing"}`), psprouter.NotSent, psprouter.Declined),
			psptest.Refuse("dependency failed", failure(424, nil, `{"type":"api_error"}`), psprouter.Unknown, psprouter.Unknown),
			psptest.Refuse("server error", failure(500, nil, `{"type":"api_error"}`), psprouter.Unknown, psprouter.Unknown),
			psptest.Refuse("unavailable", failure(503, nil, `{"type":"api_error"}`), psprouter.Unknown, psprouter.Unknown),
		},
		Amounts: []psptest.Amount{ // C025, and the other currencies of Stripe's own kind
			{Minor: 500, Currency: "JPY", Wire: 500}, {Minor: 1099, Currency: "EUR", Wire: 1099}, {Minor: 5120, Currency: "KWD", Wire: 5120},
			{Minor: 5124, Currency: "KWD", Refused: true}, {Minor: 5, Currency: "UGX", Wire: 500}, {Minor: 2790, Currency: "ISK", Wire: 279000},
			{Minor: 1045, Currency: "HUF", Wire: 1045}, {Minor: 1500, Currency: "CLP", Wire: 1500}, {Minor: 1234500, Currency: "IDR", Wire: 1234500},
			{Minor: 500, Currency: "MGA", Wire: 5}, {Minor: 510, Currency: "MGA", Refused: true}, {Minor: 500, Currency: "CVE", Wire: 500},
			{Minor: 500, Currency: "BIF", Wire: 500}, {Minor: 1000, Currency: "IQD", Refused: true}, {Minor: 0, Currency: "EUR", Refused: true},
			{Minor: -1, Currency: "EUR", Refused: true}, {Minor: 1000, Currency: "XXX", Refused: true}, {Minor: 1000, Currency: "eur", Refused: true},
		},
		Notice: noticeOf, Unheard: []byte(`{"id":"evt_x","object":"event","livemode":true,"type":"quantum.leaped","data":{"object":{"id":7}}}`),
		Sign: func(body []byte, at time.Time, secret int) (http.Header, []byte) {
			return signed(body, at, secrets[secret]), body
		}, SignsTime: true,
	})
}
