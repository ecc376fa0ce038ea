package simulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// adyenPay makes a payment and returns its pspReference.
func (r *rig) adyenPay(token, method, attempt string) string {
	r.t.Helper()
	ref := r.want(r.post("/v71/payments", attempt, pay(token, method, attempt)), 200).at("pspReference")
	if len(ref) != 16 || strings.ToUpper(ref) != ref {
		r.t.Fatalf("pspReference %q", ref)
	}
	return ref
}

// The life of a payment: every modification is received, and its result is told.
func TestAdyenLife(t *testing.T) {
	r, in := hooked(t, DialectAdyen, 1)
	r.opts.SeveralCaptures = true
	ref := r.adyenPay("pm_ok", "manual", "att_1")
	captures, refunds := "/v71/payments/"+ref+"/captures", "/v71/payments/"+ref+"/refunds"
	got := r.want(r.post(captures, "att_2", modify(700, "att_2")), 201, "status", "received", "paymentPspReference", ref, "reference", "att_2",
		"merchantAccount", "ShopEUMain", "amount.value", "700")
	if mod := got.at("pspReference"); len(mod) != 16 || mod == ref {
		t.Errorf("modification %q", mod)
	}
	r.want(r.post(captures, "att_3", modify(400, "att_3")), 201, "status", "received") // too much
	r.want(r.post(refunds, "att_4", modify(701, "att_4")), 201)                        // too much
	r.want(r.post(refunds, "att_5", modify(200, "att_5")), 201)
	r.want(r.post("/v71/payments/"+ref+"/cancels", "att_6", modify(0, "att_6")), 201) // too late
	events := r.flush(in)
	if kinds(events) != "AUTHORISATION CAPTURE CAPTURE REFUND REFUND CANCELLATION" {
		t.Fatal(kinds(events))
	}
	const item = "notificationItems.NotificationRequestItem."
	for i, want := range []struct{ success, reason, reference, original, value string }{
		{"true", "044925:4242:12/2034", "att_1", "", "1000"}, {"true", "", "att_2", ref, "700"}, {"false", "Insufficient balance on payment", "att_3", ref, "400"},
		{"false", "Insufficient balance on payment", "att_4", ref, "701"}, {"true", "", "att_5", ref, "200"}, {"false", "Transaction already captured", "att_6", ref, "1000"},
	} {
		n := events[i]
		if n.at(item+"success") != want.success || n.at(item+"reason") != want.reason || n.at(item+"merchantReference") != want.reference ||
			n.at(item+"originalReference") != want.original || n.at(item+"amount.value") != want.value || n.at("live") != "false" {
			t.Errorf("%d: %s", i, n.body)
		}
		if err := verify(DialectAdyen, n, adyenSecret); err != nil {
			t.Error(err)
		}
	}
	if events[1].at(item+"pspReference") != got.at("pspReference") || events[0].at(item+"pspReference") != ref {
		t.Errorf("references: %s %s", events[0].body, events[1].body)
	}
	p := r.Books().Payments[0]
	if p.CapturedMinor != 700 || p.RefundedMinor != 200 || p.Attempt != "att_1" || p.Captures[0].Key != "att_2" || p.Refunds[0].Key != "att_5" || len(p.Calls) != 6 {
		t.Errorf("%+v", p)
	}
}

// Without several captures, a partial one releases the rest.
func TestAdyenPartialCaptureReleasesTheRest(t *testing.T) {
	r, in := hooked(t, DialectAdyen, 1)
	ref := r.adyenPay("pm_ok", "manual", "att_1")
	for i, key := range []string{"att_2", "att_3"} {
		r.want(r.post("/v71/payments/"+ref+"/captures", key, modify(300+i, key)), 201)
	}
	if got := r.flush(in); got[2].at("notificationItems.NotificationRequestItem.success") != "false" {
		t.Errorf("%s", got[2].body)
	}
	if p := r.Books().Payments[0]; p.CapturedMinor != 300 || p.Status != statusSucceeded {
		t.Errorf("%+v", p)
	}
}

