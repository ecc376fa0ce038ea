package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"paygrid/ledger"
	"paygrid/payment"
	"paygrid/shard"
)

// paygrid runs a command as main does.
func paygrid(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), env{&stdout, &stderr}, args)
	return code, stdout.String(), stderr.String()
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing.json")
	cases := []struct {
		args string
		code int
		says string
	}{
		{"", exitMisused, "paygrid COMMAND --help"},
		{"fly", exitMisused, "paygrid COMMAND --help"},
		{"serve", exitMisused, "serve router"},
		{"help", exitOK, "explain"},
		{"verify --help", exitOK, "-books"},
		{"verify --nonsense", exitMisused, "nonsense"},
		{"verify extra", exitMisused, "extra"},
		{"explain", exitMisused, "one payment ID"},
		{"balance", exitMisused, "one account"},
		{"balance seller_payable:s-ann", exitMisused, "--currency"},
		{"balance nonsense --currency EUR", exitMisused, "nonsense"},
		{"serve router", exitMisused, "--config"},
		{"serve router --config " + missing, exitFound, "missing.json"},
		{"dev --shards 0", exitMisused, "--shards"},
		{"dev --routers -1", exitMisused, "--routers"},
		{"verify --map " + missing, exitFound, "--map"},
		{"migrate --map " + missing, exitFound, "missing.json"},
		{"migrate --admin nonsense", exitMisused, "shard=URL"},
	}
	for _, c := range cases {
		t.Run(c.args, func(t *testing.T) {
			code, out, errs := paygrid(t, strings.Fields(c.args)...)
			if code != c.code || !strings.Contains(errs, c.says) || out != "" {
				t.Errorf("exit code %d, want %d; want %q in:\n%s\nstdout: %q", code, c.code, c.says, errs, out)
			}
		})
	}
}

func TestConfigThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	const client = `"clients":[{"id":"a","keySha256":"b"}]`
	for text, says := range map[string]string{
		`{`:                          "EOF",
		`{"mapp":"x"}`:               "mapp",
		`{` + client + `}`:           "map",
		`{"map":"x"}`:                "clients",
		`{"map":"x",` + client + `}`: "stripe",
		`{"pspTimeoutMs":"soon"}`:    "pspTimeoutMs",
	} {
		path := filepath.Join(t.TempDir(), "router.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, _, errs := paygrid(t, "serve", "router", "--config", path); code != exitFound || !strings.Contains(errs, says) {
			t.Errorf("%s: exit code %d, want %q in %q", text, code, says, errs)
		}
	}
}

// TestAsk asks a cluster that took a payment, gave a part back and lost an answer.
func TestAsk(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Routers: 1})
	c := g.callers[0]
	id, path := charge10(t, c, "ask")
	c.post(t, path+"/refunds", "k-refund", eur(6000)).want(t, http.StatusCreated)
	c.pay(t, "k-lost", p10("o-lost", "pm_ok_drop", "automatic")).want(t, http.StatusAccepted)

	t.Run("explain", func(t *testing.T) { askExplain(t, g, id) })
	t.Run("balance", func(t *testing.T) { askBalance(t, g) })
	t.Run("verify", func(t *testing.T) { askVerify(t, g, id) })
	t.Run("migrate", func(t *testing.T) { askMigrate(t, g) })
}

func askExplain(t *testing.T, g *testGrid, id string) {
	code, out, errs := paygrid(t, "explain", "--map", g.MapPath, id)
	for _, says := range []string{id, g.shardOf(t, "k-ask"), "AUTHORIZE", "REFUND", "seller_payable:s-ann", "-6300", "payment.captured", "evt_"} {
		if !strings.Contains(out, says) {
			t.Errorf("no %q in the story", says)
		}
	}
	if code != exitOK || errs != "" || t.Failed() {
		t.Errorf("exit code %d, %s\n%s", code, errs, out)
	}
	code, out, _ = paygrid(t, "explain", id, "--json", "--map", g.MapPath)
	var x map[string]any
	if err := json.Unmarshal([]byte(out), &x); err != nil || code != exitOK {
		t.Errorf("exit code %d, %v in\n%s", code, err, out)
	}
	for _, unknown := range []string{id[:len(id)-1] + "0", "nonsense"} {
		if unknown == id {
			continue
		}
		if code, out, errs := paygrid(t, "explain", "--map", g.MapPath, unknown); code != exitFound || errs == "" || out != "" {
			t.Errorf("%s: exit code %d, %q, %q", unknown, code, out, errs)
		}
	}
}

func askBalance(t *testing.T, g *testGrid) {
	code, out, errs := paygrid(t, "balance", "psp_receivable:stripe", "--currency", "EUR", "--map", g.MapPath)
	if code != exitOK || errs != "" || !strings.Contains(out, "4000") || strings.Count(out, "shard-") != 4 {
		t.Errorf("exit code %d, %s\n%s", code, errs, out)
	}
	code, out, _ = paygrid(t, "balance", "--json", "--map", g.MapPath, "seller_payable:s-ann", "--currency", "EUR")
	var b shard.Balance
	if err := json.Unmarshal([]byte(out), &b); err != nil || code != exitOK {
		t.Fatalf("exit code %d, %v in\n%s", code, err, out)
	}
	if b.Minor.Int64() != -2520 || b.Account != ledger.Account("seller_payable:s-ann") || len(b.Parts) != 4 {
		t.Errorf("got %+v", b)
	}
}

