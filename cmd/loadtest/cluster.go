package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cluster is what is tested: one of our own, made of child processes, or one that is there already.
type cluster struct {
	urls    []string          // of routers
	worker  string            // URL of the worker's metrics; "" without one
	mapPath string            // "" = nobody can look into the shards
	sims    map[string]string // psp -> URL of its simulator
	keys    map[string]string // client -> API key

	binary  string
	config  string
	dir     string // of the binary and the log; removed at the end
	log     *os.File
	dev     *child         // database, simulators and the first router; nil for a cluster that is there already
	routers map[int]*child // by number; the first is in dev
	work    *child
}

// clusterOptions say what to start.
type clusterOptions struct {
	Binary     string // of paygrid; "" = build it
	Shards     int
	Routers    int
	PSPLatency time.Duration
	Log        string // file for what the children say; "" = one that is removed with a run that went well
}

// startCluster starts paygrid dev with its first router, the other routers and a worker, each a process of its own.
func startCluster(ctx context.Context, o clusterOptions) (_ *cluster, err error) {
	c := &cluster{binary: o.Binary, routers: map[int]*child{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.dir, err = os.MkdirTemp("", "loadtest-"); err != nil {
		return nil, err
	}
	if o.Log == "" {
		o.Log = filepath.Join(c.dir, "children.log")
	}
	if c.log, err = os.Create(filepath.Clean(o.Log)); err != nil {
		return nil, err
	}
	if c.binary == "" {
		if err := c.build(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.startDev(ctx, o); err != nil {
		return nil, err
	}
	for n := 2; n <= o.Routers; n++ {
		if err := c.startRouter(ctx, n, "127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	return c, c.startWorker(ctx)
}

// build compiles paygrid: a child of go run would not get our signals.
func (c *cluster) build(ctx context.Context) error {
	c.binary = filepath.Join(c.dir, "paygrid")
	build := exec.CommandContext(ctx, "go", "build", "-o", c.binary, "paygrid/cmd/paygrid")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build paygrid (or name a binary with --paygrid): %w\n%s", err, out)
	}
	return nil
}

func (c *cluster) startDev(ctx context.Context, o clusterOptions) error {
	p, said, err := startProcess(ctx, "paygrid dev", c.log, c.binary, "dev", "--ephemeral", "--shards", strconv.Itoa(o.Shards), "--routers", "1",
		"--listen", "127.0.0.1:0", "--psp-latency", o.PSPLatency.String())
	if err != nil {
		return err
	}
	c.dev, c.mapPath, c.config, c.urls = p, said["map"], said["config"], strings.Split(said["url"], ",")
	c.sims, c.keys = map[string]string{}, map[string]string{}
	for _, psp := range []string{"stripe", "adyen"} {
		if said[psp] != "" {
			c.sims[psp] = said[psp]
		}
	}
	for _, key := range strings.Split(said["keys"], ",") {
		c.keys[strings.TrimPrefix(key, "tk_")] = key // tk_shop_a is the key of shop_a
	}
	if c.mapPath == "" || c.config == "" || c.urls[0] == "" {
		return fmt.Errorf("paygrid dev said %v: want url, map and config", said)
	}
	return nil
}

// startRouter starts a router as a process of its own, or one that was killed again at its address.
func (c *cluster) startRouter(ctx context.Context, number int, listen string) error {
	p, said, err := startProcess(ctx, fmt.Sprintf("router %d", number), c.log, c.binary, "serve", "router", "--config", c.config, "--listen", listen,
		"--instance", strconv.Itoa(number))
	if err != nil {
		return err
	}
	if c.routers[number] = p; number > len(c.urls) {
		c.urls = append(c.urls, said["url"])
	}
	return nil
}

// startWorker starts a worker beside the ones in the routers, if paygrid has that command.
func (c *cluster) startWorker(ctx context.Context) error {
	help, _ := exec.CommandContext(ctx, c.binary, "help").CombinedOutput() //nolint:gosec // as above
	if !bytes.Contains(help, []byte("serve worker")) {
		return nil
	}
	p, said, err := startProcess(ctx, "worker", c.log, c.binary, "serve", "worker", "--config", c.config, "--listen", "127.0.0.1:0", "--instance", "99")
	if err != nil {
		return err
	}
	c.work, c.worker = p, said["url"]
	return nil
}

// devProcess is what reports call paygrid dev.
const devProcess = "router 1 with the PSPs"

// names are what reports call the processes.
func (c *cluster) names() map[string]string {
	names := map[string]string{}
	for n, url := range c.urls {
		names[url] = fmt.Sprintf("router %d", n+1)
	}
	if c.dev != nil {
		names[c.urls[0]] = devProcess
	}
	if c.worker != "" {
		names[c.worker] = "worker"
	}
	return names
}

// processes are the URLs of all that have metrics.
func (c *cluster) processes() []string {
	urls := append([]string{}, c.urls...)
	if c.worker != "" {
		urls = append(urls, c.worker)
	}
	return urls
}

// close ends what was started, the database last.
func (c *cluster) close() error {
	var errs []error
	for _, p := range c.routers {
		errs = append(errs, p.stop())
	}
	for _, p := range []*child{c.work, c.dev} {
		if p != nil {
			errs = append(errs, p.stop())
		}
	}
	if c.log != nil {
		errs = append(errs, c.log.Close())
	}
	if c.dir != "" {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

// existing is a cluster that is there already; it is left running.
func existing(urls []string, keys map[string]string, mapPath string, sims map[string]string) (*cluster, error) {
	if len(keys) == 0 {
		return nil, errors.New("--key CLIENT=API_KEY is missing: a cluster that is there already has its own")
	}
	for n, text := range urls {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("--url %q: want a URL such as http://127.0.0.1:8080", text)
		}
		urls[n] = strings.TrimSuffix(text, "/")
	}
	return &cluster{urls: urls, keys: keys, mapPath: mapPath, sims: sims}, nil
}
