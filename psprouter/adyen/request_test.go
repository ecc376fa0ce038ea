package adyen

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"paygrid/ledger"
	"paygrid/psprouter"
)

// sent is one request as the peer saw it.
type sent struct{ path, key, apiKey, contentType, body string }

// recorded is an adapter whose peer keeps every request and answers 500: nothing is known afterwards.
func recorded(t testing.TB, change func(*Config)) (*Adapter, func() []sent) {
	var mu sync.Mutex
	var all []sent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		all = append(all, sent{r.URL.EscapedPath(), r.Header.Get("Idempotency-Key"), r.Header.Get("X-API-Key"), r.Header.Get("Content-Type"), string(body)})
		mu.Unlock()
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(server.Close)
	return newAdapter(t, server.URL, change), func() []sent {
		mu.Lock()
		defer mu.Unlock()
		taken := all
		all = nil
		return taken
	}
}

// The exact requests, so that a change of the wire is a decision: attempts that are pending then cannot be asked about.
func TestOnTheWire(t *testing.T) {
	a, taken := recorded(t, nil)
	eur := ledger.Money{Minor: 1099, Currency: "EUR"}
	r := psprouter.AuthorizeRequest{Attempt: "att_1", Amount: eur, Token: "8415", Recovery: psprouter.Recovery{Payment: "pay_1", Key: "k&<"}}
	a.Authorize(t.Context(), r)
	r.Token, r.AutoCapture, r.ReturnURL, r.Recovery = "shopper-7/8415", true, "https://shop.example/3ds?a=b&c", psprouter.Recovery{}
	a.Authorize(t.Context(), r)
	a.Capture(t.Context(), psprouter.CaptureRequest{Attempt: "att_2", PaymentRef: "P/1", Amount: eur, Authorized: 2000, Captured: 901})
	a.Void(t.Context(), psprouter.VoidRequest{Attempt: "att_3", PaymentRef: "P1", Amount: eur})
	a.Refund(t.Context(), psprouter.RefundRequest{Attempt: "att_4", PaymentRef: "P1", Amount: eur})
	want := []sent{
		{path: "/v71/payments", key: "att_1", body: `{"amount":{"value":1099,"currency":"EUR"},"merchantAccount":"ShopEUMain","reference":"att_1",` +
			`"paymentMethod":{"type":"scheme","storedPaymentMethodId":"8415"},"returnUrl":"https://shop.example/back","shopperInteraction":"ContAuth",` +
			`"recurringProcessingModel":"CardOnFile","additionalData":{"manualCapture":"true"},"metadata":{"key":"k\u0026\u003c","payment":"pay_1"}}`},
		{path: "/v71/payments", key: "att_1", body: `{"amount":{"value":1099,"currency":"EUR"},"merchantAccount":"ShopEUMain","reference":"att_1",` +
			`"paymentMethod":{"type":"scheme","storedPaymentMethodId":"8415"},"returnUrl":"https://shop.example/3ds?a=b\u0026c","shopperInteraction":"ContAuth",` +
			`"recurringProcessingModel":"CardOnFile","shopperReference":"shopper-7","captureDelayHours":0}`},
		{path: "/v71/payments/P%2F1/captures", key: "att_2", body: `{"merchantAccount":"ShopEUMain","amount":{"value":1099,"currency":"EUR"},"reference":"att_2"}`},
		{path: "/v71/payments/P1/cancels", key: "att_3", body: `{"merchantAccount":"ShopEUMain","reference":"att_3"}`},
		{path: "/v71/payments/P1/refunds", key: "att_4", body: `{"merchantAccount":"ShopEUMain","amount":{"value":1099,"currency":"EUR"},"reference":"att_4"}`},
	}
	for i, got := range taken() {
		want[i].apiKey, want[i].contentType = "key", "application/json"
		if got != want[i] {
			t.Errorf("%d:\n got %+v\nwant %+v", i, got, want[i])
		}
	}
}

