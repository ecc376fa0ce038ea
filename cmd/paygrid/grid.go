package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"golang.org/x/sync/errgroup"

	"paygrid/payment"
	"paygrid/psprouter"
	"paygrid/psprouter/simulator"
	"paygrid/schema"
	"paygrid/schema/localdb"
	"paygrid/shard"
)

// The dev cluster's fixed names.
const (
	devStripeKey  = "sk_test_paygrid"
	devStripeHook = "whsec_test"
	devAdyenKey   = "adyen_test_paygrid"
	devAdyenHook  = "A1B2C3D4E5F60718293A4B5C6D7E8F90A1B2C3D4E5F60718293A4B5C6D7E8F90"
	devMerchant   = "ShopEUMain"
	shopA         = "tk_shop_a"
	shopB         = "tk_shop_b"
)

// devOperators are the dev cluster's people; their tokens are tk_u_kim, tk_u_lee and tk_u_max.
func devOperators() []operatorConfig {
	return []operatorConfig{{ID: "u-kim", TokenSHA256: sha256Hex("tk_u_kim")}, {ID: "u-lee", TokenSHA256: sha256Hex("tk_u_lee")},
		{ID: "u-max", TokenSHA256: sha256Hex("tk_u_max")}}
}

// gridOptions say how big a cluster on this machine is.
type gridOptions struct {
	Shards     int
	Routers    int    // 0 = others join by the configuration
	Listen     string // of the first router; further ones take the next ports. Port 0 gives each a free one
	Dir        string // data, map and config; must exist
	Durable    bool   // full commits
	PSPTimeout time.Duration
	Latency    time.Duration // of the simulated PSP
	WorkEvery  time.Duration // 0 = no background work
	Events     bool          // a broker, and events on their way to it
	Webhooks   bool          // the simulated PSPs send webhooks
	Visible    time.Duration // how long a PSP's having no record proves nothing; 0 = 15 min
	Recheck    time.Duration // the first pause between two checks; 0 = 30 s
	Seed       uint64        // of the simulated PSPs; 0 = from the clock
	Rules      psprouter.Rules
	Log        *slog.Logger
	EngineLog  io.Writer

	// What tests inject.
	Engine       *localdb.Engine                              // a running one; it is left running
	Prefix       string                                       // of database names
	Password     string                                       // of paygrid_app, shared by all databases of Engine; "" = give it a new one
	Database     func(ctx context.Context, name string) error // makes a database with tables on Engine; nil = laid by migrations
	Serializable bool
	Statement    time.Duration
	CheckAfter   time.Duration
	StepTarget   time.Duration // 0 = as routers have it
	Now          func() time.Time
	Pause        func(payment.Point)
}

// grid is a whole cluster in one process.
type grid struct {
	URLs       []string
	MapPath    string
	ConfigPath string
	Sim        *simulator.Simulator // Stripe
	SimURL     string
	Adyen      *simulator.Simulator
	AdyenURL   string
	ControlURL string
	Nodes      []*node
	Admin      map[string]string // shard -> URL of the owner of its tables
	Events     *eventsConfig     // nil = no broker

	engine *localdb.Engine // nil if it is not ours
	broker *kfake.Cluster  // nil if it is not ours
	down   atomic.Pointer[time.Time]
	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
	err    error // of the run; read after done
}

// startGrid starts everything and returns when it can take payments.
func startGrid(ctx context.Context, o gridOptions) (_ *grid, err error) {
	g := &grid{MapPath: filepath.Join(o.Dir, "shards.json"), ConfigPath: filepath.Join(o.Dir, "router.json"), done: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.Close())
		}
	}()
	engine := o.Engine
	if engine == nil {
		engine, err = localdb.Start(ctx, localdb.Options{Dir: o.Dir, Durable: o.Durable, Log: o.EngineLog})
		if err != nil {
			return nil, err
		}
		g.engine = engine
	}
	if err := errors.Join(g.startBroker(o), g.provision(ctx, engine, o)); err != nil {
		return nil, err
	}
	return g, g.start(ctx, o)
}

