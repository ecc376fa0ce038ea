package router

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"paygrid/ledger"
	"paygrid/payment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	payID    = "pay_0123_01JD0000000000000000000000"
	goodBody = `{"orderId":"o-1","amount":{"minor":10000,"currency":"EUR"},"paymentMethod":"pm_ok","captureMode":"automatic",` +
		`"splits":[{"sellerId":"s-ann","minor":7000,"commissionMinor":700},{"sellerId":"s-bob","minor":3000,"commissionMinor":450}]}`
)

// script stands for the domain service: it notes what it was asked and answers what the test says. It has no rules and
// no memory, since only the form of HTTP is tested here.
type script struct {
	mu     sync.Mutex
	asked  []any // commands, and IDs of reads
	answer payment.Answer
	err    error
	views  []payment.View
	ledger payment.LedgerView
	ready  error
	during func(context.Context) // runs inside each command

	webhookKind, webhookAnswer string
}

// hook is a webhook that the domain was handed.
type hook struct {
	psp    string
	header http.Header
	body   string
}

func (s *script) command(ctx context.Context, c any) (payment.Answer, error) {
	s.mu.Lock()
	s.asked = append(s.asked, c)
	s.mu.Unlock()
	if s.during != nil {
		s.during(ctx)
	}
	return s.answer, s.err
}

func (s *script) Authorize(ctx context.Context, c payment.AuthorizeCommand) (payment.Answer, error) {
	return s.command(ctx, c)
}
func (s *script) Confirm(ctx context.Context, c payment.ConfirmCommand) (payment.Answer, error) {
	return s.command(ctx, c)
}
func (s *script) Capture(ctx context.Context, c payment.CaptureCommand) (payment.Answer, error) {
	return s.command(ctx, c)
}
func (s *script) Void(ctx context.Context, c payment.VoidCommand) (payment.Answer, error) {
	return s.command(ctx, c)
}
func (s *script) Refund(ctx context.Context, c payment.RefundCommand) (payment.Answer, error) {
	return s.command(ctx, c)
}

func (s *script) Get(ctx context.Context, client, id string) (payment.View, error) {
	if _, err := s.command(ctx, [2]string{client, id}); err != nil {
		return payment.View{}, err
	}
	return s.views[0], nil
}

func (s *script) ByOrder(ctx context.Context, client, orderID string) ([]payment.View, error) {
	_, err := s.command(ctx, [2]string{client, orderID})
	return s.views, err
}

func (s *script) Ledger(ctx context.Context, client, id string) (payment.LedgerView, error) {
	_, err := s.command(ctx, [2]string{client, id})
	return s.ledger, err
}

func (s *script) TakeWebhook(ctx context.Context, psp string, header http.Header, body []byte) (string, []byte, error) {
	if _, err := s.command(ctx, hook{psp, header, string(body)}); err != nil {
		return "", nil, err
	}
	return s.webhookKind, []byte(s.webhookAnswer), nil
}

func (s *script) Ready(context.Context) error { return s.ready }

// api is a router with its script, its log and a validator that checks every exchange against openapi.yaml.
type api struct {
	t        *testing.T
	router   *Router
	script   *script
	log      *bytes.Buffer
	registry *prometheus.Registry
	clock    *clock
	contract validator.Validator
}

// clock moves only when told.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func hashed(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func testConfig() Config {
	return Config{Version: "test", Clients: []Client{
		{ID: "shop_a", KeySHA256: hashed("tk_shop_a")}, {ID: "shop_b", KeySHA256: hashed("tk_shop_b")},
		{ID: "shop_a", KeySHA256: hashed("tk_shop_a_next")},
	}, Operators: []Operator{{ID: "u-kim", TokenSHA256: hashed("tk_u_kim")}, {ID: "u-lee", TokenSHA256: hashed("tk_u_lee")}}}
}

// loadContract parses openapi.yaml once for all tests.
var loadContract = sync.OnceValues(func() (validator.Validator, []error) {
	doc, err := libopenapi.NewDocument(openAPIDocument)
	if err != nil {
		return nil, []error{err}
	}
	return validator.NewValidator(doc)
})

func newAPI(t *testing.T, changes ...func(*Config)) *api {
	t.Helper()
	contract, errs := loadContract()
	if len(errs) > 0 {
		t.Fatalf("openapi.yaml: %v", errs)
	}
	config := testConfig()
	for _, change := range changes {
		change(&config)
	}
	a := &api{t: t, log: &bytes.Buffer{}, registry: prometheus.NewRegistry(), contract: contract,
		clock:  &clock{at: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)},
		script: &script{answer: authorized(t), views: []payment.View{aView()}, webhookKind: "application/json", webhookAnswer: `{"received":true}`}}
	r, err := New(config, a.script, a.registry, slog.New(slog.NewJSONHandler(a.log, &slog.HandlerOptions{Level: slog.LevelDebug})), a.clock.now)
	if err != nil {
		t.Fatal(err)
	}
	a.router = r
	return a
}

func aView() payment.View {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	return payment.View{ID: payID, OrderID: "o-1", Status: "AUTHORIZED", Amount: ledger.Money{Minor: 10000, Currency: "EUR"},
		CaptureMode: payment.Manual, Capturable: 10000, PSP: "stripe", CreatedAt: at, UpdatedAt: at,
		Splits: []ledger.Split{{SellerID: "s-ann", Minor: 10000, CommissionMinor: 700}}}
}

func aRefund() payment.RefundView {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	return payment.RefundView{ID: "ref_0123_01JD0000000000000000000001", PaymentID: payID, Status: "SUCCEEDED",
		Amount: ledger.Money{Minor: 2000, Currency: "EUR"}, Refundable: 8000, CreatedAt: at, UpdatedAt: at}
}

