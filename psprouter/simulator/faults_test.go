package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// wireResult is what a client sees of one call: a status, or how the connection ended.
func wireResult(r reply) string {
	var netErr net.Error
	switch {
	case r.err == nil:
		return fmt.Sprint(r.status)
	case r.half > 0:
		return "half"
	case errors.Is(r.err, syscall.ECONNRESET), strings.Contains(r.err.Error(), "malformed MIME header"): // a header that broke off
		return "reset"
	case errors.Is(r.err, io.EOF), strings.Contains(r.err.Error(), "EOF"):
		return "closed"
	case errors.As(r.err, &netErr) && netErr.Timeout():
		return "timeout"
	}
	return r.err.Error()
}

// expected is one fault of an automatic authorization: what the wire shows in each dialect, whether the money moved, and
// what a re-send under the key shows.
type expected struct {
	stripe, adyen string
	moved         bool
	again         string // at both; "" = as an ordinary success
	adyenAgain    string // where Adyen differs
}

var wanted = map[string]expected{
	"reset_unread": {"reset", "reset", false, "", ""}, "drop_before": {"reset", "reset", false, "", ""}, "close_before": {"closed", "closed", false, "", ""},
	"timeout_before": {"reset", "reset", false, "", ""}, "drop_after": {"closed", "closed", true, "", ""}, "reset_after": {"reset", "reset", true, "", ""},
	"reset_headers": {"reset", "reset", true, "", ""}, "reset_body": {"half", "half", true, "", ""}, "truncated_after": {"half", "half", true, "", ""},
	"timeout_after": {"200", "200", true, "", ""}, "slow_Ns": {"200", "200", true, "", ""}, "hidden_Ns": {"closed", "closed", true, "", ""},
	"429_resend": {"closed", "closed", true, "429", ""}, "conflict_resend": {"closed", "closed", true, "409", "422"},
	"503": {"503", "503", false, "", ""}, "503_bare": {"503", "503", false, "", ""}, "500_before": {"500", "500", false, "", ""},
	"502_before": {"502", "502", false, "", ""}, "504_before": {"504", "504", false, "", ""}, "429": {"429", "429", false, "", ""},
	"401": {"401", "401", false, "", ""}, "lock_timeout": {"429", "422", false, "", ""}, "key_in_use": {"409", "422", false, "", ""},
	"key_stuck": {"409", "422", false, "", ""}, "store_down": {"503", "503", false, "", ""}, "500_after": {"500", "500", true, "500", ""},
	"502_after": {"502", "502", true, "", ""}, "504_after": {"504", "504", true, "", ""}, "garbage_after": {"200", "200", true, "", ""},
	"empty_after": {"200", "200", true, "", ""}, "redirect_after": {"302", "302", true, "", ""}, "wrong_status": {"200", "200", true, "", ""},
	"wrong_amount": {"200", "200", true, "", ""}, "wrong_currency": {"200", "200", true, "", ""}, "wrong_reference": {"200", "200", true, "", ""},
	"decline": {"402", "200", false, "402", "200"}, "decline_funds": {"402", "200", false, "402", "200"}, "decline_expired": {"402", "200", false, "402", "200"},
	"decline_lost": {"402", "200", false, "402", "200"}, "decline_honor": {"402", "200", false, "402", "200"}, "decline_fraud": {"402", "200", false, "402", "200"},
	"decline_error": {"402", "200", false, "402", "200"}, "action": {"200", "200", false, "", ""}, "action_ok_Ns": {"200", "200", false, "", ""},
	"action_fail_Ns": {"200", "200", false, "", ""}, "action_abandoned": {"200", "200", false, "", ""}, "pending": {"200", "200", false, "", ""},
	"pending_ok_Ns": {"200", "200", false, "", ""}, "pending_fail_Ns": {"200", "200", false, "", ""}, "fails_later_Ns": {"200", "200", true, "", ""},
	"webhook_late_Ns": {"200", "200", true, "", ""}, "webhook_early": {"200", "200", true, "", ""}, "webhook_double": {"200", "200", true, "", ""},
	"webhook_twin": {"200", "200", true, "", ""}, "webhook_reordered": {"200", "200", true, "", ""}, "webhook_forged": {"200", "200", true, "", ""},
	"webhook_everywhere": {"200", "200", true, "", ""}, "webhook_dropped": {"200", "200", true, "", ""}, "ok": {"200", "200", true, "", ""},
}

