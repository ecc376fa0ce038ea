package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"paygrid/payment"
	"paygrid/psprouter/stripe"
	"paygrid/shard"
)

// ask runs a command on the grid's map.
func (g *testGrid) ask(t *testing.T, command string, args ...string) (code int, out, errs string) {
	t.Helper()
	return paygrid(t, append(append(strings.Fields(command), "--map", g.MapPath), args...)...)
}

// decode asks for JSON and wants success.
func decode[T any](t *testing.T, g *testGrid, command string, args ...string) T {
	t.Helper()
	var v T
	code, out, errs := g.ask(t, command, append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != exitOK {
		t.Fatalf("%s: exit code %d, %v, %s\n%s", command, code, err, errs, out)
	}
	return v
}

// wantAsked wants an exit code and words in the answer, or in what was said about the failure.
func (g *testGrid) wantAsked(t *testing.T, command string, code int, says ...string) {
	t.Helper()
	got, out, errs := g.ask(t, command)
	text := out
	if code != exitOK {
		text = errs
	}
	for _, s := range says {
		if !strings.Contains(text, s) {
			t.Errorf("%s: no %q in\n%s", command, s, text)
		}
	}
	if got != code || code != exitOK && out != "" {
		t.Errorf("%s: exit code %d, want %d\n%s%s", command, got, code, out, errs)
	}
}

// lostPayment takes a payment whose answer is lost, and returns it with its attempt and the PSP's reference.
func (g *testGrid) lostPayment(t *testing.T, key string) (id, attempt, reference string) {
	t.Helper()
	id = g.callers[0].pay(t, key, p10("o-"+key, "pm_ok_drop", "automatic")).want(t, http.StatusAccepted).ID
	for _, r := range decode[[]pendingRow](t, g, "attempts --pending") {
		if r.PaymentID == id {
			attempt = r.AttemptID
		}
	}
	for _, p := range g.Sim.Books().Payments {
		if p.Attempt == attempt {
			reference = p.Ref
		}
	}
	if attempt == "" || reference == "" {
		t.Fatalf("payment %s: attempt %q, reference %q", id, attempt, reference)
	}
	return id, attempt, reference
}

func TestAttemptsPending(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Routers: 1})
	id, attempt, _ := g.lostPayment(t, "k-lost")
	rows := decode[[]pendingRow](t, g, "attempts --pending")
	if len(rows) != 1 || rows[0].Shard != g.shardOf(t, "k-lost") || rows[0].PSP != stripe.Name || rows[0].Kind != payment.AttemptAuthorize ||
		rows[0].Amount != 10000 || rows[0].AgeMS < 0 || rows[0].NextCheckAt.IsZero() {
		t.Errorf("got %+v", rows)
	}
	g.wantAsked(t, "attempts --pending --older-than 0s", exitOK, id, attempt, "AUTHORIZE", "UNKNOWN", "1 attempts")
	g.wantAsked(t, "attempts --pending --older-than 15m", exitOK, "0 attempts")
	if rows := decode[[]pendingRow](t, g, "attempts --pending --older-than 15m"); rows == nil || len(rows) != 0 {
		t.Errorf("young ones are listed, or no list is: %+v", rows)
	}
}

// TestSettledByTwoPeople: one asks, another agrees, and the payment goes on as if the PSP had answered.
func TestSettledByTwoPeople(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Routers: 1})
	id, attempt, reference := g.lostPayment(t, "k-two")
	settle := "attempts settle " + attempt + " --as approved --reason dashboard --token tk_u_kim"
	g.wantAsked(t, settle, exitFound, "needs the PSP's ID")
	a := decode[shard.Approval](t, g, settle+" --reference "+reference)
	if a.State != shard.ApprovalOpen || a.RequestedBy != "u-kim" || a.PaymentID != id || a.SubjectID != attempt || a.Reference != reference {
		t.Errorf("asked %+v", a)
	}
	if open := decode[[]shard.Approval](t, g, "approvals"); len(open) != 1 || open[0].ID != a.ID {
		t.Errorf("open %+v", open)
	}
	g.wantAsked(t, "approvals", exitOK, a.ID, attempt, "u-kim", "dashboard", "1 open")

	g.wantAsked(t, "approvals approve --token tk_u_kim "+a.ID, exitFound, "another person must decide", "u-kim")
	g.wantAsked(t, "approvals approve --token tk_nobody "+a.ID, exitFound, "nobody has this token")
	g.wantAsked(t, "approvals approve --token tk_shop_a "+a.ID, exitFound, "nobody has this token")
	if got := g.callers[0].get(t, "/v1/payments/"+id); got.Status != "PROCESSING" {
		t.Errorf("one person was enough: %s", got)
	}

	g.wantAsked(t, "approvals approve --token tk_u_lee "+a.ID, exitOK, a.ID, "APPROVED by u-lee")
	g.callers[0].wantCAP10(t, id)
	g.callers[0].pay(t, "k-two", p10("o-k-two", "pm_ok_drop", "automatic")).want(t, http.StatusCreated)
	g.wantAsked(t, "approvals approve --token tk_u_max "+a.ID, exitFound, "APPROVED by u-lee already")
	g.wantAsked(t, "approvals approve --token tk_u_lee "+a.ID, exitFound, "has its end already")
	g.wantAsked(t, "approvals", exitOK, "0 open")
	g.wantAsked(t, settle+" --reference "+reference, exitFound, "has its end already")
	g.wantAsked(t, "explain "+id, exitOK, "settled by hand, asked by u-kim, approved by u-lee: dashboard")
	g.always(t)
}

