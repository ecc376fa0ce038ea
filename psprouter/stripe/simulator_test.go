package stripe

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/psprouter/simulator"
)

// bench is the adapter in front of a simulator whose clock and waits the test holds.
type bench struct {
	*Adapter
	sim   *simulator.Simulator
	clock *clock
	t     *testing.T
	n     int
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// newBench: wait is what the simulator does in place of sleeping; nil = nothing.
func newBench(t *testing.T, wait func(time.Duration, <-chan struct{}), change func(*Config)) *bench {
	t.Helper()
	c := &clock{now: time.Unix(1_800_000_000, 0).UTC()}
	if wait == nil {
		wait = func(time.Duration, <-chan struct{}) {}
	}
	sim, err := simulator.New(simulator.Options{Now: c.Now, Seed: 1, Wait: wait})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(func() { sim.Stop(); server.Close() })
	a := newAdapter(t, server.URL, func(cfg *Config) {
		cfg.NotProcessedHeader = simulator.NotProcessedHeader
		if change != nil {
			change(cfg)
		}
	})
	return &bench{Adapter: a, sim: sim, clock: c, t: t}
}

func (b *bench) attempt() string {
	b.n++
	return fmt.Sprintf("att_%04d", b.n)
}

func eur(minor int64) ledger.Money { return ledger.Money{Minor: minor, Currency: "EUR"} }

func (b *bench) authorize(token string, auto bool) psprouter.Outcome {
	return b.Authorize(b.t.Context(), psprouter.AuthorizeRequest{
		Attempt: b.attempt(), Amount: eur(10000), Token: token, AutoCapture: auto,
		Recovery: psprouter.Recovery{Payment: "pay_1", Client: "tk", Key: "k", Order: "o", Splits: []ledger.Split{{SellerID: "s-ann", Minor: 10000, CommissionMinor: 700}}},
	})
}

func (b *bench) capture(ref string, minor, before int64, final bool) psprouter.Outcome {
	return b.Capture(b.t.Context(), psprouter.CaptureRequest{
		Attempt: b.attempt(), PaymentRef: ref, Amount: eur(minor), Authorized: 10000, Captured: before, Final: final})
}

func (b *bench) void(ref string) psprouter.Outcome {
	return b.Void(b.t.Context(), psprouter.VoidRequest{Attempt: b.attempt(), PaymentRef: ref, Amount: eur(10000)})
}

func (b *bench) refund(ref string, minor int64) psprouter.Outcome {
	return b.Refund(b.t.Context(), psprouter.RefundRequest{Attempt: b.attempt(), Refund: "ref_1", PaymentRef: ref, Amount: eur(minor)})
}

func (b *bench) want(what string, out psprouter.Outcome, class psprouter.Class) psprouter.Outcome {
	b.t.Helper()
	if out.Class() != class {
		b.t.Fatalf("%s: %v %q %q, want %v", what, out.Class(), out.Code, out.Reason, class)
	}
	return out
}

// one returns the books of the only payment.
func (b *bench) one() simulator.PaymentBooks {
	b.t.Helper()
	books := b.sim.Books()
	if len(books.Payments) != 1 {
		b.t.Fatalf("%d payments in the books", len(books.Payments))
	}
	return books.Payments[0]
}

// Every token of the table, as an automatic and as a manual payment: our outcome, and what the PSP's books say.
func TestEveryToken(t *testing.T) {
	for _, row := range []struct {
		token    string
		class    psprouter.Class
		payments int // that the PSP knows of
		approved int // … and approved
		code     string
	}{
		{"pm_ok", psprouter.Approved, 1, 1, ""},
		{"pm_card_visa", psprouter.Approved, 1, 1, ""},
		{"pm_decline", psprouter.Declined, 1, 0, "insufficient_funds"},
		{"pm_card_visa_chargeDeclinedLostCard", psprouter.Declined, 1, 0, "lost_card"},
		{"pm_card_chargeDeclinedExpiredCard", psprouter.Declined, 1, 0, "expired_card"},
		{"pm_card_authenticationRequired", psprouter.Declined, 1, 0, "authentication_required"}, // no return URL
		{"pm_slow_ok_5s", psprouter.Approved, 1, 1, ""},
		{"pm_ok_drop", psprouter.Unknown, 1, 1, ""},
		{"pm_500_charged", psprouter.Unknown, 1, 1, ""},
		{"pm_timeout_charged", psprouter.Approved, 1, 1, ""}, // whoever waits 60 s hears it; TestTimeouts does not
		{"pm_hidden_20s", psprouter.Unknown, 1, 1, ""},
		{"pm_never", psprouter.Unknown, 0, 0, ""},
		{"pm_pending", psprouter.Accepted, 1, 0, ""},
		{"pm_503", psprouter.NotSent, 0, 0, ""},
		{"pm_nonsense", psprouter.NotSent, 0, 0, "resource_missing"},
	} {
		for _, auto := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/auto=%t", row.token, auto), func(t *testing.T) {
				b := newBench(t, nil, nil)
				out := b.want("authorize", b.authorize(row.token, auto), row.class)
				if out.Code != row.code || out.Captured != (auto && row.class == psprouter.Approved) {
					t.Errorf("code %q, captured %t", out.Code, out.Captured)
				}
				books := b.sim.Books()
				if len(books.Payments) != row.payments || len(books.Payments)+len(books.Unplaced) != 1 {
					t.Fatalf("%d payments, %d calls without one", len(books.Payments), len(books.Unplaced))
				}
				if row.payments == 0 {
					return
				}
				p := books.Payments[0]
				charges := 0
				if auto {
					charges = row.approved
				}
				if p.Authorizations != row.approved || p.Charges != charges || p.CapturedMinor != int64(charges)*10000 || p.Attempt != "att_0001" {
					t.Errorf("books: %+v", p)
				}
				if len(p.Calls) != 1 || p.Calls[0].Key != "att_0001" {
					t.Errorf("calls: %+v", p.Calls)
				}
			})
		}
	}
}

