package stripe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
)

// asking is a minute after the calls that are asked about, lateAsking when their absence can prove something.
var (
	asking     = time.Unix(1_800_000_060, 0)
	lateAsking = asking.Add(DefaultVisibilityWindow - time.Minute)
)

// lookedUp is the adapter in front of a peer that knows answers by path; it returns the queries it was asked.
func lookedUp(t *testing.T, answers map[string]string, change func(*Config)) (*Adapter, *queries) {
	t.Helper()
	asked := &queries{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.add(*r.URL)
		key := r.URL.Path
		if after := r.URL.Query().Get("starting_after") + r.URL.Query().Get("page"); after != "" {
			key += "#" + after
		}
		w.Header().Set("Date", lateAsking.UTC().Format(http.TimeFormat))
		body, known := answers[key]
		if !known || r.Method != http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			body = `{"error":{"type":"invalid_request_error","code":"resource_missing"}}`
		}
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return newAdapter(t, server.URL, change), asked
}

// queries are what a peer was asked.
type queries struct {
	mu   sync.Mutex
	list []url.URL
}

func (q *queries) add(u url.URL) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = append(q.list, u)
}

func (q *queries) all() []url.URL {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.list)
}

func inquiry(operation string) psprouter.Inquiry {
	q := psprouter.Inquiry{Attempt: attAuth, Operation: operation, PaymentRef: "pi_1", Amount: ledger.Money{Minor: 1000, Currency: "EUR"},
		Token: "pm_ok", SentAt: asking.Add(-time.Minute), Now: asking}
	switch operation {
	case psprouter.OpCapture:
		q.Attempt, q.Authorized, q.Captured, q.Amount.Minor = attCapture, 1000, 0, 600
	case psprouter.OpRefund:
		q.Attempt, q.Refund, q.Amount.Minor = attOther, "ref_1", 400
	}
	return q
}

const piHead = `{"object":"payment_intent","id":"pi_1","amount":1000,"currency":"eur","metadata":{"attempt":"` + attAuth + `"},`
const piCaptured = `{"object":"payment_intent","id":"pi_1","amount":1000,"currency":"eur","metadata":{"attempt":"` + attAuth + `","capture_attempt":"` + attCapture + `"},`

// inquiryRow is a payment as it is read, and what that tells of the call that is asked about.
type inquiryRow struct {
	name, operation, body string
	change                func(*psprouter.Inquiry)
	want                  finding
}

type finding struct {
	verdict
	absent, captured bool
}

func found(class psprouter.Class) finding { return finding{verdict: is(class)} }

func checkInquiries(t *testing.T, rows []inquiryRow) {
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			answers := map[string]string{"/v1/payment_intents/pi_1": row.body}
			if row.body == "" {
				answers = nil
			}
			a, asked := lookedUp(t, answers, nil)
			q := inquiry(row.operation)
			if row.change != nil {
				row.change(&q)
			}
			f := a.Inquire(t.Context(), q)
			row.want.check(t, row.name, f.Outcome)
			if f.Absent != row.want.absent || f.Outcome.Captured != row.want.captured || len(asked.all()) != 1 {
				t.Errorf("absent %t, captured %t, %d look-ups: %s", f.Absent, f.Outcome.Captured, len(asked.all()), f.Outcome.Reason)
			}
		})
	}
}

