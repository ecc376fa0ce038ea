package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"paygrid/ledger"
	"paygrid/payment"
)

// caller speaks to one router as one shop. It may be used from several goroutines.
type caller struct {
	base, token string
	client      *http.Client
}

func newCaller(t testing.TB, base string) caller {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	t.Cleanup(transport.CloseIdleConnections)
	return caller{base: base, token: shopA, client: &http.Client{Transport: transport}}
}

// as is the same router, spoken to as another shop.
func (c caller) as(token string) caller {
	c.token = token
	return c
}

// reply is an answer of a router. Of the members, those are set that the answer has.
type reply struct {
	status     int
	replayed   bool
	retryAfter string
	raw        []byte
	err        error // of the connection; status is 0

	payment.View // or the members of a refund that have the same names
	problem
}

// problem is what a refusal says beside its status.
type problem struct {
	Code      payment.Code `json:"code"`
	Field     string       `json:"field"`
	Reference string       `json:"reference"`
	Remaining *int64       `json:"remaining"`
}

// ok tells a success that has an answer, or a promise of one.
func (r reply) ok() bool { return r.status >= 200 && r.status < 300 }

func (r reply) String() string {
	if r.err != nil {
		return r.err.Error()
	}
	return fmt.Sprintf("%d %s", r.status, r.raw)
}

// pay sends POST /v1/payments.
func (c caller) pay(t testing.TB, key, body string) reply {
	t.Helper()
	return c.post(t, "/v1/payments", key, body)
}

// post sends a command and checks I5 on its answer.
func (c caller) post(t testing.TB, path, key, body string) reply {
	t.Helper()
	r := c.try(path, key, body)
	if r.err != nil {
		t.Errorf("POST %s %s: %v", path, key, r.err)
	}
	r.decent(t)
	return r
}

// try is post where the router may be gone.
func (c caller) try(path, key, body string) reply {
	request, err := http.NewRequest(http.MethodPost, c.base+path, strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set("Content-Type", "application/json")
	return c.do(request)
}

func (c caller) get(t testing.TB, path string) reply {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, c.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := c.do(request)
	if r.err != nil {
		t.Errorf("GET %s: %v", path, r.err)
	}
	r.decent(t)
	return r
}

func (c caller) do(request *http.Request) reply {
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := c.client.Do(request)
	if err != nil {
		return reply{err: err}
	}
	return read(response)
}

func read(response *http.Response) reply {
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return reply{err: err}
	}
	r := reply{status: response.StatusCode, raw: raw, replayed: response.Header.Get("Idempotent-Replayed") == "true",
		retryAfter: response.Header.Get("Retry-After")}
	into := any(&r.View)
	if response.Header.Get("Content-Type") == "application/problem+json" {
		into = &r.problem
	}
	if err := json.Unmarshal(raw, into); err != nil {
		r.err = fmt.Errorf("%d %q: %w", r.status, raw, err)
	}
	return r
}

// decent is I5: no 500, no success without a body, no 503 or 429 without a time to come again.
func (r reply) decent(t testing.TB) {
	t.Helper()
	switch {
	case r.status == http.StatusInternalServerError:
		t.Errorf("I5: a 500: %s", r.raw)
	case r.ok() && len(bytes.TrimSpace(r.raw)) == 0:
		t.Errorf("I5: a %d without a body", r.status)
	case (r.status == http.StatusServiceUnavailable || r.status == http.StatusTooManyRequests) && r.retryAfter == "":
		t.Errorf("I5: a %d without Retry-After: %s", r.status, r.raw)
	}
}

// want checks a status.
func (r reply) want(t testing.TB, status int) reply {
	t.Helper()
	if r.status != status {
		t.Errorf("want %d, got %s", status, r)
	}
	return r
}

// wantCode checks a refusal.
func (r reply) wantCode(t testing.TB, status int, code payment.Code) reply {
	t.Helper()
	if r.status != status || r.Code != code {
		t.Errorf("want %d %s, got %s", status, code, r)
	}
	return r
}

// wantReplay checks that r is first again, byte for byte, and says so.
func (r reply) wantReplay(t testing.TB, first reply) {
	t.Helper()
	if r.status != first.status || !r.replayed || !bytes.Equal(r.raw, first.raw) {
		t.Errorf("want a replay (said: %v) of %s, got %s", r.replayed, first, r)
	}
}