func TestRedirect(t *testing.T) {
	b := newBench(t, nil, nil)
	r := psprouter.AuthorizeRequest{Attempt: "att_1", Amount: eur(10000), Token: "pm_3ds", ReturnURL: "https://shop.example/back"}
	out := b.want("3ds", b.Authorize(t.Context(), r), psprouter.ActionRequired)
	if !strings.HasPrefix(out.RedirectURL, "https://") || out.Reference == "" {
		t.Fatalf("%+v", out)
	}
	if !b.sim.Settle(out.Reference, true) || b.one().AuthorizedMinor != 10000 {
		t.Fatalf("the buyer's yes is not booked: %+v", b.one())
	}
}

func TestLifeOfAPayment(t *testing.T) {
	b := newBench(t, nil, nil)
	auth := b.want("authorize", b.authorize("pm_ok", false), psprouter.Approved)
	if want := b.clock.Now().Add(7 * 24 * time.Hour); !auth.ExpiresAt.Equal(want) {
		t.Errorf("expires %v, want %v", auth.ExpiresAt, want)
	}
	capture := b.want("capture", b.capture(auth.Reference, 6000, 0, true), psprouter.Approved)
	if !strings.HasPrefix(capture.Reference, "ch_") {
		t.Errorf("capture reference %q", capture.Reference)
	}
	refund := b.want("refund", b.refund(auth.Reference, 2500), psprouter.Approved)
	over := b.want("refund too much", b.refund(auth.Reference, 3501), psprouter.Declined)
	again := b.want("capture again", b.capture(auth.Reference, 4000, 6000, true), psprouter.Unknown)
	if over.Code != "invalid_request_error" || !again.Alert {
		t.Errorf("over %+v, again %+v", over, again)
	}
	b.want("void after capture", b.void(auth.Reference), psprouter.Declined)
	b.want("refund the rest", b.refund(auth.Reference, 3500), psprouter.Approved)
	p := b.one()
	if p.CapturedMinor != 6000 || p.RefundedMinor != 6000 || p.Charges != 1 || p.Voided || p.Refunds[0].Ref != refund.Reference {
		t.Errorf("books: %+v", p)
	}
	attempt, recovery, err := RecoveryFrom(p.Metadata)
	if err != nil || attempt != "att_0001" || recovery.Payment != "pay_1" || len(recovery.Splits) != 1 {
		t.Errorf("recovery: %q %+v %v", attempt, recovery, err)
	}
}

