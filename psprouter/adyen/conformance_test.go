package adyen

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"paygrid/psprouter"
	"paygrid/psprouter/psptest"
)

// The webhook keys of these tests, of psp.md's public vectors; the third is nobody's here.
var hmacKeys = []string{
	"DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00",
	"44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056",
	"9064450A8892A093D9E97EFCC9639DE31B74F3A7803135555A3C96F5A57915D6",
}

func newAdapter(t testing.TB, base string, change func(*Config)) *Adapter {
	t.Helper()
	cfg := Config{BaseURL: base + "/v71", APIKey: "key", MerchantAccount: "ShopEUMain", ReturnURL: "https://shop.example/back",
		Timeout: 5 * time.Second, Live: true, HMACKeys: hmacKeys[:2]}
	if change != nil {
		change(&cfg)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func successOf(c psptest.Call) psptest.Response {
	sum := fmt.Sprintf(`{"value":%d,"currency":"EUR"}`, c.Amount.Minor)
	if c.Operation == psprouter.OpAuthorize {
		return psptest.Response{Status: 200, Body: fmt.Sprintf(`{"pspReference":"PSPREF0000000001","resultCode":"Authorised","merchantReference":%q,"amount":%s}`, c.Attempt, sum)}
	}
	return psptest.Response{Status: 201, Body: fmt.Sprintf(
		`{"merchantAccount":"ShopEUMain","paymentPspReference":%q,"pspReference":"PSPREF0000000009","reference":%q,"status":"received","amount":%s}`, c.PaymentRef, c.Attempt, sum)}
}

func classOf(operation string) psprouter.Class {
	if operation == psprouter.OpAuthorize {
		return psprouter.Approved
	}
	return psprouter.Accepted
}

func failure(status int, code, kind string) psptest.Response {
	return psptest.Response{Status: status, Body: fmt.Sprintf(`{"status":%d,"errorCode":%q,"message":"m","errorType":%q}`, status, code, kind)}
}

func noticeOf(e psptest.Event) []byte {
	return fmt.Appendf(nil, `{"live":"%t","notificationItems":[{"NotificationRequestItem":{"additionalData":{},"amount":{"currency":%q,"value":%d},
		"eventCode":"AUTHORISATION","eventDate":"2026-01-01T00:00:00+01:00","merchantAccountCode":"ShopEUMain","merchantReference":%q,"pspReference":%q,
		"reason":"","success":"true"}}]}`, !e.Foreign, e.Currency, e.Amount, e.Attempt, e.PaymentRef)
}

// sign fills in the signatures of all items, by its own reading of the rule.
func sign(body []byte, hexKey string) []byte {
	var e map[string]any
	if err := json.Unmarshal(body, &e); err != nil {
		panic(err)
	}
	for _, one := range e["notificationItems"].([]any) {
		i := one.(map[string]any)["NotificationRequestItem"].(map[string]any)
		sum := i["amount"].(map[string]any)
		word := func(name string) any {
			if i[name] == nil {
				return ""
			}
			return i[name]
		}
		message := fmt.Sprintf("%v:%v:%v:%v:%v:%v:%v:%v", word("pspReference"), word("originalReference"), word("merchantAccountCode"),
			word("merchantReference"), sum["value"], sum["currency"], word("eventCode"), word("success"))
		i["additionalData"] = map[string]any{"hmacSignature": hmacOf(message, hexKey)}
	}
	out, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return out
}

func hmacOf(message, hexKey string) string {
	key, err := hex.DecodeString(hexKey)
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(message))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func TestConformance(t *testing.T) {
	psptest.Run(t, psptest.Harness{
		New: func(t testing.TB, base string, timeout time.Duration) psptest.Adapter {
			return newAdapter(t, base, func(c *Config) { c.Timeout = timeout })
		},
		Success: successOf, Class: classOf,
		Found: func(c psptest.Call, _ *http.Request) psptest.Response { return successOf(c) }, Inquired: classOf,
		WireAmount: func(body []byte) (int64, string) {
			var sent paymentBody
			_ = json.Unmarshal(body, &sent)
			return sent.Amount.Value, sent.Amount.Currency
		},
		Refusals: []psptest.Refusal{
			psptest.Refuse("validation", failure(422, "14_030", "validation"), psprouter.NotSent, psprouter.Declined),
			psptest.Refuse("bad JSON", failure(400, "702", "validation"), psprouter.NotSent, psprouter.Declined),
			psptest.Refuse("no key", failure(401, "000", "security"), psprouter.NotSent, psprouter.NotSent),
			psptest.Refuse("not allowed", failure(403, "010", "security"), psprouter.NotSent, psprouter.NotSent),
			psptest.Refuse("in progress, 422", failure(422, "704", "validation"), psprouter.Unknown, psprouter.Unknown),
			psptest.Refuse("in progress, 409", failure(409, "704", "validation"), psprouter.Unknown, psprouter.Unknown),
			psptest.Refuse("in progress, and may be sent again",
				psptest.Response{Status: 422, Header: http.Header{"Transient-Error": {"true"}}, Body: failure(422, "704", "validation").Body}, psprouter.Unknown, psprouter.Unknown),
			psptest.Refuse("key store down", failure(503, "703", "internal"), psprouter.Unknown, psprouter.Unknown),
			psptest.Refuse("internal with 422", failure(422, "905", "internal"), psprouter.Unknown, psprouter.Unknown),
			psptest.Refuse("configuration with 500", failure(500, "905", "configuration"), psprouter.Unknown, psprouter.Unknown),
			psptest.Refuse("not there", failure(404, "904", "validation"), psprouter.Unknown, psprouter.Unknown),
			psptest.Refuse("too many", failure(429, "999", "security"), psprouter.Unknown, psprouter.Unknown),
			psptest.Refuse("an error that contradicts its status", psptest.Response{Status: 422, Body: failure(500, "101", "validation").Body}, psprouter.Unknown, psprouter.Unknown),
			psptest.Refuse("pending", psptest.Response{Status: 200, Body: `{"pspReference":"P","resultCode":"Pending"}`}, psprouter.Accepted, psprouter.Unknown),
			psptest.Refuse("received", psptest.Response{Status: 201, Body: `{"pspReference":"P","status":"received","paymentPspReference":"PSPREF0000000001"}`}, psprouter.Unknown, psprouter.Accepted),
		},
		Amounts: []psptest.Amount{ // C025, and the other currencies of Adyen's own kind
			{Minor: 500, Currency: "JPY", Wire: 500}, {Minor: 1099, Currency: "EUR", Wire: 1099}, {Minor: 5120, Currency: "KWD", Wire: 5120},
			{Minor: 5124, Currency: "KWD", Wire: 5124}, {Minor: 5, Currency: "UGX", Wire: 5}, {Minor: 2790, Currency: "ISK", Wire: 279000},
			{Minor: 1045, Currency: "HUF", Wire: 1045}, {Minor: 1500, Currency: "CLP", Wire: 150000}, {Minor: 1234500, Currency: "IDR", Wire: 12345},
			{Minor: 1234501, Currency: "IDR", Refused: true}, {Minor: 500, Currency: "MGA", Wire: 500}, {Minor: 500, Currency: "CVE", Wire: 5},
			{Minor: 550, Currency: "CVE", Refused: true}, {Minor: 500, Currency: "BIF", Refused: true}, {Minor: 1000, Currency: "IQD", Wire: 1000},
			{Minor: 1000, Currency: "CLF", Refused: true}, {Minor: 0, Currency: "EUR", Refused: true}, {Minor: -1, Currency: "EUR", Refused: true},
			{Minor: 1000, Currency: "XXX", Refused: true}, {Minor: 1000, Currency: "eur", Refused: true},
		},
		Notice: noticeOf,
		Unheard: []byte(`{"live":"true","notificationItems":[{"NotificationRequestItem":{"amount":{"currency":"EUR","value":1},"eventCode":"QUANTUM_LEAP",
			"merchantAccountCode":"ShopEUMain","merchantReference":"x","pspReference":"P","success":"true"}}]}`),
		Sign: func(body []byte, _ time.Time, secret int) (http.Header, []byte) {
			return http.Header{}, sign(body, hmacKeys[secret])
		},
	})
}
