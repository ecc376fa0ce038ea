package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestScriptOverHTTP(t *testing.T) {
	r := newRig(t, nil)
	one, two := r.create("pm_ok", "manual", "a1"), r.create("pm_ok", "manual", "a2")
	r.want(r.post("/sim/script", "", `{"on":"capture","fault":"decline","payment":"`+one+`","count":2}`), 200)
	r.want(r.post("/v1/payment_intents/"+two+"/capture", "", ""), 200)
	for range 2 {
		r.want(r.post("/v1/payment_intents/"+one+"/capture", "", ""), 402, "error.payment_intent.status", "requires_capture")
	}
	r.want(r.post("/v1/payment_intents/"+one+"/capture", "", ""), 200)
	for _, bad := range []string{
		`{"on":"payout","fault":"drop_after"}`, `{"on":"capture","fault":"drop"`, `{"on":"capture","fault":"meteor"}`,
		`{"on":"capture","fault":"action"}`, `{"on":"capture","fault":"ok","count":-1}`, `{"on":"capture","fault":"ok","when":"now"}`,
	} {
		r.want(r.post("/sim/script", "", bad), 400)
	}
}

// A script is used up by calls that run, not by replays of a key.
func TestScriptIsNotUsedUpByReplays(t *testing.T) {
	r := newRig(t, nil)
	r.create("pm_ok", "automatic", "a1")
	if err := r.Script("authorize", "decline", "", 0); err != nil {
		t.Fatal(err)
	}
	r.want(r.post("/v1/payment_intents", "a1", form("pm_ok", "automatic", "a1")), 200)
	r.want(r.post("/v1/payment_intents", "a2", form("pm_ok", "automatic", "a2")), 402)
}

func TestSettle(t *testing.T) {
	r := newRig(t, nil)
	settle := func(id, result string, status int) {
		t.Helper()
		r.want(r.post("/sim/settle", "", `{"id":"`+id+`","result":"`+result+`"}`), status)
	}
	state := func(ref, status string) {
		t.Helper()
		r.want(r.fetch("/v1/payment_intents/"+ref), 200, "status", status)
	}
	yes, no := r.create("pm_pending", "automatic", "a1"), r.create("pm_pending", "automatic", "a2")
	settle(yes, "succeeded", 200)
	settle(no, "failed", 200)
	settle(yes, "succeeded", 409)
	state(yes, "succeeded")
	state(no, "requires_payment_method")
	for _, op := range []string{"capture", "void"} {
		verb, end := map[string]string{"capture": "capture", "void": "cancel"}[op], map[string]string{"capture": "succeeded", "void": "canceled"}[op]
		ref := r.create("pm_ok_"+op+"_pending", "manual", "a_"+op)
		r.want(r.post("/v1/payment_intents/"+ref+"/"+verb, "k1"+op, ""), 200, "status", "processing")
		settle(ref, "failed", 200)
		state(ref, "requires_capture")
		r.want(r.post("/v1/payment_intents/"+ref+"/"+verb, "k2"+op, ""), 200, "status", "processing")
		settle(ref, "succeeded", 200)
		state(ref, end)
	}
	refund := r.want(r.post("/v1/refunds", "r1", "payment_intent="+yes+"&amount=400"), 200).at("id")
	settle(refund, "failed", 200) // the bank returns it days later
	settle(refund, "failed", 409)
	r.want(r.fetch("/v1/refunds/"+refund), 200, "status", "failed", "failure_reason", "declined")
	r.want(r.post("/v1/refunds", "r2", "payment_intent="+yes), 200, "amount", "1000")
	settle("pi_nope", "succeeded", 409)
	settle(yes, "maybe", 400)
}