func TestSeveralCaptures(t *testing.T) {
	b := newBench(t, nil, func(c *Config) { c.SeveralCaptures = true })
	ref := b.want("authorize", b.authorize("pm_ok", false), psprouter.Approved).Reference
	b.want("6000", b.capture(ref, 6000, 0, false), psprouter.Approved)
	b.want("3000", b.capture(ref, 3000, 6000, false), psprouter.Approved)
	b.want("the rest", b.capture(ref, 1000, 9000, false), psprouter.Approved)
	if p := b.one(); p.CapturedMinor != 10000 || p.Charges != 3 || p.Status != "succeeded" {
		t.Errorf("books: %+v", p)
	}
}

// Without multicapture a partial capture releases the rest, whatever the caller hoped for.
func TestPartialCaptureReleasesTheRest(t *testing.T) {
	b := newBench(t, nil, nil)
	ref := b.want("authorize", b.authorize("pm_ok", false), psprouter.Approved).Reference
	b.want("6000", b.capture(ref, 6000, 0, false), psprouter.Approved)
	if p := b.one(); p.Status != "succeeded" || p.CapturedMinor != 6000 {
		t.Errorf("books: %+v", p)
	}
}

func TestVoidAndExpiry(t *testing.T) {
	b := newBench(t, nil, nil)
	ref := b.want("authorize", b.authorize("pm_ok", false), psprouter.Approved).Reference
	b.want("void", b.void(ref), psprouter.Approved)
	b.want("capture after void", b.capture(ref, 10000, 0, true), psprouter.Declined)
	if out := b.want("void again", b.void(ref), psprouter.Unknown); !out.Alert {
		t.Error("a second void is for people")
	}
	late := b.want("authorize", b.authorize("pm_ok", false), psprouter.Approved).Reference
	b.clock.advance(7 * 24 * time.Hour)
	out := b.want("capture after expiry", b.capture(late, 10000, 0, true), psprouter.Declined)
	if out.Code != "charge_expired_for_capture" {
		t.Errorf("code %q", out.Code)
	}
	books := b.sim.Books()
	if !books.Payments[0].Voided || books.Payments[0].Expired || !books.Payments[1].Expired || books.Payments[1].Voided {
		t.Errorf("books: %+v", books.Payments)
	}
}

// Each fault of a later call, by script and by token: our outcome, and whether the money moved.
func TestModificationFaults(t *testing.T) {
	for _, row := range []struct {
		fault string
		class psprouter.Class
		moved bool
	}{
		{"ok", psprouter.Approved, true},
		{"drop_after", psprouter.Unknown, true},
		{"reset_after", psprouter.Unknown, true},
		{"drop_before", psprouter.Unknown, false},
		{"500_after", psprouter.Unknown, true},
		{"truncated_after", psprouter.Unknown, true},
		{"garbage_after", psprouter.Unknown, true},
		{"redirect_after", psprouter.Unknown, true},
		{"pending", psprouter.Accepted, false},
		{"decline", psprouter.Declined, false},
		{"503", psprouter.NotSent, false},
		{"429", psprouter.NotSent, false},
		{"lock_timeout", psprouter.Unknown, false},
		{"slow_2s", psprouter.Approved, true},
	} {
		for _, op := range []string{"capture", "void", "refund"} {
			for _, by := range []string{"script", "token"} {
				t.Run(row.fault+"/"+op+"/"+by, func(t *testing.T) {
					b := newBench(t, nil, nil)
					token := "pm_ok"
					if by == "token" {
						token += "_" + op + "_" + row.fault
					}
					ref := b.want("authorize", b.authorize(token, op == "refund"), psprouter.Approved).Reference
					if by == "script" {
						if err := b.sim.Script(op, row.fault, ref, 1); err != nil {
							t.Fatal(err)
						}
					}
					moved := func() bool { return b.one().Voided }
					var out psprouter.Outcome
					switch op {
					case "capture":
						out, moved = b.capture(ref, 10000, 0, true), func() bool { return b.one().CapturedMinor == 10000 }
					case "void":
						out = b.void(ref)
					case "refund":
						out, moved = b.refund(ref, 4000), func() bool { return b.one().RefundedMinor == 4000 }
					}
					b.want(op, out, row.class)
					if moved() != row.moved {
						t.Errorf("moved: %t; books %+v", moved(), b.one())
					}
				})
			}
		}
	}
}

