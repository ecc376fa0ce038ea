package payment

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"paygrid/psprouter/adyen"
	"paygrid/psprouter/stripe"
	"paygrid/shard"
)

// The four ways in which the end of a payment becomes known.
const (
	byAnswer   = "API answer"
	byWebhook  = "webhook"
	byResolver = "resolver"
	bySecond   = "second webhook" // the same content under another event ID, or again under its own
)

// course is what becomes of an authorization at the PSP.
type course struct {
	name, token, fault string
	settles            string        // what waits at the PSP ends so: "ok", "fail" or ""
	late               bool          // the resolver has thought it absent before all else
	away               time.Duration // how long no worker runs once all is told
	stalls             bool          // the command stands still before its call, not after it
	mute               bool          // the PSP's notices never come
}

func courses() []course {
	return []course{
		{name: "success", token: "pm_ok"},
		{name: "success, answer lost", token: "pm_ok_drop"},
		{name: "decline", token: "pm_decline"},
		{name: "failure", token: "pm_503"},
		{name: "pending, then success", token: "pm_pending", settles: "ok"},
		{name: "pending, then failure", token: "pm_pending", settles: "fail"},
		{name: "late success", token: "pm_ok", fault: "hidden_600s", late: true},
	}
}

// All orders of answer, webhook, resolver and second webhook end in the same books, for every course, PSP and mode.
func TestAllOrders(t *testing.T) {
	orders := permutations([]string{byAnswer, byWebhook, byResolver, bySecond})
	for _, psp := range []string{stripe.Name, adyen.Name} {
		for _, mode := range []CaptureMode{Manual, Automatic} {
			for _, c := range courses() {
				if c.late && psp == adyen.Name {
					continue // Adyen has no look-up: nothing is ever thought absent there
				}
				t.Run(fmt.Sprintf("%s %s %s", psp, mode, c.name), func(t *testing.T) {
					var first string
					for _, order := range orders {
						got, err := inOrder(psp, mode, c, order)
						if err != nil {
							t.Fatalf("%v: %v", order, err)
						}
						if first == "" {
							first = got
						}
						if got != first {
							t.Errorf("%v ends as\n%s\n%v as\n%s", order, got, orders[0], first)
						}
					}
					t.Log("\n" + first)
				})
			}
		}
	}
}

// What came late is given back even if no worker ran for longer than the PSP keeps keys: the first try is proven absent,
// and another one is made.
func TestGivenBackAfterADay(t *testing.T) {
	for mode, want := range map[CaptureMode]string{Manual: "VOID NOT_SENT 10000\nVOID SUCCEEDED 10000\n",
		Automatic: "REFUND NOT_SENT 10000\nREFUND SUCCEEDED 10000\n"} {
		c := course{token: "pm_ok", fault: "hidden_600s", late: true, away: 25 * time.Hour}
		got, err := inOrder(stripe.Name, mode, c, []string{byWebhook, byAnswer, bySecond})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s ends as\n%s", mode, got)
		}
	}
}

// A success that comes to a command after the resolver has closed its attempt is given back, although no notice ever tells
// of it.
func TestAnswerAfterTheResolver(t *testing.T) {
	for mode, want := range map[CaptureMode]string{Manual: "AUTHORIZE SUCCEEDED 10000\nVOID SUCCEEDED 10000\n",
		Automatic: "AUTHORIZE SUCCEEDED 10000\nREFUND SUCCEEDED 10000\n"} {
		got, err := inOrder(stripe.Name, mode, course{token: "pm_ok", late: true, mute: true, stalls: true}, []string{byAnswer})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s ends as\n%s", mode, got)
		}
	}
}

func permutations(list []string) [][]string {
	if len(list) < 2 {
		return [][]string{slices.Clone(list)}
	}
	var out [][]string
	for n := range list {
		rest := slices.Delete(slices.Clone(list), n, n+1)
		for _, p := range permutations(rest) {
			out = append(out, append([]string{list[n]}, p...))
		}
	}
	return out
}

// mailbox holds webhooks back until it is their turn.
type mailbox struct {
	w     *world
	waits []*http.Request
	sent  []*http.Request
	body  map[*http.Request][]byte
}

// RoundTrip is http.RoundTripper's: it acknowledges, and keeps the notice.
func (m *mailbox) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	m.waits, m.body[r] = append(m.waits, r), body
	return answered(r, http.StatusOK, "text/plain", []byte("[accepted]")), nil
}

