package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"paygrid/payment"
	"paygrid/psprouter/simulator"
)

// crashCommand is one command of the matrix: how to prepare a payment for it, and how to give it.
type crashCommand struct {
	prepare string // capture mode of the payment that it needs; "" = none, it makes one
	path    string // after the payment's; "" = /v1/payments
	body    string
	status  int    // of its good end
	kind    string // of its attempt
	op      string // at the simulator
}

var crashCommands = map[string]crashCommand{
	"authorize": {"", "", "", http.StatusCreated, payment.AttemptAuthorize, "authorize"},
	"capture":   {"manual", "/capture", eur(6000), http.StatusOK, payment.AttemptCapture, "capture"},
	"void":      {"manual", "/void", "", http.StatusOK, payment.AttemptVoid, "void"},
	"refunds":   {"automatic", "/refunds", eur(6000), http.StatusCreated, payment.AttemptRefund, "refund"},
}

// TestCrashMatrix kills a router with -9 at every named point of every command. A healthy router then gets the same key:
// nothing is lost, doubled or half done, whatever the point.
func TestCrashMatrix(t *testing.T) {
	inBothLevels(t, gridOptions{Shards: 2, Routers: 1}, func(t *testing.T, g *testGrid) {
		for _, at := range payment.Points() {
			if name, _, _ := strings.Cut(string(at), "."); crashCommands[name].op == "" {
				continue // a worker's point: TestCrashOfWorkers, which has both PSPs
			}
			t.Run(string(at), func(t *testing.T) {
				crashAt(t, g, at)
				g.always(t)
			})
		}
		g.finish(t) // the workers end what stayed open, by what the PSP says
	})
}

func crashAt(t *testing.T, g *testGrid, at payment.Point) {
	name, step, _ := strings.Cut(string(at), ".")
	command, healthy := crashCommands[name], g.callers[0]
	path, body := "/v1/payments", p10("o-"+string(at), "pm_ok", "automatic")
	if command.prepare != "" {
		p := healthy.pay(t, "k-before-"+string(at), p10("o-"+string(at), "pm_ok", command.prepare)).want(t, http.StatusCreated)
		path, body = path+"/"+p.ID+command.path, command.body
	}
	key := "k-" + string(at)
	before := executions(g.Sim.Books(), command.op)

	dying := startChild(t, childSpec{Config: g.ConfigPath, Die: at})
	if r := newCaller(t, dying.URL).try(path, key, body); r.err == nil {
		t.Fatalf("the router answered: %s", r)
	}
	if state := dying.wait(t); state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the router ended with %s", state)
	}

	pending := g.sum(t, `SELECT count(*) FROM attempts a JOIN idempotency_keys k ON k.bucket = a.bucket AND k.payment_id = a.payment_id
		WHERE a.status = 'PENDING' AND a.kind = $1 AND a.client_key = $2 AND k.key = $2 AND k.answer_kind IS NULL`, command.kind, key)
	done := executions(g.Sim.Books(), command.op) - before
	again := healthy.post(t, path, key, body)
	want := map[string]crashOutcome{
		"begun":     {status: command.status, doneAfter: 1},
		"committed": {status: http.StatusAccepted, pending: 1},
		"sent":      {status: http.StatusAccepted, pending: 1, done: 1, doneAfter: 1},
		"settled":   {status: command.status, replayed: true, done: 1, doneAfter: 1},
	}[step]
	got := crashOutcome{again.status, again.replayed, pending, done, executions(g.Sim.Books(), command.op) - before}
	if got != want {
		t.Errorf("got %+v, want %+v: %s", got, want, again)
	}
	third := healthy.post(t, path, key, body)
	if third.ID != again.ID || third.status != again.status {
		t.Errorf("the key's answer changed from %s to %s", again, third)
	}
}

