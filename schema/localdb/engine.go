package localdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The values of [Engine.Kind].
const (
	KindPostgres  = "postgres"
	KindCockroach = "cockroach"
)

const duplicateDatabase = "42P04" // SQLSTATE of CREATE DATABASE when the name is taken

// ErrNoTemplates is returned by [Engine.CreateFromTemplate] on CockroachDB, which cannot copy a database.
// Migrate each database instead.
var ErrNoTemplates = errors.New("localdb: CockroachDB has no template databases; migrate each database instead")

// Options says where an engine keeps its data and how safely. The zero value is right for tests.
type Options struct {
	// Dir holds the data and is made if missing. "" is a temporary folder, removed by Stop; without Durable it is
	// in memory where there is plenty (/dev/shm).
	Dir string
	// Durable leaves fsync, synchronous_commit and full_page_writes on. Without it the data survives
	// a crash of the server's process, but not one of the machine.
	Durable bool
	// Log gets a line for each thing that a person may want to know; nil is silence. The server's own log is a file in Dir.
	Log io.Writer
	// Port to listen on; 0 is a free one.
	Port int
}

// Engine is a running database engine. Its methods may be called concurrently.
type Engine struct {
	kind     string
	admin    url.URL // superuser, without a database
	stop     func() error
	stopOnce sync.Once
	stopErr  error
}

// Start finds an engine and starts it; it returns when the engine answers a query. ctx bounds the start only:
// the engine runs until Stop.
func Start(ctx context.Context, o Options) (*Engine, error) {
	if o.Log == nil {
		o.Log = io.Discard
	}
	if wantsCockroach() {
		return startCockroach(ctx, o)
	}
	return startPostgres(ctx, o)
}

// Stop ends the engine and removes its folder if that is a temporary one. Further calls return the same error.
func (e *Engine) Stop() error {
	e.stopOnce.Do(func() { e.stopErr = e.stop() })
	return e.stopErr
}

// Kind is [KindPostgres] or [KindCockroach].
func (e *Engine) Kind() string { return e.kind }

// AdminURL connects to a database as the engine's superuser.
func (e *Engine) AdminURL(database string) string {
	u := e.admin
	u.Path = "/" + database
	return u.String()
}

// URL connects to a database as another role, which must exist and have that password.
func (e *Engine) URL(database, user, password string) string {
	u := e.admin
	u.Path = "/" + database
	u.User = url.UserPassword(user, password)
	return u.String()
}

// CreateDatabase makes an empty database; it is no error if it exists.
func (e *Engine) CreateDatabase(ctx context.Context, name string) error {
	err := e.exec(ctx, "CREATE DATABASE "+quote(name))
	if sqlState(err) == duplicateDatabase {
		return nil
	}
	return wrap(err, "create database", name)
}

// CreateFromTemplate makes a database as a copy of template, which nobody may be connected to; much faster than
// to migrate an empty one. It is an error if the name is taken. CockroachDB: [ErrNoTemplates].
func (e *Engine) CreateFromTemplate(ctx context.Context, name, template string) error {
	if e.kind != KindPostgres {
		return ErrNoTemplates
	}
	return wrap(e.exec(ctx, "CREATE DATABASE "+quote(name)+" TEMPLATE "+quote(template)), "copy database "+template+" to", name)
}

// DropDatabase removes a database, whoever is connected to it; it is no error if there is none.
func (e *Engine) DropDatabase(ctx context.Context, name string) error {
	how := " WITH (FORCE)"
	if e.kind == KindCockroach {
		how = " CASCADE"
	}
	return wrap(e.exec(ctx, "DROP DATABASE IF EXISTS "+quote(name)+how), "drop database", name)
}

// exec runs one statement in a connection of its own: these are rare, and an idle one would block a template copy.
func (e *Engine) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, e.AdminURL(e.maintenanceDatabase()))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql)
	return err
}

func (e *Engine) maintenanceDatabase() string {
	if e.kind == KindCockroach {
		return "defaultdb"
	}
	return "postgres"
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func sqlState(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

func wrap(err error, operation, name string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("localdb: %s %q: %w", operation, name, err)
}
