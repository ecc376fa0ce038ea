// Command loadtest measures paygrid. See loadtest --help.
//
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

  bench    what one shard commits: one Change per statement, coalesced, and a naive twin

loadtest COMMAND --help lists the flags.
`

// run executes one command; stdout gets its report, stderr its progress.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(stderr, commands)
		return errors.New("a command is missing: want bench")
	}
	switch args[0] {
	case "bench":
		return runBench(ctx, args[1:], stdout, stderr)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, commands)
		return nil
	}
	return fmt.Errorf("unknown command %q: want bench", args[0])
}
