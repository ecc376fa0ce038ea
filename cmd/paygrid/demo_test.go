package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestDemo runs a small demo, and then one after each planted fault: an entry that lost its postings, a posting of another
// amount, a balance that moved, and money at the PSP that no shop ordered. The verdict must tell them apart.
func TestDemo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		meddle  func(context.Context, *grid) error
		verdict string // a pattern
	}{
		"as it is":                 {nil, `^VERDICT PASS double_charges=0 lost=0 unbalanced=0 unknown=\d+ payments=80 faults=\d+ own_p99_ms=\d+\.\d$`},
		"an entry lost":            {asOwner(`DELETE FROM postings WHERE (bucket, seq) = (SELECT bucket, seq FROM postings LIMIT 1)`), `^VERDICT FAIL .* unbalanced=[1-9]`},
		"a posting changed":        {asOwner(`UPDATE postings SET amount = amount + 1 WHERE (bucket, seq) = (SELECT bucket, seq FROM postings LIMIT 1)`), `^VERDICT FAIL .* unbalanced=[1-9]`},
		"a balance changed":        {asOwner(`UPDATE seller_balances SET balance = balance + 1 WHERE account = 'seller_payable:s-hot'`), `^VERDICT FAIL .* unbalanced=[1-9]`},
		"money that nobody orders": {charge, `^VERDICT FAIL .* lost=[1-9]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGrid(t, gridOptions{PSPTimeout: 2 * time.Second})
			var progress bytes.Buffer
			report, err := demo(t.Context(), env{err: &progress}, g.grid, demoOptions{Payments: 80, Concurrency: 16, Seed: 5, Meddle: tc.meddle})
			if err != nil {
				t.Fatal(err)
			}
			if !regexp.MustCompile(tc.verdict).MatchString(report.Verdict) {
				t.Errorf("%s, want %s\n%s", report.Verdict, tc.verdict, strings.Join(report.Findings, "\n"))
			}
			if report.Pass != (tc.meddle == nil) || report.Pass != (len(report.Findings) == 0) {
				t.Errorf("pass: %t with %d findings", report.Pass, len(report.Findings))
			}
			checkReport(t, report)
		})
	}
}

// checkReport holds what every report shows, as a table and as JSON.
func checkReport(t *testing.T, r *demoReport) {
	t.Helper()
	var page bytes.Buffer
	if err := r.write(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"JOURNEYS", "ANSWERS", "FAULTS", "WHOLE REQUEST", "OUR OWN SHARE", "POST /v1/payments/:id/capture", "BALANCES",
		"psp_receivable:stripe", "curl -i http://", "make dev"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if !r.Pass && !strings.Contains(page.String(), r.Findings[0]) {
		t.Errorf("the page does not show its first finding")
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back demoReport
	if err := json.Unmarshal(text, &back); err != nil || back.Verdict != r.Verdict || len(back.Balances) != len(r.Balances) {
		t.Errorf("the JSON reads back as %+v, %v", back, err)
	}
}

// asOwner runs SQL on every shard as the owner of its tables, which no service is.
func asOwner(sql string) func(context.Context, *grid) error {
	return func(ctx context.Context, g *grid) error {
		for _, admin := range g.Admin {
			conn, err := pgx.Connect(ctx, admin)
			if err != nil {
				return err
			}
			_, err = conn.Exec(ctx, sql)
			_ = conn.Close(ctx)
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// charge takes money at the PSP past the routers.
func charge(ctx context.Context, g *grid) error {
	form := url.Values{"amount": {"500"}, "currency": {"eur"}, "payment_method": {"pm_ok"}, "confirm": {"true"}, "metadata[attempt]": {"att_elsewhere"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, g.SimURL+"/v1/payment_intents", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+devStripeKey)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// TestDemoInterrupted: a demo that is told to stop says so and ends; the cluster stays whole and can be closed.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{PSPTimeout: 2 * time.Second, Latency: time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if report, err := demo(ctx, env{err: &bytes.Buffer{}}, g.grid, demoOptions{Payments: 500, Concurrency: 8, Seed: 1}); err == nil {
		t.Errorf("ended with %s", report.Verdict)
	}
}

func TestDemoFlags(t *testing.T) {
	for _, args := range [][]string{{"--payments", "0"}, {"--concurrency", "0"}, {"--concurrency", "1001"}, {"--psp-timeout", "1s"}, {"more"}, {"--seed", "-1"}} {
		var out, complaint bytes.Buffer
		if code := run(t.Context(), env{&out, &complaint}, append([]string{"demo"}, args...)); code != exitMisused || complaint.Len() == 0 {
			t.Errorf("%v: exit code %d, says %q", args, code, complaint.String())
		}
	}
}

func TestProgressLineOnlyOnTerminals(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if isTerminal(file) || isTerminal(&bytes.Buffer{}) {
		t.Error("a file was taken for a terminal")
	}
}
