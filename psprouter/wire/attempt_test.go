package wire

import (
	"strings"
	"testing"
)

func TestAttemptID(t *testing.T) {
	const ours = "att_0123_01JD0000000000000000000000"
	if AttemptID(ours) != ours {
		t.Errorf("%s is refused", ours)
	}
	for _, text := range []string{
		"", "att_", "att_0123_", "o-c036", "pay_0123_01JD0000000000000000000000", "att_0123_01jd0000000000000000000000",
		"att_012_01JD00000000000000000000000", "att_01234_01JD000000000000000000000", "att_012x_01JD0000000000000000000000",
		"att_0123_81JD0000000000000000000000", "att_0123_01JD000000000000000000000I", "att_0123_01JD00000000000000000_0000",
		"att_0123-01JD0000000000000000000000", ours + " ", " " + ours, ours[1:] + "0", strings.Repeat("_", 35), "att_٠١01JD000000000000000000000000"[:35],
	} {
		if got := AttemptID(text); got != "" {
			t.Errorf("%q passes for an attempt", text)
		}
	}
}

func FuzzAttemptID(f *testing.F) {
	f.Add("att_0123_01JD0000000000000000000000")
	f.Add("att_0123_")
	f.Fuzz(func(t *testing.T, text string) {
		if got := AttemptID(text); got != "" && got != text {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func TestSendableKey(t *testing.T) {
	for key, want := range map[string]bool{"att_1": true, strings.Repeat("k", 64): true, strings.Repeat("k", 65): false, "": false, "a b": false, "a\n": false, "ä": false} {
		if SendableKey(key, 64) != want {
			t.Errorf("%q: %t", key, !want)
		}
	}
}