// next hands the next notice over, or the last one again.
func (m *mailbox) next() error {
	m.w.deliver()
	if len(m.waits) > 0 {
		m.sent, m.waits = append(m.sent, m.waits[0]), m.waits[1:]
	}
	if len(m.sent) == 0 {
		return nil // nothing happened at the PSP, so it has nothing to tell
	}
	r := m.sent[len(m.sent)-1]
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if name == stripe.Name {
		r.Header.Set(stripe.SignatureHeader, signedNow(m.w.clock.pass(0), m.body[r]))
	}
	if _, _, err := m.w.service.TakeWebhook(m.w.ctx, name, r.Header, m.body[r]); err != nil {
		return err
	}
	for range 3 { // a notice that was early is due again
		m.w.applyNotices()
		m.w.clock.pass(time.Minute)
	}
	return nil
}

// signedNow is Stripe's signature of a notice that leaves at that time.
func signedNow(at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, []byte(stripeSecret))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%x", at.Unix(), mac.Sum(nil))
}

// inOrder plays a course with the news of its end coming in that order, and returns the books.
func inOrder(psp string, mode CaptureMode, c course, order []string) (string, error) {
	box := &mailbox{body: map[*http.Request][]byte{}}
	w, err := newWorld(7, nil, plant{webhooks: box})
	if err != nil {
		return "", err
	}
	box.w, w.faulty = w, false
	sim := w.psps[psp]
	if c.fault != "" {
		if err := sim.Script("authorize", c.fault, "", 1); err != nil {
			return "", err
		}
	}
	if err := sim.Script("webhook", "webhook_twin", "", 1); err != nil {
		return "", err
	}
	at := slices.Index(order, byAnswer)
	w.during = func(p Point) {
		where := point("authorize", stepSent)
		if c.stalls {
			where = point("authorize", stepCommitted)
		}
		if p != where {
			return
		}
		w.during = nil
		w.prepare(psp, c)
		err = w.news(order[:at], box)
	}
	command := p10("k", "", mode)
	command.Method.Tokens = map[string]string{psp: c.token}
	w.give(&request{name: "authorize", kind: "authorize", give: func(ctx context.Context) (Answer, error) { return w.service.Authorize(ctx, command) }})
	if err == nil {
		err = w.news(order[at+1:], box)
	}
	if err != nil {
		return "", err
	}
	for len(box.waits) > 0 && !c.mute {
		if err := box.next(); err != nil {
			return "", err
		}
	}
	w.clock.pass(c.away)
	w.settles()
	for len(box.waits) > 0 && !c.mute { // of what was given back
		if err := box.next(); err != nil {
			return "", err
		}
	}
	w.verifies()
	if len(w.broken) > 0 {
		return "", fmt.Errorf("%s\n%s", strings.Join(w.broken, "\n"), strings.Join(w.trace, "\n"))
	}
	return w.books()
}

// prepare brings the PSP to the course's end before anybody hears of it.
func (w *world) prepare(psp string, c course) {
	if c.settles != "" {
		open, _ := w.openAt(psp)
		for _, id := range open {
			w.psps[psp].Settle(id, c.settles == "ok")
		}
	}
	if c.late {
		for _, d := range []time.Duration{6 * time.Minute, time.Minute} {
			w.clock.pass(d)
			w.resolve()
		}
		w.clock.pass(10 * time.Minute) // it shows now
	}
}

// news tells the end in the ways given, one after the other.
func (w *world) news(ways []string, box *mailbox) error {
	for _, way := range ways {
		switch way {
		case byResolver:
			w.clock.pass(longestRecheck)
			w.resolve()
		default:
			if err := box.next(); err != nil {
				return err
			}
		}
	}
	return nil
}

// books are the ends of all payments with what was posted and what the client hears, without IDs and times.
func (w *world) books() (string, error) {
	var b strings.Builder
	for _, name := range w.store.ShardNames() {
		err := w.store.Walk(w.ctx, name, func(span shard.Span) error {
			for _, p := range span.Payments {
				fmt.Fprintf(&b, "%s captured %d released %d refunded %d, %q\n", p.Status, p.Captured, p.Released, p.Refunded, p.FailureCode)
			}
			for _, a := range span.Attempts {
				fmt.Fprintf(&b, "%s %s %d\n", a.Kind, a.Status, a.Amount)
			}
			for _, e := range span.Entries {
				fmt.Fprintf(&b, "%s %v\n", e.Kind, e.Postings)
			}
			for _, k := range span.Keys {
				fmt.Fprintf(&b, "the client hears %s\n", k.AnswerKind)
			}
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	for _, m := range w.moved() {
		fmt.Fprintf(&b, "the PSP has authorized %d captured %d refunded %d voided %t\n", m.Authorized, m.Captured, m.Refunded, m.Voided)
	}
	return b.String(), nil
}
