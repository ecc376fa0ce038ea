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
	"paygrid/shard"
)

// demoOptions are what a demo sends.
type demoOptions struct {
	Payments    int
	Concurrency int
	Seed        uint64
	Faults      int                                // of a thousand PSP calls, how many draw one; 0 = none, and no outage
	Outage      time.Duration                      // of Stripe, in the middle
	PSPLatency  time.Duration                      // as the cluster was started; for the report
	Meddle      func(context.Context, *grid) error // what tests do to the books before they are compared; nil = nothing
}

// runDemo starts a cluster, sends it payments with faults, compares all books and prints a verdict.
func runDemo(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "demo", "run a cluster and two PSPs with faults and an outage, send it hundreds of payments, compare all books, print a\nverdict")
	g := demoGrid()
	g.Durable, g.EngineLog, g.Log = true, e.err, slog.New(slog.DiscardHandler)
	o := demoOptions{}
	flags.IntVar(&o.Payments, "payments", 600, "how many payments are sent")
	flags.IntVar(&o.Concurrency, "concurrency", 32, "how many shops pay at once")
	flags.Uint64Var(&o.Seed, "seed", 1, "chooses amounts, sellers, currencies and faults; the same seed sends the same")
	flags.StringVar(&g.Listen, "listen", "127.0.0.1:0", "address of the first router; port 0 gives each a free one")
	flags.DurationVar(&g.PSPTimeout, "psp-timeout", 2*time.Second, "how long a PSP's answer is waited for; more than a second")
	flags.DurationVar(&g.Latency, "psp-latency", 100*time.Millisecond, "latency of the simulated PSPs")
	flags.IntVar(&o.Faults, "faults", 200, "of a thousand PSP calls, how many draw a fault")
	flags.DurationVar(&o.Outage, "outage", 3*time.Second, "how long Stripe is down in the middle; 0 = not at all")
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
	if o.Faults < 0 || o.Faults > maxFaults || o.Outage < 0 || o.Outage > maxOutage {
		return &usageError{fmt.Sprintf("--faults must be 0 to %d, --outage 0 to %s", maxFaults, maxOutage)}
	}
	o.PSPLatency, g.Seed = g.Latency, o.Seed
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
	fmt.Fprintf(e.err, "starting a database, %d shards, %d routers, a simulated Stripe and a simulated Adyen\n", o.Shards, o.Routers)
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
		Concurrency: o.Concurrency, Seed: o.Seed, Now: time.Now, Buyer: g.buyer, Halfway: func() { g.breakDown(o.Outage) }, Heal: g.heal})
	if err != nil {
		return nil, err
	}
	if err := g.setFaults(o.Faults); err != nil {
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
	if err := g.quiet(ctx); err != nil {
		return nil, err
	}
	if o.Meddle != nil {
		if err := o.Meddle(ctx, g); err != nil {
			return nil, err
		}
	}
	return report(ctx, g, o, result)
}

// report compares the books and gathers what the routers counted.
func report(ctx context.Context, g *grid, o demoOptions, result *loadtest.Result) (*demoReport, error) {
	books := g.books()
	verified, err := payment.Verify(ctx, g.Nodes[0].shards, movedBy(books["stripe"], books["adyen"]))
	if err != nil {
		return nil, err
	}
	result.CompareWitness(witnessOf(books))
	r := newDemoReport(result, verified)
	r.Setting = fmt.Sprintf("seed %d, %d shops at once, %d shards, %d routers, two simulated PSPs that take %s; %d of a thousand calls draw a fault, "+
		"Stripe is down for %s in the middle", o.Seed, o.Concurrency, verified.Shards, len(g.URLs), o.PSPLatency, o.Faults, o.Outage)
	r.pspBooks(result, books)
	r.pending(result, verified)
	if err := r.balances(ctx, g, result.Orders); err != nil {
		return nil, err
	}
	if err := r.countPostings(ctx, g.Nodes[0].shards); err != nil {
		return nil, err
	}
	if err := r.scrape(ctx, g.URLs); err != nil {
		return nil, err
	}
	r.conclude()
	return r, nil
}

// pending: every call has an outcome in the end, but for redirects whose buyer never came.
func (r *demoReport) pending(result *loadtest.Result, verified *payment.Report) {
	r.Unknown, r.Buyers = result.Pending()
	if verified.Pending != r.Unknown+r.Buyers {
		r.find("%d attempts have no outcome; the shops know of %d, and %d wait for their buyer", verified.Pending, r.Unknown, r.Buyers)
	}
	r.Unknown = max(r.Unknown, verified.Pending-r.Buyers)
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

// isTerminal tells whether a line can be written over.
func isTerminal(w any) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
