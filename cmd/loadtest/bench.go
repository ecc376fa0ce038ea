package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"paygrid/schema/localdb"
)

// benchOptions are the flags of loadtest bench.
type benchOptions struct {
	seconds  float64
	rounds   int
	variants []string
	callers  []int
	sellers  []string
	lanes    int
	batch    int
	out      string
	profile  string
	durable  bool // off only in tests
}

// The seller patterns: payments spread over many sellers, or all for one.
const (
	spread = "spread"
	hot    = "hot"
)

func benchFlags(args []string, stderr io.Writer) (benchOptions, error) {
	o := benchOptions{durable: true}
	flags := flag.NewFlagSet("loadtest bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Float64Var(&o.seconds, "seconds", 150, "time to measure in all, shared by the cells of all rounds; the whole run takes about a quarter more")
	flags.IntVar(&o.rounds, "rounds", 6, "rounds; each measures every cell once, and the medians are reported; benchstat wants six or more")
	variants := flags.String("variants", "single,coalesced,naive", "which ways to commit, interleaved in this order")
	callers := flags.String("callers", "1,16,64,256", "concurrent callers")
	sellers := flags.String("sellers", "spread,hot", "payments spread over many sellers, or all for one")
	flags.IntVar(&o.lanes, "lanes", 0, "lanes of the coalesced variant; 0 is the shard's default")
	flags.IntVar(&o.batch, "batch", 0, "batch limit of the coalesced variant; 0 is the shard's default")
	flags.StringVar(&o.out, "out", "", "file for the samples in the Go benchmark format, for benchstat")
	flags.StringVar(&o.profile, "cpuprofile", "", "file for a CPU profile of this process")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.variants, o.sellers = strings.Split(*variants, ","), strings.Split(*sellers, ",")
	for _, text := range strings.Split(*callers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxCallers {
			return o, fmt.Errorf("--callers %q: want numbers from 1 to %d, with commas between", *callers, maxCallers)
		}
		o.callers = append(o.callers, n)
	}
	return o, o.check(flags)
}

// Bounds of a run, so that a slip of the keyboard does not fill a disk.
const (
	maxCallers = 1000
	maxSeconds = 3600
	maxRounds  = 1000
)

const gcPercent = 400

func (o benchOptions) check(flags *flag.FlagSet) error {
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: loadtest bench takes flags alone", flags.Arg(0))
	case o.seconds <= 0 || o.seconds > maxSeconds:
		return fmt.Errorf("--seconds %v: want more than 0, at most %d", o.seconds, maxSeconds)
	case o.rounds < 1 || o.rounds > maxRounds:
		return fmt.Errorf("--rounds %d: want 1 to %d", o.rounds, maxRounds)
	case o.batch == 1:
		return errors.New("--batch 1: that is the variant single")
	}
	for _, name := range o.sellers {
		if name != spread && name != hot {
			return fmt.Errorf("--sellers: unknown %q: want %s or %s", name, spread, hot)
		}
	}
	for _, name := range o.variants {
		if !slices.Contains(variantNames, name) {
			return fmt.Errorf("--variants: unknown %q: want any of %s", name, strings.Join(variantNames, ", "))
		}
	}
	return nil
}

// runBench measures, reports, and then proves that every payment is there.
func runBench(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := benchFlags(args, stderr)
	if err != nil {
		return err
	}
	engine, err := localdb.Start(ctx, localdb.Options{Durable: o.durable, Log: stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Stop()) }()
	b, err := openBench(ctx, o, engine, stderr)
	if err != nil {
		return err
	}
	defer b.close()
	// The payments made beforehand are a heap that no service has; it need not be marked over and over.
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	samples, err := b.profiled(ctx)
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := writeSamples(o.out, samples); err != nil {
			return err
		}
	}
	for _, v := range b.variants {
		if err := v.verify(ctx); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		fmt.Fprintf(stdout, "verified %-9s %s\n", v.name, v.counts)
	}
	return report(stdout, samples)
}

// bench is one run: one engine, a database per variant.
type bench struct {
	options  benchOptions
	variants []*variant
	gauges   *gauges
	progress io.Writer
	rates    map[cell]float64 // payments per second of the last sample: how many to make for the next
}

// cell is one combination that is measured.
type cell struct {
	variant string
	callers int
	sellers string
}

func (c cell) String() string {
	return fmt.Sprintf("%s/callers=%d/%s", c.variant, c.callers, c.sellers)
}

func openBench(ctx context.Context, o benchOptions, engine *localdb.Engine, progress io.Writer) (*bench, error) {
	b := &bench{options: o, progress: progress, rates: map[cell]float64{}}
	for _, name := range o.variants {
		v, err := openVariant(ctx, name, o, engine)
		if err != nil {
			b.close()
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		b.variants = append(b.variants, v)
	}
	gauges, err := openGauges(ctx, engine.AdminURL("postgres"))
	if err != nil {
		b.close()
		return nil, err
	}
	b.gauges = gauges
	return b, nil
}

func (b *bench) close() {
	for _, v := range b.variants {
		v.close()
	}
	if b.gauges != nil {
		b.gauges.close()
	}
}

func (b *bench) profiled(ctx context.Context) ([]sample, error) {
	if b.options.profile == "" {
		return b.run(ctx)
	}
	file, err := os.Create(filepath.Clean(b.options.profile))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	defer pprof.StopCPUProfile()
	return b.run(ctx)
}

// run measures all cells in rounds. The variants of one cell follow each other directly, so that whatever else the machine
// does meets them alike.
func (b *bench) run(ctx context.Context) ([]sample, error) {
	cells := len(b.options.callers) * len(b.options.sellers) * len(b.variants)
	window := time.Duration(b.options.seconds / float64(cells*b.options.rounds) * float64(time.Second))
	if err := b.warm(ctx, window/2); err != nil {
		return nil, err
	}
	fmt.Fprintf(b.progress, "%d rounds of %d cells, %v each\n", b.options.rounds, cells, window.Round(time.Millisecond))
	var samples []sample
	for round := range b.options.rounds {
		for _, callers := range b.options.callers {
			for _, sellers := range b.options.sellers {
				for _, v := range b.variants {
					s, err := b.measure(ctx, v, cell{v.name, callers, sellers}, window)
					if err != nil {
						return nil, err
					}
					samples = append(samples, s)
					fmt.Fprintf(b.progress, "round %d  %s\n", round+1, s)
				}
			}
		}
	}
	return samples, nil
}

// warm makes connections, plans and first pages, and is not reported.
func (b *bench) warm(ctx context.Context, window time.Duration) error {
	callers := slices.Max(b.options.callers)
	for _, v := range b.variants {
		if _, err := b.measure(ctx, v, cell{v.name, callers, spread}, window); err != nil {
			return err
		}
	}
	return b.gauges.checkpoint(ctx)
}
