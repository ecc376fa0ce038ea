package wire

import "strings"

// Of an attempt ID: att_<bucket, four digits>_<ULID>. Crockford's base 32 has no I, L, O, U; the first of a ULID's
// characters is at most 7.
const (
	attemptLength = 35
	ulidAlphabet  = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
)

// AttemptID returns text if it has the form of an attempt ID of ours, else "". PSPs hand back what others sent, too: an
// order number must never pass for an attempt.
func AttemptID(text string) string {
	bucket, id, ok := strings.Cut(strings.TrimPrefix(text, "att_"), "_")
	if len(text) != attemptLength || !strings.HasPrefix(text, "att_") || !ok || len(bucket) != 4 || id[0] > '7' {
		return ""
	}
	if strings.Trim(bucket, "0123456789") != "" || strings.Trim(id, ulidAlphabet) != "" {
		return ""
	}
	return text
}

// SendableKey tells whether a header carries key unchanged and a PSP that takes keys of up to limit bytes takes it.
func SendableKey(key string, limit int) bool {
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return key != "" && len(key) <= limit
}
