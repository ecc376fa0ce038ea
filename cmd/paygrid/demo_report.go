package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"text/tabwriter"
	"time"

	"paygrid/ledger"
	"paygrid/loadtest"
	"paygrid/payment"
)

// demoReport is what a demo found. Money is in minor units, latency in milliseconds.
type demoReport struct {
	Pass     bool     `json:"pass"`
	Verdict  string   `json:"verdict"`
	Setting  string   `json:"setting"`  // what was run
	Findings []string `json:"findings"` // the first ones
	Found    int      `json:"found"`    // all

	Payments      int     `json:"payments"`
	Seconds       float64 `json:"seconds"`
	PerSecond     float64 `json:"paymentsPerSecond"`
	DoubleCharges int     `json:"doubleCharges"`
	Lost          int     `json:"lost"`
	Unbalanced    int     `json:"unbalanced"`
	Unknown       int     `json:"unknown"`       // attempts whose outcome nobody has told us
	Buyers        int     `json:"waitForBuyers"` // attempts that wait for a 3-D Secure redirect
	FaultCount    int     `json:"faultCount"`
	Replays       int     `json:"replays"`
	Retries       int     `json:"retries"`
	PSPCalls      int     `json:"pspCalls"`
	Postings      int     `json:"postings"`

	Journeys []loadtest.Tally `json:"journeys"`
	Answers  []demoAnswer     `json:"answers"`
	Faults   []loadtest.Count `json:"faults"`
	Latency  []demoLatency    `json:"latency"`
	OwnShare []demoLatency    `json:"ownShare"`
	Balances []demoBalance    `json:"balances"`
	Books    *payment.Report  `json:"books"`
}

type demoAnswer struct {
	HTTP  int    `json:"http"`
	Says  string `json:"says"`
	Times int    `json:"times"`
}

type demoLatency struct {
	What  string  `json:"what"`
	Count int     `json:"count"`
	P50   float64 `json:"p50ms"`
	P99   float64 `json:"p99ms"`
}

type demoBalance struct {
	Account  ledger.Account  `json:"account"`
	Currency ledger.Currency `json:"currency"`
	Minor    *big.Int        `json:"minor"` // positive = debit
	OK       bool            `json:"ok"`    // as the journeys add up to
}

// maxShown is how many findings a report names.
const maxShown = 20

func (r *demoReport) find(format string, args ...any) {
	r.Found++
	if len(r.Findings) < maxShown {
		r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
	}
}

func newDemoReport(result *loadtest.Result, verified *payment.Report) *demoReport {
	r := &demoReport{Findings: []string{}, Payments: len(result.Orders), Seconds: result.Took.Seconds(), Replays: result.Replays(),
		Retries: result.Retries, Journeys: result.Tallies(), Faults: result.Faults(), Books: verified,
		DoubleCharges: verified.DoubleCharges, Lost: verified.Lost, Unbalanced: verified.Unbalanced}
	r.PerSecond = float64(r.Payments) / r.Seconds
	for _, f := range r.Faults {
		r.FaultCount += f.Times
	}
	for _, f := range result.Findings {
		r.find("%s %s (%s): %s", cmp.Or(f.Payment, "no payment"), f.Order, f.Journey, f.Detail)
	}
	for _, f := range verified.Findings {
		r.find("%s %s: %s", f.Invariant, f.Where, f.Detail)
	}
	if verified.Payments != r.Payments {
		r.find("%d payments were ordered, the shards have %d", r.Payments, verified.Payments)
	}
	for a, times := range result.Answers {
		r.Answers = append(r.Answers, demoAnswer{a.Status, a.Word, times})
	}
	slices.SortFunc(r.Answers, func(a, b demoAnswer) int { return cmp.Or(cmp.Compare(a.HTTP, b.HTTP), cmp.Compare(a.Says, b.Says)) })
	for _, op := range slices.Sorted(maps.Keys(result.Latency)) {
		took := result.Latency[op]
		r.Latency = append(r.Latency, demoLatency{What: string(op), Count: len(took), P50: inMilliseconds(loadtest.Quantile(took, .50)),
			P99: inMilliseconds(loadtest.Quantile(took, .99))})
	}
	return r
}

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// conclude writes the verdict; it comes last.
func (r *demoReport) conclude() {
	r.Pass = r.Found == 0 && r.DoubleCharges == 0 && r.Lost == 0 && r.Unbalanced == 0
	word := "PASS"
	if !r.Pass {
		word = "FAIL"
	}
	var own float64
	if n := len(r.OwnShare); n > 0 {
		own = r.OwnShare[n-1].P99
	}
	r.Verdict = fmt.Sprintf("VERDICT %s double_charges=%d lost=%d unbalanced=%d unknown=%d payments=%d faults=%d own_p99_ms=%.1f", word,
		r.DoubleCharges, r.Lost, r.Unbalanced, r.Unknown, r.Payments, r.FaultCount, own)
	if !r.Pass {
		r.Verdict += fmt.Sprintf(" findings=%d", r.Found)
	}
}

