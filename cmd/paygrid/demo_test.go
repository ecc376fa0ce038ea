package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"paygrid/psprouter/simulator"
)

// TestDemo runs a small demo with faults and an outage, and then one after each planted fault: an entry that lost its
// postings, a posting of another amount, a balance that moved, an outcome that went missing, and money at either PSP that
// no shop ordered. The verdict must tell them apart.
func TestDemo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		payments int
		outage   time.Duration
		meddle   func(context.Context, *grid) error
		verdict  string // a pattern
	}{
		"as it is":          {80, time.Second, nil, `^VERDICT PASS double_charges=0 lost=0 unbalanced=0 unknown=0 payments=\d+ faults=\d\d+ own_p99_ms=\d+\.\d$`},
		"an entry lost":     {20, 0, asOwner(`DELETE FROM postings WHERE (bucket, seq) = (SELECT bucket, seq FROM postings LIMIT 1)`), `^VERDICT FAIL .* unbalanced=[1-9]`},
		"a posting changed": {20, 0, asOwner(`UPDATE postings SET amount = amount + 1 WHERE (bucket, seq) = (SELECT bucket, seq FROM postings LIMIT 1)`), `^VERDICT FAIL .* unbalanced=[1-9]`},
		"a balance changed": {20, 0, asOwner(`UPDATE seller_balances SET balance = balance + 1`), `^VERDICT FAIL .* unbalanced=[1-9]`},
		"an outcome missing": {20, 0, asOwner(`UPDATE attempts SET status = 'PENDING', next_check_at = now() + interval '1 h' WHERE attempt_id =
			(SELECT attempt_id FROM attempts WHERE status = 'SUCCEEDED' LIMIT 1)`), `^VERDICT FAIL .* unknown=[1-9]`},
		"money at Stripe": {20, 0, payStripeDirectly, `^VERDICT FAIL .* lost=[1-9]`},
		"money at Adyen":  {20, 0, payAdyenDirectly, `^VERDICT FAIL .* lost=[1-9]`},
	} {
		t.Run(name, func(t *testing.T) {
			o := demoGrid()
			o.Now, o.Seed = time.Now, 5
			g := newGrid(t, o)
			var progress bytes.Buffer
			report, err := demo(t.Context(), env{err: &progress}, g.grid,
				demoOptions{Payments: tc.payments, Concurrency: 16, Seed: 5, Faults: 200, Outage: tc.outage, Meddle: tc.meddle})
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

// TestDemoFaults: every fault that the demo draws from is one of the simulators', and the card's answer is none of them.
func TestDemoFaults(t *testing.T) {
	sim, err := simulator.New(simulator.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.SetFaults(maxFaults, demoFaults); err != nil {
		t.Error(err)
	}
	card := cardAnswers()
	if !card["decline"] || card["drop_after"] {
		t.Errorf("the card's answers are %v", card)
	}
	for _, name := range demoFaults {
		if card[name] {
			t.Errorf("%s changes what the card says", name)
		}
	}
}

// checkReport holds what every report shows, as a table and as JSON.
func checkReport(t *testing.T, r *demoReport) {
	t.Helper()
	var page bytes.Buffer
	if err := r.write(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"JOURNEYS", "ANSWERS", "PSPS' FAULTS", "ADYEN", "webhooks", "WHOLE REQUEST", "OUR OWN SHARE", "POST /v1/payments/:id/capture", "BALANCES",
		"psp_receivable:stripe", "psp_receivable:adyen", "curl -i http://", "make dev"} {
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

// payStripeDirectly and payAdyenDirectly take money at a PSP past the routers.
func payStripeDirectly(ctx context.Context, g *grid) error {
	form := url.Values{"amount": {"500"}, "currency": {"eur"}, "payment_method": {"pm_ok"}, "confirm": {"true"}, "metadata[attempt]": {"att_elsewhere"}}
	return chargePast(ctx, g.SimURL+"/v1/payment_intents", "application/x-www-form-urlencoded", form.Encode())
}

func payAdyenDirectly(ctx context.Context, g *grid) error {
	return chargePast(ctx, g.AdyenURL+"/v71/payments", "application/json", `{"merchantAccount":"`+devMerchant+`","reference":"att_elsewhere",
		"amount":{"value":500,"currency":"EUR"},"paymentMethod":{"type":"scheme","storedPaymentMethodId":"pm_ok"},"returnUrl":"https://shop.example"}`)
}

func chargePast(ctx context.Context, url, contentType, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+devStripeKey)
	request.Header.Set("X-API-Key", devAdyenKey)
	request.Header.Set("Content-Type", contentType)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: HTTP %d", url, response.StatusCode)
	}
	return errors.Join(err, response.Body.Close())
}

// TestDemoInterrupted: a demo that is told to stop says so and ends; the cluster stays whole and can be closed.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	o := demoGrid()
	o.Now, o.Latency = time.Now, time.Second
	g := newGrid(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if report, err := demo(ctx, env{err: &bytes.Buffer{}}, g.grid, demoOptions{Payments: 500, Concurrency: 8, Seed: 1}); err == nil {
		t.Errorf("ended with %s", report.Verdict)
	}
}

func TestDemoFlags(t *testing.T) {
	for _, args := range [][]string{{"--payments", "0"}, {"--concurrency", "0"}, {"--concurrency", "1001"}, {"--psp-timeout", "1s"}, {"--faults", "501"}, {"--faults", "-1"}, {"--outage", "2m"}, {"more"}, {"--seed", "-1"}} {
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