// Every state in which a payment can be read, by each operation that may ask.
func TestInquireAuthorization(t *testing.T) {
	checkInquiries(t, []inquiryRow{
		{"authorized", auth, piHead + `"status":"requires_capture","amount_capturable":1000}`, nil, found(psprouter.Approved)},
		{"charged", auth,
			piHead + `"status":"succeeded","amount_received":1000}`, func(q *psprouter.Inquiry) { q.AutoCapture = true }, finding{verdict: is(psprouter.Approved), captured: true}},
		{"charged, not asked to", auth, piHead + `"status":"succeeded","amount_received":1000}`, nil, finding{verdict: alert()}},
		{"declined", auth,
			piHead + `"status":"requires_payment_method","last_payment_error":{"type":"card_error","code":"card_declined","decline_code":"lost_card"}}`, nil, finding{verdict: no("lost_card")}},
		{"not tried", auth, piHead + `"status":"requires_payment_method"}`, nil, finding{verdict: unknown()}},
		{"canceled since", auth, piHead + `"status":"canceled","cancellation_reason":"automatic"}`, nil, finding{verdict: no("canceled")}},
		{"canceled with money", auth, piHead + `"status":"canceled","amount_received":5}`, nil, finding{verdict: alert()}},
		{"processing", auth, piHead + `"status":"processing"}`, nil, found(psprouter.Accepted)},
		{"redirect", auth, piHead + `"status":"requires_action","next_action":{"redirect_to_url":{"url":"https://x"}}}`, nil, found(psprouter.ActionRequired)},
		{"unheard-of", auth, piHead + `"status":"blessed"}`, nil, finding{verdict: unknown()}},
		{"of another attempt", auth, piCaptured + `"status":"requires_capture","amount_capturable":1000}`, func(q *psprouter.Inquiry) { q.Attempt = attOther }, finding{verdict: alert()}},
		{"of another amount", auth, piHead + `"status":"requires_capture","amount_capturable":1000}`, func(q *psprouter.Inquiry) { q.Amount.Minor = 999 }, finding{verdict: alert()}},
		{"of another currency", auth, piHead + `"status":"requires_capture","amount_capturable":1000}`, func(q *psprouter.Inquiry) { q.Amount.Currency = "USD" }, finding{verdict: alert()}},
		{"another payment", auth, strings.Replace(piHead, "pi_1", "pi_2", 1) + `"status":"requires_capture","amount_capturable":1000}`, nil, finding{verdict: alert()}},
		{"not there", auth, "", nil, finding{verdict: unknown()}},
	})
}

func TestInquireCapture(t *testing.T) {
	absent := finding{verdict: unknown(), absent: true}
	checkInquiries(t, []inquiryRow{
		{"captured", capture, piCaptured + `"status":"succeeded","amount_received":600}`, nil, finding{verdict: is(psprouter.Approved), captured: true}},
		{"captured, rest open", capture,
			piCaptured + `"status":"requires_capture","amount_received":600,"amount_capturable":400}`, nil, finding{verdict: is(psprouter.Approved), captured: true}},
		{"captured, rest open though final", capture,
			piCaptured + `"status":"requires_capture","amount_received":600,"amount_capturable":400}`, func(q *psprouter.Inquiry) { q.Final = true }, finding{verdict: alert()}},
		{"captured too little", capture, piCaptured + `"status":"succeeded","amount_received":500}`, nil, finding{verdict: alert()}},
		{"capture not seen", capture, piHead + `"status":"requires_capture","amount_capturable":1000}`, nil, absent},
		{"capture not seen, after one", capture,
			piHead + `"status":"requires_capture","amount_received":200,"amount_capturable":800}`, func(q *psprouter.Inquiry) { q.Captured = 200 }, absent},
		{"captured by another", capture, piHead + `"status":"requires_capture","amount_received":200,"amount_capturable":800}`, nil, finding{verdict: alert()}},
		{"captured by nobody named", capture, piHead + `"status":"succeeded","amount_received":600}`, nil, finding{verdict: alert()}},
		{"capture of a canceled payment", capture, piHead + `"status":"canceled"}`, nil, finding{verdict: no("canceled")}},
		{"capture, processing", capture, piHead + `"status":"processing"}`, nil, finding{verdict: unknown()}},
		{"our capture, processing", capture, piCaptured + `"status":"processing"}`, nil, found(psprouter.Accepted)},
	})
}

func TestInquireVoid(t *testing.T) {
	absent := finding{verdict: unknown(), absent: true}
	checkInquiries(t, []inquiryRow{
		{"voided", void, piHead + `"status":"canceled"}`, nil, found(psprouter.Approved)},
		{"void not seen", void, piHead + `"status":"requires_capture","amount_capturable":1000}`, nil, absent},
		{"void of a captured payment", void, piHead + `"status":"succeeded","amount_received":1000}`, nil, finding{verdict: no("payment_intent_unexpected_state")}},
		{"void, processing", void, piHead + `"status":"processing"}`, nil, found(psprouter.Accepted)},
		{"voided with money", void, piHead + `"status":"canceled","amount_received":1}`, nil, finding{verdict: alert()}},
		{"void of a payment in another state", void, piHead + `"status":"requires_action"}`, nil, finding{verdict: unknown()}},
		{"an operation that does not exist", "CHARGE", piHead + `"status":"canceled"}`, nil, finding{verdict: unknown()}},
	})
}

