// Command loadtest measures paygrid, and whether every cent was right. See loadtest --help.
//
//	loadtest run      plays traffic against a cluster, with faults beside it, and ends with the verdict
//	loadtest trace    writes a trace to play
//	loadtest record   writes a trace from live traffic, without personal details
//	loadtest report   writes a kept report again; compare writes two side by side
//	loadtest merge    makes one report of those of generators that shared a trace
//	loadtest bench    what one shard commits: one Change per statement, coalesced, and a naive twin
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "loadtest:", err)
		os.Exit(1)
	}
}

const commands = `usage: loadtest COMMAND [flags]

  run      play traffic against a cluster (by default one that it starts), with faults beside it; the exit code is the verdict
  trace    write a trace to play: JSON Lines, one arrival each
  record   pass live traffic on and write a trace of it, without personal details
  report   write a report of run --json again, as text or page
  compare  write two reports side by side
  merge    make one report, with one verdict, of those of generators that shared a trace (run --part)
  bench    what one shard commits: one Change per statement, coalesced, and a naive twin

loadtest COMMAND --help lists the flags.
`

const wanted = "want run, trace, record, report, compare, merge or bench"

// run executes one command; stdout gets its report, stderr its progress.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(stderr, commands)
		return errors.New("a command is missing: " + wanted)
	}
	switch rest := args[1:]; args[0] {
	case "run":
		return runRun(ctx, rest, stdout, stderr)
	case "trace":
		return runTrace(rest, stdout, stderr)
	case "record":
		return runRecord(ctx, rest, stdout, stderr)
	case "report":
		return runReport(rest, stdout, stderr)
	case "compare":
		return runCompare(rest, stdout)
	case "merge":
		return runMerge(rest, stdout, stderr)
	case "bench":
		return runBench(ctx, rest, stdout, stderr)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, commands)
		return nil
	}
	return fmt.Errorf("unknown command %q: %s", args[0], wanted)
}