// A re-send must be the first request to the byte, whatever the request was, or Adyen may take it for another.
func TestInquiryIsByteIdentical(t *testing.T) {
	a, taken := recorded(t, nil)
	now := time.Unix(1_800_000_000, 0)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ -~äß€😀]{0,300}`)
		r := psprouter.Recovery{Payment: text.Draw(t, "payment"), Client: text.Draw(t, "client"), Key: text.Draw(t, "key"), Order: text.Draw(t, "order")}
		for range rapid.IntRange(0, 30).Draw(t, "splits") {
			r.Splits = append(r.Splits, ledger.Split{SellerID: rapid.StringN(1, 20, -1).Draw(t, "seller"), Minor: 100, CommissionMinor: 7})
		}
		money := ledger.Money{Minor: rapid.Int64Range(1, 1e9).Draw(t, "minor"), Currency: ledger.Currency(rapid.SampledFrom([]string{"EUR", "CLP", "KWD"}).Draw(t, "currency"))}
		q := psprouter.Inquiry{
			Attempt: "att_0001_01JD0000000000000000000001", PaymentRef: "P1", Amount: money, Authorized: money.Minor, Token: "s/tok", Refund: "ref_1",
			AutoCapture: rapid.Bool().Draw(t, "auto"), ReturnURL: rapid.SampledFrom([]string{"", "https://x/?a&b"}).Draw(t, "return"),
			Final: rapid.Bool().Draw(t, "final"), SentAt: now.Add(-ResendLimit + time.Second), Now: now, Recovery: r,
		}
		a.Authorize(t.Context(), psprouter.AuthorizeRequest{Attempt: q.Attempt, Amount: money, Token: q.Token, AutoCapture: q.AutoCapture, ReturnURL: q.ReturnURL, Recovery: r})
		a.Capture(t.Context(), psprouter.CaptureRequest{Attempt: q.Attempt, PaymentRef: "P1", Amount: money, Authorized: money.Minor, Final: q.Final, Recovery: r})
		a.Void(t.Context(), psprouter.VoidRequest{Attempt: q.Attempt, PaymentRef: "P1", Amount: money, Recovery: r})
		a.Refund(t.Context(), psprouter.RefundRequest{Attempt: q.Attempt, Refund: q.Refund, PaymentRef: "P1", Amount: money, Recovery: r})
		first := taken()
		for _, q.Operation = range []string{psprouter.OpAuthorize, psprouter.OpCapture, psprouter.OpVoid, psprouter.OpRefund} {
			if f := a.Inquire(t.Context(), q); f.Absent || f.Outcome.Class() != psprouter.Unknown {
				t.Fatalf("%s: %+v", q.Operation, f)
			}
		}
		if again := taken(); len(first) != 4 || !reflect.DeepEqual(first, again) {
			t.Fatalf("first %+v\nagain %+v", first, again)
		}
	})
}

// After the limit nothing is sent: the key may be gone, and a request under a key that is gone is a new charge.
func TestInquiryEndsWithTheKeysLife(t *testing.T) {
	a, taken := recorded(t, nil)
	now := time.Unix(1_800_000_000, 0)
	for age, want := range map[time.Duration]int{0: 1, -time.Minute: 1, ResendLimit - time.Second: 1, ResendLimit: 0, 30 * 24 * time.Hour: 0} {
		q := psprouter.Inquiry{Attempt: "att_1", Operation: psprouter.OpAuthorize, Amount: ledger.Money{Minor: 1, Currency: "EUR"}, Token: "t", SentAt: now.Add(-age), Now: now}
		f := a.Inquire(t.Context(), q)
		if f.Absent || f.Outcome.Class() != psprouter.Unknown || len(taken()) != want {
			t.Errorf("after %v: %+v", age, f)
		}
	}
	for _, q := range []psprouter.Inquiry{
		{Attempt: "att_1", Operation: psprouter.OpAuthorize, Amount: ledger.Money{Minor: 1, Currency: "EUR"}, Token: "t", Now: now},
		{Attempt: "att_1", Operation: psprouter.OpVoid, Amount: ledger.Money{Minor: 1, Currency: "EUR"}, SentAt: now, Now: now},
		{Attempt: "att_1", Operation: "CHARGE", SentAt: now, Now: now},
	} {
		if f := a.Inquire(t.Context(), q); f.Absent || f.Outcome.Class() != psprouter.Unknown || len(taken()) != 0 {
			t.Errorf("%+v: %+v", q, f)
		}
	}
	if a.VisibilityWindow() != DefaultVisibilityWindow {
		t.Errorf("window %v", a.VisibilityWindow())
	}
}

func TestUnsendableRequestsAreRejected(t *testing.T) {
	a, taken := recorded(t, nil)
	eur := ledger.Money{Minor: 1000, Currency: "EUR"}
	for name, out := range map[string]psprouter.Outcome{
		"no attempt":       a.Authorize(t.Context(), psprouter.AuthorizeRequest{Amount: eur, Token: "t"}),
		"attempt too long": a.Authorize(t.Context(), psprouter.AuthorizeRequest{Attempt: strings.Repeat("a", 65), Amount: eur, Token: "t"}),
		"no token":         a.Authorize(t.Context(), psprouter.AuthorizeRequest{Attempt: "att_1", Amount: eur}),
		"IDR 1234501":      a.Authorize(t.Context(), psprouter.AuthorizeRequest{Attempt: "att_1", Token: "t", Amount: ledger.Money{Minor: 1234501, Currency: "IDR"}}),
		"no payment":       a.Void(t.Context(), psprouter.VoidRequest{Attempt: "att_1", Amount: eur}),
		"payment ..":       a.Refund(t.Context(), psprouter.RefundRequest{Attempt: "att_1", PaymentRef: "..", Amount: eur}),
		"over-capture":     a.Capture(t.Context(), psprouter.CaptureRequest{Attempt: "att_1", PaymentRef: "P1", Amount: eur, Authorized: 1500, Captured: 501}),
	} {
		if out.Class() != psprouter.NotSent || !out.Rejected || out.Code == "" {
			t.Errorf("%s: %+v", name, out)
		}
	}
	if n := len(taken()); n != 0 {
		t.Errorf("%d requests left", n)
	}
}

func TestConfigErrorsNameTheField(t *testing.T) {
	good := Config{BaseURL: "http://x/v71", APIKey: "k", MerchantAccount: "m", ReturnURL: "https://x"}
	for field, change := range map[string]func(*Config){
		"BaseURL": func(c *Config) { c.BaseURL = "x" }, "APIKey": func(c *Config) { c.APIKey = " " }, "MerchantAccount": func(c *Config) { c.MerchantAccount = "" },
		"ReturnURL": func(c *Config) { c.ReturnURL = "" }, "Timeout": func(c *Config) { c.Timeout = -1 }, "VisibilityWindow": func(c *Config) { c.VisibilityWindow = -1 },
		"HMACKeys": func(c *Config) { c.HMACKeys = []string{"whsec"} },
	} {
		cfg := good
		change(&cfg)
		_, err := New(cfg)
		if config, ok := err.(*ConfigError); !ok || config.Field != field || config.Remedy == "" {
			t.Errorf("%s: %v", field, err)
		}
	}
	good.HMACKeys, good.SeveralCaptures = []string{""}, true
	if _, err := New(good); err == nil {
		t.Error("an empty key signs for everybody")
	}
	good.HMACKeys = nil
	if a, err := New(good); err != nil || a.cfg.Timeout != DefaultTimeout || !a.SeveralCaptures() || a.Name() != Name {
		t.Errorf("%v", err)
	}
}

// Any recovery data stay within Adyen's limits and come back, the splits perhaps only in part.
func TestRecoveryWithinLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := psprouter.Recovery{Payment: "pay_0001_01JD0000000000000000000000", Client: rapid.StringN(0, 40, -1).Draw(t, "client"),
			Key: rapid.StringN(0, 255, -1).Draw(t, "key"), Order: rapid.StringN(0, 400, -1).Draw(t, "order")}
		for i := range rapid.IntRange(0, 100).Draw(t, "splits") {
			r.Splits = append(r.Splits, ledger.Split{SellerID: fmt.Sprintf("s-%d", i), Minor: int64(i) * 1e6, CommissionMinor: 3})
		}
		a := Adapter{cfg: Config{MerchantAccount: "m", ReturnURL: "https://x"}}
		m := a.paymentBody(psprouter.AuthorizeRequest{Attempt: "att_1", Recovery: r}, 1).Metadata
		if len(m) > 20 {
			t.Fatalf("%d pairs", len(m))
		}
		for k, v := range m {
			if n := utf8.RuneCountInString(v); n == 0 || n > 80 || len(k) > 20 {
				t.Fatalf("%s has %d characters", k, n)
			}
		}
		got, err := RecoveryFrom(m)
		if got.Payment != r.Payment || got.Client != r.Client || err == nil && len(got.Splits) != len(r.Splits) {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}

// What is sent reads as JSON with exactly one amount.
func FuzzPaymentBody(f *testing.F) {
	f.Add("att_1", "s/tok", "https://x", "order\x00\xff")
	f.Fuzz(func(t *testing.T, attempt, token, returnURL, order string) {
		a := Adapter{cfg: Config{MerchantAccount: "m", ReturnURL: "https://x"}}
		body, err := json.Marshal(a.paymentBody(psprouter.AuthorizeRequest{Attempt: attempt, Token: token, ReturnURL: returnURL,
			Amount: ledger.Money{Minor: 7, Currency: "EUR"}, Recovery: psprouter.Recovery{Order: order}}, 7))
		if err != nil || !json.Valid(body) || strings.Count(string(body), `"amount":{`) < 1 {
			t.Fatalf("%s, %v", body, err)
		}
	})
}
