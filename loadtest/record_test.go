package loadtest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// recordedShop answers as a router does.
func recordedShop(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch {
	case strings.Contains(string(body), "tok_secret_declined"):
		w.WriteHeader(http.StatusPaymentRequired)
		fmt.Fprint(w, `{"id":"pay_2","status":"DECLINED"}`)
	case strings.HasSuffix(r.URL.Path, "/refunds"):
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"id":"ref_1","paymentId":"pay_1","status":"SUCCEEDED"}`)
	case strings.Contains(string(body), "unsound"):
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"code":"MALFORMED_JSON"}`)
	case r.URL.Path == "/v1/payments":
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"id":"pay_1","status":"AUTHORIZED"}`)
	default:
		fmt.Fprint(w, `{"id":"pay_1","status":"CAPTURED"}`)
	}
}

// TestRecordingHoldsNoPersons records a day of a shop through the proxy: the answers pass as they are, the trace has all that
// happened, and nothing that names anybody.
func TestRecordingHoldsNoPersons(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(recordedShop))
	defer backend.Close()
	target, _ := url.Parse(backend.URL)
	clock := time.Unix(1_700_000_000, 0)
	recorder := NewRecorder(target, []byte("forget me"), func() time.Time { return clock })
	proxy := httptest.NewServer(recorder)
	defer proxy.Close()
	post := func(after time.Duration, path, key, body string) int {
		clock = clock.Add(after)
		request, _ := http.NewRequest(http.MethodPost, proxy.URL+path, strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer tk_secret_shop")
		request.Header.Set("Idempotency-Key", key)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	sale := `{"orderId":"secret-order","customerId":"secret-anna","amount":{"minor":6499,"currency":"EUR"},"captureMode":"manual",
		"paymentMethod":{"tokens":{"stripe":"tok_secret_ok","adyen":"tok_secret_ok"},"last4":"4242","brand":"secret-brand","expiry":"2030-12","country":"DE"},
		"splits":[{"sellerId":"secret-seller","minor":6499,"commissionMinor":650}],"returnUrl":"https://secret.example"}`
	statuses := []int{
		post(0, "/v1/payments", "secret-key-1", sale),
		post(200*time.Millisecond, "/v1/payments", "secret-key-1", sale), // a double click
		post(time.Second, "/v1/payments/pay_1/capture", "secret-key-2", `{}`),
		post(time.Second, "/v1/payments/pay_1/capture", "secret-key-2", `{}`), // again under its key: once in the trace
		post(time.Second, "/v1/payments/pay_1/refunds", "secret-key-3", `{"amount":{"minor":2000,"currency":"EUR"}}`),
		post(time.Second, "/v1/payments", "secret-key-4", strings.ReplaceAll(sale, "tok_secret_ok", "tok_secret_declined")),
		post(time.Second, "/v1/payments", "secret-key-5", `{"unsound":true}`),
		post(time.Second, "/v1/payments/pay_unknown/void", "secret-key-6", ``),
	}
	if got := fmt.Sprint(statuses); got != "[201 201 200 200 201 402 400 200]" {
		t.Errorf("statuses %s", got)
	}
	var text bytes.Buffer
	written, dropped, err := recorder.WriteTrace(&text)
	if err != nil || written != 2 || dropped != 1 {
		t.Errorf("%d written, %d dropped, %v", written, dropped, err)
	}
	for _, word := range []string{"secret", "4242", "2030", "pay_1", "tok_"} {
		if strings.Contains(text.String(), word) {
			t.Errorf("the trace holds %q: %s", word, text.String())
		}
	}
	all, err := gather(ReadTrace(&text))
	if err != nil || len(all) != 2 {
		t.Fatalf("it cannot be played: %v", err)
	}
	first, second := all[0], all[1]
	if first.Amount.Minor != 6499 || first.Country != "DE" || first.Card != CardOK || fmt.Sprint(first.PSPs) != "[adyen stripe]" || fmt.Sprint(first.Repeats) != "[200]" {
		t.Errorf("first %+v", first)
	}
	if fmt.Sprint(first.Then) != "[{capture 1200 0} {refund 3200 2000}]" {
		t.Errorf("then %v", first.Then)
	}
	if second.Card != CardDeclined || second.Order != first.Order || second.Client != first.Client || second.Key == first.Key ||
		second.Sellers[0].SellerID != first.Sellers[0].SellerID || second.AtMS != 4200 {
		t.Errorf("second %+v", second)
	}
}

// TestReadsPassUnrecorded: what is no payment is passed on and left alone.
func TestReadsPassUnrecorded(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "as it is") }))
	defer backend.Close()
	target, _ := url.Parse(backend.URL)
	recorder := NewRecorder(target, []byte("x"), time.Now)
	proxy := httptest.NewServer(recorder)
	defer proxy.Close()
	response, err := http.Get(proxy.URL + "/v1/payments/pay_1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "as it is" {
		t.Errorf("%q, %v", body, err)
	}
	if written, dropped, err := recorder.WriteTrace(io.Discard); written != 0 || dropped != 0 || err != nil {
		t.Errorf("%d written, %d dropped, %v", written, dropped, err)
	}
}
