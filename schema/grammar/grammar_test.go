package grammar

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"paygrid/schema"
	"paygrid/shard"
)

func TestMigrations(t *testing.T) {
	checkFiles(t, schema.Migrations, "migrations/*.sql", 1)
}

// TestScripts checks what only CockroachDB runs; PostgreSQL's own scripts may use what CockroachDB lacks.
func TestScripts(t *testing.T) {
	checkFiles(t, os.DirFS(".."), "cockroach/*.sql", 1)
}

func checkFiles(t *testing.T, files fs.FS, pattern string, atLeast int) {
	t.Helper()
	names, err := fs.Glob(files, pattern)
	if err != nil || len(names) < atLeast {
		t.Fatalf("%d files match %s (%v), want %d or more", len(names), pattern, err, atLeast)
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts(string(text)) {
			for _, violation := range Check(part) {
				t.Errorf("%s: %v", name, violation)
			}
		}
	}
}

// parts cuts a migration at goose's lines: what is above Up, the way up and the way down. What stands between
// StatementBegin and StatementEnd needs no cutting: the parser knows where a statement ends. Other annotations are
// comments to it.
func parts(migration string) []string {
	all := []string{""}
	for line := range strings.Lines(migration) {
		annotation, is := strings.CutPrefix(strings.TrimSpace(line), "-- +goose ")
		if is && (strings.EqualFold(annotation, "Up") || strings.EqualFold(annotation, "Down")) {
			all = append(all, "")
		}
		all[len(all)-1] += line
	}
	return all
}

func TestPartsOfAMigration(t *testing.T) {
	text := "-- +goose NO TRANSACTION\n-- +goose Up\nSELECT 1;\n-- +goose StatementBegin\nSELECT 2;\n-- +goose StatementEnd\n-- +goose Down\nSELECT * FROM t;\n"
	got := parts(text)
	if len(got) != 3 || strings.Join(got, "") != text || !strings.Contains(got[1], "SELECT 2") || strings.Contains(got[1], "FROM t") {
		t.Errorf("parts %q", got)
	}
	if len(Check(got[1])) != 0 || len(Check(got[2])) != 1 {
		t.Error("the fault in the way down was not found there")
	}
}

func TestStatements(t *testing.T) {
	all := shard.Statements()
	if len(all) == 0 {
		t.Fatal("shard.Statements is empty")
	}
	for name, sql := range all {
		for _, violation := range Check(sql) {
			t.Errorf("statement %q of shard: %v", name, violation)
		}
	}
}