// C009 as far as the adapter goes: charged, and nobody told us. Unknown, the attempt can be found, and the re-send under
// its key moves nothing.
func TestC009ChargedAndNotTold(t *testing.T) {
	never := func(d time.Duration, stop <-chan struct{}) {
		if d > 0 {
			<-stop
		}
	}
	for _, token := range []string{"pm_500_charged", "pm_timeout_charged", "pm_ok_drop"} {
		b := newBench(t, never, func(c *Config) { c.Timeout = 100 * time.Millisecond })
		r := psprouter.AuthorizeRequest{Attempt: "att_1", Amount: eur(10000), Token: token, AutoCapture: true}
		b.want(token, b.Authorize(t.Context(), r), psprouter.Unknown)
		b.Authorize(t.Context(), r)
		if p := b.one(); p.Charges != 1 || p.CapturedMinor != 10000 || p.Attempt != "att_1" {
			t.Errorf("%s: %+v", token, p)
		}
	}
}

// C010: a capture in doubt is asked again under its own key: the PSP captured once, and one key is all it saw.
func TestC010CaptureInDoubtKeepsItsKey(t *testing.T) {
	b := newBench(t, nil, nil)
	ref := b.want("authorize", b.authorize("pm_ok", false), psprouter.Approved).Reference
	if err := b.sim.Script("capture", "drop_after", "", 1); err != nil {
		t.Fatal(err)
	}
	r := psprouter.CaptureRequest{Attempt: "att_cap", PaymentRef: ref, Amount: eur(10000), Authorized: 10000, Final: true}
	b.want("first", b.Capture(t.Context(), r), psprouter.Unknown)
	for range 3 {
		b.want("again", b.Capture(t.Context(), r), psprouter.Approved)
	}
	p := b.one()
	for _, call := range p.Calls[1:] {
		if call.Key != "att_cap" {
			t.Errorf("key %q on the wire", call.Key)
		}
	}
	if p.Charges != 1 || len(p.Calls) != 5 || !p.Calls[1].Executed || !p.Calls[2].Replayed {
		t.Errorf("books: %+v", p)
	}
}

