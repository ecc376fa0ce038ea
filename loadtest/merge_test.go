package loadtest

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// sharedRun is a run of n parts in which all is well, as it is read from files. Part k begins k-1 seconds after the first, so that
// its second s is the run's s+k-1. whole is the meter of one generator that did it all.
func sharedRun(t *testing.T, n int, plant func(part int, r *Report)) (parts []Kept, whole *Meter) {
	t.Helper()
	start := time.Unix(1_700_000_000, 0).UTC()
	segments := []Segment{{Profile: Steady, Rate: 9, Duration: 20 * time.Second}, {Profile: Steady, Rate: 9, Duration: 20 * time.Second}}
	whole = NewMeter(start, 40*time.Second)
	random := rand.New(rand.NewPCG(1, 2))
	const each = 120 // arrivals of a part
	for k := 1; k <= n; k++ {
		begin := start.Add(time.Duration(k-1) * time.Second)
		m := NewMeter(begin, 40*time.Second)
		for a := range each {
			at := begin.Add(time.Duration(a) * 40 * time.Second / each)
			took := time.Duration(random.IntN(1000*k*k)) * time.Millisecond // later parts are slower
			for _, meter := range []*Meter{m, whole} {
				meter.Intend(at)
				meter.Done(Timing{Op: Authorize, Payment: fmt.Sprintf("pay_%d_%d", k, a), Status: 201, Word: "AUTHORIZED", Tries: 1, Intended: at, Sent: at.Add(time.Millisecond), Done: at.Add(took)})
				meter.Paid(at.Add(took))
			}
		}
		r := &Report{Title: "shared", Setting: fmt.Sprintf("seed 1, part %d of %d, a cluster that was there already", k, n), Started: begin, Took: 50 * time.Second, Sent: each + 5,
			Share: &Share{Part: k, Parts: n, Trace: "generated", Seed: 1, Profile: ProfileText(segments), Prefix: "r1-", Arrivals: n * each},
			Claim: Claim{Asked: each, Named: each, CapturesAsked: each, Captured: each - 10},
			Books: &BooksRow{Shards: 2, Payments: n*each + 7, Attempts: 900, Entries: 300, Events: 5000, Witnessed: 360, Seq: 5000, OfRun: n * each, CapturedOfRun: n*each - 5},
			Audit: Audited{Payments: "p", Balances: "b", House: map[string]string{"commission_revenue EUR": "-10"}}}
		m.Measured(r)
		m.Segmented(r, segments, NewProbe(nil, nil, begin, nil), false)
		own := Histogram{Bounds: []float64{.01, .1, math.Inf(1)}, Counts: []uint64{90, 100, 100}}
		r.Raw.Processes = []ProcessRow{{URL: "http://r1", Name: "router 1", Starts: []float64{1}, Own: map[string]Histogram{authorizeRoute: own}, Segments: []Histogram{own, own},
			PSPs: []PSPRow{{PSP: "stripe", Chosen: 100, Trips: 1, Outcomes: map[string]int{"APPROVED": 99}}}}}
		r.Series = append(r.Series, Series{Plot: "Memory", Name: "router 1", Unit: "MiB", Points: []Point{{Seconds: 5, Value: 40}}}, Series{Plot: "Lag", Name: "inbox, oldest", Points: []Point{{Seconds: 5, Value: float64(k)}}})
		r.Faults = []FaultRow{{Fault: Fault{At: time.Duration(10-k) * time.Second, Kind: KillRouter, Number: 2}, Result: "done", OK: true}}
		r.Bounds = Bounds{}
		if plant != nil {
			plant(k, r)
		}
		r.Conclude(r.Bounds)
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		again := &Report{}
		if err := json.Unmarshal(data, again); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, Kept{Name: fmt.Sprintf("part-%d.json", k), Report: again})
	}
	return parts, whole
}

