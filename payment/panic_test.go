package payment

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"paygrid/psprouter"
	"paygrid/psprouter/stripe"
	"paygrid/shard"
	"paygrid/shard/model"
)

// panicking is a PSP whose adapter panics at some payments and notices: at those of the token, attempt or event named.
type panicking struct {
	psprouter.PSP
	token, attempt, event string
}

func (p *panicking) Authorize(_ context.Context, r psprouter.AuthorizeRequest) psprouter.Outcome {
	if r.Token == p.token {
		panic("an answer that nobody expected")
	}
	return psprouter.UnknownBecause("no answer")
}

func (p *panicking) Inquire(_ context.Context, q psprouter.Inquiry) psprouter.Finding {
	if q.Attempt == p.attempt {
		panic("an answer that nobody expected")
	}
	return psprouter.Finding{Outcome: psprouter.ApprovedAs("pi_" + q.Attempt)}
}

func (p *panicking) Void(context.Context, psprouter.VoidRequest) psprouter.Outcome {
	panic("an answer that nobody expected")
}

func (p *panicking) ReadWebhook(body []byte) ([]psprouter.Notice, error) {
	if string(body) == p.event {
		panic("a notice that nobody expected")
	}
	return []psprouter.Notice{{EventID: string(body), Kind: "charge.updated"}}, nil
}

