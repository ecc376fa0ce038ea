package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// defaultDir is where dev keeps its data, and where the other commands look for the shard map.
const defaultDir = ".paygrid"

// runDev runs a whole cluster until it is interrupted.
func runDev(ctx context.Context, e env, args []string) (err error) {
	flags := newFlags(e, "dev", "run a whole cluster on this machine: database, shards, PSP simulator, routers, workers")
	o := gridOptions{}
	flags.IntVar(&o.Shards, "shards", 4, "how many shards; fixed for a data folder")
	flags.IntVar(&o.Routers, "routers", 1, "how many routers; further ones take the next ports. 0: they join as serve router --config, and\n"+
		"the PSPs are told of them by PUT /sim/webhooks (pspsim --help)")
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:8080", "address of the first router; port 0 gives each a free one")
	flags.StringVar(&o.Dir, "data", defaultDir, "folder that keeps the data, the shard map and the routers' configuration")
	ephemeral := flags.Bool("ephemeral", false, "keep nothing: data in a temporary folder, removed at the end")
	flags.DurationVar(&o.PSPTimeout, "psp-timeout", 10*time.Second, "how long a PSP's answer is waited for")
	flags.DurationVar(&o.Latency, "psp-latency", 0, "latency of the simulated PSP")
	debugListen := flags.String("debug-listen", "", debugHelp)
	verbose := flags.Bool("verbose", false, "log every request")
	if _, err := parse(flags, args, 0, "flags alone"); err != nil {
		return err
	}
	if o.Shards < 1 || o.Shards > 64 || o.Routers < 0 || o.Routers > 64 {
		return &usageError{"--shards must be 1 to 64, --routers 0 to 64"}
	}
	dir, remove, err := dataDir(o.Dir, *ephemeral)
	if err != nil {
		return err
	}
	defer remove()
	o.Dir, o.Durable, o.WorkEvery, o.EngineLog = dir, true, 250*time.Millisecond, e.err
	o.Webhooks, o.CheckAfter, o.Recheck, o.Visible = true, 2*time.Second, 2*time.Second, 30*time.Second
	o.Events = true
	o.Log = newLog(e.err, level(*verbose))
	closeDebug, err := serveDebug(*debugListen, e.err)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDebug()) }()
	g, err := startGrid(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.out, "paygrid ready url=%s keys=%s,%s shards=%d map=%s config=%s stripe=%s adyen=%s kafka=%s control=%s\n",
		cmp.Or(strings.Join(g.URLs, ","), "-"), shopA, shopB, o.Shards, g.MapPath, g.ConfigPath, g.SimURL, g.AdyenURL, g.brokers(), g.ControlURL)
	g.Wait(ctx)
	return g.Close()
}

func level(verbose bool) slog.Level {
	if verbose {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// dataDir makes the data folder; remove takes a temporary one away.
func dataDir(dir string, ephemeral bool) (path string, remove func(), err error) {
	if ephemeral {
		path, err = os.MkdirTemp("", "paygrid-")
		if err == nil {
			err = os.Chmod(path, 0o755) // the database's own user goes through it
		}
		return path, func() { _ = os.RemoveAll(path) }, err
	}
	if path, err = filepath.Abs(dir); err == nil {
		err = os.MkdirAll(path, 0o755)
	}
	return path, func() {}, err
}
