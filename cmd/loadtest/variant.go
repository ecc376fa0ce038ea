package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"paygrid/schema"
	"paygrid/schema/localdb"
	"paygrid/shard"
)

// The ways to commit that are compared.
const (
	single    = "single"    // Begin and Apply, one Change per statement
	coalesced = "coalesced" // Begin and Apply, as services run them
	naive     = "naive"     // one interactive transaction per capture, with a balance row per account
)

var variantNames = []string{single, coalesced, naive}

// variant is one way to commit payments, with a database of its own.
type variant struct {
	name     string
	steps    int                                                 // commits of one payment
	pay      func(ctx context.Context, j job, step func()) error // calls step after each commit
	count    func(ctx context.Context) (counts, error)
	close    func()
	registry *prometheus.Registry // nil where there are no metrics

	paid   int64 // payments that were acknowledged: what verify must find
	counts counts
}

func openVariant(ctx context.Context, name string, o benchOptions, engine *localdb.Engine) (*variant, error) {
	database := "bench_" + name
	if err := engine.CreateDatabase(ctx, database); err != nil {
		return nil, err
	}
	if name == naive {
		return openNaive(ctx, engine.AdminURL(database))
	}
	options := shard.Options{BatchLimit: o.batch, Lanes: o.lanes, Now: time.Now}
	if name == single {
		options = shard.Options{BatchLimit: 1, Now: time.Now}
	}
	return openShard(ctx, name, database, options, engine)
}

// password is of a role in a throw-away engine that listens on 127.0.0.1.
const password = "paygrid-bench"

// openShard migrates the database as a cluster of one shard that owns all buckets.
func openShard(ctx context.Context, name, database string, o shard.Options, engine *localdb.Engine) (v *variant, err error) {
	admin := engine.AdminURL(database)
	if err := errors.Join(schema.Migrate(ctx, admin), schema.AllowLogin(ctx, admin, password)); err != nil {
		return nil, err
	}
	m := shard.EvenMap([]string{name}, map[string]string{name: engine.URL(database, "paygrid_app", password)})
	if err := shard.Place(ctx, admin, name, m); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "paygrid-bench-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := shard.NewMapFile(filepath.Join(dir, "shards.json"))
	if err := file.Write(m); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	cluster, err := shard.Open(ctx, file, o, registry)
	if err != nil {
		return nil, err
	}
	return &variant{name: name, steps: 4, close: cluster.Close, registry: registry, pay: payBy(cluster),
		count: func(ctx context.Context) (counts, error) { return queryCounts(ctx, admin, sqlShardCounts) }}, nil
}

func payBy(c *shard.Cluster) func(context.Context, job, func()) error {
	return func(ctx context.Context, j job, step func()) error {
		if err := c.Begin(ctx, j.opening); err != nil {
			return err
		}
		step()
		for _, change := range j.changes {
			if err := c.Apply(ctx, change); err != nil {
				return fmt.Errorf("%s to %s: %w", change.From, change.Payment.Status, err)
			}
			step()
		}
		return nil
	}
}