// Without a reference: search finds, or search and the list of that time agree that there is nothing.
func TestInquireBySearch(t *testing.T) {
	const searchPath, listPath, readPath = "/v1/payment_intents/search", "/v1/payment_intents", "/v1/payment_intents/pi_1"
	authorized := piHead + `"status":"requires_capture","amount_capturable":1000}`
	old := piHead + `"status":"processing"}`
	other := strings.Replace(authorized, attAuth, attOther, 1)
	list := func(objects ...string) string {
		return `{"object":"list","has_more":false,"data":[` + strings.Join(objects, ",") + `]}`
	}
	search := func(objects ...string) string {
		return strings.Replace(list(objects...), `"list"`, `"search_result"`, 1)
	}
	for _, row := range []struct {
		name    string
		answers map[string]string
		class   psprouter.Class
		absent  bool
		alert   bool
	}{
		{"search knows, and the payment itself is newer", map[string]string{searchPath: search(old), readPath: authorized}, psprouter.Approved, false, false},
		{"search lags, the list knows", map[string]string{searchPath: search(), listPath: list(other, authorized), readPath: authorized}, psprouter.Approved, false, false},
		{"search is not offered, the list knows", map[string]string{listPath: list(authorized), readPath: authorized}, psprouter.Approved, false, false},
		{"nobody knows", map[string]string{searchPath: search(), listPath: list(other)}, psprouter.Unknown, true, false},
		{"search fails, the list knows nothing", map[string]string{listPath: list()}, psprouter.Unknown, false, false},
		{"search knows nothing, the list fails", map[string]string{searchPath: search()}, psprouter.Unknown, false, false},
		{"both fail", nil, psprouter.Unknown, false, false},
		{"found, and cannot be read", map[string]string{searchPath: search(old)}, psprouter.Unknown, false, false},
		{"two payments of one attempt", map[string]string{searchPath: search(authorized, strings.Replace(authorized, "pi_1", "pi_2", 1)), listPath: list()}, psprouter.Unknown, false, true},
		{"two in the list", map[string]string{searchPath: search(), listPath: list(authorized, strings.Replace(authorized, "pi_1", "pi_2", 1))}, psprouter.Unknown, false, true},
		{"the second page knows", map[string]string{searchPath: search(), readPath: authorized,
			listPath: `{"object":"list","has_more":true,"data":[` + strings.Replace(other, "pi_1", "pi_7", 1) + `]}`, listPath + "#pi_7": list(authorized)}, psprouter.Approved, false, false},
		{"the second page of search knows",
			map[string]string{readPath: authorized, searchPath: `{"object":"search_result","has_more":true,"next_page":"p2","data":[]}`, searchPath + "#p2": search(old)}, psprouter.Approved, false, false},
		{"the second page fails", map[string]string{searchPath: search(), listPath: `{"object":"list","has_more":true,"data":[` + other + `]}`}, psprouter.Unknown, false, false},
		{"more, and nothing to go on from", map[string]string{searchPath: search(), listPath: `{"object":"list","has_more":true,"data":[]}`}, psprouter.Unknown, false, false},
		{"no envelope", map[string]string{searchPath: search(), listPath: `{}`}, psprouter.Unknown, false, false},
		{"null for data", map[string]string{searchPath: search(), listPath: `{"object":"list","has_more":false,"data":null}`}, psprouter.Unknown, false, false},
		{"null for a payment", map[string]string{searchPath: search(), listPath: list("null")}, psprouter.Unknown, true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, asked := lookedUp(t, row.answers, nil)
			f := a.Inquire(t.Context(), late(inquiry(psprouter.OpAuthorize)))
			if f.Outcome.Class() != row.class || f.Absent != row.absent || f.Outcome.Alert != row.alert {
				t.Errorf("%v, absent %t, alert %t: %s", f.Outcome.Class(), f.Absent, f.Outcome.Alert, f.Outcome.Reason)
			}
			first := asked.all()[0].Query()
			if first.Get("query") != `metadata["attempt"]:"`+attAuth+`"` || first.Get("limit") != "100" {
				t.Errorf("searched %v", first)
			}
			if len(asked.all()) > 1 && asked.all()[1].Path == listPath {
				window := asked.all()[1].Query()
				if window.Get("created[gte]") != "1799999960" || window.Get("created[lte]") != "1800000046" {
					t.Errorf("listed %v", window)
				}
			}
		})
	}
}

