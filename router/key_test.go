package router

import (
	"net/http"
	"strings"
	"testing"

	"paygrid/payment"
)

// C004, the front door's part: what is a key, and which key it is.
func TestC004OddKeys(t *testing.T) {
	a255 := strings.Repeat("a", 255)
	for name, c := range map[string]struct {
		lines []string
		want  string // "" = refused
	}{
		"255 bytes":               {[]string{a255}, a255},
		"256 bytes":               {[]string{a255 + "a"}, ""},
		"3000 bytes":              {[]string{strings.Repeat("Zq7+", 750)}, ""},
		"Cyrillic":                {[]string{"ключ-ключ-ключ-"}, ""},
		"emoji":                   {[]string{strings.Repeat("🧾", 200)}, ""},
		"lower case":              {[]string{"k-c004"}, "k-c004"},
		"upper case":              {[]string{"K-C004"}, "K-C004"},
		"trailing blanks":         {[]string{"k-c004  "}, "k-c004"},
		"blanks and tabs around":  {[]string{" \t k-c004 \t"}, "k-c004"},
		"blank inside":            {[]string{"k c004"}, "k c004"},
		"empty":                   {[]string{""}, ""},
		"blanks":                  {[]string{"   "}, ""},
		"no-break spaces":         {[]string{"\u00a0\u00a0"}, ""},
		"two lines":               {[]string{"k-x1", "k-x2"}, ""},
		"two equal lines":         {[]string{"k-x1", "k-x1"}, ""},
		"none":                    {nil, ""},
		"NUL":                     {[]string{"k\x00"}, ""},
		"DEL":                     {[]string{"k\x7f"}, ""},
		"tab inside":              {[]string{"k\tk"}, ""},
		"Latin 1":                 {[]string{"k\xe9"}, ""},
		"tilde and bang":          {[]string{"~!k"}, "~!k"},
		"quoted":                  {[]string{`"k-c004"`}, "k-c004"},
		"quoted, blanks around":   {[]string{` "k-c004" `}, "k-c004"},
		"quoted, escaped":         {[]string{`"a\"b\\c"`}, `a"b\c`},
		"quoted, 255 inside":      {[]string{`"` + a255 + `"`}, a255},
		"quoted, 256 inside":      {[]string{`"` + a255 + `a"`}, ""},
		"quoted, empty":           {[]string{`""`}, ""},
		"quoted, blank":           {[]string{`"  "`}, ""},
		"quoted, bad escape":      {[]string{`"a\b"`}, ""},
		"quoted, escaped end":     {[]string{`"a\"`}, ""},
		"quoted, quote inside":    {[]string{`"a"b"`}, ""},
		"quoted, with parameters": {[]string{`"a";b=1`}, ""},
		"quote at the front":      {[]string{`"a`}, ""},
		"quote alone":             {[]string{`"`}, ""},
		"quote inside a bare key": {[]string{`a"b"`}, `a"b"`},
	} {
		key, err := idempotencyKey(http.Header{"Idempotency-Key": c.lines})
		if key != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: got %q, %v, want %q", name, key, err, c.want)
		}
		if c.want != "" {
			continue
		}
		wantError(t, name, err, CodeInvalidKey, "")
		a := newAPI(t)
		a.wantRefused(a.post("/v1/payments", goodBody, func(r *http.Request) { r.Header["Idempotency-Key"] = c.lines }), 400, CodeInvalidKey, "")
	}
}

// Two spellings of one key are one key, and no two keys become one by quoting.
func FuzzIdempotencyKey(f *testing.F) {
	for _, s := range []string{"k", `"k"`, `"a\"b"`, " k ", `\`, "\u00a0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		key, err := idempotencyKey(http.Header{"Idempotency-Key": {line}})
		if err != nil {
			if key != "" || strings.Contains(err.(*payment.Error).Detail, line) && len(line) > 8 {
				t.Fatalf("%q: a refused key is given back or echoed: %v", line, err)
			}
			return
		}
		if len(key) == 0 || len(key) > keyBytesMax || !printableASCII(key) {
			t.Fatalf("%q: accepted as %q", line, key)
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, err := idempotencyKey(http.Header{"Idempotency-Key": {quoted}}); err != nil || again != key {
			t.Fatalf("%q quoted is %q: %q, %v", key, quoted, again, err)
		}
	})
}
