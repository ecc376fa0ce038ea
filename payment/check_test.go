package payment

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
)

// Every rule of an opening: the change that breaks it, its code and the field that is named.
func TestAuthorizeCommandRules(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	splits := func(s ...ledger.Split) func(*AuthorizeCommand) { return func(c *AuthorizeCommand) { c.Splits = s } }
	many := make([]ledger.Split, ledger.MaxSplits+1)
	for name, row := range map[string]struct {
		change func(*AuthorizeCommand)
		code   Code
		field  string
	}{
		"currency in lower case": {func(c *AuthorizeCommand) { c.Amount.Currency = "eur" }, CodeCurrencyUnknown, "/amount/currency"},
		"currency too long":      {func(c *AuthorizeCommand) { c.Amount.Currency = "EURO" }, CodeCurrencyUnknown, "/amount/currency"},
		"currency of nobody":     {func(c *AuthorizeCommand) { c.Amount.Currency = "XXX" }, CodeCurrencyUnknown, "/amount/currency"},
		"no currency":            {func(c *AuthorizeCommand) { c.Amount.Currency = "" }, CodeCurrencyUnknown, "/amount/currency"},
		"zero":                   {func(c *AuthorizeCommand) { c.Amount.Minor = 0 }, CodeInvalid, "/amount/minor"},
		"negative":               {func(c *AuthorizeCommand) { c.Amount.Minor = -1 }, CodeInvalid, "/amount/minor"},
		"above the limit":        {func(c *AuthorizeCommand) { c.Amount.Minor = ledger.MaxAmountMinor + 1 }, CodeAmountTooLarge, "/amount/minor"},
		"the largest int64":      {func(c *AuthorizeCommand) { c.Amount.Minor = math.MaxInt64 }, CodeAmountTooLarge, "/amount/minor"},
		"no order":               {func(c *AuthorizeCommand) { c.OrderID = "" }, CodeInvalid, "/orderId"},
		"long order":             {func(c *AuthorizeCommand) { c.OrderID = long(maxReference + 1) }, CodeInvalid, "/orderId"},
		"order with a newline":   {func(c *AuthorizeCommand) { c.OrderID = "a\nb" }, CodeInvalid, "/orderId"},
		"order not UTF-8":        {func(c *AuthorizeCommand) { c.OrderID = "a\xff" }, CodeInvalid, "/orderId"},
		"long customer":          {func(c *AuthorizeCommand) { c.CustomerID = long(maxReference + 1) }, CodeInvalid, "/customerId"},
		"customer with NUL":      {func(c *AuthorizeCommand) { c.CustomerID = "\x00" }, CodeInvalid, "/customerId"},
		"no capture mode":        {func(c *AuthorizeCommand) { c.CaptureMode = "" }, CodeInvalid, "/captureMode"},
		"capture mode in capitals": {func(c *AuthorizeCommand) { c.CaptureMode = "MANUAL" }, CodeInvalid,
			"/captureMode"},
		"no token":            {func(c *AuthorizeCommand) { c.Method.Tokens = nil }, CodeNoPSP, "/paymentMethod"},
		"empty token":         {func(c *AuthorizeCommand) { c.Method.Tokens = map[string]string{"stripe": ""} }, CodeInvalid, "/paymentMethod/tokens/stripe"},
		"long token":          {func(c *AuthorizeCommand) { c.Method.Tokens["stripe"] = long(maxToken + 1) }, CodeInvalid, "/paymentMethod/tokens/stripe"},
		"token with a tab":    {func(c *AuthorizeCommand) { c.Method.Tokens["stripe"] = "a\tb" }, CodeInvalid, "/paymentMethod/tokens/stripe"},
		"PSP named NUL":       {func(c *AuthorizeCommand) { c.Method.Tokens["\x00"] = "a" }, CodeInvalid, "/paymentMethod/tokens"},
		"PSP without a name":  {func(c *AuthorizeCommand) { c.Method.Tokens[""] = "a" }, CodeInvalid, "/paymentMethod/tokens"},
		"too many tokens":     {func(c *AuthorizeCommand) { c.Method.Tokens = tokens(maxTokens + 1) }, CodeInvalid, "/paymentMethod/tokens"},
		"last4 is a number":   {func(c *AuthorizeCommand) { c.Method.Last4 = "4242424242424242" }, CodeInvalid, "/paymentMethod/last4"},
		"brand with NUL":      {func(c *AuthorizeCommand) { c.Method.Brand = "vi\x00sa" }, CodeInvalid, "/paymentMethod/brand"},
		"long brand":          {func(c *AuthorizeCommand) { c.Method.Brand = long(33) }, CodeInvalid, "/paymentMethod/brand"},
		"month 13":            {func(c *AuthorizeCommand) { c.Method.Expiry = "2028-13" }, CodeInvalid, "/paymentMethod/expiry"},
		"country in words":    {func(c *AuthorizeCommand) { c.Method.Country = "Germany" }, CodeInvalid, "/paymentMethod/country"},
		"return to nowhere":   {func(c *AuthorizeCommand) { c.ReturnURL = "/back" }, CodeInvalid, "/returnUrl"},
		"return by script":    {func(c *AuthorizeCommand) { c.ReturnURL = "javascript://x" }, CodeInvalid, "/returnUrl"},
		"long return":         {func(c *AuthorizeCommand) { c.ReturnURL = "https://x.example/" + long(maxURL) }, CodeInvalid, "/returnUrl"},
		"no splits":           {splits(), CodeInvalid, "/splits"},
		"too many splits":     {splits(many...), CodeInvalid, "/splits"},
		"splits below":        {splits(ledger.Split{SellerID: "a", Minor: 9999}), CodeSplitsMismatch, "/splits"},
		"splits above":        {splits(ledger.Split{SellerID: "a", Minor: 10001}), CodeSplitsMismatch, "/splits"},
		"negative split":      {splits(ledger.Split{SellerID: "a", Minor: 12000}, ledger.Split{SellerID: "b", Minor: -2000}), CodeInvalid, "/splits/1/minor"},
		"zero split":          {splits(ledger.Split{SellerID: "a", Minor: 10000}, ledger.Split{SellerID: "b"}), CodeInvalid, "/splits/1/minor"},
		"huge split":          {splits(ledger.Split{SellerID: "a", Minor: math.MaxInt64}), CodeAmountTooLarge, "/splits/0/minor"},
		"splits overflow":     {splits(overflowing()...), CodeAmountTooLarge, "/splits"},
		"negative commission": {splits(ledger.Split{SellerID: "a", Minor: 10000, CommissionMinor: -1}), CodeInvalid, "/splits/0/commissionMinor"},
		"commission above":    {splits(ledger.Split{SellerID: "a", Minor: 10000, CommissionMinor: 10001}), CodeInvalid, "/splits/0/commissionMinor"},
		"seller twice":        {splits(ledger.Split{SellerID: "a", Minor: 7000}, ledger.Split{SellerID: "a", Minor: 3000}), CodeDuplicateSeller, "/splits/1/sellerId"},
		"seller with a colon": {splits(ledger.Split{SellerID: "a:b", Minor: 10000}), CodeInvalid, "/splits/0/sellerId"},
	} {
		t.Run(name, func(t *testing.T) {
			c := p10("k", "pm_ok", Manual)
			row.change(&c)
			wantError(t, c.check(), row.code, row.field, -1)
		})
	}
}

