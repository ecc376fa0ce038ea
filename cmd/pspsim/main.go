// Command pspsim runs the PSP simulator as a program, until it is interrupted. See pspsim --help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"paygrid/psprouter/simulator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "pspsim:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. The first line on stdout is "pspsim: http://host:port".
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	listen, opts, err := parse(args, stderr)
	if err != nil {
		return err
	}
	sim, err := simulator.New(opts)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "pspsim: http://%s\n", listener.Addr())
	return sim.Serve(ctx, listener)
}

func parse(args []string, stderr io.Writer) (string, simulator.Options, error) {
	opts := simulator.Options{Now: time.Now}
	flags := flag.NewFlagSet("pspsim", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { usage(flags) }
	listen := flags.String("listen", "127.0.0.1:12111", "address to listen on; port 0 takes a free one and prints it")
	latency := flags.String("latency", "0", "added time of every /v1 call: 30ms, or a range drawn uniformly: 20ms-80ms")
	flags.Uint64Var(&opts.Seed, "seed", 0, "seed of IDs and latencies; 0 takes the clock. With one seed twice, IDs come twice")
	flags.StringVar(&opts.SecretKey, "secret-key", "", "the only bearer key accepted; empty accepts every sk_…")
	flags.IntVar(&opts.MaxPayments, "max-payments", simulator.DefaultMaxPayments, "payments kept in memory; more are answered 503 \"not processed\"")
	flags.Int64Var(&opts.MaxAmount, "max-amount", simulator.DefaultMaxAmount, "largest amount in the PSP's unit, above it amount_too_large")
	if err := flags.Parse(args); err != nil {
		return "", opts, err
	}
	if flags.NArg() > 0 {
		return "", opts, fmt.Errorf("unexpected argument %q: pspsim takes flags alone", flags.Arg(0))
	}
	if opts.Seed == 0 {
		opts.Seed = uint64(time.Now().UnixNano())
	}
	if opts.MaxPayments < 1 || opts.MaxAmount < 1 {
		return "", opts, errors.New("--max-payments and --max-amount must be 1 or more")
	}
	var err error
	opts.LatencyMin, opts.LatencyMax, err = parseLatency(*latency)
	return *listen, opts, err
}

// parseLatency reads "30ms" or "20ms-80ms".
func parseLatency(text string) (low, high time.Duration, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if low, err = time.ParseDuration(from); err != nil {
		return 0, 0, fmt.Errorf("--latency %q: want a duration like 30ms or a range like 20ms-80ms", text)
	}
	high = low
	if isRange {
		if high, err = time.ParseDuration(to); err != nil || high < low {
			return 0, 0, fmt.Errorf("--latency %q: want a range like 20ms-80ms, the smaller first", text)
		}
	}
	return low, high, nil
}

func usage(flags *flag.FlagSet) {
	w := flags.Output()
	fmt.Fprint(w, helpIntro)
	flags.PrintDefaults()
	fmt.Fprint(w, "\nTokens: what happens is chosen by payment_method\n\n")
	for _, t := range simulator.Tokens() {
		entry(w, t.Name, t.Doc)
	}
	fmt.Fprint(w, "\nFaults: for POST /sim/script, and as FAULT in pm_ok_OP_FAULT\n\n")
	for _, f := range simulator.Faults() {
		entry(w, f.Name, f.Doc)
	}
	fmt.Fprint(w, helpControl)
}

func entry(w io.Writer, name, doc string) {
	fmt.Fprintf(w, "  %-20s %s\n", name, strings.ReplaceAll(doc, "\n", "\n"+strings.Repeat(" ", 23)))
}

const helpIntro = `pspsim simulates a payment service provider (Stripe's API) on one machine: no real money, no network, all in memory.

  pspsim --listen 127.0.0.1:12111
  curl -H 'Authorization: Bearer sk_test_1' -H 'Idempotency-Key: k1' http://127.0.0.1:12111/v1/payment_intents \
    -d amount=1099 -d currency=eur -d confirm=true -d payment_method=pm_ok -d capture_method=manual \
    -d 'metadata[attempt]=att_1'

It serves below /v1: POST payment_intents, payment_intents/{id}/confirm|capture|cancel, refunds; GET payment_intents,
payment_intents/{id}, payment_intents/search, refunds, refunds/{id}. Idempotency keys work as at Stripe.

Flags:

`

const helpControl = `
Control API (no credentials: keep it on a loopback address):

  POST /sim/script  {"on":"capture","fault":"drop_after","payment":"pi_…","count":1}
                    The fault of the next count calls of on (authorize, capture, void, refund); payment "" means any.
                    Scripts come before tokens. Replays of an idempotency key use none up.
  POST /sim/settle  {"id":"pi_… or re_…","result":"succeeded"}   or "failed"
                    The end of what is pending (pm_pending, pm_3ds, …_pending). A succeeded refund can still fail.
  GET  /sim/books   Everything that moved, as JSON: per payment the amounts authorized, captured and refunded, each
                    capture and refund with its idempotency key, and each call; totals per currency.
                    …Stripe amounts are in Stripe's unit, …Minor amounts in ISO 4217 minor units.
                    ?ref=pi_… or ?attempt=att_… (metadata "attempt") narrows it to one payment.
`