func merged(t *testing.T, parts []Kept) *Report {
	t.Helper()
	r, err := Merge(parts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMergedIsAsOneGenerator: the report of three that shared a trace has the figures of one that did it all.
func TestMergedIsAsOneGenerator(t *testing.T) {
	parts, whole := sharedRun(t, 3, nil)
	slices.Reverse(parts) // they may be named in any order
	got, want := merged(t, parts), &Report{}
	whole.Measured(want)
	if !reflect.DeepEqual(got.Latency, want.Latency) || got.GeneratorLate != want.GeneratorLate {
		t.Errorf("latency %+v\nwant %+v", got.Latency, want.Latency)
	}
	if got.Intended != want.Intended || got.Answered != want.Answered || got.Paid != want.Paid || got.Sent != 3*125 || !reflect.DeepEqual(got.Answers, want.Answers) {
		t.Errorf("intended %d, answered %d, paid %d, sent %d, answers %+v", got.Intended, got.Answered, got.Paid, got.Sent, got.Answers)
	}
	if got.Segments[0].Peak == 0 || got.Segments[0].Peak <= parts[0].Segments[0].Peak*2 || got.Peak != max(got.Segments[0].Peak, got.Segments[1].Peak) {
		t.Errorf("peak %.1f of %+v; a part alone %+v", got.Peak, got.Segments, parts[0].Segments)
	}
	whole.Segmented(want, []Segment{{Duration: 20 * time.Second}, {Duration: 22 * time.Second}}, NewProbe(nil, nil, whole.start, nil), false)
	if got.Peak != want.Peak || got.PeakAt != want.PeakAt || got.Segments[1].Peak != want.Segments[1].Peak || got.Segments[1].Duration != 20*time.Second {
		t.Errorf("peak %.1f at %d of %+v\nwant %.1f at %d of %+v", got.Peak, got.PeakAt, got.Segments, want.Peak, want.PeakAt, want.Segments)
	}
	for _, s := range want.Series {
		if !slices.ContainsFunc(got.Series, func(g Series) bool { return reflect.DeepEqual(g, s) }) {
			t.Errorf("no line %q of %q as %+v", s.Name, s.Plot, s.Points)
		}
	}
	if !reflect.DeepEqual(got.Slowest, want.Slowest) {
		t.Errorf("slowest %+v\nwant %+v", got.Slowest, want.Slowest)
	}
	var faults []string
	for _, f := range got.Faults {
		faults = append(faults, fmt.Sprintf("%s %s", f.At, f.Result))
	}
	if text := strings.Join(faults, ", "); text != "9s part 1/3: done, 9s part 2/3: done, 9s part 3/3: done" {
		t.Errorf("faults on the common time: %s", text)
	}
	if !got.Pass || got.Took != 52*time.Second || !got.Started.Equal(whole.start) || len(got.Parts) != 3 || got.Parts[2].After != 2*time.Second || strings.Contains(got.Setting, "part 1 of") {
		t.Errorf("%s took %s from %s: %q, parts %+v", got.Verdict, got.Took, got.Started, got.Setting, got.Parts)
	}
	var page, text bytes.Buffer
	if err := errors.Join(got.WritePage(&page), got.WriteText(&text)); err != nil || !strings.Contains(page.String(), "part 3/3") || !strings.Contains(text.String(), "part 3/3") {
		t.Errorf("%v: the parts are not shown", err)
	}
}

// TestMergedQuantileIsNoAverage: nine tenths of the calls are of the fast part, so the median is its own.
func TestMergedQuantileIsNoAverage(t *testing.T) {
	parts, _ := sharedRun(t, 2, nil)
	for n, of := range []struct {
		calls int
		took  time.Duration
	}{{900, 10 * time.Millisecond}, {100, time.Second}} {
		h := newHistogram(digits)
		for range of.calls {
			record(h, of.took)
		}
		parts[n].Raw.Calls["authorize"] = kept{h}
	}
	if got := rowOf(merged(t, parts), "authorize"); math.Round(got.P50) != 10 || math.Round(got.P99/10) != 100 || got.Count != 1000 {
		t.Errorf("%+v, want a median of 10 ms and a p99 of 1 s", got)
	}
}

// TestMergeRefuses what are not all parts of one run, and names what is wrong.
func TestMergeRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		plant  func(parts []Kept) []Kept
		report string
		field  string
	}{
		{"nothing", func([]Kept) []Kept { return nil }, "", "reports"},
		{"a part is missing", func(p []Kept) []Kept { return p[:2] }, "", "part"},
		{"a part twice", func(p []Kept) []Kept { return append(p, p[1]) }, "part-2.json", "part"},
		{"an old report", func(p []Kept) []Kept { p[1].Raw = nil; return p }, "part-2.json", "histograms"},
		{"… which knows no parts", func(p []Kept) []Kept { p[0].Share = nil; return p }, "part-1.json", "histograms"},
		{"a whole run", func(p []Kept) []Kept { p[2].Share.Part, p[2].Share.Parts = 1, 1; return p }, "part-3.json", "part"},
		{"merged before", func(p []Kept) []Kept { p[0].Parts = []PartRow{{Part: "part 1/3"}}; return p }, "part-1.json", "part"},
		{"a part beyond the last", func(p []Kept) []Kept { p[2].Share.Part = 4; return p }, "part-3.json", "part"},
		{"other parts", func(p []Kept) []Kept { p[1].Share.Parts = 4; return p }, "part-2.json", "parts"},
		{"another trace", func(p []Kept) []Kept { p[1].Share.Trace = "sha256:00"; return p }, "part-2.json", "trace"},
		{"another seed", func(p []Kept) []Kept { p[2].Share.Seed = 2; return p }, "part-3.json", "seed"},
		{"another profile", func(p []Kept) []Kept { p[1].Share.Profile = "soak:9:1h"; return p }, "part-2.json", "profile"},
		{"other habits", func(p []Kept) []Kept { p[1].Share.Traffic = "whale"; return p }, "part-2.json", "traffic"},
		{"another run's orders", func(p []Kept) []Kept { p[1].Share.Prefix = "r2-"; return p }, "part-2.json", "prefix"},
		{"another setting", func(p []Kept) []Kept { p[1].Share.Setting = "impatient"; return p }, "part-2.json", "setting"},
		{"another interval", func(p []Kept) []Kept { p[1].Raw.Interval = time.Minute; return p }, "part-2.json", "interval"},
		{"another length", func(p []Kept) []Kept { p[1].Share.Arrivals++; return p }, "part-2.json", "arrivals"},
		{"other segments", func(p []Kept) []Kept { p[1].Segments = p[1].Segments[:1]; return p }, "part-2.json", "segments"},
		{"another day", func(p []Kept) []Kept { p[1].Started = p[1].Started.Add(24 * time.Hour); return p }, "part-2.json", "started"},
		{"routers of another version", func(p []Kept) []Kept {
			p[1].Raw.Processes[0].Starts = []float64{2}
			p[1].Raw.Processes[0].Own = map[string]Histogram{authorizeRoute: {Bounds: []float64{7}, Counts: []uint64{7}}}
			return p
		}, "part-2.json", "own share"},
	} {
		parts, _ := sharedRun(t, 3, nil)
		r, err := Merge(tc.plant(parts))
		var refused *MergeError
		if !errors.As(err, &refused) || refused.Report != tc.report || refused.Field != tc.field || refused.Remedy == "" || r != nil {
			t.Errorf("%s: %v, want one of %q about %q", tc.name, err, tc.field, tc.report)
		}
	}
}

