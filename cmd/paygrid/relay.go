package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/twmb/franz-go/pkg/kfake"
	"golang.org/x/sync/errgroup"

	"paygrid/shard"
	"paygrid/shard/relay"
)

// eventsConfig says where events go. Without it, and without KAFKA_BROKERS, they wait in the outbox.
type eventsConfig struct {
	Brokers   []string    `json:"brokers"`   // host:port of some; the environment's KAFKA_BROKERS, comma-separated, goes before it
	Topic     string      `json:"topic"`     // paygrid.payments; or KAFKA_TOPIC
	TLS       *relay.TLS  `json:"tls"`       // null = plain text; or KAFKA_TLS=1 and KAFKA_TLS_CA_FILE
	SASL      *saslConfig `json:"sasl"`      // null = no log-in; or KAFKA_SASL_MECHANISM, KAFKA_SASL_USER, KAFKA_SASL_PASSWORD
	MaxBytes  int         `json:"maxBytes"`  // the largest batch, not above the broker's message.max.bytes; 1000012
	MaxTries  int         `json:"maxTries"`  // of an event that is refused, before its payment is parked; 10
	PaceMS    int64       `json:"paceMs"`    // how long events gather while they flow; 100
	KeepHours int64       `json:"keepHours"` // how long published events stay in the outbox; 0 = for ever
}

// saslConfig is a log-in at the broker. The password comes from the environment variable that PasswordEnv names.
type saslConfig struct {
	Mechanism   string `json:"mechanism"` // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	User        string `json:"user"`
	PasswordEnv string `json:"passwordEnv"`
}

// withEnvironment lays the environment over the file.
func (c eventsConfig) withEnvironment() eventsConfig {
	if list := os.Getenv("KAFKA_BROKERS"); list != "" {
		c.Brokers = strings.Split(list, ",")
	}
	c.Topic = cmp.Or(os.Getenv("KAFKA_TOPIC"), c.Topic, relay.DefaultTopic)
	if roots := os.Getenv("KAFKA_TLS_CA_FILE"); roots != "" || os.Getenv("KAFKA_TLS") == "1" {
		c.TLS = &relay.TLS{CAFile: roots}
	}
	if mechanism := os.Getenv("KAFKA_SASL_MECHANISM"); mechanism != "" {
		c.SASL = &saslConfig{Mechanism: mechanism, User: os.Getenv("KAFKA_SASL_USER"), PasswordEnv: "KAFKA_SASL_PASSWORD"}
	}
	return c
}

// broker is how the brokers are reached.
func (c eventsConfig) broker() (relay.Broker, error) {
	out := relay.Broker{Seeds: c.Brokers, TLS: c.TLS}
	if c.SASL == nil {
		return out, nil
	}
	password, err := secret("events.sasl.passwordEnv", c.SASL.PasswordEnv, "")
	out.SASL = &relay.SASL{Mechanism: c.SASL.Mechanism, User: c.SASL.User, Password: password}
	return out, err
}

// events is where a process' events go, the environment's word before the file's.
func (c routerConfig) events() eventsConfig {
	if c.Events == nil {
		return eventsConfig{}.withEnvironment()
	}
	return c.Events.withEnvironment()
}

// newRelay makes the relay of a process; nil if no broker is configured.
func newRelay(c routerConfig, shards *shard.Cluster, owner string, o nodeOptions, registry prometheus.Registerer) (*relay.Relay, error) {
	events := c.events()
	if len(events.Brokers) == 0 {
		return nil, nil
	}
	broker, err := events.broker()
	if err != nil {
		return nil, err
	}
	return relay.New(shards, relay.Config{Broker: broker, Topic: events.Topic, Owner: owner, MaxBytes: events.MaxBytes, MaxTries: events.MaxTries,
		Pace: milliseconds(events.PaceMS), Keep: time.Duration(events.KeepHours) * time.Hour, Now: o.Now, Log: o.Log, Registry: registry})
}

// ownerOf names a process among all that hold leases.
func ownerOf(instance int) string {
	host, _ := os.Hostname() // without a name the process ID has to do
	return fmt.Sprintf("%s-%d-%d", host, os.Getpid(), instance)
}

// runServeRelay publishes the events of a cluster that exists, and does nothing else.
func runServeRelay(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "serve relay", "publish the events of a cluster that exists to Kafka; workers do it too. It serves /livez and /metrics")
	listen := flags.String("listen", "127.0.0.1:8092", "address of probe and metrics")
	path := flags.String("config", "", "the routers' configuration, a JSON file (required; paygrid dev writes one to its data folder)")
	instance := flags.Int("instance", 1, "number that tells this process from others of this machine")
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
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	o := nodeOptions{Instance: *instance, Log: newLog(e.err, slog.LevelInfo), Now: time.Now}
	registry := prometheus.NewRegistry()
	shards, err := shard.Open(ctx, shard.NewMapFile(config.Map), shard.Options{Lanes: 1, StatementTimeout: milliseconds(config.StatementMS), Now: o.Now}, registry)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer shards.Close()
	r, err := newRelay(config, shards, ownerOf(*instance), o, registry)
	if err == nil && r == nil {
		err = &usageError{"no broker is configured: set events.brokers in " + *path + ", or KAFKA_BROKERS"}
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	fmt.Fprintf(e.out, "paygrid relay ready url=http://%s kafka=%s topic=%s\n", l.Addr(), strings.Join(config.events().Brokers, ","), config.events().Topic)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.Run(ctx) })
	group.Go(func() error {
		return shards.Watch(ctx, mapInterval, func(err error) { o.Log.Error("the shard map cannot be used; the old one stays", "error", err) })
	})
	group.Go(func() error { return serveMux(ctx, l, probes(registry)) })
	return group.Wait()
}

// probes are /livez and /metrics.
func probes(registry *prometheus.Registry) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux
}

// serveMux serves until ctx ends.
func serveMux(ctx context.Context, l net.Listener, mux *http.ServeMux) error {
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// devPartitions is how many partitions the embedded broker's topic has.
const devPartitions = 12

// startBroker starts the broker of a cluster on this machine, unless the environment names another: kfake, which speaks Kafka's
// protocol inside this process and keeps its records in the data folder.
func (g *grid) startBroker(o gridOptions) error {
	if !o.Events {
		return nil
	}
	g.Events = &eventsConfig{}
	if *g.Events = g.Events.withEnvironment(); len(g.Events.Brokers) > 0 {
		return nil
	}
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(filepath.Join(o.Dir, "kafka")), kfake.SeedTopics(devPartitions, g.Events.Topic))
	if err != nil {
		return fmt.Errorf("start the embedded broker: %w", err)
	}
	fake.Control(g.breakWhileDown)
	g.broker, g.Events.Brokers = fake, fake.ListenAddrs()
	return nil
}

// brokers is the addresses for people; "-" = none.
func (g *grid) brokers() string {
	if g.Events == nil {
		return "-"
	}
	return strings.Join(g.Events.Brokers, ",")
}
