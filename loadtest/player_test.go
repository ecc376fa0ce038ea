package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"paygrid/ledger"
)

// shopAPI is a router of a few lines that the tests can stall, refuse and break. It answers in virtual time.
type shopAPI struct {
	mu       sync.Mutex
	took     time.Duration
	stall    [2]time.Time // requests that arrive between are answered at the end
	answer   func(r *http.Request, body string) (status int, text string)
	requests []string // method, path, key
	arrived  []time.Time
}

func (s *shopAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Idempotency-Key")))
	now := time.Now()
	s.arrived = append(s.arrived, now)
	took := s.took
	if now.After(s.stall[0]) && now.Before(s.stall[1]) {
		took += s.stall[1].Sub(now)
	}
	status, text := s.answer(r, string(body))
	s.mu.Unlock()
	if !pause(r.Context(), took) {
		return nil, r.Context().Err()
	}
	if status == 0 {
		return nil, errors.New("connection reset")
	}
	header := http.Header{}
	if status == http.StatusServiceUnavailable {
		header.Set("Retry-After", "1")
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader([]byte(text))), Request: r}, nil
}

// authorizes says yes to all.
func authorizes(r *http.Request, _ string) (int, string) {
	switch {
	case r.Method == http.MethodGet:
		return 200, `{"id":"pay_1","status":"AUTHORIZED"}`
	case strings.HasSuffix(r.URL.Path, "/capture"):
		return 200, `{"id":"pay_1","status":"CAPTURED"}`
	case strings.HasSuffix(r.URL.Path, "/void"):
		return 200, `{"id":"pay_1","status":"VOIDED"}`
	case strings.HasSuffix(r.URL.Path, "/refunds"):
		return 201, `{"id":"ref_1","paymentId":"pay_1","status":"SUCCEEDED"}`
	}
	return 201, `{"id":"pay_1","status":"AUTHORIZED"}`
}

func sold(at time.Duration, change func(*Arrival)) Arrival {
	a := Arrival{AtMS: at.Milliseconds(), Client: "a", Order: fmt.Sprintf("o%d", at), Key: fmt.Sprintf("k%d", at), Amount: ledger.Money{Minor: 100, Currency: "EUR"},
		Sellers: []ledger.Split{{SellerID: "s", Minor: 100}}, Card: CardOK}
	if change != nil {
		change(&a)
	}
	return a
}

// playOn plays arrivals in virtual time and returns what was seen.
func playOn(t *testing.T, api *shopAPI, change func(*PlayOptions), arrivals ...Arrival) (*Player, *Report) {
	t.Helper()
	start := time.Now()
	o := PlayOptions{URLs: []string{"http://one", "http://two"}, Keys: map[string]string{"a": "tk_a", "b": "tk_b"}, Now: time.Now,
		Meter: NewMeter(start, time.Minute), Transport: api}
	if change != nil {
		change(&o)
	}
	p, err := NewPlayer(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Play(t.Context(), start, sequence(arrivals...)); err != nil {
		t.Fatal(err)
	}
	r := &Report{}
	o.Meter.Measured(r)
	return p, r
}

func rowOf(r *Report, what string) LatencyRow {
	for _, l := range r.Latency {
		if l.What == what {
			return l
		}
	}
	return LatencyRow{}
}

// TestAStallIsNotHidden: the cluster stands still for ten seconds. All who came meanwhile are sent at their time and waited for
// it, most of them seconds; who had waited for the one before would not even have come.
func TestAStallIsNotHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		api := &shopAPI{took: 10 * time.Millisecond, answer: authorizes, stall: [2]time.Time{start.Add(10 * time.Second), start.Add(20 * time.Second)}}
		var arrivals []Arrival
		for n := range 300 {
			arrivals = append(arrivals, sold(time.Duration(n)*100*time.Millisecond, nil))
		}
		_, r := playOn(t, api, nil, arrivals...)
		for n, at := range api.arrived {
			if due := start.Add(time.Duration(n) * 100 * time.Millisecond); at.Sub(due) > time.Millisecond {
				t.Fatalf("request %d left %s late", n, at.Sub(due))
			}
		}
		got := rowOf(r, "authorize")
		if got.Count != 300 || got.P50 > 11 || got.P90 < 6_900 || got.P90 > 7_100 || got.Max < 9_800 {
			t.Errorf("latencies %+v, want half at 10 ms and a tenth of all above 7 s", got)
		}
		if r.Intended != 300 || r.Answered != 300 {
			t.Errorf("intended %d, answered %d", r.Intended, r.Answered)
		}
	})
}