// unpaid are the same seconds without a payment.
func unpaid(s seconds) (out seconds) {
	for _, one := range s {
		one.paid = 0
		out = append(out, one)
	}
	return out
}

// TestMergeFindsWrongCounts plants one wrong figure, or one bound that the parts break together, at a time.
func TestMergeFindsWrongCounts(t *testing.T) {
	for _, tc := range []struct {
		name  string
		plant func(second *Report) // the second of two parts
		say   string               // "" = PASS
	}{
		{"nothing", func(*Report) {}, ""},
		{"paid", func(r *Report) { r.Paid += 50 }, "part 2/2 says that 170 were paid, second by second 120 were"},
		{"intended", func(r *Report) { r.Intended-- }, "part 2/2 intended 119 arrivals, its part of the trace has 120"},
		{"seconds", func(r *Report) { r.Raw.Seconds[3].intended++ }, "the parts intended 241 arrivals, the trace has 240"},
		{"answered", func(r *Report) { r.Answered++ }, "were answered, second by second"},
		{"measured", func(r *Report) { r.Latency[0].Count++ }, `says that 121 times were measured of "all", its histogram has 120`},
		{"late", func(r *Report) { r.GeneratorLate.Count-- }, `"generator late by"`},
		{"sent", func(r *Report) { r.Sent = 100 }, "asked for 120 payments with 100 requests"},
		{"named", func(r *Report) { r.Claim.Named = 121 }, "the API named 121 to it"},
		{"captured", func(r *Report) { r.Claim.Captured = 125 }, "of 125 a capture was acknowledged"},
		{"asked", func(r *Report) { r.Claim.Asked, r.Claim.Named = 90, 90 }, "the books have 240 payments of this run, its parts asked for 210"},
		{"captures asked", func(r *Report) { r.Claim.CapturesAsked = 90 }, "captures of 235 payments of this run, its parts asked for 210"},
		{"books of both: payments", func(r *Report) { r.Books.OfRun, r.Books.Seq = 230, 5001 }, "have 230 payments of this run, the API named 240"},
		{"books of both: captures", func(r *Report) { r.Books.CapturedOfRun, r.Books.Seq = 219, 5001 }, "captures of 219 payments of this run, the API acknowledged 220"},
		{"books before the end", func(r *Report) { r.Books.Seq-- }, "part 2/2 read the books at step 4999, when they were not final"},
		{"books after the first's", func(r *Report) { r.Books.Seq++ }, "part 1/2 read the books at step 5000, when they were not final"},
		{"no captures of its own", func(r *Report) { r.Paid, r.Raw.Seconds, r.Claim.Captured = 0, unpaid(r.Raw.Seconds), 0 }, ""},
		{"other books", func(r *Report) { r.Books.Payments++ }, "part 2/2 and part 1/2 read other books"},
		{"other payments", func(r *Report) { r.Audit.Payments = "q" }, "read other books"},
		{"other balances", func(r *Report) { r.Audit.House["commission_revenue EUR"] = "-11" }, "read other books"},
		{"a part's verdict", func(r *Report) { r.Overrun = 3 }, "part 2/2: the generator had no room for 3 arrivals"},
		{"a verdict without a reason", func(r *Report) { r.Pass = false }, "part 2/2: its verdict is FAIL"},
		{"a part's loss", func(r *Report) { r.Audit.Lost = 1 }, "\n1 payments lost"},
		{"a part's double charge", func(r *Report) { r.Audit.Doubles = 1 }, "\n1 double charges"},
		{"a part's contradictions", func(r *Report) { r.Audit.Found, r.Audit.Findings = 1, []string{"pay_1"} }, "\n1 contradictions"},
		{"findings", func(r *Report) { r.Books.Findings, r.Books.Seq = []string{"L1 here: there"}, 5001 }, "1 findings in the books"},
		{"double charges", func(r *Report) { r.Books.DoubleCharges, r.Books.Seq = 2, 5001 }, "2 double charges"},
		{"nobody's books", func(r *Report) { r.Books = nil }, "part 2/2: nobody looked into the books"},
		{"the peak of both", func(r *Report) { r.Bounds.MinPeak = 7 }, "the peak is 6 payments/s, want 7"},
		{"a peak that both have", func(r *Report) { r.Bounds.MinPeak = 5 }, ""},
		{"our own share", func(r *Report) { r.Bounds.MaxOwnP99 = 50 * time.Millisecond }, "our own share"},
	} {
		parts, _ := sharedRun(t, 2, func(part int, r *Report) {
			if part == 2 && tc.name != "a verdict without a reason" {
				tc.plant(r)
			}
		})
		if tc.name == "a verdict without a reason" {
			tc.plant(parts[1].Report)
		}
		r := merged(t, parts)
		all := strings.Join(r.Failures, "\n")
		if r.Pass != (tc.say == "") || !strings.Contains(all, tc.say) || strings.HasPrefix(r.Verdict, "VERDICT PASS") != r.Pass {
			t.Errorf("%s: %s\n%s\nwant %q", tc.name, r.Verdict, all, tc.say)
		}
	}
}