// panics is a service on a model whose one PSP panics, with what it logs.
func panics(t *testing.T, now *time.Time, wrap func(*model.Store) Store) (*Service, *model.Store, *panicking, *strings.Builder) {
	t.Helper()
	clock := func() time.Time { return *now }
	store, err := model.New(model.Options{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	psp, log := &panicking{PSP: choice().PSP, token: "pm_bad"}, &strings.Builder{}
	s, err := New(wrap(store), psprouter.NewRouter(psp), Config{Now: clock, MaxInFlight: 1, Log: slog.New(slog.NewJSONHandler(log, nil)),
		Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return s, store, psp, log
}

func plain(m *model.Store) Store { return m }

// wantPanic: the panic was counted n times, and logged with its stack.
func wantPanic(t *testing.T, s *Service, in string, n int, log *strings.Builder, function string) {
	t.Helper()
	var m dto.Metric
	if err := s.metrics.panics.WithLabelValues(in).Write(&m); err != nil {
		t.Fatal(err)
	}
	if got := m.GetCounter().GetValue(); got != float64(n) {
		t.Errorf("%v panics are counted, want %d", got, n)
	}
	if strings.Count(log.String(), "a fault of ours") != n || !strings.Contains(log.String(), function) {
		t.Errorf("no stack with %s in %d logged panics:\n%s", function, n, log)
	}
}

// TestAPanicEndsOneCommand: the caller hears a fault of ours, the others are served: place and slot are free again. What was begun
// stays pending, and the resolver asks about it.
func TestAPanicEndsOneCommand(t *testing.T) {
	now := noon
	s, store, _, log := panics(t, &now, plain)
	bad := p10("bad", "pm_bad", Manual)
	_, err := s.Authorize(t.Context(), bad)
	if fault := (*PanicError)(nil); !errors.As(err, &fault) || fault.Value != "an answer that nobody expected" {
		t.Fatalf("the caller heard %v", err)
	}
	wantPanic(t, s, panicCommand, 1, log, "panicking).Authorize")
	d := s.admission.door(shard.BucketOf(bad.Client, bad.Key))
	if len(s.slots) != 0 || d.waiting != 0 || d.writing != 0 {
		t.Errorf("%d slots are taken, %d writes wait", len(s.slots), d.waiting)
	}
	good, err := s.Authorize(t.Context(), p10("good", "pm_ok", Manual))
	if err != nil || good.Kind != KindProcessing {
		t.Errorf("another is answered %s, %v", good.Kind, err)
	}
	answer, err := s.Authorize(t.Context(), bad)
	if err != nil || answer.Kind != KindProcessing {
		t.Errorf("the key is answered %s, %v", answer.Kind, err)
	}
	now = now.Add(2 * checkAfter)
	if n, err := s.ResolveOn(t.Context(), "shard-1", "w"); n != 2 || err != nil {
		t.Errorf("%d are asked about, %v", n, err)
	}
	if got, err := store.Snapshot(t.Context(), answer.PaymentID); err != nil || got.Payment.Status != Authorized {
		t.Errorf("it is %s in the end, %v", got.Payment.Status, err)
	}
}

// TestAPanicEndsOneAttemptsCheck: the others are resolved, and it is asked about again ever less often.
func TestAPanicEndsOneAttemptsCheck(t *testing.T) {
	now := noon
	s, store, psp, log := panics(t, &now, plain)
	var ids []string
	for _, key := range []string{"a", "b", "c"} {
		answer, err := s.Authorize(t.Context(), p10(key, "pm_ok", Manual))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, answer.PaymentID)
	}
	bad, err := store.Snapshot(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	psp.attempt = bad.Attempts[0].ID
	now = now.Add(2 * checkAfter)
	n, err := s.ResolveOn(t.Context(), "shard-1", "w")
	if fault := (*PanicError)(nil); n != 3 || !errors.As(err, &fault) || !strings.Contains(err.Error(), psp.attempt) {
		t.Errorf("%d are asked about, %v", n, err)
	}
	wantPanic(t, s, panicAttempt, 1, log, "panicking).Inquire")
	for k, id := range ids {
		got, err := store.Snapshot(t.Context(), id)
		if a := got.Attempts[0]; err != nil || (a.Status == Pending) != (k == 0) || k == 0 && (a.Checks != 1 || !a.NextCheckAt.After(now)) {
			t.Errorf("%d: %+v, %v", k, a, err)
		}
	}
	if n, err := s.ResolveOn(t.Context(), "shard-1", "w"); n != 0 || err != nil {
		t.Errorf("%d are asked about at once again, %v", n, err)
	}
}

// TestAPanicEndsOneNotice: the others are applied, and it is looked at again later, ever less often.
func TestAPanicEndsOneNotice(t *testing.T) {
	now := noon
	s, store, psp, log := panics(t, &now, plain)
	psp.event = "evt_1"
	for _, event := range []string{"evt_0", psp.event, "evt_2"} { // in one bucket
		item := shard.InboxItem{Bucket: 7, PSP: stripe.Name, EventID: event, Kind: "charge.updated", Raw: []byte(event)}
		if stored, err := store.PutInbox(t.Context(), item, now); !stored || err != nil {
			t.Fatal(stored, err)
		}
		now = now.Add(time.Second)
	}
	if n, err := s.ApplyNoticesOn(t.Context(), "shard-1", "w"); n != 3 || err != nil {
		t.Errorf("%d are looked at, %v", n, err)
	}
	wantPanic(t, s, panicNotice, 1, log, "panicking).ReadWebhook")
	if n, err := s.ApplyNoticesOn(t.Context(), "shard-1", "w"); n != 0 || err != nil {
		t.Errorf("%d are looked at again at once, %v", n, err)
	}
	now = now.Add(2 * firstRetry)
	psp.event = "" // mended
	if n, err := s.ApplyNoticesOn(t.Context(), "shard-1", "w"); n != 3 || err != nil {
		t.Errorf("%d are looked at in the end, %v", n, err)
	}
	wantPanic(t, s, panicNotice, 1, log, "")
}

// TestAPanicEndsOneRound: of a job, whose next round comes; and of what ran out, one.
func TestAPanicEndsOneRound(t *testing.T) {
	now, bad := noon, ""
	s, store, _, log := panics(t, &now, func(m *model.Store) Store {
		return obstinate{m, func(c shard.Change) error {
			if c.Payment.ID == bad && c.Payment.Status == Expired {
				panic("a change that nobody expected")
			}
			return nil
		}}
	})
	for _, key := range []string{"a", "b"} {
		answer, err := s.Authorize(t.Context(), p10(key, "pm_ok", Manual))
		if err != nil {
			t.Fatal(err)
		}
		bad = answer.PaymentID
	}
	now = now.Add(2 * checkAfter)
	if n, err := s.ResolveOn(t.Context(), "shard-1", "w"); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	now = now.Add(2 * lifetime)
	n, err := s.ExpireOn(t.Context(), "shard-1")
	left, err2 := store.Expired(t.Context(), "shard-1", now, 9)
	if fault := (*PanicError)(nil); n != 1 || !errors.As(err, &fault) || len(left) != 1 || left[0] != bad || err2 != nil {
		t.Errorf("%d are ended and %v left, %v, %v", n, left, err, err2)
	}
	wantPanic(t, s, panicExpiry, 1, log, "TestAPanicEndsOneRound")
	log.Reset()
	w := Work{Service: s, Owner: "w", Every: time.Second}
	_, err = w.round(t.Context(), "shard-1", job{name: "j", lease: shortestLease, do: func(context.Context, string) (int, error) { panic("planned") }}, &tenure{})
	if fault := (*PanicError)(nil); !errors.As(err, &fault) {
		t.Errorf("the round ended with %v", err)
	}
	wantPanic(t, s, panicRound, 1, log, "TestAPanicEndsOneRound")
}

// TestAPanicGivesItsPermissionBack: the PSP may be called again, also where what is asked again gives money back.
func TestAPanicGivesItsPermissionBack(t *testing.T) {
	for name, reason := range map[string]string{"an inquiry": "", "a void of ours": returnsPrefix + "att_1"} {
		now := noon
		s, _, psp, _ := panics(t, &now, plain)
		psp.attempt = "att_2"
		var err error
		s.psps, err = psprouter.NewConfigured(psprouter.Rules{PSPs: []psprouter.Rule{{Name: stripe.Name, Weight: 1, RatePerSecond: 1, Burst: 1}}},
			func() time.Time { return now }, func(int64) int64 { return 0 }, nil, psp)
		if err != nil {
			t.Fatal(err)
		}
		a := shard.Attempt{ID: psp.attempt, Kind: AttemptVoid, PSP: stripe.Name, RouteReason: reason, SentAt: now}
		err = s.guarded(t.Context(), panicAttempt, func() error {
			s.inquire(t.Context(), shard.Snapshot{Payment: shard.Payment{Method: []byte("{}")}, Attempts: []shard.Attempt{a}}, a)
			return nil
		})
		if fault := (*PanicError)(nil); !errors.As(err, &fault) {
			t.Errorf("%s: %v", name, err)
		}
		if _, _, err := s.psps.Permit(stripe.Name, psprouter.OpVoid); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
}

// TestAPanicInAWriteGivesItsPlaceBack: else the door would count a write that waits for ever.
func TestAPanicInAWriteGivesItsPlaceBack(t *testing.T) {
	b := newBench(t, setup{})
	place, err := b.admission.admit(ClassAuthorize, 7)
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = b.admission.step(place.with(b.ctx), 7, func() error { panic("in a write") })
	}()
	if d := b.admission.door(7); d.waiting != 0 || d.writing != 0 {
		t.Errorf("%d wait, %d write", d.waiting, d.writing)
	}
}