// TestSettlementIsFinished: the process that carried an approval out died before it did. The same person runs it again.
func TestSettlementIsFinished(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Routers: 1})
	id, attempt, reference := g.lostPayment(t, "k-died")
	a := decode[shard.Approval](t, g, "attempts settle "+attempt+" --as approved --reason dashboard --token tk_u_kim --reference "+reference)
	if _, err := g.Nodes[0].shards.DecideApproval(t.Context(), a.ID, "u-lee", true, time.Now()); err != nil {
		t.Fatal(err)
	}
	g.wantAsked(t, "approvals approve --token tk_u_max "+a.ID, exitFound, "APPROVED by u-lee already")
	g.wantAsked(t, "approvals approve --token tk_u_lee "+a.ID, exitOK, "APPROVED by u-lee")
	g.callers[0].wantCAP10(t, id)
	g.always(t)
}

// TestSettlementRejected: what was refused stays refused, and the attempt stays unknown. An answer that comes in between
// is the truth: then there is nothing left to approve.
func TestSettlementRejected(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Routers: 1})
	_, attempt, reference := g.lostPayment(t, "k-no")
	absent := "attempts settle " + attempt + " --as absent --reason dashboard --token tk_u_kim"
	a := decode[shard.Approval](t, g, absent)
	g.wantAsked(t, "approvals reject --token tk_u_kim "+a.ID, exitFound, "another person must decide")
	g.wantAsked(t, "approvals reject --token tk_u_lee "+a.ID, exitOK, "REJECTED by u-lee")
	g.wantAsked(t, "approvals approve --token tk_u_max "+a.ID, exitFound, "REJECTED by u-lee already")
	g.wantAsked(t, "attempts --pending", exitOK, attempt)

	wrong := decode[shard.Approval](t, g, absent)
	right := decode[shard.Approval](t, g, "attempts settle "+attempt+" --as approved --reason dashboard --token tk_u_max --reference "+reference)
	g.wantAsked(t, "approvals approve --token tk_u_lee "+right.ID, exitOK, "APPROVED")
	g.wantAsked(t, "approvals approve --token tk_u_lee "+wrong.ID, exitFound, "reject it", "has its end already")
	if open := decode[[]shard.Approval](t, g, "approvals"); len(open) != 1 || open[0].ID != wrong.ID {
		t.Errorf("what cannot be carried out was approved: %+v", open)
	}
	g.always(t)
}

// TestSamePersonTwoTokens (C067 b): a person is one person, whatever the credential.
func TestSamePersonTwoTokens(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Routers: 1})
	config, err := readConfig(g.ConfigPath)
	if err != nil {
		t.Fatal(err)
	}
	config.Operators = append(config.Operators, operatorConfig{ID: "u-kim", TokenSHA256: sha256Hex("tk_kim_service")})
	path := filepath.Join(t.TempDir(), "router.json")
	if err := config.write(path); err != nil {
		t.Fatal(err)
	}
	_, attempt, _ := g.lostPayment(t, "k-same")
	a := decode[shard.Approval](t, g, "attempts settle "+attempt+" --as absent --reason dashboard --token tk_u_kim")
	g.wantAsked(t, "approvals approve --token tk_kim_service --config "+path+" "+a.ID, exitFound, "another person must decide")
}

