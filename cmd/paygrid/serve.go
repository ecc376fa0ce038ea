package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"
)

// runServeRouter runs one router of a cluster that exists.
func runServeRouter(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "serve router", "run one router of a cluster that exists; background work only if its configuration says workEveryMs")
	listen := flags.String("listen", "127.0.0.1:8090", "address to listen on")
	return runServe(ctx, e, args, flags, listen, nodeOptions{})
}

// runServeWorker runs a shard's background work without the API: resolver, inbox, roll-ups, expiry. Any number may run;
// leases share the shards out.
func runServeWorker(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "serve worker",
		"run the background work of a cluster that exists: resolver, inbox, ledger. It serves /livez, /readyz and /metrics")
	listen := flags.String("listen", "127.0.0.1:8091", "address of probes and metrics")
	return runServe(ctx, e, args, flags, listen, nodeOptions{Worker: true})
}

func runServe(ctx context.Context, e env, args []string, flags *flag.FlagSet, listen *string, o nodeOptions) (err error) {
	path := flags.String("config", "", "the routers' configuration, a JSON file (required; paygrid dev writes one to its data folder)")
	flags.IntVar(&o.Instance, "instance", 1, "number that tells this process from others of the cluster; they then rarely wait for each other")
	debugListen := flags.String("debug-listen", "", debugHelp)
	if _, err := parse(flags, args, 0, "flags alone"); err != nil {
		return err
	}
	if *path == "" {
		return &usageError{"--config is missing"}
	}
	config, err := readConfig(*path)
	if err != nil {
		return err
	}
	closeDebug, err := serveDebug(*debugListen, e.err)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDebug()) }()
	o.Log, o.Now = newLog(e.err, slog.LevelInfo), time.Now
	return serve(ctx, config, *listen, e.out, o)
}

// serve runs a node and says where once it can do its work.
func serve(ctx context.Context, config routerConfig, listen string, out io.Writer, o nodeOptions) error {
	n, err := newNode(ctx, config, o)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		n.shards.Close()
		return err
	}
	if err := n.service.Ready(ctx); err != nil {
		o.Log.Warn("not every shard answers yet", "error", err)
	}
	what := "router"
	if o.Worker {
		what = "worker"
	}
	fmt.Fprintf(out, "paygrid %s ready url=http://%s\n", what, l.Addr())
	return n.run(ctx, l)
}

func newLog(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}
