package router

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"paygrid/ledger"
	"paygrid/payment"
)

// with replaces one part of the good body.
func with(old, new string) string {
	if !strings.Contains(goodBody, old) {
		panic("not in the good body: " + old)
	}
	return strings.Replace(goodBody, old, new, 1)
}

// C026, the shapes of a number, as far as the front door decides.
func TestC026ShapesOfANumber(t *testing.T) {
	for _, c := range []struct {
		minor string
		code  payment.Code // "" = reaches the domain
	}{
		{"1000", ""},
		{"12345678901", ""},
		{"9007199254740993", ""}, // the domain's to refuse; it must get all 16 digits
		{"9223372036854775807", ""},
		{"-9223372036854775808", ""},
		{"0", ""},
		{"-1", ""},
		{"1000.0", CodeInvalidType},
		{"1e3", CodeInvalidType},
		{"1E3", CodeInvalidType},
		{"1000.5", CodeInvalidType},
		{`"1000"`, CodeInvalidType},
		{"true", CodeInvalidType},
		{"null", CodeInvalidType},
		{"[1000]", CodeInvalidType},
		{"{}", CodeInvalidType},
		{"-0", CodeInvalidType},
		{"9223372036854775808", CodeInvalidType},
		{"-9223372036854775809", CodeInvalidType},
		{strings.Repeat("9", 400), CodeInvalidType},
		{"01000", CodeMalformedJSON},
		{"+1000", CodeMalformedJSON},
		{"0x3e8", CodeMalformedJSON},
		{"NaN", CodeMalformedJSON},
		{"1_000", CodeMalformedJSON},
		{"", CodeMalformedJSON},
	} {
		cmd, err := decodeAuthorize([]byte(with("10000", c.minor)), "stripe")
		if c.code == "" {
			if got := fmt.Sprint(cmd.Amount.Minor); err != nil || got != c.minor {
				t.Errorf("%s: got %s, %v", c.minor, got, err)
			}
			continue
		}
		wantError(t, c.minor, err, c.code, map[bool]string{true: "/amount/minor"}[c.code == CodeInvalidType])
	}
	_, err := decodeAuthorize([]byte(with(`"minor":10000`, `"minor":1000,"minor":1`)), "stripe")
	wantError(t, "twice", err, CodeDuplicateMember, "/amount/minor")
}

func wantError(t *testing.T, name string, err error, code payment.Code, field string) {
	t.Helper()
	var refusal *payment.Error
	if !errors.As(err, &refusal) {
		t.Errorf("%s: got %v, want %s", name, err, code)
		return
	}
	if refusal.Code != code || refusal.Field != field || refusal.Detail == "" || refusal.Remedy == "" {
		t.Errorf("%s: got %s at %q (%s), want %s at %q", name, refusal.Code, refusal.Field, refusal.Detail, code, field)
	}
}

func TestDecodeAuthorizeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		body  string
		code  payment.Code
		field string
	}{
		"empty":               {``, CodeMalformedJSON, ""},
		"blank":               {" \n", CodeMalformedJSON, ""},
		"byte order mark":     {"\ufeff" + goodBody, CodeMalformedJSON, ""},
		"cut off":             {goodBody[:len(goodBody)-1], CodeMalformedJSON, ""},
		"trailing object":     {goodBody + `{}`, CodeMalformedJSON, ""},
		"trailing comma":      {with(`"orderId":"o-1",`, `"orderId":"o-1",,`), CodeMalformedJSON, ""},
		"comment":             {"/**/" + goodBody, CodeMalformedJSON, ""},
		"single quotes":       {with(`"o-1"`, `'o-1'`), CodeMalformedJSON, ""},
		"invalid UTF-8":       {with("o-1", "o-\xff"), CodeMalformedJSON, ""},
		"half a surrogate":    {with("o-1", `o-\ud800`), CodeMalformedJSON, ""},
		"an array":            {`[` + goodBody + `]`, CodeInvalidType, ""},
		"a string":            {`"x"`, CodeInvalidType, ""},
		"null":                {`null`, CodeInvalidType, ""},
		"unknown":             {with(`"orderId"`, `"tip":1,"orderId"`), CodeUnknownMember, "/tip"},
		"other case":          {with(`"orderId"`, `"orderID"`), CodeUnknownMember, "/orderID"},
		"unknown, deep":       {with(`"sellerId":"s-bob"`, `"sellerId":"s-bob","a/b~c":0`), CodeUnknownMember, "/splits/1/a~1b~0c"},
		"unknown, long":       {with(`"orderId"`, `"`+strings.Repeat("x", 999)+`":1,"orderId"`), CodeUnknownMember, ""},
		"twice":               {with(`"orderId":"o-1"`, `"orderId":"o-1","orderId":"o-1"`), CodeDuplicateMember, "/orderId"},
		"twice, by escape":    {with(`"orderId":"o-1"`, `"orderId":"o-1","\u006frderId":"o-1"`), CodeDuplicateMember, "/orderId"},
		"twice, deep":         {with(`"minor":3000`, `"minor":3000,"minor":3000`), CodeDuplicateMember, "/splits/1/minor"},
		"twice, token":        {with(`"pm_ok"`, `{"tokens":{"stripe":"a","stripe":"b"}}`), CodeDuplicateMember, "/paymentMethod/tokens/stripe"},
		"no orderId":          {with(`"orderId":"o-1",`, ``), CodeMissingMember, "/orderId"},
		"no amount":           {with(`"amount":{"minor":10000,"currency":"EUR"},`, ``), CodeMissingMember, "/amount"},
		"no minor":            {with(`"minor":10000,`, ``), CodeMissingMember, "/amount/minor"},
		"no currency":         {with(`,"currency":"EUR"`, ``), CodeMissingMember, "/amount/currency"},
		"no paymentMethod":    {with(`"paymentMethod":"pm_ok",`, ``), CodeMissingMember, "/paymentMethod"},
		"no tokens":           {with(`"pm_ok"`, `{"brand":"visa"}`), CodeMissingMember, "/paymentMethod/tokens"},
		"no splits":           {goodBody[:strings.Index(goodBody, `,"splits"`)] + `}`, CodeMissingMember, "/splits"},
		"no commission":       {with(`,"commissionMinor":450`, ``), CodeMissingMember, "/splits/1/commissionMinor"},
		"orderId is a number": {with(`"o-1"`, `1`), CodeInvalidType, "/orderId"},
		"orderId is null":     {with(`"o-1"`, `null`), CodeInvalidType, "/orderId"},
		"amount is a number":  {with(`{"minor":10000,"currency":"EUR"}`, `100`), CodeInvalidType, "/amount"},
		"amount is null":      {with(`{"minor":10000,"currency":"EUR"}`, `null`), payment.CodeInvalid, "/amount"},
		"method is a number":  {with(`"pm_ok"`, `5`), CodeInvalidType, "/paymentMethod"},
		"method is null":      {with(`"pm_ok"`, `null`), CodeInvalidType, "/paymentMethod"},
		"method is empty":     {with(`"pm_ok"`, `""`), payment.CodeInvalid, "/paymentMethod"},
		"method is long":      {with(`"pm_ok"`, `"`+strings.Repeat("t", 256)+`"`), payment.CodeInvalid, "/paymentMethod"},
		"tokens is an array":  {with(`"pm_ok"`, `{"tokens":["a"]}`), CodeInvalidType, "/paymentMethod/tokens"},
		"token is a number":   {with(`"pm_ok"`, `{"tokens":{"stripe":1}}`), CodeInvalidType, "/paymentMethod/tokens/stripe"},
		"token is empty":      {with(`"pm_ok"`, `{"tokens":{"stripe":""}}`), payment.CodeInvalid, "/paymentMethod/tokens"},
		"PSP is empty":        {with(`"pm_ok"`, `{"tokens":{"":"a"}}`), payment.CodeInvalid, "/paymentMethod/tokens"},
		"brand is empty":      {with(`"pm_ok"`, `{"tokens":{"stripe":"a"},"brand":""}`), payment.CodeInvalid, "/paymentMethod/brand"},
		"last4 has three":     {with(`"pm_ok"`, `{"tokens":{"stripe":"a"},"last4":"123"}`), payment.CodeInvalid, "/paymentMethod/last4"},
		"last4 is a number":   {with(`"pm_ok"`, `{"tokens":{"stripe":"a"},"last4":1234}`), CodeInvalidType, "/paymentMethod/last4"},
		"last4 has letters":   {with(`"pm_ok"`, `{"tokens":{"stripe":"a"},"last4":"12a4"}`), payment.CodeInvalid, "/paymentMethod/last4"},
		"expiry is short":     {with(`"pm_ok"`, `{"tokens":{"stripe":"a"},"expiry":"28-09"}`), payment.CodeInvalid, "/paymentMethod/expiry"},
		"expiry month 13":     {with(`"pm_ok"`, `{"tokens":{"stripe":"a"},"expiry":"2028-13"}`), payment.CodeInvalid, "/paymentMethod/expiry"},
		"expiry month 0":      {with(`"pm_ok"`, `{"tokens":{"stripe":"a"},"expiry":"2028-00"}`), payment.CodeInvalid, "/paymentMethod/expiry"},
		"country has three":   {with(`"pm_ok"`, `{"tokens":{"stripe":"a"},"country":"DEU"}`), payment.CodeInvalid, "/paymentMethod/country"},
		"country has digits":  {with(`"pm_ok"`, `{"tokens":{"stripe":"a"},"country":"D1"}`), payment.CodeInvalid, "/paymentMethod/country"},
		"splits is an object": {goodBody[:strings.Index(goodBody, `"splits"`)] + `"splits":{}}`, CodeInvalidType, "/splits"},
		"splits is null":      {goodBody[:strings.Index(goodBody, `"splits"`)] + `"splits":null}`, CodeInvalidType, "/splits"},
		"split is null":       {goodBody[:strings.Index(goodBody, `"splits"`)] + `"splits":[null]}`, CodeInvalidType, "/splits/0"},
		"captureMode unknown": {with(`"automatic"`, `"later"`), payment.CodeInvalid, "/captureMode"},
		"captureMode boolean": {with(`"automatic"`, `true`), CodeInvalidType, "/captureMode"},
		"NUL in orderId":      {with("o-1", `o-\u0000`), payment.CodeInvalid, "/orderId"},
		"newline in orderId":  {with("o-1", `o-\n1`), payment.CodeInvalid, "/orderId"},
		"very deep":           {with(`"o-1"`, strings.Repeat("[", 20000)), CodeMalformedJSON, ""},
	} {
		_, err := decodeAuthorize([]byte(c.body), "stripe")
		wantError(t, name, err, c.code, c.field)
	}
}

