package router

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// The digits of a card number, ISO/IEC 7812: all networks in use lie between.
const (
	cardDigitsMin = 13
	cardDigitsMax = 19
)

// cardNumberIn searches every string of a JSON text, values and member names at any depth, escapes resolved. The
// pointer names the member, or is "" where the pointer itself would repeat the number. Numbers are not searched: a
// large amount is no card. A text that is not JSON is searched as it stands, since a card number in a broken body is
// one all the same.
func cardNumberIn(body []byte) (pointer string, found bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		tok, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			return "", false
		}
		if err != nil {
			return "", holdsCardNumber(string(body))
		}
		if tok.Kind() == '"' && holdsCardNumber(tok.String()) {
			return safePointer(dec.StackPointer()), true
		}
	}
}

// safePointer is p, or "" if it is too long to echo or looks like a card number itself.
func safePointer(p jsontext.Pointer) string {
	if s := string(p); len(s) <= echoBytesMax && !holdsCardNumber(s) {
		return s
	}
	return ""
}

// holdsCardNumber reports whether s holds 13 to 19 digits that pass Luhn: one run of digits, alone or inside a longer
// string, or groups of digits with a single space or dash between them.
//
// Identifiers are skipped. One random UUID in 2,000 holds such groups by chance, and one 64-digit hash in 250 such a
// run; a shop that names its orders so could never place these.
func holdsCardNumber(s string) bool {
	for i := 0; i < len(s); {
		if n := identifierAt(s, i); n > 0 {
			i += n
			continue
		}
		if !isDigit(s[i]) {
			i++
			continue
		}
		groups, end := digitGroups(s, i)
		if groups.holdCardNumber() {
			return true
		}
		i = end
	}
	return false
}

// digitRun is groups of digits that followed each other: all digits, and where each group ends among them.
type digitRun struct {
	digits []byte
	ends   []int
}

// digitGroups reads the run that begins at s[i] and returns where it ends.
func digitGroups(s string, i int) (digitRun, int) {
	var run digitRun
	for {
		for i < len(s) && isDigit(s[i]) {
			run.digits = append(run.digits, s[i]-'0')
			i++
		}
		run.ends = append(run.ends, len(run.digits))
		next := i + 1
		if next >= len(s) || s[i] != ' ' && s[i] != '-' || !isDigit(s[next]) || identifierAt(s, next) > 0 {
			return run, i
		}
		i = next
	}
}

// holdCardNumber tries the whole run, however it is grouped, and every row of neighbouring groups in it, so that an
// expiry before or after the number hides nothing. Such a row needs groups of three or more digits, as cards print
// them; otherwise every date with a counter behind it would be tried in many ways.
func (r digitRun) holdCardNumber() bool {
	if isCardNumber(r.digits) {
		return true
	}
	start := 0
	for i := range r.ends {
		from := start
		for _, end := range r.ends[i:] {
			if end-from < 3 && i+1 < len(r.ends) || end-start > cardDigitsMax {
				break
			}
			if isCardNumber(r.digits[start:end]) {
				return true
			}
			from = end
		}
		start = r.ends[i]
	}
	return false
}

func isCardNumber(digits []byte) bool {
	if len(digits) < cardDigitsMin || len(digits) > cardDigitsMax {
		return false
	}
	sum := 0
	for i, d := range digits {
		n := int(d)
		if (len(digits)-i)%2 == 0 { // every second digit from the right counts double (Luhn)
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

// identifierAt is the length of a whole-word UUID (with or without dashes), ULID of this century, or SHA-1 or SHA-256
// in hexadecimal that begins at s[i]; 0 if there is none.
func identifierAt(s string, i int) int {
	if i > 0 && isAlnum(s[i-1]) {
		return 0
	}
	n := 0
	for i+n < len(s) && isAlnum(s[i+n]) {
		n++
	}
	word := s[i : i+n]
	switch {
	case n == 8 && isDashedUUID(s[i:]):
		return uuidLen
	case (n == 32 || n == 40 || n == 64) && isHex(word) && !isDigits(word):
		return n
	case n == 26 && word[0] == '0' && isCrockford(word): // a ULID begins with 0 until the year 3084, a card number never
		return n
	}
	return 0
}

const uuidLen = 36

// isDashedUUID reports whether s begins with a UUID (8-4-4-4-12) that ends as a word.
func isDashedUUID(s string) bool {
	if len(s) < uuidLen || len(s) > uuidLen && isAlnum(s[uuidLen]) {
		return false
	}
	for i := range uuidLen {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && !isHex(s[i:i+1]) {
			return false
		}
	}
	return true
}

// isCrockford reports whether word has only the digits and capitals of Crockford's base 32, as ULIDs are written.
func isCrockford(word string) bool {
	for i := range len(word) {
		c := word[i]
		if c == 'I' || c == 'L' || c == 'O' || c == 'U' || !isDigit(c) && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; !isDigit(s[i]) && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func isDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isAlnum(c byte) bool {
	l := c | 0x20
	return isDigit(c) || 'a' <= l && l <= 'z'
}
