package localdb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	superuser    = "postgres"
	portAttempts = 5                // free ports to try before giving up
	readyLimit   = 60 * time.Second // covers recovery after a crash of a large folder
	tailBytes    = 2000             // of the server's log, in a StartError
)

// settings suit two cores and a few hundred connections. Memory for buffers is taken as it is used; with a quarter of it a minute of
// payments at 450 a second had waves of slow writes, since whoever wants a buffer writes another one out first.
var settings = []string{
	"listen_addresses=127.0.0.1",
	"unix_socket_directories=",
	"cluster_name=paygrid",
	"shared_buffers=1GB",
	"max_connections=300",
	"max_wal_size=4GB",
	"checkpoint_timeout=15min",
	"wal_compression=off",
	"autovacuum=on",
	"jit=off",
	"timezone=UTC",
	"log_timezone=UTC",
}

// unsafeSettings trade the data's survival of a power cut for speed; a checkpoint costs little then, space in memory more.
var unsafeSettings = []string{"fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_wal_size=1GB"}

// server is what one start works with.
type server struct {
	Options
	who    *account
	folder *folder
	with   installation
}

func startPostgres(ctx context.Context, o Options) (*Engine, error) {
	found, err := systemSearch().find()
	if err != nil {
		return nil, err
	}
	who, err := serverAccount()
	if err != nil {
		return nil, err
	}
	sweep(temporaryRoot(o.Durable))
	s := &server{Options: o, who: who}
	if s.folder, err = openFolder(o, who, s.logf); err != nil {
		return nil, err
	}
	engine, err := s.start(ctx, found)
	if err != nil {
		return nil, errors.Join(err, s.folder.close())
	}
	return engine, nil
}

func (s *server) logf(format string, args ...any) {
	fmt.Fprintf(s.Log, "localdb: "+format+"\n", args...)
}

// start works in a folder that is locked and ready.
func (s *server) start(ctx context.Context, found []installation) (*Engine, error) {
	var err error
	if s.with, err = pick(found, s.folder.data()); err != nil {
		return nil, err
	}
	if err := clearStale(s.folder.data(), s.logf); err != nil {
		return nil, err
	}
	password, err := s.initialise(ctx)
	if err != nil {
		return nil, err
	}
	for range portAttempts {
		admin, process, err := s.listen(ctx, password)
		if err == nil {
			s.logf("PostgreSQL %d (process %d) listens on %s, data in %s", s.with.major, process.cmd.Process.Pid, admin.Host, s.folder.home)
			return &Engine{kind: KindPostgres, admin: admin, stop: s.stopper(process)}, nil
		}
		if s.Port != 0 || !portTaken(err) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("localdb: %d free ports in a row were taken by others: try again, or set a port", portAttempts)
}

// stopper ends the server and closes its folder. Data that is thrown away needs no last checkpoint.
func (s *server) stopper(p *process) func() error {
	return func() error {
		if err := p.stop(s.lastSignal()); err != nil {
			return err // the folder stays locked and in place: it is in use
		}
		return s.folder.close()
	}
}

// lastSignal is SIGINT, a clean shutdown, for data that is kept, else SIGQUIT.
func (s *server) lastSignal() syscall.Signal {
	if s.folder.temporary {
		return syscall.SIGQUIT
	}
	return syscall.SIGINT
}

// initialise makes the cluster unless it is there, and returns the superuser's password.
func (s *server) initialise(ctx context.Context) (string, error) {
	if _, err := os.Stat(s.folder.data()); err == nil {
		return s.readPassword()
	}
	password := rand.Text()
	if err := s.writePassword(password); err != nil {
		return "", fmt.Errorf("localdb: password file: %w", err)
	}
	// Renamed when whole: an initdb that was killed half-way must not pass for a cluster.
	fresh := s.folder.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return "", fmt.Errorf("localdb: remove an unfinished cluster: %w", err)
	}
	if err := s.initdb(ctx, fresh); err != nil {
		return "", err
	}
	return password, os.Rename(fresh, s.folder.data())
}