// wantState checks the payment in an answer.
func (r reply) wantState(t testing.TB, status string, captured, refunded int64) {
	t.Helper()
	if r.Status != status || r.Captured != captured || r.Refunded != refunded {
		t.Errorf("want %s, captured %d, refunded %d; got %s", status, captured, refunded, r)
	}
}

// byOrder reads the payments of an order.
func (c caller) byOrder(t testing.TB, order string) []payment.View {
	t.Helper()
	var list struct{ Payments []payment.View }
	r := c.get(t, "/v1/payments?orderId="+order).want(t, http.StatusOK)
	if err := json.Unmarshal(r.raw, &list); err != nil {
		t.Errorf("%s: %v", r.raw, err)
	}
	return list.Payments
}

// ledger reads what a payment posted.
func (c caller) ledger(t testing.TB, id string) payment.LedgerView {
	t.Helper()
	var view payment.LedgerView
	r := c.get(t, "/v1/payments/"+id+"/ledger").want(t, http.StatusOK)
	if err := json.Unmarshal(r.raw, &view); err != nil {
		t.Errorf("%s: %v", r.raw, err)
	}
	return view
}

// lines is what accounts moved by, debits positive.
type lines map[string]int64

// cap10 is what the capture of the standard body posts.
var cap10 = lines{"psp_receivable:stripe": 10000, "seller_payable:s-ann": -6300, "seller_payable:s-bob": -2550, "commission_revenue": -1150}

// linesOf adds up entries' lines per account; every entry must sum to zero in one currency.
func linesOf(t testing.TB, entries ...payment.EntryView) lines {
	t.Helper()
	out := lines{}
	for _, e := range entries {
		var sum int64
		for _, line := range e.Lines {
			minor := line.Minor
			if line.Side == string(ledger.SideCredit) {
				minor = -minor
			}
			sum += minor
			out[line.Account] += minor
			if line.Currency != e.Lines[0].Currency {
				t.Errorf("entry %s has lines in %s and %s", e.ID, line.Currency, e.Lines[0].Currency)
			}
		}
		if sum != 0 {
			t.Errorf("I1: entry %s sums to %d", e.ID, sum)
		}
	}
	return out
}

// wantLines checks all that a payment posted: how many entries, and their sum per account.
func (c caller) wantLines(t testing.TB, id string, entries int, want lines) {
	t.Helper()
	view := c.ledger(t, id)
	got := linesOf(t, view.Entries...)
	if len(view.Entries) != entries || !got.equal(want) {
		t.Errorf("payment %s: want %d entries that sum to %v, got %d that sum to %v", id, entries, want, len(view.Entries), got)
	}
}

// equal compares; an account that nets zero counts as not there.
func (l lines) equal(other lines) bool {
	for account, minor := range l {
		if other[account] != minor {
			return false
		}
	}
	for account, minor := range other {
		if l[account] != minor {
			return false
		}
	}
	return true
}

// times is l, n times over.
func (l lines) times(n int64) lines {
	out := lines{}
	for account, minor := range l {
		out[account] = n * minor
	}
	return out
}

// wantCAP10 checks that a payment posted the standard capture once: one entry of four lines.
func (c caller) wantCAP10(t testing.TB, id string) {
	t.Helper()
	view := c.ledger(t, id)
	if len(view.Entries) != 1 || len(view.Entries[0].Lines) != 4 {
		t.Errorf("payment %s: want one entry of four lines, got %+v", id, view.Entries)
		return
	}
	if got := linesOf(t, view.Entries...); !got.equal(cap10) {
		t.Errorf("payment %s: want CAP10, got %v", id, got)
	}
}

// p10 is the standard body: 10000 EUR, s-ann 7000 (commission 700), s-bob 3000 (commission 450).
func p10(order, token, mode string) string {
	return body(order, token, mode, `{"minor":10000,"currency":"EUR"}`,
		`[{"sellerId":"s-ann","minor":7000,"commissionMinor":700},{"sellerId":"s-bob","minor":3000,"commissionMinor":450}]`)
}

func body(order, token, mode, amount, splits string) string {
	return fmt.Sprintf(`{"orderId":%q,"amount":%s,"paymentMethod":%q,"captureMode":%q,"splits":%s}`, order, amount, token, mode, splits)
}

// eur is the body of a capture or refund of a part.
func eur(minor int64) string { return fmt.Sprintf(`{"amount":{"minor":%d,"currency":"EUR"}}`, minor) }
