package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"paygrid/router"
	"paygrid/shard"
)

// runDrain keeps new payments from a PSP; runUndrain lets them come again.
func runDrain(ctx context.Context, e env, args []string) error {
	return runSwitch(ctx, e, args, "psp drain", "keep new payments from a PSP; captures, voids, refunds and questions go on", true)
}

func runUndrain(ctx context.Context, e env, args []string) error {
	return runSwitch(ctx, e, args, "psp undrain", "let new payments go to a PSP again", false)
}

func runSwitch(ctx context.Context, e env, args []string, name, intro string, drained bool) error {
	flags := newFlags(e, name, intro)
	reason := flags.String("reason", "", "why; shown with every payment that goes elsewhere (required to drain)")
	ask := askerFlags(flags, true)
	rest, err := parse(flags, args, 1, "one PSP")
	if err != nil {
		return err
	}
	if drained && *reason == "" {
		return &usageError{"--reason is missing"}
	}
	d, err := ask.sit(ctx, e)
	if err != nil {
		return err
	}
	defer d.shards.Close()
	if names := d.config.pspNames(); !slices.Contains(names, rest[0]) {
		return &usageError{fmt.Sprintf("%q is none of the configured PSPs: %s", rest[0], strings.Join(names, ", "))}
	}
	w := shard.Switch{PSP: rest[0], Drained: drained, Reason: *reason, Actor: d.person, At: time.Now().UTC().Truncate(time.Microsecond)}
	err = d.shards.SetSwitch(ctx, w)
	d.log.InfoContext(ctx, "a PSP was switched", "psp", w.PSP, "drained", drained, "reason", w.Reason, "by", w.Actor, "error", err)
	if err != nil {
		return fmt.Errorf("not every shard was told, run this again: %w", err)
	}
	if *ask.asJSON {
		return printJSON(e.out, w)
	}
	_, err = fmt.Fprintf(e.out, "%s drained=%t by %s; routers follow within %s\n", w.PSP, drained, w.Actor, switchInterval)
	return err
}

// routerURLs are --router URL flags.
type routerURLs []string

func (u *routerURLs) String() string { return "" }

func (u *routerURLs) Set(text string) error {
	if !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") {
		return errors.New("want an http(s) URL")
	}
	*u = append(*u, strings.TrimSuffix(text, "/"))
	return nil
}

// pspReport is what is known of the PSPs: as each router sees them, what people switched, and what waits there.
type pspReport struct {
	Routers  []routerView   `json:"routers"`
	Switches []shard.Switch `json:"switches"`
	Pending  []pendingAge   `json:"pending"`
}

// routerView is one router's view, or why there is none.
type routerView struct {
	URL string `json:"url"`
	router.PSPList
	Error string `json:"error,omitempty"`
}

// pendingAge is how many attempts wait for an answer of a PSP, and for how long the oldest does.
type pendingAge struct {
	PSP         string `json:"psp"`
	Operation   string `json:"operation"`
	Attempts    int    `json:"attempts"`
	OldestAgeMS int64  `json:"oldestAgeMs"`
	Escalated   int    `json:"escalated"` // of them, people were told
}

// runPSPStatus shows how the PSPs are.
func runPSPStatus(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "psp status", "show breakers, rates and drains as each router sees them, and what waits for an answer")
	var urls routerURLs
	flags.Var(&urls, "router", "base URL of a router; once for each (http://127.0.0.1:8080 if none)")
	ask := askerFlags(flags, true)
	if _, err := parse(flags, args, 0, "flags alone"); err != nil {
		return err
	}
	if len(urls) == 0 {
		urls = routerURLs{"http://127.0.0.1:8080"}
	}
	d, err := ask.sit(ctx, e)
	if err != nil {
		return err
	}
	defer d.shards.Close()
	report, err := d.pspReport(ctx, urls, ask.secret())
	if *ask.asJSON {
		return errors.Join(printJSON(e.out, report), err)
	}
	return errors.Join(report.write(e.out), err)
}

// pspReport asks everybody; who does not answer is an error beside what the others said.
func (d *desk) pspReport(ctx context.Context, urls []string, token string) (pspReport, error) {
	out := pspReport{Switches: []shard.Switch{}}
	var all []error
	for _, url := range urls {
		view, err := askRouter(ctx, url, token)
		if err != nil {
			view.Error = err.Error()
			all = append(all, err)
		}
		out.Routers = append(out.Routers, view)
	}
	switches, err := d.shards.Switches(ctx)
	all = append(all, err)
	out.Switches = append(out.Switches, switches...)
	rows, err := pendingRows(ctx, d.shards, time.Now(), 0)
	all = append(all, err)
	out.Pending = agesOf(rows)
	return out, errors.Join(all...)
}

// routerTimeout bounds the wait for one router's view.
const routerTimeout = 5 * time.Second

func askRouter(ctx context.Context, url, token string) (routerView, error) {
	view := routerView{URL: url, PSPList: router.PSPList{PSPs: []router.PSPStatus{}}}
	ctx, cancel := context.WithTimeout(ctx, routerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/operator/psps", nil)
	if err != nil {
		return view, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return view, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return view, fmt.Errorf("%s: %s", url, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&view.PSPList); err != nil {
		return view, fmt.Errorf("%s: %w", url, err)
	}
	return view, nil
}

// agesOf sums attempts, the oldest first, per PSP and operation.
func agesOf(rows []pendingRow) []pendingAge {
	out := []pendingAge{}
	for _, r := range rows {
		n := slices.IndexFunc(out, func(p pendingAge) bool { return p.PSP == r.PSP && p.Operation == r.Kind })
		if n < 0 {
			n, out = len(out), append(out, pendingAge{PSP: r.PSP, Operation: r.Kind, OldestAgeMS: r.AgeMS})
		}
		out[n].Attempts++
		if r.Escalated {
			out[n].Escalated++
		}
	}
	return out
}

func (r pspReport) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, view := range r.Routers {
		fmt.Fprintf(w, "router %s\t\npsp\toperation\tbreaker\tanswered\tfailed\terrors\tapprovals\tnew payments\n", view.URL)
		for _, p := range view.PSPs {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", p.PSP, p.Operation, breakerOf(p), p.Answered, p.Failed, percent(p.Errors),
				percent(p.Approvals), drainOf(p))
		}
		if view.Error != "" {
			fmt.Fprintf(w, "no answer: %s\t\n", view.Error)
		}
		fmt.Fprint(w, "\n")
	}
	for _, s := range r.Switches {
		if s.Drained {
			fmt.Fprintf(w, "%s drained by %s at %s: %s\t\n", s.PSP, s.Actor, s.At.UTC().Format(time.RFC3339), s.Reason)
		}
	}
	fmt.Fprintf(w, "waiting for an answer\t\npsp\toperation\tattempts\toldest\tpeople told\n")
	for _, p := range r.Pending {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d\n", p.PSP, p.Operation, p.Attempts, milliseconds(p.OldestAgeMS).Round(time.Second), p.Escalated)
	}
	return w.Flush()
}

func breakerOf(p router.PSPStatus) string {
	if p.RetryInMS > 0 {
		return fmt.Sprintf("%s for %s", p.Breaker, milliseconds(p.RetryInMS))
	}
	return p.Breaker
}

func drainOf(p router.PSPStatus) string {
	if p.Drained {
		return "drained: " + p.Reason
	}
	return "yes"
}

// percent shows permille, of which -1 is nothing to count.
func percent(permille int64) string {
	if permille < 0 {
		return "-"
	}
	return fmt.Sprintf("%d.%d%%", permille/10, permille%10)
}