// TestBooksThatOthersMove are judged by no part, and fail the merge: that of a part which read on to what is wrong as well.
func TestBooksThatOthersMove(t *testing.T) {
	early := func(r *Report) {
		r.Books = &BooksRow{Shards: 2, Payments: 100, Unknown: 4, Lost: 1, DoubleCharges: 1, Unbalanced: 1, Seq: 6000, OfRun: 90, Moving: true, Findings: []string{"P3 half a step"}}
	}
	parts, _ := sharedRun(t, 2, func(part int, r *Report) {
		if part == 1 {
			early(r)
			r.Bounds.MinPeak = 5 // which no part has alone
		}
	})
	var text bytes.Buffer
	if err := parts[0].WriteText(&text); err != nil || !parts[0].Pass || !strings.Contains(parts[0].Verdict, "double_charges=0 lost=0 unbalanced=0 unknown=0") {
		t.Errorf("%v: %s %v", err, parts[0].Verdict, parts[0].Failures)
	}
	if !strings.Contains(text.String(), "Others still sent") || strings.Contains(text.String(), "half a step") {
		t.Errorf("the part says\n%s", text.String())
	}
	if strings.Contains(parts[1].Note, "Others still sent") || !strings.Contains(parts[1].Note, "part 2/2") {
		t.Errorf("a part whose books stood still says %q", parts[1].Note)
	}
	if r := merged(t, parts); r.Pass || !strings.Contains(strings.Join(r.Failures, "\n"), "part 1/2 read the books at step 6000, when they were not final") {
		t.Errorf("%s %v, books %+v", r.Verdict, r.Failures, r.Books)
	}
	own := parts[0].Report
	own.Share.Parts, own.Failures = 1, nil // nobody else is known to send: these books are its own
	if own.Conclude(Bounds{}); own.Pass {
		t.Error("a whole run with such books passes")
	}
	parts, _ = sharedRun(t, 2, func(_ int, r *Report) { early(r) })
	if r := merged(t, parts); r.Pass || !strings.Contains(strings.Join(r.Failures, "\n"), "not final") {
		t.Errorf("%s %v", r.Verdict, r.Failures)
	}
}

