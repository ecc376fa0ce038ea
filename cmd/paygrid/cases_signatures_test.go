package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"paygrid/shard"
)

// hookTime is when the vectors of C032 and C034 are signed.
var hookTime = time.Unix(1767225600, 0)

// stopped is a clock that moves by hand alone.
type stopped struct{ ahead atomic.Int64 }

func (s *stopped) now() time.Time { return hookTime.Add(time.Duration(s.ahead.Load())) }

// hookCase is one webhook and its answer.
type hookCase struct {
	name, body string
	header     http.Header
	want       int
}

// checkHooks sends webhooks. A refusal is one text for all, tells no signature and writes nothing.
func checkHooks(t *testing.T, g *testGrid, c caller, psp string, cases []hookCase) {
	t.Helper()
	var refusal string
	for _, k := range cases {
		before := g.sum(t, `SELECT count(*) FROM webhook_inbox`)
		r := c.hook(t, psp, k.header, strings.NewReader(k.body))
		if r.status != k.want {
			t.Errorf("%s: want %d, got %+v", k.name, k.want, r)
		}
		if r.status == http.StatusOK {
			continue
		}
		text := withoutRequest(r.body)
		if refusal == "" {
			refusal = text
		}
		if text != refusal || len(text) > 400 || longHex.MatchString(text) {
			t.Errorf("%s: the refusal tells too much: %s; before: %s", k.name, r.body, refusal)
		}
		if n := g.sum(t, `SELECT count(*) FROM webhook_inbox`); n != before {
			t.Errorf("%s: %d notices were written", k.name, n-before)
		}
	}
}

// TestC032: time on both sides, rotation of secrets, absence, chatter; and an event that was held.
func TestC032(t *testing.T) {
	const (
		fresh, old = "whsec_new_c032", "whsec_old_c032"
		first      = "8494cb15b8300ebd33243261db77955c79ded288128e344e9aa3172a9a20f12d"
		byOld      = "fd536c141f68209b59e70c1210a66fb4d0ec087ff998c374e8e1af98d44551a4"
		body       = `{"id":"evt_c032","object":"event","livemode":true,"created":1767225600,"type":"payment.captured","data":{"object":{"id":"psp_c032","reference":"REF","amount":10000,"currency":"eur"}}}`
	)
	eachLevel(t, func(t *testing.T, serializable bool) {
		var clock stopped
		g := newGrid(t, gridOptions{Serializable: serializable, Now: clock.now, CheckAfter: 24 * time.Hour})
		secrets := func(list ...string) caller {
			c, _ := g.addNode(t, clock.now, func(r *routerConfig) { r.Stripe.WebhookSecrets = list })
			return c
		}
		signed := func(name, value string, want int) hookCase { return hookCase{name, body, stripeHeader(value), want} }
		overlap, after := secrets(fresh, old), secrets(fresh)
		checkHooks(t, g, overlap, "stripe", []hookCase{
			signed("now", "t=1767225600,v1="+first, 200),
			signed("-299", "t=1767225301,v1=920fda6f9285d2a37023225fe62f831def42ac4b267d969cfc9dcab5b4df646f", 200),
			signed("-301", "t=1767225299,v1=6d41ec0ebf67b0b2353320728c9bb5f8b3e4c5b6e3a3c0ebc9dc1391a07ca553", 401),
			signed("+299", "t=1767225899,v1=afc7af18c02bfc39c1bc5bcaf8be68674b94ce1b4d0718eb99807d743a086754", 200),
			signed("+301", "t=1767225901,v1=7e9bdef500b0da89aa6c0ad5e495e286d4e4749f21280ada92153de1a65ec72e", 401),
			signed("old secret", "t=1767225600,v1="+byOld, 200),
			signed("two values", "t=1767225600,v1="+strings.Repeat("0", 64)+",v1="+first, 200),
			signed("only v0", "t=1767225600,v0="+first, 401),
			signed("no time", "t=abc,v1="+first, 401),
			signed("t alone", "t=abc", 401),
			signed("empty header", "", 401),
			{"no header", body, nil, 401},
		})
		checkHooks(t, g, after, "stripe", []hookCase{signed("old secret, after the overlap", "t=1767225600,v1="+byOld, 401), signed("now", "t=1767225600,v1="+first, 200)})
		g.work(t)
		if n := g.sum(t, `SELECT count(*) FROM webhook_inbox WHERE state = 'UNMATCHED' AND raw = $1`, []byte(body)); n != 1 {
			t.Errorf("the event is stored %d times", n)
		}
		c032Held(t, g, &clock)
		g.always(t)
	})
}