// write prints the report for people, but for the verdict.
func (r *demoReport) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	row := func(cells ...any) {
		for n, cell := range cells {
			if n > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, cell)
		}
		fmt.Fprintln(w)
	}
	r.writeRun(row)
	r.writeTimes(row)
	r.writeBooks(row)
	if len(r.Findings) > 0 {
		row()
		row(fmt.Sprintf("FINDINGS (%d of %d)", len(r.Findings), r.Found))
		for _, f := range r.Findings {
			row("  " + f)
		}
	}
	row()
	row("Go on by hand: run make dev, then in another shell")
	row(curlLine)
	row()
	return w.Flush()
}

// curlLine takes a payment on the cluster of make dev.
const curlLine = `  curl -i http://127.0.0.1:8080/v1/payments -H 'Authorization: Bearer ` + shopA + `' -H 'Content-Type: application/json' \
    -H "Idempotency-Key: $(date +%s)" -d '{"orderId":"ord_1","amount":{"minor":6499,"currency":"USD"},"paymentMethod":"pm_ok",
    "captureMode":"automatic","splits":[{"sellerId":"s_42","minor":6499,"commissionMinor":650}]}'`

func (r *demoReport) writeRun(row func(...any)) {
	row()
	row(r.Setting)
	row()
	row("JOURNEYS", "PAYMENTS", "AS PLANNED")
	for _, t := range r.Journeys {
		row("  "+t.Journey, t.Payments, t.OK)
	}
	row()
	row("ANSWERS", "HTTP", "TIMES")
	for _, a := range r.Answers {
		row("  "+a.Says, a.HTTP, a.Times)
	}
	row()
	row("FAULTS", "", "TIMES")
	for _, f := range r.Faults {
		row("  "+f.Name, "", f.Times)
	}
}

func (r *demoReport) writeTimes(row func(...any)) {
	ms := func(f float64) string { return fmt.Sprintf("%.1f", f) }
	row()
	row("WHOLE REQUEST, ms", "COUNT", "P50", "P99")
	for _, l := range r.Latency {
		row("  "+l.What, l.Count, ms(l.P50), ms(l.P99))
	}
	row()
	row("OUR OWN SHARE (less the PSP's time), ms", "COUNT", "P50", "P99")
	for _, l := range r.OwnShare {
		row("  "+l.What, l.Count, ms(l.P50), ms(l.P99))
	}
}

func (r *demoReport) writeBooks(row func(...any)) {
	row()
	row("BALANCES, minor units (positive = debit)", "", "MINOR", "AS ADDED UP")
	for _, b := range shownBalances(r.Balances) {
		row("  "+string(b.Account), b.Currency, b.Minor, yes(b.OK))
	}
	row()
	b := r.Books
	row(fmt.Sprintf("%d payments in %.1f s (%.0f a second); %d calls at the PSP; %d keys sent again later; %d calls repeated", r.Payments,
		r.Seconds, r.PerSecond, r.PSPCalls, r.Replays, r.Retries))
	row(fmt.Sprintf("%d shards hold %d payments, %d attempts, %d keys, %d entries with %d postings, %d events", b.Shards, b.Payments,
		b.Attempts, b.Keys, b.Entries, r.Postings, b.Events))
	row(fmt.Sprintf("%d attempts have no outcome; their faults explain %d as unknown, and %d wait for their buyer",
		b.Pending, r.Unknown, r.Buyers))
}

// shownBalances sums up all sellers but the hot one, per currency, for a table that people can read.
func shownBalances(all []demoBalance) []demoBalance {
	var out []demoBalance
	for _, b := range all { // by currency, then account: sellers come last
		if b.Account.IsSeller() && b.Account != ledger.SellerPayable(loadtest.HotSeller) {
			b.Account = "all other sellers"
		}
		n := slices.IndexFunc(out, func(o demoBalance) bool { return o.Account == b.Account && o.Currency == b.Currency })
		if n < 0 {
			out = append(out, demoBalance{Account: b.Account, Currency: b.Currency, Minor: new(big.Int), OK: true})
			n = len(out) - 1
		}
		out[n].Minor.Add(out[n].Minor, b.Minor)
		out[n].OK = out[n].OK && b.OK
	}
	return out
}

func yes(ok bool) string {
	if ok {
		return "yes"
	}
	return "NO"
}

// progressEvery is how often the progress is shown.
const (
	progressOnTerminal = 100 * time.Millisecond
	progressOtherwise  = time.Second
)

// showProgress shows how far the runner is until stop is called.
func showProgress(w io.Writer, runner *loadtest.Runner) (stop func()) {
	every, begin, end := progressOtherwise, "", "\n"
	if isTerminal(w) {
		every, begin, end = progressOnTerminal, "\r\x1b[K", ""
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				fmt.Fprint(w, begin)
				return
			case <-ticker.C:
			}
			if p := runner.Progress(); p.Total > 0 {
				fmt.Fprintf(w, "%s%-6s %d of %d payments%s", begin, p.Phase, p.Done, p.Total, end)
			}
		}
	}()
	return func() { close(quit); <-done }
}
