// Package schema holds the tables of one shard and the migrator that lays them.
//
// The migrations are one SQL text for CockroachDB (24.3 and later) and PostgreSQL (15 and later). What must differ
// (roles, storage settings) lies in one folder per engine and runs before and after them. DDL is not transactional on
// CockroachDB, so every file is written to be run again: IF NOT EXISTS everywhere, one concern a file.
//
// The grammar module below this folder parses every statement with CockroachDB's own parser; localdb runs a private
// engine for a laptop and the tests.
package schema