// TestTheGeneratorsOwnDelayCounts: where the generator could not begin in time, the buyer still waited.
func TestTheGeneratorsOwnDelayCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(time.Now(), time.Minute)
		intended := time.Now()
		m.Done(Timing{Op: Authorize, Status: 201, Intended: intended, Sent: intended.Add(3 * time.Second), Done: intended.Add(3100 * time.Millisecond)})
		r := &Report{}
		m.Measured(r)
		if got := rowOf(r, "authorize").P50; got < 3_095 || got > 3_105 {
			t.Errorf("%.0f ms from the intended start, want 3100", got)
		}
		if sent := rowOf(r, "authorize, from when it was sent").P50; sent < 99 || sent > 101 {
			t.Errorf("%.0f ms from when it was sent, want 100", sent)
		}
		if late := r.GeneratorLate.P99; late < 2_995 || late > 3_005 {
			t.Errorf("the generator was %.0f ms late, want 3000", late)
		}
	})
}

// story is one arrival, what the API answers, and the requests that must follow, in this order.
type story struct {
	name     string
	arrival  func(*Arrival)
	answer   func(*http.Request, string) (int, string)
	want     []string
	paid     int
	captured int64
}

func stories() []story {
	const pay, capture = "POST /v1/payments k0", "POST /v1/payments/pay_1/capture k0/1"
	decline := func(r *http.Request, body string) (int, string) {
		if strings.Contains(body, "pm_decline") {
			return 402, `{"id":"pay_0","status":"DECLINED"}`
		}
		return authorizes(r, body)
	}
	times := func(n int, first func(*http.Request, string) (int, string)) func(*http.Request, string) (int, string) {
		return func(r *http.Request, body string) (int, string) {
			if n--; n >= 0 {
				return first(r, body)
			}
			return authorizes(r, body)
		}
	}
	says := func(status int, text string) func(*http.Request, string) (int, string) {
		return func(*http.Request, string) (int, string) { return status, text }
	}
	captured := func(a *Arrival) { a.Then = []Later{{Op: Capture, AfterMS: 1000}} }
	return []story{
		{"captured later", captured, authorizes, []string{pay, capture}, 1, 100},
		{"charged at once", func(a *Arrival) { a.Charge = true }, authorizes, []string{pay}, 1, 100},
		{"double click", func(a *Arrival) { a.Repeats = []int64{100} }, authorizes, []string{pay, pay}, 0, 0},
		{"declined: nothing follows", func(a *Arrival) { a.Card = CardDeclined; captured(a) }, decline, []string{pay}, 0, 0},
		{"second card", func(a *Arrival) { a.Card, a.Second = CardDeclined, &SecondCard{AfterMS: 50, Card: CardOK}; captured(a) }, decline,
			[]string{pay, "POST /v1/payments k0/b", "POST /v1/payments/pay_1/capture k0/b/1"}, 1, 100},
		{"busy twice: the same key", captured, times(2, says(503, `{"code":"PAYMENT_BUSY"}`)), []string{pay, pay, pay, capture}, 1, 100},
		{"connection lost", captured, times(1, says(0, "")), []string{pay, pay, capture}, 1, 100},
		{"shed", captured, times(1, says(429, `{"code":"SHED"}`)), []string{pay, pay, capture}, 1, 100},
		{"half an answer", nil, times(1, says(200, `{"id":`)), []string{pay, pay}, 0, 0},
		{"failed for good", captured, says(503, `{"id":"pay_1","status":"FAILED"}`), []string{pay}, 0, 0},
		{"refused", captured, says(422, `{"code":"SPLITS_MISMATCH"}`), []string{pay}, 0, 0},
		{"unknown, then authorized", captured, times(1, says(202, `{"id":"pay_1","status":"PROCESSING"}`)), []string{pay, "GET /v1/payments/pay_1", capture}, 1, 100},
		{"unknown, then failed", captured, func(r *http.Request, body string) (int, string) {
			if r.Method == http.MethodGet {
				return 200, `{"id":"pay_1","status":"FAILED"}`
			}
			return 202, `{"id":"pay_1","status":"PROCESSING"}`
		}, []string{pay, "GET /v1/payments/pay_1"}, 0, 0},
		{"too early", captured, captureOnceEarly(), []string{pay, capture, capture}, 1, 100},
		{"capture and refund of a part", func(a *Arrival) {
			a.Then = []Later{{Op: Capture, AfterMS: 10}, {Op: Refund, AfterMS: 20, Minor: 30}}
		}, authorizes, []string{pay, capture, "POST /v1/payments/pay_1/refunds k0/2"}, 1, 100},
		{"void", func(a *Arrival) { a.Then = []Later{{Op: Void, AfterMS: 10}} }, authorizes, []string{pay, "POST /v1/payments/pay_1/void k0/1"}, 0, 0},
	}
}

