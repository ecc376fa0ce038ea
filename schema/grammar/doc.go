// Package grammar parses every statement of the project with CockroachDB's own grammar (25.2), and refuses what that
// grammar accepts and CockroachDB does not run, or runs otherwise than PostgreSQL. It is a module of its own, so that
// the parser's dependencies stay out of paygrid's go.mod, and holds nothing but tests and what they need:
//
//	cd schema/grammar && go test ./...
//
// A new statement needs nothing here if it is in schema/migrations or in shard.Statements.
//
// When paygrid's own go.mod has changed, go may ask for `go mod tidy` in this folder: run it, and commit the result.
package grammar