// C012: the caller hangs up while the PSP takes its time; the PSP moves the money all the same.
func TestC012CallerHangsUp(t *testing.T) {
	waiting, goOn := make(chan struct{}), make(chan struct{})
	b := newBench(t, func(d time.Duration, _ <-chan struct{}) {
		if d == 2*time.Second {
			close(waiting)
			<-goOn
		}
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-waiting; cancel() }()
	out := b.Authorize(ctx, psprouter.AuthorizeRequest{Attempt: "att_1", Amount: eur(10000), Token: "pm_slow_ok_2s", AutoCapture: true})
	b.want("hung up", out, psprouter.Unknown)
	if len(b.sim.Books().Payments) != 0 {
		t.Fatal("the money moved before its time")
	}
	close(goOn)
	for len(b.sim.Books().Payments) == 0 { // the handler is on its way; the test's time-out is the limit
		runtime.Gosched()
	}
	if p := b.one(); p.Charges != 1 {
		t.Errorf("books: %+v", p)
	}
}

// C022: a pending refund holds its amount, however long it takes, and ends when the PSP says so.
func TestC022PendingRefundIsNotFailed(t *testing.T) {
	b := newBench(t, nil, nil)
	ref := b.want("authorize", b.authorize("pm_ok_refund_pending", true), psprouter.Approved).Reference
	refund := b.want("refund 4000", b.refund(ref, 4000), psprouter.Accepted).Reference
	b.clock.advance(25 * time.Hour)
	b.want("refund 7000", b.refund(ref, 7000), psprouter.Declined)
	if p := b.one(); p.RefundedMinor != 0 || len(p.Refunds) != 1 {
		t.Errorf("books: %+v", p)
	}
	if !b.sim.Settle(refund, true) || b.sim.Settle(refund, true) {
		t.Error("a refund succeeds once")
	}
	if p := b.one(); p.RefundedMinor != 4000 {
		t.Errorf("books: %+v", p)
	}
}

// C025 to the end: what the PSP received, and what its own books call that in ISO units.
func TestC025OnTheWire(t *testing.T) {
	b := newBench(t, nil, func(c *Config) { c.AllowUGX = true })
	for _, row := range []struct {
		m      ledger.Money
		stripe int64
	}{
		{ledger.Money{Minor: 500, Currency: "JPY"}, 500}, {ledger.Money{Minor: 1099, Currency: "EUR"}, 1099},
		{ledger.Money{Minor: 5120, Currency: "KWD"}, 5120}, {ledger.Money{Minor: 5, Currency: "UGX"}, 500},
		{ledger.Money{Minor: 2790, Currency: "ISK"}, 279000}, {ledger.Money{Minor: 1045, Currency: "HUF"}, 1045},
		{ledger.Money{Minor: 1500, Currency: "CLP"}, 1500}, {ledger.Money{Minor: 500, Currency: "MGA"}, 5},
		{ledger.Money{Minor: 12345678901, Currency: "EUR"}, 12345678901},
	} {
		out := b.Authorize(t.Context(), psprouter.AuthorizeRequest{Attempt: b.attempt(), Amount: row.m, Token: "pm_ok", AutoCapture: true})
		b.want(row.m.String(), out, psprouter.Approved)
		all := b.sim.Books().Payments
		p := all[len(all)-1]
		if p.CapturedPSP != row.stripe || p.CapturedMinor != row.m.Minor || p.Currency != string(row.m.Currency) {
			t.Errorf("%v: %+v", row.m, p)
		}
	}
}

// The exact request of an authorization, so that a change of the wire is a decision.
func TestAuthorizeOnTheWire(t *testing.T) {
	var got url.Values
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		got, header = r.PostForm, r.Header
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	newAdapter(t, server.URL, nil).Authorize(t.Context(), psprouter.AuthorizeRequest{
		Attempt: "att_1", Amount: eur(1099), Token: "pm_x", ReturnURL: "https://shop.example/back", Recovery: psprouter.Recovery{Payment: "pay_1"}})
	want := url.Values{"amount": {"1099"}, "currency": {"eur"}, "capture_method": {"manual"}, "confirm": {"true"}, "payment_method": {"pm_x"},
		"payment_method_types[0]": {"card"}, "return_url": {"https://shop.example/back"}, "expand[0]": {"latest_charge"},
		"metadata[attempt]": {"att_1"}, "metadata[payment]": {"pay_1"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if header.Get("Idempotency-Key") != "att_1" || header.Get("Authorization") != "Bearer sk_test_1" || header.Get("X-Stripe-Client-Telemetry") != "" {
		t.Errorf("headers %v", header)
	}
}

// Many callers at once: each attempt is charged once, and no answer is another's.
func TestConcurrentCalls(t *testing.T) {
	b := newBench(t, nil, nil)
	const callers, each = 16, 20
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			for j := range each {
				minor := int64(1000 + i*each + j)
				out := b.Authorize(t.Context(), psprouter.AuthorizeRequest{Attempt: fmt.Sprintf("att_%d_%d", i, j), Amount: eur(minor), Token: "pm_ok", AutoCapture: true})
				if out.Class() != psprouter.Approved {
					t.Errorf("%v %s", out.Class(), out.Reason)
				}
			}
		})
	}
	running.Wait()
	if total := b.sim.Books().Totals[0]; total.Charges != callers*each || total.Payments != callers*each {
		t.Errorf("totals %+v", total)
	}
}

func BenchmarkAuthorize(b *testing.B) {
	sim, err := simulator.New(simulator.Options{Now: time.Now, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(sim.Handler())
	defer server.Close()
	a, err := New(Config{BaseURL: server.URL, SecretKey: "sk_test_1"})
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	n := 0
	for b.Loop() {
		n++
		out := a.Authorize(b.Context(), psprouter.AuthorizeRequest{Attempt: fmt.Sprintf("att_%d", n), Amount: eur(1000), Token: "pm_ok", AutoCapture: true})
		if out.Class() != psprouter.Approved {
			b.Fatal(out.Reason)
		}
	}
}