// c032Held: the age of an event is judged when it arrives, however late a worker comes to it.
func c032Held(t *testing.T, g *testGrid, clock *stopped) {
	c := g.callers[0]
	p := c.pay(t, "k-c032", p10("o-c032", "pm_pending", "automatic")).want(t, http.StatusAccepted)
	attempt, ref := g.attemptOf(t, g.Sim.Books(), p.ID)
	if !g.Sim.Settle(ref, true) {
		t.Errorf("%s was not pending", ref)
	}
	c.hookS(t, clock.now(), shapes["generic"]("evt_c032_held", ref, attempt, 10000, "eur"))
	clock.ahead.Add(int64(20 * time.Minute))
	g.work(t)
	c.get(t, "/v1/payments/"+p.ID).wantState(t, "CAPTURED", 10000, 0)
	c.wantCAP10(t, p.ID)
}

// TestC033: colons and backslashes inside signed fields are signed as they are.
func TestC033(t *testing.T) {
	const key = "EFB62E131BDBC440E4021F6446D62BA1228808E7D846379B480E84B434942F80"
	date := adyenNotice{"psp0c0330000001", "", devMerchant, "14-08-2026-09:53:00", 10000, "EUR", "AUTHORISATION", "true"}
	path := adyenNotice{"psp0c0330000002", "psp0c0330000001", devMerchant, `a\b/c:d`, 0, "EUR", "REPORT_AVAILABLE", "true"}
	inBothLevels(t, gridOptions{Shards: 2, Routers: 1}, func(t *testing.T, g *testGrid) {
		c := g.addRouter(t, func(r *routerConfig) { r.Adyen.HMACKeys = []string{key} })
		const right, rightPath = "vZNqD++RvuddUVdFtQxxobESykHq9D4oEngK0PnbcEM=", "0/nTlX+kIc0/BZKRrAbITZPJlZNEswxUops4MnGUr5I="
		more := date
		more.minor++
		if body := path.body(rightPath); !strings.Contains(body, `"a\\b/c:d"`) {
			t.Fatalf("the JSON text is %s", body)
		}
		checkHooks(t, g, c, "adyen", []hookCase{
			{"time", date.body(right), nil, 200},
			{"time, escaped", date.body("Xxc7ZSvSZktt7LN23QwyG9zEIN+AtlplK/0cmL+t/Xg="), nil, 401},
			{"path", path.body(rightPath), nil, 200},
			{"path, escaped", path.body("yETnCWaB2rrJX7S5xbFVg8riXe+lBfvseVaaTbhxrig="), nil, 401},
			{"value changed by 1", more.body(right), nil, 401},
			{"another key", date.body(date.signature(devAdyenHook)), nil, 401},
		})
		g.work(t)
		g.wantInbox(t, shard.InboxUnmatched, 2)
	})
}

// c034Body is the body of C034: chatter that no writer of JSON gives back as it was.
const c034Body = "eyAiaWQiOiAiZXZ0X2MwMzQiLCAib2JqZWN0IjoiZXZlbnQiLCJsaXZlbW9kZSI6dHJ1ZSwiY3JlYXRlZCI6MTc2NzIyNTYwMCwKICAidHlwZSI6InBheW1l" +
	"bnQuY2FwdHVyZWQiLCJkYXRhIjp7Im9iamVjdCI6eyJpZCI6InBzcF9jMDM0IiwicmVmZXJlbmNlIjoiUkVGLUMwMzQiLCJhbW91bnQiOjEwMDAwLCJjdXJy" +
	"ZW5jeSI6ImV1ciIsIm5vdGUiOiJjYWbDqSDwn6e+IFx1MDAxQlswbSBcLyAxLjAiLCJmZWUiOjEuMH19fQo="