func TestAdyenPendingModifications(t *testing.T) {
	r, in := hooked(t, DialectAdyen, 1)
	for _, op := range []string{"capture", "void"} {
		path := map[string]string{"capture": "captures", "void": "cancels"}[op]
		amount := map[string]int{"capture": 1000, "void": 0}[op]
		ref := r.adyenPay("pm_ok_"+op+"_pending", "manual", "att_"+op)
		r.flush(in)
		for i, result := range []bool{false, true} {
			key := fmt.Sprint(op, i)
			mod := r.want(r.post("/v71/payments/"+ref+"/"+path, key, modify(amount, key)), 201).at("pspReference")
			if got := r.flush(in); len(got) != 0 {
				t.Errorf("told before it ended: %s", kinds(got))
			}
			if !r.Settle(mod, result) || r.Settle(mod, result) {
				t.Error("it ends once")
			}
			got := r.flush(in)
			if len(got) != 1 || got[0].at("notificationItems.NotificationRequestItem.success") != fmt.Sprint(result) ||
				got[0].at("notificationItems.NotificationRequestItem.pspReference") != mod || got[0].at("notificationItems.NotificationRequestItem.merchantReference") != key {
				t.Errorf("%s %t: %v", op, result, kinds(got))
			}
		}
	}
	if b := r.Books(); b.Payments[0].CapturedMinor != 1000 || !b.Payments[1].Voided {
		t.Errorf("%+v", b.Payments)
	}
}

// A cancel by our own reference finds what can be found, and says so only in the notice.
func TestTechnicalCancel(t *testing.T) {
	r, in := hooked(t, DialectAdyen, 1)
	for token, method := range map[string]string{"open": "manual", "taken": "automatic"} {
		r.adyenPay("pm_ok", method, token)
	}
	r.adyenPay("pm_pending", "automatic", "waits")
	r.post("/v71/payments", "hides", pay("pm_hidden_20s", "manual", "hides"))
	r.flush(in)
	for reference, success := range map[string]string{"open": "true", "taken": "false", "waits": "true", "hides": "false", "never": "false"} {
		got := r.want(r.post("/v71/cancels", "c-"+reference, `{"merchantAccount":"ShopEUMain","paymentReference":"`+reference+`","reference":"c-`+reference+`"}`), 201,
			"status", "received", "paymentReference", reference)
		n := r.flush(in)
		if kinds(n) != "TECHNICAL_CANCEL" || n[0].at("notificationItems.NotificationRequestItem.success") != success ||
			n[0].at("notificationItems.NotificationRequestItem.pspReference") != got.at("pspReference") || verify(DialectAdyen, n[0], adyenSecret) != nil {
			t.Errorf("%s: %s", reference, n[0].body)
		}
	}
	for _, p := range r.Books().Payments {
		if voided := p.Attempt == "open"; p.Voided != voided || p.Attempt == "waits" && p.Status != statusCanceled {
			t.Errorf("%+v", p)
		}
	}
	r.want(r.post("/v71/cancels", "c", `{"merchantAccount":"ShopEUMain"}`), 422, "errorCode", "130")
}

func TestAdyenRedirect(t *testing.T) {
	r, in := hooked(t, DialectAdyen, 1)
	for i, c := range []struct{ token, result, code, refusal string }{
		{"pm_3ds", "ok_", "Authorised", ""}, {"pm_3ds", "fail_", "Refused", "11"}, {"pm_ok_authorize_action_abandoned", "ok_", "Refused", "11"},
	} {
		attempt := fmt.Sprint("att_", i)
		got := r.want(r.post("/v71/payments", attempt, pay(c.token, "automatic", attempt)), 200, "resultCode", "RedirectShopper", "action.type", "redirect", "action.method", "GET")
		if len(r.flush(in)) != 0 || got.at("action.url") == "" {
			t.Error("a redirect is no result")
		}
		details := `{"details":{"redirectResult":"` + c.result + got.at("pspReference") + `"}}`
		if i == 0 {
			details = `{"details":{"redirectResult":"x"},"paymentData":"` + got.at("action.paymentData") + `"}`
		}
		r.want(r.post("/v71/payments/details", "d-"+attempt, details), 200, "resultCode", c.code, "refusalReasonCode", c.refusal, "merchantReference", attempt)
		r.want(r.post("/v71/payments/details", "", details), 200, "resultCode", c.code) // nothing more happens
		if n := r.flush(in); kinds(n) != "AUTHORISATION" || n[0].at("notificationItems.NotificationRequestItem.success") != fmt.Sprint(c.code == "Authorised") {
			t.Errorf("%s: %s", c.token, kinds(n))
		}
	}
	r.want(r.post("/v71/payments/details", "", `{"details":{"redirectResult":"ok_NOPE"}}`), 422)
	r.want(r.post("/v71/payments/details", "", `{"details":{},"paymentData":"pd_`+r.Books().Payments[0].Ref+`"}`), 422)
	if n := chargesOf(r); n != 1 {
		t.Errorf("%d charges", n)
	}
}