func tokens(n int) map[string]string {
	out := map[string]string{}
	for k := range n {
		out["psp"+strings.Repeat("x", k)] = "t"
	}
	return out
}

// overflowing is a list of splits each of which is allowed, and whose sum is not.
func overflowing() []ledger.Split {
	var out []ledger.Split
	for k := range 20 {
		out = append(out, ledger.Split{SellerID: strings.Repeat("s", k+1), Minor: ledger.MaxAmountMinor})
	}
	return out
}

func TestAuthorizeCommandAtItsLimits(t *testing.T) {
	c := p10("k", "pm_ok", Automatic)
	c.OrderID, c.CustomerID = strings.Repeat("o", maxReference), strings.Repeat("ü", maxReference/2)
	c.Method = Method{Tokens: tokens(maxTokens)}
	c.ReturnURL = ""
	c.Amount.Minor = ledger.MaxAmountMinor
	c.Splits = []ledger.Split{{SellerID: "a", Minor: ledger.MaxAmountMinor, CommissionMinor: ledger.MaxAmountMinor}}
	if err := c.check(); err != nil {
		t.Error(err)
	}
}

// Every *Error that this package makes says what is wrong and what to do: held in the source, where no case is forgotten.
func TestEveryErrorHasARemedy(t *testing.T) {
	found := 0
	files, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if name, isName := typeName(literal, ok); !isName || name != "Error" {
				return true
			}
			found++
			for _, member := range []string{"Code", "Detail", "Remedy"} {
				if !says(literal, member) {
					t.Errorf("%s: an Error without %s", set.Position(literal.Pos()), member)
				}
			}
			return true
		})
	}
	if found < 15 {
		t.Errorf("only %d errors were found: the search is broken", found)
	}
}

func typeName(literal *ast.CompositeLit, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	name, ok := literal.Type.(*ast.Ident)
	if !ok {
		return "", false
	}
	return name.Name, true
}

