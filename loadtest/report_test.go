package loadtest

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// goodReport is a run in which all is well, with one of everything.
func goodReport() *Report {
	return &Report{Title: "a <test>", Setting: "two processors & a clock", Started: time.Unix(1_700_000_000, 0).UTC(), Took: time.Minute,
		Segments: []SegmentRow{{Segment: Segment{Profile: BlackFriday, Rate: 600, Duration: time.Minute}, Peak: 610.5, OwnP99: 42}},
		Intended: 10, Sent: 25, Answered: 20, Paid: 9, Answers: []AnswerCount{{Authorize, 201, "AUTHORIZED", 10}},
		Latency:  []LatencyRow{{What: "authorize", Count: 10, P50: 310, P90: 320, P99: 400.5, P999: 500, Max: 501}},
		OwnShare: []LatencyRow{{What: "/v1/payments", Count: 10, P50: 4, P99: 42}}, OwnP99: 45, PeakOwnP99: 42, Peak: 610.5, Limit: 900, LimitNote: "The ramp came to 900.",
		PSPs: []PSPRow{{PSP: "adyen", Chosen: 1, Outcomes: map[string]int{"APPROVED": 3}}, {PSP: "stripe", Chosen: 3, Trips: 2, Outcomes: map[string]int{}}},
		Faults: []FaultRow{{Fault: Fault{At: 5 * time.Second, Kind: KillRouter, Number: 2}, Result: "done", OK: true},
			{Fault: Fault{At: 6 * time.Second, Kind: KafkaDown, For: time.Second}, Result: "not possible here: no Kafka"}},
		Slowest: []Slow{{Op: Capture, Payment: "pay_1", AtMS: 1500, TookMS: 501, Status: 200, Word: "CAPTURED", Tries: 2, Explain: "payment pay_1\n <script>alert(1)</script>"}},
		Series: []Series{{Plot: "Throughput", Name: "paid", Unit: "/s", Points: []Point{{0, 1}, {30, 610}, {60, 5}}},
			{Plot: "Memory", Name: "router \"1\"", Unit: "MiB", Points: []Point{{0, 40}, {60, 41}}}},
		Growth: []Growth{{Plot: "Memory", Name: "router 1", Unit: "MiB", Early: 40, Late: 41, Flat: true}},
		Books:  &BooksRow{Shards: 4, Payments: 10, Attempts: 20, Entries: 9, Events: 40, Witnessed: 10},
		Audit:  Audited{Payments: "p", Balances: "b"}}
}