// What Adyen's own test triggers and our tokens answer.
func TestAdyenRefusals(t *testing.T) {
	r := adyen(t, nil)
	method := func(field string) string {
		return strings.Replace(pay("", "automatic", "att"), `"storedPaymentMethodId":""`, `"number":"4111111111111111","expiryMonth":"03","expiryYear":"2030",`+field, 1)
	}
	for body, want := range map[string][2]string{
		pay("pm_decline", "automatic", "a"):                         {"Refused", "12"},
		pay("pm_decline_expired", "automatic", "a"):                 {"Refused", "6"},
		pay("pm_decline_lost", "automatic", "a"):                    {"Refused", "5"},
		pay("pm_decline_honor", "automatic", "a"):                   {"Refused", "27"},
		pay("pm_decline_fraud", "automatic", "a"):                   {"Refused", "20"},
		pay("pm_decline_error", "automatic", "a"):                   {"Error", "4"},
		pay("pm_card_chargeDeclinedIncorrectCvc", "automatic", "a"): {"Refused", "24"},
		pay("test_22", "automatic", "a"):                            {"Cancelled", "22"},
		pay("pm_pending", "automatic", "a"):                         {"Received", ""},
		method(`"holderName":"NOT_ENOUGH_BALANCE"`):                 {"Refused", "12"},
		method(`"holderName":"DECLINED : 06 : ERROR"`):              {"Refused", "2"},
		method(`"holderName":"ERROR"`):                              {"Error", "4"},
		method(`"holderName":"UNKNOWN"`):                            {"Error", "0"},
		method(`"holderName":"PENDING"`):                            {"Received", ""},
		method(`"holderName":"APPROVED"`):                           {"Authorised", ""},
		method(`"holderName":"J. Smith"`):                           {"Authorised", ""},
		strings.Replace(method(`"holderName":"J. Smith"`), `"manualCapture"`, `"RequestedTestAcquirerResponseCode":"6","manualCapture"`, 1): {"Refused", "6"},
	} {
		got := r.want(r.post("/v71/payments", "", body), 200, "resultCode", want[0], "refusalReasonCode", want[1])
		if refused := want[1] != ""; refused != (got.at("refusalReason") != "") {
			t.Errorf("%s", got.body)
		}
	}
	ref := r.want(r.post("/v71/payments", "", strings.Replace(method(`"holderName":"refund failed"`), `"att"`, `"late"`, 1)), 200).at("pspReference")
	r.want(r.post("/v71/payments/"+ref+"/refunds", "", modify(100, "r")), 201)
	r.advance(time.Minute)
	if got := r.Books().Payments[len(r.Books().Payments)-1].Refunds[0].Status; got != refundFailed {
		t.Errorf("refund %s", got)
	}
}

// What Adyen refuses before it does anything. Nothing of it is a payment, and nothing is kept under the key.
func TestAdyenErrors(t *testing.T) {
	r := adyen(t, func(o *Options) { o.MaxAmount = 5000 })
	good := pay("pm_ok", "automatic", "att_1")
	for _, c := range []struct {
		from, to string
		status   int
		code     string
	}{
		{`"ShopEUMain"`, `"OtherShop"`, 403, "901"}, {`"reference":"att_1",`, ``, 422, "130"}, {`"att_1"`, `"` + strings.Repeat("x", 81) + `"`, 422, "130"},
		{`"returnUrl":"https://shop.example/",`, ``, 422, "14_030"}, {`"amount":{"value":1000,"currency":"EUR"},`, ``, 422, "100"},
		{`1000`, `0`, 422, "137"}, {`1000`, `-5`, 422, "137"}, {`1000`, `5001`, 422, "137"}, {`1000`, `10.5`, 400, "702"}, {`1000`, `"1000"`, 400, "702"},
		{`"EUR"`, `"eur"`, 422, "138"}, {`"EUR"`, `"BIF"`, 422, "138"}, {`"pm_ok"`, `"pm_nope"`, 422, "803"}, {`"type":"scheme",`, ``, 422, "14_002"},
		{`"order"`, `"` + strings.Repeat("k", 21) + `"`, 422, "177"}, {`"o-1"`, `"` + strings.Repeat("v", 81) + `"`, 422, "177"},
		{`"reference"`, `"referenze"`, 400, "702"}, {`"metadata"`, `"captureDelayHours":673,"metadata"`, 422, "702"}, {good, good + good, 400, "702"}, {good, `{`, 400, "702"},
	} {
		body := strings.Replace(good, c.from, c.to, 1)
		r.want(r.post("/v71/payments", "k1", body), c.status, "errorCode", c.code, "status", fmt.Sprint(c.status))
	}
	r.want(r.post("/v71/payments", strings.Repeat("k", 65), good), 422)
	r.want(r.post("/v71/payments/NOPE/captures", "", modify(5, "x")), 422, "errorCode", "167")
	r.want(r.post("/v71/payments/NOPE/cancels", "", modify(0, "x")), 422, "errorCode", "167")
	r.want(r.post("/v71/paymentz", "", good), 404)
	if n := len(r.Books().Payments); n != 0 {
		t.Errorf("%d payments", n)
	}
	r.want(r.post("/v71/payments", "k1", good), 200, "resultCode", "Authorised")
	ref := r.Books().Payments[0].Ref
	r.want(r.post("/v71/payments/"+ref+"/refunds", "", strings.Replace(modify(5, "x"), "EUR", "USD", 1)), 422, "errorCode", "138")
	r.want(r.post("/v71/payments/"+ref+"/refunds", "", modify(0, "x")), 422, "errorCode", "100")
}

