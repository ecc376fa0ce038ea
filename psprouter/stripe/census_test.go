package stripe

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/psprouter/simulator"
)

// busy is a simulator with many payments, whose look-ups by search find nothing, and which counts and can hold up lists.
type busy struct {
	*Adapter
	now   time.Time
	lists atomic.Int64
	hold  atomic.Pointer[func()] // called in front of every page
}

// newBusy makes perSecond payments in each of seconds; the n-th is of attempt att_n. It is then a visibility window later.
func newBusy(t *testing.T, seconds, perSecond int) *busy {
	t.Helper()
	b := &busy{now: time.Unix(1_800_000_000, 0).UTC()}
	sim, err := simulator.New(simulator.Options{Now: func() time.Time { return b.now }, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	handler := sim.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/payment_intents/search":
			fmt.Fprint(w, `{"object":"search_result","has_more":false,"data":[]}`)
			return
		case "/v1/payment_intents":
			b.lists.Add(1)
			if hold := b.hold.Load(); hold != nil {
				(*hold)()
			}
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.Adapter = newAdapter(t, server.URL, func(c *Config) { c.Timeout = 10 * time.Second })
	for n := range seconds * perSecond {
		b.now = time.Unix(1_800_000_000+int64(n/perSecond), 0).UTC()
		form := fmt.Sprintf("amount=1000&currency=eur&confirm=true&payment_method=pm_ok&capture_method=manual&metadata[attempt]=att_%d", n)
		req := httptest.NewRequest(http.MethodPost, "/v1/payment_intents", strings.NewReader(form))
		req.Header.Set("Authorization", "Bearer sk_test_1")
		handler.ServeHTTP(httptest.NewRecorder(), req)
	}
	b.now = b.now.Add(DefaultVisibilityWindow)
	return b
}

// ask is an inquiry about an authorization that was sent at second.
func (b *busy) ask(ctx context.Context, attempt string, second int) psprouter.Finding {
	return b.Inquire(ctx, psprouter.Inquiry{Attempt: attempt, Operation: psprouter.OpAuthorize, Amount: ledger.Money{Minor: 1000, Currency: "EUR"},
		SentAt: time.Unix(1_800_000_000+int64(second), 0), Now: b.now})
}

// A long list is read whole, by many readers, whichever second and page a payment is on.
func TestCensusReadsEverySecond(t *testing.T) {
	const seconds, perSecond = 100, 60
	b := newBusy(t, seconds, perSecond)
	first, last := 50-int(clockMargin/time.Second), 50+10+int(clockMargin/time.Second)
	for _, n := range []int{first * perSecond, 51*perSecond + 30, last*perSecond + 59} {
		if f := b.ask(t.Context(), fmt.Sprintf("att_%d", n), 50); f.Outcome.Class() != psprouter.Approved {
			t.Errorf("payment %d: %v, %s", n, f.Outcome.Class(), f.Outcome.Reason)
		}
	}
	if f := b.ask(t.Context(), "att_none", 50); !f.Absent {
		t.Errorf("%v: %s", f.Outcome.Class(), f.Outcome.Reason)
	}
}

// All who ask while a census is under way are served by it, or by the next one together.
func TestCensusIsShared(t *testing.T) {
	b := newBusy(t, 20, 20)
	b.ask(t.Context(), "att_none", 5)
	alone := b.lists.Swap(0)
	var asking sync.WaitGroup
	entered, release := make(chan struct{}), make(chan struct{})
	enter := sync.OnceFunc(func() { close(entered) })
	hold := func() { enter(); <-release }
	b.hold.Store(&hold)
	const others = 40
	for n := range others {
		if n == 1 {
			<-entered // the first has begun
		}
		asking.Go(func() {
			attempt, found := fmt.Sprintf("att_%d", n*5), n%2 == 0
			if !found {
				attempt = fmt.Sprintf("att_none_%d", n)
			}
			if f := b.ask(t.Context(), attempt, n/4); f.Absent == found || (f.Outcome.Class() == psprouter.Approved) != found {
				t.Errorf("%s: %v, absent %t: %s", attempt, f.Outcome.Class(), f.Absent, f.Outcome.Reason)
			}
		})
	}
	close(release)
	asking.Wait()
	if n := b.lists.Load(); n > 5*alone {
		t.Errorf("%d pages for %d inquiries; one alone reads %d", n, others, alone)
	}
}

// A census that fails serves nobody with an absence, and the next one starts afresh.
func TestCensusThatFails(t *testing.T) {
	b := newBusy(t, 20, 20)
	ctx, cancel := context.WithCancel(t.Context())
	hold := func() { cancel(); <-t.Context().Done() }
	b.hold.Store(&hold)
	if f := b.ask(ctx, "att_none", 5); f.Absent || f.Outcome.Class() != psprouter.Unknown {
		t.Errorf("%v, absent %t", f.Outcome.Class(), f.Absent)
	}
	b.hold.Store(nil)
	if f := b.ask(t.Context(), "att_none", 5); !f.Absent {
		t.Errorf("%v: %s", f.Outcome.Class(), f.Outcome.Reason)
	}
}

// The list is of the time around our call only if our clock is right.
func TestCensusComparesClocks(t *testing.T) {
	b := newBusy(t, 1, 1)
	for apart, absent := range map[time.Duration]bool{clockMargin / 2: true, -clockMargin / 2: true, clockMargin/2 + time.Second: false, -clockMargin/2 - time.Second: false} {
		f := b.Inquire(t.Context(), psprouter.Inquiry{Attempt: "att_none", Operation: psprouter.OpAuthorize, Amount: ledger.Money{Minor: 1000, Currency: "EUR"},
			SentAt: b.now.Add(apart - DefaultVisibilityWindow), Now: b.now.Add(apart)})
		if f.Absent != absent {
			t.Errorf("%s apart: absent %t: %s", apart, f.Absent, f.Outcome.Reason)
		}
	}
}

// Which census an inquiry waits for.
func TestJoin(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	all := newCensuses()
	first := all.join(span{100, 200}, at(0))
	if c := all.join(span{150, 250}, at(0)); c != first || c.span != (span{100, 250}) {
		t.Errorf("the next census is shared and grows: %+v", c.span)
	}
	if _, ours := all.begin(first, at(1000)); !ours {
		t.Error("it has not begun yet")
	}
	if _, ours := all.begin(first, at(1000)); ours {
		t.Error("it began twice")
	}
	if c := all.join(span{120, 240}, at(1000)); c != first {
		t.Error("what is under way, and covers it, serves")
	}
	if c := all.join(span{120, 240}, at(1001)); c == first {
		t.Error("it began before absence proved anything")
	}
	if c := all.join(span{100 - censusApron, 250 + censusApron}, at(1000)); c != first {
		t.Error("its apron is for those who come later")
	}
	if c := all.join(span{99 - censusApron, 240}, at(0)); c == first {
		t.Error("it does not cover that time")
	}
	next := all.join(span{240, 400}, at(0))
	if c := all.join(span{500, 600}, at(0)); c == next {
		t.Error("times between two are not read")
	}
	if c := all.join(span{500, 500 + censusSpan}, at(0)); c.span != (span{500, 500 + censusSpan}) {
		t.Errorf("%+v is longer than one census may get", c.span)
	}
	all.end(first, nil)
	if c := all.join(span{120, 240}, at(0)); c == first {
		t.Error("a census that is done serves nobody")
	}
}
