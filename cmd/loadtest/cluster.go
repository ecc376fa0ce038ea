package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
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
	control string            // URL of paygrid dev's control; "" without one
	sims    map[string]string // psp -> URL of its simulator
	keys    map[string]string // client -> API key

	binary  string
	config  string
	dir     string // of the binary and the log; removed at the end
	log     *os.File
	dev     *child         // database, simulators and broker; nil for a cluster that is there already
	routers map[int]*child // by number, from 1
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

// startCluster starts paygrid dev without routers, a worker and the routers, each a process of its own.
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
	if err := c.startWorker(ctx); err != nil { // before routers, which work as well: it is to hold the leases
		return nil, err
	}
	for n := range o.Routers {
		if err := c.startRouter(ctx, n+1, "127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	return c, c.tellPSPs(ctx)
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
	p, said, err := startProcess(ctx, "paygrid dev", c.log, c.binary, "dev", "--ephemeral", "--shards", strconv.Itoa(o.Shards), "--routers", "0",
		"--psp-latency", o.PSPLatency.String())
	if err != nil {
		return err
	}
	c.dev, c.mapPath, c.config, c.control = p, said["map"], said["config"], said["control"]
	c.sims, c.keys = map[string]string{}, map[string]string{}
	for _, psp := range []string{"stripe", "adyen"} {
		if said[psp] != "" {
			c.sims[psp] = said[psp]
		}
	}
	for _, key := range strings.Split(said["keys"], ",") {
		c.keys[strings.TrimPrefix(key, "tk_")] = key // tk_shop_a is the key of shop_a
	}
	if c.mapPath == "" || c.config == "" || c.control == "" {
		return fmt.Errorf("paygrid dev said %v: want map, config and control", said)
	}
	return nil
}

// tellPSPs names the routers to the simulators, which send each notice to one of them, and to the next if it is dead.
func (c *cluster) tellPSPs(ctx context.Context) error {
	for psp, sim := range c.sims {
		var targets []string
		for _, router := range c.urls {
			targets = append(targets, router+"/v1/webhooks/"+psp)
		}
		if err := ask(ctx, http.MethodPut, sim+"/sim/webhooks", map[string][]string{"targets": targets}); err != nil {
			return fmt.Errorf("name the routers to the simulator of %s: %w", psp, err)
		}
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

// startWorker starts a worker, if paygrid has that command. Whoever dies, others take its leases over when they have run out.
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
const devProcess = "PSPs and broker"

// names are what reports call the processes.
func (c *cluster) names() map[string]string {
	names := map[string]string{}
	for n, url := range c.urls {
		names[url] = fmt.Sprintf("router %d", n+1)
	}
	if c.control != "" {
		names[c.control] = devProcess
	}
	if c.worker != "" {
		names[c.worker] = "worker"
	}
	return names
}

// processes are the URLs of all that have metrics.
func (c *cluster) processes() []string {
	urls := append([]string{}, c.urls...)
	for _, other := range []string{c.worker, c.control} {
		if other != "" {
			urls = append(urls, other)
		}
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
