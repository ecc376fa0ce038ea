package simulator

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	stripe "github.com/stripe/stripe-go/v82"
	"github.com/stripe/stripe-go/v82/webhook"
)

// verify checks a notice with code that is not the simulator's: stripe-go, or an HMAC over the item as it was received.
func verify(d Dialect, n notice, secret string) error {
	if d == DialectStripe {
		_, err := webhook.ConstructEventWithOptions(n.body, n.header.Get("Stripe-Signature"), secret, webhook.ConstructEventOptions{IgnoreTolerance: true})
		return err
	}
	type item struct {
		AdditionalData      map[string]string
		Amount              struct{ Value, Currency any }
		PSPReference        string
		OriginalReference   string
		MerchantAccountCode string
		MerchantReference   string
		EventCode, Success  string
	}
	var in struct {
		NotificationItems []struct{ NotificationRequestItem item }
	}
	if err := json.Unmarshal(n.body, &in); err != nil {
		return err
	}
	i := in.NotificationItems[0].NotificationRequestItem
	signed := fmt.Sprintf("%s:%s:%s:%s:%v:%v:%s:%s", i.PSPReference, i.OriginalReference, i.MerchantAccountCode, i.MerchantReference, i.Amount.Value, i.Amount.Currency, i.EventCode, i.Success)
	key, err := hex.DecodeString(secret)
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(signed))
	if base64.StdEncoding.EncodeToString(mac.Sum(nil)) != i.AdditionalData["hmacSignature"] {
		return errors.New("wrong signature over " + signed)
	}
	return nil
}

func secretOf(d Dialect) string {
	if d == DialectAdyen {
		return adyenSecret
	}
	return stripeSecret
}

// The public vectors of Adyen's signature.
func TestAdyenSignatureVectors(t *testing.T) {
	const second = "9064450A8892A093D9E97EFCC9639DE31B74F3A7803135555A3C96F5A57915D6"
	for _, v := range [][3]string{
		{"DFB1EB5485895CFA84146406857104ABB4CBCABDC8AAF103A624C8F6A3EAAB00", "pspReference:originalReference:merchantAccount:reference:1000:EUR:EVENT:true",
			"ipnxGCaUZ4l8TUW75a71/ghd2Fe5ffvX0pV4TLTntIc="},
		{second, "test_REPORT_AVAILABLE::Magento2Rik:testMerchantRef1:0:EUR:REPORT_AVAILABLE:true", "NuEkADFmlCC6VgX+wcoPAegIWxVPNBPCuKlM4Hzo5qc="},
		{second, "TestPayload", "YA9/UDjldIO4Gq68X4ATYYoEaPYH4f4k2uzBBzEF1PA="},
		{"74F490DD33F7327BAECC88B2947C011FC02D014A473AAA33A8EC93E4DC069174", `ZVWN7D3WSMK2WN82::AntoniStroinski:\:/\/slashes are fun:1000:EUR:AUTHORISATION:true`,
			"CZErGCNQaSsxbaQfZaJlakqo7KPP+mIa8a+wx3yNs9A="},
		{"44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056", "7914073381342284::TestMerchant:TestPayment-1407325143704:1130:EUR:AUTHORISATION:true",
			"coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="},
	} {
		if got := adyenSignature(v[0], v[1]); got != v[2] {
			t.Errorf("%s: %s, want %s", v[1], got, v[2])
		}
	}
	item := adyenItem{PSPReference: "ZVWN7D3WSMK2WN82", MerchantAccountCode: "AntoniStroinski", MerchantReference: `\:/\/slashes are fun`,
		Amount: adyenAmount{"EUR", 1000}, EventCode: "AUTHORISATION", Success: "true"}
	if got := adyenSigned(item); got != `ZVWN7D3WSMK2WN82::AntoniStroinski:\:/\/slashes are fun:1000:EUR:AUTHORISATION:true` {
		t.Error(got)
	}
}

