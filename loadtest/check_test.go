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

const goodPayment = `{"id":"pay_1","orderId":"o1","psp":"adyen","status":"PARTIALLY_CAPTURED","amount":{"minor":1000,"currency":"EUR"},"captured":400,"refunding":0,"refunded":0}`

// atLast is an order of pay_1 that waits for the answer to its last call.
func atLast(t *testing.T, name string) (*Order, *Call) {
	t.Helper()
	o := order(t, name)
	o.paymentID = "pay_1"
	steps := o.Journey.Steps
	for _, step := range steps[:len(steps)-1] {
		o.ended(o.next(step), step.End)
	}
	return o, o.next(steps[len(steps)-1])
}

// TestCheckFindsWrongAnswers changes one word of a right answer at a time.
func TestCheckFindsWrongAnswers(t *testing.T) {
	o, c := atLast(t, "reserve, capture a part")
	if e, detail := o.check(c, said(t, 200, goodPayment)); e != Done || detail != "" {
		t.Fatalf("a right answer: %s", detail)
	}
	if _, detail := o.check(c, said(t, 201, goodPayment)); detail == "" {
		t.Error("a wrong status is not found")
	}
	if _, detail := o.check(c, said(t, 200, `{"code":"WRONG_STATE","status":409}`)); detail == "" {
		t.Error("a problem is not found")
	}
	for old, wrong := range map[string]string{"pay_1": "pay_2", `"o1"`: `"o2"`, "PARTIALLY_CAPTURED": "CAPTURED", "adyen": "other", "1000": "1001", "EUR": "USD",
		`"captured":400`: `"captured":401`, `"refunding":0`: `"refunding":1`, `"refunded":0`: `"refunded":1`} {
		if _, detail := o.check(c, said(t, 200, strings.Replace(goodPayment, old, wrong, 1))); detail == "" {
			t.Errorf("%s in place of %s is not found", wrong, old)
		}
	}
}

func TestCheckRefund(t *testing.T) {
	o, c := atLast(t, "refund, answer lost")
	good := `{"id":"ref_1","paymentId":"pay_1","status":"SUCCEEDED","amount":{"minor":300,"currency":"EUR"},"refundable":700}`
	if _, detail := o.check(c, said(t, 201, good)); detail != "" {
		t.Fatalf("a right answer: %s", detail)
	}
	for old, wrong := range map[string]string{"pay_1": "pay_2", "ref_1": "", "SUCCEEDED": "PROCESSING", ":300": ":299", "EUR": "USD", ":700": ":701"} {
		if _, detail := o.check(c, said(t, 201, strings.Replace(good, old, wrong, 1))); detail == "" {
			t.Errorf("%s in place of %s is not found", wrong, old)
		}
	}
}

func TestCheckProblem(t *testing.T) {
	o := travelled(t, "capture too much", nil)
	if _, detail := o.check(&o.Calls[2], said(t, 422, `{"code":"CAPTURE_EXCEEDS_AUTHORIZED","status":422}`)); detail != "" {
		t.Error(detail)
	}
	if _, detail := o.check(&o.Calls[2], said(t, 422, `{"code":"REFUND_EXCEEDS_CAPTURED","status":422}`)); detail == "" {
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
		{"both open", said(t, 202, open), said(t, 202, open), true},
		{"no PSP for the other", said(t, 200, goodPayment), said(t, 503, `{"code":"PSP_UNAVAILABLE"}`), true},
		{"other bytes", said(t, 200, goodPayment), said(t, 200, " "+goodPayment), false},
		{"other payment", said(t, 200, goodPayment), said(t, 202, strings.Replace(open, "pay_1", "pay_2", 1)), false},
		{"a refusal", said(t, 200, goodPayment), said(t, 409, `{"code":"WRONG_STATE"}`), false},
	} {
		o, c := atLast(t, "reserve, capture a part")
		final, detail := o.checkTwice(c, tc.a, tc.b)
		if (detail == "") != tc.ok {
			t.Errorf("%s: %q", tc.name, detail)
		}
		if tc.ok && final.status == 202 && tc.name != "both open" {
			t.Errorf("%s: took the open answer for the final one", tc.name)
		}
	}
}

func TestCheckReplay(t *testing.T) {
	_, c := atLast(t, "reserve, capture a part")
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
	right := Witness{PSP: "stripe", Currency: "EUR", Authorized: 1000, Captured: 1000}
	changed := func(change func(*Witness)) map[string]Witness {
		w := right
		change(&w)
		return map[string]Witness{"pay_1": w}
	}
	for name, tc := range map[string]struct {
		says map[string]Witness
		want int
	}{
		"as acknowledged":       {map[string]Witness{"pay_1": right}, 0},
		"did not move":          {map[string]Witness{}, 1},
		"moved less":            {changed(func(w *Witness) { w.Captured-- }), 1},
		"in another currency":   {changed(func(w *Witness) { w.Currency = "USD" }), 1},
		"at another PSP":        {changed(func(w *Witness) { w.PSP = "adyen" }), 1},
		"moved more for nobody": {map[string]Witness{"pay_1": right, "pay_2": right}, 1},
	} {
		o := travelled(t, "charge", nil)
		o.paymentID = "pay_1"
		result := newResult([]*Order{o})
		result.CompareWitness(tc.says)
		if result.Found != tc.want || len(result.Findings) != tc.want {
			t.Errorf("%s: %v", name, result.Findings)
		}
	}
}

// TestCheckAllowsFaults: a call that reaches a PSP may stay open, be not processed or find no PSP; it may not end the other
// way, and what is refused before a PSP is asked has no such excuse.
func TestCheckAllowsFaults(t *testing.T) {
	for _, tc := range []struct {
		step  Step
		end   End
		allow bool
	}{
		{Step{Op: Capture}, Open, true}, {Step{Op: Capture}, NotProcessed, true}, {Step{Op: Capture}, Unavailable, true},
		{Step{Op: Capture}, Declined, false}, {Step{Op: Authorize, End: Declined}, Done, false},
		{Step{Op: Capture, End: WrongState}, Open, false}, {Step{Op: Read}, Open, false}, {Step{Op: Capture}, WrongState, false},
	} {
		if tc.step.allows(tc.end) != tc.allow {
			t.Errorf("%+v may end as %s: %t", tc.step, ends[tc.end].name, !tc.allow)
		}
	}
}

func TestCheckList(t *testing.T) {
	last, failed := resource{ID: "pay_2", Status: "CAPTURED"}, resource{ID: "pay_1", Status: "FAILED"}
	paid := failed
	paid.Captured = 5
	for name, tc := range map[string]struct {
		list []resource
		ok   bool
	}{
		"both":                  {[]resource{last, failed}, true},
		"one lost":              {[]resource{last}, false},
		"one too many":          {[]resource{last, failed, {ID: "pay_3"}}, false},
		"one twice":             {[]resource{last, failed, failed}, false},
		"the failed one is not": {[]resource{last, {ID: "pay_1", Status: "CAPTURED"}}, false},
		"the failed one paid":   {[]resource{last, paid}, false},
	} {
		o := &Order{paymentID: "pay_2", Failed: []string{"pay_1"}}
		if detail := o.checkList(tc.list); (detail == "") != tc.ok {
			t.Errorf("%s: %q", name, detail)
		}
	}
}
