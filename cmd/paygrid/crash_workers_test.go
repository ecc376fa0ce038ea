package main

import (
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"paygrid/payment"
	"paygrid/psprouter/simulator"
	"paygrid/shard"
)

// crashCase is one crash of a command or worker at a PSP, on a cluster that other cases have used before.
type crashCase struct {
	at      payment.Point
	psp     string
	sim     *simulator.Simulator
	command crashCommand
	name    string // of the case: unique on its cluster
	path    string
	body    string
	key     string
	status  int // of the key's answer in the end
}

// newCrashCase prepares the payment that a command needs.
func newCrashCase(t *testing.T, g *testGrid, at payment.Point, psp, name string) *crashCase {
	t.Helper()
	c := &crashCase{at: at, psp: psp, sim: map[string]*simulator.Simulator{"stripe": g.Sim, "adyen": g.Adyen}[psp], command: crashCommands[name],
		name: fmt.Sprintf("%s-%s-%s", at, psp, name)}
	c.key, c.path, c.status = "k-"+c.name, "/v1/payments", c.command.status
	c.body = p10At("o-"+c.name, "automatic", map[string]string{psp: "pm_ok"})
	if c.command.prepare != "" {
		order := p10At("o-"+c.name, c.command.prepare, map[string]string{psp: "pm_ok"})
		p := g.callers[0].pay(t, "k-before-"+c.name, order).want(t, http.StatusCreated)
		c.path, c.body = c.path+"/"+p.ID+c.command.path, c.command.body
		g.settled(t)
	}
	return c
}

// wantKilled waits for a child that must die at the case's point.
func (c *crashCase) wantKilled(t *testing.T, dying *child) {
	t.Helper()
	if state := dying.wait(t); state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended with %s", state)
	}
}

// wantEnd lets a healthy worker finish, and checks that the command happened once and that its key has its answer, for good.
func (c *crashCase) wantEnd(t *testing.T, g *testGrid, before int) {
	t.Helper()
	g.quiesce(t)
	again := g.callers[0].post(t, c.path, c.key, c.body)
	g.quiesce(t) // where nothing was committed the command was new
	last := g.callers[0].post(t, c.path, c.key, c.body).want(t, c.status)
	if last.ID != again.ID || !last.replayed {
		t.Errorf("the key's answer changed from %s to %s", again, last)
	}
	if n := executions(c.sim.Books(), c.command.op) - before; n != 1 {
		t.Errorf("it happened %d times", n)
	}
	g.always(t)
}

// quiesce lets time go on and the workers work until no attempt is open and no notice waits; eight rounds must do. What PSPs
// did not send they send now.
func (g *testGrid) quiesce(t testing.TB) {
	t.Helper()
	const open = `SELECT (SELECT count(*) FROM attempts WHERE status = 'PENDING') +
		(SELECT count(*) FROM webhook_inbox WHERE state IN ('NEW', 'UNMATCHED'))`
	g.Sim.Redeliver("all")
	g.Adyen.Redeliver("all")
	g.delivered(t)
	for round := 0; g.sum(t, open) > 0; round++ {
		if round == 8 {
			t.Fatalf("%d attempts and notices are still open", g.sum(t, open))
		}
		g.clock.advance(20 * time.Minute) // past leases, pauses and the PSP's visibility window
		g.work(t)
		g.delivered(t)
	}
	g.wantInbox(t, shard.InboxMisfit, 0)
}

