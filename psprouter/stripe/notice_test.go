package stripe

import (
	"testing"

	"paygrid/ledger"
	"paygrid/psprouter"
)

const (
	attAuth    = "att_0001_01JD0000000000000000000001"
	attCapture = "att_0001_01JD0000000000000000000002"
	attOther   = "att_0001_01JD0000000000000000000003"
)

// told is what a row expects of a notice.
type told struct {
	attempt, reference, original, operation string
	class                                   psprouter.Class
	captured, alert, reversed, expired      bool
	amount                                  int64
	code                                    string
}

func (want told) check(t *testing.T, name string, n psprouter.Notice) {
	t.Helper()
	got := told{n.Attempt, n.Reference, n.Original, n.Operation, n.Outcome.Class(), n.Outcome.Captured, n.Outcome.Alert, n.Reversed, n.Expired, n.Amount.Minor, n.Outcome.Code}
	if got != want {
		t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
	}
}

func eventOf(kind, key, object, previous string) []byte {
	return []byte(`{"id":"evt_1","object":"event","livemode":true,"type":"` + kind + `","request":{"id":"req_1","idempotency_key":"` + key +
		`"},"data":{"object":` + object + `,"previous_attributes":{` + previous + `}}}`)
}

// The parts of the events below.
const (
	meta   = `"metadata":{"attempt":"` + attAuth + `"}`
	both   = `"metadata":{"attempt":"` + attAuth + `","capture_attempt":"` + attCapture + `"}`
	pi     = `{"object":"payment_intent","id":"pi_1","amount":1000,"currency":"eur","latest_charge":"ch_1","capture_method":`
	charge = `{"object":"charge","id":"ch_1","payment_intent":"pi_1","amount":1000,"currency":"eur",` + meta + `,`

	auth, capture, void, refunding = psprouter.OpAuthorize, psprouter.OpCapture, psprouter.OpVoid, psprouter.OpRefund
)

// noticeRow is one event and what it tells.
type noticeRow struct {
	name, kind, key, object, previous string
	want                              told
}

func checkNotices(t *testing.T, rows []noticeRow) {
	t.Helper()
	for _, row := range rows {
		notices, err := checker(t).ReadWebhook(eventOf(row.kind, row.key, row.object, row.previous))
		if err != nil || len(notices) != 1 {
			t.Fatalf("%s: %d notices, %v", row.name, len(notices), err)
		}
		n := notices[0]
		if n.Foreign != "" || n.AmountProblem != "" || n.EventID != "evt_1" || n.Kind != row.kind {
			t.Errorf("%s: %+v", row.name, n)
		}
		row.want.check(t, row.name, n)
	}
}