// askVerify also plants a fault: a payment that claims more than its entries say.
func askVerify(t *testing.T, g *testGrid, id string) {
	books := g.SimURL + "/sim/books"
	code, out, errs := paygrid(t, "verify", "--map", g.MapPath, "--books", books)
	if code != exitOK || errs != "" || !strings.Contains(out, "VERIFY PASS double_charges=0 lost=0 unbalanced=0 pending=1") {
		t.Errorf("exit code %d, %s\n%s", code, errs, out)
	}
	g.exec(t, g.shardOf(t, "k-ask"), `UPDATE payments SET refunded = refunded - 1 WHERE payment_id = $1`, id)
	code, out, _ = paygrid(t, "verify", "--map", g.MapPath)
	if code != exitFound || !strings.Contains(out, "VERIFY FAIL") || !strings.Contains(out, id) {
		t.Errorf("a planted fault: exit code %d\n%s", code, out)
	}
	code, out, _ = paygrid(t, "verify", "--json", "--map", g.MapPath, "--books", books)
	var report payment.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != exitFound || len(report.Findings) == 0 {
		t.Errorf("exit code %d, %v in\n%s", code, err, out)
	}
	g.exec(t, g.shardOf(t, "k-ask"), `UPDATE payments SET refunded = refunded + 1 WHERE payment_id = $1`, id)
	if code, _, errs := paygrid(t, "verify", "--map", g.MapPath, "--books", "http://127.0.0.1:1/sim/books"); code != exitFound || errs == "" {
		t.Errorf("books that do not answer: exit code %d, %q", code, errs)
	}
}

// askMigrate lays what is there already, and keeps every bucket as it is.
func askMigrate(t *testing.T, g *testGrid) {
	args := []string{"migrate", "--map", g.MapPath}
	if code, _, errs := paygrid(t, args...); code != exitMisused || !strings.Contains(errs, "--admin shard-1=URL") {
		t.Errorf("without --admin: exit code %d, %s", code, errs)
	}
	for name, url := range g.Admin {
		args = append(args, "--admin", name+"="+url)
	}
	before := g.sum(t, `SELECT sum(seq) + count(*) FROM buckets`)
	code, out, errs := paygrid(t, args...)
	if code != exitOK || strings.Count(out, "migrated") != 4 {
		t.Errorf("exit code %d, %s\n%s", code, errs, out)
	}
	if after := g.sum(t, `SELECT sum(seq) + count(*) FROM buckets`); after != before {
		t.Errorf("the buckets changed from %d to %d", before, after)
	}
	g.always(t)
}

// TestListenOnTakenPort: a port that is taken ends the start, and nothing stays open.
func TestListenOnTakenPort(t *testing.T) {
	t.Parallel()
	taken, err := listenAll("127.0.0.1:0", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken[0].Close() }()
	if _, err := listenAll(taken[0].Addr().String(), 2); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("got %v", err)
	}
	for _, bad := range []string{"nonsense", "127.0.0.1:http"} {
		if _, err := listenAll(bad, 1); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

// TestServeRouter runs the command itself until it is told to end.
func TestServeRouter(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Routers: 1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &lineWriter{lines: make(chan string, 1)}
	code := make(chan int)
	go func() {
		code <- run(ctx, env{out, new(bytes.Buffer)}, []string{"serve", "router", "--config", g.ConfigPath, "--listen", "127.0.0.1:0"})
	}()
	_, url, ok := strings.Cut(strings.TrimSpace(<-out.lines), "url=")
	if !ok {
		t.Fatal("no ready line")
	}
	id, _ := charge10(t, newCaller(t, url), "serve")
	g.callers[0].wantCAP10(t, id)
	cancel()
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
}

// lineWriter hands what is written to who waits for it.
type lineWriter struct{ lines chan string }

func (w *lineWriter) Write(p []byte) (int, error) {
	select {
	case w.lines <- string(p):
	default:
	}
	return len(p), nil
}

// TestGridThatCannotStart: the fault is named, and what was started before it is ended again.
func TestGridThatCannotStart(t *testing.T) {
	t.Parallel()
	taken, err := listenAll("127.0.0.1:0", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken[0].Close() }()
	_ = newGrid(t, gridOptions{Shards: 1, Routers: 1}) // lays the template
	o := gridOptions{Engine: db.Engine(t), Password: testPassword, Prefix: "broken_", Shards: 1, Routers: 1, Dir: t.TempDir(), Listen: taken[0].Addr().String()}
	o.Database = func(ctx context.Context, name string) error {
		t.Cleanup(func() { _ = o.Engine.DropDatabase(context.Background(), name) })
		return copyTemplate(ctx, o.Engine, name)
	}
	if _, err := startGrid(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("got %v", err)
	}
}