// workerConfig is the cluster's configuration with background work.
func (g *testGrid) workerConfig(t *testing.T) string {
	t.Helper()
	config, err := readConfig(g.ConfigPath)
	if err != nil {
		t.Fatal(err)
	}
	config.WorkEveryMS = 20
	path := filepath.Join(t.TempDir(), "worker.json")
	if err := config.write(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// ahead is the cluster's clock as a child takes it over.
func (g *testGrid) ahead() time.Duration { return time.Duration(g.clock.ahead.Load()) }

// TestCrashMatrixAdyen kills a router with -9 at every named point of every command at Adyen, whose answers to captures,
// voids and refunds come by webhook. Healthy workers then end what stayed open: each command happened once.
func TestCrashMatrixAdyen(t *testing.T) {
	inBothLevels(t, gridOptions{Shards: 2, Routers: 1, Webhooks: true}, func(t *testing.T, g *testGrid) {
		for _, at := range payment.Points() {
			name, _, _ := strings.Cut(string(at), ".")
			if crashCommands[name].op == "" {
				continue // a worker's point
			}
			t.Run(string(at), func(t *testing.T) {
				c := newCrashCase(t, g, at, "adyen", name)
				before := executions(g.Adyen.Books(), c.command.op)
				dying := startChild(t, childSpec{Config: g.ConfigPath, Die: at, Ahead: g.ahead()})
				if r := newCaller(t, dying.URL).try(c.path, c.key, c.body); r.err == nil {
					t.Fatalf("the router answered: %s", r)
				}
				c.wantKilled(t, dying)
				c.wantEnd(t, g, before)
			})
		}
	})
}

// TestCrashOfWorkers kills a worker with -9 at every named point of the background work, while it ends each kind of
// attempt at each PSP: the resolver after a lost answer and a lost notice, the inbox after a pending answer. Another worker
// then finishes.
func TestCrashOfWorkers(t *testing.T) {
	workers := payment.Points()[4*len(crashCommands):]
	if len(workers) != 4 {
		t.Fatalf("points of workers: %v", workers)
	}
	inBothLevels(t, gridOptions{Shards: 2, Routers: 1, Webhooks: true, CheckAfter: time.Millisecond}, func(t *testing.T, g *testGrid) {
		config := g.workerConfig(t)
		for _, at := range workers {
			for _, psp := range []string{"stripe", "adyen"} {
				for _, name := range slices.Sorted(maps.Keys(crashCommands)) {
					if at == "resolve.settled" && psp == "adyen" && name != "authorize" {
						continue // Adyen's answer to a re-send is "received": the resolver never settles these
					}
					t.Run(fmt.Sprintf("%s %s %s", at, psp, name), func(t *testing.T) { crashWorker(t, g, config, newCrashCase(t, g, at, psp, name)) })
				}
			}
		}
	})
}

func crashWorker(t *testing.T, g *testGrid, config string, c *crashCase) {
	before, byResolver := executions(c.sim.Books(), c.command.op), strings.HasPrefix(string(c.at), "resolve.")
	faults := map[string]string{c.command.op: "pending"}
	if byResolver {
		faults = map[string]string{c.command.op: "drop_after", "webhook": "webhook_dropped"}
	}
	for on, fault := range faults {
		if err := c.sim.Script(on, fault, "", 1); err != nil {
			t.Fatal(err)
		}
	}
	first := g.callers[0].post(t, c.path, c.key, c.body).want(t, http.StatusAccepted)
	dying := startChild(t, childSpec{Config: config, Die: c.at, Ahead: g.ahead()})
	if !byResolver {
		c.settle(t)
	}
	c.wantKilled(t, dying)
	c.wantEnd(t, g, before)
	if last := g.callers[0].post(t, c.path, c.key, c.body); last.ID != first.ID {
		t.Errorf("want the answer for %s, got %s", first.ID, last)
	}
}

// settle ends well what is pending at the PSP: the last payment's, or its last refund.
func (c *crashCase) settle(t *testing.T) {
	t.Helper()
	books := c.sim.Books()
	last := books.Payments[len(books.Payments)-1]
	ref := last.Ref
	if c.command.op == "refund" {
		ref = last.Refunds[len(last.Refunds)-1].Ref
	}
	if !c.sim.Settle(ref, true) {
		t.Fatalf("nothing of %s is pending at the PSP", ref)
	}
}