func TestDecodeAuthorizeAccepts(t *testing.T) {
	base, err := decodeAuthorize([]byte(goodBody), "stripe")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		body   string
		change func(*payment.AuthorizeCommand)
	}{
		"other order of members": {`{"splits":[{"commissionMinor":700,"minor":7000,"sellerId":"s-ann"},{"minor":3000,"sellerId":"s-bob","commissionMinor":450}],` +
			`"captureMode":"automatic","paymentMethod":"pm_ok","amount":{"currency":"EUR","minor":10000},"orderId":"o-1"}`, func(*payment.AuthorizeCommand) {}},
		"escapes":           {with("o-1", `\u006f-1`), func(*payment.AuthorizeCommand) {}},
		"white space":       {"\r\n\t " + goodBody + "\n", func(*payment.AuthorizeCommand) {}},
		"no captureMode":    {with(`"captureMode":"automatic",`, ``), func(c *payment.AuthorizeCommand) { c.CaptureMode = payment.Manual }},
		"customer, return":  {with(`"orderId"`, `"customerId":"c1","returnUrl":"https://shop.example/?a=1&b=<2>","orderId"`), func(c *payment.AuthorizeCommand) { c.CustomerID, c.ReturnURL = "c1", "https://shop.example/?a=1&b=<2>" }},
		"empty customer":    {with(`"orderId"`, `"customerId":"","orderId"`), func(*payment.AuthorizeCommand) {}},
		"letters of others": {with("o-1", "о-ü-注"), func(c *payment.AuthorizeCommand) { c.OrderID = "о-ü-注" }},
		"no splits":         {goodBody[:strings.Index(goodBody, `"splits"`)] + `"splits":[]}`, func(c *payment.AuthorizeCommand) { c.Splits = []ledger.Split{} }},
		"lower-case euro":   {with(`"EUR"`, `"eur"`), func(c *payment.AuthorizeCommand) { c.Amount.Currency = "eur" }},
		"no tokens at all":  {with(`"pm_ok"`, `{"tokens":{}}`), func(c *payment.AuthorizeCommand) { c.Method.Tokens = map[string]string{} }},
		"method in full": {with(`"pm_ok"`, `{"tokens":{"stripe":"pm_a","adyen":"t_b"},"brand":"visa","last4":"0042","expiry":"2028-09","country":"DE"}`),
			func(c *payment.AuthorizeCommand) {
				c.Method = payment.Method{Tokens: map[string]string{"stripe": "pm_a", "adyen": "t_b"}, Brand: "visa", Last4: "0042", Expiry: "2028-09", Country: "DE"}
			}},
	} {
		want := base
		c.change(&want)
		if got, err := decodeAuthorize([]byte(c.body), "stripe"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", name, err, got, want)
		}
	}
	if got, _ := decodeAuthorize([]byte(goodBody), "adyen"); got.Method.Tokens["adyen"] != "pm_ok" {
		t.Errorf("a plain token is not the default PSP's: %v", got.Method)
	}
}

