package router

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/payment"
)

func TestCommandsReachTheDomain(t *testing.T) {
	part := &ledger.Money{Minor: 2000, Currency: "EUR"}
	for _, c := range []struct {
		path, body string
		want       any
	}{
		{"/v1/payments", goodBody, payment.AuthorizeCommand{Client: "shop_a", Key: "k-1", OrderID: "o-1",
			Amount: ledger.Money{Minor: 10000, Currency: "EUR"}, CaptureMode: payment.Automatic,
			Method: payment.Method{Tokens: map[string]string{"stripe": "pm_ok"}},
			Splits: []ledger.Split{{SellerID: "s-ann", Minor: 7000, CommissionMinor: 700}, {SellerID: "s-bob", Minor: 3000, CommissionMinor: 450}}}},
		{"/v1/payments/" + payID + "/capture", `{"amount":{"minor":2000,"currency":"EUR"}}`,
			payment.CaptureCommand{Client: "shop_a", Key: "k-1", PaymentID: payID, Amount: part}},
		{"/v1/payments/" + payID + "/capture", `{}`, payment.CaptureCommand{Client: "shop_a", Key: "k-1", PaymentID: payID}},
		{"/v1/payments/" + payID + "/confirm", `{}`, payment.ConfirmCommand{Client: "shop_a", PaymentID: payID}},
		{"/v1/payments/" + payID + "/confirm", `{"details":{"redirectResult":"X!1","MD":""}}`,
			payment.ConfirmCommand{Client: "shop_a", PaymentID: payID, Details: map[string]string{"redirectResult": "X!1", "MD": ""}}},
		{"/v1/payments/" + payID + "/void", ``, payment.VoidCommand{Client: "shop_a", Key: "k-1", PaymentID: payID}},
		{"/v1/payments/" + payID + "/void", ` {} `, payment.VoidCommand{Client: "shop_a", Key: "k-1", PaymentID: payID}},
		{"/v1/payments/" + payID + "/refunds", `{"amount":{"minor":2000,"currency":"EUR"}}`,
			payment.RefundCommand{Client: "shop_a", Key: "k-1", PaymentID: payID, Amount: part}},
		{"/v1/payments/" + payID + "/refunds", `{}`, payment.RefundCommand{Client: "shop_a", Key: "k-1", PaymentID: payID}},
	} {
		a := newAPI(t)
		if strings.HasSuffix(c.path, "refunds") {
			a.script.answer = answerOf(t, payment.KindRefunded, aRefund())
		} else if c.path != "/v1/payments" {
			a.script.answer = answerOf(t, payment.KindVoided, aView())
		}
		if res := a.post(c.path, c.body); res.StatusCode/100 != 2 {
			t.Errorf("POST %s: %d %s", c.path, res.StatusCode, res.body)
		}
		if len(a.script.asked) != 1 || !reflect.DeepEqual(a.script.asked[0], c.want) {
			t.Errorf("POST %s %s\n got %+v\nwant %+v", c.path, c.body, a.script.asked, c.want)
		}
	}
}

