package loadtest

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is all that a run tells, as JSON. Latencies are milliseconds, rates are per second.
type Report struct {
	Title   string        `json:"title"`
	Setting string        `json:"setting"` // the machine and cluster, for people
	Started time.Time     `json:"started"`
	Took    time.Duration `json:"took"`

	Segments []SegmentRow  `json:"segments"`
	Intended int           `json:"intended"` // arrivals that were due
	Overrun  int           `json:"overrun"`  // … for which the generator had no room: the load was not what was asked for
	Sent     int64         `json:"sent"`     // requests, repeats and retries among them
	Answered int           `json:"answered"` // calls that were decided
	Paid     int           `json:"paid"`     // payments whose capture was answered
	Answers  []AnswerCount `json:"answers"`

	Latency       []LatencyRow `json:"latency"`
	GeneratorLate LatencyRow   `json:"generatorLate"`
	OwnShare      []LatencyRow `json:"ownShare"`
	OwnP99        float64      `json:"ownP99Ms"`     // of authorizations, over the whole run
	PeakOwnP99    float64      `json:"peakOwnP99Ms"` // … in the segment that has the peak
	Peak          float64      `json:"peakPps"`      // payments a second over ten seconds
	PeakAt        int          `json:"peakAtSecond"`
	Overload      *OverloadRow `json:"overload,omitempty"`
	Limit         float64      `json:"limitPps,omitempty"` // payments a second before our own share's p99 passed the bound
	LimitNote     string       `json:"limitNote,omitempty"`

	PSPs          []PSPRow   `json:"psps"`
	Faults        []FaultRow `json:"faults"`
	ScrapesFailed int        `json:"scrapesFailed"`
	Slowest       []Slow     `json:"slowest"`
	Series        []Series   `json:"series"`
	Growth        []Growth   `json:"growth"`

	Books    *BooksRow `json:"books,omitempty"` // nil: nobody could look into the shards
	Audit    Audited   `json:"audit"`
	Failures []string  `json:"failures"` // why the verdict is FAIL
	Pass     bool      `json:"pass"`
	Verdict  string    `json:"verdict"`

	Note   string    `json:"note,omitempty"`
	Share  *Share    `json:"share,omitempty"` // nil: made of parts
	Claim  Claim     `json:"claim"`
	Bounds Bounds    `json:"bounds"`          // of the whole run
	Parts  []PartRow `json:"parts,omitempty"` // that the report was made of
	Raw    *Raw      `json:"raw,omitempty"`   // nil: an old report, or one made of parts
}

// PartRow is one of the reports that a report was made of.
type PartRow struct {
	Part     string        `json:"part"`
	After    time.Duration `json:"after"` // the first one began
	Intended int           `json:"intended"`
	Sent     int64         `json:"sent"`
	Answered int           `json:"answered"`
	Paid     int           `json:"paid"`
	Pass     bool          `json:"pass"`
}

// SegmentRow is one stretch of the run.
type SegmentRow struct {
	Segment
	Peak   float64 `json:"peakPps"`
	OwnP99 float64 `json:"ownP99Ms"`
}

// AnswerCount is how often a call ended so. Status 0 is no answer at all.
type AnswerCount struct {
	Op     Op     `json:"op"`
	Status int    `json:"status"`
	Word   string `json:"word"`
	Count  int    `json:"count"`
}

func compareAnswers(a, b AnswerCount) int {
	return cmp.Or(strings.Compare(string(a.Op), string(b.Op)), a.Status-b.Status, strings.Compare(a.Word, b.Word))
}