// provision makes a database per shard, its tables and buckets, and the map. A map that is there keeps its owners: only
// the databases' addresses are new.
func (g *grid) provision(ctx context.Context, engine *localdb.Engine, o gridOptions) error {
	password := cmp.Or(o.Password, rand.Text())
	create := o.Database
	if create == nil {
		create = migrated(engine)
	}
	g.Admin = map[string]string{}
	urls := map[string]string{}
	var names []string
	for n := range o.Shards {
		name := "shard-" + strconv.Itoa(n+1)
		database := o.Prefix + "paygrid_" + strconv.Itoa(n+1)
		if err := create(ctx, database); err != nil { // one after the other: they share the role
			return err
		}
		names = append(names, name)
		urls[name] = engine.URL(database, "paygrid_app", password)
		g.Admin[name] = engine.AdminURL(database)
	}
	m, err := g.oldMap(names, urls)
	if err != nil {
		return err
	}
	if o.Password == "" {
		if err := schema.AllowLogin(ctx, g.Admin[names[0]], password); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := shard.Place(ctx, g.Admin[name], name, m); err != nil {
			return err
		}
	}
	return shard.NewMapFile(g.MapPath).Write(m)
}

// migrated makes databases and lays their tables.
func migrated(engine *localdb.Engine) func(ctx context.Context, name string) error {
	return func(ctx context.Context, name string) error {
		if err := engine.CreateDatabase(ctx, name); err != nil {
			return err
		}
		return schema.Migrate(ctx, engine.AdminURL(name))
	}
}

func (g *grid) oldMap(names []string, urls map[string]string) (*shard.Map, error) {
	data, err := os.ReadFile(g.MapPath)
	if errors.Is(err, os.ErrNotExist) {
		return shard.EvenMap(names, urls), nil
	}
	if err != nil {
		return nil, err
	}
	m, err := shard.ParseMap(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.MapPath, err)
	}
	if len(m.URLs) != len(names) {
		return nil, &usageError{fmt.Sprintf("the data folder holds %d shards: start it with --shards %d, or name another folder", len(m.URLs), len(m.URLs))}
	}
	m.URLs = urls
	return m, nil
}

// start runs the simulators, the routers and the control in the background.
func (g *grid) start(ctx context.Context, o gridOptions) error {
	now := o.Now
	if now == nil {
		now = time.Now
	}
	listeners, err := listenAll(o.Listen, o.Routers)
	if err != nil {
		return err
	}
	for _, l := range listeners {
		g.URLs = append(g.URLs, "http://"+l.Addr().String())
	}
	own, err := listenAll("127.0.0.1:0", 3)
	if err != nil {
		return errors.Join(err, closeAll(listeners))
	}
	g.SimURL, g.AdyenURL, g.ControlURL = "http://"+own[0].Addr().String(), "http://"+own[1].Addr().String(), "http://"+own[2].Addr().String()
	config := devConfig(g, o)
	if err := errors.Join(g.simulators(o, now), config.write(g.ConfigPath)); err != nil {
		return errors.Join(err, closeAll(listeners), closeAll(own))
	}
	for n := range listeners {
		node, err := newNode(ctx, config, nodeOptions{Instance: n, Log: o.Log, Now: now, Pause: o.Pause})
		if err != nil {
			for _, open := range g.Nodes {
				open.shards.Close()
			}
			return errors.Join(err, closeAll(listeners), closeAll(own))
		}
		g.Nodes = append(g.Nodes, node)
	}
	g.run(ctx, own, listeners)
	if len(g.Nodes) == 0 {
		return nil
	}
	return g.Nodes[0].service.Ready(ctx)
}

// simulators makes a Stripe and an Adyen.
func (g *grid) simulators(o gridOptions, now func() time.Time) error {
	options := simulator.Options{Now: now, Seed: cmp.Or(o.Seed, uint64(time.Now().UnixNano())), LatencyMin: o.Latency, LatencyMax: o.Latency,
		SeveralCaptures: true, Live: true}
	stripe, adyen := options, options
	stripe.Dialect, stripe.SecretKey, stripe.WebhookSecrets = simulator.DialectStripe, devStripeKey, []string{devStripeHook}
	adyen.Dialect, adyen.SecretKey, adyen.WebhookSecrets = simulator.DialectAdyen, devAdyenKey, []string{devAdyenHook}
	adyen.MerchantAccount = devMerchant
	if o.Webhooks {
		for _, url := range g.URLs {
			stripe.Webhooks = append(stripe.Webhooks, simulator.Target{URL: url + "/v1/webhooks/stripe"})
			adyen.Webhooks = append(adyen.Webhooks, simulator.Target{URL: url + "/v1/webhooks/adyen"})
		}
	}
	var errs [2]error
	g.Sim, errs[0] = simulator.New(stripe)
	g.Adyen, errs[1] = simulator.New(adyen)
	return errors.Join(errs[:]...)
}

