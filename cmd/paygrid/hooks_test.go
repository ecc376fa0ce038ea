package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"paygrid/payment"
	"paygrid/psprouter/simulator"
	"paygrid/shard"
)

// eachLevel runs check in READ COMMITTED and in SERIALIZABLE, for tests that make their clusters themselves.
func eachLevel(t *testing.T, check func(t *testing.T, serializable bool)) {
	t.Parallel()
	for name, serializable := range map[string]bool{"read committed": false, "serializable": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, serializable)
		})
	}
}

// p10At is the standard body with a token for each PSP.
func p10At(order, mode string, tokens map[string]string) string {
	method, _ := json.Marshal(map[string]any{"tokens": tokens}) // strings always marshal
	return strings.Replace(p10(order, "TOKEN", mode), `"TOKEN"`, string(method), 1)
}

// p10Adyen is the standard body with a token at Adyen alone.
func p10Adyen(order, token, mode string) string {
	return p10At(order, mode, map[string]string{"adyen": token})
}

// at10 is what the capture of the standard body posts at a PSP.
func at10(psp string) lines {
	out := cap10.times(1)
	delete(out, "psp_receivable:stripe")
	out["psp_receivable:"+psp] = 10000
	return out
}

// receipt is what a sender of a webhook hears.
type receipt struct {
	status int
	body   string
}

// hook posts a body to the intake of a PSP's webhooks.
func (c caller) hook(t testing.TB, psp string, header http.Header, body io.Reader) receipt {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, c.base+"/v1/webhooks/"+psp, body)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		request.Header = header.Clone() // the same one may be sent to several routers at once
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		t.Errorf("webhook: %v", err)
		return receipt{}
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Errorf("webhook: %v", err)
	}
	return receipt{response.StatusCode, string(answer)}
}

// stripeSignature is the v1 of a body at a time.
func stripeSignature(secret string, at int64, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "%d.%s", at, body)
	return hex.EncodeToString(mac.Sum(nil))
}

func stripeHeader(value string) http.Header { return http.Header{"Stripe-Signature": {value}} }

// hookS sends an event as Stripe does, signed at a time with the dev cluster's secret.
func (c caller) hookS(t testing.TB, at time.Time, body string) {
	t.Helper()
	header := stripeHeader(fmt.Sprintf("t=%d,v1=%s", at.Unix(), stripeSignature(devStripeHook, at.Unix(), body)))
	if r := c.hook(t, "stripe", header, strings.NewReader(body)); r.status != http.StatusOK || r.body == "" {
		t.Errorf("want 200, got %+v", r)
	}
}

// shape is one way in which an event says that the money of an automatic payment was taken. The amount is in the PSP's
// unit, the currency in lower case.
type shape func(event, ref, attempt string, amount int64, currency string) string

// shapes are the generic gateway's, and Stripe's own.
var shapes = map[string]shape{
	"generic": func(event, ref, attempt string, amount int64, currency string) string {
		return fmt.Sprintf(`{"id":%q,"object":"event","livemode":true,"created":1767225600,"type":"payment.captured","data":{"object":`+
			`{"id":%q,"reference":%q,"amount":%d,"currency":%q}}}`, event, ref, attempt, amount, currency)
	},
	"stripe": func(event, ref, attempt string, amount int64, currency string) string {
		return fmt.Sprintf(`{"id":%q,"object":"event","livemode":true,"created":1767225600,"type":"payment_intent.succeeded","data":{"object":`+
			`{"id":%q,"object":"payment_intent","status":"succeeded","capture_method":"automatic","amount":%[4]d,"amount_received":%[4]d,`+
			`"currency":%[5]q,"metadata":{"attempt":%[3]q}}}}`, event, ref, attempt, amount, currency)
	},
}

// adyenNotice is one item of Adyen's, in the order of what is signed.
type adyenNotice struct {
	psp, original, account, reference string
	minor                             int64
	currency, event, success          string
}

func (n adyenNotice) signedText() string {
	return fmt.Sprintf("%s:%s:%s:%s:%d:%s:%s:%s", n.psp, n.original, n.account, n.reference, n.minor, n.currency, n.event, n.success)
}

