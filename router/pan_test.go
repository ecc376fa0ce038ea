package router

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// Numbers that card networks publish for tests; none is anybody's card.
const (
	visa16 = "4242424242424242"
	visa13 = "4222222222222"
	amex15 = "378282246310005"
	visa19 = "6304000000000000000"
)

func TestHoldsCardNumber(t *testing.T) {
	for s, want := range map[string]bool{
		visa16: true, visa13: true, amex15: true, visa19: true,
		"30569309025904": true, "5555555555554444": true,
		"4242 4242 4242 4242":                  true,
		"4242-4242-4242-4242":                  true,
		"3782 822463 10005":                    true,
		"42 42 42 42 42 42 42 42":              true, // the whole of it, however grouped
		"4242 4242-4242 4242":                  true,
		"card:" + visa16:                       true,
		"a" + visa16 + "b":                     true,
		"pm_" + visa16 + "_x":                  true,
		"4242 4242 4242 4242 12/28":            true, // an expiry behind it
		"2028-09 4242 4242 4242 4242":          true, // and in front of it
		"4242 4242 4242 4242 123":              true, // a security code behind it
		visa16 + " 12 28":                      true,
		"ключ " + visa16:                       true,
		"12 " + visa16:                         true,
		"x 1 2 3 4242 4242 4242 4242 9 9":      true,
		"":                                     false,
		"4242424242424241":                     false, // not Luhn
		"424242424242":                         false, // twelve digits
		"0" + visa19:                           false, // twenty
		"4242  4242  4242  4242":               false, // two blanks between
		"4242/4242/4242/4242":                  false,
		"4242.4242.4242.4242":                  false,
		"-4-":                                  false,
		"12345678901234567890":                 false,
		"550e8400-e29b-41d4-a716-446655440000": false,
		"pay_0123_01JD0000000000000000000000":  false,
		"2026-11-20T12:00:00Z":                 false,
	} {
		if got := holdsCardNumber(s); got != want {
			t.Errorf("%q: %t", s, got)
		}
	}
}

// Identifiers made by chance to look like a card: refusing them would make orders that can never be paid.
func TestIdentifiersAreNotCardNumbers(t *testing.T) {
	for _, id := range []string{
		"ab424242-4242-4242-8242-42ab42424242",
		"00004242-4242-4242-4242-0000abcdef00",
		"ab" + visa16 + "cdefabcdefabcd",                                      // 32 hexadecimal digits
		"ab" + visa16 + "cdefabcdefabcd" + "01234567",                         // 40
		"ab" + visa16 + "cdefabcdefabcd" + strings.Repeat("0a1b2c", 5) + "ff", // 64
		"01JD" + visa16 + "ABCDEF",                                            // a ULID
	} {
		for _, s := range []string{id, "ord_" + id, "order-" + id, id + "/1", "a " + id + " b"} {
			if holdsCardNumber(s) {
				t.Errorf("%q is refused", s)
			}
		}
		if n := identifierAt(id, 0); n != len(id) {
			t.Errorf("%q: identifier of %d", id, n)
		}
		if !holdsCardNumber(id + " " + visa16) {
			t.Errorf("a card number behind %q is not seen", id)
		}
	}
	// One character more, and it is no identifier but a string with a card number in it.
	for _, s := range []string{"ab" + visa16 + "cdefabcdefabcdg", "01JD" + visa16 + "ABCDEF0", "9" + "1JD" + visa16 + "ABCDEF"} {
		if !holdsCardNumber(s) {
			t.Errorf("%q passes", s)
		}
	}
}

func TestRandomIdentifiersPass(t *testing.T) {
	for range 20_000 {
		var b [32]byte
		rand.Read(b[:])
		h := hex.EncodeToString(b[:])
		uuid := fmt.Sprintf("%s-%s-4%s-8%s-%s", h[:8], h[8:12], h[13:16], h[17:20], h[20:32])
		for _, id := range []string{uuid, h, h[:32], h[:40], "order-" + uuid} {
			if !isDigits(id) && holdsCardNumber(id) {
				t.Fatalf("%q is refused", id)
			}
		}
	}
}

