package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"
)

// runServeRouter runs one router of a cluster that exists.
func runServeRouter(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "serve router", "run one router of a cluster that exists")
	path := flags.String("config", "", "the router's configuration, a JSON file (required; paygrid dev writes one to its data folder)")
	listen := flags.String("listen", "127.0.0.1:8090", "address to listen on")
	instance := flags.Int("instance", 1, "number that tells this router from others of the cluster; routers then rarely wait for each other")
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
	return serve(ctx, config, *listen, e.out, nodeOptions{Instance: *instance, Log: newLog(e.err, slog.LevelInfo), Now: time.Now})
}

// serve runs a node and says where once it can take payments.
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
	fmt.Fprintf(out, "paygrid router ready url=http://%s\n", l.Addr())
	return n.run(ctx, l)
}

func newLog(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
}