func TestNoticesOfMoney(t *testing.T) {
	checkNotices(t, []noticeRow{
		{"authorized", "payment_intent.amount_capturable_updated", attAuth, pi + `"manual","status":"requires_capture","amount_capturable":1000,` + meta + `}`, "",
			told{attempt: attAuth, reference: "pi_1", operation: auth, class: psprouter.Approved, amount: 1000}},
		{"authorized in part", "payment_intent.amount_capturable_updated", "", pi + `"manual","status":"requires_capture","amount_capturable":900,` + meta + `}`, "",
			told{attempt: attAuth, reference: "pi_1", operation: auth, alert: true, amount: 1000}},
		{"captured in part, rest open", "payment_intent.amount_capturable_updated", "",
			pi + `"manual","status":"requires_capture","amount_capturable":400,"amount_received":600,` + both + `}`, `"amount_received":100`,
			told{attempt: attCapture, reference: "ch_1", original: "pi_1", operation: capture, class: psprouter.Approved, captured: true, amount: 500}},
		{"charged", "payment_intent.succeeded", attAuth, pi + `"automatic","status":"succeeded","amount_received":1000,` + meta + `}`, "",
			told{attempt: attAuth, reference: "pi_1", operation: auth, class: psprouter.Approved, captured: true, amount: 1000}},
		{"charged later", "payment_intent.succeeded", "", pi + `"automatic_async","status":"succeeded","amount_received":1000,` + meta + `}`, "",
			told{attempt: attAuth, reference: "pi_1", operation: auth, class: psprouter.Approved, captured: true, amount: 1000}},
		{"charged in part", "payment_intent.succeeded", attAuth, pi + `"automatic","status":"succeeded","amount_received":900,` + meta + `}`, "",
			told{attempt: attAuth, reference: "pi_1", operation: auth, alert: true, amount: 1000}},
		{"captured", "payment_intent.succeeded", attCapture, pi + `"manual","status":"succeeded","amount_received":600,` + both + `}`, "",
			told{attempt: attCapture, reference: "ch_1", original: "pi_1", operation: capture, class: psprouter.Approved, captured: true, amount: 600}},
		{"captured, attempt only in the key", "payment_intent.succeeded", attCapture, pi + `"manual","status":"succeeded","amount_received":600,` + meta + `}`, "",
			told{attempt: attCapture, reference: "ch_1", original: "pi_1", operation: capture, class: psprouter.Approved, captured: true, amount: 600}},
		{"captured by hand", "payment_intent.succeeded", "dashboard", pi + `"manual","status":"succeeded","amount_received":600,` + meta + `}`, "",
			told{reference: "ch_1", original: "pi_1", operation: capture, class: psprouter.Approved, captured: true, amount: 600}},
		{"captured, charge expanded", "payment_intent.succeeded", "",
			`{"object":"payment_intent","id":"pi_1","amount":1000,"currency":"eur","latest_charge":{"id":"ch_9","object":"charge"},` +
				`"status":"succeeded","amount_received":1000,` + both + `}`, "",
			told{attempt: attCapture, reference: "ch_9", original: "pi_1", operation: capture, class: psprouter.Approved, captured: true, amount: 1000}},
	})
}

func TestNoticesOfOtherEnds(t *testing.T) {
	checkNotices(t, []noticeRow{
		{"succeeded, yet it did not", "payment_intent.succeeded", attAuth, pi + `"automatic","status":"processing",` + meta + `}`, "",
			told{attempt: attAuth, reference: "pi_1", amount: 1000}},
		{"declined", "payment_intent.payment_failed", attAuth,
			pi + `"manual","status":"requires_payment_method","last_payment_error":{"type":"card_error","code":"card_declined","decline_code":"lost_card"},` + meta + `}`, "",
			told{attempt: attAuth, reference: "pi_1", operation: auth, class: psprouter.Declined, code: "lost_card", amount: 1000}},
		{"declined without a word", "payment_intent.payment_failed", attAuth, pi + `"manual","status":"requires_payment_method",` + meta + `}`, "",
			told{attempt: attAuth, reference: "pi_1", amount: 1000}},
		{"redirect", "payment_intent.requires_action", attAuth, pi + `"manual","status":"requires_action","next_action":{"type":"redirect_to_url","redirect_to_url":{"url":"https://x"}},` + meta + `}`, "",
			told{attempt: attAuth, reference: "pi_1", operation: auth, class: psprouter.ActionRequired, amount: 1000}},
		{"an action that is no redirect", "payment_intent.requires_action", attAuth, pi + `"manual","status":"requires_action","next_action":{"type":"use_stripe_sdk"},` + meta + `}`, "",
			told{attempt: attAuth, reference: "pi_1", amount: 1000}},
		{"voided", "payment_intent.canceled", attOther, pi + `"manual","status":"canceled","cancellation_reason":"requested_by_customer",` + meta + `}`, "",
			told{attempt: attOther, reference: "pi_1", original: "pi_1", operation: void, class: psprouter.Approved, amount: 1000}},
		{"voided by hand", "payment_intent.canceled", "", pi + `"manual","status":"canceled","cancellation_reason":"abandoned",` + meta + `}`, "",
			told{reference: "pi_1", original: "pi_1", operation: void, class: psprouter.Approved, amount: 1000}},
		{"voided with money", "payment_intent.canceled", attOther, pi + `"manual","status":"canceled","amount_received":1,` + meta + `}`, "",
			told{attempt: attOther, reference: "pi_1", original: "pi_1", operation: void, alert: true, amount: 1000}},
		{"expired", "payment_intent.canceled", "", pi + `"manual","status":"canceled","cancellation_reason":"automatic",` + meta + `}`, "",
			told{attempt: attAuth, reference: "pi_1", expired: true, amount: 1000}},
		{"created", "payment_intent.created", attAuth, pi + `"manual","status":"requires_confirmation",` + meta + `}`, "", told{attempt: attAuth, reference: "pi_1", amount: 1000}},
		{"processing", "payment_intent.processing", attAuth, pi + `"manual","status":"processing",` + meta + `}`, "", told{attempt: attAuth, reference: "pi_1", amount: 1000}},
	})
}

