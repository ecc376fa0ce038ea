package stripe

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	stripego "github.com/stripe/stripe-go/v82"
	"github.com/stripe/stripe-go/v82/webhook"

	"paygrid/psprouter"
)

// dotnetBody is the signed event of stripe-dotnet's tests, to the byte.
const dotnetBody = `{
  "id": "evt_123",
  "object": "event",
  "account": "acct_123",
  "api_version": "2017-05-25",
  "created": 1533204620,
  "data": {
    "object": {
      "id": "cus_123",
      "object": "customer",
      "created": 123456789,
      "email": "test@stripe.com",
      "livemode": false,
      "metadata": {}
    }
  },
  "livemode": false,
  "pending_webhooks": 1,
  "request": {
    "id": "req_123",
    "idempotency_key": "idempotency-key-123"
  },
  "type": "customer.created"
}
`

func checker(t *testing.T, secrets ...string) *Adapter {
	t.Helper()
	return newAdapter(t, "http://127.0.0.1:1", func(c *Config) { c.WebhookSecrets, c.Live = secrets, true })
}

func header(value string) http.Header { return http.Header{SignatureHeader: {value}} }

func faultOf(err error) psprouter.WebhookFault {
	var refused *psprouter.WebhookError
	if errors.As(err, &refused) {
		return refused.Why
	}
	if err != nil {
		return "another error"
	}
	return ""
}

func TestDotnetVector(t *testing.T) {
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(dotnetBody))); sum != "98cc89412549ca7faf118fca984763bdb6f81e13d1ce8c528dbbb5be602ec1be" {
		t.Fatalf("the body is not the published one: %d bytes, %s", len(dotnetBody), sum)
	}
	a := checker(t, "webhook_secret")
	h := header("t=1533204620,v1=2220f87ef101a04665f11cdf770523143f875572008577fa0f20882ddb9cc3c7")
	if err := a.CheckWebhook(h, []byte(dotnetBody), time.Unix(1533204620, 0)); err != nil {
		t.Fatal(err)
	}
	if err := a.CheckWebhook(h, []byte(strings.TrimSpace(dotnetBody)), time.Unix(1533204620, 0)); faultOf(err) != psprouter.WebhookUnsigned {
		t.Errorf("without its last newline: %v", err)
	}
	notices, err := a.ReadWebhook([]byte(dotnetBody))
	if err != nil || notices[0].Operation != "" || notices[0].Kind != "customer.created" || notices[0].Attempt != "" || notices[0].Foreign == "" {
		t.Errorf("%+v, %v", notices, err)
	}
}

// stripe-go's own code signs what we check, and checks what we would sign.
func TestStripeGoAgrees(t *testing.T) {
	now := time.Now()
	a := checker(t, "whsec_x")
	made := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: []byte(dotnetBody), Secret: "whsec_x", Timestamp: now})
	if err := a.CheckWebhook(header(made.Header), made.Payload, now); err != nil {
		t.Error(err)
	}
	h := signed([]byte(dotnetBody), now, "whsec_x")
	got, err := webhook.ConstructEventWithOptions([]byte(dotnetBody), h.Get(SignatureHeader), "whsec_x", webhook.ConstructEventOptions{IgnoreAPIVersionMismatch: true})
	if err != nil || got.ID != "evt_123" || got.Type != stripego.EventType("customer.created") {
		t.Errorf("%v, %v", got.ID, err)
	}
}

const c032Body = `{"id":"evt_c032","object":"event","livemode":true,"created":1767225600,"type":"payment.captured","data":` +
	`{"object":{"id":"psp_c032","reference":"REF","amount":10000,"currency":"eur"}}}`