// C020, the front door's part: null and a missing minor are different things, and neither means "all".
func TestC020ZeroNegativeNull(t *testing.T) {
	for body, want := range map[string]*ledger.Money{
		`{}`: nil,
		`{"amount":{"minor":0,"currency":"EUR"}}`:    {Minor: 0, Currency: "EUR"},
		`{"amount":{"minor":-500,"currency":"EUR"}}`: {Minor: -500, Currency: "EUR"},
	} {
		if got, err := decodePart([]byte(body)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v %v", body, got, err)
		}
	}
	for _, c := range []struct {
		body  string
		code  payment.Code
		field string
	}{
		{`{"amount":null}`, payment.CodeInvalid, "/amount"},
		{`{"amount":{"currency":"EUR"}}`, CodeMissingMember, "/amount/minor"},
		{`{"amount":{"minor":null,"currency":"EUR"}}`, CodeInvalidType, "/amount/minor"},
		{`{"amount":{}}`, CodeMissingMember, "/amount/minor"},
		{`{"amount":500}`, CodeInvalidType, "/amount"},
		{`{"amonut":{}}`, CodeUnknownMember, "/amonut"},
		{``, CodeMalformedJSON, ""},
		{`null`, CodeInvalidType, ""},
	} {
		_, err := decodePart([]byte(c.body))
		wantError(t, c.body, err, c.code, c.field)
	}
	wantError(t, "void", decodeNothing([]byte(`{"amount":null}`)), CodeUnknownMember, "/amount")
	wantError(t, "void", decodeNothing([]byte(`{`)), CodeMalformedJSON, "")
	wantError(t, "void", decodeNothing([]byte(` `)), CodeMalformedJSON, "")
	if err := decodeNothing(nil); err != nil {
		t.Error(err)
	}
}

// FuzzDecodeAuthorize: nothing panics, every refusal is typed and bounded, and what is accepted says the same to an
// independent decoder.
func FuzzDecodeAuthorize(f *testing.F) {
	f.Add([]byte(goodBody))
	f.Add([]byte(with(`"pm_ok"`, `{"tokens":{"stripe":"a"},"last4":"1234"}`)))
	f.Add([]byte(with("10000", "1e3")))
	f.Add([]byte(`{"amount":{"minor":1,"minor":2}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		cmd, err := decodeAuthorize(body, "stripe")
		if err != nil {
			var refusal *payment.Error
			if !errors.As(err, &refusal) || refusal.Code == "" || len(refusal.Field) > echoBytesMax || len(refusal.Detail) > 200 {
				t.Fatalf("%#v", err)
			}
			return
		}
		var other struct {
			OrderID       string         `json:"orderId"`
			CustomerID    string         `json:"customerId"`
			Amount        ledger.Money   `json:"amount"`
			PaymentMethod any            `json:"paymentMethod"`
			CaptureMode   string         `json:"captureMode"`
			Splits        []ledger.Split `json:"splits"`
			ReturnURL     string         `json:"returnUrl"`
		}
		if err := json.Unmarshal(body, &other, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("accepted, but the library refuses it: %v", err)
		}
		if other.OrderID != cmd.OrderID || other.Amount != cmd.Amount || other.CustomerID != cmd.CustomerID ||
			other.ReturnURL != cmd.ReturnURL || !reflect.DeepEqual(other.Splits, cmd.Splits) {
			t.Fatalf("%+v\n%+v", other, cmd)
		}
	})
}
