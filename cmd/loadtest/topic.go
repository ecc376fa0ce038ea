package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"paygrid/loadtest"
)

// checkTopic follows a fault that took the broker away: it waits until all events are published, for as long as a run settles, and
// lets paygrid read the whole topic. What is missing there, differs or is out of order is a finding in the books.
func (t *trial) checkTopic(ctx context.Context, r *loadtest.Report) error {
	wasDown := slices.ContainsFunc(t.saboteur.rows, func(f loadtest.FaultRow) bool { return f.Kind == loadtest.KafkaDown && f.OK })
	if !wasDown || r.Books == nil {
		return nil
	}
	waiting, err := t.publish(ctx)
	if err != nil {
		return err
	}
	if waiting > 0 {
		r.Books.Findings = append(r.Books.Findings, fmt.Sprintf("topic: %d events were not published within %s", waiting, t.o.settle))
	}
	check := exec.CommandContext(ctx, t.c.binary, "events", "check", "--config", t.c.config, "--map", t.c.mapPath) //nolint:gosec // ours
	out, failed := check.Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	verdict := lines[len(lines)-1]
	if !strings.HasPrefix(verdict, "EVENTS CHECK ") {
		return fmt.Errorf("read the topic: %q, %w", out, failed)
	}
	fmt.Fprintln(t.progress, verdict)
	if failed != nil {
		for _, finding := range lines {
			r.Books.Findings = append(r.Books.Findings, "topic: "+finding)
		}
	}
	return nil
}

// publish waits until no event waits for a relay, and returns how many do when the time for it is over.
func (t *trial) publish(ctx context.Context) (waiting int64, err error) {
	shards, err := t.shards(ctx)
	if err != nil {
		return 0, err
	}
	defer shards.Close()
	for deadline := time.Now().Add(t.o.settle); ; {
		waiting = 0
		for _, name := range shards.ShardNames() {
			n, _, err := shards.RelayLag(ctx, name)
			if err != nil {
				return 0, err
			}
			waiting += n
		}
		if waiting == 0 || time.Now().After(deadline) {
			return waiting, nil
		}
		fmt.Fprintf(t.progress, "waiting for %d events to be published\n", waiting)
		if !waitUntil(ctx, time.Now().Add(settlePause)) {
			return waiting, ctx.Err()
		}
	}
}
