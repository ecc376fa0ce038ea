// Package localdb finds, starts and stops a private database engine for a laptop, the demo and the tests.
//
// A production cluster never uses it: there the shards are CockroachDB clusters that exist already. Here the engine is
// one PostgreSQL (15 or later) with a folder of its own, which listens on 127.0.0.1 alone, on a free port, with a
// random password. One engine holds many databases, so "four shards" are four databases of one engine.
//
//	Dir/postgres.lock     held by flock while the engine runs: one Dir, one engine
//	Dir/postgres/         home; as root it belongs to the system user postgres
//	Dir/postgres/data     the cluster, made once by initdb
//	Dir/postgres/password of the superuser, mode 0600, so that the next start on the same Dir can use it
//	Dir/postgres/server.log
//
// As root, PostgreSQL refuses to run; the server then runs as the system user postgres. Where that user cannot reach
// Dir (for example below /root), home lies in /var/tmp under a name derived from Dir, and Dir/postgres is a symlink.
//
// What happens on a failure:
//   - no PostgreSQL is found: [*NotFoundError], which says what to install on each system;
//   - Dir is in use by another engine: [*BusyError];
//   - Dir was made by another major version that is not installed any more: [*VersionError];
//   - the server ends while it starts: [*StartError] with the last lines of its log;
//   - the port was taken between asking for it and using it: another port, a few times;
//   - the parent is killed with -9: on Linux the kernel signals the server at once. Elsewhere, or if the server
//     is still shutting down, the next Start on the same Dir ends it before it starts its own;
//   - a stale postmaster.pid, even one whose number another process has by now, is removed.
//
// With COCKROACH_BINARY set, or PAYGRID_DB=cockroach and cockroach on PATH, the engine is CockroachDB, run by
// cockroach-go's testserver, which keeps nothing after Stop. Nothing is ever downloaded.
//
// A test package shares one engine:
//
//	var db localdb.Shared
//
//	func TestMain(m *testing.M) { os.Exit(db.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		engine := db.Engine(t) // started when the first test asks for it, stopped by Main
//		…
//	}
//
// The package needs a Unix (flock, signals, user IDs).
package localdb