func TestBooksOverHTTP(t *testing.T) {
	r := newRig(t, nil)
	ref := r.create("pm_ok", "manual", "att_1")
	r.create("pm_ok", "automatic", "att_2")
	r.want(r.post("/v1/payment_intents/"+ref+"/capture", "cap", "amount_to_capture=700"), 200)
	r.want(r.post("/v1/refunds", "ref", "payment_intent="+ref+"&amount=200"), 200)
	for _, query := range []string{"ref=" + ref, "attempt=att_1"} {
		var got Books
		if err := json.Unmarshal(r.want(r.fetch("/sim/books?"+query), 200).body, &got); err != nil || len(got.Payments) != 1 {
			t.Fatalf("%v: %+v", err, got)
		}
		p := got.Payments[0]
		want := CaptureBooks{Key: "cap", AmountPSP: 700, AmountMinor: 700}
		if p.Ref != ref || p.AuthorizedMinor != 1000 || p.Captures[0] != want || p.Refunds[0].Key != "ref" || p.RefundedMinor != 200 || len(p.Calls) != 3 {
			t.Errorf("%+v", p)
		}
	}
}

func TestISOMinor(t *testing.T) {
	stripe := &stripeDialect{}
	for _, c := range []struct {
		amount   int64
		currency string
		minor    int64
	}{{1099, "eur", 1099}, {500, "jpy", 500}, {279000, "isk", 2790}, {500, "ugx", 5}, {5, "mga", 500}, {5120, "kwd", 5120}, {150, "isk", -1}} {
		if got := stripe.isoMinor(c.amount, c.currency); got != c.minor {
			t.Errorf("%d %s = %d, want %d", c.amount, c.currency, got, c.minor)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxPayments = 2 })
	ref := r.create("pm_ok", "automatic", "a1")
	r.create("pm_ok", "automatic", "a2")
	got := r.want(r.post("/v1/payment_intents", "a3", form("pm_ok", "automatic", "a3")), 503)
	if got.header.Get(NotProcessedHeader) != "true" {
		t.Error("the refusal does not say that nothing was done")
	}
	for i := range maxCallsPerPayment + 5 {
		r.post("/v1/refunds", fmt.Sprint("r", i), "amount=1&payment_intent="+ref)
	}
	r.want(r.post("/v1/refunds", "last", "amount=1&payment_intent="+ref), 429)
	p := r.Books().Payments[0]
	if len(p.Calls) != maxCallsPerPayment || p.RefundedMinor != maxCallsPerPayment-1 {
		t.Errorf("%d calls, %d refunded", len(p.Calls), p.RefundedMinor)
	}
	if len(r.keys) > 2+maxCallsPerPayment {
		t.Errorf("%d keys", len(r.keys))
	}
}

// Any sequence of calls keeps the books in order: refunded <= captured <= authorized, and the parts add up.
func TestBooksStayInOrder(t *testing.T) {
	r := newRig(t, nil)
	random := rand.New(rand.NewPCG(7, 7))
	tokens := []string{"pm_ok", "pm_ok_capture_drop", "pm_ok_refund_pending", "pm_pending", "pm_decline", "pm_ok_void_500", "pm_ok_capture_pending"}
	var refs []string
	for i := range 400 {
		if i%10 == 0 {
			r.post("/v1/payment_intents", fmt.Sprint("k", i), form(tokens[random.IntN(len(tokens))], []string{"manual", "automatic"}[random.IntN(2)], fmt.Sprint("a", i)))
			refs = refs[:0]
			for _, p := range r.Books().Payments {
				refs = append(refs, p.Ref)
			}
		}
		ref := refs[random.IntN(len(refs))]
		key, amount := fmt.Sprint("k", i, "x"), random.IntN(700)+1
		switch random.IntN(4) {
		case 0:
			r.post("/v1/payment_intents/"+ref+"/capture", key, fmt.Sprintf("amount_to_capture=%d&final_capture=%t", amount, random.IntN(2) == 0))
		case 1:
			r.post("/v1/refunds", key, fmt.Sprintf("amount=%d&payment_intent=%s", amount, ref))
		case 2:
			r.post("/v1/payment_intents/"+ref+"/cancel", key, "")
		case 3:
			r.Settle(ref, random.IntN(2) == 0)
		}
	}
	moved := 0
	for _, p := range r.Books().Payments {
		var captured, refunding int64
		for _, c := range p.Captures {
			captured += c.AmountMinor
		}
		for _, one := range p.Refunds {
			refunding += one.AmountMinor
		}
		if p.CapturedMinor != captured || p.RefundedMinor > refunding || refunding > captured || captured > p.AuthorizedMinor ||
			p.AuthorizedMinor > 1000 || p.Charges != len(p.Captures) || p.Voided && captured == p.AuthorizedMinor {
			t.Errorf("%+v", p)
		}
		moved += p.Charges
	}
	if moved < 10 {
		t.Errorf("only %d captures: the test tests little", moved)
	}
}