// TestC034: the bytes that came are signed, not the object that was parsed. A body that is too large is not read to its end.
func TestC034(t *testing.T) {
	body, err := base64.StdEncoding.DecodeString(c034Body)
	if err != nil || len(body) != 242 {
		t.Fatalf("%d bytes, %v", len(body), err)
	}
	eachLevel(t, func(t *testing.T, serializable bool) {
		var clock stopped
		g := newGrid(t, gridOptions{Shards: 2, Routers: 1, Serializable: serializable, Now: clock.now})
		c, _ := g.addNode(t, clock.now, func(r *routerConfig) { r.Stripe.WebhookSecrets = []string{"whsec_c034"} })
		var cases []hookCase
		for v1, want := range map[string]int{"9cc45af3b90aa8e8acdc3c1a90ac2e0e915764d0e042a1ba7bc96cbbc1777273": 200,
			"ecf27128e44f51fe24a69b255799f07021bbf5fc25b5a7c932b969c7c7b8d8e0": 401,
			"74bbde16afce6f645592214b10ab9bb1cd9f1c5a21abd7b279d0af9f4035e6b2": 401} {
			cases = append(cases, hookCase{v1[:8], string(body), stripeHeader("t=1767225600,v1=" + v1), want})
		}
		checkHooks(t, g, c, "stripe", cases)
		if n := g.sum(t, `SELECT count(*) FROM webhook_inbox WHERE raw = $1`, body); n != 1 {
			t.Errorf("the body is stored as it came %d times", n)
		}
		c034TooLarge(t, c, 2<<20, true, 0)
		c034TooLarge(t, c, 64<<20, false, 16<<20)
		g.wantInbox(t, shard.InboxNew, 1)
		g.always(t)
	})
}

// c034TooLarge sends a body whose length is told or not, as a client that waits to be asked for it. One whose length is
// told is refused before a byte of it left; of another one no more leaves than the router reads and the sockets hold, and
// the connection can be cut before its sender has read the answer.
func c034TooLarge(t *testing.T, c caller, size int64, told bool, most int64) {
	t.Helper()
	transport := &http.Transport{ExpectContinueTimeout: 10 * time.Second}
	defer transport.CloseIdleConnections()
	c.client = &http.Client{Transport: transport}
	var sent atomic.Int64
	body := io.TeeReader(io.LimitReader(endless{}, size), writerFunc(func(p []byte) (int, error) {
		sent.Add(int64(len(p)))
		return len(p), nil
	}))
	request, err := http.NewRequest(http.MethodPost, c.base+"/v1/webhooks/stripe", io.NopCloser(body))
	if err != nil {
		t.Fatal(err)
	}
	if told {
		request.ContentLength = size
	}
	request.Header.Set("Stripe-Signature", fmt.Sprintf("t=%d,v1=%s", hookTime.Unix(), strings.Repeat("0", 64)))
	request.Header.Set("Expect", "100-continue")
	r := c.do(request)
	if r.status != http.StatusRequestEntityTooLarge && (told || r.err == nil) {
		t.Errorf("%d bytes: want 413, got %s", size, r)
	}
	if sent.Load() > most {
		t.Errorf("%d bytes: %d were sent before the refusal", size, sent.Load())
	}
}

// endless gives spaces.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for n := range p {
		p[n] = ' '
	}
	return len(p), nil
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// longHex finds what could be a signature; anyRequest is what differs between two refusals.
var (
	longHex    = regexp.MustCompile(`[0-9a-f]{40}`)
	anyRequest = regexp.MustCompile(`"(requestId|instance)":"[^"]*"`)
)

func withoutRequest(body string) string { return anyRequest.ReplaceAllString(body, "") }
