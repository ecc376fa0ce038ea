package paygrid

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	maxFunctionLines = 70
	maxLineRunes     = 160
	maxTestLineRunes = 240 // a table of cases reads best with one case per line
)

// mayImport is the import table: each package and what it may import of this module. Imports point only downwards.
// Programs, below cmd, and tests may import all but programs.
var mayImport = map[string][]string{
	".":                   {},
	"schema":              {},
	"schema/localdb":      {},
	"schema/grammar":      {"schema", "shard"}, // a module of its own, for tests
	"deploy/tools":        {},                  // a module of its own, for versions of tools
	"ledger":              {},
	"shard":               {"ledger", "schema"},
	"shard/model":         {"ledger", "shard"}, // the specification of the shards' contract, in memory
	"shard/relay":         {"shard"},
	"shard/relay/consume": {}, // for other services too: nothing of ours comes with it
	"psprouter":           {"ledger"},
	"psprouter/wire":      {"psprouter", "ledger"},
	"psprouter/stripe":    {"psprouter", "psprouter/wire", "ledger"},
	"psprouter/adyen":     {"psprouter", "psprouter/wire", "ledger"},
	"psprouter/simulator": {"psprouter", "ledger"},
	"payment":             {"psprouter", "ledger", "shard"},
	"rebalance":           {"ledger", "shard", "schema"},
	"payment/settlement":  {"payment", "psprouter", "ledger", "shard"},
	"payment/payout":      {"payment", "psprouter", "ledger", "shard"},
	"router":              belowRouter,
	"router/console":      append([]string{"router"}, belowRouter...),
	"loadtest":            {"ledger"},
}

var belowRouter = []string{"schema", "ledger", "shard", "shard/relay", "psprouter", "psprouter/stripe", "psprouter/adyen", "psprouter/simulator",
	"payment", "rebalance", "payment/settlement", "payment/payout"}

// forTests are packages that only tests (and one another) import: they may do what tests may.
var forTests = []string{"shard/shardtest", "psprouter/psptest", "psprouter/stripe/contract"}

// topLevel are the folders of DESIGN section 11, and what tools want at the top.
var topLevel = []string{"router", "shard", "ledger", "psprouter", "rebalance", "cmd", "schema", "deploy", "loadtest", "payment", "docs", "bench",
	".ci", ".git", ".github", ".paygrid", "bin"}

// allowed lists files that may break a rule, with the reason.
var allowed = map[string]map[string]string{
	"SELECT *": {
		"tidy_test.go":                   "plants it",
		"schema/grammar/check.go":        "names its own rule of that kind",
		"schema/grammar/check_test.go":   "plants it",
		"schema/grammar/grammar_test.go": "plants it",
	},
	"panic": {
		"psprouter/simulator/stripe_wire.go": "encoding a value of our own types cannot fail",
		"router/problem.go":                  "encoding a value of our own types cannot fail",
	},
	"float": {
		"shard/metrics.go":       "bounds of histograms, in seconds",
		"payment/metrics.go":     "bounds of histograms, in seconds",
		"shard/relay/metrics.go": "bounds of histograms, in seconds",
	},
	"time.Sleep": {
		"router/serve_test.go": "in a synctest bubble, where sleeping is how time passes",
	},
	"ASCII in SQL": {
		"tidy_test.go": "plants it",
	},
}

// rule is one habit of the house. planted are path and text of a file that breaks it, innocent of files that do not.
type rule struct {
	name, remedy      string
	find              func(*source) []hit
	planted, innocent []plant
}

type plant struct{ path, text string }