// Every fault of the table is seen at the wire, through a socket and without one, and does to the money what it says.
func TestEveryFaultAtTheWire(t *testing.T) {
	if n := len(Faults()); n < 31 || n != len(wanted) {
		t.Fatalf("%d faults, %d expectations", n, len(wanted))
	}
	dialects(t, func(t *testing.T, d Dialect) {
		for _, fault := range Faults() {
			for _, socket := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s socket %t", fault.Name, socket), func(t *testing.T) { oneFault(t, d, fault.Name, socket) })
			}
		}
	})
}

func oneFault(t *testing.T, d Dialect, fault string, socket bool) {
	r := newRig(t, func(o *Options) { o.Dialect, o.Patience = d, time.Hour })
	if !socket {
		r.client = &http.Client{Transport: r.Transport(), CheckRedirect: r.client.CheckRedirect}
	}
	name := strings.Replace(fault, "_Ns", "_5s", 1)
	if err := r.Script("authorize", name, "", 1); err != nil {
		t.Fatal(err)
	}
	want := wanted[fault]
	first, again := want.stripe, want.again
	if d == DialectAdyen {
		first = want.adyen
		if want.adyenAgain != "" {
			again = want.adyenAgain
		}
	}
	got := wireResult(r.authorize("pm_ok", "k1"))
	if got != first && (first != "half" || got != "reset") { // a reset may overtake the half that was sent
		t.Errorf("first call: %s, want %s", got, first)
	}
	if moved := chargesOf(r); (moved == 1) != want.moved || moved > 1 {
		t.Errorf("%d charges after it, want any: %t", moved, want.moved)
	}
	if again == "" {
		again = "200"
	}
	if got := wireResult(r.authorize("pm_ok", "k1")); got != again {
		t.Errorf("re-send: %s, want %s", got, again)
	}
	if want.again == "429" || want.again == "409" {
		if got := wireResult(r.authorize("pm_ok", "k1")); got != "200" {
			t.Errorf("second re-send: %s", got)
		}
	}
	if moved := chargesOf(r); moved > 1 {
		t.Errorf("%d charges in all", moved)
	}
	if fault != "ok" && r.Books().Faults[fault] != 1 {
		t.Errorf("counted as %v", r.Books().Faults)
	}
}

func chargesOf(r *rig) (n int) {
	for _, total := range r.Books().Totals {
		n += total.Charges
	}
	return n
}

// A lie is in the answer alone: books and replay know better.
func TestLies(t *testing.T) {
	for _, c := range []struct {
		d                    Dialect
		fault, path, lie, is string
	}{
		{DialectStripe, "wrong_status", "status", "perplexed", "succeeded"},
		{DialectStripe, "wrong_amount", "amount", "1001", "1000"},
		{DialectStripe, "wrong_currency", "currency", "usd", "eur"},
		{DialectStripe, "wrong_reference", "metadata.attempt", "att_of_another", "k1"},
		{DialectAdyen, "wrong_status", "resultCode", "Perplexed", "Authorised"},
		{DialectAdyen, "wrong_amount", "amount.value", "1001", "1000"},
		{DialectAdyen, "wrong_currency", "amount.currency", "USD", "EUR"},
		{DialectAdyen, "wrong_reference", "merchantReference", "k1X", "k1"},
	} {
		r := newRig(t, func(o *Options) { o.Dialect = c.d })
		r.want(r.authorize("pm_ok_authorize_"+c.fault, "k1"), 200, c.path, c.lie)
		r.want(r.authorize("pm_ok_authorize_"+c.fault, "k1"), 200, c.path, c.is)
	}
	r := adyen(t, nil)
	ref := r.want(r.post("/v71/payments", "k1", pay("pm_ok_capture_wrong_status", "manual", "k1")), 200).at("pspReference")
	r.want(r.post("/v71/payments/"+ref+"/captures", "k2", modify(1000, "k2")), 201, "status", "perplexed", "amount.value", "1000")
}

