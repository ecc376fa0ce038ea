package loadtest

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"
)

// TestRawSurvivesJSON: histograms and seconds are read as they were, and what is none is refused.
func TestRawSurvivesJSON(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		raw := Raw{Interval: time.Second, Calls: map[string]kept{"all": {newHistogram(digits)}, "empty": {newHistogram(digits)}}, Plots: []kept{{}, {newHistogram(plotDigits)}}}
		for _, micros := range rapid.SliceOfN(rapid.Int64Range(lowestMicros, highestMicros), 0, 200).Draw(rt, "microseconds") {
			record(raw.Calls["all"].Histogram, time.Duration(micros)*time.Microsecond)
			record(raw.Plots[1].Histogram, time.Duration(micros)*time.Microsecond)
		}
		for range rapid.IntRange(0, 50).Draw(rt, "seconds") {
			count := rapid.IntRange(0, 5000)
			raw.Seconds = append(raw.Seconds, second{intended: count.Draw(rt, "intended"), answered: count.Draw(rt, "answered"), paid: count.Draw(rt, "paid"),
				authorized: count.Draw(rt, "authorized"), shed: count.Draw(rt, "shed")})
		}
		raw.Processes = []ProcessRow{{URL: "http://x", Starts: []float64{1_700_000_000.25}, Own: map[string]Histogram{"/v1/payments": {Bounds: []float64{.005, math.Inf(1)}, Counts: []uint64{3, 1 << 40}}}}}
		data, err := json.Marshal(raw)
		if err != nil {
			rt.Fatal(err)
		}
		var again Raw
		if err := json.Unmarshal(data, &again); err != nil {
			rt.Fatal(err)
		}
		for name, h := range raw.Calls {
			if !again.Calls[name].Equals(h.Histogram) || latencyOf(name, again.Calls[name].Histogram) != latencyOf(name, h.Histogram) {
				rt.Fatalf("%s: %+v, want %+v", name, latencyOf(name, again.Calls[name].Histogram), latencyOf(name, h.Histogram))
			}
		}
		if again.Plots[0].Histogram != nil || !again.Plots[1].Equals(raw.Plots[1].Histogram) {
			rt.Fatalf("plots %+v", again.Plots)
		}
		if !slices.Equal(again.Seconds, raw.Seconds) || !reflect.DeepEqual(again.Processes, raw.Processes) {
			rt.Fatalf("got %+v\nwant %+v", again, raw)
		}
	})
}

