package adyen

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
)

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

// notification is the body of one item with the eight signed fields in their order, and the rest.
func notification(fields [8]string, signature, rest string) []byte {
	quoted := func(s string) string { text, _ := json.Marshal(s); return string(text) }
	return fmt.Appendf(nil, `{"live":"true","notificationItems":[{"NotificationRequestItem":{"pspReference":%s,"originalReference":%s,"merchantAccountCode":%s,
		"merchantReference":%s,"amount":{"value":%s,"currency":%s},"eventCode":%s,"success":%s,"additionalData":{"hmacSignature":%s}%s}}]}`,
		quoted(fields[0]), quoted(fields[1]), quoted(fields[2]), quoted(fields[3]), fields[4], quoted(fields[5]), quoted(fields[6]), quoted(fields[7]), quoted(signature), rest)
}

// The public vectors, and the rows of C033: colons and backslashes are not escaped.
func TestHMACVectors(t *testing.T) {
	const c033 = "EFB62E131BDBC440E4021F6446D62BA1228808E7D846379B480E84B434942F80"
	for _, row := range []struct {
		name, key string
		fields    [8]string
		signature string
		valid     bool
	}{
		{"1", hmacKeys[0], [8]string{"pspReference", "originalReference", "merchantAccount", "reference", "1000", "EUR", "EVENT", "true"}, "ipnxGCaUZ4l8TUW75a71/ghd2Fe5ffvX0pV4TLTntIc=", true},
		{"2a", hmacKeys[2], [8]string{"test_REPORT_AVAILABLE", "", "Magento2Rik", "testMerchantRef1", "0", "EUR", "REPORT_AVAILABLE", "true"}, "NuEkADFmlCC6VgX+wcoPAegIWxVPNBPCuKlM4Hzo5qc=", true},
		{"3", "74F490DD33F7327BAECC88B2947C011FC02D014A473AAA33A8EC93E4DC069174", [8]string{"ZVWN7D3WSMK2WN82", "", "AntoniStroinski",
			`\:/\/slashes are fun`, "1000", "EUR", "AUTHORISATION", "true"},
			"CZErGCNQaSsxbaQfZaJlakqo7KPP+mIa8a+wx3yNs9A=", true},
		{"4", hmacKeys[1], [8]string{"7914073381342284", "", "TestMerchant", "TestPayment-1407325143704", "1130", "EUR", "AUTHORISATION", "true"}, "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0=", true},
		{"C033 1", c033, [8]string{"psp0c0330000001", "", "ShopEUMain", "14-08-2026-09:53:00", "10000", "EUR", "AUTHORISATION", "true"}, "vZNqD++RvuddUVdFtQxxobESykHq9D4oEngK0PnbcEM=", true},
		{"C033 1, escaped", c033, [8]string{"psp0c0330000001", "", "ShopEUMain", "14-08-2026-09:53:00", "10000", "EUR", "AUTHORISATION", "true"}, "Xxc7ZSvSZktt7LN23QwyG9zEIN+AtlplK/0cmL+t/Xg=", false},
		{"C033 2", c033, [8]string{"psp0c0330000002", "psp0c0330000001", "ShopEUMain", `a\b/c:d`, "0", "EUR", "REPORT_AVAILABLE", "true"}, "0/nTlX+kIc0/BZKRrAbITZPJlZNEswxUops4MnGUr5I=", true},
		{"C033 2, escaped", c033, [8]string{"psp0c0330000002", "psp0c0330000001", "ShopEUMain", `a\b/c:d`, "0", "EUR", "REPORT_AVAILABLE", "true"}, "yETnCWaB2rrJX7S5xbFVg8riXe+lBfvseVaaTbhxrig=", false},
		{"C033 1, one more", c033, [8]string{"psp0c0330000001", "", "ShopEUMain", "14-08-2026-09:53:00", "10001", "EUR", "AUTHORISATION", "true"}, "vZNqD++RvuddUVdFtQxxobESykHq9D4oEngK0PnbcEM=", false},
	} {
		a := newAdapter(t, "http://127.0.0.1:1", func(c *Config) { c.HMACKeys = []string{hmacKeys[1], row.key} })
		err := a.CheckWebhook(http.Header{}, notification(row.fields, row.signature, ""), time.Time{})
		if want := map[bool]psprouter.WebhookFault{true: "", false: psprouter.WebhookUnsigned}[row.valid]; faultOf(err) != want {
			t.Errorf("%s: %v", row.name, err)
		}
	}
	// 2b is a message of no fields.
	if got := hmacOf("TestPayload", hmacKeys[2]); got != "YA9/UDjldIO4Gq68X4ATYYoEaPYH4f4k2uzBBzEF1PA=" {
		t.Errorf("2b: %s", got)
	}
}

