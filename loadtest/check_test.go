package loadtest

import (
	"encoding/json"
	"strings"
	"testing"
)

// said decodes an answer as the client does.
func said(t *testing.T, status int, body string) *answer {
	t.Helper()
	a := &answer{status: status, body: []byte(body)}
	if err := json.Unmarshal(a.body, &a.resource); err != nil {
		t.Fatal(err)
	}
	return a
}

const goodPayment = `{"id":"pay_1","orderId":"o1","status":"PARTIALLY_CAPTURED","amount":{"minor":1000,"currency":"EUR"},"captured":400,"refunding":0,"refunded":0}`

// TestCheckFindsWrongAnswers changes one word of a right answer at a time.
func TestCheckFindsWrongAnswers(t *testing.T) {
	o := order(t, "reserve, capture a part")
	o.paymentID = "pay_1"
	c := &o.Calls[1]
	if detail := o.check(c, said(t, 200, goodPayment)); detail != "" {
		t.Fatalf("a right answer: %s", detail)
	}
	if detail := o.check(c, said(t, 202, goodPayment)); detail == "" {
		t.Error("a wrong status is not found")
	}
	if detail := o.check(c, said(t, 200, `{"code":"WRONG_STATE","status":409}`)); detail == "" {
		t.Error("a problem is not found")
	}
	for old, wrong := range map[string]string{"pay_1": "pay_2", `"o1"`: `"o2"`, "PARTIALLY_CAPTURED": "CAPTURED", "1000": "1001", "EUR": "USD",
		`"captured":400`: `"captured":401`, `"refunding":0`: `"refunding":1`, `"refunded":0`: `"refunded":1`} {
		if detail := o.check(c, said(t, 200, strings.Replace(goodPayment, old, wrong, 1))); detail == "" {
			t.Errorf("%s in place of %s is not found", wrong, old)
		}
	}
}

func TestCheckRefund(t *testing.T) {
	o := order(t, "charge, refund a part")
	o.paymentID = "pay_1"
	good := `{"id":"ref_1","paymentId":"pay_1","status":"SUCCEEDED","amount":{"minor":300,"currency":"EUR"},"refundable":700}`
	if detail := o.check(&o.Calls[1], said(t, 201, good)); detail != "" {
		t.Fatalf("a right answer: %s", detail)
	}
	for old, wrong := range map[string]string{"pay_1": "pay_2", "ref_1": "", "SUCCEEDED": "PROCESSING", ":300": ":299", "EUR": "USD", ":700": ":701"} {
		if detail := o.check(&o.Calls[1], said(t, 201, strings.Replace(good, old, wrong, 1))); detail == "" {
			t.Errorf("%s in place of %s is not found", wrong, old)
		}
	}
}

func TestCheckProblem(t *testing.T) {
	o := order(t, "capture too much")
	if detail := o.check(&o.Calls[2], said(t, 422, `{"code":"CAPTURE_EXCEEDS_AUTHORIZED","status":422}`)); detail != "" {
		t.Error(detail)
	}
	if detail := o.check(&o.Calls[2], said(t, 422, `{"code":"REFUND_EXCEEDS_CAPTURED","status":422}`)); detail == "" {
		t.Error("another code is not found")
	}
}

func TestCheckTwice(t *testing.T) {
	open := `{"id":"pay_1","orderId":"o1","status":"PROCESSING","amount":{"minor":1000,"currency":"EUR"}}`
	for _, tc := range []struct {
		name string
		a, b *answer
		ok   bool
	}{
		{"both final", said(t, 200, goodPayment), said(t, 200, goodPayment), true},
		{"one open", said(t, 202, open), said(t, 200, goodPayment), true},
		{"the other open", said(t, 200, goodPayment), said(t, 202, open), true},
		{"both open", said(t, 202, open), said(t, 202, open), false},
		{"other bytes", said(t, 200, goodPayment), said(t, 200, " "+goodPayment), false},
		{"other payment", said(t, 200, goodPayment), said(t, 202, strings.Replace(open, "pay_1", "pay_2", 1)), false},
		{"a refusal", said(t, 200, goodPayment), said(t, 409, `{"code":"WRONG_STATE"}`), false},
	} {
		o := order(t, "reserve, capture a part")
		o.paymentID = "pay_1"
		final, detail := o.checkTwice(&o.Calls[1], tc.a, tc.b)
		if (detail == "") != tc.ok {
			t.Errorf("%s: %q", tc.name, detail)
		}
		if tc.ok && isOpen(final) {
			t.Errorf("%s: took the open answer for the final one", tc.name)
		}
	}
}

func TestCheckReplay(t *testing.T) {
	o := order(t, "reserve, capture a part")
	c := &o.Calls[1]
	c.answer = said(t, 200, goodPayment)
	again := said(t, 200, goodPayment)
	if checkReplay(c, again) == "" {
		t.Error("a replay that is not marked is not found")
	}
	again.replayed = true
	if detail := checkReplay(c, again); detail != "" {
		t.Error(detail)
	}
	again.body = []byte(goodPayment + " ")
	if checkReplay(c, again) == "" {
		t.Error("other bytes are not found")
	}
	if checkReplay(c, said(t, 201, goodPayment)) == "" {
		t.Error("another status is not found")
	}
}

func TestCompareWitness(t *testing.T) {
	o := order(t, "charge, answer lost")
	o.paymentID = "pay_1"
	right := Witness{Currency: "EUR", Authorized: 1000, Captured: 1000}
	for name, tc := range map[string]struct {
		says map[string]Witness
		want int
	}{
		"as its fault says":     {map[string]Witness{"pay_1": right}, 0},
		"did not move":          {map[string]Witness{}, 1},
		"moved less":            {map[string]Witness{"pay_1": {Currency: "EUR", Authorized: 1000, Captured: 999}}, 1},
		"in another currency":   {map[string]Witness{"pay_1": {Currency: "USD", Authorized: 1000, Captured: 1000}}, 1},
		"moved more for nobody": {map[string]Witness{"pay_1": right, "pay_2": right}, 1},
	} {
		result := newResult([]*Order{o})
		result.CompareWitness(tc.says)
		if result.Found != tc.want || len(result.Findings) != tc.want {
			t.Errorf("%s: %v", name, result.Findings)
		}
	}
}
