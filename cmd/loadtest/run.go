package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"hash"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"paygrid/loadtest"
)

// runOptions are the flags of loadtest run.
type runOptions struct {
	traffic trafficOptions
	trace   string
	part    [2]int // k of n
	start   time.Time
	prefix  string

	own     clusterOptions
	urls    []string
	keys    map[string]string
	sims    map[string]string
	mapPath string

	overload  string // "find", a rate per second, or ""
	shedTries int
	impatient bool

	faults     []loadtest.Fault
	settle     time.Duration
	limitOwn   time.Duration
	bounds     loadtest.Bounds
	title      string
	json, html string
}

// errFailed ends a command that ran well, and whose verdict is FAIL; the report has said so.
var errFailed = errors.New("the verdict is FAIL")

func runFlags(args []string, stderr io.Writer) (runOptions, error) {
	o := runOptions{keys: map[string]string{}, sims: map[string]string{}, part: [2]int{1, 1}}
	flags := flag.NewFlagSet("loadtest run", flag.ContinueOnError)
	flags.SetOutput(stderr)
	o.traffic.flags(flags, "steady:20:15s")
	o.clusterFlags(flags)
	flags.StringVar(&o.trace, "trace", "", "file with a trace to play instead of a profile; - is standard input")
	flags.Func("part", "k/n: play the k-th of n parts of one trace: n generators share it against one cluster (--url), each with --json, the same\n"+
		"--start or --prefix, --map and --sim; loadtest merge makes one report of theirs", o.readPart)
	flags.Func("start", "RFC 3339: when the trace begins, for generators that begin together; default: in a second", func(text string) (err error) {
		o.start, err = time.Parse(time.RFC3339, text)
		return err
	})
	flags.StringVar(&o.prefix, "prefix", "", "of orders and keys; a cluster that is there already must not have seen it\n"+
		"(default there: from the clock, of parts from --start)")
	flags.Func("faults", "script, or @FILE: at 60s: psp stripe outage 30s; at 90s: kill router 1; at 95s: start router 1;\nat 120s: kafka down 20s; "+
		"at 150s: database restart; at 180s: worker pause 20s. After kafka down the whole topic\nis read in the end", o.readFaults)
	flags.DurationVar(&o.settle, "settle", 2*time.Minute, "how long to wait in the end for attempts without an answer, notices, and other parts")
	flags.DurationVar(&o.limitOwn, "limit-own-p99", 0, "a ramp ends where our own share's p99 stays above this; the report says at how many payments/s")
	flags.Float64Var(&o.bounds.MinPeak, "min-peak", 0, "FAIL below so many payments/s at the peak")
	flags.DurationVar(&o.bounds.MaxOwnP99, "max-own-p99", 0, "FAIL if our own share of an authorization is above this at p99 in the segment with the peak")
	o.overloadFlags(flags)
	flags.BoolVar(&o.bounds.Flat, "flat", false,
		"FAIL if memory, goroutines, connections or lag grow; but for the memory of our own\npaygrid dev, which keeps the PSPs' books and the topic")
	flags.StringVar(&o.title, "title", "paygrid load test", "of the report")
	flags.StringVar(&o.json, "json", "", "file for the report as JSON")
	flags.StringVar(&o.html, "html", "", "file for the report as one page with plots")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: loadtest run takes flags alone", flags.Arg(0))
	}
	return o, o.check()
}

func (o *runOptions) clusterFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.own.Binary, "paygrid", "", "paygrid binary to start a cluster with; default: build it from this module")
	flags.IntVar(&o.own.Shards, "shards", 4, "shards of the cluster that is started")
	flags.IntVar(&o.own.Routers, "routers", 2, "routers of it; each is a process of its own, as are a worker, and the PSPs\nwith database and broker")
	flags.DurationVar(&o.own.PSPLatency, "psp-latency", 50*time.Millisecond, "latency of its simulated PSPs")
	flags.StringVar(&o.own.Log, "log", "", "file for what its processes log")
	flags.Func("url", "router of a cluster that is there already; repeat it for several", func(text string) error {
		o.urls = append(o.urls, text)
		return nil
	})
	flags.Func("key", "CLIENT=API_KEY of that cluster; repeat it for several", pairs(o.keys))
	flags.Func("sim", "PSP=URL of that cluster's PSP simulators, for their books and for outages; repeat it", pairs(o.sims))
	flags.StringVar(&o.mapPath, "map", "", "that cluster's shard map, to compare the books")
}