// crashOutcome is what is seen of one crash.
type crashOutcome struct {
	status          int   // of the repeated key
	replayed        bool  // it said that this is the first answer again
	pending         int64 // attempts that say what is not known
	done, doneAfter int   // moves at the PSP before and after the key was repeated
}

// executions counts the calls of an operation that moved something.
func executions(books simulator.Books, op string) int {
	n := 0
	for _, p := range books.Payments {
		for _, call := range p.Calls {
			if call.Op == op && call.Executed {
				n++
			}
		}
	}
	return n
}

// TestKillUnderLoad kills one of two routers with -9 at a random moment under 64 callers, three times. Callers whose answer
// is lost go to the other router with the same key, as real ones do.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	const killings, callers, each = 3, 64, 5
	g := newGrid(t, gridOptions{Routers: 1})
	survivor := startChild(t, childSpec{Config: g.ConfigPath})
	l := &load{t: t, acknowledged: map[string]reply{}, routers: [2]caller{newCaller(t, survivor.URL)}}
	for round := range killings {
		dying := startChild(t, childSpec{Config: g.ConfigPath})
		l.routers[1] = newCaller(t, dying.URL)
		l.answers.Store(0)
		l.killAt, l.kill = 20+rand.Int64N(callers*each/2), func() { dying.signal(t, syscall.SIGKILL) }
		t.Logf("round %d: kill -9 after %d answers", round, l.killAt)
		together(callers, func(i int) {
			for k := range each {
				l.send(fmt.Sprintf("k-%d-%d-%d", round, i, k), (i+k)%2)
			}
		})
		dying.wait(t)
		g.always(t)
	}
	l.check(g)
}

// load is what the callers of TestKillUnderLoad share.
type load struct {
	t       *testing.T
	routers [2]caller
	answers atomic.Int64
	killAt  int64
	kill    func()
	lost    atomic.Int64

	mu           sync.Mutex
	acknowledged map[string]reply // key -> its first success
}

// send pays under key, at the other router if the first is gone.
func (l *load) send(key string, router int) {
	r := l.routers[router].try("/v1/payments", key, p10("o-"+key, "pm_ok", "automatic"))
	if r.err != nil {
		l.lost.Add(1)
		r = l.routers[0].try("/v1/payments", key, p10("o-"+key, "pm_ok", "automatic"))
	}
	r.decent(l.t)
	if r.err != nil || !r.ok() {
		l.t.Errorf("%s: %s", key, r)
		return
	}
	l.mu.Lock()
	l.acknowledged[key] = r
	l.mu.Unlock()
	if l.answers.Add(1) == l.killAt {
		l.kill()
	}
}

// check finds every acknowledged payment, and at most one charge for each key.
func (l *load) check(g *testGrid) {
	l.t.Logf("%d answers, %d lost on the way", len(l.acknowledged), l.lost.Load())
	if l.lost.Load() == 0 {
		l.t.Error("no call met the killed router: the test proves nothing")
	}
	open := 0
	for key, first := range l.acknowledged {
		again := g.callers[0].pay(l.t, key, p10("o-"+key, "pm_ok", "automatic"))
		if again.ID != first.ID {
			l.t.Errorf("%s: acknowledged as %s, now %s", key, first.ID, again)
		}
		if first.status == http.StatusCreated && (!again.replayed || string(again.raw) != string(first.raw)) {
			l.t.Errorf("%s: acknowledged %s, now %s", key, first, again)
		}
		if again.status == http.StatusAccepted {
			open++
		}
	}
	report := g.always(l.t)
	if report.Payments != len(l.acknowledged) || report.Pending != open {
		l.t.Errorf("%d payments with %d open attempts; %d were acknowledged, %d of them open", report.Payments, report.Pending, len(l.acknowledged), open)
	}
	for _, p := range g.Sim.Books().Payments {
		if p.Authorizations > 1 || p.Charges > 1 {
			l.t.Errorf("%s was charged %d times", p.Metadata["key"], p.Charges)
		}
	}
}