func answerOf(t *testing.T, kind payment.Kind, resource any) payment.Answer {
	t.Helper()
	body, err := json.Marshal(resource)
	if err != nil {
		t.Fatal(err)
	}
	return payment.Answer{Kind: kind, Body: body, PaymentID: payID}
}

func authorized(t *testing.T) payment.Answer { return answerOf(t, payment.KindAuthorized, aView()) }

// reply is an answer with its body read.
type reply struct {
	*http.Response
	body string
}

// problem decodes the body as a problem.
func (r reply) problem(t *testing.T) problem {
	t.Helper()
	var p problem
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("Content-Type %q, want a problem; status %d, body %s", got, r.StatusCode, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		t.Fatal(err)
	}
	if p.Status != r.StatusCode || p.Type != "urn:paygrid:problem:"+string(p.Code) || p.RequestID != r.Header.Get("X-Request-Id") || p.Title == "" {
		t.Errorf("the problem does not agree with its answer: %d %s", r.StatusCode, r.body)
	}
	return p
}

// edit changes a request before it is sent.
type edit func(*http.Request)

// header sets one line; an empty value removes the header.
func header(name, value string) edit {
	return func(r *http.Request) {
		r.Header.Del(name)
		if value != "" {
			r.Header.Set(name, value)
		}
	}
}

func (a *api) post(path, body string, edits ...edit) reply {
	a.t.Helper()
	return a.do(http.MethodPost, path, body, edits...)
}

func (a *api) get(path string, edits ...edit) reply {
	a.t.Helper()
	return a.do(http.MethodGet, path, "", edits...)
}

// do sends a request with good headers, unless edited, and holds the answer against openapi.yaml. A request that was
// carried out must have been one that the document allows.
func (a *api) do(method, path, body string, edits ...edit) reply {
	a.t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer tk_shop_a")
	if method == http.MethodPost {
		req.Header.Set("Idempotency-Key", "k-1")
		req.Header.Set("Content-Type", "application/json")
	}
	for _, e := range edits {
		e(req)
	}
	rec := httptest.NewRecorder()
	a.router.Handler().ServeHTTP(rec, req)
	res := reply{rec.Result(), rec.Body.String()}
	a.checkContract(req, body, res)
	return res
}

func (a *api) checkContract(req *http.Request, body string, res reply) {
	a.t.Helper()
	if res.StatusCode == http.StatusMethodNotAllowed || strings.Contains(res.body, string(CodeRouteNotFound)) {
		return // the document lists only what is there
	}
	again := func(s string) io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }
	if len(a.script.asked) > 0 && res.StatusCode/100 == 2 {
		req.Body = again(body)
		if ok, errs := a.contract.ValidateHttpRequestSync(req); !ok {
			a.t.Errorf("%s %s was carried out, but openapi.yaml refuses it: %v\n%s", req.Method, req.URL, errs[0], body)
		}
	}
	req.Body, res.Response.Body = again(body), again(res.body)
	if ok, errs := a.contract.ValidateHttpResponse(req, res.Response); !ok {
		a.t.Errorf("%s %s: openapi.yaml refuses the answer %d: %v %v\n%s", req.Method, req.URL, res.StatusCode, errs[0], errs[0].SchemaValidationErrors, res.body)
	}
}

// wantRefused checks a refusal's status, code and field, and that the domain was not asked.
func (a *api) wantRefused(res reply, status int, code payment.Code, field string) {
	a.t.Helper()
	p := res.problem(a.t)
	if p.Status != status || p.Code != code || p.Field != field {
		a.t.Errorf("got %d %s field %q (%s), want %d %s field %q", p.Status, p.Code, p.Field, p.Detail, status, code, field)
	}
	if p.Remedy == "" || p.Detail == "" {
		a.t.Errorf("no detail or remedy in %s", res.body)
	}
	if len(a.script.asked) > 0 {
		a.t.Errorf("the domain was asked %v", a.script.asked)
	}
}

func TestNewRefuses(t *testing.T) {
	good := testConfig().Clients
	for name, clients := range map[string][]Client{
		"nobody":          nil,
		"no ID":           {{KeySHA256: hashed("a")}},
		"not hexadecimal": {{ID: "a", KeySHA256: strings.Repeat("z", 64)}},
		"too short":       {{ID: "a", KeySHA256: "abcd"}},
		"same key twice":  {good[0], {ID: "other", KeySHA256: good[0].KeySHA256}},
	} {
		if _, err := New(Config{Clients: clients}, &script{}, prometheus.NewRegistry(), slog.Default(), time.Now); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, operators := range map[string][]Operator{
		"no ID":            {{TokenSHA256: hashed("a")}},
		"not hexadecimal":  {{ID: "a", TokenSHA256: "tk_u_kim"}},
		"one token of two": {{ID: "u-kim", TokenSHA256: hashed("a")}, {ID: "u-lee", TokenSHA256: hashed("a")}},
	} {
		if _, err := New(Config{Clients: good, Operators: operators}, &script{}, prometheus.NewRegistry(), slog.Default(), time.Now); err == nil {
			t.Errorf("operators, %s: accepted", name)
		}
	}
	if _, err := New(testConfig(), nil, prometheus.NewRegistry(), slog.Default(), time.Now); err == nil {
		t.Error("no Payments: accepted")
	}
	registry := prometheus.NewRegistry()
	for i, want := range []bool{true, false} {
		if _, err := New(testConfig(), &script{}, registry, slog.Default(), time.Now); (err == nil) != want {
			t.Errorf("router %d on one registry: %v", i, err)
		}
	}
}