func closeAll(listeners []net.Listener) error {
	var errs []error
	for _, l := range listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// run joins the routers first and the simulators after them, so that commands under way can still end. own are the listeners of
// Stripe, Adyen and the control.
func (g *grid) run(ctx context.Context, own, listeners []net.Listener) {
	ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	simCtx, stopSim := context.WithCancel(context.WithoutCancel(ctx))
	routers, ctx := errgroup.WithContext(ctx)
	for n, l := range listeners {
		routers.Go(func() error { return g.Nodes[n].run(ctx, l) })
	}
	routers.Go(func() error { return serveMux(ctx, own[2], g.control()) })
	var sim errgroup.Group
	sim.Go(func() error { return g.Sim.Serve(simCtx, own[0]) })
	sim.Go(func() error { return g.Adyen.Serve(simCtx, own[1]) })
	go func() {
		defer close(g.done)
		err := routers.Wait()
		stopSim()
		g.err = errors.Join(err, sim.Wait())
	}()
}

// Wait returns when the cluster has ended by itself, or ctx ends.
func (g *grid) Wait(ctx context.Context) {
	select {
	case <-g.done:
	case <-ctx.Done():
	}
}

// Close drains the routers, then stops the simulator, the broker and the engine.
func (g *grid) Close() error {
	g.once.Do(func() {
		if g.cancel != nil {
			g.cancel()
			<-g.done
		}
		g.err = errors.Join(g.err, g.stopEngine())
	})
	return g.err
}

func (g *grid) stopEngine() error {
	if g.broker != nil {
		g.broker.Close()
	}
	if g.engine == nil {
		return nil
	}
	return g.engine.Stop()
}

// devConfig is the configuration of the cluster's routers. The file lets further ones join.
func devConfig(g *grid, o gridOptions) routerConfig {
	return routerConfig{Map: g.MapPath, Events: g.Events, PSPTimeoutMS: o.PSPTimeout.Milliseconds(), StatementMS: o.Statement.Milliseconds(),
		CheckAfterMS: o.CheckAfter.Milliseconds(), StepTargetMS: o.StepTarget.Milliseconds(),
		WorkEveryMS: o.WorkEvery.Milliseconds(), Serializable: o.Serializable,
		Clients:   []clientConfig{{ID: "shop_a", KeySHA256: sha256Hex(shopA)}, {ID: "shop_b", KeySHA256: sha256Hex(shopB)}},
		Operators: devOperators(),
		RecheckMS: o.Recheck.Milliseconds(), VisibleMS: o.Visible.Milliseconds(), Rules: o.Rules,
		Stripe: &stripeConfig{BaseURL: g.SimURL, SecretKey: devStripeKey, SeveralCaptures: true, WebhookSecrets: []string{devStripeHook},
			Live: true, NotProcessedHeader: simulator.NotProcessedHeader},
		Adyen: &adyenConfig{BaseURL: g.AdyenURL + "/v71", APIKey: devAdyenKey, MerchantAccount: devMerchant, SeveralCaptures: true,
			HMACKeys: []string{devAdyenHook}, Live: true, ReturnURL: "https://shop.example/return", NotProcessedHeader: simulator.NotProcessedHeader}}
}

func sha256Hex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// listenAll listens on address and on the ports after it, one per router.
func listenAll(address string, n int) ([]net.Listener, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &usageError{fmt.Sprintf("--listen %q: want host:port", address)}
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, &usageError{fmt.Sprintf("--listen %q: the port is no number", address)}
	}
	var out []net.Listener
	for k := range n {
		next := port
		if port > 0 {
			next += k
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(next)))
		if err != nil {
			for _, open := range out {
				err = errors.Join(err, open.Close())
			}
			return nil, fmt.Errorf("%w; name another address with --listen", err)
		}
		out = append(out, l)
	}
	return out, nil
}
