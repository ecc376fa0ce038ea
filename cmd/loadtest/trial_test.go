package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"paygrid/loadtest"
)

// paygridBinary is built once for all tests that start clusters.
type paygridBinary struct {
	once sync.Once
	path string
	err  error
}

var built paygridBinary

func (b *paygridBinary) of(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts whole clusters")
	}
	b.once.Do(func() {
		dir, err := os.MkdirTemp("", "loadtest-binary-")
		if err != nil {
			b.err = err
			return
		}
		b.path = filepath.Join(dir, "paygrid")
		if out, err := exec.Command("go", "build", "-o", b.path, "paygrid/cmd/paygrid").CombinedOutput(); err != nil {
			b.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

// remove takes the binary away.
func (b *paygridBinary) remove() {
	if b.path != "" {
		_ = os.RemoveAll(filepath.Dir(b.path))
	}
}

// played runs loadtest run and returns its report.
func played(t *testing.T, args ...string) (*loadtest.Report, string, error) {
	t.Helper()
	kept := filepath.Join(t.TempDir(), "report.json")
	var out bytes.Buffer
	err := run(t.Context(), append([]string{"run", "--paygrid", built.of(t), "--json", kept, "--psp-latency", "5ms"}, args...), &out, io.Discard)
	report, missing := readReport(kept)
	if missing != nil {
		t.Fatalf("%v; the run said %v", missing, err)
	}
	return report, out.String(), err
}

// TestReplayIsRepeatable plays one trace on 1, 4 and 16 shards: the same payments, amounts and final balances are there, and
// every book agrees.
func TestReplayIsRepeatable(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := run(t.Context(), []string{"trace", "--profile", "spike:20:5s", "--seed", "7", "--refunds", "300", "--voids", "100", "--charges", "200", "--declined", "150",
		"--double-clicks", "100", "--capture-after", "400ms", "--refund-after", "400ms", "--whale", "--out", trace}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	var first *loadtest.Report
	for _, shards := range []string{"1", "4", "16"} {
		r, text, err := played(t, "--trace", trace, "--shards", shards, "--routers", "1")
		if err != nil || !r.Pass {
			t.Fatalf("on %s shards: %v\n%s", shards, err, text)
		}
		if fmt.Sprint(r.Books.Shards) != shards || r.Books.Payments < r.Intended || r.Paid == 0 || r.Books.Witnessed == 0 {
			t.Errorf("on %s shards: %+v, intended %d, paid %d", shards, r.Books, r.Intended, r.Paid)
		}
		if first == nil {
			first = r
			continue
		}
		if r.Audit.Payments != first.Audit.Payments || r.Audit.Balances != first.Audit.Balances {
			t.Errorf("on %s shards other payments or balances than on 1: %+v, %+v", shards, r.Audit, first.Audit)
		}
	}
}

// TestFaultsBesideTraffic makes every fault that can be made here, at once, and the money is right. What cannot be made says so.
func TestFaultsBesideTraffic(t *testing.T) {
	page := filepath.Join(t.TempDir(), "folder", "page.html")
	r, text, err := played(t, "--profile", "steady:20:8s", "--shards", "2", "--html", page, "--capture-after", "500ms", "--faults",
		"at 1s: psp adyen outage 1s reset; at 2s: kill router 1; at 2s: kafka down 3s; at 3s: worker pause 2s; at 4s: start router 1; at 6s: database restart; at 7s: kill router 3")
	if err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	var results []string
	for _, f := range r.Faults {
		result, _, _ := strings.Cut(f.Result, ":")
		results = append(results, result)
	}
	if got := strings.Join(results, ", "); got != "done, done, done, done, done, done, not possible here" {
		t.Errorf("faults: %s\n%+v", got, r.Faults)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := lines[len(lines)-1]; !regexp.MustCompile(`^VERDICT PASS .*double_charges=0 lost=0 unbalanced=0 unknown=0 peak_pps=\d+ own_p99_ms=[\d.]+$`).MatchString(last) {
		t.Errorf("the last line is %q", last)
	}
	if data, err := os.ReadFile(page); err != nil || !bytes.Contains(data, []byte("<svg")) {
		t.Errorf("page: %v", err)
	}
	for _, process := range []string{"router 1", "router 2", "worker", devProcess} {
		if !slices.ContainsFunc(r.Series, func(s loadtest.Series) bool { return s.Plot == "Memory" && s.Name == process && s.Points[0].Value > 0 }) {
			t.Errorf("the memory of %s is not in the report", process)
		}
	}
	if explained := r.Slowest[0].Explain; !strings.Contains(explained, r.Slowest[0].Payment) || !strings.Contains(explained, "attempts") {
		t.Errorf("the slowest call is explained by %q", explained)
	}
}

// TestVerdictSeesATheft: a payment made at the PSP behind the cluster's back fails the verdict, and the exit code.
func TestVerdictSeesATheft(t *testing.T) {
	ctx := t.Context()
	c, err := startCluster(ctx, clusterOptions{Binary: built.of(t), Shards: 1, Routers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.sims["stripe"]+"/v1/payment_intents", strings.NewReader(
		"amount=1099&currency=eur&confirm=true&payment_method=pm_ok&capture_method=automatic&metadata[attempt]=att_0001_01JD0000000000000000000000"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer sk_test_paygrid")
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Idempotency-Key", "behind")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	var out bytes.Buffer
	err = run(ctx, []string{"run", "--url", c.urls[0], "--key", "shop_a=tk_shop_a", "--map", c.mapPath, "--sim", "stripe=" + c.sims["stripe"],
		"--sim", "adyen=" + c.sims["adyen"], "--profile", "steady:10:2s", "--capture-after", "100ms", "--settle", "20s"}, &out, io.Discard)
	if !errors.Is(err, errFailed) || !strings.Contains(out.String(), "VERDICT FAIL") || !strings.Contains(out.String(), "lost=1") {
		t.Errorf("error %v\n%s", err, out.String())
	}
	for psp, url := range c.sims {
		books, err := fetchBooks(ctx, url+"/sim/books")
		if err != nil || books.Webhooks.Delivered == 0 {
			t.Errorf("%s: %v, no notice was received: %+v", psp, err, books.Webhooks)
		}
	}
	forgedEventIsFound(t, c)
}

// TestRecordThenReplay records what goes through the proxy into a trace that can be played.
func TestRecordThenReplay(t *testing.T) {
	c, err := startCluster(t.Context(), clusterOptions{Binary: built.of(t), Shards: 1, Routers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	ready, say := io.Pipe()
	recorded := make(chan error, 1)
	go func() {
		recorded <- run(ctx, []string{"record", "--listen", "127.0.0.1:0", "--target", c.urls[0], "--out", trace}, say, io.Discard)
		_ = say.Close()
	}()
	line := make([]byte, 200)
	n, err := ready.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, ready) }()
	proxy := fieldsOf(string(line[:n]))["url"]
	var out bytes.Buffer
	if err := run(t.Context(), []string{"run", "--url", proxy, "--key", "shop_a=tk_shop_a", "--map", c.mapPath, "--profile", "steady:10:3s", "--sim",
		"stripe=" + c.sims["stripe"], "--sim", "adyen=" + c.sims["adyen"], "--capture-after", "200ms", "--prefix", "live-"}, &out, io.Discard); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	stop()
	if err := <-recorded; err != nil {
		t.Fatal(err)
	}
	r, text, err := played(t, "--trace", trace, "--shards", "1", "--routers", "1")
	if err != nil || r.Intended == 0 || r.Paid == 0 {
		t.Errorf("%v: intended %d, paid %d\n%s", err, r.Intended, r.Paid, text)
	}
}

// TestClimb: one slow moment is not the end of a climb; what is slow for long is, and counts from its beginning. Without a
// bound it ends where payments do not keep up with arrivals.
func TestClimb(t *testing.T) {
	t.Parallel()
	c := climb{bound: 100 * time.Millisecond}
	for at := range 60 {
		own := 50 * time.Millisecond
		if at >= 10 && at < 19 || at >= 40 {
			own = 101 * time.Millisecond
		}
		over := c.see(time.Duration(at)*time.Second, own, float64(10*at), 0)
		if want := at == 50; over != want {
			t.Errorf("%d s: over %t, want %t", at, over, want)
		}
	}
	if c.limit != 390 || c.passedAt != 40*time.Second {
		t.Errorf("the climb came to %.0f/s and passed its bound at %s, want 390 and 40 s", c.limit, c.passedAt)
	}
	c = climb{keepsUp: true}
	for at := range 60 {
		over := c.see(time.Duration(at)*time.Second, time.Minute, float64(min(10*at, 300)), float64(10*at)) // 300 is 0.9 of 333
		if want := at == 44; over != want {
			t.Errorf("%d s: over %t, want %t", at, over, want)
		}
	}
	if c.limit != 300 || c.passedAt != 34*time.Second {
		t.Errorf("the climb came to %.0f/s and kept up no more from %s, want 300 and 34 s", c.limit, c.passedAt)
	}
	if (&climb{}).see(time.Hour, time.Hour, 1, 1) {
		t.Error("a climb without a bound is over")
	}
}