func TestInboxOfPeople(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Routers: 1})
	shards := g.Nodes[0].shards
	for n, state := range []shard.Status{shard.InboxUnmatched, shard.InboxMisfit, shard.InboxApplied} {
		item := shard.InboxItem{Bucket: shard.Bucket(n * 1500), PSP: stripe.Name, EventID: "evt_" + string(state), Kind: "charge.failed",
			Reference: "pi_9", Raw: []byte(`{"id":1}`)}
		if _, err := shards.PutInbox(t.Context(), item, time.Now().Add(-time.Minute)); err != nil {
			t.Fatal(err)
		}
		closeNotice(t, g, item, state)
	}
	g.wantAsked(t, "inbox --unmatched", exitOK, "evt_UNMATCHED", "because UNMATCHED", "pi_9", "1 notices")
	g.wantAsked(t, "inbox --misfit", exitOK, "evt_MISFIT", "1 notices")
	g.wantAsked(t, "inbox --misfit --unmatched", exitOK, "evt_MISFIT", "evt_UNMATCHED", "2 notices")
	items := decode[[]shard.InboxItem](t, g, "inbox --misfit")
	if len(items) != 1 || string(items[0].Raw) != `{"id":1}` || items[0].State != shard.InboxMisfit {
		t.Errorf("got %+v", items)
	}
}

// closeNotice says what became of a notice, as the inbox's worker does.
func closeNotice(t *testing.T, g *testGrid, item shard.InboxItem, state shard.Status) {
	t.Helper()
	shards, now := g.Nodes[0].shards, time.Now()
	owner := g.shardMap(t).Owner(item.Bucket).Shard
	if _, err := shards.ClaimInbox(t.Context(), owner, "w", now, now.Add(time.Minute), 10); err != nil {
		t.Fatal(err)
	}
	end := shard.InboxEnd{InboxKey: shard.InboxKey{Bucket: item.Bucket, PSP: item.PSP, EventID: item.EventID}, State: state,
		Reason: "because " + string(state), NextTryAt: now.Add(time.Hour)}
	if closed, err := shards.CloseInbox(t.Context(), owner, "w", []shard.InboxEnd{end}, now); err != nil || !closed[0] {
		t.Fatal(closed, err)
	}
}

// TestDrainOfAPSP: people take a PSP out of service and back; every router follows, and one that starts meanwhile too.
func TestDrainOfAPSP(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Routers: 2})
	order := p10("o-drain", "pm_ok", "automatic")
	status := "psp status --token tk_u_lee --router " + g.URLs[0] + " --router " + g.URLs[1]
	held := g.callers[0].pay(t, "k-held", p10("o-held", "pm_ok", "manual")).want(t, http.StatusCreated)

	w := decode[shard.Switch](t, g, "psp drain stripe --reason status-page --token tk_u_kim")
	if !w.Drained || w.PSP != stripe.Name || w.Actor != "u-kim" || w.Reason != "status-page" {
		t.Errorf("switched %+v", w)
	}
	g.wantDrained(t, status, true)
	late := g.addRouter(t, func(*routerConfig) {})
	for n, c := range append(g.callers, late) {
		c.pay(t, "k-drained", order).wantCode(t, http.StatusServiceUnavailable, payment.CodePSPUnavailable)
		if n == 0 {
			c.post(t, "/v1/payments/"+held.ID+"/capture", "k-cap", eur(10000)).want(t, http.StatusOK)
		}
	}
	g.wantAsked(t, status, exitOK, "drained by u-kim", "status-page (u-kim)", "AUTHORIZE", "100.0%", g.URLs[1])

	g.wantAsked(t, "psp undrain stripe --token tk_u_lee", exitOK, "drained=false by u-lee")
	g.wantDrained(t, status, false)
	g.callers[1].pay(t, "k-drained", order).want(t, http.StatusCreated)
	g.always(t)
}

// wantDrained waits until every router says whether it gives Stripe new payments.
func (g *testGrid) wantDrained(t *testing.T, status string, drained bool) {
	t.Helper()
	eventually(t, "the routers follow", func() bool {
		report := decode[pspReport](t, g, status)
		for _, r := range report.Routers {
			for _, p := range r.PSPs {
				if p.PSP == stripe.Name && p.Drained != drained {
					return false
				}
			}
		}
		return len(report.Routers) == 2
	})
}

