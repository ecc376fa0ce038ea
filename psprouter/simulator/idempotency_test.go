package simulator

import (
	"bytes"
	"net/http"
	"sync"
	"testing"
	"time"
)

func TestKeyReplaysTheFirstAnswer(t *testing.T) {
	for token, status := range map[string]int{"pm_ok": 200, "pm_decline": 402, "pm_500_charged": 500, "pm_pending": 200} {
		r := newRig(t, nil)
		first := r.want(r.post("/v1/payment_intents", "k1", form(token, "automatic", "att_1")), status)
		second := r.want(r.post("/v1/payment_intents", "k1", form(token, "automatic", "att_1")), status)
		if !bytes.Equal(first.body, second.body) || second.header.Get("Idempotent-Replayed") != "true" || first.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s: the replay differs", token)
		}
		b := r.Books()
		if len(b.Payments) != 1 || len(b.Payments[0].Calls) != 2 || !b.Payments[0].Calls[1].Replayed || b.Payments[0].Calls[1].Executed {
			t.Errorf("%s: books %+v", token, b)
		}
	}
}

func TestKeyWithOtherParameters(t *testing.T) {
	r := newRig(t, nil)
	r.want(r.post("/v1/payment_intents", "k1", form("pm_ok", "automatic", "att_1")), 200)
	r.want(r.post("/v1/payment_intents", "k1", form("pm_ok", "automatic", "att_2")), 400, "error.type", "idempotency_error", "error.code", "")
	r.want(r.post("/v1/refunds", "k1", form("pm_ok", "automatic", "att_1")), 400, "error.type", "idempotency_error")
	// The order of parameters means nothing.
	r.want(r.post("/v1/payment_intents", "k1", "metadata[attempt]=att_1&capture_method=automatic&payment_method=pm_ok&confirm=true&currency=eur&amount=1000"), 200)
	if n := len(r.Books().Payments); n != 1 {
		t.Errorf("%d payments", n)
	}
}

func TestKeyInFlight(t *testing.T) {
	started, goOn := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(o *Options) {
		o.Wait = func(d time.Duration, _ <-chan struct{}) {
			if d == 3*time.Second {
				close(started)
				<-goOn
			}
		}
	})
	var running sync.WaitGroup
	running.Go(func() { r.post("/v1/payment_intents", "k1", form("pm_slow_ok_3s", "automatic", "att_1")) })
	<-started
	r.want(r.post("/v1/payment_intents", "k1", form("pm_slow_ok_3s", "automatic", "att_1")), 409, "error.code", "idempotency_key_in_use")
	r.want(r.post("/v1/payment_intents", "k1", form("pm_ok", "automatic", "att_1")), 400, "error.type", "idempotency_error")
	close(goOn)
	running.Wait()
	if p := r.Books().Payments; len(p) != 1 || p[0].Charges != 1 {
		t.Errorf("books %+v", p)
	}
}

// Answers from before the execution are not kept: the same key may do its work later.
func TestWhatIsNotKept(t *testing.T) {
	for _, first := range []struct {
		name, fault, form string
		status            int
	}{
		{"limited", "429", "", 429}, {"unavailable", "503", "", 503}, {"cut off before", "drop_before", "", 0}, {"lock", "lock_timeout", "", 429},
		{"malformed", "", "amount=x&currency=eur&confirm=true&payment_method=pm_ok", 400},
	} {
		t.Run(first.name, func(t *testing.T) {
			r := newRig(t, nil)
			good := form("pm_ok", "automatic", "att_1")
			if first.fault != "" {
				first.form = good
				if err := r.Script("authorize", first.fault, "", 1); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.post("/v1/payment_intents", "k1", first.form); got.status != first.status {
				t.Fatalf("status %d", got.status)
			}
			r.want(r.post("/v1/payment_intents", "k1", good), 200, "status", "succeeded")
			b := r.Books()
			if len(b.Payments) != 1 || len(b.Unplaced) != 1 || b.Unplaced[0] != (CallBooks{Op: "authorize", Key: "k1", Status: first.status}) {
				t.Errorf("books %+v", b)
			}
		})
	}
}

// What was done is kept, though nobody heard of it.
func TestDroppedAnswerIsKept(t *testing.T) {
	r := newRig(t, nil)
	if got := r.post("/v1/payment_intents", "k1", form("pm_ok_drop", "automatic", "att_1")); got.status != 0 {
		t.Fatalf("an answer came: %d", got.status)
	}
	r.want(r.post("/v1/payment_intents", "k1", form("pm_ok_drop", "automatic", "att_1")), 200, "status", "succeeded", "amount_received", "1000")
	if p := r.Books().Payments; len(p) != 1 || p[0].Charges != 1 {
		t.Errorf("books %+v", p)
	}
}

// After a day the key is forgotten and executes anew: the trap that a late re-send falls into.
func TestKeyIsForgottenAfterADay(t *testing.T) {
	r := newRig(t, nil)
	r.create("pm_ok", "automatic", "att_1")
	r.advance(24*time.Hour - time.Second)
	r.want(r.post("/v1/payment_intents", "att_1", form("pm_ok", "automatic", "att_1")), 200)
	if n := len(r.Books().Payments); n != 1 {
		t.Fatalf("%d payments within the day", n)
	}
	r.advance(time.Second)
	r.want(r.post("/v1/payment_intents", "att_1", form("pm_ok", "automatic", "att_1")), 200)
	if n := len(r.Books().Payments); n != 2 {
		t.Errorf("%d payments after it", n)
	}
}

// Fifty copies of one request at once: one charge, every answer the same or "in flight".
func TestC001FiftyCopies(t *testing.T) {
	r := newRig(t, nil)
	answers := make([]reply, 50)
	var running sync.WaitGroup
	for i := range answers {
		running.Go(func() { answers[i] = r.post("/v1/payment_intents", "k1", form("pm_ok", "automatic", "att_1")) })
	}
	running.Wait()
	for _, a := range answers {
		if a.status != http.StatusOK && a.status != http.StatusConflict {
			t.Errorf("status %d", a.status)
		}
	}
	if p := r.Books().Payments; len(p) != 1 || p[0].Charges != 1 {
		t.Errorf("books %+v", p)
	}
}
