// Command paygrid runs the cluster and answers questions about it. See paygrid help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// command is one subcommand; run gets what follows its name.
type command struct {
	name string // one or two words
	args string // for the help
	help string
	run  func(ctx context.Context, env env, args []string) error
}

// env is what a command writes to.
type env struct{ out, err io.Writer }

func commands() []command {
	return []command{
		{"dev", "[flags]", "run a whole cluster on this machine: database, shards, PSP simulator, routers, workers", long(runDev)},
		{"demo", "[flags]", "run a cluster, send it hundreds of payments with faults, compare all books, print a verdict", long(runDemo)},
		{"serve router", "--config FILE [flags]", "run one router of a cluster that exists", long(runServeRouter)},
		{"serve worker", "--config FILE [flags]", "run the background work of a cluster that exists, without the API", long(runServeWorker)},
		{"serve relay", "--config FILE [flags]", "publish the events of a cluster that exists to Kafka; workers do it too", long(runServeRelay)},
		{"migrate", "--map FILE --admin URL…", "lay or update the tables of every shard of a map", runMigrate},
		{"explain", "[flags] PAYMENT", "tell the whole story of a payment on one page", runExplain},
		{"balance", "[flags] ACCOUNT", "sum an account over all shards, with its sub-account on each", runBalance},
		{"verify", "[flags]", "compare all rows of all shards with each other; exit code 1 on any finding", runVerify},
		{"events tail", "[flags]", "print the events on the topic", runEventsTail},
		{"events check", "[flags]", "check the whole topic: no gap, in order, duplicates equal; exit code 1 on any finding", runEventsCheck},
		{"events parked", "[flags]", "list the payments whose events wait because one of them was refused", runEventsParked},
		{"events redrive", "[flags] PAYMENT", "try a parked payment's events once more", runEventsRedrive},
		{"attempts settle", "--as WORD --reason TEXT [flags] ATTEMPT", "ask for an attempt without an answer to be settled by hand", runSettle},
		{"attempts", "--pending [flags]", "list the attempts without an answer, on all shards", runAttempts},
		{"approvals approve", "[flags] APPROVAL", "agree to what another person asked for, and carry it out", runApprove},
		{"approvals reject", "[flags] APPROVAL", "refuse what another person asked for", runReject},
		{"approvals", "[flags]", "list what waits for a second person", runApprovals},
		{"inbox", "--unmatched|--misfit [flags]", "list the PSPs' notices that a person must look at", runInbox},
		{"psp status", "[flags]", "show breakers, rates and drains as routers see them, and what waits for an answer", runPSPStatus},
		{"psp drain", "--reason TEXT [flags] PSP", "keep new payments from a PSP", runDrain},
		{"psp undrain", "[flags] PSP", "let new payments go to a PSP again", runUndrain},
	}
}

// The exit codes.
const (
	exitOK      = 0
	exitFound   = 1 // verify found something, the demo failed, or a command did
	exitMisused = 2 // unknown command or flag
)

// errFound ends a command that ran well and found what must not be; it has said so itself.
var errFound = errors.New("findings")

// usageError is a command line that cannot be used.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, env{os.Stdout, os.Stderr}, os.Args[1:]))
}

// run finds and runs a command and returns the exit code.
func run(ctx context.Context, e env, args []string) int {
	c, rest, ok := find(args)
	if !ok {
		help(e.err)
		if len(args) > 0 && (args[0] == "help" || args[0] == "--help" || args[0] == "-h") {
			return exitOK
		}
		return exitMisused
	}
	err := c.run(ctx, e, rest)
	var usage *usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errFound):
		return exitFound
	case errors.As(err, &usage):
		fmt.Fprintf(e.err, "paygrid %s: %v\n", c.name, err)
		return exitMisused
	}
	fmt.Fprintf(e.err, "paygrid %s: %v\n", c.name, err)
	return exitFound
}

func find(args []string) (command, []string, bool) {
	for _, c := range commands() {
		words := strings.Fields(c.name)
		if len(args) >= len(words) && strings.Join(args[:len(words)], " ") == c.name {
			return c, args[len(words):], true
		}
	}
	return command{}, nil, false
}

func help(w io.Writer) {
	fmt.Fprint(w, "paygrid is a sharded ledger and payment cluster.\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  paygrid %s %s\n      %s\n", c.name, c.args, c.help)
	}
	fmt.Fprint(w, "\npaygrid COMMAND --help lists its flags.\n")
}

// newFlags makes a command's flag set; its help begins with the command's own line.
func newFlags(e env, name, intro string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(e.err)
	flags.Usage = func() {
		fmt.Fprintf(e.err, "paygrid %s: %s\n\n", name, intro)
		flags.PrintDefaults()
	}
	return flags
}

// parse reads flags that may stand before and after the arguments, and checks how many arguments there are.
func parse(flags *flag.FlagSet, args []string, want int, what string) ([]string, error) {
	var rest []string
	for {
		if err := flags.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, &usageError{err.Error()}
		}
		if flags.NArg() == 0 {
			break
		}
		rest = append(rest, flags.Arg(0))
		args = flags.Args()[1:]
	}
	if len(rest) != want {
		return nil, &usageError{fmt.Sprintf("want %s, got %q", what, rest)}
	}
	return rest, nil
}