var rules = []rule{
	{
		name: "import table", remedy: "imports point only downwards: see mayImport and DESIGN section 11", find: findImports,
		planted: []plant{
			{"ledger/a.go", `package ledger; import "paygrid/shard"`},
			{"payment/a.go", `package payment; import "paygrid/psprouter/stripe"`},
			{"payment/a.go", `package payment; import "paygrid/schema/localdb"`},
			{"router/a.go", `package router; import "paygrid/cmd/paygrid"`},
			{"shard/a.go", `package shard; import "paygrid/shard/shardtest"`},
			{"shard/a_test.go", `package shard; import "paygrid/cmd/paygrid"`},
			{"news/a.go", `package news; import "paygrid/ledger"`},
			{"news/a.go", `package news`},
		},
		innocent: []plant{
			{"payment/a.go", `package payment; import ("paygrid/shard"; "fmt")`},
			{"payment/a_test.go", `package payment; import ("paygrid/schema/localdb"; "paygrid/psprouter/simulator")`},
			{"cmd/paygrid/a.go", `package main; import ("paygrid/schema/localdb"; "paygrid/router")`},
			{"shard/shardtest/a.go", `package shardtest; import ("paygrid/schema/localdb"; "paygrid/shard")`},
		},
	},
	{
		name: "clock", remedy: "take now func() time.Time in the constructor: only programs and tests read the clock", find: findClock,
		planted: []plant{
			{"shard/a.go", "package shard; import \"time\"\nvar a = time.Now"},
			{"shard/a.go", "package shard; import \"time\"\nfunc f(t time.Time) time.Duration { return time.Since(t) }"},
			{"ledger/a.go", "package ledger; import \"time\"\nfunc f(t time.Time) time.Duration { return time.Until(t) }"},
		},
		innocent: []plant{
			{"shard/a_test.go", "package shard; import \"time\"\nvar a = time.Now()"},
			{"cmd/x/a.go", "package main; import \"time\"\nvar a = time.Now()"},
			{"shard/a.go", "package shard; import \"time\"\nvar a = time.Second // never time.Now"},
		},
	},
	{
		name: "pgx", remedy: "only shard and schema talk to a database: ask a shard", find: findPgx,
		planted: []plant{
			{"payment/a.go", `package payment; import "github.com/jackc/pgx/v5/pgxpool"`},
			{"ledger/a.go", `package ledger; import "github.com/jackc/pgx/v5"`},
		},
		innocent: []plant{
			{"shard/relay/a.go", `package relay; import "github.com/jackc/pgx/v5"`},
			{"router/a_test.go", `package router; import "github.com/jackc/pgx/v5"`},
		},
	},
	{
		name: "float", remedy: "money is int64 minor units; only a metric's Observe, Add or Set may be given float64(…)", find: findFloats,
		planted: []plant{
			{"ledger/a.go", "package ledger\nfunc f(a float64) {}"},
			{"psprouter/stripe/a.go", "package stripe\nvar a float32"},
			{"payment/a.go", "package payment\nvar a = 0.029"},
			{"payment/a.go", "package payment\nfunc f(n int) { fee(float64(n)) }"},
			{"shard/a.go", "package shard\nfunc f() { m.Observe(float64(n) * 0.5) }"},
		},
		innocent: []plant{
			{"shard/a.go", "package shard\nfunc f(n int) { m.Observe(float64(n)) }"},
			{"ledger/a_test.go", "package ledger\nvar a float64"},
			{"router/a.go", "package router\nvar buckets = []float64{0.1}"},
		},
	},
	{
		name: "SELECT *", remedy: "name the columns: the next migration changes what * means", find: findStars,
		planted: []plant{
			{"shard/a.go", "package shard\nconst a = `\nWITH b AS (select  * FROM c) SELECT 1`"},
			{"shard/a_test.go", "package shard\nvar a = \"SELECT t.* FROM t\""},
			{"schema/migrations/1.sql", "CREATE VIEW a AS\nSELECT DISTINCT * FROM b;"},
		},
		innocent: []plant{
			{"shard/a.go", "package shard\nconst a = `SELECT count(*), a * 2 FROM b` // SELECT *"},
			{"schema/migrations/1.sql", "-- never SELECT * FROM b\nSELECT a FROM b;"},
		},
	},
	{
		name: "ASCII in SQL", remedy: "a character that looks like another makes another name: write ASCII", find: findNonASCII,
		planted: []plant{
			{"schema/migrations/1.sql", "SELECT 1;\n-- a soft\u00adhyphen"},
			{"shard/a.go", "package shard\nconst a = `SELECT p\u0430yment FROM b`"},
		},
		innocent: []plant{{"shard/a.go", "package shard\nconst a = `größer … select one` // ≤"}, {"schema/migrations/1.sql", "SELECT 1;"}},
	},
	{
		name: "init", remedy: "wire things in a constructor, called from cmd", find: findInit,
		planted:  []plant{{"shard/a.go", "package shard\nfunc init() {}"}, {"cmd/x/a.go", "package main\nfunc init() {}"}},
		innocent: []plant{{"shard/a.go", "package shard\nfunc (t T) init() {}"}},
	},
	{
		name: "package name", remedy: "name the package after what it owns; no util, common, helpers, internal, pkg", find: findNames,
		planted: []plant{
			{"shard/util/a.go", "package util"}, {"internal/x/a.go", "package x"}, {"router/a.go", "package helpers"}, {"pkg/a.go", "package a"},
		},
		innocent: []plant{{"shard/a.go", "package shard"}, {"router/common_test.go", "package router"}},
	},
	{
		name: "top-level folder", remedy: "the folders of DESIGN section 11 are all there are", find: findTopLevel,
		planted:  []plant{{"billing/a.go", "package billing"}, {"sql/1.sql", "SELECT 1"}},
		innocent: []plant{{"a.go", "package paygrid"}, {"shard/a.go", "package shard"}},
	},
	{
		name: "ExecuteTx", remedy: "cockroach-go's ExecuteTx loses commit errors on PostgreSQL: use shard's retry loop", find: findExecuteTx,
		planted:  []plant{{"shard/a.go", "package shard\nfunc f() { crdbpgxv5.ExecuteTx(ctx, db, o, g) }"}},
		innocent: []plant{{"shard/a.go", "package shard\n// ExecuteTx is never used\nfunc f() { Execute() }"}},
	},
	{
		name: "function length", remedy: fmt.Sprintf("at most %d lines: cut it where it changes its subject", maxFunctionLines), find: findLongFunctions,
		planted:  []plant{{"shard/a.go", "package shard\nfunc f() {" + strings.Repeat("\n", maxFunctionLines) + "}"}},
		innocent: []plant{{"shard/a.go", "package shard\nfunc f() {" + strings.Repeat("\n", maxFunctionLines-1) + "}"}},
	},
	{
		name: "line length", remedy: fmt.Sprintf("at most %d characters, in tests %d: break it", maxLineRunes, maxTestLineRunes), find: findLongLines,
		planted:  []plant{{"shard/a.go", "package shard\n// " + strings.Repeat("é", maxLineRunes-2)}, {"a.sql", strings.Repeat("-", maxLineRunes+1)}},
		innocent: []plant{{"shard/a.go", "package shard\n// " + strings.Repeat("é", maxLineRunes-3) + "\n"}, {"a_test.go", "package a // " + strings.Repeat("é", maxLineRunes)}},
	},
	{
		name: "panic", remedy: "return a typed error", find: findPanics,
		planted: []plant{{"shard/a.go", "package shard\nfunc f() { panic(\"x\") }"}},
		innocent: []plant{
			{"shard/a_test.go", "package shard\nfunc f() { panic(1) }"},
			{"router/a.go", "package router\nfunc f() { panic(http.ErrAbortHandler) }"}, // net/http's own way to drop a connection
		},
	},
	{
		name: "time.Sleep", remedy: "wait for the event, or use testing/synctest; outside tests a timer beside ctx.Done", find: findSleeps,
		planted:  []plant{{"shard/a_test.go", "package shard; import \"time\"\nfunc f() { time.Sleep(1) }"}, {"shard/a.go", "package shard; import \"time\"\nfunc f() { time.Sleep(1) }"}},
		innocent: []plant{{"shard/a_test.go", "package shard\nfunc f() { clock.Sleep(1) } // not time.Sleep(1)"}},
	},
}

