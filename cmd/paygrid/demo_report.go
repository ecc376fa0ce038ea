package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
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
	Orders        int     `json:"orders"`
	GaveUp        int     `json:"gaveUp"` // orders for which no PSP took a call
	Replays       int     `json:"replays"`
	Retries       int     `json:"retries"`
	PSPCalls      int     `json:"pspCalls"`
	Postings      int     `json:"postings"`

	Journeys []loadtest.Tally `json:"journeys"`
	PSPs     []demoPSP        `json:"psps"`
	Answers  []demoAnswer     `json:"answers"`
	Shops    []loadtest.Count `json:"shopFaults"`
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
	r := &demoReport{Findings: []string{}, Orders: len(result.Orders), Payments: result.Payments(), Seconds: result.Took.Seconds(), Replays: result.Replays(),
		Retries: result.Retries, Journeys: result.Tallies(), Shops: result.Faults(), Books: verified,
		DoubleCharges: verified.DoubleCharges, Lost: verified.Lost, Unbalanced: verified.Unbalanced}
	r.PerSecond = float64(r.Payments) / r.Seconds
	for _, f := range r.Shops {
		r.FaultCount += f.Times
	}
	for _, o := range result.Orders {
		if o.GaveUp {
			r.GaveUp++
		}
	}
	for _, f := range result.Findings {
		r.find("%s %s (%s): %s", cmp.Or(f.Payment, "no payment"), f.Order, f.Journey, f.Detail)
	}
	for _, f := range verified.Findings {
		r.find("%s %s: %s", f.Invariant, f.Where, f.Detail)
	}
	if verified.Payments != r.Payments {
		r.find("the shops know of %d payments, the shards have %d", r.Payments, verified.Payments)
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
	r.Pass = r.Found == 0 && r.DoubleCharges == 0 && r.Lost == 0 && r.Unbalanced == 0 && r.Unknown == 0
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
	r.writePSPs(row)
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
	row("JOURNEYS", "ORDERS", "RIGHT", "CUT SHORT")
	for _, t := range r.Journeys {
		row("  "+t.Journey, t.Payments, t.OK, t.Left)
	}
	row()
	row("ANSWERS", "HTTP", "TIMES")
	for _, a := range r.Answers {
		row("  "+a.Says, a.HTTP, a.Times)
	}
	row()
	row("SHOPS' OWN FAULTS", "", "TIMES")
	for _, f := range r.Shops {
		row("  "+f.Name, "", f.Times)
	}
}

// writePSPs prints a table with a column per PSP.
func (r *demoReport) writePSPs(row func(...any)) {
	line := func(what string, figure func(p demoPSP) any) {
		cells := []any{what}
		for _, p := range r.PSPs {
			cells = append(cells, figure(p))
		}
		row(cells...)
	}
	row()
	line("PSPS", func(p demoPSP) any { return strings.ToUpper(p.PSP) })
	line("  payments in the end", func(p demoPSP) any { return p.Payments })
	line("  … moved here: the other was proved not to have them", func(p demoPSP) any { return p.MovedTo })
	line("  times that a breaker opened", func(p demoPSP) any { return p.Trips })
	line("  calls and look-ups", func(p demoPSP) any { return p.Calls })
	line("  faults, the outage's among them", func(p demoPSP) any { return p.Faulty })
	counts(line, "  our calls: ", func(p demoPSP) map[string]int { return p.Outcomes }, r.PSPs)
	counts(line, "  the resolver's questions: ", func(p demoPSP) map[string]int { return p.Asked }, r.PSPs)
	line("  webhooks: made", func(p demoPSP) any { return p.Webhooks.Events })
	line("  … sent", func(p demoPSP) any { return p.Webhooks.Tries })
	line("  … taken, new", func(p demoPSP) any { return p.Notices["new"] })
	line("  … taken, again", func(p demoPSP) any { return p.Notices["again"] })
	line("  … forged, refused", func(p demoPSP) any { return p.Webhooks.Forgeries.Refused })
	counts(line, "  inbox: ", func(p demoPSP) map[string]int { return p.Applied }, r.PSPs)
	row()
	line("PSPS' FAULTS", func(p demoPSP) any { return strings.ToUpper(p.PSP) })
	counts(line, "  ", func(p demoPSP) map[string]int { return p.Faults }, r.PSPs)
}

// counts prints a line per name that any PSP has counted.
func counts(line func(string, func(demoPSP) any), prefix string, of func(demoPSP) map[string]int, psps []demoPSP) {
	names := map[string]bool{}
	for _, p := range psps {
		for name := range of(p) {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		line(prefix+strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(name, "_Ns"), "_", " ")), func(p demoPSP) any { return of(p)[name] })
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
	row(fmt.Sprintf("%d orders made %d payments in %.1f s (%.0f a second); %d orders were given up since no PSP took them; %d keys sent again later",
		r.Orders, r.Payments, r.Seconds, r.PerSecond, r.GaveUp, r.Replays))
	row(fmt.Sprintf("%d calls and look-ups at the PSPs, of which one in %.1f met a fault; %d calls repeated to another router", r.PSPCalls,
		float64(r.PSPCalls)/float64(max(1, r.faulty())), r.Retries))
	row(fmt.Sprintf("%d shards hold %d payments, %d attempts, %d keys, %d entries with %d postings, %d events", b.Shards, b.Payments,
		b.Attempts, b.Keys, b.Entries, r.Postings, b.Events))
	row(fmt.Sprintf("%d attempts have no outcome: %d wait for a buyer who never came, %d are unknown", b.Pending, r.Buyers, r.Unknown))
}

func (r *demoReport) faulty() (n int) {
	for _, p := range r.PSPs {
		n += p.Faulty
	}
	return n
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