func TestDamagedRawIsRefused(t *testing.T) {
	other, err := kept{newHistogram(digits)}.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	cut := string(other[:len(other)/2])
	for _, text := range []string{`{"calls":{"all":"xx"}}`, `{"calls":{"all":"` + cut + `"}}`, `{"plots":["AAAA"]}`, `{"seconds":"?"}`, `{"seconds":"AAAA"}`,
		`{"processes":[{"own":{"a":"x:1"}}]}`, `{"processes":[{"own":{"a":"1:"}}]}`} {
		var raw Raw
		if err := json.Unmarshal([]byte(text), &raw); err == nil {
			t.Errorf("%s was read as %+v", text, raw)
		}
	}
	whole, err := seconds{{intended: 300}}.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var half bytes.Buffer
	w := zlib.NewWriter(&half)
	if _, err := w.Write([]byte{1, 2, 3, 0x80}); err != nil { // the fourth number goes on, and a fifth is missing
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var s seconds
	if err := s.UnmarshalText([]byte(base64.StdEncoding.EncodeToString(half.Bytes()))); err == nil {
		t.Errorf("half a second was read as %+v", s)
	}
	if err := s.UnmarshalText(whole); err != nil || s[0].intended != 300 {
		t.Errorf("%v: %+v", err, s)
	}
}

// TestHistogramOfAnotherKindIsRefused: its counts could not be added to ours.
func TestHistogramOfAnotherKindIsRefused(t *testing.T) {
	text, err := kept{hdrhistogram.New(lowestMicros, 1000, digits)}.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var k kept
	if err := k.UnmarshalText(text); err == nil || !strings.Contains(err.Error(), "want 1 to 600000000") {
		t.Errorf("%v: counts of another range were taken", err)
	}
}

// TestExtentSeesTheWholeTrace though a part is played.
func TestExtentSeesTheWholeTrace(t *testing.T) {
	text := strings.Join([]string{
		`{"at":0,"client":"a","order":"1","key":"1","amount":{"minor":5,"currency":"EUR"},"sellers":[{"sellerId":"s","minor":5}],"card":"ok","then":[{"op":"capture","after":9000}]}`,
		`{"at":1000,"client":"a","order":"2","key":"2","amount":{"minor":5,"currency":"EUR"},"sellers":[{"sellerId":"s","minor":5}],"card":"ok","repeats":[100,8500]}`,
		`{"at":2000,"client":"a","order":"3","key":"3","amount":{"minor":5,"currency":"EUR"},"sellers":[{"sellerId":"s","minor":5}],"card":"declined","secondCard":{"after":20,"card":"ok"}}`}, "\n")
	for part, mine := range map[int]int{1: 2, 2: 1} {
		var e Extent
		played := 0
		for _, err := range PartOf(e.Of(ReadTrace(strings.NewReader(text))), part, 2) {
			if err != nil {
				t.Fatal(err)
			}
			played++
		}
		if e.Arrivals != 3 || e.Last != 9500*time.Millisecond || !e.Whole || played != mine {
			t.Errorf("part %d: %+v, played %d", part, e, played)
		}
		if s := (&Share{Part: part, Parts: 2, Arrivals: 3}); s.due() != mine {
			t.Errorf("%s is due to play %d, want %d", s, s.due(), mine)
		}
	}
	var e Extent
	for range e.Of(ReadTrace(strings.NewReader(text))) {
		break
	}
	if e.Whole || e.Arrivals != 1 {
		t.Errorf("of a trace that was not read to its end: %+v", e)
	}
}

func TestProfileTextIsRead(t *testing.T) {
	for _, text := range []string{"steady:20:15s", "black-friday:600.5:2m0s,ramp:400-1500:1m0s"} {
		segments, err := ParseSegments(text)
		if err != nil || ProfileText(segments) != text {
			t.Errorf("%v: %s is written %s", err, text, ProfileText(segments))
		}
	}
}

// TestClaimsCountPayments: a double click asks for nothing more, a second card does; several captures of a payment count once.
func TestClaimsCountPayments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		api := &shopAPI{answer: func(r *http.Request, body string) (int, string) {
			if !strings.HasSuffix(r.URL.Path, "/payments") {
				return authorizes(r, body)
			}
			n++
			if strings.Contains(body, "pm_decline") {
				return 402, fmt.Sprintf(`{"id":"pay_d%d","status":"DECLINED"}`, n)
			}
			return 201, `{"id":"pay_1","status":"AUTHORIZED"}`
		}}
		p, r := playOn(t, api, nil,
			sold(0, func(a *Arrival) {
				a.Repeats = []int64{1}
				a.Then = []Later{{Op: Capture, AfterMS: 10, Minor: 40}, {Op: Capture, AfterMS: 20}}
			}),
			sold(time.Second, func(a *Arrival) {
				a.Card, a.Second, a.Charge = CardDeclined, &SecondCard{AfterMS: 5, Card: CardOK}, true
				a.Then = []Later{{Op: Refund, AfterMS: 10}}
			}),
			sold(2*time.Second, func(a *Arrival) { a.Charge = true; a.Then = []Later{{Op: Capture, AfterMS: 10}} }))
		if got := p.Asked(); got != (Claim{Asked: 4, CapturesAsked: 4}) || r.Paid != 5 {
			t.Errorf("asked %+v, paid %d, want four payments, four that may be captured, five captures", got, r.Paid)
		}
	})
}

// TestBooksCountTheRun: payments of other runs are not the run's, those of its other parts are.
func TestBooksCountTheRun(t *testing.T) {
	a := NewAudit([]Acknowledged{{Payment: "pay_1", Order: "r1-o1", Captured: 5}, {Payment: "pay_1", Order: "r1-o1"}, {Payment: "pay_2", Order: "r1-o3"}})
	a.Run("r1-")
	for _, b := range []Booked{{ID: "pay_1", Order: "r1-o1", Status: "CAPTURED", Captured: 5}, {ID: "pay_2", Order: "r1-o3", Status: "AUTHORIZED"}, {ID: "pay_3", Order: "r1-o2", Status: "CAPTURED", Captured: 5},
		{ID: "pay_4", Order: "r10-o1", Status: "CAPTURED", Captured: 5}, {ID: "pay_5", Order: "o1"}} {
		a.Payment(b)
	}
	if named, ofRun, captured := a.Counted(); named != (Claim{Named: 2, Captured: 1}) || ofRun != 3 || captured != 2 {
		t.Errorf("named %+v, of the run %d, captured %d", named, ofRun, captured)
	}
}
