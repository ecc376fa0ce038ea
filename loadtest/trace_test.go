package loadtest

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"paygrid/ledger"
)

const goodLine = `{"at":5,"client":"a","order":"o","key":"k","amount":{"minor":100,"currency":"EUR"},"sellers":[{"sellerId":"s","minor":100,"commissionMinor":10}],"card":"ok"}`

// gather reads a sequence until its first error.
func gather(all iter.Seq2[Arrival, error]) (out []Arrival, err error) {
	for a, err := range all {
		if err != nil {
			return out, err
		}
		out = append(out, a)
	}
	return out, nil
}

func sequence(all ...Arrival) iter.Seq2[Arrival, error] {
	return func(yield func(Arrival, error) bool) {
		for _, a := range all {
			if !yield(a, nil) {
				return
			}
		}
	}
}

func TestTraceErrorsNameLineAndField(t *testing.T) {
	for _, tc := range []struct{ name, from, to, field string }{
		{"no JSON", `{"at"`, `{at`, "JSON"},
		{"unknown member", `"at":5`, `"at":5,"pan":"1"`, "JSON"},
		{"two objects", `"card":"ok"}`, `"card":"ok"} {}`, "JSON"},
		{"before the line above", `"at":5`, `"at":4`, "at"},
		{"too late", `"at":5`, `"at":99999999999`, "at"},
		{"no key", `"key":"k"`, `"key":""`, "client, order, key"},
		{"currency", `EUR`, `EURO`, "amount.currency"},
		{"no amount", `{"minor":100,"currency"`, `{"minor":0,"currency"`, "amount.minor"},
		{"card", `"ok"`, `"gold"`, "card"},
		{"second card", `"card":"ok"`, `"card":"ok","secondCard":{"after":1,"card":"gold"}`, "card"},
		{"sum", `"s","minor":100`, `"s","minor":99`, "sellers"},
		{"commission", `"commissionMinor":10`, `"commissionMinor":101`, "sellers"},
		{"repeat in the past", `"card":"ok"`, `"card":"ok","repeats":[-1]`, "repeats"},
		{"too many repeats", `"card":"ok"`, `"card":"ok","repeats":[` + strings.Repeat("1,", 20) + `1]`, "repeats, then, sellers"},
		{"unknown op", `"card":"ok"`, `"card":"ok","then":[{"op":"payout","after":1}]`, "then"},
		{"too much", `"card":"ok"`, `"card":"ok","then":[{"op":"refund","after":1,"minor":101}]`, "then"},
		{"out of order", `"card":"ok"`, `"card":"ok","then":[{"op":"capture","after":2},{"op":"refund","after":1}]`, "then"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !strings.Contains(goodLine, tc.from) {
				t.Fatalf("nothing is planted: %s", tc.from)
			}
			got, err := gather(ReadTrace(strings.NewReader(goodLine + "\n" + strings.Replace(goodLine, tc.from, tc.to, 1))))
			var refused *TraceError
			if !errors.As(err, &refused) || refused.Line != 2 || refused.Field != tc.field || refused.Remedy == "" {
				t.Errorf("error %v, want one of line 2 and field %s", err, tc.field)
			}
			if len(got) != 1 {
				t.Errorf("%d lines before the error, want 1", len(got))
			}
		})
	}
}

func TestTraceRoundTrip(t *testing.T) {
	full := Arrival{AtMS: 7, Client: "a", Order: "o", Key: "k", Amount: ledger.Money{Minor: 900, Currency: "KWD"}, Country: "KW",
		Sellers: []ledger.Split{{SellerID: "s", Minor: 900, CommissionMinor: 90}}, Card: "token:pm_slow_ok_1s", PSPs: []string{"adyen"}, Charge: true,
		Repeats: []int64{0, 2000}, Second: &SecondCard{AfterMS: 5, Card: CardOK}, Then: []Later{{Op: Refund, AfterMS: 1, Minor: 10}}}
	var text bytes.Buffer
	if n, err := WriteTrace(&text, sequence(full, full)); n != 2 || err != nil {
		t.Fatalf("wrote %d, %v", n, err)
	}
	written := text.String()
	got, err := gather(ReadTrace(strings.NewReader("\n" + written)))
	if err != nil || len(got) != 2 {
		t.Fatalf("read %d, %v", len(got), err)
	}
	var again bytes.Buffer
	if _, err := WriteTrace(&again, sequence(got...)); err != nil || again.String() != written {
		t.Errorf("%v: read and written again it is\n%s\nwant\n%s", err, again.String(), written)
	}
}

func TestTraceLinesAreBounded(t *testing.T) {
	if _, err := gather(ReadTrace(strings.NewReader(strings.Repeat("x", maxTraceLine+1)))); err == nil {
		t.Error("a line without end is read")
	}
}

// TestPartsShareATrace: every arrival is in exactly one part.
func TestPartsShareATrace(t *testing.T) {
	arrivals, err := Generate(GenerateOptions{Seed: 3, Segments: []Segment{{Profile: Steady, Rate: 50, Duration: 5 * time.Second}}, Clients: []string{"a"}, Sellers: 9})
	if err != nil {
		t.Fatal(err)
	}
	all, _ := gather(arrivals)
	var keys []string
	for k := 1; k <= 4; k++ {
		part, err := gather(PartOf(arrivals, k, 4))
		if err != nil || len(part) < len(all)/4 {
			t.Errorf("part %d has %d of %d, %v", k, len(part), len(all), err)
		}
		for _, a := range part {
			keys = append(keys, a.Key)
		}
	}
	slices.Sort(keys)
	if len(keys) != len(all) || len(slices.Compact(keys)) != len(all) {
		t.Errorf("the parts hold %d arrivals, the trace %d", len(keys), len(all))
	}
}

// FuzzReadTrace: whatever is read can be played, and written so that it reads the same.
func FuzzReadTrace(f *testing.F) {
	f.Add(goodLine)
	f.Add(goodLine + "\n\n" + goodLine)
	f.Add(strings.Replace(goodLine, `"ok"`, `"token:pm_ok","then":[{"op":"void","after":0}]`, 1))
	f.Fuzz(func(t *testing.T, text string) {
		for a, err := range ReadTrace(strings.NewReader(text)) {
			if err != nil {
				return
			}
			if field, remedy := a.fault(); field != "" {
				t.Fatalf("%s: %s was read", field, remedy)
			}
			var line bytes.Buffer
			if _, err := WriteTrace(&line, sequence(a)); err != nil {
				t.Fatal(err)
			}
			if _, err := gather(ReadTrace(&line)); err != nil {
				t.Fatalf("written again: %v", err)
			}
		}
	})
}
