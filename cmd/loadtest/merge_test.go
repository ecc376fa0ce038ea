package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"paygrid/loadtest"
)

// TestPartsThatCouldNotBeMerged are refused before they are played.
func TestPartsThatCouldNotBeMerged(t *testing.T) {
	at := []string{"--url", "http://127.0.0.1:1", "--key", "a=b", "--part", "1/2"}
	for _, tc := range []struct {
		flag string // "" = they can
		args []string
	}{
		{"start", nil}, {"prefix", []string{"--prefix", "r1"}}, {"prefix", []string{"--prefix", "r1-2-"}},
		{"limit-own-p99", []string{"--profile", "ramp:5-9:9s", "--limit-own-p99", "1s", "--prefix", "r1-"}}, {"overload", []string{"--overload", "find", "--prefix", "r1-"}},
		{"", []string{"--prefix", "r1-"}}, {"", []string{"--start", "2026-01-02T15:04:05Z"}}, {"", []string{"--overload", "50", "--prefix", "r1-"}},
	} {
		_, err := runFlags(append(tc.args, at...), io.Discard)
		var refused *PartError
		if errors.As(err, &refused) != (tc.flag != "") || tc.flag != "" && refused.Flag != tc.flag || tc.flag == "" && err != nil {
			t.Errorf("%v: %v, want one of --%s", tc.args, err, tc.flag)
		}
	}
	var refused *PartError
	if _, err := runFlags([]string{"--part", "1/2"}, io.Discard); !errors.As(err, &refused) || refused.Flag != "url" {
		t.Errorf("a part of a cluster of its own: %v", err)
	}
}

// TestPartsKnowTheirRun: parts of one run say the same of it, also if each takes its prefix from the start.
func TestPartsKnowTheirRun(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := run(t.Context(), []string{"trace", "--profile", "steady:20:2s", "--out", trace}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	share := func(args ...string) loadtest.Share {
		o, err := runFlags(append([]string{"--url", "http://127.0.0.1:1", "--key", "a=b", "--start", "2026-01-02T15:04:05Z"}, args...), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.cluster(t.Context(), io.Discard); err != nil {
			t.Fatal(err)
		}
		traffic, err := o.arrivals()
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range traffic.mine {
			if err != nil {
				t.Fatal(err)
			}
		}
		s := *o.share(traffic)
		if s.Part = 0; s.Prefix != "r1767366245-" || s.Arrivals == 0 {
			t.Errorf("%+v", s)
		}
		return s
	}
	one := share("--part", "1/2", "--profile", "steady:20:2s")
	if two := share("--part", "2/2", "--profile", "steady:20:2s"); one != two {
		t.Errorf("%+v\nand %+v", one, two)
	}
	read := share("--part", "1/2", "--trace", trace)
	if two := share("--part", "2/2", "--trace", trace); read != two || read.Arrivals != one.Arrivals || !strings.HasPrefix(read.Trace, "sha256:") {
		t.Errorf("%+v\nand %+v", read, two)
	}
	for _, other := range [][]string{{"--seed", "2"}, {"--profile", "steady:20:3s"}, {"--sellers", "5"}, {"--refunds", "500"}, {"--impatient-shops"}, {"--trace", trace}} {
		if s := share(append([]string{"--part", "1/2", "--profile", "steady:20:2s"}, other...)...); s == one {
			t.Errorf("%v makes no difference", other)
		}
	}
}

// playParts plays two parts of a trace at once, of which the second begins when the first is nearly over, and returns their reports.
func playParts(t *testing.T, c *cluster, dir string) (names [2]string, reports [2]*loadtest.Report) {
	t.Helper()
	begin := time.Now().Add(2 * time.Second)
	var said [2]string
	var failed [2]error
	var group sync.WaitGroup
	for n, part := range []string{"1/2", "2/2"} {
		names[n] = filepath.Join(dir, "part-"+part[:1]+".json")
		args := []string{"run", "--key", "shop_a=tk_shop_a", "--key", "shop_b=tk_shop_b", "--map", c.mapPath, "--sim", "stripe=" + c.sims["stripe"], "--sim", "adyen=" + c.sims["adyen"],
			"--profile", "steady:20:3s", "--capture-after", "200ms", "--part", part, "--prefix", "shared-", "--json", names[n],
			"--start", begin.Add(time.Duration(2*n) * time.Second).Format(time.RFC3339Nano), "--url", c.urls[0], "--url", c.urls[1], "--min-peak", "4", "--settle", "20s"}
		group.Go(func() {
			var out bytes.Buffer
			failed[n] = run(t.Context(), args, &out, io.Discard)
			said[n] = out.String()
		})
	}
	group.Wait()
	err := errors.Join(failed[0], failed[1])
	for n, name := range names {
		var missing error
		reports[n], missing = readReport(name)
		err = errors.Join(err, missing)
	}
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, said[0], said[1])
	}
	return names, reports
}