// What ends by itself does so when its time has come, whether or not a queue runs.
func TestEndsByThemselves(t *testing.T) {
	for fault, status := range map[string]string{
		"pending_ok_5s": statusSucceeded, "pending_fail_5s": statusNeedsMethod, "action_ok_5s": statusSucceeded, "action_fail_5s": statusNeedsMethod,
		"action_abandoned": statusNeedsAction, "pending": statusProcessing, "fails_later_5s": statusNeedsMethod,
	} {
		dialects(t, func(t *testing.T, d Dialect) {
			r := newRig(t, func(o *Options) { o.Dialect = d })
			r.want(r.authorize("pm_ok_authorize_"+fault, "k1"), 200)
			r.advance(5*time.Second - time.Millisecond)
			if p := r.Books().Payments[0]; p.Status == status && !strings.HasSuffix(fault, "abandoned") && fault != "pending" {
				t.Errorf("%s: ended too early", fault)
			}
			r.advance(time.Millisecond)
			if p := r.Books().Payments[0]; p.Status != status || (p.CapturedMinor == 1000) != (status == statusSucceeded) || p.Charges != int(p.CapturedMinor/1000) {
				t.Errorf("%s: %+v, want %s", fault, p, status)
			}
		})
	}
}

func TestOutage(t *testing.T) {
	dialects(t, func(t *testing.T, d Dialect) {
		r := newRig(t, func(o *Options) { o.Dialect = d })
		for mode, want := range map[string]string{"503": "503", "reset": "reset", "timeout": "reset", "refuse": "reset"} {
			r.want(r.post("/sim/outage", "", `{"seconds":30,"mode":"`+mode+`"}`), 200)
			got := r.authorize("pm_ok", "k-"+mode)
			if wireResult(got) != want || got.header.Get(NotProcessedHeader) != "" {
				t.Errorf("%s: %s %v", mode, wireResult(got), got.header)
			}
			r.advance(30 * time.Second)
			r.want(r.authorize("pm_ok", "k-"+mode), 200)
			if n := r.Books().Faults["outage_"+mode]; n != 1 {
				t.Errorf("%s: counted %d times", mode, n)
			}
		}
		r.want(r.post("/sim/outage", "", `{"seconds":30,"mode":"meteor"}`), 400)
		if err := r.Outage(time.Hour, Outage503); err != nil {
			t.Fatal(err)
		}
		if d == DialectStripe {
			r.want(r.fetch("/v1/payment_intents"), 503)
		}
		r.want(r.post("/sim/outage", "", `{"seconds":0}`), 200)
		r.want(r.authorize("pm_ok", "k-after"), 200)
	})
}

// One seed draws the same faults for the same keys, in whatever order the calls come; a re-send draws none; another
// seed draws others; the rate is about what was asked for.
func TestFaultsBySeed(t *testing.T) {
	draw := func(seed uint64, backwards bool) map[string]string {
		r := newRig(t, func(o *Options) { o.Seed, o.FaultPerMille, o.FaultSet = seed, 200, []string{"wire", "500_after"} })
		r.client = &http.Client{Transport: r.Transport()}
		keys := make([]string, 400)
		for i := range keys {
			keys[i] = fmt.Sprint("att_", i)
		}
		if backwards {
			slices.Reverse(keys)
		}
		seen := map[string]string{}
		for _, key := range keys {
			seen[key] = wireResult(r.authorize("pm_ok", key))
		}
		total := 0
		for _, n := range r.Books().Faults {
			total += n
		}
		if total < 50 || total > 110 {
			t.Errorf("%d of 400 calls drew a fault, at 200 per mille", total)
		}
		for _, key := range keys {
			if got := wireResult(r.authorize("pm_ok", key)); got != "200" && got != "500" && got != "429" && got != "409" {
				t.Errorf("re-send of %s: %s", key, got)
			}
		}
		if n := chargesOf(r); n != 400 {
			t.Errorf("%d charges", n)
		}
		return seen
	}
	one := draw(7, false)
	if !maps.Equal(one, draw(7, true)) {
		t.Error("the same seed draws other faults when the calls come in another order")
	}
	if maps.Equal(one, draw(8, false)) {
		t.Error("another seed draws the same faults")
	}
}

