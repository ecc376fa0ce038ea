package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"paygrid/schema/localdb"
)

var databases localdb.Shared

func TestMain(m *testing.M) {
	code := databases.Main(m)
	built.remove()
	os.Exit(code)
}

// small is a run that measures every kind of cell and is over in a few seconds.
func small() benchOptions {
	return benchOptions{seconds: 0.6, rounds: 1, variants: slices.Clone(variantNames), callers: []int{1, 64}, sellers: []string{spread, hot}}
}

// TestBenchAndItsProof runs the whole benchmark small, then plants in each database what a loss would leave, and wants
// verify to see it.
func TestBenchAndItsProof(t *testing.T) {
	ctx := t.Context()
	engine := databases.Engine(t)
	b, err := openBench(ctx, small(), engine, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	samples, err := b.run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if want := 3 * 2 * 2; len(samples) != want {
		t.Fatalf("%d samples, want %d", len(samples), want)
	}
	for _, s := range samples {
		if s.steps == 0 || s.elapsed <= 0 {
			t.Errorf("%s measured nothing", s)
		}
	}
	for _, v := range b.variants {
		if err := v.verify(ctx); err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
		for _, fault := range faults(v.name) {
			t.Run(v.name+"/"+fault, func(t *testing.T) { wantLoss(t, v, engine.AdminURL("bench_"+v.name), fault) })
		}
	}
}

// faults are statements that take away, or bend, one row each.
func faults(variant string) []string {
	if variant == naive {
		return []string{
			`DELETE FROM lines WHERE (entry_id, line_no) IN (SELECT entry_id, line_no FROM lines LIMIT 1)`,
			`UPDATE balances SET balance = balance + 1 WHERE account = 'commission_revenue'`,
		}
	}
	const one = `(SELECT payment_id FROM payments LIMIT 1)`
	return []string{
		`DELETE FROM journal_entries WHERE payment_id = ` + one,
		`DELETE FROM postings WHERE entry_id = (SELECT entry_id FROM journal_entries LIMIT 1)`,
		`DELETE FROM outbox WHERE payment_id = ` + one + ` AND version = 2`,
		`UPDATE payments SET status = 'CAPTURE_PENDING' WHERE payment_id = ` + one,
		`UPDATE attempts SET status = 'PENDING' WHERE payment_id = ` + one,
		`UPDATE idempotency_keys SET answer_kind = NULL, answer = NULL WHERE payment_id = ` + one,
		`UPDATE seller_balances SET balance = balance - 1 WHERE account = (SELECT account FROM seller_balances LIMIT 1)`,
		`UPDATE buckets SET seq = seq + 1 WHERE bucket = 0`,
	}
}

// wantLoss plants the fault in a transaction of its own database, looks through the same connection, and takes it back.
func wantLoss(t *testing.T, v *variant, url, fault string) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	tag, err := tx.Exec(ctx, fault)
	if err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("the fault changed %d rows: %v", tag.RowsAffected(), err)
	}
	sql := sqlShardCounts
	if v.name == naive {
		sql = sqlNaiveCounts
	}
	planted := *v
	planted.count = func(ctx context.Context) (counts, error) { return scanCounts(tx.QueryRow(ctx, sql)) }
	var loss *LossError
	if err := planted.verify(ctx); !errors.As(err, &loss) {
		t.Errorf("verify says %v, want a LossError", err)
	}
}

// TestCommand: the command as people run it, its report and its samples.
func TestCommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "bench", "new.txt")
	var stdout bytes.Buffer
	args := []string{"bench", "--seconds", "1.8", "--rounds", "2", "--callers", "256", "--out", out}
	if err := run(t.Context(), args, &stdout, io.Discard); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	last := regexp.MustCompile(`^RATIO coalesced/single=\d+\.\d\d coalesced/naive=\d+\.\d\d hot/spread=\d+\.\d\d$`)
	if !last.MatchString(lines[len(lines)-1]) {
		t.Errorf("last line %q", lines[len(lines)-1])
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(text), "BenchmarkApply/coalesced/callers=256/spread "); got != 2 {
		t.Errorf("%d samples of one cell, want one per round:\n%s", got, text)
	}
}

func TestRunRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"":                         "a command is missing",
		"sweep":                    `unknown command "sweep"`,
		"bench now":                `unexpected argument "now"`,
		"bench --seconds 0":        "--seconds 0",
		"bench --rounds 0":         "--rounds 0",
		"bench --callers 1,x":      `--callers "1,x"`,
		"bench --callers 0":        `--callers "0"`,
		"bench --callers 100000":   "1 to 1000",
		"bench --sellers one":      `unknown "one"`,
		"bench --variants fast":    `unknown "fast"`,
		"bench --variants single,": `unknown ""`,
		"bench --batch 1":          "variant single",
		"bench --no-such-flag":     "no-such-flag",
	} {
		err := run(t.Context(), strings.Fields(args), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}

func TestJobsAreSound(t *testing.T) {
	for _, sellers := range []string{spread, hot} {
		jobs, err := makeJobs(0, 50, sellers, time.Unix(1_700_000_000, 0))
		if err != nil {
			t.Fatal(err)
		}
		ids, accounts := map[string]bool{}, map[string]bool{}
		for _, j := range jobs {
			if err := j.opening.Check(); err != nil {
				t.Fatal(err)
			}
			from := j.opening.Payment
			for _, c := range j.changes {
				if err := c.Check(); err != nil {
					t.Fatal(err)
				}
				if c.From != from.Status || c.Payment.Version != from.Version+1 {
					t.Errorf("%s version %d follows %s version %d", c.From, c.Payment.Version, from.Status, from.Version)
				}
				from = c.Payment
			}
			lines := j.entry.Lines()
			if len(lines) != 3 || lines[0].Minor != lines[1].Minor+lines[2].Minor {
				t.Errorf("lines %+v", lines)
			}
			ids[from.ID], accounts[string(lines[1].Account)] = true, true
		}
		if want := map[string]int{spread: 50, hot: 1}[sellers]; len(accounts) != want || len(ids) != 50 {
			t.Errorf("%s: %d payments of %d sellers, want 50 of %d", sellers, len(ids), len(accounts), want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		list []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := median(c.list); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.list, got, c.want)
		}
	}
}

// fixed is a sample of one second.
func fixed(variant, sellers string, payments int64) sample {
	return sample{cell: cell{variant, ratioCallers, sellers}, elapsed: time.Second, steps: 4 * payments, perPayment: 4}
}

func TestRatioLine(t *testing.T) {
	samples := []sample{fixed(single, spread, 100), fixed(coalesced, spread, 700), fixed(coalesced, spread, 500),
		fixed(coalesced, spread, 600), fixed(coalesced, hot, 540)}
	want := "RATIO coalesced/single=6.00 coalesced/naive=n/a hot/spread=0.90"
	if got := ratioLine(summarize(samples)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSampleFormat(t *testing.T) {
	var out bytes.Buffer
	if err := formatSamples(&out, []sample{fixed(coalesced, hot, 250), {cell: cell{single, 1, hot}}}); err != nil {
		t.Fatal(err)
	}
	want := "BenchmarkApply/coalesced/callers=256/hot 1000 1000000 ns/op 1000 steps/s 250 payments/s\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %q, want the end %q: a sample without steps has no line", out.String(), want)
	}
}

func TestParseProcess(t *testing.T) {
	const stat = "42 (postgres: a) b) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 20 30 20 0 1 0 100 1 1"
	got, err := parseProcess(stat)
	if err != nil {
		t.Fatal(err)
	}
	if want := (process{parent: 7, self: 2 * time.Second, waited: 500 * time.Millisecond}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, bad := range []string{"", "42 (x) S 7", strings.Replace(stat, " 150 ", " x ", 1)} {
		if _, err := parseProcess(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// TestRaceStops: callers stop when the payments are used up or one fails, and only whole payments count as paid.
func TestRaceStops(t *testing.T) {
	jobs := make([]job, 30)
	v := &variant{steps: 2, pay: func(_ context.Context, _ job, step func()) error { step(); step(); return nil }}
	s, err := race(t.Context(), v, cell{callers: 4}, jobs, time.Minute)
	if err != nil || s.perPayment != 2 || s.steps != 60 || v.paid != 30 {
		t.Errorf("%+v, paid %d: %v", s, v.paid, err)
	}
	v.pay = func(context.Context, job, func()) error { return fmt.Errorf("refused") }
	if _, err := race(t.Context(), v, cell{callers: 4}, jobs, time.Minute); err == nil || v.paid != 30 {
		t.Errorf("error %v, paid %d", err, v.paid)
	}
}
