// Command pspsim runs the PSP simulator as a program, until it is interrupted. See pspsim --help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
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
	latency := flags.String("latency", "0", "added time of every call: 30ms; drawn: 20ms-80ms; and one call in fifty up to more: 20ms-80ms-3s")
	dialect := flags.String("dialect", string(simulator.DialectStripe), "wire format: stripe (below /v1) or adyen (Checkout, below /v71)")
	flags.Uint64Var(&opts.Seed, "seed", 0, "seed of IDs, latencies and drawn faults; 0 takes the clock. With one seed twice, IDs come twice")
	flags.StringVar(&opts.SecretKey, "secret-key", "", "the only API key accepted; empty accepts every sk_… (Adyen: every one)")
	flags.StringVar(&opts.MerchantAccount, "merchant-account", simulator.DefaultMerchantAccount, "Adyen's merchant account")
	flags.BoolVar(&opts.SeveralCaptures, "several-captures", false, "Adyen: a partial capture keeps the rest open")
	flags.BoolVar(&opts.StrictKeys, "strict-keys", false, "Adyen: refuse a key that comes back with another body; else it is a replay")
	flags.BoolVar(&opts.Live, "live", false, "the mode that answers and notices carry: live rather than test")
	rate := flags.String("fault-rate", "0", "part of all calls that draw a fault from the seed and their idempotency key: 0.15")
	flags.Func("faults", "what to draw: names or groups with commas (wire,wrong_amount); default: what loses, delays, doubles or falsifies",
		func(text string) error { opts.FaultSet = strings.Split(text, ","); return nil })
	flags.Func("webhook", "receiver of notices; repeat it for several, which take turns",
		func(url string) error { opts.Webhooks = append(opts.Webhooks, simulator.Target{URL: url}); return nil })
	flags.BoolVar(&opts.Broadcast, "broadcast", false, "send each notice to every receiver at once, rather than to one in turn")
	flags.Func("webhook-secret", "signs the notices: whsec_…, or Adyen's hex key; repeat it for one being rolled, the current one first",
		func(secret string) error { opts.WebhookSecrets = append(opts.WebhookSecrets, secret); return nil })
	flags.IntVar(&opts.MaxPayments, "max-payments", simulator.DefaultMaxPayments, "payments kept; more are answered 503, not processed")
	flags.Int64Var(&opts.MaxAmount, "max-amount", simulator.DefaultMaxAmount, "largest amount in the PSP's unit")
	if err := flags.Parse(args); err != nil {
		return "", opts, err
	}
	if flags.NArg() > 0 {
		return "", opts, fmt.Errorf("unexpected argument %q: pspsim takes flags alone", flags.Arg(0))
	}
	opts.Dialect = simulator.Dialect(*dialect)
	if opts.Seed == 0 {
		opts.Seed = uint64(time.Now().UnixNano())
	}
	if opts.MaxPayments < 1 || opts.MaxAmount < 1 {
		return "", opts, errors.New("--max-payments and --max-amount must be 1 or more")
	}
	return *listen, opts, finish(&opts, *latency, *rate)
}

// finish reads the flags that have a form of their own.
func finish(opts *simulator.Options, latency, rate string) (err error) {
	if opts.LatencyMin, opts.LatencyMax, opts.LatencyTail, err = parseLatency(latency); err != nil {
		return err
	}
	opts.FaultPerMille, err = parseRate(rate)
	return err
}

// parseLatency reads "30ms", "20ms-80ms" or "20ms-80ms-3s".
func parseLatency(text string) (low, high, tail time.Duration, err error) {
	parts := strings.Split(text, "-")
	times := make([]time.Duration, 3)
	for i, part := range parts {
		if i == len(times) {
			return 0, 0, 0, fmt.Errorf("--latency %q: too many parts", text)
		}
		if times[i], err = time.ParseDuration(part); err != nil {
			return 0, 0, 0, fmt.Errorf("--latency %q: want a duration like 30ms, a range like 20ms-80ms, or 20ms-80ms-3s", text)
		}
		if i > 0 && times[i] < times[i-1] {
			return 0, 0, 0, fmt.Errorf("--latency %q: the smaller first", text)
		}
	}
	if len(parts) == 1 {
		times[1] = times[0]
	}
	return times[0], times[1], times[2], nil
}

// parseRate reads "0.15" as 150 per mille.
func parseRate(text string) (int, error) {
	rate, ok := new(big.Rat).SetString(text)
	if !ok || rate.Sign() < 0 || rate.Cmp(big.NewRat(1, 1)) > 0 {
		return 0, fmt.Errorf("--fault-rate %q: want a part of all calls, like 0.15", text)
	}
	perMille := rate.Mul(rate, big.NewRat(1000, 1))
	if !perMille.IsInt() {
		return 0, fmt.Errorf("--fault-rate %q: at most three decimals", text)
	}
	return int(perMille.Num().Int64()), nil
}