// A void of no bytes needs no media type: there is nothing to declare.
func TestVoidWithoutBodyOrMediaType(t *testing.T) {
	a := newAPI(t)
	a.script.answer = answerOf(t, payment.KindVoided, aView())
	if res := a.post("/v1/payments/"+payID+"/void", "", header("Content-Type", "")); res.StatusCode != http.StatusOK {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
}

// A confirm shows the payment as it is: it makes nothing, so it is never 201, and needs no key.
func TestConfirmAnswers(t *testing.T) {
	for _, c := range []struct {
		kind     payment.Kind
		status   int
		location bool
		retry    string
	}{
		{payment.KindAuthorized, 200, false, ""},
		{payment.KindCharged, 200, false, ""},
		{payment.KindActionRequired, 200, false, ""},
		{payment.KindProcessing, 202, true, ""},
		{payment.KindDeclined, 402, false, ""},
		{payment.KindUnavailable, 503, false, "1"},
	} {
		for name, edits := range map[string]edit{
			"no key":   header("Idempotency-Key", ""),
			"a key":    header("Idempotency-Key", "k-1"),
			"two keys": func(r *http.Request) { r.Header["Idempotency-Key"] = []string{"a", "b"} },
		} {
			a := newAPI(t)
			a.script.answer = answerOf(t, c.kind, aView())
			res := a.post("/v1/payments/"+payID+"/confirm", `{}`, edits)
			if res.StatusCode != c.status || res.body != string(a.script.answer.Body) || res.Header.Get("Retry-After") != c.retry ||
				(res.Header.Get("Location") != "") != c.location {
				t.Errorf("%s, %s: %d %v %s", c.kind, name, res.StatusCode, res.Header, res.body)
			}
		}
	}
}

func TestConfirmRefuses(t *testing.T) {
	var many strings.Builder
	for n := range detailsMax + 1 {
		fmt.Fprintf(&many, `,"k%d":"v"`, n)
	}
	for body, want := range map[string]struct {
		status int
		code   payment.Code
		field  string
	}{
		``:                              {400, CodeMalformedJSON, ""},
		`null`:                          {400, CodeInvalidType, ""},
		`{"details":null}`:              {400, CodeInvalidType, "/details"},
		`{"details":["x"]}`:             {400, CodeInvalidType, "/details"},
		`{"details":{"a":1}}`:           {400, CodeInvalidType, "/details/a"},
		`{"details":{"a":{"b":"c"}}}`:   {400, CodeInvalidType, "/details/a"},
		`{"details":{"a":"1","a":"2"}}`: {400, CodeDuplicateMember, "/details/a"},
		`{"redirectResult":"x"}`:        {400, CodeUnknownMember, "/redirectResult"},
		`{"details":{"a":"\u0000"}}`:    {422, payment.CodeInvalid, "/details/a"},
		`{"details":{` + many.String()[1:] + `}}`: {422, payment.CodeInvalid, "/details"},
	} {
		a := newAPI(t)
		a.wantRefused(a.post("/v1/payments/"+payID+"/confirm", body), want.status, want.code, want.field)
	}
	a := newAPI(t)
	a.wantRefused(a.post("/v1/payments/x/confirm", `{}`), 404, payment.CodeNotFound, "")
}

func TestAnswersOfEveryKind(t *testing.T) {
	capture, refund := "/v1/payments/"+payID+"/capture", "/v1/payments/"+payID+"/refunds"
	for _, c := range []struct {
		kind     payment.Kind
		path     string
		status   int
		location bool
	}{
		{payment.KindAuthorized, "/v1/payments", 201, true},
		{payment.KindCharged, "/v1/payments", 201, true},
		{payment.KindActionRequired, "/v1/payments", 200, false},
		{payment.KindDeclined, "/v1/payments", 402, false},
		{payment.KindUnavailable, "/v1/payments", 503, false},
		{payment.KindRejected, "/v1/payments", 422, false},
		{payment.KindProcessing, "/v1/payments", 202, true},
		{payment.KindCaptured, capture, 200, false},
		{payment.KindVoided, capture, 200, false},
		{payment.KindRefused, capture, 422, false},
		{payment.KindRefunded, refund, 201, true},
		{payment.KindRefused, refund, 422, false},
		{payment.KindUnavailable, refund, 503, false},
		{payment.KindProcessing, refund, 202, true},
	} {
		a := newAPI(t)
		body, resource := goodBody, any(aView())
		if c.path != "/v1/payments" {
			body = `{}`
		}
		if c.path == refund {
			resource = aRefund()
		}
		a.script.answer = answerOf(t, c.kind, resource)
		for _, replayed := range []bool{false, true} {
			a.script.answer.Replayed = replayed
			res := a.post(c.path, body)
			if res.StatusCode != c.status || res.body != string(a.script.answer.Body) || res.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %d %s %s", c.kind, res.StatusCode, res.Header.Get("Content-Type"), res.body)
			}
			if got := res.Header.Get("Location"); (got == "/v1/payments/"+payID) != c.location || (got == "") == c.location {
				t.Errorf("%s: Location %q", c.kind, got)
			}
			if got := res.Header.Get("Idempotent-Replayed"); (got == "true") != replayed || (got == "") == replayed {
				t.Errorf("%s replayed=%t: Idempotent-Replayed %q", c.kind, replayed, got)
			}
			if got := res.Header.Get("Retry-After"); (got != "") != (c.status == 503) {
				t.Errorf("%s: Retry-After %q", c.kind, got)
			}
		}
	}
}