// C032: time on both sides, rotation, absence, chatter.
func TestC032SignatureHeader(t *testing.T) {
	const good = "8494cb15b8300ebd33243261db77955c79ded288128e344e9aa3172a9a20f12d"
	const old = "t=1767225600,v1=fd536c141f68209b59e70c1210a66fb4d0ec087ff998c374e8e1af98d44551a4"
	now := time.Unix(1767225600, 0)
	overlap, after := checker(t, "whsec_new_c032", "whsec_old_c032"), checker(t, "whsec_new_c032")
	zeros := strings.Repeat("0", 64)
	for _, row := range []struct {
		name, header string
		want         psprouter.WebhookFault
	}{
		{"now", "t=1767225600,v1=" + good, ""},
		{"-299", "t=1767225301,v1=920fda6f9285d2a37023225fe62f831def42ac4b267d969cfc9dcab5b4df646f", ""},
		{"-301", "t=1767225299,v1=6d41ec0ebf67b0b2353320728c9bb5f8b3e4c5b6e3a3c0ebc9dc1391a07ca553", psprouter.WebhookStale},
		{"+299", "t=1767225899,v1=afc7af18c02bfc39c1bc5bcaf8be68674b94ce1b4d0718eb99807d743a086754", ""},
		{"+301", "t=1767225901,v1=7e9bdef500b0da89aa6c0ad5e495e286d4e4749f21280ada92153de1a65ec72e", psprouter.WebhookStale},
		{"old secret in the overlap", old, ""},
		{"two values", "t=1767225600,v1=" + zeros + ",v1=" + good, ""},
		{"one that is no hex beside a good one", "t=1767225600,v1=bad_signature,v1=" + good, ""},
		{"only v0", "t=1767225600,v0=" + good, psprouter.WebhookUnsigned},
		{"v0 beside a wrong v1", "t=1767225600,v0=" + good + ",v1=" + zeros, psprouter.WebhookUnsigned},
		{"t=abc", "t=abc,v1=" + good, psprouter.WebhookUnsigned},
		{"t with a sign", "t=+1767225600,v1=" + good, psprouter.WebhookUnsigned},
		{"t with zeros", "t=01767225600,v1=" + good, psprouter.WebhookUnsigned},
		{"two times", "t=1767225600,t=1767225600,v1=" + good, psprouter.WebhookUnsigned},
		{"the signature of another time", "t=1767225601,v1=" + good, psprouter.WebhookUnsigned},
		{"no time", "v1=" + good, psprouter.WebhookUnsigned},
		{"v1 and t=1", "v1,t=1", psprouter.WebhookUnsigned},
		{"an empty time", "t=", psprouter.WebhookUnsigned},
		{"empty", "", psprouter.WebhookUnsigned},
		{"half a signature", "t=1767225600,v1=" + good[:32], psprouter.WebhookUnsigned},
		{"too many", "t=1767225600" + strings.Repeat(",v1="+good, maxSignatures+1), psprouter.WebhookUnsigned},
	} {
		err := overlap.CheckWebhook(header(row.header), []byte(c032Body), now)
		if faultOf(err) != row.want {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
		if err != nil && strings.Contains(err.Error(), good[:16]) {
			t.Errorf("%s: the right signature is in the error", row.name)
		}
	}
	if err := overlap.CheckWebhook(http.Header{}, []byte(c032Body), now); faultOf(err) != psprouter.WebhookUnsigned {
		t.Errorf("no header: %v", err)
	}
	if err := after.CheckWebhook(header(old), []byte(c032Body), now); faultOf(err) != psprouter.WebhookUnsigned {
		t.Errorf("the old secret after the overlap: %v", err)
	}
	if err := checker(t).CheckWebhook(header("t=1767225600,v1="+good), []byte(c032Body), now); faultOf(err) != psprouter.WebhookUnsigned {
		t.Errorf("without any secret: %v", err)
	}
}

// C034: the bytes that came are signed, not the object that was parsed.
func TestC034SignTheBytes(t *testing.T) {
	body, err := base64.StdEncoding.DecodeString("eyAiaWQiOiAiZXZ0X2MwMzQiLCAib2JqZWN0IjoiZXZlbnQiLCJsaXZlbW9kZSI6dHJ1ZSwiY3JlYXRlZCI6MTc2NzIyNTYwMCwKICAidHlwZSI6InBheW1l" +
		"bnQuY2FwdHVyZWQiLCJkYXRhIjp7Im9iamVjdCI6eyJpZCI6InBzcF9jMDM0IiwicmVmZXJlbmNlIjoiUkVGLUMwMzQiLCJhbW91bnQiOjEwMDAwLCJjdXJy" +
		"ZW5jeSI6ImV1ciIsIm5vdGUiOiJjYWbDqSDwn6e+IFx1MDAxQlswbSBcLyAxLjAiLCJmZWUiOjEuMH19fQo=")
	if err != nil || len(body) != 242 {
		t.Fatalf("%d bytes, %v", len(body), err)
	}
	a := checker(t, "whsec_c034")
	now := time.Unix(1767225600, 0)
	for name, row := range map[string]struct {
		signature string
		body      []byte
		want      psprouter.WebhookFault
	}{
		"the bytes":                  {"9cc45af3b90aa8e8acdc3c1a90ac2e0e915764d0e042a1ba7bc96cbbc1777273", body, ""},
		"the body written anew":      {"ecf27128e44f51fe24a69b255799f07021bbf5fc25b5a7c932b969c7c7b8d8e0", body, psprouter.WebhookUnsigned},
		"without its last newline":   {"74bbde16afce6f645592214b10ab9bb1cd9f1c5a21abd7b279d0af9f4035e6b2", body, psprouter.WebhookUnsigned},
		"the body without it":        {"9cc45af3b90aa8e8acdc3c1a90ac2e0e915764d0e042a1ba7bc96cbbc1777273", bytes.TrimSpace(body), psprouter.WebhookUnsigned},
		"signed and sent without it": {"74bbde16afce6f645592214b10ab9bb1cd9f1c5a21abd7b279d0af9f4035e6b2", bytes.TrimSpace(body), ""},
	} {
		if err := a.CheckWebhook(header("t=1767225600,v1="+row.signature), row.body, now); faultOf(err) != row.want {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}

func TestEmptySecretIsRefused(t *testing.T) {
	_, err := New(Config{BaseURL: "http://x", SecretKey: "sk", WebhookSecrets: []string{"whsec_x", ""}})
	if config, ok := err.(*ConfigError); !ok || config.Field != "WebhookSecrets" {
		t.Errorf("%v", err)
	}
	_, err = New(Config{BaseURL: "http://x", SecretKey: "sk", VisibilityWindow: -1})
	if config, ok := err.(*ConfigError); !ok || config.Field != "VisibilityWindow" {
		t.Errorf("%v", err)
	}
}

func FuzzSignatureHeader(f *testing.F) {
	f.Add("t=1767225600,v1=8494cb15b8300ebd33243261db77955c79ded288128e344e9aa3172a9a20f12d")
	f.Add("t=,v1=,,=")
	f.Fuzz(func(t *testing.T, value string) {
		if at, signatures, err := parseSignature([]string{value}); err == nil && (at < 0 || len(signatures) == 0) {
			t.Fatalf("%q: %d, %d signatures", value, at, len(signatures))
		}
	})
}