func TestAdyenKeys(t *testing.T) {
	r := adyen(t, nil)
	first := r.want(r.post("/v71/payments", "k1", pay("pm_ok", "automatic", "att_1")), 200)
	second := r.want(r.post("/v71/payments", "k1", pay("pm_ok", "automatic", "att_1")), 200)
	if !bytes.Equal(first.body, second.body) || second.header.Get("Idempotency-Key") != "k1" {
		t.Error("the replay differs")
	}
	other := r.want(r.post("/v71/payments", "k1", pay("pm_ok", "automatic", "att_2")), 200)
	if !bytes.Equal(first.body, other.body) || len(r.Books().Payments) != 1 {
		t.Error("another body under the key gets the first answer")
	}
	r.opts.StrictKeys = true
	refused := r.want(r.post("/v71/payments", "k1", pay("pm_ok", "automatic", "att_2")), 422, "errorCode", "704")
	if refused.header.Get("transient-error") != "" {
		t.Error("strict: not to be tried again")
	}
	r.advance(7*24*time.Hour - time.Second)
	r.want(r.post("/v71/payments", "k1", pay("pm_ok", "automatic", "att_1")), 200)
	if n := len(r.Books().Payments); n != 1 {
		t.Errorf("%d payments within the week", n)
	}
	r.advance(time.Second)
	r.want(r.post("/v71/payments", "k1", pay("pm_ok", "automatic", "att_1")), 200)
	if n := len(r.Books().Payments); n != 2 {
		t.Errorf("%d payments after it", n)
	}
	// A refused modification is an answer like any other: it is replayed.
	ref := r.Books().Payments[1].Ref
	one := r.want(r.post("/v71/payments/"+ref+"/refunds", "k2", modify(5000, "k2")), 201)
	two := r.want(r.post("/v71/payments/"+ref+"/refunds", "k2", modify(5000, "k2")), 201)
	if !bytes.Equal(one.body, two.body) || len(r.Books().Payments[1].Refunds) != 0 {
		t.Error("the refused refund was made, or its replay differs")
	}
}

func TestAdyenKeyInFlight(t *testing.T) {
	started, goOn := make(chan struct{}), make(chan struct{})
	r := adyen(t, func(o *Options) {
		o.Wait = func(d time.Duration, _ <-chan struct{}) {
			if d == 3*time.Second {
				close(started)
				<-goOn
			}
		}
	})
	var running sync.WaitGroup
	running.Go(func() { r.authorize("pm_slow_ok_3s", "k1") })
	<-started
	got := r.want(r.authorize("pm_slow_ok_3s", "k1"), 422, "errorCode", "704")
	if got.header.Get("transient-error") != "true" {
		t.Error("a key in flight may be sent again")
	}
	close(goOn)
	running.Wait()
	if n := chargesOf(r); n != 1 {
		t.Errorf("%d charges", n)
	}
}

func TestTransientErrors(t *testing.T) {
	r := adyen(t, nil)
	for fault, want := range map[string]struct {
		code      string
		transient string
	}{"key_in_use": {"704", "true"}, "key_stuck": {"704", ""}, "store_down": {"703", "true"}, "lock_timeout": {"704", "true"}} {
		got := r.authorize("pm_ok_authorize_"+fault, fault)
		if got.at("errorCode") != want.code || got.header.Get("transient-error") != want.transient {
			t.Errorf("%s: %s %v", fault, got.body, got.header)
		}
	}
}

