package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"paygrid/payment"
	"paygrid/router"
	"paygrid/shard"
	"paygrid/shard/relay"
)

// node is one router process's worth: its own pools, commands, HTTP side and background work. All wiring is here.
type node struct {
	shards    *shard.Cluster
	service   *payment.Service
	router    *router.Router
	switches  *switchboard
	closePSPs func()
	work      payment.Work
	relay     *relay.Relay // nil where no broker is configured, or no work is done
	config    routerConfig
	log       *slog.Logger
}

// nodeOptions are what a config file does not say: who this process is, and what tests inject.
type nodeOptions struct {
	Instance int
	Worker   bool // probes in place of the API, and background work even if the configuration names no interval
	Log      *slog.Logger
	Now      func() time.Time
	Pause    func(payment.Point)
}

// mapInterval is how often a process looks for a new shard map; a refusal by the fence looks at once.
const mapInterval = time.Second

// workerInterval is a worker's time between two rounds where the configuration names none.
const workerInterval = time.Second

func newNode(ctx context.Context, c routerConfig, o nodeOptions) (*node, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	psps, closePSPs, err := newPSPs(c, o.Now, registry)
	if err != nil {
		return nil, err
	}
	shards, err := shard.Open(ctx, shard.NewMapFile(c.Map), shard.Options{Lanes: c.Lanes, StatementTimeout: milliseconds(c.StatementMS),
		Serializable: c.Serializable, Instance: o.Instance, Now: o.Now}, registry)
	if err != nil {
		return nil, err
	}
	service, err := payment.New(shards, psps, payment.Config{PSPTimeout: milliseconds(c.PSPTimeoutMS),
		CheckAfter: milliseconds(c.CheckAfterMS), Recheck: milliseconds(c.RecheckMS), StepTarget: milliseconds(c.StepTargetMS),
		Lag: newLagReader().read, Now: o.Now,
		Log: o.Log, Registry: registry, Pause: o.Pause})
	if err != nil {
		shards.Close()
		return nil, err
	}
	if o.Worker && c.WorkEveryMS == 0 {
		c.WorkEveryMS = workerInterval.Milliseconds()
	}
	front, err := router.New(router.Config{Clients: c.clients(), Operators: c.operators(), PSPs: psps.Status, ProbesOnly: o.Worker,
		DrainDelay: milliseconds(c.DrainDelayMS)}, service, registry, o.Log, o.Now)
	if err != nil {
		shards.Close()
		return nil, err
	}
	owner := ownerOf(o.Instance)
	var publisher *relay.Relay
	if c.WorkEveryMS > 0 {
		if publisher, err = newRelay(c, shards, owner, o, registry); err != nil {
			shards.Close()
			return nil, err
		}
	}
	return &node{relay: publisher, shards: shards, service: service, router: front, switches: newSwitchboard(shards, psps, o.Log), closePSPs: closePSPs,
		config: c, log: o.Log, work: payment.Work{Service: service, Owner: owner, Every: milliseconds(c.WorkEveryMS)}}, nil
}

// drainTimeout bounds the wait for commands whose caller has left.
const drainTimeout = 30 * time.Second

// run serves on l and works until ctx ends, then drains: no new commands, the running ones end, the pools close.
func (n *node) run(ctx context.Context, l net.Listener) error {
	defer n.shards.Close()
	defer n.closePSPs()
	n.switches.look(ctx) // before the first payment
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.router.Serve(ctx, l) })
	group.Go(func() error {
		return n.shards.Watch(ctx, mapInterval, func(err error) { n.log.Error("the shard map cannot be used; the old one stays", "error", err) })
	})
	group.Go(func() error { return n.switches.run(ctx) })
	if n.work.Every > 0 {
		group.Go(func() error { return n.work.Run(ctx) })
	}
	if n.relay != nil {
		group.Go(func() error { return n.relay.Run(ctx) })
	}
	err := group.Wait()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if late := n.service.Drain(drain); late != nil {
		err = errors.Join(err, fmt.Errorf("commands were still running after %s: %w", drainTimeout, late))
	}
	return err
}