// tree reads all .go and .sql files of the repository, nested modules included.
func tree(t *testing.T) []*source {
	t.Helper()
	var sources []*source
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", ".paygrid", "bin", "testdata"}, entry.Name()) {
			return fs.SkipDir
		}
		if entry.IsDir() || path.Ext(name) != ".go" && path.Ext(name) != ".sql" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		s, err := parse(name, string(text))
		sources = append(sources, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

// TestTidy holds the repository to its rules. Each line of its output names the place, the rule and the remedy.
func TestTidy(t *testing.T) {
	sources := tree(t)
	for _, rule := range rules {
		for _, s := range sources {
			if allowed[rule.name][s.path] != "" {
				continue
			}
			for _, hit := range rule.find(s) {
				t.Errorf("%s:%d: %s: %s. %s", s.path, hit.line, rule.name, hit.what, rule.remedy)
			}
		}
	}
	for _, dir := range undocumented(sources) {
		t.Errorf("%s: package comment: none. Write a doc.go: purpose, tables, protocol, failures, one example", dir)
	}
}

// TestTopLevelFolders also sees folders without a file that TestTidy reads.
func TestTopLevelFolders(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.IsDir() && !slices.Contains(topLevel, entry.Name()) {
			t.Errorf("%s: top-level folder: the folders of DESIGN section 11 are all there are", entry.Name())
		}
	}
}

// TestRulesCanFail plants a violation of each rule, and what looks like one.
func TestRulesCanFail(t *testing.T) {
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			if len(rule.planted) == 0 || len(rule.innocent) == 0 {
				t.Fatal("a rule needs a planted violation and an innocent neighbour")
			}
			for _, planted := range rule.planted {
				if hits := apply(t, rule, planted); len(hits) == 0 {
					t.Errorf("not found in %s:\n%s", planted.path, planted.text)
				}
			}
			for _, innocent := range rule.innocent {
				if hits := apply(t, rule, innocent); len(hits) > 0 {
					t.Errorf("found %v in %s:\n%s", hits, innocent.path, innocent.text)
				}
			}
		})
	}
}

func apply(t *testing.T, r rule, p plant) []hit {
	t.Helper()
	s, err := parse(p.path, p.text)
	if err != nil {
		t.Fatal(err)
	}
	return r.find(s)
}

func TestUndocumentedPackageIsFound(t *testing.T) {
	var sources []*source
	for _, p := range []plant{
		{"a/a.go", "// Package a is documented.\npackage a"}, {"a/b.go", "package a"},
		{"b/a.go", "package b"}, {"b/a_test.go", "// Package b is documented in the wrong place.\npackage b"},
	} {
		s, err := parse(p.path, p.text)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, s)
	}
	if missing := undocumented(sources); !slices.Equal(missing, []string{"b"}) {
		t.Errorf("undocumented: %v, want b alone", missing)
	}
}

// TestAllowancesAreUsed: a file that no longer breaks the rule, or is gone, loses its place in the list.
func TestAllowancesAreUsed(t *testing.T) {
	sources := tree(t)
	for _, rule := range rules {
		for name := range allowed[rule.name] {
			i := slices.IndexFunc(sources, func(s *source) bool { return s.path == name })
			if i < 0 || len(rule.find(sources[i])) == 0 {
				t.Errorf("%s needs no allowance for %q any more: remove it from the list", name, rule.name)
			}
		}
	}
}