// signature is by a key in hex.
func (n adyenNotice) signature(hexKey string) string {
	key, _ := hex.DecodeString(hexKey) // a constant of a test; an empty one would be refused
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(n.signedText()))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func (n adyenNotice) body(signature string) string {
	text := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	return fmt.Sprintf(`{"live":"true","notificationItems":[{"NotificationRequestItem":{"pspReference":%s,"originalReference":%s,`+
		`"merchantAccountCode":%s,"merchantReference":%s,"amount":{"value":%d,"currency":%q},"eventCode":%q,"success":%q,`+
		`"eventDate":"2026-02-01T10:00:00+01:00","additionalData":{"hmacSignature":%s}}}]}`, text(n.psp), text(n.original), text(n.account),
		text(n.reference), n.minor, n.currency, n.event, n.success, text(signature))
}

// hookA sends a notice as Adyen does, signed with the dev cluster's key.
func (c caller) hookA(t testing.TB, n adyenNotice) {
	t.Helper()
	r := c.hook(t, "adyen", nil, strings.NewReader(n.body(n.signature(devAdyenHook))))
	if r != (receipt{http.StatusOK, "[accepted]"}) {
		t.Errorf("want 200 [accepted], got %+v", r)
	}
}

// story is all that is known of a payment.
func (g *testGrid) story(t testing.TB, id string) payment.Explanation {
	t.Helper()
	x, err := payment.Explain(context.Background(), g.Nodes[0].shards, id)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// attemptOf is the authorization of a payment, and its PSP's reference by that PSP's own books.
func (g *testGrid) attemptOf(t testing.TB, books simulator.Books, id string) (attempt, ref string) {
	t.Helper()
	attempt = g.story(t, id).Attempts[0].ID
	for _, p := range books.Payments {
		if p.Attempt == attempt {
			return attempt, p.Ref
		}
	}
	t.Fatalf("the PSP has no payment of attempt %s", attempt)
	return "", ""
}

// exceptions are the notices that people are shown, by event.
func (g *testGrid) exceptions(t testing.TB) map[string]shard.InboxItem {
	t.Helper()
	const limit = 1000
	out := map[string]shard.InboxItem{}
	for name := range g.Admin {
		for _, state := range []shard.Status{shard.InboxUnmatched, shard.InboxMisfit} {
			items, err := g.Nodes[0].shards.Inbox(context.Background(), name, state, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, item := range items {
				out[item.EventID] = item
			}
		}
	}
	return out
}

// wantInbox counts the stored notices of a state.
func (g *testGrid) wantInbox(t testing.TB, state shard.Status, want int64) {
	t.Helper()
	if n := g.sum(t, `SELECT count(*) FROM webhook_inbox WHERE state = $1`, string(state)); n != want {
		t.Errorf("%d notices are %s, want %d", n, state, want)
	}
}

// wantEvents counts the events of a type.
func (g *testGrid) wantEvents(t testing.TB, kind string, want int64) {
	t.Helper()
	if n := g.sum(t, `SELECT count(*) FROM outbox WHERE type = $1`, kind); n != want {
		t.Errorf("%d events %s, want %d", n, kind, want)
	}
}

// delivered waits until the PSPs have no notice left to send.
func (g *testGrid) delivered(t testing.TB) {
	t.Helper()
	eventually(t, "the PSPs' notices are delivered", func() bool {
		return g.Sim.Books().Webhooks.Queued == 0 && g.Adyen.Books().Webhooks.Queued == 0
	})
}

// apply runs the inbox once on every shard, in the process of a node and as owner.
func (g *testGrid) apply(t testing.TB, node int, owner string) {
	t.Helper()
	g.applyBy(t, g.Nodes[node], owner)
}

func (g *testGrid) applyBy(t testing.TB, n *node, owner string) {
	t.Helper()
	for name := range g.Admin {
		if _, err := n.service.ApplyNoticesOn(context.Background(), name, owner); err != nil {
			t.Errorf("apply notices on %s: %v", name, err)
		}
	}
}

// alarms are what a cluster tells people: its log's lines of level ERROR.
type alarms struct {
	mu   sync.Mutex
	text strings.Builder
}

func (a *alarms) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.Write(p)
}

func (a *alarms) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(a, &slog.HandlerOptions{Level: slog.LevelError}))
}

// want counts the lines that say something.
func (a *alarms) want(t testing.TB, says string, n int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := strings.Count(a.text.String(), says); got != n {
		t.Errorf("%d alarms say %q, want %d:\n%s", got, says, n, a.text.String())
	}
}