// pairs reads name=value.
func pairs(into map[string]string) func(string) error {
	return func(text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || value == "" {
			return fmt.Errorf("%q: want NAME=VALUE", text)
		}
		into[name] = value
		return nil
	}
}

func (o *runOptions) readPart(text string) (err error) {
	k, n, ok := strings.Cut(text, "/")
	if ok {
		if o.part[0], err = strconv.Atoi(k); err == nil {
			o.part[1], err = strconv.Atoi(n)
		}
	}
	if !ok || err != nil || o.part[0] < 1 || o.part[0] > o.part[1] {
		return fmt.Errorf("%q: want k/n such as 1/4", text)
	}
	return nil
}

func (o *runOptions) readFaults(text string) (err error) {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		data, err := os.ReadFile(filepath.Clean(name))
		if err != nil {
			return err
		}
		text = string(data)
	}
	o.faults, err = loadtest.ParseFaults(text)
	return err
}

func (o *runOptions) check() error {
	if err := o.planOverload(); err != nil {
		return err
	}
	last := len(o.traffic.segments) - 1
	switch {
	case o.own.Shards < 1 || o.own.Shards > 64 || o.own.Routers < 1 || o.own.Routers > 64:
		return errors.New("--shards and --routers: want 1 to 64")
	case o.limitOwn > 0 && o.traffic.segments[last].Profile != loadtest.Ramp:
		return errors.New("--limit-own-p99: the profile must end with a ramp")
	case o.trace != "" && o.limitOwn > 0:
		return errors.New("--limit-own-p99: a trace has no ramp; use --profile")
	}
	return o.checkPart()
}

// isPart tells whether others play the rest of the trace.
func (o *runOptions) isPart() bool { return o.part[1] > 1 }

// checkPart refuses what parts of one run cannot have.
func (o *runOptions) checkPart() error {
	switch {
	case !o.isPart():
		return nil
	case len(o.urls) == 0:
		return &PartError{Flag: "url", Remedy: "all parts play against one cluster: start it, and name it to each"}
	case o.prefix == "" && o.start.IsZero():
		return &PartError{Flag: "start", Remedy: "give all parts the same --start, or the same --prefix: the books know one run's payments by it"}
	case o.prefix != "" && strings.Index(o.prefix, "-") != len(o.prefix)-1:
		return &PartError{Flag: "prefix", Remedy: fmt.Sprintf("%q: with --part it must end with its only hyphen, so that no other run's begins with it", o.prefix)}
	case o.overload == findCapacity:
		return &PartError{Flag: "overload", Remedy: "each part would find a capacity of its own: name that of the whole"}
	case o.limitOwn > 0:
		return &PartError{Flag: "limit-own-p99", Remedy: "each part would end its ramp at a time of its own: climb with one generator"}
	}
	return nil
}

// PartError is returned for flags with which a part could not be put together with the others.
type PartError struct{ Flag, Remedy string }

func (e *PartError) Error() string { return fmt.Sprintf("--%s: %s", e.Flag, e.Remedy) }

