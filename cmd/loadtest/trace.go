package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"paygrid/loadtest"
)

// trafficOptions are the flags that say what traffic to make.
type trafficOptions struct {
	segments []loadtest.Segment
	seed     uint64
	sellers  int
	whale    bool
	clients  []string
	habits   loadtest.Habits
}

func (o *trafficOptions) flags(flags *flag.FlagSet, profile string) {
	o.habits = loadtest.Shop()
	o.segments, _ = loadtest.ParseSegments(profile) // it is ours
	o.clients = []string{"shop_a", "shop_b"}
	flags.Func("profile", fmt.Sprintf("PROFILE:RATE:DURATION with the rate per second at the highest, several with commas; of %v;\na ramp may say from where: "+
		"ramp:400-1500:1m (default %s)", loadtest.Profiles(), profile), func(text string) (err error) {
		o.segments, err = loadtest.ParseSegments(text)
		return err
	})
	flags.Uint64Var(&o.seed, "seed", 1, "chooses times and contents; the same seed sends the same")
	flags.IntVar(&o.sellers, "sellers", 10_000, "how many sellers; their sizes follow Zipf's law")
	flags.BoolVar(&o.whale, "whale", false, "one seller is in half of the orders")
	flags.Func("clients", "comma-separated clients (default shop_a,shop_b)", func(text string) error {
		o.clients = strings.Split(text, ",")
		return nil
	})
	for _, share := range []struct {
		name, help string
		of         *int
	}{
		{"double-clicks", "the same request again at once", &o.habits.DoubleClick}, {"impatient", "the same request again and again", &o.habits.Impatient},
		{"declined", "the card is declined", &o.habits.Declined}, {"second-cards", "another card follows, of those declined", &o.habits.SecondCard},
		{"lost", "the PSP's answer is lost after the money moved", &o.habits.Lost}, {"charges", "captured with the authorization", &o.habits.Charge},
		{"voids", "voided, of those not captured at once", &o.habits.Void}, {"refunds", "refunded, half of them in part", &o.habits.Refund},
	} {
		flags.IntVar(share.of, share.name, *share.of, "of a thousand: "+share.help)
	}
	flags.DurationVar(&o.habits.CaptureAfter, "capture-after", o.habits.CaptureAfter, "about how long after the order it is captured or voided")
	flags.DurationVar(&o.habits.RefundAfter, "refund-after", o.habits.RefundAfter, "about how long after that it is refunded")
}

func (o *trafficOptions) generate() (iter.Seq2[loadtest.Arrival, error], error) {
	return loadtest.Generate(loadtest.GenerateOptions{Seed: o.seed, Segments: o.segments, Clients: o.clients, Sellers: o.sellers, Whale: o.whale,
		Habits: o.habits})
}

// runTrace writes a trace.
func runTrace(args []string, stdout, stderr io.Writer) error {
	o := trafficOptions{}
	flags := flag.NewFlagSet("loadtest trace", flag.ContinueOnError)
	flags.SetOutput(stderr)
	o.flags(flags, "black-friday:100:2m")
	out := flags.String("out", "-", "file to write; - is standard output")
	if err := flags.Parse(args); err != nil {
		return err
	}
	arrivals, err := o.generate()
	if err != nil {
		return err
	}
	n := 0
	write := func(w io.Writer) (err error) {
		n, err = loadtest.WriteTrace(w, arrivals)
		return err
	}
	if *out == "-" {
		err = write(stdout)
	} else {
		err = writeFile(*out, write)
	}
	fmt.Fprintf(stderr, "%d arrivals in %s\n", n, loadtest.Length(o.segments))
	return err
}

// runRecord passes live traffic on and writes it down as a trace without personal details when it is interrupted.
func runRecord(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("loadtest record", flag.ContinueOnError)
	flags.SetOutput(stderr)
	listen := flags.String("listen", "127.0.0.1:8070", "address to listen on; port 0 takes a free one")
	target := flags.String("target", "http://127.0.0.1:8080", "the router, or what balances the load of several")
	out := flags.String("out", "trace.jsonl", "file for the trace; it is written when the recording is interrupted")
	if err := flags.Parse(args); err != nil {
		return err
	}
	to, err := url.Parse(*target)
	if err != nil || to.Host == "" {
		return fmt.Errorf("--target %q: want a URL such as http://127.0.0.1:8080", *target)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	recorder := loadtest.NewRecorder(to, []byte(rand.Text()), time.Now)
	fmt.Fprintf(stdout, "loadtest record ready url=http://%s\n", listener.Addr())
	if err := serveUntil(ctx, listener, recorder); err != nil {
		return err
	}
	var written, dropped int
	err = writeFile(*out, func(w io.Writer) (err error) {
		written, dropped, err = recorder.WriteTrace(w)
		return err
	})
	fmt.Fprintf(stdout, "%d arrivals written to %s, %d requests left out\n", written, *out, dropped)
	return err
}

const recordGrace = 30 * time.Second

// serveUntil serves until ctx ends, and lets requests that are under way end.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: recordGrace}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordGrace)
	defer cancel()
	return server.Shutdown(end)
}

// runReport writes a kept report again, as text or page.
func runReport(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("loadtest report", flag.ContinueOnError)
	flags.SetOutput(stderr)
	page := flags.String("html", "", "file for the page")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("want one report, as run --json wrote it")
	}
	r, err := readReport(flags.Arg(0))
	if err != nil {
		return err
	}
	if err := writeFile(*page, r.WritePage); err != nil {
		return err
	}
	return r.WriteText(stdout)
}

// runCompare writes two reports side by side.
func runCompare(args []string, stdout io.Writer) error {
	if len(args) != 2 {
		return errors.New("want two reports, as run --json wrote them: loadtest compare a.json b.json")
	}
	a, err := readReport(args[0])
	if err != nil {
		return err
	}
	b, err := readReport(args[1])
	if err != nil {
		return err
	}
	return loadtest.Compare(stdout, a, b)
}

func readReport(path string) (*loadtest.Report, error) {
	data, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	r := &loadtest.Report{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s is no report: %w", path, err)
	}
	return r, nil
}

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode(v)
}
