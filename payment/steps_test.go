package payment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter/adyen"
	"paygrid/psprouter/simulator"
	"paygrid/psprouter/stripe"
	"paygrid/shard"
)

// step does one thing, drawn from the seed.
func (w *world) step() {
	switch n := w.random.IntN(100); {
	case n < 14 && w.opened < 4, w.opened == 0:
		w.authorize()
	case n < 26:
		w.again()
	case n < 40:
		w.captureVoidOrRefund()
	case n < 43:
		w.confirm()
	case n < 58:
		w.resolve()
	case n < 70:
		w.deliver()
	case n < 80:
		w.applyNotices()
	case n < 83:
		w.ledger()
	case n < 90:
		w.settleAtPSP()
	case n < 92:
		w.outage()
	case n < 94:
		w.release()
	case n < 97:
		w.comesLate()
	default:
		w.wait()
	}
}

var worldTokens = []string{"pm_ok", "pm_ok", "pm_ok", "pm_ok", "pm_ok", "pm_ok", "pm_decline", "pm_3ds", "pm_pending", "pm_503", "pm_never", "pm_ok_drop",
	"pm_500_charged", "pm_timeout_charged", "pm_ok_capture_drop", "pm_ok_refund_pending", "pm_ok_capture_decline", "pm_ok_void_drop"}

// authorize opens a payment.
func (w *world) authorize() {
	w.opened++
	c := p10(fmt.Sprintf("k-%d", w.opened), "", []CaptureMode{Manual, Automatic}[w.random.IntN(2)])
	token := func() string { return worldTokens[w.random.IntN(len(worldTokens))] }
	c.Method.Tokens = map[string]string{}
	which := w.random.IntN(3)
	if which != 1 {
		c.Method.Tokens[stripe.Name] = token()
	}
	if which != 0 {
		c.Method.Tokens[adyen.Name] = token()
	}
	w.give(&request{name: fmt.Sprintf("authorize %s %s %v", c.Key, c.CaptureMode, c.Method.Tokens), kind: "authorize",
		give: func(ctx context.Context) (Answer, error) { return w.service.Authorize(ctx, c) }})
}

// give sends a request as a client does; the client may have gone when the answer comes.
func (w *world) give(r *request) {
	w.asked = append(w.asked, r)
	w.send(r)
}

// again repeats a request: a client that heard nothing, or clicks twice.
func (w *world) again() {
	if len(w.asked) == 0 {
		return
	}
	w.send(w.asked[w.random.IntN(len(w.asked))])
}

func (w *world) send(r *request) {
	w.note("%s", r.name)
	w.process(func(ctx context.Context) {
		answer, err := r.give(ctx)
		w.hears(r, answer, err)
	})
}

// hears holds that a key has one final answer, the same bytes for ever.
func (w *world) hears(r *request, answer Answer, err error) {
	if err != nil {
		var refused *Error
		if !errors.As(err, &refused) && !errors.Is(err, context.Canceled) && !errors.Is(err, shard.ErrUnavailable) && !errors.Is(err, shard.ErrInDoubt) {
			w.wrong("%s: %v", r.name, err)
		}
		w.note("… %v", err)
		return
	}
	w.note("… %s", answer.Kind)
	r.id = answer.PaymentID
	switch {
	case answer.Kind == KindProcessing:
	case r.first == nil:
		r.first = &answer
	case r.first.Kind != answer.Kind || !bytes.Equal(r.first.Body, answer.Body):
		w.wrong("%s was answered %s %s, and now %s %s", r.name, r.first.Kind, r.first.Body, answer.Kind, answer.Body)
	}
}

