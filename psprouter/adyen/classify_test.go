package adyen

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"paygrid/psprouter"
)

// verdict is what a row expects.
type verdict struct {
	class    psprouter.Class
	code     string
	rejected bool
	alert    bool
}

func unknown() verdict       { return verdict{} }
func alert() verdict         { return verdict{alert: true} }
func no(code string) verdict { return verdict{class: psprouter.Declined, code: code} }
func notSent() verdict       { return verdict{class: psprouter.NotSent} }
func rejected(code string) verdict {
	return verdict{class: psprouter.NotSent, code: code, rejected: true}
}
func is(class psprouter.Class) verdict { return verdict{class: class} }

func (v verdict) check(t *testing.T, name string, out psprouter.Outcome) {
	t.Helper()
	if got := (verdict{out.Class(), out.Code, out.Rejected, out.Alert}); got != v {
		t.Errorf("%s:\n got %+v (%s)\nwant %+v", name, got, out.Reason, v)
	}
}

func answered(status int, body string) answer { return answer{status: status, body: []byte(body)} }

func TestPaymentAnswers(t *testing.T) {
	want := askedPayment{attempt: "att_1", amount: amount{1000, "EUR"}}
	of := func(code, extra string) string {
		return fmt.Sprintf(`{"pspReference":"P1","resultCode":%q%s}`, code, extra)
	}
	for _, row := range []struct {
		name, body string
		verdict
	}{
		{"authorised", of("Authorised", `,"merchantReference":"att_1","amount":{"value":1000,"currency":"EUR"}`), is(psprouter.Approved)},
		{"authorised, echoing nothing", of("Authorised", ``), is(psprouter.Approved)},
		{"authorised, of another reference", of("Authorised", `,"merchantReference":"att_2"`), alert()},
		{"authorised, of another amount", of("Authorised", `,"amount":{"value":1001,"currency":"EUR"}`), alert()},
		{"authorised, of another currency", of("Authorised", `,"amount":{"value":1000,"currency":"USD"}`), alert()},
		{"authorised in part", of("PartiallyAuthorised", ``), alert()},
		{"authorised, without a reference", `{"resultCode":"Authorised"}`, unknown()},
		{"refused", of("Refused", `,"refusalReason":"Refused","refusalReasonCode":"2"`), no("refused")},
		{"refused for want of money", of("Refused", `,"refusalReasonCode":"12"`), no("not_enough_balance")},
		{"refused for an unheard-of reason", of("Refused", `,"refusalReasonCode":"999"`), no("refusal_999")},
		{"refused without a reason", of("Refused", ``), no("refused")},
		{"refused with nonsense", of("Refused", `,"refusalReasonCode":"<script>"`), no("refused")},
		{"refused, of another reference", of("Refused", `,"merchantReference":"att_2"`), alert()},
		{"cancelled by fraud check", of("Cancelled", `,"refusalReasonCode":"22"`), no("fraud_cancelled")},
		{"error of the acquirer", of("Error", `,"refusalReasonCode":"4"`), no("acquirer_error")},
		{"pending", of("Pending", ``), is(psprouter.Accepted)},
		{"received", of("Received", ``), is(psprouter.Accepted)},
		{"redirect", of("RedirectShopper", `,"action":{"type":"redirect","url":"https://x","method":"GET"}`), is(psprouter.ActionRequired)},
		{"redirect by a form", of("RedirectShopper", `,"action":{"type":"redirect","url":"https://x","method":"POST"}`), unknown()},
		{"redirect to nowhere", of("RedirectShopper", ``), unknown()},
		{"3-D Secure 2", of("IdentifyShopper", `,"action":{"type":"threeDS2"}`), unknown()},
		{"3-D Secure 2, challenge", of("ChallengeShopper", ``), unknown()},
		{"present to shopper", of("PresentToShopper", ``), unknown()},
		{"authentication finished", of("AuthenticationFinished", ``), unknown()},
		{"unheard-of", of("Blessed", ``), unknown()},
		{"other case", of("authorised", ``), unknown()},
		{"a modification's answer", `{"pspReference":"P1","status":"received"}`, unknown()},
		{"a list", `[]`, unknown()},
		{"words for numbers", `{"pspReference":"P1","resultCode":"Authorised","amount":{"value":"many"}}`, unknown()},
	} {
		for _, s := range []send{firstSend, sentBefore} {
			row.check(t, row.name, judge{}.payment(answered(200, row.body), s, want))
		}
	}
	unknown().check(t, "authorised with 201", judge{}.payment(answered(201, of("Authorised", "")), firstSend, want))
}

// Captured at once is what was asked for: Adyen does not say.
func TestCapturedAtOnce(t *testing.T) {
	for _, captured := range []bool{true, false} {
		out := judge{}.payment(answered(200, `{"pspReference":"P1","resultCode":"Authorised"}`), firstSend, askedPayment{captured: captured})
		if out.Captured != captured || out.Reference != "P1" {
			t.Errorf("%+v", out)
		}
	}
}

