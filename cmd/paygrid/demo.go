package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"slices"
	"strings"
	"time"

	"paygrid/ledger"
	"paygrid/loadtest"
	"paygrid/payment"
	"paygrid/psprouter/simulator"
	"paygrid/shard"
)

// demoOptions are what a demo sends.
type demoOptions struct {
	Payments    int
	Concurrency int
	Seed        uint64
	PSPLatency  time.Duration                      // as the cluster was started; for the report
	Meddle      func(context.Context, *grid) error // what tests do to the books before they are compared; nil = nothing
}

// runDemo starts a cluster, sends it payments with faults, compares all books and prints a verdict.
func runDemo(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "demo", "run a cluster, send it hundreds of payments with faults, compare all books, print a verdict")
	g := gridOptions{Shards: 4, Routers: 2, Durable: true, WorkEvery: time.Second, EngineLog: e.err, Log: slog.New(slog.DiscardHandler)}
	o := demoOptions{}
	flags.IntVar(&o.Payments, "payments", 600, "how many payments are sent")
	flags.IntVar(&o.Concurrency, "concurrency", 32, "how many shops pay at once")
	flags.Uint64Var(&o.Seed, "seed", 1, "chooses amounts, sellers, currencies and faults; the same seed sends the same")
	flags.StringVar(&g.Listen, "listen", "127.0.0.1:0", "address of the first router; port 0 gives each a free one")
	flags.DurationVar(&g.PSPTimeout, "psp-timeout", 2*time.Second, "how long a PSP's answer is waited for; more than a second")
	flags.DurationVar(&g.Latency, "psp-latency", 100*time.Millisecond, "latency of the simulated PSP")
	asJSON := flags.Bool("json", false, "print JSON alone; the verdict line goes to standard error")
	if _, err := parse(flags, args, 0, "flags alone"); err != nil {
		return err
	}
	if g.PSPTimeout <= time.Second {
		return &usageError{"--psp-timeout must be more than 1s: some answers of the workload take a second"}
	}
	if o.Payments < 1 || o.Payments > loadtest.MaxPayments || o.Concurrency < 1 || o.Concurrency > loadtest.MaxConcurrency {
		return &usageError{fmt.Sprintf("--payments must be 1 to %d, --concurrency 1 to %d", loadtest.MaxPayments, loadtest.MaxConcurrency)}
	}
	o.PSPLatency = g.Latency
	report, err := demoAlone(ctx, e, g, o)
	if err != nil {
		return err
	}
	if *asJSON {
		err = printJSON(e.out, report)
		fmt.Fprintln(e.err, report.Verdict)
	} else {
		err = report.write(e.out)
		fmt.Fprintln(e.out, report.Verdict)
	}
	if err == nil && !report.Pass {
		err = errFound
	}
	return err
}