// A history is its seed: the same calls, faults and notices in the same order end in the same books and events.
func TestHistoriesRepeat(t *testing.T) {
	dialects(t, func(t *testing.T, d Dialect) {
		first := history(t, d, 11)
		if second := history(t, d, 11); first != second {
			t.Errorf("one seed, two histories:\n%.2000s\n%.2000s", first, second)
		}
		if first == history(t, d, 12) {
			t.Error("two seeds, one history")
		}
	})
}

// history makes payments with faults from a seed, sends again what had no answer, and returns everything that is known.
func history(t *testing.T, d Dialect, seed uint64) string {
	clock := &virtualClock{now: time.Unix(1_800_000_000, 0).UTC()}
	in := &inbox{refuse: func(n notice) bool { return verify(d, n, secretOf(d)) != nil }}
	s := newSim(t, Options{Now: clock.Now, Wait: clock.Wait, Patience: 20 * time.Second, Dialect: d, Seed: seed, FaultPerMille: 400,
		Webhooks: []Target{{URL: "http://a.example/"}, {URL: "http://b.example/"}}, WebhookSecrets: []string{secretOf(d)}, WebhookTransport: in,
		LatencyMin: time.Millisecond, LatencyMax: 5 * time.Millisecond, LatencyTail: time.Second})
	r := &rig{Simulator: s, t: t, url: "http://psp.example", client: &http.Client{Transport: s.Transport(), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	for i := range 150 {
		key := fmt.Sprint("att_", i)
		for range 3 {
			if got := r.authorize("pm_ok", key); got.status == 200 {
				break
			}
		}
		s.Deliver(t.Context())
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := s.Books()
	if n := chargesOf(r); n != 150 || len(b.Faults) < 20 || b.Webhooks.Forgeries.Accepted != 0 {
		t.Errorf("%d charges, faults %v", n, b.Faults)
	}
	text, err := json.Marshal([]any{b, s.Events()})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// virtualClock passes only when somebody waits.
type virtualClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *virtualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *virtualClock) Wait(d time.Duration, _ <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestSetFaults(t *testing.T) {
	r := newRig(t, nil)
	r.want(r.post("/sim/faults", "", `{"perMille":1000,"faults":["500_before"]}`), 200)
	r.want(r.authorize("pm_ok", "k1"), 500)
	r.want(r.authorize("pm_ok", "k1"), 200)
	r.want(r.authorize("pm_decline", "k2"), 402) // a token that means something is left alone
	r.want(r.post("/sim/faults", "", `{"perMille":0}`), 200)
	r.want(r.authorize("pm_ok", "k3"), 200)
	r.want(r.post("/sim/faults", "", `{"perMille":1001}`), 400)
	r.want(r.post("/sim/faults", "", `{"perMille":1,"faults":["meteor"]}`), 400)
	if set, bad := faultSet(DefaultFaultSet()); bad != nil || len(set) != len(DefaultFaultSet()) {
		t.Errorf("default set: %v", bad)
	}
	if got := string(r.want(r.fetch("/sim/faults"), 200).body); !strings.Contains(got, `"webhook_forged"`) {
		t.Error(got)
	}
}

func TestOptionErrors(t *testing.T) {
	good := func() Options { return Options{Now: time.Now} }
	for field, change := range map[string]func(*Options){
		"Now": func(o *Options) { o.Now = nil }, "Dialect": func(o *Options) { o.Dialect = "paypal" },
		"LatencyMin": func(o *Options) { o.LatencyMin = time.Second }, "LatencyTail": func(o *Options) { o.LatencyMax, o.LatencyTail = time.Second, 1 },
		"FaultPerMille": func(o *Options) { o.FaultPerMille = -1 }, "FaultSet": func(o *Options) { o.FaultSet = []string{"meteor"} },
		"MaxPayments": func(o *Options) { o.MaxPayments = -1 }, "WebhookSecrets": func(o *Options) { o.Webhooks = []Target{{URL: "http://a/"}} },
		"Webhooks": func(o *Options) { o.Webhooks, o.WebhookSecrets = []Target{{URL: "a"}}, []string{"00"} },
	} {
		o := good()
		change(&o)
		_, err := New(o)
		var fault *OptionError
		if !errors.As(err, &fault) || fault.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// traced tells which httptrace hooks fired during one call without a socket.
func traced(r *rig, key string) (fired string, err error) {
	var hooks []string
	ctx := httptrace.WithClientTrace(r.t.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { hooks = append(hooks, "GetConn") }, GotConn: func(httptrace.GotConnInfo) { hooks = append(hooks, "GotConn") },
		WroteRequest: func(httptrace.WroteRequestInfo) { hooks = append(hooks, "WroteRequest") },
	})
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://psp.example/v1/payment_intents", strings.NewReader(form("pm_ok", "automatic", key)))
	req.Header.Set("Authorization", "Bearer sk_1")
	req.Header.Set("Idempotency-Key", key)
	resp, err := r.Transport().RoundTrip(req)
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	return strings.Join(hooks, " "), err
}

func TestTransportTraces(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Patience = 10 * time.Second })
	if fired, err := traced(r, "k1"); err != nil || fired != "GetConn GotConn WroteRequest" {
		t.Errorf("%s %v", fired, err)
	}
	if err := r.Outage(time.Minute, OutageRefuse); err != nil {
		t.Fatal(err)
	}
	var op *net.OpError
	fired, err := traced(r, "k2")
	if fired != "GetConn" || !errors.As(err, &op) || op.Op != "dial" || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refused: %s %v", fired, err)
	}
	r.advance(time.Minute)
	for fault, cause := range map[string]error{"drop_before": syscall.ECONNRESET, "drop_after": io.EOF, "timeout_after": os.ErrDeadlineExceeded} {
		if err := r.Script("authorize", fault, "", 1); err != nil {
			t.Fatal(err)
		}
		if fired, err := traced(r, "k-"+fault); fired != "GetConn GotConn WroteRequest" || !errors.Is(err, cause) {
			t.Errorf("%s: %s %v", fault, fired, err)
		}
	}
	if n := chargesOf(r); n != 3 {
		t.Errorf("%d charges: k1, and what was cut after the effect", n)
	}
}

// Without Patience a call obeys its context, and what was asked is done nevertheless, in a bubble's time.
func TestTransportInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(t, Options{Now: time.Now, Seed: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://psp.example/v1/payment_intents", strings.NewReader(form("pm_slow_ok_5s", "automatic", "k1")))
		req.Header.Set("Authorization", "Bearer sk_1")
		start := time.Now()
		if _, err := s.Transport().RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if n := len(s.Books().Payments); n != 0 {
			t.Errorf("%d payments before the time", n)
		}
		<-time.After(4 * time.Second)
		synctest.Wait()
		if p := s.Books().Payments; len(p) != 1 || p[0].Charges != 1 {
			t.Errorf("%+v", p)
		}
	})
}

// A virtual year passes without a real second.
func TestVirtualTime(t *testing.T) {
	clock := &virtualClock{now: time.Unix(1_800_000_000, 0)}
	s := newSim(t, Options{Now: clock.Now, Wait: clock.Wait, Patience: time.Minute, LatencyMin: 24 * time.Hour, LatencyMax: 24 * time.Hour, RecordEvents: true})
	client := &http.Client{Transport: s.Transport()}
	for i := range 365 {
		req, _ := http.NewRequest(http.MethodPost, "http://psp.example/v1/payment_intents", strings.NewReader(form("pm_ok", "manual", fmt.Sprint(i))))
		req.Header.Set("Authorization", "Bearer sk_1")
		if _, err := client.Do(req); err == nil {
			t.Fatal("a day is more than a minute's patience")
		}
	}
	b := s.Books()
	if !clock.Now().Equal(time.Unix(1_800_000_000, 0).AddDate(0, 0, 365)) || len(b.Payments) != 365 || !b.Payments[0].Expired || b.Payments[364].Expired {
		t.Errorf("%v, %d payments", clock.Now(), len(b.Payments))
	}
}

func BenchmarkTransport(b *testing.B) {
	s, err := New(Options{Now: time.Now, Wait: func(time.Duration, <-chan struct{}) {}, Patience: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	transport := s.Transport()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		req, _ := http.NewRequest(http.MethodPost, "http://psp.example/v1/payment_intents", strings.NewReader(form("pm_ok", "automatic", fmt.Sprint(i))))
		req.Header.Set("Authorization", "Bearer sk_1")
		req.Header.Set("Idempotency-Key", fmt.Sprint(i))
		if _, err := transport.RoundTrip(req); err != nil {
			b.Fatal(err)
		}
	}
}