// TestPSPStatus: what waits is counted by PSP, and a router that does not answer hides nobody else.
func TestPSPStatus(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Routers: 1})
	g.lostPayment(t, "k-1")
	g.lostPayment(t, "k-2")
	report := decode[pspReport](t, g, "psp status --token tk_u_max --router "+g.URLs[0])
	if len(report.Pending) != 1 || report.Pending[0].PSP != stripe.Name || report.Pending[0].Attempts != 2 || report.Pending[0].Escalated != 0 {
		t.Errorf("pending %+v", report.Pending)
	}
	code, out, errs := g.ask(t, "psp status --token tk_u_max --router http://127.0.0.1:1 --router "+g.URLs[0])
	if code != exitFound || !strings.Contains(out, "no answer") || !strings.Contains(out, "AUTHORIZE") || !strings.Contains(errs, "127.0.0.1:1") {
		t.Errorf("a router that is down: exit code %d, %s\n%s", code, errs, out)
	}
	for _, percentOf := range []struct {
		permille int64
		want     string
	}{{-1, "-"}, {0, "0.0%"}, {27, "2.7%"}, {1000, "100.0%"}} {
		if got := percent(percentOf.permille); got != percentOf.want {
			t.Errorf("%d: %s", percentOf.permille, got)
		}
	}
}

func TestOperatorsMisuse(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Routers: 1, Shards: 1})
	for command, want := range map[string]struct {
		code int
		says string
	}{
		"attempts":                                                        {exitMisused, "--pending"},
		"attempts --pending --older-than -1m":                             {exitMisused, "--older-than"},
		"attempts settle":                                                 {exitMisused, "one attempt ID"},
		"attempts settle att":                                             {exitMisused, "--as"},
		"attempts settle att --as maybe":                                  {exitMisused, "--as"},
		"attempts settle att --as absent":                                 {exitMisused, "--reason"},
		"attempts settle att --as absent --reason x":                      {exitMisused, "--token"},
		"attempts settle att --as absent --reason x --token tk_u_kim":     {exitFound, "att"},
		"attempts settle att --as absent --reason x --token t --config x": {exitFound, "--config"},
		"approvals approve":                                               {exitMisused, "one approval ID"},
		"approvals approve x --token tk_u_kim":                            {exitFound, "not"},
		"approvals reject x --token tk_u_kim":                             {exitFound, "not"},
		"inbox":                                                           {exitMisused, "--unmatched"},
		"psp drain stripe --token tk_u_kim":                               {exitMisused, "--reason"},
		"psp drain paypal --reason x --token tk_u_kim":                    {exitMisused, "stripe, adyen"},
		"psp undrain":                                                     {exitMisused, "one PSP"},
		"psp status --router nonsense":                                    {exitMisused, "http"},
		"psp":                                                             {exitMisused, "psp drain"},
		"serve worker":                                                    {exitMisused, "--config"},
	} {
		args := strings.Fields(command)
		if command != "psp" && command != "serve worker" {
			args = append(args, "--map", g.MapPath)
		}
		if code, out, errs := paygrid(t, args...); code != want.code || !strings.Contains(errs, want.says) || out != "" {
			t.Errorf("%s: exit code %d, want %d; want %q in\n%s%s", command, code, want.code, want.says, errs, out)
		}
	}
}

// TestTokenFromEnvironment: it serves as the flag does, and no help text prints it. It is not parallel: it sets a variable.
func TestTokenFromEnvironment(t *testing.T) {
	t.Setenv("PAYGRID_TOKEN", "tk_u_max")
	g := newGrid(t, gridOptions{Routers: 1, Shards: 1})
	g.wantAsked(t, "psp drain adyen --reason x", exitOK, "by u-max")
	if code, _, errs := paygrid(t, "psp", "drain", "--help"); code != exitOK || strings.Contains(errs, "tk_u_max") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}

// TestServeWorker: a worker does what the routers leave undone, and serves nobody.
func TestServeWorker(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Routers: 1, CheckAfter: time.Millisecond})
	id := g.callers[0].pay(t, "k-work", p10("o-work", "pm_500_charged", "automatic")).want(t, http.StatusAccepted).ID
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &lineWriter{lines: make(chan string, 1)}
	code := make(chan int)
	go func() {
		code <- run(ctx, env{out, new(bytes.Buffer)}, []string{"serve", "worker", "--config", g.ConfigPath, "--listen", "127.0.0.1:0"})
	}()
	line := strings.TrimSpace(<-out.lines)
	_, url, ok := strings.Cut(line, "paygrid worker ready url=")
	if !ok {
		t.Fatalf("no ready line: %q", line)
	}
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/metrics": 200, "/v1/payments": 404, "/v1/operator/psps": 404} {
		response, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, response.StatusCode, want)
		}
	}
	eventually(t, "the worker finds out", func() bool { return g.callers[0].get(t, "/v1/payments/"+id).Status == "CAPTURED" })
	cancel()
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
	g.callers[0].wantCAP10(t, id)
	g.always(t)
}