// LatencyRow are quantiles in milliseconds.
type LatencyRow struct {
	What  string  `json:"what"`
	Count int64   `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
}

// PSPRow is one PSP's part.
type PSPRow struct {
	PSP      string         `json:"psp"`
	Chosen   int            `json:"chosen"`
	Trips    int            `json:"breakerTrips"`
	Outcomes map[string]int `json:"outcomes"`
}

// FaultRow is one line of the fault script and what became of it.
type FaultRow struct {
	Fault
	Result string `json:"result"` // "done", "not possible here: …" or an error
	OK     bool   `json:"ok"`
}

// Slow is one of the slowest calls.
type Slow struct {
	Op      Op     `json:"op"`
	Payment string `json:"payment"`
	AtMS    int64  `json:"at"`
	TookMS  int64  `json:"took"`
	Status  int    `json:"status"`
	Word    string `json:"word"`
	Tries   int    `json:"tries"`
	Explain string `json:"explain,omitempty"`
}

// BooksRow is what a comparison of all books said: payments with attempts, entries, events and the PSPs' own books.
type BooksRow struct {
	Shards, Payments, Attempts, Refunds, Entries, Events, Witnessed int
	Unknown                                                         int // attempts without an answer
	DoubleCharges, Lost, Unbalanced                                 int
	OfRun, CapturedOfRun                                            int   // payments of this run, all its parts together; … of which something is captured
	Seq                                                             int64 // how far the books had come: their logs' numbers added up
	Moving                                                          bool  // they went on while they were read
	Findings                                                        []string
}

// Bounds are what a verdict asks beyond the money; 0 asks nothing.
type Bounds struct {
	MinPeak   float64       `json:"minPeakPps"` // payments a second
	MaxOwnP99 time.Duration `json:"maxOwnP99"`  // of authorizations, in the segment that has the peak
	Flat      bool          `json:"flat"`       // memory, goroutines, connections and lag must not grow
	Keeper    string        `json:"keeper"`     // process whose memory may: it keeps the simulated PSPs' books and the topic

	MinKept     float64       `json:"minKeptPercent"` // of the authorizations before an overload, in percent, that it must leave
	MaxRecovery time.Duration `json:"maxRecovery"`    // from the end of an overload until all is as before
}

// Notes of parts.
const (
	notePart   = "This is %s: the books, the PSPs and our own share are those of the whole cluster. How much the parts did together, loadtest merge says."
	noteMoving = " Others still sent while the books were read: here only this part's own payments are compared with them."
)

// Conclude decides the verdict. Of a part it does not ask what only the whole run can do, nor judge books that others still moved:
// Merge does.
func (r *Report) Conclude(b Bounds) {
	r.Bounds = b
	books := r.judged()
	if r.Share.isPart() {
		b.MinPeak, b.MinKept, b.MaxOwnP99 = 0, 0, 0
		r.Note = fmt.Sprintf(notePart, r.Share)
		if books != r.Books {
			r.Note += noteMoving
		}
	}
	fail := func(bad bool, format string, args ...any) {
		if bad {
			r.Failures = append(r.Failures, fmt.Sprintf(format, args...))
		}
	}
	lost, double := r.Audit.Lost, r.Audit.Doubles
	unknown, unbalanced := 0, 0
	fail(r.Books == nil, "nobody looked into the books: name the shard map")
	if books != nil {
		lost, double = max(lost, books.Lost), max(double, books.DoubleCharges)
		unknown, unbalanced = max(0, books.Unknown-r.Audit.Buyers), books.Unbalanced
		fail(len(books.Findings) > 0, "%d findings in the books", len(books.Findings))
	}
	fail(double > 0, "%d double charges", double)
	fail(lost > 0, "%d payments lost", lost)
	fail(unbalanced > 0, "%d sums of the ledger do not balance", unbalanced)
	fail(unknown > 0, "%d attempts are still without an answer", unknown)
	fail(r.Audit.Found > 0, "%d contradictions between the API's answers and the books", r.Audit.Found)
	fail(r.Overrun > 0, "the generator had no room for %d arrivals", r.Overrun)
	fail(r.Paid == 0 && !r.Share.isPart(), "no payment was captured")
	fail(b.MinPeak > 0 && r.Peak < b.MinPeak, "the peak is %.0f payments/s, want %.0f", r.Peak, b.MinPeak)
	own := cmp.Or(r.PeakOwnP99, r.OwnP99)
	fail(b.MaxOwnP99 > 0 && own > b.MaxOwnP99.Seconds()*1000, "our own share of an authorization is %.0f ms at p99, want %s", own, b.MaxOwnP99)
	for _, g := range r.Growth {
		keeps := g.Plot == "Memory" && g.Name == b.Keeper
		fail(b.Flat && !g.Flat && !keeps, "%s of %s grew from %.1f to %.1f %s", g.Plot, g.Name, g.Early, g.Late, g.Unit)
	}
	if r.Overload != nil {
		r.Failures = append(r.Failures, r.Overload.failures(b)...)
	}
	r.Pass = len(r.Failures) == 0
	r.Verdict = fmt.Sprintf("VERDICT %s intended=%d answered=%d paid=%d double_charges=%d lost=%d unbalanced=%d unknown=%d peak_pps=%.0f own_p99_ms=%.1f",
		wordOf(r.Pass), r.Intended, r.Answered, r.Paid, double, lost, unbalanced, unknown, r.Peak, own)
	if r.Limit > 0 {
		r.Verdict += fmt.Sprintf(" limit_pps=%.0f", r.Limit)
	}
	if r.Overload != nil {
		r.Verdict += fmt.Sprintf(" kept_percent=%.0f recovery_s=%.0f", r.Overload.kept(), r.Overload.Recovery)
	}
}

// judged are the books that this report can judge; nil: nobody looked, or other parts still moved what is compared.
func (r *Report) judged() *BooksRow {
	if r.Share.isPart() && r.Books != nil && r.Books.Moving {
		return nil
	}
	return r.Books
}

// WriteText writes the report for a terminal. The last line is the verdict.
func (r *Report) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "%s\n%s\n%s, took %s\n\n", r.Title, r.Setting, r.Started.UTC().Format(time.RFC3339), r.Took.Round(time.Second))
	fmt.Fprintf(w, "intended %d\tsent %d\tanswered %d\tpaid %d\n\n", r.Intended, r.Sent, r.Answered, r.Paid)
	for _, t := range r.tables() {
		if len(t.Rows) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\n  %s\n", t.Title, strings.Join(t.Head, "\t"))
		for _, row := range t.Rows {
			fmt.Fprintf(w, "  %s\n", strings.Join(row, "\t"))
		}
		fmt.Fprintln(w)
	}
	for _, note := range []string{r.LimitNote, r.Note} {
		if note != "" {
			fmt.Fprintf(w, "%s\n\n", note)
		}
	}
	for _, line := range slices.Concat(r.Failures, r.findings()) {
		fmt.Fprintf(w, "! %s\n", line)
	}
	fmt.Fprintln(w, r.Verdict)
	return w.Flush()
}

// shownFindings bounds what people must read.
const shownFindings = 20

func (r *Report) findings() []string {
	all := slices.Clone(r.Audit.Findings)
	if b := r.judged(); b != nil {
		all = append(all, b.Findings...)
	}
	return all[:min(len(all), shownFindings)]
}

// table is a part of the report as rows, for both text and page.
type table struct {
	Title string
	Head  []string
	Rows  [][]string
}

func (r *Report) tables() []table {
	inAll := latencyTable("Latency in all, from the intended start (ms)", slices.Concat(r.Latency, []LatencyRow{r.GeneratorLate}))
	return []table{r.partTable(), r.segmentTable(), r.overloadTable(), r.shedTable(), r.booksTable(), r.answerTable(), inAll,
		latencyTable("Our own share, without the PSP (ms)", r.OwnShare), r.pspTable(), r.faultTable(), r.growthTable(), r.slowTable()}
}

func (r *Report) segmentTable() table {
	t := table{Title: "Profile", Head: []string{"segment", "offered at most/s", "length", "peak payments/s", "own share p99 ms"}}
	for _, s := range r.Segments {
		t.Rows = append(t.Rows, []string{string(s.Profile), fmt.Sprintf("%.0f", s.Rate), s.Duration.String(),
			fmt.Sprintf("%.1f", s.Peak), fmt.Sprintf("%.1f", s.OwnP99)})
	}
	return t
}

func (r *Report) partTable() table {
	t := table{Title: "Parts", Head: []string{"part", "began after", "intended", "sent", "answered", "paid", "verdict"}}
	for _, p := range r.Parts {
		t.Rows = append(t.Rows, []string{p.Part, p.After.Round(time.Millisecond).String(), fmt.Sprint(p.Intended), fmt.Sprint(p.Sent),
			fmt.Sprint(p.Answered), fmt.Sprint(p.Paid), wordOf(p.Pass)})
	}
	return t
}

func wordOf(pass bool) string {
	if pass {
		return "PASS"
	}
	return "FAIL"
}

func (r *Report) booksTable() table {
	t := table{Title: "Money", Head: []string{"", "count"}}
	row := func(what string, n any) { t.Rows = append(t.Rows, []string{what, fmt.Sprint(n)}) }
	if b := r.judged(); b != nil {
		row("shards", b.Shards)
		row("payments", b.Payments)
		row("attempts", b.Attempts)
		row("entries", b.Entries)
		row("events", b.Events)
		row("payments in the PSPs' books", b.Witnessed)
		row("double charges", max(b.DoubleCharges, r.Audit.Doubles))
		row("lost", max(b.Lost, r.Audit.Lost))
		row("sums that do not balance", b.Unbalanced)
		row("attempts without an answer", max(0, b.Unknown-r.Audit.Buyers))
		row("payments that wait for their buyer", r.Audit.Buyers)
		if len(r.Parts) > 0 {
			row("payments of this run: asked for, named by the API", fmt.Sprintf("%d, %d", r.Claim.Asked, r.Claim.Named))
			row("… in the books", b.OfRun)
			row("captures of this run: asked for, acknowledged", fmt.Sprintf("%d, %d", r.Claim.CapturesAsked, r.Claim.Captured))
			row("… payments with captures in the books", b.CapturedOfRun)
		}
	}
	row("contradictions between API and books", r.Audit.Found)
	row("payments digest", r.Audit.Payments)
	row("balances digest", r.Audit.Balances)
	return t
}

func (r *Report) answerTable() table {
	t := table{Title: "Answers", Head: []string{"call", "HTTP", "says", "count"}}
	for _, a := range r.Answers {
		t.Rows = append(t.Rows, []string{string(a.Op), fmt.Sprint(a.Status), a.Word, fmt.Sprint(a.Count)})
	}
	return t
}

func latencyTable(title string, rows []LatencyRow) table {
	t := table{Title: title, Head: []string{"call", "count", "p50", "p90", "p99", "p99.9", "max"}}
	for _, l := range rows {
		row := []string{l.What, fmt.Sprint(l.Count)}
		for _, ms := range []float64{l.P50, l.P90, l.P99, l.P999, l.Max} {
			row = append(row, fmt.Sprintf("%.1f", ms))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (r *Report) pspTable() table {
	t := table{Title: "PSPs", Head: []string{"psp", "chosen", "share", "breaker trips", "outcomes of calls"}}
	total := 0
	for _, p := range r.PSPs {
		total += p.Chosen
	}
	for _, p := range r.PSPs {
		var outcomes []string
		for name, n := range p.Outcomes {
			outcomes = append(outcomes, fmt.Sprintf("%s %d", strings.ToLower(name), n))
		}
		slices.Sort(outcomes)
		t.Rows = append(t.Rows, []string{p.PSP, fmt.Sprint(p.Chosen), fmt.Sprintf("%.1f %%", 100*float64(p.Chosen)/float64(max(total, 1))),
			fmt.Sprint(p.Trips), strings.Join(outcomes, ", ")})
	}
	return t
}

func (r *Report) faultTable() table {
	t := table{Title: "Faults", Head: []string{"fault", "result"}}
	for _, f := range r.Faults {
		t.Rows = append(t.Rows, []string{f.String(), f.Result})
	}
	return t
}

func (r *Report) growthTable() table {
	t := table{Title: "Growth, second quarter to last", Head: []string{"what", "process", "early", "late", "flat"}}
	for _, g := range r.Growth {
		t.Rows = append(t.Rows, []string{g.Plot, g.Name, fmt.Sprintf("%.1f %s", g.Early, g.Unit), fmt.Sprintf("%.1f %s", g.Late, g.Unit),
			fmt.Sprint(g.Flat)})
	}
	return t
}

func (r *Report) slowTable() table {
	t := table{Title: "Slowest calls", Head: []string{"call", "payment", "at s", "took ms", "HTTP", "says", "tries"}}
	for _, s := range r.Slowest {
		t.Rows = append(t.Rows, []string{string(s.Op), s.Payment, fmt.Sprintf("%.1f", float64(s.AtMS)/1000), fmt.Sprint(s.TookMS),
			fmt.Sprint(s.Status), s.Word, fmt.Sprint(s.Tries)})
	}
	return t
}