func TestNoticesOfCharges(t *testing.T) {
	checkNotices(t, []noticeRow{
		{"charge authorized", "charge.succeeded", attAuth, charge + `"status":"succeeded","captured":false}`, "",
			told{attempt: attAuth, reference: "pi_1", operation: auth, class: psprouter.Approved, amount: 1000}},
		{"charge charged", "charge.succeeded", attAuth, charge + `"status":"succeeded","captured":true,"amount_captured":1000}`, "",
			told{attempt: attAuth, reference: "pi_1", operation: auth, class: psprouter.Approved, captured: true, amount: 1000}},
		{"charge captured", "charge.captured", attCapture, charge + `"status":"succeeded","captured":true,"amount_captured":600}`, "",
			told{attempt: attCapture, reference: "ch_1", original: "pi_1", operation: capture, class: psprouter.Approved, captured: true, amount: 600}},
		{"charge expired", "charge.expired", "", charge + `"status":"succeeded"}`, "", told{attempt: attAuth, reference: "ch_1", original: "pi_1", expired: true, amount: 1000}},
		{"charge failed", "charge.failed", attAuth, charge + `"status":"failed"}`, "", told{attempt: attAuth, reference: "ch_1", original: "pi_1", amount: 1000}},
		{"charge refunded is a charge", "charge.refunded", attOther, charge + `"amount_refunded":400}`, `"amount_refunded":0`, told{attempt: attAuth, reference: "ch_1", original: "pi_1", amount: 1000}},
		{"dispute", "charge.dispute.created", "", `{"object":"dispute","id":"dp_1","payment_intent":"pi_1","charge":"ch_1","amount":1000,"currency":"eur","status":"needs_response"}`, "",
			told{reference: "dp_1", original: "pi_1", amount: 1000}},
		{"generic capture", "payment.captured", "", `{"id":"psp_1","reference":"` + attAuth + `","amount":1000,"currency":"eur"}`, "",
			told{attempt: attAuth, reference: "psp_1", operation: auth, class: psprouter.Approved, captured: true, amount: 1000}},
		{"generic authorization of nobody", "payment.authorized", attOther, `{"id":"psp_1","reference":"no-such-ref","amount":1000,"currency":"eur"}`, "",
			told{reference: "psp_1", operation: auth, class: psprouter.Approved, amount: 1000}},
	})
}

func TestNoticesOfRefunds(t *testing.T) {
	refund := func(status, extra string) string {
		return `{"object":"refund","id":"re_1","payment_intent":"pi_1","charge":"ch_1","amount":400,"currency":"eur","metadata":{"attempt":"` +
			attOther + `"},"status":"` + status + `"` + extra + `}`
	}
	checkNotices(t, []noticeRow{
		{"refunded", "refund.created", attOther, refund("succeeded", ""), "", told{attempt: attOther, reference: "re_1", original: "pi_1", operation: refunding, class: psprouter.Approved, amount: 400}},
		{"refund pending", "refund.created", attOther, refund("pending", ""), "", told{attempt: attOther, reference: "re_1", original: "pi_1", operation: refunding, class: psprouter.Accepted, amount: 400}},
		{"refund settled", "charge.refund.updated", "", refund("succeeded", ""), `"status":"pending"`,
			told{attempt: attOther, reference: "re_1", original: "pi_1", operation: refunding, class: psprouter.Approved, amount: 400}},
		{"refund returned", "refund.failed", "", refund("failed", `,"failure_reason":"declined"`), "",
			told{attempt: attOther, reference: "re_1", original: "pi_1", operation: refunding, class: psprouter.Declined, reversed: true, code: "declined", amount: 400}},
		{"refund returned after success", "refund.updated", "", refund("failed", ""), `"status":"succeeded"`,
			told{attempt: attOther, reference: "re_1", original: "pi_1", operation: refunding, class: psprouter.Declined, reversed: true, code: "failed", amount: 400}},
		{"refund refused while pending", "refund.updated", "", refund("failed", ""), `"status":"pending"`,
			told{attempt: attOther, reference: "re_1", original: "pi_1", operation: refunding, class: psprouter.Declined, code: "failed", amount: 400}},
		{"an unheard-of refund status", "refund.updated", "", refund("blessed", ""), "", told{attempt: attOther, reference: "re_1", original: "pi_1", amount: 400}},
	})
}