// TestProcessesCountOnce: what several parts see of one process is not added up; what they see of several is.
func TestProcessesCountOnce(t *testing.T) {
	row := func(url string, calls uint64, starts ...float64) ProcessRow {
		h := Histogram{Bounds: []float64{.01, math.Inf(1)}, Counts: []uint64{calls, calls}}
		return ProcessRow{URL: url, Name: "router 1", Starts: starts, Own: map[string]Histogram{authorizeRoute: h}, Segments: []Histogram{h},
			PSPs: []PSPRow{{PSP: "stripe", Chosen: int(calls), Outcomes: map[string]int{"APPROVED": int(calls)}}}}
	}
	for _, tc := range []struct {
		name string
		a, b []ProcessRow
		want int
	}{
		{"one router", []ProcessRow{row("http://r", 100, 1)}, []ProcessRow{row("http://r", 90, 1)}, 100},
		{"… of which the other saw more", []ProcessRow{row("http://r", 90, 1)}, []ProcessRow{row("http://r", 100, 1)}, 100},
		{"… that came back", []ProcessRow{row("http://r", 100, 1, 2)}, []ProcessRow{row("http://r", 40, 2)}, 100},
		{"… that says nothing", []ProcessRow{row("http://r", 100)}, []ProcessRow{row("http://r", 90)}, 100},
		{"a router each", []ProcessRow{row("http://r", 100, 1)}, []ProcessRow{row("http://s", 90, 2)}, 190},
		{"one address on two machines", []ProcessRow{row("http://127.0.0.1", 100, 1)}, []ProcessRow{row("http://127.0.0.1", 90, 2)}, 190},
		{"two addresses of one router", []ProcessRow{row("http://localhost", 100, 1)}, []ProcessRow{row("http://10.0.0.1", 90, 1)}, 100},
		{"two routers in one process", []ProcessRow{row("http://r", 100, 1), row("http://s", 50, 1)}, []ProcessRow{row("http://s", 60, 1), row("http://r", 90, 1)}, 160},
	} {
		parts, _ := sharedRun(t, 2, nil)
		parts[0].Raw.Processes, parts[1].Raw.Processes = tc.a, tc.b
		r := merged(t, parts)
		if len(r.OwnShare) != 1 || r.OwnShare[0].Count != int64(tc.want) || r.PSPs[0].Chosen != tc.want || r.PSPs[0].Outcomes["APPROVED"] != tc.want || r.Segments[0].OwnP99 == 0 {
			t.Errorf("%s: own share %+v, PSPs %+v, want %d", tc.name, r.OwnShare, r.PSPs, tc.want)
		}
	}
}

