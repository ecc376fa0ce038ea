package simulator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// rig is a simulator behind HTTP, with a clock that the test moves.
type rig struct {
	*Simulator
	t      *testing.T
	url    string
	client *http.Client
	mu     sync.Mutex
	now    time.Time
}

func newSim(t *testing.T, opts Options) *Simulator {
	t.Helper()
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newRig(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, client: &http.Client{Transport: &http.Transport{}}, now: time.Unix(1_800_000_000, 0)}
	opts := Options{Now: r.clock, Seed: 1, Wait: func(time.Duration, <-chan struct{}) {}}
	if change != nil {
		change(&opts)
	}
	r.Simulator = newSim(t, opts)
	server := httptest.NewServer(r.Handler())
	r.url = server.URL
	r.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(func() { r.Stop(); r.client.CloseIdleConnections(); server.Close() })
	return r
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

// reply is an answer as a client sees it; status 0 = no answer.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    error
	half   int // status of an answer that broke off
}

// at reads a member by path, "" if it is not there: "error.payment_intent.status".
func (r reply) at(path string) string {
	var v any
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.UseNumber()
	_ = decoder.Decode(&v)
	for _, name := range strings.Split(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// post sends a form: "amount=1000&currency=eur".
func (r *rig) post(path, key, form string) reply {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.url+path, strings.NewReader(form))
	if err != nil {
		r.t.Fatal(err)
	}
	req.GetBody = nil // no silent second send
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return r.do(req)
}

func (r *rig) fetch(path string) reply {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodGet, r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.do(req)
}

func (r *rig) do(req *http.Request) reply {
	req.Header.Set("Authorization", "Bearer sk_test_1")
	req.Header.Set("X-API-Key", "any")
	resp, err := r.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return reply{err: err, half: resp.StatusCode}
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: body}
}

// form is a confirmed payment of 1000 EUR.
func form(token, method, attempt string) string {
	return "amount=1000&currency=eur&confirm=true&payment_method=" + token + "&capture_method=" + method + "&metadata[attempt]=" + url.QueryEscape(attempt)
}

// create makes a payment and returns its reference.
func (r *rig) create(token, method, attempt string) string {
	r.t.Helper()
	got := r.post("/v1/payment_intents", attempt, form(token, method, attempt))
	if got.status != http.StatusOK {
		r.t.Fatalf("create %s: %d %s", token, got.status, got.body)
	}
	return got.at("id")
}

func (r *rig) want(got reply, status int, pairs ...string) reply {
	r.t.Helper()
	if got.status != status {
		r.t.Fatalf("status %d, want %d: %s", got.status, status, got.body)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if v := got.at(pairs[i]); v != pairs[i+1] {
			r.t.Errorf("%s = %q, want %q: %s", pairs[i], v, pairs[i+1], got.body)
		}
	}
	return got
}

// adyen returns a rig that speaks Adyen.
func adyen(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	return newRig(t, func(o *Options) {
		o.Dialect = DialectAdyen
		if change != nil {
			change(o)
		}
	})
}

// pay is the body of an Adyen payment of 1000 EUR.
func pay(token, method, attempt string) string {
	return fmt.Sprintf(`{"merchantAccount":"ShopEUMain","reference":%q,"amount":{"value":1000,"currency":"EUR"},"returnUrl":"https://shop.example/",`+
		`"paymentMethod":{"type":"scheme","storedPaymentMethodId":%q},"additionalData":{"manualCapture":"%t"},"metadata":{"order":"o-1"}}`,
		attempt, token, method == "manual")
}

// modify is the body of a capture or refund at Adyen, or of a cancel if amount is 0.
func modify(amount int, reference string) string {
	if amount == 0 {
		return fmt.Sprintf(`{"merchantAccount":"ShopEUMain","reference":%q}`, reference)
	}
	return fmt.Sprintf(`{"merchantAccount":"ShopEUMain","reference":%q,"amount":{"value":%d,"currency":"EUR"}}`, reference, amount)
}

// authorize makes a payment in the rig's dialect, automatic capture.
func (r *rig) authorize(token, key string) reply {
	r.t.Helper()
	if r.opts.Dialect == DialectAdyen {
		return r.post("/v71/payments", key, pay(token, "automatic", key))
	}
	return r.post("/v1/payment_intents", key, form(token, "automatic", key))
}

// inbox is a receiver of notices in this process.
type inbox struct {
	mu      sync.Mutex
	got     []notice
	refuse  func(notice) bool // answers 500
	onEntry func(notice)      // runs before the answer
}

type notice struct {
	url    string
	header http.Header
	body   []byte
}

// at reads a member of an Adyen item or of a Stripe event.
func (n notice) at(path string) string {
	return reply{body: bytes.Replace(bytes.Replace(n.body, []byte("[{"), []byte("{"), 1), []byte("}]"), []byte("}"), 1)}.at(path)
}

// kind is the event type or code.
func (n notice) kind() string {
	return cmp.Or(n.at("type"), n.at("notificationItems.NotificationRequestItem.eventCode"))
}

func (in *inbox) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	n := notice{req.URL.String(), req.Header, body}
	in.mu.Lock()
	in.got = append(in.got, n)
	refuse, onEntry := in.refuse, in.onEntry
	in.mu.Unlock()
	if onEntry != nil {
		onEntry(n)
	}
	status := http.StatusOK
	if refuse != nil && refuse(n) {
		status = http.StatusInternalServerError
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("[accepted]")), Request: req}, nil
}

// take returns what came and forgets it.
func (in *inbox) take() []notice {
	in.mu.Lock()
	defer in.mu.Unlock()
	got := in.got
	in.got = nil
	return got
}

func kinds(list []notice) string {
	var all []string
	for _, n := range list {
		all = append(all, n.kind())
	}
	return strings.Join(all, " ")
}

const (
	stripeSecret = "whsec_test"
	adyenSecret  = "A1B2C3D4E5F60718293A4B5C6D7E8F90A1B2C3D4E5F60718293A4B5C6D7E8F90"
)

// hooked is a rig whose notices come to an inbox, of targets receivers.
func hooked(t *testing.T, d Dialect, targets int) (*rig, *inbox) {
	t.Helper()
	in := &inbox{}
	r := newRig(t, func(o *Options) {
		o.Dialect, o.WebhookTransport, o.WebhookSecrets = d, in, []string{stripeSecret}
		if d == DialectAdyen {
			o.WebhookSecrets = []string{adyenSecret}
		}
		for i := range targets {
			o.Webhooks = append(o.Webhooks, Target{URL: fmt.Sprintf("http://router-%d.example/hooks", i)})
		}
	})
	return r, in
}

// flush delivers everything and returns what came.
func (r *rig) flush(in *inbox) []notice {
	r.t.Helper()
	if err := r.Flush(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return in.take()
}

func dialects(t *testing.T, run func(*testing.T, Dialect)) {
	for _, d := range []Dialect{DialectStripe, DialectAdyen} {
		t.Run(string(d), func(t *testing.T) { run(t, d) })
	}
}