// late makes an inquiry that goes by the attempt alone, when absence can prove something.
func late(q psprouter.Inquiry) psprouter.Inquiry {
	q.PaymentRef, q.Now = "", lateAsking
	return q
}

// As long as absence proves nothing the list, which is long, is left alone, but for a search that fails.
func TestInquireListsOnlyForProof(t *testing.T) {
	const searchPath, listPath = "/v1/payment_intents/search", "/v1/payment_intents"
	nothing := map[string]string{searchPath: `{"object":"search_result","has_more":false,"data":[]}`, listPath: `{"object":"list","has_more":false,"data":[]}`}
	for _, row := range []struct {
		name    string
		answers map[string]string
		age     time.Duration
		lists   bool
		absent  bool
	}{
		{"too early", nothing, DefaultVisibilityWindow - 1, false, false},
		{"late enough", nothing, DefaultVisibilityWindow, true, true},
		{"too early, and search fails", map[string]string{listPath: nothing[listPath]}, time.Minute, true, false},
	} {
		a, asked := lookedUp(t, row.answers, nil)
		q := late(inquiry(psprouter.OpAuthorize))
		q.Now = q.SentAt.Add(row.age)
		f := a.Inquire(t.Context(), q)
		if f.Absent != row.absent || f.Outcome.Class() != psprouter.Unknown || (len(asked.all()) > 1) != row.lists {
			t.Errorf("%s: absent %t, %v, %d look-ups: %s", row.name, f.Absent, f.Outcome.Class(), len(asked.all()), f.Outcome.Reason)
		}
	}
}

// A list without end is not read for ever, and proves nothing.
func TestInquireBoundsItsLists(t *testing.T) {
	a, asked := lookedUp(t, map[string]string{
		"/v1/payment_intents/search":   `{"object":"search_result","has_more":true,"next_page":"p","data":[]}`,
		"/v1/payment_intents/search#p": `{"object":"search_result","has_more":true,"next_page":"p","data":[]}`,
		"/v1/payment_intents":          `{"object":"list","has_more":true,"data":[{"id":"x","object":"payment_intent"}]}`,
		"/v1/payment_intents#x":        `{"object":"list","has_more":true,"data":[{"id":"x","object":"payment_intent"}]}`,
	}, nil)
	if f := a.Inquire(t.Context(), late(inquiry(psprouter.OpAuthorize))); f.Absent || f.Outcome.Class() != psprouter.Unknown || len(asked.all()) <= censusPages || len(asked.all()) > maxPages+1+censusPages {
		t.Errorf("absent %t, %v after %d pages", f.Absent, f.Outcome.Class(), len(asked.all()))
	}
}

func TestInquireRefund(t *testing.T) {
	refund := func(status string, amount int, intent, attempt string) string {
		return fmt.Sprintf(`{"object":"refund","id":"re_1","status":%q,"amount":%d,"currency":"eur","payment_intent":%q,"metadata":{"attempt":%q}}`, status, amount, intent, attempt)
	}
	for _, row := range []struct {
		name, data string
		verdict
		absent bool
	}{
		{"made", refund("succeeded", 400, "pi_1", attOther), is(psprouter.Approved), false},
		{"pending", refund("pending", 400, "pi_1", attOther), is(psprouter.Accepted), false},
		{"failed", refund("failed", 400, "pi_1", attOther), no("failed"), false},
		{"of another attempt", refund("succeeded", 400, "pi_1", attAuth), unknown(), true},
		{"none", "", unknown(), true},
		{"of another amount", refund("succeeded", 401, "pi_1", attOther), alert(), false},
		{"of another payment", refund("succeeded", 400, "pi_2", attOther), alert(), false},
		{"two", refund("succeeded", 400, "pi_1", attOther) + "," + refund("succeeded", 400, "pi_1", attOther), alert(), false},
	} {
		a, _ := lookedUp(t, map[string]string{"/v1/refunds": `{"object":"list","has_more":false,"data":[` + row.data + `]}`}, nil)
		f := a.Inquire(t.Context(), inquiry(psprouter.OpRefund))
		row.check(t, row.name, f.Outcome)
		if f.Absent != row.absent {
			t.Errorf("%s: absent %t", row.name, f.Absent)
		}
	}
}

