package router

import (
	"net/http"
	"strings"

	"paygrid/payment"
)

const keyHeader = "Idempotency-Key"

// idempotencyKey reads the caller's key. Two header lines are refused, not joined: a proxy or client that sends two
// means two different things, and gluing them makes a third. The key itself is never part of the error.
func idempotencyKey(h http.Header) (string, error) {
	lines := h.Values(keyHeader)
	if len(lines) != 1 {
		return "", badKey("want exactly one Idempotency-Key header line")
	}
	key := strings.Trim(lines[0], " \t")
	if strings.HasPrefix(key, `"`) {
		var ok bool
		if key, ok = unquoteKey(key); !ok {
			return "", badKey("the quoted key is not a structured-field string")
		}
	}
	switch {
	case strings.Trim(key, " ") == "":
		return "", badKey("the key is empty")
	case len(key) > keyBytesMax:
		return "", badKey("the key is longer than 255 bytes")
	case !printableASCII(key):
		return "", badKey("the key has bytes outside printable ASCII")
	}
	return key, nil
}

// unquoteKey reads an RFC 9651 string: a backslash may stand only before a quote or a backslash.
func unquoteKey(s string) (string, bool) {
	if len(s) < 2 || !strings.HasSuffix(s, `"`) {
		return "", false
	}
	inner := s[1 : len(s)-1]
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		switch inner[i] {
		case '"':
			return "", false
		case '\\':
			i++
			if i == len(inner) || inner[i] != '"' && inner[i] != '\\' {
				return "", false
			}
		}
		b.WriteByte(inner[i])
	}
	return b.String(), true
}

func printableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

func badKey(detail string) error {
	return &payment.Error{Code: CodeInvalidKey, Detail: detail,
		Remedy: "send one Idempotency-Key of 1 to 255 printable ASCII characters, a new one for each intent"}
}