// TestStories plays one arrival each.
func TestStories(t *testing.T) {
	for _, tc := range stories() {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &shopAPI{took: 10 * time.Millisecond, answer: tc.answer}
				p, r := playOn(t, api, nil, sold(0, tc.arrival))
				if got := fmt.Sprint(api.requests); got != fmt.Sprint(tc.want) {
					t.Errorf("requests %s\nwant     %s", got, tc.want)
				}
				taken := int64(0)
				for _, k := range p.Acknowledged() {
					taken += k.Captured
				}
				if r.Paid != tc.paid || taken != tc.captured {
					t.Errorf("paid %d, captured %d, want %d and %d", r.Paid, taken, tc.paid, tc.captured)
				}
			})
		})
	}
}

// captureOnceEarly refuses the first capture as too early.
func captureOnceEarly() func(*http.Request, string) (int, string) {
	left := 1
	return func(r *http.Request, body string) (int, string) {
		if strings.HasSuffix(r.URL.Path, "/capture") && left > 0 {
			left--
			return 409, `{"code":"WRONG_STATE"}`
		}
		return authorizes(r, body)
	}
}

// TestRetryAfterIsObeyed: the second try comes when the router said.
func TestRetryAfterIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		api := &shopAPI{answer: func(r *http.Request, body string) (int, string) {
			if n++; n == 1 {
				return 503, `{"code":"SHARD_UNAVAILABLE"}`
			}
			return authorizes(r, body)
		}}
		playOn(t, api, nil, sold(0, nil))
		if got := api.arrived[1].Sub(api.arrived[0]); got != time.Second {
			t.Errorf("the second try came after %s, want 1s", got)
		}
	})
}

func TestTriesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &shopAPI{answer: func(*http.Request, string) (int, string) { return 0, "" }}
		_, r := playOn(t, api, func(o *PlayOptions) { o.Tries = 3 }, sold(0, nil))
		if len(api.requests) != 3 || r.Answered != 0 || len(r.Answers) != 1 || r.Answers[0].Word != wordNoAnswer {
			t.Errorf("%d tries, answers %+v", len(api.requests), r.Answers)
		}
	})
}

// TestNoRoomIsCounted: the generator never waits; what it cannot hold makes its run void.
func TestNoRoomIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &shopAPI{took: time.Hour, answer: authorizes}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		m := NewMeter(time.Now(), time.Minute)
		p, err := NewPlayer(PlayOptions{URLs: []string{"http://one"}, Keys: map[string]string{"a": "k"}, MaxInFlight: 2, Now: time.Now, Meter: m, Transport: api})
		if err != nil {
			t.Fatal(err)
		}
		err = p.Play(ctx, time.Now(), sequence(sold(0, nil), sold(1, nil), sold(2, nil)))
		sent, overrun := p.Sent()
		if !errors.Is(err, context.DeadlineExceeded) || sent != 2 || overrun != 1 {
			t.Errorf("error %v, %d sent, no room for %d", err, sent, overrun)
		}
	})
}