// Adyen's exponents: amounts as they arrive, and what they are in ISO minor units.
func TestAdyenUnits(t *testing.T) {
	r := adyen(t, nil)
	for i, c := range []struct {
		currency   string
		psp, minor int64
	}{
		{"JPY", 500, 500}, {"EUR", 1099, 1099}, {"KWD", 5124, 5124}, {"ISK", 279000, 2790}, {"ISK", 150, -1}, {"HUF", 1045, 1045}, {"CLP", 150000, 1500},
		{"IDR", 12345, 1234500}, {"CVE", 12, 1200}, {"MGA", 500, 500}, {"UGX", 5, 5}, {"BHD", 1001, 1001},
	} {
		attempt := fmt.Sprint("att_", i)
		body := strings.NewReplacer("1000", fmt.Sprint(c.psp), "EUR", c.currency).Replace(pay("pm_ok", "automatic", attempt))
		r.want(r.post("/v71/payments", attempt, body), 200)
		if p := r.Books().Payments[i]; p.CapturedPSP != c.psp || p.CapturedMinor != c.minor || p.Currency != c.currency {
			t.Errorf("%s %d: %+v", c.currency, c.psp, p)
		}
	}
}

// The events are the whole truth: who adds them up knows what the books say, whatever was asked.
func TestAdyenEventsAddUpToTheBooks(t *testing.T) {
	for seed := range uint64(5) {
		r, in := hooked(t, DialectAdyen, 1)
		r.opts.SeveralCaptures = seed%2 == 0
		random := rand.New(rand.NewPCG(seed, 1))
		tokens := []string{"pm_ok", "pm_decline", "pm_ok_capture_decline", "pm_ok_refund_pending_ok_5s", "pm_ok_capture_fails_later_5s", "pm_ok_void_pending_fail_5s", "pm_pending"}
		var refs []string
		for i := range 300 {
			key := fmt.Sprint("k", i)
			if i%8 == 0 {
				got := r.post("/v71/payments", key, pay(tokens[random.IntN(len(tokens))], []string{"manual", "automatic"}[random.IntN(2)], key))
				refs = append(refs, got.at("pspReference"))
			}
			ref := refs[random.IntN(len(refs))]
			switch random.IntN(4) {
			case 0:
				r.post("/v71/payments/"+ref+"/captures", key+"c", modify(random.IntN(1200)+1, key))
			case 1:
				r.post("/v71/payments/"+ref+"/refunds", key+"r", modify(random.IntN(700)+1, key))
			case 2:
				r.post("/v71/payments/"+ref+"/cancels", key+"v", modify(0, key))
			case 3:
				r.Settle(ref, random.IntN(2) == 0)
			}
			r.advance(time.Second)
		}
		r.advance(time.Minute)
		captured, refunded := map[string]int64{}, map[string]int64{}
		r.Books()
		for _, n := range r.flush(in) {
			addUp(t, n, captured, refunded)
		}
		moved := 0
		for _, p := range r.Books().Payments {
			if len(p.Captures) > 0 && p.Captures[0].Ref == "" {
				captured[p.Ref] += 1000 // told by AUTHORISATION alone
			}
			if captured[p.Ref] != p.CapturedMinor || refunded[p.Ref] != p.RefundedMinor || p.RefundedMinor > p.CapturedMinor || p.CapturedMinor > p.AuthorizedMinor {
				t.Errorf("seed %d: events say captured %d, refunded %d; %+v", seed, captured[p.Ref], refunded[p.Ref], p)
			}
			moved += p.Charges
		}
		if moved < 10 {
			t.Errorf("seed %d: only %d captures", seed, moved)
		}
	}
}

func addUp(t *testing.T, n notice, captured, refunded map[string]int64) {
	t.Helper()
	var in adyenNotice
	if err := json.Unmarshal(n.body, &in); err != nil {
		t.Fatal(err)
	}
	item := in.Items[0].Item
	if item.Success != "true" {
		return
	}
	switch item.EventCode {
	case "CAPTURE":
		captured[item.OriginalReference] += item.Amount.Value
	case "CAPTURE_FAILED":
		captured[item.OriginalReference] -= item.Amount.Value
	case "REFUND":
		refunded[item.OriginalReference] += item.Amount.Value
	case "REFUND_FAILED":
		refunded[item.OriginalReference] -= item.Amount.Value
	}
}