// runRun plays traffic against a cluster, and ends with the verdict.
func runRun(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := runFlags(args, stderr)
	if err != nil {
		return err
	}
	c, err := o.cluster(ctx, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if o.overload == findCapacity {
		if err := o.find(ctx, c, stderr); err != nil {
			return err
		}
	}
	t, err := newTrial(o, c, stderr)
	if err != nil {
		return err
	}
	report, err := t.run(ctx)
	if err != nil {
		return err
	}
	if err := o.write(report, stdout); err != nil {
		return err
	}
	if !report.Pass {
		return errFailed
	}
	return nil
}

func (o *runOptions) cluster(ctx context.Context, stderr io.Writer) (*cluster, error) {
	if len(o.urls) > 0 {
		if o.prefix == "" {
			begin := time.Now()
			if o.isPart() {
				begin = o.start
			}
			o.prefix = fmt.Sprintf("r%d-", begin.Unix())
		}
		return existing(o.urls, o.keys, o.mapPath, o.sims)
	}
	fmt.Fprintf(stderr, "starting paygrid dev: a database, %d shards, %d routers, two simulated PSPs\n", o.own.Shards, o.own.Routers)
	return startCluster(ctx, o.own)
}

// write puts the report where it is wanted; stdout gets the text, whose last line is the verdict.
func (o *runOptions) write(r *loadtest.Report, stdout io.Writer) error {
	if err := writeFile(o.json, func(w io.Writer) error { return writeJSON(w, r) }); err != nil {
		return err
	}
	if err := writeFile(o.html, r.WritePage); err != nil {
		return err
	}
	return r.WriteText(stdout)
}

// writeFile makes a file, with its folders; no name, no file.
func writeFile(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(filepath.Clean(path))
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// traffic is what a process plays: its part of a trace or a profile.
type traffic struct {
	mine   iter.Seq2[loadtest.Arrival, error]
	extent loadtest.Extent // of the whole
	digest hash.Hash       // of the file; nil for a profile
	close  func() error
}

// trace names what is played. It is read to its end.
func (t *traffic) trace() string {
	if t.digest == nil {
		return "generated"
	}
	return "sha256:" + hex.EncodeToString(t.digest.Sum(nil))
}

// arrivals are those of the trace or of the profile, and of this process's part.
func (o *runOptions) arrivals() (*traffic, error) {
	t := &traffic{close: func() error { return nil }}
	var all iter.Seq2[loadtest.Arrival, error]
	var err error
	switch o.trace {
	case "":
		all, err = o.traffic.generate()
	case "-":
		all = t.read(os.Stdin)
	default:
		var file *os.File
		if file, err = os.Open(o.trace); err == nil {
			all, t.close = t.read(file), file.Close
		}
	}
	if err != nil {
		return nil, err
	}
	t.mine = loadtest.PartOf(t.extent.Of(all), o.part[0], o.part[1])
	return t, nil
}

func (t *traffic) read(from io.Reader) iter.Seq2[loadtest.Arrival, error] {
	t.digest = sha256.New()
	return loadtest.ReadTrace(io.TeeReader(from, t.digest))
}

// share says what part of what was played.
func (o *runOptions) share(t *traffic) *loadtest.Share {
	s := &loadtest.Share{Part: o.part[0], Parts: o.part[1], Trace: t.trace(), Prefix: o.prefix,
		Setting: fmt.Sprintf("shed tries %d, impatient shops %t, overload %q, limit %s", o.shedTries, o.impatient, o.overload, o.limitOwn)}
	if t.digest == nil {
		s.Seed, s.Profile = o.traffic.seed, loadtest.ProfileText(o.traffic.segments)
		s.Traffic = fmt.Sprintf("clients %s, sellers %d, whale %t, habits %+v", strings.Join(o.traffic.clients, ","), o.traffic.sellers, o.traffic.whale,
			o.traffic.habits)
	}
	if t.extent.Whole {
		s.Arrivals = t.extent.Arrivals
	}
	return s
}

// setting says what was tested, for people.
func (o *runOptions) setting(c *cluster) string {
	text := fmt.Sprintf("seed %d, %d processors, generator on this machine, %d routers", o.traffic.seed, runtime.NumCPU(), len(c.urls))
	if o.trace != "" {
		text = fmt.Sprintf("trace %s, %d processors, %d routers", filepath.Base(o.trace), runtime.NumCPU(), len(c.urls))
	}
	if o.part[1] > 1 {
		text += fmt.Sprintf(", part %d of %d", o.part[0], o.part[1])
	}
	if c.dev == nil {
		return text + ", a cluster that was there already"
	}
	return text + fmt.Sprintf(", %d shards on one durable PostgreSQL, PSPs that take %s", o.own.Shards, o.own.PSPLatency)
}