// A client that hangs up does not stop the money, and an orderly stop moves what is still waiting.
func TestServeStopsInOrder(t *testing.T) {
	var arrivals atomic.Int32
	both := make(chan struct{}) // closed once both calls wait
	sim := newSim(t, Options{Now: time.Now, Wait: func(d time.Duration, stop <-chan struct{}) {
		if arrivals.Add(1) == 2 {
			close(both)
		}
		waitOnTimer(d, stop)
	}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- sim.Serve(ctx, l) }()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var running sync.WaitGroup
	for _, attempt := range []string{"stays", "leaves"} {
		running.Go(func() {
			callCtx, hangUp := context.WithCancel(context.WithoutCancel(ctx))
			defer hangUp()
			req, _ := http.NewRequestWithContext(callCtx, http.MethodPost, "http://"+l.Addr().String()+"/v1/payment_intents",
				strings.NewReader(form("pm_slow_ok_600s", "automatic", attempt)))
			req.Header.Set("Authorization", "Bearer sk_test")
			req.Header.Set("Idempotency-Key", attempt)
			if attempt == "leaves" {
				go func() { <-both; hangUp() }()
			}
			if resp, err := client.Do(req); err == nil {
				resp.Body.Close()
			}
		})
	}
	<-both
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	running.Wait()
	if b := sim.Books(); len(b.Payments) != 2 || b.Totals[0].Charges != 2 {
		t.Errorf("books %+v", b)
	}
	if _, err := net.DialTimeout("tcp", l.Addr().String(), time.Second); err == nil {
		t.Error("the listener is still open")
	}
}

func TestLatencyIsDrawnWithinItsRange(t *testing.T) {
	s := newSim(t, Options{Now: time.Now, Seed: 3, LatencyMin: 5 * time.Millisecond, LatencyMax: 9 * time.Millisecond})
	seen := map[bool]bool{}
	for range 200 {
		d := s.latency()
		if d < 5*time.Millisecond || d > 9*time.Millisecond {
			t.Fatal(d)
		}
		seen[d > 7*time.Millisecond] = true
	}
	if len(seen) != 2 {
		t.Error("the latency does not vary")
	}
	s = newSim(t, Options{Now: time.Now, Seed: 3, LatencyMin: time.Millisecond, LatencyMax: 2 * time.Millisecond, LatencyTail: time.Second})
	tail := 0
	for range 2000 {
		if d := s.latency(); d > 2*time.Millisecond {
			tail++
		} else if d < time.Millisecond {
			t.Fatal(d)
		}
	}
	if tail < 20 || tail > 80 {
		t.Errorf("%d of 2000 calls in the tail, want about 40", tail)
	}
}

// Whatever a token is, it either means something or is refused; every named fault is one that exists.
func FuzzTokens(f *testing.F) {
	for _, token := range Tokens() {
		f.Add(token.Name)
	}
	f.Add("pm_ok_capture_hidden_3s")
	f.Fuzz(func(t *testing.T, token string) {
		authorize, later := parseToken(token)
		for _, name := range []string{authorize, later.fault} {
			if _, known := faultNamed(name); name != "" && !known {
				t.Fatalf("%q means the unknown fault %q", token, name)
			}
		}
	})
}

// The help lists what there is: each entry without a pattern in its name works.
func TestTokensAndFaultsAreReal(t *testing.T) {
	for _, token := range Tokens() {
		name := strings.NewReplacer("_Ns", "_5s", "KIND", "lost", "test_N", "test_12", "OP_FAULT", "capture_drop", "…", "visa").Replace(token.Name)
		if authorize, _ := parseToken(name); authorize == "" {
			t.Errorf("%s is in the help and unknown", name)
		}
	}
	for _, fault := range Faults() {
		if _, ok := faultNamed(strings.Replace(fault.Name, "_Ns", "_5s", 1)); !ok || fault.Doc == "" {
			t.Errorf("%s is in the help and unknown", fault.Name)
		}
	}
}