// TestStopEndsArrivals: what has begun ends, what has not does not begin.
func TestStopEndsArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		time.AfterFunc(5*time.Second, func() { close(stop) })
		api := &shopAPI{took: time.Second, answer: authorizes}
		m := NewMeter(time.Now(), time.Minute)
		p, err := NewPlayer(PlayOptions{URLs: []string{"http://one"}, Keys: map[string]string{"a": "k"}, Now: time.Now, Meter: m, Transport: api, Stop: stop})
		if err != nil {
			t.Fatal(err)
		}
		err = p.Play(t.Context(), time.Now(), sequence(sold(0, nil), sold(4500*time.Millisecond, nil), sold(time.Minute, nil)))
		if err != nil || len(p.Acknowledged()) != 2 {
			t.Errorf("%v, %d payments, want 2", err, len(p.Acknowledged()))
		}
	})
}

func TestClientsShareKeys(t *testing.T) {
	p := &Player{options: PlayOptions{Keys: map[string]string{"a": "tk_a", "b": "tk_b"}}, names: []string{"a", "b"}}
	if first, second := p.tokenOf("stranger"), p.tokenOf("stranger"); p.tokenOf("b") != "tk_b" || first != second {
		t.Error("a client's key changes")
	}
	seen := map[string]bool{}
	for n := range 20 {
		seen[p.tokenOf(fmt.Sprint("stranger", n))] = true
	}
	if len(seen) != 2 {
		t.Errorf("strangers use %v", seen)
	}
}

func TestNewPlayerRefuses(t *testing.T) {
	if _, err := NewPlayer(PlayOptions{}); err == nil {
		t.Error("no error")
	}
}

// TestPurchaseIsTheAPIs: the body holds what the API knows, and the token of each PSP.
func TestPurchaseIsTheAPIs(t *testing.T) {
	e, err := sold(0, func(a *Arrival) { a.Country, a.Charge = "DE", true }).authorization("x-", "tk", CardDeclined, "k")
	if err != nil {
		t.Fatal(err)
	}
	var body map[string]any
	if err := json.Unmarshal(e.body, &body); err != nil {
		t.Fatal(err)
	}
	want := `map[amount:map[currency:EUR minor:100] captureMode:automatic orderId:x-o0 paymentMethod:map[country:DE tokens:map[adyen:pm_decline stripe:pm_decline]] ` +
		`returnUrl:https://shop.example/return splits:[map[commissionMinor:0 minor:100 sellerId:s]]]`
	if got := fmt.Sprint(body); got != want || e.key != "x-k" {
		t.Errorf("key %s, body %s\nwant %s", e.key, got, want)
	}
}

// TestShopLooksAtWhatItCannotCapture: a capture that is refused as "not in this state" again and again is given up once the
// payment is seen to have ended, and goes on as long as it has not.
func TestShopLooksAtWhatItCannotCapture(t *testing.T) {
	for state, want := range map[string]int{"FAILED": lookAfter, "PROCESSING": 3*lookAfter + 1} {
		synctest.Test(t, func(t *testing.T) {
			captures := 0
			api := &shopAPI{answer: func(r *http.Request, body string) (int, string) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/capture"):
					if captures++; captures <= 3*lookAfter {
						return 409, `{"code":"WRONG_STATE"}`
					}
				case r.Method == http.MethodGet:
					return 200, `{"id":"pay_1","status":"` + state + `"}`
				}
				return authorizes(r, body)
			}}
			playOn(t, api, nil, sold(0, func(a *Arrival) { a.Then = []Later{{Op: Capture}} }))
			if captures != want {
				t.Errorf("%s: %d captures, want %d", state, captures, want)
			}
		})
	}
}
