package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"paygrid/ledger"
)

// The client's limits.
const (
	maxAnswerBytes = 1 << 20
	callTimeout    = 60 * time.Second
	idleConns      = 256
)

// request is one HTTP request; path begins with a slash.
type request struct {
	method, path, token, key string
	body                     []byte
	hangUp                   bool // leave as soon as it is written
}

// answer is what came back.
type answer struct {
	status   int
	body     []byte
	replayed bool
	took     time.Duration
	resource resource
}

// resource is what the workload reads of a payment, a refund or a problem.
type resource struct {
	ID         string       `json:"id"`
	PaymentID  string       `json:"paymentId"` // of a refund
	OrderID    string       `json:"orderId"`
	Status     any          `json:"status"` // a word, or the number of a problem
	PSP        string       `json:"psp"`
	Amount     ledger.Money `json:"amount"`
	Captured   int64        `json:"captured"`
	Refunding  int64        `json:"refunding"`
	Refunded   int64        `json:"refunded"`
	Refundable int64        `json:"refundable"`
	Code       string       `json:"code"` // of a problem
}

// word is what the answer says in one word: a problem's code, or the resource's status.
func (r resource) word() string {
	if r.Code != "" {
		return r.Code
	}
	status, _ := r.Status.(string)
	return status
}

// client sends to any of several routers.
type client struct {
	urls []string
	http *http.Client
	now  func() time.Time
}

func newClient(urls []string, now func() time.Time) *client {
	transport := &http.Transport{MaxIdleConns: idleConns, MaxIdleConnsPerHost: idleConns}
	return &client{urls: urls, now: now, http: &http.Client{Transport: transport, Timeout: callTimeout}}
}

// send makes one request to a router; the number may be any. An error means that there is no whole answer.
func (c *client) send(ctx context.Context, router int, r request) (*answer, error) {
	if r.hangUp {
		var leave context.CancelFunc
		ctx, leave = context.WithCancel(ctx)
		defer leave()
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { leave() }})
	}
	out, err := http.NewRequestWithContext(ctx, r.method, c.urls[router%len(c.urls)]+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	out.Header.Set("Authorization", "Bearer "+r.token)
	if r.method == http.MethodPost {
		out.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		out.Header.Set("Idempotency-Key", r.key) // with it the transport itself may send again on a lost connection
	}
	start := c.now()
	response, err := c.http.Do(out)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	a := &answer{status: response.StatusCode, body: body, took: c.now().Sub(start),
		replayed: response.Header.Get("Idempotent-Replayed") == "true"}
	if err := json.Unmarshal(body, &a.resource); err != nil {
		return nil, fmt.Errorf("%s %s: HTTP %d is no JSON: %w", r.method, r.path, a.status, err)
	}
	return a, nil
}

// request is what a call sends.
func (o *Order) request(c *Call, token string) (request, error) {
	r := request{method: http.MethodPost, path: "/v1/payments/" + o.paymentID, token: token, key: c.Key}
	var body any = struct{}{}
	switch c.Step.Op {
	case Authorize:
		r.path, body = "/v1/payments", o.sale(c.Step.SameKey)
	case Read:
		return o.get(token), nil
	case Void:
		r.path += "/void"
	case Capture:
		r.path += "/capture"
	case Refund:
		r.path += "/refunds"
	}
	if c.Step.Part != Rest {
		body = part{Amount: ledger.Money{Minor: c.Minor, Currency: o.Amount.Currency}}
	}
	var err error
	r.body, err = json.Marshal(body)
	return r, err
}

// sale and part are the bodies of the API.
type sale struct {
	OrderID       string         `json:"orderId"`
	Amount        ledger.Money   `json:"amount"`
	PaymentMethod method         `json:"paymentMethod"`
	CaptureMode   string         `json:"captureMode"`
	Splits        []ledger.Split `json:"splits"`
	ReturnURL     string         `json:"returnUrl"` // where a 3-D Secure redirect comes back to
}

type method struct {
	Tokens  map[string]string `json:"tokens"` // by PSP
	Country string            `json:"country"`
}

type part struct {
	Amount ledger.Money `json:"amount"`
}

// get reads the order's payment.
func (o *Order) get(token string) request {
	return request{method: http.MethodGet, path: "/v1/payments/" + o.paymentID, token: token}
}

// comeBack tells that the buyer is back from a redirect, with what the PSP gave them.
func (o *Order) comeBack(token string, details map[string]string) (request, error) {
	body, err := json.Marshal(struct {
		Details map[string]string `json:"details,omitempty"`
	}{details})
	return request{method: http.MethodPost, path: "/v1/payments/" + o.paymentID + "/confirm", token: token, body: body}, err
}

// cardCountry is where all buyers come from.
const cardCountry = "DE"

// sale is the order's body; another differs from it in its order's name alone.
func (o *Order) sale(another bool) sale {
	s := sale{OrderID: o.ID, Amount: o.Amount, PaymentMethod: method{Tokens: map[string]string{}, Country: cardCountry}, CaptureMode: "manual", Splits: o.Splits,
		ReturnURL: "https://shop.example/orders/" + o.ID}
	for _, psp := range o.Journey.PSPs {
		s.PaymentMethod.Tokens[psp] = o.Journey.Token
	}
	if o.Journey.Automatic {
		s.CaptureMode = "automatic"
	}
	if another {
		s.OrderID += "-other"
	}
	return s
}