func TestRefusalsOfTheDomain(t *testing.T) {
	remaining := int64(4000)
	for _, c := range []struct {
		err    payment.Error
		status int
		retry  string
	}{
		{payment.Error{Code: payment.CodeKeyReused}, 422, ""},
		{payment.Error{Code: payment.CodeNotFound}, 404, ""},
		{payment.Error{Code: payment.CodeInvalid, Field: "/splits/0/minor"}, 422, ""},
		{payment.Error{Code: payment.CodeAmountTooLarge, Field: "/amount/minor"}, 422, ""},
		{payment.Error{Code: payment.CodeRefundExceeds, Remaining: &remaining}, 422, ""},
		{payment.Error{Code: payment.CodeCaptureInDoubt, Reference: "att_0123_x"}, 409, ""},
		{payment.Error{Code: payment.CodeCaptureInDoubt, RetryIn: 2500 * time.Millisecond}, 409, "3"},
		{payment.Error{Code: payment.CodeVoidInDoubt}, 409, ""},
		{payment.Error{Code: payment.CodeExpired}, 409, ""},
		{payment.Error{Code: payment.CodeWrongState}, 409, ""},
		{payment.Error{Code: payment.CodeAlreadyReversed}, 409, ""},
		{payment.Error{Code: payment.CodeBusy}, 409, "1"},
		{payment.Error{Code: payment.CodeBusy, RetryIn: 50 * time.Millisecond}, 409, "1"},
		{payment.Error{Code: payment.CodeUnavailable, RetryIn: 5 * time.Second}, 503, "5"},
		{payment.Error{Code: payment.CodeOverloaded, RetryIn: 1200 * time.Millisecond}, 503, "2"},
	} {
		a := newAPI(t)
		c.err.Detail, c.err.Remedy = "what is wrong", "what to do"
		a.script.err = errors.Join(errors.New("outer"), &c.err) // found through wrapping
		res := a.post("/v1/payments/"+payID+"/refunds", `{}`)
		p := res.problem(t)
		if res.StatusCode != c.status || p.Code != c.err.Code || p.Field != c.err.Field || p.Reference != c.err.Reference ||
			p.Detail != "what is wrong" || p.Remedy != "what to do" || p.PaymentID != payID || !reflect.DeepEqual(p.Remaining, c.err.Remaining) {
			t.Errorf("%s: %d %s", c.err.Code, res.StatusCode, res.body)
		}
		if got := res.Header.Get("Retry-After"); got != c.retry || (p.RetryAfter > 0 && strconv.FormatInt(p.RetryAfter, 10) != got) {
			t.Errorf("%s: Retry-After %q, retryAfter %d, want %q", c.err.Code, got, p.RetryAfter, c.retry)
		}
	}
}

func TestUnknownCodeIsARule(t *testing.T) {
	if got := rulingOf("BRAND_NEW"); got.status != http.StatusUnprocessableEntity || got.title == "" {
		t.Errorf("%+v", got)
	}
}

// What is no *payment.Error decided nothing: 503, and only the log learns why.
func TestOtherErrorsAre503AndLogged(t *testing.T) {
	a := newAPI(t)
	a.script.err = errors.New("dial tcp 127.0.0.1:1: refused")
	res := a.post("/v1/payments", goodBody)
	if p := res.problem(t); p.Status != 503 || p.Code != CodeDependency || res.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %s", res.StatusCode, res.body)
	}
	if strings.Contains(res.body, "dial tcp") || !strings.Contains(a.log.String(), "dial tcp") {
		t.Errorf("the cause belongs into the log alone: %s\n%s", res.body, a.log)
	}
}

// Never a success that the caller cannot read.
func TestAnswersWithoutBodyOrKindAre503(t *testing.T) {
	for _, answer := range []payment.Answer{{Kind: payment.KindAuthorized}, {Kind: "NEW", Body: []byte(`{}`)}, {}} {
		a := newAPI(t)
		a.script.answer = answer
		if p := a.post("/v1/payments", goodBody).problem(t); p.Status != 503 {
			t.Errorf("%+v: %d", answer, p.Status)
		}
	}
}