// A card number anywhere in a request is refused before anything else in it is looked at, and repeated nowhere.
func TestCardNumbersAreRefusedEverywhere(t *testing.T) {
	escaped := `\u0034` + visa16[1:]
	for name, c := range map[string]struct {
		body, field string
	}{
		"orderId":           {with("o-1", visa16), "/orderId"},
		"grouped":           {with("o-1", "4242 4242 4242 4242"), "/orderId"},
		"escaped":           {with("o-1", escaped), "/orderId"},
		"escaped blank":     {with("o-1", `4242\u00204242\u00204242\u00204242`), "/orderId"},
		"inside a text":     {with("o-1", "my card is "+visa16+"!"), "/orderId"},
		"token":             {with("pm_ok", visa16), "/paymentMethod"},
		"seller":            {with("s-bob", amex15), "/splits/1/sellerId"},
		"unknown member":    {with(`"orderId"`, `"card":"`+visa16+`","orderId"`), "/card"},
		"unknown and deep":  {with(`"orderId"`, `"x":{"y":[1,{"z":"`+visa16+`"}]},"orderId"`), "/x/y/1/z"},
		"a member's name":   {with(`"orderId"`, `"`+visa16+`":1,"orderId"`), ""},
		"below such a name": {with(`"orderId"`, `"`+visa16+`":{"a":"`+visa16+`"},"orderId"`), ""},
		"doubled":           {`{"orderId":"a","orderId":"` + visa16 + `"}`, "/orderId"},
		"after wrong types": {`{"orderId":1,"amount":"x","note":"` + visa16 + `"}`, "/note"},
		"a broken body":     {`{"orderId":` + visa16 + `x`, ""},
		"behind the object": {goodBody + `"` + visa16 + `"`, ""},
		"no JSON at all":    {"number=" + visa16 + "&cvc=123", ""},
		"invalid UTF-8":     {with("o-1", "\xff"+visa16), "/orderId"},
		"a lone string":     {`"` + visa16 + `"`, ""},
	} {
		for _, path := range []string{"/v1/payments", "/v1/payments/" + payID + "/confirm", "/v1/payments/" + payID + "/capture", "/v1/payments/" + payID + "/void", "/v1/payments/" + payID + "/refunds"} {
			a := newAPI(t)
			// The missing key shows that the card number is found first.
			res := a.post(path, c.body, header("Idempotency-Key", ""))
			a.wantRefused(res, 400, CodeCardNumber, c.field)
			a.wantNoTrace(name, res)
		}
	}
}

func TestCardNumbersOutsideTheBody(t *testing.T) {
	for name, edits := range map[string]edit{
		"key":             header("Idempotency-Key", "k-"+visa16),
		"grouped key":     header("Idempotency-Key", "4242-4242-4242-4242"),
		"quoted key":      header("Idempotency-Key", `"`+visa16+`"`),
		"second key line": func(r *http.Request) { r.Header.Add("Idempotency-Key", visa16) },
		"query":           func(r *http.Request) { r.URL.RawQuery = "card=" + visa16 },
		"escaped query":   func(r *http.Request) { r.URL.RawQuery = "card=4242+4242+4242+%34242" },
		"broken query":    func(r *http.Request) { r.URL.RawQuery = "%zz=" + visa16 },
	} {
		a := newAPI(t)
		res := a.post("/v1/payments", goodBody, edits)
		a.wantRefused(res, 400, CodeCardNumber, "")
		a.wantNoTrace(name, res)
	}
	for _, path := range []string{"/v1/payments?orderId=" + visa16, "/v1/payments?orderId=a&x=" + visa16,
		"/v1/payments/" + payID + "?x=" + visa16, "/v1/payments/" + visa16, "/v1/payments/" + visa16 + "/ledger"} {
		a := newAPI(t)
		res := a.get(path)
		a.wantRefused(res, 400, CodeCardNumber, "")
		a.wantNoTrace(path, res)
	}
}

// Where a card number is not looked for, it must not be repeated either: unknown routes, request IDs, credentials.
func TestCardNumbersElsewhereLeaveNoTrace(t *testing.T) {
	for name, send := range map[string]func(*api) reply{
		"unknown route":  func(a *api) reply { return a.get("/cards/" + visa16) },
		"unknown method": func(a *api) reply { return a.do("M"+visa16, "/v1/payments", "") },
		"request ID":     func(a *api) reply { return a.get("/livez", header("X-Request-Id", visa16)) },
		"grouped ID":     func(a *api) reply { return a.get("/livez", header("X-Request-Id", "4242-4242-4242-4242")) },
		"API key":        func(a *api) reply { return a.get("/v1/payments/"+payID, header("Authorization", "Bearer "+visa16)) },
		"user agent":     func(a *api) reply { return a.get("/v1/payments/"+payID, header("User-Agent", visa16)) },
		"media type":     func(a *api) reply { return a.post("/v1/payments", goodBody, header("Content-Type", visa16)) },
		"a driver's error": func(a *api) reply {
			a.script.err = fmt.Errorf("duplicate key %s", visa16)
			return a.post("/v1/payments", goodBody)
		},
		"a panic": func(a *api) reply {
			a.script.answer.Body = nil
			a.script.during = panicWith(visa16)
			return a.post("/v1/payments", goodBody)
		},
	} {
		a := newAPI(t)
		a.wantNoTrace(name, send(a))
	}
}

