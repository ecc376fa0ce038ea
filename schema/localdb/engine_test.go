package localdb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// childEnv names the Dir on which a re-executed test binary starts an engine, to be killed.
const childEnv = "PAYGRID_LOCALDB_CHILD"

var db Shared

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
	}
	os.Exit(db.Main(m))
}

// child starts an engine, says so, and never stops it.
func child(dir string) {
	if _, err := Start(context.Background(), Options{Dir: dir, Log: os.Stdout}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	select {}
}

func start(t *testing.T, o Options) *Engine {
	t.Helper()
	engine, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Stop(); err != nil {
			t.Error(err)
		}
	})
	return engine
}

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func query(t *testing.T, address, sql string) string {
	t.Helper()
	conn := connect(t, address)
	var answer string
	if err := conn.QueryRow(t.Context(), sql).Scan(&answer); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	_ = conn.Close(t.Context()) // now: an open one would block a template copy
	return answer
}

func execute(t *testing.T, address, sql string) {
	t.Helper()
	conn := connect(t, address)
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	_ = conn.Close(t.Context())
}

func needPostgres(t *testing.T, e *Engine) {
	t.Helper()
	if e.Kind() != KindPostgres {
		t.Skip("PostgreSQL only")
	}
}

func TestDatabasesAndRoles(t *testing.T) {
	engine := db.Engine(t)
	for range 2 { // the second time it exists
		if err := engine.CreateDatabase(t.Context(), `odd "name"`); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, engine.AdminURL(`odd "name"`), `CREATE ROLE clerk LOGIN PASSWORD 'p@ss/word?'`)
	if got := query(t, engine.URL(`odd "name"`, "clerk", "p@ss/word?"), "SELECT current_user::TEXT"); got != "clerk" {
		t.Errorf("connected as %q", got)
	}
	if _, err := pgx.Connect(t.Context(), engine.URL("postgres", "clerk", "wrong")); err == nil {
		t.Error("a wrong password was accepted")
	}
	for range 2 { // the second time it is gone
		if err := engine.DropDatabase(t.Context(), `odd "name"`); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, engine.AdminURL(engine.maintenanceDatabase()), "DROP ROLE clerk")
}