func (s *server) readPassword() (string, error) {
	text, err := os.ReadFile(s.folder.password())
	if err != nil {
		return "", fmt.Errorf("localdb: password of an earlier start (remove %s to begin anew): %w", s.folder.home, err)
	}
	return strings.TrimSpace(string(text)), nil
}

func (s *server) writePassword(password string) error {
	path := s.folder.password()
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
		return err
	}
	return s.who.own(path) // initdb reads it as that user
}

func (s *server) initdb(ctx context.Context, dir string) error {
	args := []string{"-D", dir, "-U", superuser, "--auth=scram-sha-256", "--pwfile=" + s.folder.password(),
		"--locale=C", "--encoding=UTF8", "--no-instructions"}
	if !s.Durable {
		args = append(args, "--no-sync")
	}
	cmd := command(ctx, s.who, s.folder.home, filepath.Join(s.with.bin, "initdb"), args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("localdb: initdb: %w\n%s", errors.Join(err, ctx.Err()), out)
	}
	return nil
}

// listen starts the server on a port and returns its URL once it answers.
func (s *server) listen(ctx context.Context, password string) (url.URL, *process, error) {
	port, err := s.choosePort(ctx)
	if err != nil {
		return url.URL{}, nil, err
	}
	logFile, err := s.openLog()
	if err != nil {
		return url.URL{}, nil, fmt.Errorf("localdb: server log: %w", err)
	}
	defer logFile.Close() // the server has its own
	// The server outlives ctx, which bounds only the start.
	cmd := command(context.WithoutCancel(ctx), s.who, s.folder.home, filepath.Join(s.with.bin, "postgres"), s.arguments(port)...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	process, err := run(cmd, s.lastSignal())
	if err != nil {
		return url.URL{}, nil, err
	}
	admin := url.URL{Scheme: "postgresql", User: url.UserPassword(superuser, password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), RawQuery: "sslmode=disable"}
	if err := s.awaitReady(ctx, admin, process); err != nil {
		return url.URL{}, nil, errors.Join(err, process.stop(syscall.SIGINT))
	}
	return admin, process, nil
}

func (s *server) arguments(port int) []string {
	all := append([]string{"port=" + strconv.Itoa(port)}, settings...)
	if !s.Durable {
		all = append(all, unsafeSettings...)
	}
	args := []string{"-D", s.folder.data()}
	for _, setting := range all {
		args = append(args, "-c", setting)
	}
	return args
}

// choosePort asks the kernel for a port that is free now; another process may take it before the server does.
func (s *server) choosePort(ctx context.Context) (int, error) {
	if s.Port != 0 {
		return s.Port, nil
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("localdb: free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// openLog begins the log anew: a StartError must show this start's lines only.
func (s *server) openLog() (*os.File, error) {
	return os.OpenFile(s.folder.logFile(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
}

// awaitReady returns when the server answers a query, or has ended, or time is up.
func (s *server) awaitReady(ctx context.Context, admin url.URL, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	go func() { // whoever took the port may accept our connection and say nothing
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	admin.Path = "/postgres"
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := ping(ctx, admin.String())
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
			continue
		case <-p.done:
		case <-ctx.Done():
		}
		select {
		case <-p.done: // looked at first: it is also what ends ctx
			return &StartError{LogFile: s.folder.logFile(), Tail: s.logTail(), Err: p.err}
		default:
			return fmt.Errorf("localdb: the server does not answer (see %s): %w", s.folder.logFile(), errors.Join(ctx.Err(), err))
		}
	}
}

func ping(ctx context.Context, address string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return conn.Ping(ctx)
}

func (s *server) logTail() string {
	text, err := os.ReadFile(s.folder.logFile())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-tailBytes):])
}

// portTaken recognises the one failure that another port cures.
func portTaken(err error) bool {
	var failed *StartError
	return errors.As(err, &failed) && strings.Contains(failed.Tail, "could not bind IPv4 address")
}