// TestAThirdPartKnowsTheProcess: one that came back is the same for a part that saw only its second life, whoever saw most of it.
func TestAThirdPartKnowsTheProcess(t *testing.T) {
	parts, _ := sharedRun(t, 3, nil)
	for n, starts := range [][]float64{{1, 2}, {1}, {2}} {
		p := &parts[n].Raw.Processes[0]
		p.Starts = starts
		if h := p.Own[authorizeRoute]; n == 1 {
			p.Own[authorizeRoute] = Histogram{Bounds: h.Bounds, Counts: []uint64{100, 200, 200}}
		}
	}
	if r := merged(t, parts); len(r.OwnShare) != 1 || r.OwnShare[0].Count != 200 {
		t.Errorf("own share %+v, want that of one process", r.OwnShare)
	}
}

// TestWhatAllPartsSawIsSaidOnce: each looks for double charges of the whole run, and none judges what all of them load.
func TestWhatAllPartsSawIsSaidOnce(t *testing.T) {
	parts, _ := sharedRun(t, 2, func(_ int, r *Report) {
		r.Audit.Doubles, r.OwnP99, r.Bounds = 1, 90, Bounds{MaxOwnP99: 50 * time.Millisecond, MinPeak: 7}
	})
	r := merged(t, parts)
	all := strings.Join(r.Failures, "\n")
	if r.Audit.Doubles != 1 || strings.Count(all, "our own share") != 1 || strings.Count(all, "the peak is") != 1 {
		t.Errorf("%d double charges\n%s", r.Audit.Doubles, all)
	}
}

// TestSecondsAreBounded: a small file cannot unpack to more than the longest run has.
func TestSecondsAreBounded(t *testing.T) {
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	if _, err := w.Write(make([]byte, maxSecondBytes+5)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text := base64.StdEncoding.AppendEncode(nil, packed.Bytes())
	var s seconds
	if err := s.UnmarshalText(text); err == nil || !strings.Contains(err.Error(), "unpack to more than") {
		t.Errorf("%d bytes of text are %d seconds: %v", len(text), len(s), err)
	}
}

// TestPlotsOfProcesses: a process has one line; what cannot be added up has one of each part, unless one part saw all.
func TestPlotsOfProcesses(t *testing.T) {
	lines := func(parts []Kept) string {
		var out []string
		for _, s := range merged(t, parts).Series {
			if s.Plot == "Memory" || s.Plot == "Lag" {
				out = append(out, fmt.Sprintf("%s %s %v", s.Plot, s.Name, s.Points))
			}
		}
		return strings.Join(out, "; ")
	}
	parts, _ := sharedRun(t, 2, nil)
	if got := lines(parts); got != "Lag inbox, oldest [{5 1}]; Memory router 1 [{5 40}]" {
		t.Errorf("of one router: %s", got)
	}
	parts[1].Raw.Processes[0].Starts = []float64{2}
	if got := lines(parts); got != "Lag inbox, oldest of part 1/2 [{5 1}]; Lag inbox, oldest of part 2/2 [{6 2}]; Memory router 1 [{5 40}]; Memory router 1 of part 2/2 [{6 40}]" {
		t.Errorf("of a router each: %s", got)
	}
}

// TestMergedOverload: throughput is recomputed, the recovery is the last one that was seen, what was turned away adds up.
func TestMergedOverload(t *testing.T) {
	run := func(recovery float64) *Report {
		parts, _ := sharedRun(t, 2, func(part int, r *Report) {
			r.Segments = append(r.Segments, r.Segments[1])
			r.Bounds.MinKept = 10
			r.Overload = &OverloadRow{Recovery: float64(part), Shed: []ShedRow{{Op: Authorize, Answers: 5 * part, ForGood: part}}}
			if part == 2 {
				r.Overload.Recovery = recovery
			}
		})
		return merged(t, parts)
	}
	r := run(2)
	o := r.Overload
	if o == nil || !r.Pass || o.Recovery != 2 || o.Before < 5 || o.Offered < 5 || o.OwnBefore == 0 || !slices.Equal(o.Shed, []ShedRow{{Op: Authorize, Answers: 15, ForGood: 3}}) {
		t.Errorf("%s %v: %+v", r.Verdict, r.Failures, o)
	}
	if got := run(-1).Overload.Recovery; got >= 0 {
		t.Errorf("one part saw no recovery, the merge one after %.0f s", got)
	}
}