// dropAtEnd lets a test run again on the same engine, as -count asks for.
func dropAtEnd(t *testing.T, engine *Engine, names ...string) {
	t.Helper()
	t.Cleanup(func() {
		for _, name := range names {
			if err := engine.DropDatabase(context.Background(), name); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTemplateCopies(t *testing.T) {
	engine := db.Engine(t)
	needPostgres(t, engine)
	dropAtEnd(t, engine, "template_a", "copy_0", "copy_1", "copy_2")
	if err := engine.CreateDatabase(t.Context(), "template_a"); err != nil {
		t.Fatal(err)
	}
	execute(t, engine.AdminURL("template_a"), "CREATE TABLE words AS SELECT 'hello' AS word")
	for i := range 3 {
		name := fmt.Sprintf("copy_%d", i)
		if err := engine.CreateFromTemplate(t.Context(), name, "template_a"); err != nil {
			t.Fatal(err)
		}
		if got := query(t, engine.AdminURL(name), "SELECT word FROM words"); got != "hello" {
			t.Errorf("%s holds %q", name, got)
		}
	}
	if err := engine.CreateFromTemplate(t.Context(), "copy_0", "template_a"); sqlState(err) != duplicateDatabase {
		t.Errorf("copy over an existing database: %v, want SQLSTATE %s", err, duplicateDatabase)
	}
}

func TestCockroachHasNoTemplates(t *testing.T) {
	engine := &Engine{kind: KindCockroach}
	if err := engine.CreateFromTemplate(t.Context(), "a", "b"); !errors.Is(err, ErrNoTemplates) {
		t.Errorf("error %v, want ErrNoTemplates", err)
	}
}

func TestListensOnLoopbackTCPOnly(t *testing.T) {
	engine := db.Engine(t)
	needPostgres(t, engine)
	settings := map[string]string{"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "server_encoding": "UTF8",
		"lc_collate": "C", "password_encryption": "scram-sha-256", "jit": "off", "timezone": "UTC", "max_connections": "300"}
	for name, want := range settings {
		if got := query(t, engine.AdminURL("postgres"), "SHOW "+name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

// TestRestartKeepsDataAndPassword starts twice on one Dir, safely and not.
func TestRestartKeepsDataAndPassword(t *testing.T) {
	needPostgres(t, db.Engine(t))
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprintf("durable=%v", durable), func(t *testing.T) {
			dir := openTemp(t)
			first := start(t, Options{Dir: dir, Durable: durable})
			want := map[bool]string{true: "on", false: "off"}[durable]
			for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
				if got := query(t, first.AdminURL("postgres"), "SHOW "+setting); got != want {
					t.Errorf("%s = %s, want %s", setting, got, want)
				}
			}
			execute(t, first.AdminURL("postgres"), "CREATE TABLE kept AS SELECT 'still here' AS word")
			var busy *BusyError
			if _, err := Start(t.Context(), Options{Dir: dir}); !errors.As(err, &busy) {
				t.Errorf("start beside a running engine: %v, want a BusyError", err)
			}
			for range 2 {
				if err := first.Stop(); err != nil {
					t.Fatal(err)
				}
			}
			second := start(t, Options{Dir: dir, Durable: durable})
			if got := query(t, second.AdminURL("postgres"), "SELECT word FROM kept"); got != "still here" {
				t.Errorf("after a restart the table holds %q", got)
			}
			checkOwners(t, filepath.Join(dir, homeName))
		})
	}
}

// checkOwners: what the server writes is not root's, and nobody else can read the password.
func checkOwners(t *testing.T, home string) {
	t.Helper()
	who, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	uid := uint32(os.Geteuid())
	if who != nil {
		uid = who.uid
	}
	for name, mode := range map[string]os.FileMode{"": 0o700, "data": 0o700, "data/base": 0o700, "password": 0o600} {
		info, err := os.Stat(filepath.Join(home, name))
		if err != nil {
			t.Fatal(err)
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; owner != uid || info.Mode().Perm() != mode {
			t.Errorf("%q belongs to user %d with mode %v, want %d and %v", name, owner, info.Mode().Perm(), uid, mode)
		}
	}
}

// TestKilledParentLeavesNoServer kills -9 a process that runs an engine: the server ends too, its data can be opened again.
func TestKilledParentLeavesNoServer(t *testing.T) {
	needPostgres(t, db.Engine(t))
	dir := openTemp(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	said := untilReady(t, bufio.NewScanner(out))
	data := filepath.Join(dir, homeName, "data")
	if orphan(data) == 0 {
		t.Fatalf("no server runs on %s; the child said:\n%s", data, said)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	if dieWithParentWorks {
		waitGone(data, 10*time.Second)
		if pid := orphan(data); pid != 0 {
			t.Errorf("server %d outlived its parent", pid)
		}
	}
	engine := start(t, Options{Dir: dir})
	if got := query(t, engine.AdminURL("postgres"), "SELECT 'again'"); got != "again" {
		t.Errorf("answer %q", got)
	}
}

func untilReady(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	var said strings.Builder
	for lines.Scan() {
		if lines.Text() == "ready" {
			return said.String()
		}
		fmt.Fprintln(&said, lines.Text())
	}
	t.Fatalf("the child ended before it was ready:\n%s", said.String())
	return ""
}

// TestStalePIDOfAnotherProcess plants what PostgreSQL alone refuses: a postmaster.pid whose number now belongs to
// another process of the same user.
func TestStalePIDOfAnotherProcess(t *testing.T) {
	needPostgres(t, db.Engine(t))
	dir := openTemp(t)
	if err := start(t, Options{Dir: dir}).Stop(); err != nil {
		t.Fatal(err)
	}
	who, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	bystander := command(t.Context(), who, "/", "sleep", "60")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bystander.Process.Kill(); _ = bystander.Wait() })
	data := filepath.Join(dir, homeName, "data")
	text := fmt.Sprintf("%d\n%s\n1\n1\n\n127.0.0.1\n0 0\nready\n", bystander.Process.Pid, data)
	if err := os.WriteFile(pidFile(data), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, Options{Dir: dir})
	if err := bystander.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other process was harmed: %v", err)
	}
}

func TestTakenPort(t *testing.T) {
	needPostgres(t, db.Engine(t))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, err = Start(t.Context(), Options{Port: listener.Addr().(*net.TCPAddr).Port})
	if !portTaken(err) {
		t.Errorf("error %v, want a StartError that says that the port is taken", err)
	}
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	needPostgres(t, db.Engine(t))
	t.Setenv("TMPDIR", openTemp(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func BenchmarkStartAndStop(b *testing.B) {
	for b.Loop() {
		engine, err := Start(b.Context(), Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := engine.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTemplateCopy(b *testing.B) {
	engine := db.Engine(b)
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprintf("bench_%d", i)
		if err := engine.CreateFromTemplate(b.Context(), name, "template1"); err != nil {
			b.Fatal(err)
		}
		if err := engine.DropDatabase(b.Context(), name); err != nil {
			b.Fatal(err)
		}
	}
}