// Stripe's public vector, through the same code that signs our notices.
func TestStripeSignatureVector(t *testing.T) {
	body := `{
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
	if sum := sha256.Sum256([]byte(body)); len(body) != 484 || hex.EncodeToString(sum[:]) != "98cc89412549ca7faf118fca984763bdb6f81e13d1ce8c528dbbb5be602ec1be" {
		t.Fatalf("the body is not typed as it was published: %d bytes, %x", len(body), sum)
	}
	s := newSim(t, Options{Now: time.Now, WebhookSecrets: []string{"webhook_secret"}})
	_, header := s.dialect.sign(&event{body: []byte(body)}, time.Unix(1533204620, 0), false)
	if got := header.Get("Stripe-Signature"); got != "t=1533204620,v1=2220f87ef101a04665f11cdf770523143f875572008577fa0f20882ddb9cc3c7" {
		t.Error(got)
	}
}

// While a secret is rolled, a receiver that knows either accepts; each try has its own time.
func TestSecretsBeingRolled(t *testing.T) {
	r, in := hooked(t, DialectStripe, 1)
	r.opts.WebhookSecrets = []string{"whsec_new", "whsec_old"}
	r.authorize("pm_ok", "k1")
	n := r.flush(in)[0]
	for secret, good := range map[string]bool{"whsec_new": true, "whsec_old": true, "whsec_other": false} {
		if err := verify(DialectStripe, n, secret); (err == nil) != good {
			t.Errorf("%s: %v", secret, err)
		}
	}
	r.advance(time.Hour)
	r.Redeliver(r.Events()[0].ID)
	again := r.flush(in)[0]
	if string(again.body) != string(n.body) || again.header.Get("Stripe-Signature") == n.header.Get("Stripe-Signature") {
		t.Error("a redelivery has the same body and a fresh signature")
	}
}

// A whole life at Stripe, told in events that Stripe's own library takes.
func TestStripeEvents(t *testing.T) {
	r, in := hooked(t, DialectStripe, 1)
	ref := r.create("pm_ok", "manual", "att_1")
	r.post("/v1/payment_intents/"+ref+"/capture", "att_2", "amount_to_capture=900")
	r.post("/v1/refunds", "att_3", "payment_intent="+ref+"&amount=100&metadata[attempt]=att_3")
	two := r.create("pm_ok_void_ok", "manual", "att_4")
	r.post("/v1/payment_intents/"+two+"/cancel", "att_5", "")
	r.post("/v1/payment_intents", "att_6", form("pm_decline", "automatic", "att_6"))
	three := r.create("pm_pending", "automatic", "att_7")
	r.Settle(three, true)
	r.create("pm_3ds", "automatic", "att_8")
	got := r.flush(in)
	want := "payment_intent.amount_capturable_updated payment_intent.succeeded refund.created payment_intent.amount_capturable_updated payment_intent.canceled " +
		"payment_intent.payment_failed payment_intent.processing payment_intent.succeeded payment_intent.requires_action"
	if kinds(got) != want {
		t.Errorf("got  %s\nwant %s", kinds(got), want)
	}
	for _, n := range got {
		if err := verify(DialectStripe, n, stripeSecret); err != nil {
			t.Errorf("%s: %v", n.kind(), err)
		}
	}
	capture, refund, settled := got[1], got[2], got[7]
	if capture.at("data.object.amount_received") != "900" || capture.at("data.object.metadata.attempt") != "att_1" || capture.at("request.idempotency_key") != "att_2" {
		t.Errorf("%s", capture.body)
	}
	if refund.at("data.object.payment_intent") != ref || refund.at("data.object.metadata.attempt") != "att_3" || settled.at("request.id") != "" {
		t.Errorf("%s %s", refund.body, settled.body)
	}
	var parsed stripe.PaymentIntent
	event, err := webhook.ConstructEventWithOptions(capture.body, capture.header.Get("Stripe-Signature"), stripeSecret, webhook.ConstructEventOptions{IgnoreTolerance: true})
	if err != nil || json.Unmarshal(event.Data.Raw, &parsed) != nil || parsed.Status != stripe.PaymentIntentStatusSucceeded {
		t.Errorf("%v %+v", err, parsed)
	}
	if b := r.Books().Webhooks; b.Events != 9 || b.Delivered != 9 || b.Tries != 9 || b.Queued+b.Failed+b.Dropped != 0 {
		t.Errorf("%+v", b)
	}
}

// Late ends: a returned refund, a failed capture, an expiry.
func TestLateEvents(t *testing.T) {
	dialects(t, func(t *testing.T, d Dialect) {
		r, in := hooked(t, d, 1)
		r.authorize("pm_ok_refund_pending", "k1")
		r.authorize("pm_ok_refund_fails_later_5s", "k2")
		refs := []string{r.Books().Payments[0].Ref, r.Books().Payments[1].Ref}
		for i, ref := range refs {
			if d == DialectAdyen {
				r.post("/v71/payments/"+ref+"/refunds", fmt.Sprint("r", i), modify(400, fmt.Sprint("r", i)))
			} else {
				r.post("/v1/refunds", fmt.Sprint("r", i), "amount=400&payment_intent="+ref)
			}
		}
		r.advance(5 * time.Second)
		r.flush(in)
		b := r.Books()
		if got := b.Payments[1].Refunds[0].Status; got != refundFailed || b.Payments[0].Refunds[0].Status != refundPending {
			t.Errorf("refunds %+v", b.Payments)
		}
		r.Settle(b.Payments[0].Refunds[0].Ref, true)
		if !r.Reverse(b.Payments[0].Refunds[0].Ref) || r.Reverse(b.Payments[0].Refunds[0].Ref) || !r.Reverse(refs[0]) || r.Reverse(refs[0]) || r.Reverse("nope") {
			t.Error("each can be taken back once")
		}
		want := map[Dialect]string{DialectStripe: "refund.updated refund.failed payment_intent.payment_failed", DialectAdyen: "REFUND REFUND_FAILED CAPTURE_FAILED"}[d]
		if got := r.flush(in); kinds(got) != want {
			t.Errorf("got %s, want %s", kinds(got), want)
		}
		if p := r.Books().Payments[0]; p.CapturedMinor != 0 || p.RefundedMinor != 0 || !p.Captures[0].Failed || p.Charges != 0 {
			t.Errorf("%+v", p)
		}
		sum := int64(0)
		for _, m := range r.Movements(time.Unix(0, 0), r.clock().Add(time.Second)) {
			sum += m.AmountMinor
		}
		if sum != 1000 {
			t.Errorf("movements add up to %d, want the second payment's 1000", sum)
		}
	})
}

func TestExpiryIsTold(t *testing.T) {
	dialects(t, func(t *testing.T, d Dialect) {
		r, in := hooked(t, d, 1)
		for _, key := range []string{"k1", "k2"} {
			if d == DialectAdyen {
				r.want(r.post("/v71/payments", key, pay("pm_ok", "manual", key)), 200)
			} else {
				r.create("pm_ok", "manual", key)
			}
		}
		r.flush(in)
		ref := r.Books().Payments[0].Ref
		r.want(r.post("/sim/expire", "", `{"id":"`+ref+`"}`), 200)
		r.want(r.post("/sim/expire", "", `{"id":"`+ref+`"}`), 409)
		r.advance(28 * 24 * time.Hour)
		if b := r.Books(); !b.Payments[0].Expired || !b.Payments[1].Expired || b.Payments[1].Voided {
			t.Errorf("%+v", b.Payments)
		}
		kind := map[Dialect]string{DialectStripe: "payment_intent.canceled", DialectAdyen: "EXPIRE"}[d]
		if got := r.flush(in); kinds(got) != kind+" "+kind {
			t.Error(kinds(got))
		}
	})
}

// Each way of misdelivering, in each dialect.
func TestWebhookFaults(t *testing.T) {
	dialects(t, func(t *testing.T, d Dialect) {
		for name, run := range map[string]func(*testing.T, Dialect){
			"late": lateNotice, "early": earlyNotice, "double": doubleNotice, "twin": twinNotice, "reordered": reorderedNotice,
			"forged": forgedNotice, "everywhere": noticeEverywhere, "dropped": droppedNotice,
		} {
			t.Run(name, func(t *testing.T) { run(t, d) })
		}
	})
}

// scripted is a rig whose next notice has a fault.
func scripted(t *testing.T, d Dialect, fault string, targets int) (*rig, *inbox) {
	t.Helper()
	r, in := hooked(t, d, targets)
	if err := r.Script("webhook", fault, "", 1); err != nil {
		t.Fatal(err)
	}
	return r, in
}

func lateNotice(t *testing.T, d Dialect) {
	r, in := scripted(t, d, "webhook_late_30s", 1)
	r.authorize("pm_ok", "k1")
	r.advance(29 * time.Second)
	if n := r.Deliver(t.Context()); n != 0 {
		t.Errorf("%d too early", n)
	}
	r.advance(time.Second)
	if n := r.Deliver(t.Context()); n != 1 || len(in.take()) != 1 || r.Events()[0].LagMS != 30_000 {
		t.Errorf("%d, %+v", n, r.Events())
	}
}

func earlyNotice(t *testing.T, d Dialect) {
	r, in := scripted(t, d, "webhook_early", 1)
	answered := false
	in.onEntry = func(notice) {
		if answered {
			t.Error("the notice came after the answer")
		}
	}
	r.want(r.authorize("pm_ok", "k1"), 200)
	answered = true
	if got := in.take(); len(got) != 1 {
		t.Errorf("%d notices with the answer", len(got))
	}
}

func doubleNotice(t *testing.T, d Dialect) {
	r, in := scripted(t, d, "webhook_double", 1)
	r.authorize("pm_ok", "k1")
	if got := r.flush(in); len(got) != 2 || string(got[0].body) != string(got[1].body) {
		t.Errorf("%d", len(got))
	}
}

func twinNotice(t *testing.T, d Dialect) {
	r, in := scripted(t, d, "webhook_twin", 1)
	r.authorize("pm_ok", "k1")
	got := r.flush(in)
	if len(got) != 2 || string(got[0].body) == string(got[1].body) {
		t.Fatalf("%d", len(got))
	}
	path := map[Dialect]string{DialectStripe: "data.object.id", DialectAdyen: "notificationItems.NotificationRequestItem.pspReference"}[d]
	if got[0].at(path) != got[1].at(path) || d == DialectStripe && got[0].at("id") == got[1].at("id") || verify(d, got[1], secretOf(d)) != nil {
		t.Errorf("%s %s", got[0].body, got[1].body)
	}
}

func reorderedNotice(t *testing.T, d Dialect) {
	r, in := scripted(t, d, "webhook_reordered", 1)
	r.authorize("pm_pending", "k0") // no notice at Adyen
	if d == DialectStripe {
		in.take()
	}
	ref := r.Books().Payments[0].Ref
	if d == DialectAdyen {
		r.Settle(ref, true) // held
		r.post("/v71/payments/"+ref+"/refunds", "r1", modify(100, "r1"))
	} else {
		r.Settle(ref, true)
	}
	want := map[Dialect]string{DialectStripe: "payment_intent.succeeded payment_intent.processing", DialectAdyen: "REFUND AUTHORISATION"}[d]
	if n := r.Deliver(t.Context()); n != 2 {
		t.Errorf("%d due at once", n)
	}
	if got := in.take(); kinds(got) != want {
		t.Errorf("%s, want %s", kinds(got), want)
	}
}

func forgedNotice(t *testing.T, d Dialect) {
	for _, gullible := range []bool{false, true} {
		r, in := scripted(t, d, "webhook_forged", 1)
		in.refuse = func(n notice) bool { return !gullible && verify(d, n, secretOf(d)) != nil }
		r.authorize("pm_decline", "k1")
		got := r.flush(in)
		if len(got) != 2 || verify(d, got[0], secretOf(d)) == nil || verify(d, got[1], secretOf(d)) != nil {
			t.Errorf("%d notices, %s", len(got), kinds(got))
		}
		if f := r.Books().Webhooks.Forgeries; gullible && f.Accepted != 1 || !gullible && f.Refused != 1 || f.Accepted+f.Refused != 1 {
			t.Errorf("gullible %t: %+v", gullible, f)
		}
	}
}

func noticeEverywhere(t *testing.T, d Dialect) {
	r, in := scripted(t, d, "webhook_everywhere", 3)
	var inside atomic.Int32
	all := make(chan struct{})
	in.onEntry = func(notice) {
		if inside.Add(1) == 3 {
			close(all)
		}
		<-all // none returns before all are there
	}
	r.authorize("pm_ok", "k1")
	got := r.flush(in)
	urls := []string{}
	for _, n := range got {
		urls = append(urls, n.url)
	}
	slices.Sort(urls)
	if len(slices.Compact(urls)) != 3 || r.Books().Webhooks.Delivered != 1 {
		t.Errorf("%v", urls)
	}
}

func droppedNotice(t *testing.T, d Dialect) {
	r, in := scripted(t, d, "webhook_dropped", 1)
	r.authorize("pm_ok", "k1")
	if got := r.flush(in); len(got) != 0 || r.Books().Webhooks.Dropped != 1 {
		t.Errorf("%d", len(got))
	}
	r.want(r.post("/sim/webhooks", "", `{"redeliver":"all"}`), 200, "sent", "1")
	if got := r.flush(in); len(got) != 1 || verify(d, got[0], secretOf(d)) != nil {
		t.Errorf("%d", len(got))
	}
	r.want(r.post("/sim/webhooks", "", `{"redeliver":"all"}`), 200, "sent", "0")
	r.want(r.post("/sim/webhooks", "", `{"redeliver":"evt_nope"}`), 404)
	if list := string(r.want(r.fetch("/sim/webhooks"), 200).body); !strings.Contains(list, `"state":"delivered"`) || !strings.Contains(list, `"fault":"webhook_dropped"`) {
		t.Error(list)
	}
}

// A receiver that fails gets the notice again, later each time, and another in between; after maxTries it is given up.
func TestRetries(t *testing.T) {
	dialects(t, func(t *testing.T, d Dialect) {
		r, in := hooked(t, d, 2)
		in.refuse = func(n notice) bool { return strings.Contains(n.url, "router-1") }
		r.authorize("pm_ok", "k1")
		r.authorize("pm_ok", "k2")
		got := r.flush(in)
		if b := r.Books().Webhooks; len(got) != 3 || b.Delivered != 2 || b.Tries != 3 {
			t.Errorf("%d notices, %+v", len(got), b)
		}
		in.refuse = func(notice) bool { return true }
		r.authorize("pm_ok", "k3")
		if got := r.flush(in); len(got) != maxTries || r.Books().Webhooks.Failed != 1 {
			t.Errorf("%d tries, %+v", len(got), r.Books().Webhooks)
		}
		in.refuse = nil
		if n := r.Redeliver("all"); n != 1 || len(r.flush(in)) != 1 || r.Books().Webhooks.Failed != 0 {
			t.Errorf("%d sent again", n)
		}
	})
}

// Back-off is real time for a clock that stands still: nothing is due before it passes.
func TestBackOff(t *testing.T) {
	r, in := hooked(t, DialectStripe, 1)
	in.refuse = func(notice) bool { return true }
	r.authorize("pm_ok", "k1")
	r.Deliver(t.Context())
	for n := 1; n < 10; n++ {
		due, waiting := r.NextDue()
		gap := due.Sub(r.clock())
		if limit := min(firstBackOff<<(n-1), maxBackOff); !waiting || gap < limit/2 || gap > limit {
			t.Errorf("try %d after %v, want %v to %v", n+1, gap, limit/2, limit)
		}
		if r.Deliver(t.Context()) != 0 {
			t.Error("delivered too early")
		}
		r.advance(gap)
		r.Deliver(t.Context())
	}
	if got := in.take(); len(got) != 10 {
		t.Errorf("%d tries", len(got))
	}
}

func TestBroadcast(t *testing.T) {
	r, in := hooked(t, DialectStripe, 3)
	r.opts.Broadcast = true
	in.refuse = func(n notice) bool { return strings.Contains(n.url, "router-1") }
	r.authorize("pm_ok", "k1")
	if got := r.flush(in); len(got) != 2+maxTries || r.Books().Webhooks.Delivered != 1 {
		t.Errorf("%d notices, want two, and all tries at the third", len(got))
	}
}

// Receivers can be named while notices are under way: what is queued goes to the new ones, fewer than before or none.
func TestReceiversAreNamedLater(t *testing.T) {
	dialects(t, func(t *testing.T, d Dialect) {
		r, in := hooked(t, d, 0)
		name := func(status int, targets string) {
			t.Helper()
			request, err := http.NewRequest(http.MethodPut, r.url+"/sim/webhooks", strings.NewReader(targets))
			if err != nil {
				t.Fatal(err)
			}
			r.want(r.do(request), status)
		}
		received := func(want ...string) {
			t.Helper()
			var got []string
			for _, n := range r.flush(in) {
				got = append(got, n.url)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("received by %v, want %v", got, want)
			}
		}
		const x, y, z = "http://x.example/hooks", "http://y.example/hooks", "http://z.example/hooks"
		r.authorize("pm_ok", "before")
		name(http.StatusOK, `{"targets":["`+x+`","`+y+`","`+z+`"]}`)
		for n := range 3 {
			r.authorize("pm_ok", fmt.Sprint("in turn ", n))
		}
		received(x, y, z)
		for n := range 3 {
			r.authorize("pm_ok", fmt.Sprint("queued ", n))
		}
		name(http.StatusOK, `{"targets":["`+y+`"]}`)
		received(y, y, y)
		r.authorize("pm_ok", "nobody")
		name(http.StatusOK, `{"targets":[]}`)
		received()
		r.authorize("pm_ok", "not told")
		if b := r.Books().Webhooks; b.Events != 7 || b.Delivered != 6 || b.Failed != 1 {
			t.Errorf("%+v, want what nobody received to fail, and nothing to be made after it", b)
		}
		for _, bad := range []string{`{}`, `{"targets":null}`, `{"targets":["nowhere"]}`, `{"targets":["` + x + `","ftp://y/"]}`, `{"targets":"` + x + `"}`, `{"redeliver":"all"}`} {
			name(http.StatusBadRequest, bad)
		}
		name(http.StatusOK, `{"targets":["`+z+`"]}`)
		r.want(r.post("/sim/webhooks", "", `{"redeliver":"all"}`), http.StatusOK, "sent", "1")
		received(z)
	})
	unsigned := newSim(t, Options{Now: time.Now})
	var refused *OptionError
	if err := unsigned.SetWebhooks([]Target{{URL: "http://x.example/hooks"}}); !errors.As(err, &refused) || refused.Field != "WebhookSecrets" {
		t.Errorf("receivers without a secret: %v", err)
	}
}

// The queue and the memory of events have limits; what finds no room is dropped, and can be asked for later.
func TestQueueIsBounded(t *testing.T) {
	r, in := hooked(t, DialectStripe, 1)
	for i := range maxQueued {
		r.queue.tasks = append(r.queue.tasks, &task{due: r.clock().Add(time.Hour), index: i})
		r.queue.events = append(r.queue.events, &event{state: EventDelivered})
	}
	r.authorize("pm_ok", "k1")
	r.authorize("pm_ok_authorize_pending_ok_5s", "k2") // its end is looked up: no task is needed
	if queued, remembered := len(r.queue.tasks), len(r.queue.events); queued != maxQueued || remembered != maxEvents*9/10+2 {
		t.Errorf("%d queued, %d remembered", queued, remembered)
	}
	if b := r.Books().Webhooks; b.Dropped != 2 {
		t.Errorf("%+v", b)
	}
	r.queue.tasks = nil
	r.advance(5 * time.Second)
	if b := r.Books(); b.Payments[1].Charges != 1 {
		t.Errorf("%+v", b.Payments[1])
	}
	if n := r.Redeliver("all"); n != 2 || len(r.flush(in)) != 3 {
		t.Errorf("%d asked for again", n)
	}
}

// A receipt at Adyen has the word in it.
func TestAdyenWantsItsReceipt(t *testing.T) {
	s := newSim(t, Options{Now: time.Now, Dialect: DialectAdyen})
	for body, good := range map[string]bool{"[accepted]": true, "": false, "ok": false} {
		if s.dialect.acknowledged(200, []byte(body)) != good || s.dialect.acknowledged(500, []byte(body)) {
			t.Errorf("%q", body)
		}
	}
}

// The events of a run with faults drawn from a seed all arrive in the end, none forged is taken.
func TestDrawnWebhookFaults(t *testing.T) {
	dialects(t, func(t *testing.T, d Dialect) {
		r, in := hooked(t, d, 2)
		in.refuse = func(n notice) bool { return verify(d, n, secretOf(d)) != nil }
		if err := r.SetFaults(500, []string{"webhook"}); err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			r.authorize("pm_ok", fmt.Sprint("k", i))
		}
		r.flush(in)
		r.Redeliver("all")
		r.flush(in)
		b := r.Books()
		if len(b.Faults) != 8 || b.Webhooks.Forgeries.Accepted != 0 || b.Webhooks.Forgeries.Refused == 0 || b.Webhooks.Delivered != b.Webhooks.Events || b.Webhooks.Events < 200 {
			t.Errorf("%v %+v", b.Faults, b.Webhooks)
		}
	})
}

func TestFlushEndsWithItsContext(t *testing.T) {
	r, in := hooked(t, DialectStripe, 1)
	in.refuse = func(notice) bool { return true }
	r.opts.Wait = waitOnTimer
	r.authorize("pm_ok", "k1")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := r.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	r.Stop()
	if err := r.Flush(t.Context()); !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
}

// Serve delivers over sockets while it answers, and ends with a queue that is not empty.
func TestServeDelivers(t *testing.T) {
	got := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Stripe-Signature")
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()
	sim := newSim(t, Options{Now: time.Now, Webhooks: []Target{{URL: receiver.URL}}, WebhookSecrets: []string{stripeSecret}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- sim.Serve(ctx, l) }()
	r := &rig{Simulator: sim, t: t, url: "http://" + l.Addr().String(), client: &http.Client{Transport: &http.Transport{}}}
	defer r.client.CloseIdleConnections()
	r.want(r.authorize("pm_ok", "k1"), 200)
	if signature := <-got; !strings.HasPrefix(signature, "t=") {
		t.Error(signature)
	}
	r.want(r.authorize("pm_ok_authorize_webhook_late_600s", "k2"), 200)
	if err := sim.Flush(canceled(t)); err == nil {
		t.Error("flushed a queue that holds something for ten minutes")
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