// wantNoTrace looks for the digits in everything that left the router.
func (a *api) wantNoTrace(name string, res reply) {
	a.t.Helper()
	for where, text := range map[string]string{"log": a.log.String(), "answer": res.body, "headers": fmt.Sprint(res.Header), "metrics": a.get("/metrics").body} {
		for _, digits := range []string{visa16, amex15, "4242 4242", "4242-4242", "424242"} {
			if strings.Contains(text, digits) {
				a.t.Errorf("%s: the %s repeats it: %s", name, where, text)
			}
		}
	}
	if a.log.Len() == 0 {
		a.t.Errorf("%s: nothing was logged at all", name)
	}
}

// Numbers are amounts, not cards: an amount whose digits pass Luhn is the domain's business.
func TestNumbersAreNotSearched(t *testing.T) {
	if p, found := cardNumberIn([]byte(with("10000", visa16))); found {
		t.Errorf("found at %s", p)
	}
}

// withCheckDigit makes a number that passes Luhn of n digits.
func withCheckDigit(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('0' + mathrand.IntN(10))
	}
	for c := byte('0'); c <= '9'; c++ {
		b[n-1] = c
		if isCardNumber(valuesOf(b)) {
			return string(b)
		}
	}
	panic("one of ten check digits must fit")
}

func valuesOf(digits []byte) []byte {
	out := make([]byte, len(digits))
	for i, d := range digits {
		out[i] = d - '0'
	}
	return out
}

// Every number of 13 to 19 digits that passes Luhn is seen, alone and inside; with one digit changed it is not.
func TestEveryLengthIsSeen(t *testing.T) {
	for n := cardDigitsMin; n <= cardDigitsMax; n++ {
		for range 100 {
			pan := withCheckDigit(n)
			if !holdsCardNumber(pan) || !holdsCardNumber("a "+pan+".") {
				t.Fatalf("%s passes", pan)
			}
			i := mathrand.IntN(n)
			wrong := pan[:i] + string('0'+(pan[i]-'0'+1)%10) + pan[i+1:]
			if holdsCardNumber(wrong) {
				t.Fatalf("%s is refused, Luhn must see any one wrong digit", wrong)
			}
		}
	}
}

// FuzzCardNumberIn plants a card number in a string anywhere in a JSON text and wants it found.
func FuzzCardNumberIn(f *testing.F) {
	f.Add("before", "after", uint8(0))
	f.Add("12 ", " 34", uint8(1))
	f.Add("\xff", `"\`, uint8(2))
	f.Fuzz(func(t *testing.T, before, after string, place uint8) {
		// What touches the number must not make it part of longer groups or of an identifier.
		text := before + ":" + visa16 + ":" + after
		quoted, err := jsontext.AppendQuote(nil, text)
		if err != nil {
			t.Skip() // not UTF-8
		}
		body := []string{`{"a":%s}`, `{%s:1}`, `[[{"b":[%s`, `%s`, `{"a":1,"a":%s}`, `nonsense %s`}[int(place)%6]
		pointer, found := cardNumberIn(fmt.Appendf(nil, body, quoted))
		if !found {
			t.Fatalf("not found in "+body, quoted)
		}
		if strings.Contains(pointer, visa16) {
			t.Fatalf("the pointer repeats it: %s", pointer)
		}
	})
}

// The search must stay linear in what a caller can send.
func BenchmarkCardNumberIn(b *testing.B) {
	for name, body := range map[string]string{
		"payment":        goodBody,
		"64KiB of pairs": `"` + strings.Repeat("12 ", bodyBytesMax/3) + `"`,
		"64KiB of zeros": `"` + strings.Repeat("1", bodyBytesMax-2) + `"`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				cardNumberIn([]byte(body))
			}
		})
	}
}