// demoAlone runs a demo on a cluster of its own, of which nothing is left.
func demoAlone(ctx context.Context, e env, o gridOptions, d demoOptions) (_ *demoReport, err error) {
	dir, remove, err := dataDir("", true)
	if err != nil {
		return nil, err
	}
	defer remove()
	o.Dir = dir
	fmt.Fprintf(e.err, "starting a database, %d shards, %d routers and a simulated PSP\n", o.Shards, o.Routers)
	g, err := startGrid(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	return demo(ctx, e, g, d)
}

// demo sends payments to a running cluster and compares what everybody says of them.
func demo(ctx context.Context, e env, g *grid, o demoOptions) (*demoReport, error) {
	runner, err := loadtest.New(loadtest.Options{URLs: g.URLs, Key: shopA, StrangerKey: shopB, Payments: o.Payments,
		Concurrency: o.Concurrency, Seed: o.Seed, Now: time.Now})
	if err != nil {
		return nil, err
	}
	stop := showProgress(e.err, runner)
	result, err := runner.Run(ctx)
	stop()
	if errors.Is(err, context.Canceled) {
		return nil, errors.New("interrupted; nothing is left behind")
	}
	if err != nil {
		return nil, err
	}
	own, err := loadtest.Scrape(ctx, g.URLs, "paygrid_own_share_seconds", "route")
	if err != nil {
		return nil, err
	}
	if o.Meddle != nil {
		if err := o.Meddle(ctx, g); err != nil {
			return nil, err
		}
	}
	books := g.Sim.Books()
	verified, err := payment.Verify(ctx, g.Nodes[0].shards, movedBy(books))
	if err != nil {
		return nil, err
	}
	result.CompareWitness(witnessOf(books))
	r := newDemoReport(result, verified)
	r.Setting = fmt.Sprintf("seed %d, %d shops at once, %d shards, %d routers, a simulated PSP that takes %s", o.Seed, o.Concurrency,
		verified.Shards, len(g.URLs), o.PSPLatency)
	r.callsPerKey(books)
	r.pending(result, verified)
	if err := r.balances(ctx, g, result.Orders); err != nil {
		return nil, err
	}
	if err := r.countPostings(ctx, g.Nodes[0].shards); err != nil {
		return nil, err
	}
	if err := r.ownShare(own); err != nil {
		return nil, err
	}
	r.conclude()
	return r, nil
}

// witnessOf reads the simulator's books by our payment IDs, which stand in its metadata. What moved under no payment of
// ours, or under one twice, gets an entry of its own, which fits no order.
func witnessOf(b simulator.Books) map[string]loadtest.Witness {
	out := map[string]loadtest.Witness{}
	for _, p := range b.Payments {
		id := p.Metadata["payment"]
		if _, twice := out[id]; twice || id == "" {
			id += "#" + p.Ref
		}
		out[id] = loadtest.Witness{Currency: ledger.Currency(p.Currency), Authorized: p.AuthorizedMinor, Captured: p.CapturedMinor,
			Refunded: p.RefundedMinor, Voided: p.Voided}
	}
	return out
}

// callsPerKey finds idempotency keys under which the PSP did something more than once.
func (r *demoReport) callsPerKey(b simulator.Books) {
	executed := map[string]int{}
	count := func(calls []simulator.CallBooks) {
		for _, c := range calls {
			r.PSPCalls++
			if c.Executed {
				executed[c.Key]++
			}
		}
	}
	for _, p := range b.Payments {
		count(p.Calls)
	}
	count(b.Unplaced)
	for key, times := range executed {
		if times > 1 {
			r.DoubleCharges++
			r.find("attempt %s: the PSP did it %d times", key, times)
		}
	}
}

// pending compares how many attempts have no outcome with how many cannot have one.
func (r *demoReport) pending(result *loadtest.Result, verified *payment.Report) {
	r.Unknown, r.Buyers = result.Pending()
	if verified.Pending != r.Unknown+r.Buyers {
		r.find("%d attempts have no outcome; the faults explain %d, and %d wait for their buyer", verified.Pending, r.Unknown, r.Buyers)
	}
}

// balances compares every account of the workload with what the journeys add up to.
func (r *demoReport) balances(ctx context.Context, g *grid, orders []*loadtest.Order) error {
	want := loadtest.Balances(orders)
	sums := map[ledger.Currency]int64{}
	for of, minor := range want {
		got, err := g.Nodes[0].shards.Balance(ctx, of.Account, of.Currency)
		if err != nil {
			return err
		}
		row := demoBalance{Account: of.Account, Currency: of.Currency, Minor: got.Minor, OK: got.Minor.Cmp(big.NewInt(minor)) == 0}
		if !row.OK {
			r.find("balance of %s is %s %s, the journeys add up to %d", of.Account, got.Minor, of.Currency, minor)
		}
		sums[of.Currency] += minor
		r.Balances = append(r.Balances, row)
	}
	for currency, sum := range sums {
		if sum != 0 {
			r.find("the journeys' balances in %s sum to %d, want 0", currency, sum)
		}
	}
	slices.SortFunc(r.Balances, func(a, b demoBalance) int {
		return strings.Compare(string(a.Currency)+" "+string(a.Account), string(b.Currency)+" "+string(b.Account))
	})
	return nil
}

func (r *demoReport) countPostings(ctx context.Context, shards *shard.Cluster) error {
	for _, name := range shards.Map().Names() {
		err := shards.Walk(ctx, name, func(span shard.Span) error {
			for _, e := range span.Entries {
				r.Postings += len(e.Postings)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ownShare reads our own share of the time per route, and over all of them.
func (r *demoReport) ownShare(routes map[string]loadtest.Histogram) error {
	var all loadtest.Histogram
	for route, h := range routes {
		var err error
		if all, err = all.Plus(h); err != nil {
			return err
		}
		r.OwnShare = append(r.OwnShare, ownShareOf("POST "+route, h))
	}
	slices.SortFunc(r.OwnShare, func(a, b demoLatency) int { return strings.Compare(a.What, b.What) })
	r.OwnShare = append(r.OwnShare, ownShareOf("all", all))
	return nil
}

const millisecond = 1000 // of a second

func ownShareOf(what string, h loadtest.Histogram) demoLatency {
	return demoLatency{What: what, Count: int(h.Count()), P50: h.Quantile(.50) * millisecond, P99: h.Quantile(.99) * millisecond}
}

// isTerminal tells whether a line can be written over.
func isTerminal(w any) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
