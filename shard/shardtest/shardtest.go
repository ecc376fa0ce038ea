// Package shardtest gives tests real clusters: a migrated database per shard on a private engine, made as a copy of one
// template per test package.
package shardtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"paygrid/schema"
	"paygrid/schema/localdb"
	"paygrid/shard"
)

const (
	template = "paygrid_template"
	password = "paygrid-test"
)

// Databases makes clusters on one engine; one per test package.
type Databases struct {
	DB localdb.Shared

	once  sync.Once
	err   error
	count atomic.Int64
}

// Layout is the databases of one cluster and the file with its shard map.
type Layout struct {
	Names   []string          // shards in order
	URLs    map[string]string // shard -> URL for paygrid_app
	Admin   map[string]string // shard -> URL for the owner of its tables
	MapPath string
	Map     *shard.Map
}

// Main runs the tests of a package and stops the engine.
func (d *Databases) Main(m *testing.M) int { return d.DB.Main(m) }

// Layout makes the databases of a cluster of n shards and its map file; they go with the test.
func (d *Databases) Layout(t testing.TB, n int) Layout {
	t.Helper()
	ctx := context.Background()
	engine := d.DB.Engine(t)
	d.once.Do(func() { d.err = prepare(ctx, engine) })
	if d.err != nil {
		t.Fatal(d.err)
	}
	l := Layout{URLs: map[string]string{}, Admin: map[string]string{}, MapPath: filepath.Join(t.TempDir(), "shards.json")}
	for k := range n {
		name := fmt.Sprintf("shard-%d", k+1)
		database := fmt.Sprintf("t%d_%d", d.count.Add(1), k+1)
		if err := create(ctx, engine, database); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = engine.DropDatabase(context.Background(), database) })
		l.Names = append(l.Names, name)
		l.URLs[name] = engine.URL(database, "paygrid_app", password)
		l.Admin[name] = engine.AdminURL(database)
	}
	l.Map = shard.EvenMap(l.Names, l.URLs)
	for _, name := range l.Names {
		if err := shard.Place(ctx, l.Admin[name], name, l.Map); err != nil {
			t.Fatal(err)
		}
	}
	if err := shard.NewMapFile(l.MapPath).Write(l.Map); err != nil {
		t.Fatal(err)
	}
	return l
}

func prepare(ctx context.Context, engine *localdb.Engine) error {
	if err := engine.CreateDatabase(ctx, template); err != nil {
		return err
	}
	if err := schema.Migrate(ctx, engine.AdminURL(template)); err != nil {
		return err
	}
	return schema.AllowLogin(ctx, engine.AdminURL(template), password)
}

func create(ctx context.Context, engine *localdb.Engine, database string) error {
	err := engine.CreateFromTemplate(ctx, database, template)
	if !errors.Is(err, localdb.ErrNoTemplates) {
		return err
	}
	if err := engine.CreateDatabase(ctx, database); err != nil {
		return err
	}
	return schema.Migrate(ctx, engine.AdminURL(database))
}

// Open opens a cluster on a layout; it is closed with the test.
func (l Layout) Open(t testing.TB, o shard.Options) *shard.Cluster {
	t.Helper()
	if o.Now == nil {
		o.Now = time.Now
	}
	c, err := shard.Open(context.Background(), shard.NewMapFile(l.MapPath), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Exec runs a statement as the owner of a shard's tables, to plant a fault.
func (l Layout) Exec(t testing.TB, shardName, sql string, args ...any) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, l.Admin[shardName])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Count runs a SELECT of one integer as the owner of a shard's tables.
func (l Layout) Count(t testing.TB, shardName, sql string, args ...any) int64 {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, l.Admin[shardName])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var n int64
	if err := conn.QueryRow(ctx, sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}