// TestVerdict plants each reason to fail, and wants it named.
func TestVerdict(t *testing.T) {
	strict := Bounds{MinPeak: 600, MaxOwnP99: 100 * time.Millisecond, Flat: true, Keeper: "simulators"}
	for _, tc := range []struct {
		name  string
		plant func(*Report)
		say   string // "" = PASS
	}{
		{"all is well", func(*Report) {}, ""},
		{"buyers may take their time", func(r *Report) { r.Books.Unknown, r.Audit.Buyers = 3, 3 }, ""},
		{"double charge in the books", func(r *Report) { r.Books.DoubleCharges = 1 }, "1 double charges"},
		{"double charge of an order", func(r *Report) { r.Audit.Doubles = 2 }, "2 double charges"},
		{"lost in the books", func(r *Report) { r.Books.Lost = 1 }, "1 payments lost"},
		{"acknowledged and lost", func(r *Report) { r.Audit.Lost = 1 }, "1 payments lost"},
		{"unbalanced", func(r *Report) { r.Books.Unbalanced = 1 }, "1 sums"},
		{"unknown", func(r *Report) { r.Books.Unknown, r.Audit.Buyers = 3, 2 }, "1 attempts are still without an answer"},
		{"findings", func(r *Report) { r.Books.Findings = []string{"L1 here: there"} }, "1 findings"},
		{"contradiction", func(r *Report) { r.Audit.Found = 1 }, "1 contradictions"},
		{"overrun", func(r *Report) { r.Overrun = 1 }, "no room for 1"},
		{"nothing paid", func(r *Report) { r.Paid = 0 }, "no payment was captured"},
		{"no books", func(r *Report) { r.Books = nil }, "nobody looked into the books"},
		{"too slow", func(r *Report) { r.Peak = 599 }, "the peak is 599"},
		{"own share", func(r *Report) { r.PeakOwnP99 = 100.5 }, "our own share"},
		{"leak", func(r *Report) { r.Growth[0].Flat = false }, "Memory of router 1 grew"},
		{"the PSPs' books grow", func(r *Report) { r.Growth[0].Name, r.Growth[0].Flat = "simulators", false }, ""},
		{"their goroutines", func(r *Report) {
			r.Growth[0].Plot, r.Growth[0].Name, r.Growth[0].Flat = "Goroutines", "simulators", false
		}, "Goroutines of simulators grew"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := goodReport()
			tc.plant(r)
			r.Conclude(strict)
			var text bytes.Buffer
			if err := r.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(text.String()), "\n")
			word := map[bool]string{true: "VERDICT PASS ", false: "VERDICT FAIL "}[tc.say == ""]
			if last := lines[len(lines)-1]; last != r.Verdict || !strings.HasPrefix(last, word) || r.Pass != (tc.say == "") {
				t.Errorf("the last line is %q", last)
			}
			if !strings.Contains(strings.Join(r.Failures, "\n"), tc.say) || len(r.Failures) > 1 || !strings.Contains(text.String(), tc.say) {
				t.Errorf("failures %q, want %q", r.Failures, tc.say)
			}
		})
	}
	r := goodReport()
	if r.Conclude(strict); !regexp.MustCompile(`^VERDICT PASS .* peak_pps=610 own_p99_ms=42\.0 limit_pps=900$`).MatchString(r.Verdict) {
		t.Error(r.Verdict)
	}
}

// TestReportSurvivesJSON: what is kept is what was seen.
func TestReportSurvivesJSON(t *testing.T) {
	r := goodReport()
	r.Conclude(Bounds{})
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal(data, &again); err != nil || !reflect.DeepEqual(&again, r) {
		t.Errorf("%v: got %+v\nwant %+v", err, again, r)
	}
}

// TestPageNeedsNothingElse: no script, no file, no address; what came from outside is escaped.
func TestPageNeedsNothingElse(t *testing.T) {
	r := goodReport()
	r.Audit.Findings = []string{"order <b>x</b>"}
	r.Conclude(Bounds{})
	var page bytes.Buffer
	if err := r.WritePage(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, bad := range []string{"<script", "src=", "href=", "http:", "https:", "url(", "@import", "<b>x", "ZgotmplZ", "NaN"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	for _, want := range []string{"a &lt;test&gt;", "prefers-color-scheme:dark", "<svg", "<polyline", "at 5s: kill router 2", "router &#34;1&#34;", "VERDICT PASS", "The ramp came to 900.",
		"not possible here: no Kafka", "61"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(text, `class="fault"`); n != 2 {
		t.Errorf("%d marks of faults, want one in each plot: the fault that could not be made has none", n)
	}
}

func TestCompare(t *testing.T) {
	a, b := goodReport(), goodReport()
	b.Latency[0].P99, b.Peak, b.Audit.Balances = 801, 0, "other"
	a.Conclude(Bounds{})
	b.Conclude(Bounds{})
	var text bytes.Buffer
	if err := Compare(&text, a, b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`authorize p99 ms +400\.5 +801 +\+100\.0 %`, `peak payments/s +610\.5 +0 +-100\.0 %`, `payments: the same`, `final balances: different`} {
		if !regexp.MustCompile(want).MatchString(text.String()) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

func TestAxesEndAtRoundFigures(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, .3: 1, 1: 1, 1.1: 2, 3: 4, 4.1: 5, 6: 10, 610: 1000, 12_000: 20_000} {
		if got := niceCeiling(v); got != want {
			t.Errorf("%v ends at %v, want %v", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", .25: "0.25", 12.34: "12.3", 150.4: "150", 20_000: "20k", 12_500: "12.5k"} {
		if got := figure(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}
