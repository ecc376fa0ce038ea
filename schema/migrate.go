package schema

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Migrations are the common migrations, in migrations/*.sql.
//
//go:embed migrations/*.sql
var Migrations embed.FS

//go:embed postgres/*.sql cockroach/*.sql
var engines embed.FS

// Engine names what answers at a database URL.
type Engine string

// The two engines.
const (
	PostgreSQL  Engine = "postgres"
	CockroachDB Engine = "cockroach"
)

// EngineOf tells the engine by the parameter that only CockroachDB reports.
func EngineOf(conn *pgx.Conn) Engine {
	if conn.PgConn().ParameterStatus("crdb_version") != "" {
		return CockroachDB
	}
	return PostgreSQL
}

// Migrate lays or updates the tables of the shard at url, as a role that may create tables and roles. It can be run
// again, and by several at once: a lease in a table lets one go first.
func Migrate(ctx context.Context, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("schema: read the database URL: %w", err)
	}
	engine, err := detect(ctx, config)
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()

	if err := checkCollation(ctx, db); err != nil {
		return err
	}
	if err := script(ctx, db, engine, "before.sql"); err != nil {
		return err
	}
	if err := up(ctx, db); err != nil {
		return err
	}
	return script(ctx, db, engine, "after.sql")
}

func detect(ctx context.Context, config *pgx.ConnConfig) (Engine, error) {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", fmt.Errorf("schema: connect: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	return EngineOf(conn), nil
}

func up(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(Migrations, "migrations")
	if err != nil {
		return fmt.Errorf("schema: open the migrations: %w", err)
	}
	locker, err := lock.NewPostgresTableLocker()
	if err != nil {
		return fmt.Errorf("schema: make the migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithLocker(locker))
	if err != nil {
		return fmt.Errorf("schema: read the migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("schema: migrate: %w", err)
	}
	return nil
}

// script runs one of the engine's own files; each is written to be run again.
func script(ctx context.Context, db *sql.DB, engine Engine, name string) error {
	text, err := engines.ReadFile(string(engine) + "/" + name)
	if err != nil {
		return fmt.Errorf("schema: %s/%s: %w", engine, name, err)
	}
	if _, err := db.ExecContext(ctx, string(text)); err != nil {
		return fmt.Errorf("schema: run %s/%s: %w", engine, name, err)
	}
	return nil
}

// AllowLogin lets paygrid_app log in with password, for a laptop, the demo and the tests. A deployment makes login roles
// of its own and grants them paygrid_app.
func AllowLogin(ctx context.Context, url, password string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("schema: connect: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	quoted := "'" + strings.ReplaceAll(password, "'", "''") + "'"
	if _, err := conn.Exec(ctx, "ALTER ROLE paygrid_app WITH LOGIN PASSWORD "+quoted); err != nil {
		return fmt.Errorf("schema: let paygrid_app log in: %w", err)
	}
	return nil
}

// CollationError is a PostgreSQL database whose text is not ordered by bytes. The ranges and partial indexes over account
// names need that.
type CollationError struct{ Collation string }

func (e *CollationError) Error() string {
	return "schema: the database orders text by " + e.Collation + ", not by bytes; make it with " +
		"CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'"
}

// checkCollation asks for an order that differs between bytes and languages.
func checkCollation(ctx context.Context, db *sql.DB) error {
	var byBytes bool
	if err := db.QueryRowContext(ctx, "SELECT 'a:z' < 'a;' AND 'a:z' > 'a:Z' AND 'B' < 'a'").Scan(&byBytes); err != nil {
		return fmt.Errorf("schema: ask for the collation: %w", err)
	}
	if byBytes {
		return nil
	}
	var name string
	if err := db.QueryRowContext(ctx, "SHOW lc_collate").Scan(&name); err != nil {
		name = "another language"
	}
	return &CollationError{Collation: name}
}