// somePayment is a payment whose client has heard of it.
func (w *world) somePayment() string {
	var ids []string
	for _, r := range w.asked {
		if r.kind == "authorize" && r.id != "" {
			ids = append(ids, r.id)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return ids[w.random.IntN(len(ids))]
}

func (w *world) captureVoidOrRefund() {
	id := w.somePayment()
	if id == "" {
		return
	}
	key := fmt.Sprintf("l-%d", len(w.asked))
	var amount *ledger.Money
	if w.random.IntN(2) == 0 {
		amount = eur([]int64{1, 2500, 5000, 10000}[w.random.IntN(4)])
	}
	r := &request{kind: "later"}
	switch w.random.IntN(5) {
	case 0, 1:
		r.name = fmt.Sprintf("capture %s of %s: %v", key, id, amount)
		r.give = func(ctx context.Context) (Answer, error) {
			return w.service.Capture(ctx, CaptureCommand{Client: "tk_shop_a", Key: key, PaymentID: id, Amount: amount})
		}
	case 2:
		r.name = fmt.Sprintf("void %s of %s", key, id)
		r.give = func(ctx context.Context) (Answer, error) {
			return w.service.Void(ctx, VoidCommand{Client: "tk_shop_a", Key: key, PaymentID: id})
		}
	default:
		r.name = fmt.Sprintf("refund %s of %s: %v", key, id, amount)
		r.give = func(ctx context.Context) (Answer, error) {
			return w.service.Refund(ctx, RefundCommand{Client: "tk_shop_a", Key: key, PaymentID: id, Amount: amount})
		}
	}
	w.give(r)
}

func (w *world) confirm() {
	id := w.somePayment()
	if id == "" {
		return
	}
	w.note("confirm %s", id)
	w.process(func(ctx context.Context) {
		_, err := w.service.Confirm(ctx, ConfirmCommand{Client: "tk_shop_a", PaymentID: id})
		w.note("… %v", err)
	})
}

// resolve asks about one attempt on each shard.
func (w *world) resolve() int {
	asked := 0
	for _, name := range w.store.ShardNames() {
		w.process(func(ctx context.Context) {
			n, err := w.service.ResolveOn(ctx, name, "w")
			asked += n
			w.noteIf(n, "resolver on %s", name)
			w.judge("resolver", err)
		})
	}
	return asked
}

// judge takes errors that shards cause for what they are; others are wrong.
func (w *world) judge(who string, err error) {
	if err == nil {
		return
	}
	w.note("… %v", err)
	if !errors.Is(err, shard.ErrUnavailable) && !errors.Is(err, shard.ErrInDoubt) && !errors.Is(err, context.Canceled) {
		w.wrong("%s: %v", who, err)
	}
}

func (w *world) applyNotices() int {
	looked := 0
	for _, name := range w.store.ShardNames() {
		w.process(func(ctx context.Context) {
			n, err := w.service.ApplyNoticesOn(ctx, name, "w")
			looked += n
			w.noteIf(n, "inbox of %s", name)
			w.judge("inbox", err)
		})
	}
	return looked
}

// deliver lets the PSPs' notices that are due arrive.
func (w *world) deliver() int {
	n := 0
	for _, name := range []string{adyen.Name, stripe.Name} {
		n += w.psps[name].Deliver(w.ctx)
	}
	w.noteIf(n, "notices leave")
	return n
}

func (w *world) ledger() {
	for _, name := range w.store.ShardNames() {
		w.process(func(ctx context.Context) {
			n, err := w.service.keepLedgerOn(ctx, name)
			w.noteIf(n, "payments of %s run out", name)
			w.judge("ledger", err)
			_, err = w.store.RollUp(ctx, name)
			w.judge("roll-ups", err)
		})
	}
}

// settleAtPSP ends something that waits at a PSP, or takes something back.
func (w *world) settleAtPSP() {
	name := []string{adyen.Name, stripe.Name}[w.random.IntN(2)]
	open, standing := w.openAt(name)
	switch {
	case len(open) > 0:
		id, ok := open[w.random.IntN(len(open))], w.random.IntN(3) > 0
		w.note("%s settles %s: %t, done: %t", name, id, ok, w.psps[name].Settle(id, ok))
	case len(standing) > 0 && w.random.IntN(4) == 0:
		id := standing[w.random.IntN(len(standing))]
		w.note("%s takes %s back: %t", name, id, w.psps[name].Reverse(id))
	}
}

func (w *world) outage() {
	name := []string{adyen.Name, stripe.Name}[w.random.IntN(2)]
	mode := []simulator.OutageMode{simulator.Outage503, simulator.OutageReset, simulator.OutageTimeout, simulator.OutageRefuse}[w.random.IntN(4)]
	for_ := time.Duration(1+w.random.IntN(600)) * time.Second
	w.note("%s is down for %v: %s, %v", name, for_, mode, w.psps[name].Outage(for_, mode))
}

// comesLate is a call that the PSP takes and does not show for so long that the resolver thinks it absent.
func (w *world) comesLate() {
	w.fault = "hidden_600s"
	if w.opened < 4 && w.random.IntN(2) == 0 {
		w.authorize()
	} else {
		w.captureVoidOrRefund()
	}
	w.fault = ""
	for _, d := range []time.Duration{6 * time.Minute, firstRecheck + time.Second} {
		w.clock.pass(d)
		w.resolve()
	}
}

func (w *world) release() {
	if w.model != nil {
		w.note("late commits arrive")
		w.model.Release()
	}
}

func (w *world) wait() {
	unit := []time.Duration{time.Second, time.Minute, time.Minute, time.Hour}[w.random.IntN(4)]
	if w.random.IntN(40) == 0 {
		unit = 24 * time.Hour
	}
	d := time.Duration(1+w.random.IntN(20)) * unit / 2
	w.clock.pass(d)
	w.note("%v pass", d)
}