// Where several captures are on, the sum of all is no single capture's amount.
func TestSeveralCapturesTellNoAmount(t *testing.T) {
	a := newAdapter(t, "http://127.0.0.1:1", func(c *Config) { c.SeveralCaptures, c.Live = true, true })
	body := `{"object":"payment_intent","id":"pi_1","amount":1000,"currency":"eur","capture_method":"manual","status":"succeeded","amount_received":1000}`
	for previous, want := range map[string]int64{"": 0, `"amount_received":600`: 400} {
		notices, err := a.ReadWebhook(eventOf("payment_intent.succeeded", attCapture, body, previous))
		if err != nil || notices[0].Amount.Minor != want || notices[0].AmountProblem != "" {
			t.Errorf("%q: %+v, %v", previous, notices, err)
		}
	}
}

// C035: a true event that does not fit our mode or account is foreign; an amount that cannot be read says so.
func TestC035EventsThatDoNotFit(t *testing.T) {
	a := checker(t)
	read := func(body string) psprouter.Notice {
		notices, err := a.ReadWebhook([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return notices[0]
	}
	const object = `"type":"payment.captured","data":{"object":{"id":"psp_1","reference":"` + attAuth + `","amount":1000,"currency":"usd"}}}`
	if n := read(`{"id":"e","object":"event","livemode":false,` + object); n.Foreign == "" {
		t.Error("a test event passes for a live one")
	}
	if n := read(`{"id":"e","object":"event","livemode":true,"account":"acct_2",` + object); n.Foreign == "" {
		t.Error("an event of another account passes for ours")
	}
	if n := read(`{"id":"e","object":"event","livemode":true,` + object); n.Amount != (ledger.Money{Minor: 1000, Currency: "USD"}) {
		t.Errorf("the event's own amount is lost: %+v", n)
	}
	for _, object := range []string{`{"id":7}`, `{"amount":"x"}`, `[]`, `{"amount":1.5}`} {
		if n := read(string(eventOf("payment_intent.succeeded", attAuth, object, ""))); n.Operation != "" || n.AmountProblem == "" {
			t.Errorf("%s: %+v", object, n)
		}
	}
	if n := read(string(eventOf("payment.captured", "", `{"id":"p","amount":150,"currency":"isk"}`, ""))); n.AmountProblem == "" {
		t.Errorf("150 of Stripe's ISK is read as %v", n.Amount)
	}
}

func FuzzReadWebhook(f *testing.F) {
	f.Add([]byte(c032Body))
	f.Add(eventOf("refund.updated", attAuth, `{"object":"refund","status":"failed"}`, `"status":null`))
	a, err := New(Config{BaseURL: "http://127.0.0.1:1", SecretKey: "sk"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		notices, err := a.ReadWebhook(body)
		if (err == nil) != (len(notices) == 1) {
			t.Fatalf("%d notices, %v", len(notices), err)
		}
		for _, n := range notices {
			if n.EventID == "" || n.Outcome.Class() != psprouter.Unknown && n.Operation == "" {
				t.Fatalf("%+v", n)
			}
		}
	})
}