func TestReads(t *testing.T) {
	a := newAPI(t)
	a.script.ledger = payment.LedgerView{PaymentID: payID, Entries: []payment.EntryView{{ID: "capture:att_1", Kind: "CAPTURE", CreatedAt: a.clock.now(),
		Lines: []payment.LineView{{Account: "psp_receivable:stripe", Side: "debit", Minor: 1, Currency: "EUR"},
			{Account: "seller_payable:s-ann", Side: "credit", Minor: 1, Currency: "EUR"}}}}}
	for path, want := range map[string]string{
		"/v1/payments/" + payID:             `"id":"` + payID + `"`,
		"/v1/payments?orderId=o%2F1+x":      `{"payments":[{"id":"` + payID,
		"/v1/payments/" + payID + "/ledger": `"entries":[{"id":"capture:att_1"`,
	} {
		if res := a.get(path); res.StatusCode != 200 || !strings.Contains(res.body, want) {
			t.Errorf("GET %s: %d %s", path, res.StatusCode, res.body)
		}
	}
	for _, asked := range a.script.asked {
		if got := asked.([2]string); got[0] != "shop_a" || got[1] != payID && got[1] != "o/1 x" {
			t.Errorf("asked %v", got)
		}
	}
	a.script.views = nil
	if res := a.get("/v1/payments?orderId=none"); res.body != `{"payments":[]}` {
		t.Errorf("no payments: %s", res.body)
	}
	a.script.err = &payment.Error{Code: payment.CodeUnavailable}
	for _, path := range []string{"/v1/payments/" + payID, "/v1/payments?orderId=x", "/v1/payments/" + payID + "/ledger"} {
		if res := a.get(path); res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" {
			t.Errorf("GET %s: %d", path, res.StatusCode)
		}
	}
}

func TestQueriesRefused(t *testing.T) {
	for _, q := range []string{"", "?orderId=", "?orderId=a&orderId=b", "?orderID=a", "?orderId=a&limit=1", "?orderId=%zz",
		"?orderId=a;b", "?orderId=" + strings.Repeat("a", 256)} {
		a := newAPI(t)
		a.wantRefused(a.get("/v1/payments"+q), 400, CodeInvalidQuery, "")
	}
}

// What cannot be an ID of ours goes neither to the domain nor to the log.
func TestForeignPaymentIDs(t *testing.T) {
	for _, id := range []string{"x", "pay_123_01JD0000000000000000000000", "pay_0123_01jd0000000000000000000000", "pay_0123-01JD0000000000000000000000",
		"pay_0123_01JD000000000000000000000", "pay_abcd_01JD0000000000000000000000", "pay_0123_01JU0000000000000000000000"} {
		a := newAPI(t)
		a.wantRefused(a.get("/v1/payments/"+id), 404, payment.CodeNotFound, "")
		a.wantRefused(a.post("/v1/payments/"+id+"/capture", `{}`), 404, payment.CodeNotFound, "")
		if strings.Contains(a.log.String(), id+`"`) {
			t.Errorf("%s is in the log", id)
		}
	}
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	a := newAPI(t)
	for _, path := range []string{"/", "/v1", "/v1/payments/", "/v1/payments/" + payID + "/", "/v2/payments", "/v1/payments/" + payID + "/cancel"} {
		a.wantRefused(a.get(path), 404, CodeRouteNotFound, "")
	}
	res := a.do(http.MethodDelete, "/v1/payments", "")
	a.wantRefused(res, 405, CodeMethodNotAllowed, "")
	if allow := res.Header.Get("Allow"); !strings.Contains(allow, "GET") || !strings.Contains(allow, "POST") {
		t.Errorf("Allow: %q", allow)
	}
	a.wantRefused(a.post("/livez", ""), 405, CodeMethodNotAllowed, "")
}

// The context that the domain gets is the request's: it ends when the caller hangs up.
func TestContextPassesThrough(t *testing.T) {
	a := newAPI(t)
	ctx, cancel := context.WithCancel(t.Context())
	a.script.during = func(inner context.Context) {
		cancel()
		<-inner.Done()
	}
	a.post("/v1/payments", goodBody, func(r *http.Request) { *r = *r.WithContext(ctx) })
}