// says tells whether a literal sets a member to something other than "".
func says(literal *ast.CompositeLit, member string) bool {
	for _, e := range literal.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok || pair.Key.(*ast.Ident).Name != member {
			continue
		}
		text, isText := pair.Value.(*ast.BasicLit)
		return !isText || text.Value != `""`
	}
	return false
}

func TestRouteErrors(t *testing.T) {
	wantError(t, routeError(psprouter.ErrNoPSP), CodeNoPSP, "/paymentMethod", -1)
	amount := &psprouter.AmountError{PSP: "stripe", Why: "KWD amounts must be a multiple of 10"}
	e := wantError(t, routeError(amount), CodeAmountNotSupported, "/amount/minor", -1)
	if !errors.Is(e, amount) || !strings.Contains(e.Error(), "multiple of 10") {
		t.Errorf("%v", e)
	}
	closed := &psprouter.UnavailableError{PSP: "stripe", RetryIn: 7 * time.Second, Why: "stripe: breaker open"}
	if e = wantError(t, routeError(closed), CodePSPUnavailable, "", -1); e.RetryIn != 7*time.Second || !errors.Is(e, closed) {
		t.Errorf("%+v", e)
	}
}

// The meaning of an opening is every member but client and key, and not the order of a map.
func TestMeaningOfAnOpening(t *testing.T) {
	c := p10("k", "pm_ok", Manual)
	c.Method.Tokens["adyen"] = "tok"
	want := c.meaning()
	for range 20 { // a map's order is another each time
		same := c
		same.Method.Tokens = map[string]string{"adyen": "tok", "stripe": "pm_ok"}
		same.Client, same.Key = "tk_shop_b", "another"
		if same.meaning() != want {
			t.Fatal("the same request means something else")
		}
	}
	eachMember(t, reflect.ValueOf(&c).Elem(), "", func(path string) {
		if path == ".Client" || path == ".Key" {
			return
		}
		if c.meaning() == want {
			t.Errorf("another %s has the same meaning", path)
		}
	})
	if c.meaning() != want {
		t.Error("the walk did not put back what it changed")
	}
	c.Splits[0], c.Splits[1] = c.Splits[1], c.Splits[0]
	if c.meaning() == want {
		t.Error("the splits' order decides who gets a cent, and has no meaning")
	}
}

// eachMember changes every leaf of v in turn, calls see with its path, and puts it back.
func eachMember(t *testing.T, v reflect.Value, path string, see func(string)) {
	switch v.Kind() {
	case reflect.Struct:
		for n := range v.NumField() {
			eachMember(t, v.Field(n), path+"."+v.Type().Field(n).Name, see)
		}
	case reflect.Slice:
		for n := range v.Len() {
			eachMember(t, v.Index(n), path+"[]", see)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			old := v.MapIndex(key)
			v.SetMapIndex(key, reflect.ValueOf("other"))
			see(path + "{" + key.String() + "}")
			v.SetMapIndex(key, old)
		}
	case reflect.String:
		old := v.String()
		v.SetString(old + "x")
		see(path)
		v.SetString(old)
	case reflect.Int64:
		v.SetInt(v.Int() + 1)
		see(path)
		v.SetInt(v.Int() - 1)
	default:
		t.Fatalf("%s is of a kind that this walk does not know: %s", path, v.Kind())
	}
}

// Later calls: the payment and the amount are the meaning; all that is left is not the same as naming it.
func TestMeaningOfLaterCalls(t *testing.T) {
	base := CaptureCommand{Client: "a", Key: "k", PaymentID: "pay_1", Amount: eur(5)}
	same := CaptureCommand{Client: "b", Key: "l", PaymentID: "pay_1", Amount: eur(5)}
	if base.meaning() != same.meaning() {
		t.Error("client or key changed the meaning")
	}
	refund := func(c CaptureCommand) RefundCommand { return RefundCommand(c) }
	seen := map[[32]byte]string{}
	for name, c := range map[string]CaptureCommand{
		"base": base, "other payment": {PaymentID: "pay_2", Amount: eur(5)}, "other amount": {PaymentID: "pay_1", Amount: eur(6)},
		"other currency": {PaymentID: "pay_1", Amount: &ledger.Money{Minor: 5, Currency: "USD"}}, "all": {PaymentID: "pay_1"},
	} {
		for route, meaning := range map[string][32]byte{"capture": c.meaning(), "refund": refund(c).meaning()} {
			if other, twice := seen[meaning]; twice {
				t.Errorf("%s of %s means the same as %s", route, name, other)
			}
			seen[meaning] = route + " of " + name
		}
	}
	void := VoidCommand{PaymentID: "pay_1"}
	if _, twice := seen[void.meaning()]; twice || void.meaning() == (VoidCommand{PaymentID: "pay_2"}).meaning() {
		t.Error("a void means the same as something else")
	}
}