// C033 by name: its rows are in TestHMACVectors; here the signed text itself.
func TestC033NothingIsEscaped(t *testing.T) {
	i := item{PSPReference: "psp0c0330000002", OriginalReference: "psp0c0330000001", MerchantAccountCode: "ShopEUMain", MerchantReference: `a\b/c:d`, EventCode: "REPORT_AVAILABLE", Success: "true"}
	i.Amount.Value, i.Amount.Currency = "0", "EUR"
	if got := i.signedText(); got != `psp0c0330000002:psp0c0330000001:ShopEUMain:a\b/c:d:0:EUR:REPORT_AVAILABLE:true` {
		t.Error(got)
	}
}

func TestEveryItemMustVerify(t *testing.T) {
	a := newAdapter(t, "http://127.0.0.1:1", nil)
	good := sign(notification([8]string{"P1", "", "ShopEUMain", "r", "1000", "EUR", "AUTHORISATION", "true"}, "", ""), hmacKeys[0])
	rotated := sign(notification([8]string{"P2", "P1", "ShopEUMain", "r", "1000", "EUR", "CAPTURE", "true"}, "", ""), hmacKeys[1])
	forged := sign(notification([8]string{"P3", "P1", "ShopEUMain", "r", "1000", "EUR", "REFUND", "true"}, "", ""), hmacKeys[2])
	item := func(body []byte) string {
		text := string(body)
		return text[strings.Index(text, "[")+1 : strings.LastIndex(text, "]")]
	}
	together := func(bodies ...[]byte) []byte {
		var items []string
		for _, body := range bodies {
			items = append(items, item(body))
		}
		return []byte(`{"live":"true","notificationItems":[` + strings.Join(items, ",") + `]}`)
	}
	for name, row := range map[string]struct {
		body []byte
		want psprouter.WebhookFault
	}{
		"one":                   {good, ""},
		"two, of two keys":      {together(good, rotated), ""},
		"the last is forged":    {together(good, rotated, forged), psprouter.WebhookUnsigned},
		"the first is forged":   {together(forged, good), psprouter.WebhookUnsigned},
		"none":                  {together(), psprouter.WebhookMalformed},
		"no signature":          {notification([8]string{"P1", "", "ShopEUMain", "r", "1000", "EUR", "AUTHORISATION", "true"}, "", ""), psprouter.WebhookUnsigned},
		"a number as signature": {[]byte(strings.Replace(string(good), `"hmacSignature":"`, `"x":"`, 1)), psprouter.WebhookUnsigned},
		"too many":              {together(slices.Repeat([][]byte{good}, maxItems+1)...), psprouter.WebhookMalformed},
		"too long":              {append(good[:len(good):len(good)], strings.Repeat(" ", maxNoticeBytes)...), psprouter.WebhookMalformed},
	} {
		if err := a.CheckWebhook(http.Header{}, row.body, time.Time{}); faultOf(err) != row.want {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
	notices, err := a.ReadWebhook(together(good, rotated))
	if err != nil || len(notices) != 2 || notices[0].Kind != "AUTHORISATION" || notices[1].Kind != "CAPTURE" {
		t.Errorf("%+v, %v", notices, err)
	}
	none := newAdapter(t, "http://127.0.0.1:1", func(c *Config) { c.HMACKeys = nil })
	if err := none.CheckWebhook(http.Header{}, good, time.Time{}); faultOf(err) != psprouter.WebhookUnsigned {
		t.Errorf("without any key: %v", err)
	}
}

const ours = "att_0001_01JD0000000000000000000001"

// Every eventCode of the table with both ends, and those that settle nothing.
func TestNotices(t *testing.T) {
	type told struct {
		operation                            string
		class                                psprouter.Class
		captured, implied, reversed, expired bool
		code                                 string
	}
	auth, capture, void, refund := psprouter.OpAuthorize, psprouter.OpCapture, psprouter.OpVoid, psprouter.OpRefund
	a := newAdapter(t, "http://127.0.0.1:1", nil)
	for _, row := range []struct {
		code, success, reason string
		want                  told
	}{
		{"AUTHORISATION", "true", "", told{operation: auth, class: psprouter.Approved, implied: true}},
		{"AUTHORISATION", "false", "Not enough balance", told{operation: auth, class: psprouter.Declined, code: "not_enough_balance"}},
		{"CAPTURE", "true", "", told{operation: capture, class: psprouter.Approved, captured: true}},
		{"CAPTURE", "false", "Insufficient balance on payment", told{operation: capture, class: psprouter.Declined, code: "refused"}},
		{"CAPTURE_FAILED", "true", "", told{operation: capture, class: psprouter.Declined, reversed: true, code: "capture_failed"}},
		{"CAPTURE_FAILED", "false", "", told{}},
		{"CANCELLATION", "true", "", told{operation: void, class: psprouter.Approved}},
		{"CANCELLATION", "false", "", told{operation: void, class: psprouter.Declined, code: "refused"}},
		{"TECHNICAL_CANCEL", "true", "", told{operation: void, class: psprouter.Approved}},
		{"TECHNICAL_CANCEL", "false", "", told{operation: void, class: psprouter.Declined, code: "refused"}},
		{"REFUND", "true", "", told{operation: refund, class: psprouter.Approved}},
		{"REFUND", "false", "", told{operation: refund, class: psprouter.Declined, code: "refused"}},
		{"REFUND_FAILED", "true", "", told{operation: refund, class: psprouter.Declined, reversed: true, code: "refund_failed"}},
		{"REFUNDED_REVERSED", "true", "", told{operation: refund, class: psprouter.Declined, reversed: true, code: "refunded_reversed"}},
		{"CANCEL_OR_REFUND", "true", "", told{}},
		{"EXPIRE", "true", "", told{expired: true}},
		{"EXPIRE", "false", "", told{}},
		{"CHARGEBACK", "true", "", told{}},
		{"CHARGEBACK_REVERSED", "true", "", told{}},
		{"SECOND_CHARGEBACK", "true", "", told{}},
		{"NOTIFICATION_OF_CHARGEBACK", "true", "", told{}},
		{"REQUEST_FOR_INFORMATION", "true", "", told{}},
		{"NOTIFICATION_OF_FRAUD", "true", "", told{}},
		{"AUTHORISATION_ADJUSTMENT", "true", "", told{}},
		{"REPORT_AVAILABLE", "true", "https://…", told{}},
		{"QUANTUM_LEAP", "true", "", told{}},
		{"AUTHORISATION", "", "", told{}},
		{"AUTHORISATION", "TRUE", "", told{}},
	} {
		body := notification([8]string{"M1", "P1", "ShopEUMain", ours, "1500", "EUR", row.code, row.success}, "", `,"reason":"`+row.reason+`"`)
		notices, err := a.ReadWebhook(body)
		if err != nil || len(notices) != 1 {
			t.Fatalf("%s: %v", row.code, err)
		}
		n := notices[0]
		got := told{n.Operation, n.Outcome.Class(), n.Outcome.Captured, n.CaptureImplied, n.Reversed, n.Expired, n.Outcome.Code}
		if got != row.want {
			t.Errorf("%s %s:\n got %+v\nwant %+v", row.code, row.success, got, row.want)
		}
		if !strings.HasPrefix(n.EventID, "M1:"+row.code+":"+row.success+":") || n.Kind != row.code || n.Attempt != ours || n.Reference != "M1" || n.Original != "P1" ||
			n.Amount != (ledger.Money{Minor: 1500, Currency: "EUR"}) || n.Foreign != "" {
			t.Errorf("%s: %+v", row.code, n)
		}
	}
}

// C035 and C036: what a notice is for, and whose it is, and what it cannot say.
func TestNoticesThatDoNotFit(t *testing.T) {
	a := newAdapter(t, "http://127.0.0.1:1", nil)
	read := func(change func(*[8]string), live string) psprouter.Notice {
		fields := [8]string{"P1", "", "ShopEUMain", ours, "1000", "EUR", "AUTHORISATION", "true"}
		if change != nil {
			change(&fields)
		}
		body := strings.Replace(string(notification(fields, "", "")), `"live":"true"`, live, 1)
		notices, err := a.ReadWebhook([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return notices[0]
	}
	if n := read(func(f *[8]string) { f[2] = "OtherShop" }, `"live":"true"`); n.Foreign == "" {
		t.Error("another account's notice passes for ours")
	}
	for live, foreign := range map[string]bool{`"live":"true"`: false, `"live":true`: false, `"live":"false"`: true, `"live":false`: true, `"live":""`: true, `"x":1`: true} {
		if n := read(nil, live); (n.Foreign != "") != foreign {
			t.Errorf("%s: %q", live, n.Foreign)
		}
	}
	if n := read(func(f *[8]string) { f[3] = "o-c036" }, `"live":"true"`); n.Attempt != "" || n.Reference != "P1" {
		t.Errorf("an order's reference passes for an attempt: %+v", n)
	}
	if n := read(func(f *[8]string) { f[4] = `"1000"` }, `"live":"true"`); n.Amount.Minor != 1000 {
		t.Errorf("an amount in quotes: %+v", n)
	}
	for _, bad := range []string{"10.5", "1e3", `""`, "-5", "99999999999999999999"} {
		if n := read(func(f *[8]string) { f[4] = bad }, `"live":"true"`); n.AmountProblem == "" || n.Amount.Minor != 0 {
			t.Errorf("%s is read as %v", bad, n.Amount)
		}
	}
	if n := read(func(f *[8]string) { f[4], f[5] = "150050", "CLP" }, `"live":"true"`); n.AmountProblem == "" {
		t.Errorf("150050 of Adyen's CLP is read as %v", n.Amount)
	}
}

func FuzzReadWebhook(f *testing.F) {
	f.Add(notification([8]string{"P1", "", "ShopEUMain", ours, "1000", "EUR", "AUTHORISATION", "true"}, "x", ""))
	f.Add([]byte(`{"live":true,"notificationItems":[{"NotificationRequestItem":{"pspReference":"","amount":null,"additionalData":null}}]}`))
	a, err := New(Config{BaseURL: "http://127.0.0.1:1", APIKey: "k", MerchantAccount: "ShopEUMain", ReturnURL: "https://x", HMACKeys: hmacKeys})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		notices, err := a.ReadWebhook(body)
		if (err == nil) != (len(notices) > 0) {
			t.Fatalf("%d notices, %v", len(notices), err)
		}
		for _, n := range notices {
			if n.EventID == "" || n.Outcome.Class() != psprouter.Unknown && n.Operation == "" {
				t.Fatalf("%+v", n)
			}
		}
		if a.CheckWebhook(http.Header{}, body, time.Time{}) == nil {
			t.Fatal("a body of the fuzzer is signed")
		}
	})
}

// A redelivery is the same event; one of another mode, account, amount or currency is not.
func TestEventIDs(t *testing.T) {
	var i item
	i.PSPReference, i.EventCode, i.Success, i.MerchantAccountCode = "P1", "AUTHORISATION", "true", "ShopEUMain"
	i.Amount.Value, i.Amount.Currency = "1500", "EUR"
	first := eventID("true", i)
	later := i
	later.Reason = "told again"
	if eventID("true", later) != first {
		t.Error("a redelivery is another event")
	}
	others := map[string]item{"account": i, "amount": i, "currency": i, "success": i}
	for what, other := range others {
		switch what {
		case "account":
			other.MerchantAccountCode = "OtherShop"
		case "amount":
			other.Amount.Value = "1"
		case "currency":
			other.Amount.Currency = "USD"
		case "success":
			other.Success = "false"
		}
		if eventID("true", other) == first {
			t.Errorf("another %s is the same event", what)
		}
	}
	if eventID("false", i) == first {
		t.Error("another mode is the same event")
	}
}