// What cannot be asked is not asked.
func TestInquireNeedsSomethingToGoBy(t *testing.T) {
	a, asked := lookedUp(t, nil, nil)
	for _, operation := range []string{psprouter.OpCapture, psprouter.OpVoid, psprouter.OpRefund, psprouter.OpAuthorize} {
		q := inquiry(operation)
		q.PaymentRef, q.SentAt = "", time.Time{}
		if f := a.Inquire(t.Context(), q); f.Absent || f.Outcome.Class() != psprouter.Unknown {
			t.Errorf("%s: %+v", operation, f)
		}
	}
	odd := inquiry(psprouter.OpVoid)
	odd.Amount = ledger.Money{Minor: 5124, Currency: "KWD"}
	if f := a.Inquire(t.Context(), odd); f.Absent || f.Outcome.Class() != psprouter.Unknown || len(asked.all()) != 0 {
		t.Errorf("%+v, %d look-ups", f, len(asked.all()))
	}
	if a.VisibilityWindow() != DefaultVisibilityWindow {
		t.Errorf("window %v", a.VisibilityWindow())
	}
}

// Against the simulator: what was lost on the way is found, what never arrived is absent.
func TestInquireAfterLostAnswers(t *testing.T) {
	b := newBench(t, nil, func(c *Config) { c.SeveralCaptures = true })
	ask := func(attempt, operation, ref string, change func(*psprouter.Inquiry)) psprouter.Finding {
		q := psprouter.Inquiry{Attempt: attempt, Operation: operation, PaymentRef: ref, Amount: eur(10000), SentAt: b.clock.Now().Add(-DefaultVisibilityWindow), Now: b.clock.Now()}
		if change != nil {
			change(&q)
		}
		return b.Inquire(t.Context(), q)
	}
	b.want("authorize", b.authorize("pm_ok_drop", false), psprouter.Unknown)
	f := ask("att_0001", psprouter.OpAuthorize, "", nil)
	ref := b.want("found", f.Outcome, psprouter.Approved).Reference
	if f := ask("att_9999", psprouter.OpAuthorize, "", nil); !f.Absent {
		t.Errorf("an attempt that never was: %+v", f)
	}
	part := func(q *psprouter.Inquiry) { q.Authorized, q.Amount = 10000, eur(6000) }
	if f := ask("att_0002", psprouter.OpCapture, ref, part); !f.Absent {
		t.Errorf("a capture that never was: %+v", f)
	}
	if f := ask("att_0002", psprouter.OpVoid, ref, nil); !f.Absent {
		t.Errorf("a void that never was: %+v", f)
	}
	if err := b.sim.Script("capture", "drop_after", "", 1); err != nil {
		t.Fatal(err)
	}
	b.want("capture", b.capture(ref, 6000, 0, false), psprouter.Unknown)
	b.want("captured", ask("att_0002", psprouter.OpCapture, ref, part).Outcome, psprouter.Approved)
	if f := ask("att_0003", psprouter.OpRefund, ref, nil); !f.Absent {
		t.Errorf("a refund that never was: %+v", f)
	}
	if err := b.sim.Script("refund", "500_after", "", 1); err != nil {
		t.Fatal(err)
	}
	b.want("refund", b.refund(ref, 2500), psprouter.Unknown)
	b.want("refunded", ask("att_0003", psprouter.OpRefund, ref, func(q *psprouter.Inquiry) { q.Amount = eur(2500) }).Outcome, psprouter.Approved)
	if p := b.one(); p.Authorizations != 1 || p.CapturedMinor != 6000 || p.RefundedMinor != 2500 {
		t.Errorf("asking moved money: %+v", p)
	}
}