// TestPartsAreMerged: the first part waits for the second before it looks into the books. Together they pass; without one of them, or
// with a wrong count, they do not.
func TestPartsAreMerged(t *testing.T) {
	c, err := startCluster(t.Context(), clusterOptions{Binary: built.of(t), Shards: 2, Routers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	}()
	dir := t.TempDir()
	names, reports := playParts(t, c, dir)
	one, two := reports[0], reports[1]
	if one.Books.Moving || two.Books.Moving || one.Books.Seq != two.Books.Seq || one.Audit.Payments != two.Audit.Payments || one.Audit.Balances != two.Audit.Balances {
		t.Errorf("they read other books: %+v and %+v", one.Books, two.Books)
	}
	kept, page := filepath.Join(dir, "all.json"), filepath.Join(dir, "all.html")
	var text bytes.Buffer
	if err := run(t.Context(), []string{"merge", names[1], names[0], "--json", kept, "--html", page}, &text, io.Discard); err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	all, err := readReport(kept)
	if err != nil || all.Intended != one.Intended+two.Intended || all.Paid != one.Paid+two.Paid || all.Sent != one.Sent+two.Sent || all.Intended != one.Share.Arrivals {
		t.Fatalf("%v: %s\nof %s\nand %s", err, all.Verdict, one.Verdict, two.Verdict)
	}
	chosen := all.PSPs[0].Chosen + all.PSPs[1].Chosen
	if asked := all.Claim.Asked; all.Books.OfRun != asked || chosen < asked || chosen > asked+asked/2 || all.Claim.Captured == 0 {
		t.Errorf("%d payments asked for, %d in the books, %d times a PSP was chosen: each counts once", asked, all.Books.OfRun, chosen)
	}
	if html, err := os.ReadFile(page); err != nil || !bytes.Contains(html, []byte("part 2/2")) {
		t.Errorf("page: %v", err)
	}
	var refused *loadtest.MergeError
	if err := run(t.Context(), []string{"merge", names[0], names[1], "--json", names[0]}, io.Discard, io.Discard); !errors.As(err, &refused) || refused.Report != names[0] {
		t.Errorf("onto one of its parts: %v", err)
	}
	if err := run(t.Context(), []string{"merge", names[0]}, io.Discard, io.Discard); !errors.As(err, &refused) || refused.Field != "part" {
		t.Errorf("without the second part: %v", err)
	}
	two.Claim.Asked, two.Claim.Named = two.Claim.Asked-3, two.Claim.Named-3
	wrong, err := json.Marshal(two)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(names[1], wrong, 0o600); err != nil {
		t.Fatal(err)
	}
	text.Reset()
	err = run(t.Context(), []string{"merge", "--json", kept, names[0], names[1]}, &text, io.Discard)
	if !errors.Is(err, errFailed) || !strings.Contains(text.String(), "its parts asked for") || !strings.Contains(text.String(), "VERDICT FAIL") {
		t.Errorf("a wrong count: %v\n%s", err, text.String())
	}
}