func TestModificationAnswers(t *testing.T) {
	want := askedModification{attempt: "att_2", payment: "P1", amount: &amount{600, "EUR"}}
	const head = `{"pspReference":"M1","paymentPspReference":"P1",`
	for _, row := range []struct {
		name, body string
		verdict
	}{
		{"received", head + `"status":"received","merchantAccount":"Shop","reference":"att_2","amount":{"value":600,"currency":"EUR"}}`, is(psprouter.Accepted)},
		{"received, echoing little", head + `"status":"received"}`, is(psprouter.Accepted)},
		{"of another payment", `{"pspReference":"M1","paymentPspReference":"P2","status":"received"}`, alert()},
		{"of no payment", `{"pspReference":"M1","status":"received"}`, alert()},
		{"of another account", head + `"status":"received","merchantAccount":"OtherShop"}`, alert()},
		{"of another reference", head + `"status":"received","reference":"att_3"}`, alert()},
		{"of another amount", head + `"status":"received","amount":{"value":601,"currency":"EUR"}}`, alert()},
		{"without a reference", `{"paymentPspReference":"P1","status":"received"}`, unknown()},
		{"done", head + `"status":"done"}`, unknown()},
		{"authorised", `{"pspReference":"P1","resultCode":"Authorised"}`, unknown()},
	} {
		row.check(t, row.name, judge{account: "Shop"}.modification(answered(201, row.body), firstSend, want))
		row.check(t, row.name+", again", judge{account: "Shop"}.modification(answered(201, row.body), sentBefore, want))
	}
	unknown().check(t, "received with 200", judge{}.modification(answered(200, head+`"status":"received"}`), firstSend, want))
}

// Errors of both kinds of call, on the first send; on a later one each of them is Unknown.
func TestErrorsClassify(t *testing.T) {
	promise := http.Header{"X-Not-Processed": {"true"}}
	of := func(status int, code, kind string) answer {
		return answered(status, fmt.Sprintf(`{"status":%d,"errorCode":%q,"message":"m","errorType":%q}`, status, code, kind))
	}
	with := func(a answer, name string) answer { a.header = http.Header{name: {"true"}}; return a }
	for _, row := range []struct {
		name                  string
		a                     answer
		payment, modification verdict
	}{
		{"bad field", of(400, "702", "validation"), rejected("702"), no("702")},
		{"return URL missing", of(422, "14_030", "validation"), rejected("14_030"), no("14_030")},
		{"metadata", of(422, "177", "validation"), rejected("177"), no("177")},
		{"unauthorized", of(401, "000", "security"), rejected("000"), notSent()},
		{"invalid account", of(403, "901", "security"), rejected("901"), notSent()},
		{"in progress", of(422, "704", "validation"), unknown(), unknown()},
		{"in progress, conflict", of(409, "704", "validation"), unknown(), unknown()},
		{"any transient error", with(of(422, "137", "validation"), "Transient-Error"), unknown(), unknown()},
		{"key store down", of(503, "703", "internal"), unknown(), unknown()},
		{"key store down, as a validation", of(422, "703", "validation"), unknown(), unknown()},
		{"configuration", of(500, "905", "configuration"), unknown(), unknown()},
		{"internal", of(422, "905", "internal"), unknown(), unknown()},
		{"unheard-of type", of(422, "101", "quantum"), unknown(), unknown()},
		{"no code", answered(422, `{"status":422,"errorType":"validation"}`), unknown(), unknown()},
		{"no error at all", answered(422, `{}`), unknown(), unknown()},
		{"the status denied", answered(422, `{"status":500,"errorCode":"101","errorType":"validation"}`), unknown(), unknown()},
		{"404", of(404, "904", "validation"), unknown(), unknown()},
		{"429", of(429, "904", "security"), unknown(), unknown()},
		{"302", answered(302, ""), unknown(), unknown()},
		{"503 with the promise", answer{status: 503, header: promise, body: []byte("{}")}, notSent(), notSent()},
		{"500 with the promise", answer{status: 500, header: promise, body: []byte("{}")}, unknown(), unknown()},
		{"unsent", answer{unsent: "refused"}, notSent(), notSent()},
		{"cut off", answer{status: 200, broken: errors.New("EOF"), body: []byte(`{"pspReference":"P1","resultCode":"Authorised"}`)}, unknown(), unknown()},
		{"nothing", answer{}, unknown(), unknown()},
	} {
		j := judge{notProcessedHeader: "X-Not-Processed"}
		row.payment.check(t, row.name+", payment", j.payment(row.a, firstSend, askedPayment{}))
		row.modification.check(t, row.name+", modification", j.modification(row.a, firstSend, askedModification{}))
		unknown().check(t, row.name+", payment, again", afterFirst(j.payment(row.a, sentBefore, askedPayment{})))
		unknown().check(t, row.name+", modification, again", afterFirst(j.modification(row.a, sentBefore, askedModification{})))
	}
	a := answer{status: 503, header: http.Header{"": {"true"}}, body: []byte("{}")}
	unknown().check(t, "no promise is configured", judge{}.payment(a, firstSend, askedPayment{}))
}

// Every refusal has one word, so that a word read out of a notice's reason is that code's.
func TestRefusalWords(t *testing.T) {
	seen := map[string]string{}
	for code, word := range refusals {
		if other := seen[word]; other != "" {
			t.Errorf("%q is the word of %s and %s", word, code, other)
		}
		seen[word] = code
	}
	for reason, want := range map[string]string{"Not enough balance": "not_enough_balance", " Expired Card ": "expired_card", "": "refused", "12 : Not enough": "refused"} {
		if got := reasonWord(reason); got != want {
			t.Errorf("%q: %q, want %q", reason, got, want)
		}
	}
}
