package payment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"paygrid/psprouter"
	"paygrid/psprouter/stripe"
	"paygrid/shard"
)

// watched counts what background work asks of the shards, and looks in at each Apply.
type watched struct {
	Store
	mu      sync.Mutex
	calls   map[string]int
	onApply func()
}

func (w *watched) count(call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[call]++
}

func (w *watched) Apply(ctx context.Context, c shard.Change) error {
	w.count("Apply")
	if w.onApply != nil {
		w.onApply()
	}
	return w.Store.Apply(ctx, c)
}

func (w *watched) Find(ctx context.Context, paymentID string, ref shard.KeyRef) (shard.Found, error) {
	w.count("Find")
	return w.Store.Find(ctx, paymentID, ref)
}

func (w *watched) Snapshot(ctx context.Context, paymentID string) (shard.Snapshot, error) {
	w.count("Snapshot")
	return w.Store.Snapshot(ctx, paymentID)
}

func (w *watched) Snapshots(ctx context.Context, shardName string, attemptIDs []string) (map[string]shard.Snapshot, error) {
	w.count("Snapshots")
	return w.Store.Snapshots(ctx, shardName, attemptIDs)
}

func (w *watched) Entries(ctx context.Context, paymentID string) ([]shard.PostedEntry, error) {
	w.count("Entries")
	return w.Store.Entries(ctx, paymentID)
}

func (w *watched) PaymentOfAttempt(ctx context.Context, attemptID string) (string, error) {
	w.count("PaymentOfAttempt")
	return w.Store.PaymentOfAttempt(ctx, attemptID)
}

func (w *watched) AttemptsByRef(ctx context.Context, psp, reference string) ([]shard.AttemptRef, error) {
	w.count("AttemptsByRef")
	return w.Store.AttemptsByRef(ctx, psp, reference)
}

func (w *watched) ClaimInbox(ctx context.Context, shardName, owner string, now, until time.Time, limit int) ([]shard.InboxItem, error) {
	w.count("ClaimInbox")
	return w.Store.ClaimInbox(ctx, shardName, owner, now, until, limit)
}

func (w *watched) CloseInbox(ctx context.Context, shardName, owner string, ends []shard.InboxEnd, at time.Time) ([]bool, error) {
	w.count("CloseInbox")
	return w.Store.CloseInbox(ctx, shardName, owner, ends, at)
}

// watch puts a watched store between the bench's service and its shards.
func (b *bench) watch() *watched {
	w := &watched{Store: b.Service.shards, calls: map[string]int{}}
	b.Service.shards = w
	return w
}

// told stores a notice of the PSP about a payment's first attempt; each comes a second after the one before.
func (b *bench) told(kind, payment string) {
	b.t.Helper()
	b.clock.advance(time.Second)
	a := b.snapshot(payment).Attempts[0]
	bucket, err := shard.BucketOfID(shard.PaymentPrefix, payment)
	if err != nil {
		b.t.Fatal(err)
	}
	id := fmt.Sprintf("evt_%d", b.now().UnixNano())
	raw := fmt.Sprintf(`{"id":%q,"object":"event","type":%q,"created":1767225600,"data":{"object":{"id":"pi_9","reference":%q,"amount":10000,"currency":"eur"}}}`,
		id, kind, a.ID)
	item := shard.InboxItem{Bucket: bucket, PSP: stripe.Name, EventID: id, Kind: kind, AttemptID: a.ID, Reference: "pi_9", Raw: []byte(raw)}
	if stored, err := b.shards.PutInbox(b.ctx, item, b.now()); err != nil || !stored {
		b.t.Fatal(stored, err)
	}
}

// applies runs one round of the inbox on each shard, and wants to see that many notices.
func (b *bench) applies(want int) {
	b.t.Helper()
	n := 0
	for _, name := range b.layout.Names {
		some, err := b.ApplyNoticesOn(b.ctx, name, "w")
		if n += some; err != nil {
			b.t.Fatal(err)
		}
	}
	if n != want {
		b.t.Fatalf("%d notices were looked at, want %d", n, want)
	}
}

// inState counts the notices of a state on all shards.
func (b *bench) inState(state shard.Status) (n int64) {
	b.t.Helper()
	for _, name := range b.layout.Names {
		n += b.layout.Count(b.t, name, `SELECT count(*) FROM webhook_inbox WHERE state = $1`, string(state))
	}
	return n
}

// A round costs three calls, however many notices of what is known it has.
func TestKnownNoticesCostOneRead(t *testing.T) {
	isolations(t, func(t *testing.T, s setup) {
		s.shards = 1
		b := newBench(t, s)
		const payments = 40
		for n := range payments {
			id := b.authorizes(p10(fmt.Sprint("k-", n), "pm_ok", Automatic), KindCharged).PaymentID
			b.told("payment.captured", id)
		}
		w := b.watch()
		b.applies(payments)
		if want := map[string]int{"ClaimInbox": 1, "Snapshots": 1, "CloseInbox": 1}; !maps.Equal(w.calls, want) {
			t.Errorf("the round cost %v, want %v", w.calls, want)
		}
		if n := b.inState(shard.InboxApplied); n != payments {
			t.Errorf("%d notices are applied, want %d", n, payments)
		}
		b.applies(0)
		if w.calls["Snapshots"] != 1 || w.calls["CloseInbox"] != 1 {
			t.Errorf("with a round that found nothing: %v", w.calls)
		}
		b.sound()
	})
}

// Notices of one payment are applied as they came, although many are at once: an authorization, then what was captured of it
// outside. Each is decided on what the one before has made of the payment.
func TestNoticesOfAPaymentComeInOrder(t *testing.T) {
	isolations(t, func(t *testing.T, s setup) {
		b := newBench(t, s)
		const payments = 20
		var ids []string
		for n := range payments {
			id, _ := b.lost(fmt.Sprint("k-", n), Manual)
			ids = append(ids, id)
		}
		for _, kind := range []string{"payment.authorized", "payment.captured"} {
			for _, id := range ids {
				b.told(kind, id)
			}
		}
		w := b.watch()
		b.applies(2 * payments)
		for _, id := range ids {
			s := b.snapshot(id)
			if s.Payment.Status != Captured || s.Payment.Captured != 10000 || len(s.Attempts) != 2 || s.Attempts[0].Status != Succeeded {
				t.Errorf("%s is %s with attempts %+v", id, s.Payment.Status, s.Attempts)
			}
		}
		if n := b.inState(shard.InboxApplied); n != 2*payments || w.calls["Apply"] != 2*payments || w.calls["Snapshot"] != payments {
			t.Errorf("%d notices are applied, by %v", n, w.calls)
		}
		if races := b.metric("paygrid_command_races_total"); races != 0 {
			t.Errorf("they raced %d times", races)
		}
	})
}

// As many notices as may be are applied at a time, and not one more.
func TestNoticesAreAppliedSideBySide(t *testing.T) {
	b := newBench(t, setup{shards: 1})
	const payments = noticeParallel + 20
	for n := range payments {
		id, _ := b.lost(fmt.Sprint("k-", n), Automatic)
		b.told("payment.captured", id)
	}
	var now, most atomic.Int64
	full, over := make(chan struct{}), make(chan struct{})
	w := b.watch()
	w.onApply = func() { // nobody goes on before all places are taken, nor before one more had the time to come
		switch n := now.Add(1); {
		case n == noticeParallel && most.CompareAndSwap(0, n):
			select {
			case <-over:
			case <-time.After(100 * time.Millisecond):
			}
			close(full)
		case n > noticeParallel && most.CompareAndSwap(noticeParallel, n):
			close(over)
		}
		select {
		case <-full:
		case <-time.After(10 * time.Second):
		}
		now.Add(-1)
	}
	b.applies(payments)
	if most.Load() != noticeParallel {
		t.Errorf("%d notices were applied at a time, want %d", most.Load(), noticeParallel)
	}
	if n := b.inState(shard.InboxApplied); n != payments {
		t.Errorf("%d notices are applied, want %d", n, payments)
	}
	b.sound()
}

// A worker that dies closes none of the notices that it had in hand, and no other closes them for it; they are done again.
func TestNoticesOfADeadWorkerAreDoneAgain(t *testing.T) {
	for name, c := range map[string]struct {
		whole  bool // the whole process dies, not one of its goroutines
		closed int64
	}{"all of it": {true, 0}, "one goroutine": {false, noticeParallel - 1}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, setup{shards: 1})
			for n := range noticeParallel {
				id, _ := b.lost(fmt.Sprint("k-", n), Automatic)
				b.told("payment.captured", id)
			}
			var dead atomic.Bool
			b.Service.config.Pause = func(p Point) {
				caller := strings.Contains(string(debug.Stack()), "ApplyNoticesOn(")
				if p == point("webhook", stepSettled) && caller == c.whole && dead.CompareAndSwap(false, true) {
					runtime.Goexit()
				}
			}
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				_, _ = b.ApplyNoticesOn(b.ctx, "shard-1", "dying")
			}()
			<-gone
			if n := b.inState(shard.InboxApplied); !dead.Load() || n != c.closed {
				t.Errorf("%d notices are closed, want %d; somebody died: %t", n, c.closed, dead.Load())
			}
			b.applies(0) // the dead worker's leases
			b.clock.advance(noticeLease)
			b.applies(noticeParallel - int(c.closed))
			if n := b.inState(shard.InboxApplied); n != noticeParallel {
				t.Errorf("%d notices are applied in the end", n)
			}
			b.sound()
		})
	}
}

// An attempt that the PSP has accepted is left to its notice for longer than one without any answer, but it is asked about.
func TestAcceptedAttemptsWaitForTheirNotice(t *testing.T) {
	b := newBench(t, setup{shards: 1})
	accepted := b.authorizes(p10("accepted", "pm_pending", Manual), KindProcessing).PaymentID
	lost, _ := b.lost("lost", Manual)
	asked := func(after time.Duration, want int) {
		t.Helper()
		b.clock.advance(after)
		if n, err := b.ResolveOn(b.ctx, "shard-1", "w"); n != want || err != nil {
			t.Fatalf("%d asked about, %v; want %d", n, err, want)
		}
	}
	asked(checkAfter, 1) // the lost one
	if got := b.snapshot(lost).Payment.Status; got != Authorized {
		t.Errorf("the lost one is %s", got)
	}
	asked(acceptedPause(checkAfter)-checkAfter-time.Second, 0)
	asked(time.Second, 1)
	asked(acceptedPause(checkAfter)-time.Second, 0) // "accepted" once more
	asked(time.Second, 1)
	if a := b.snapshot(accepted).Attempts[0]; a.Status != Pending || a.Checks != 2 {
		t.Errorf("the accepted one is %s after %d checks", a.Status, a.Checks)
	}
}

// However often a PSP says that it accepted a call, the next check comes within the longest pause, and never before it was
// due.
func TestAcceptedPauseIsBounded(t *testing.T) {
	for _, c := range []struct {
		given time.Duration
		times int
		want  time.Duration
	}{
		{time.Minute, 1, 10 * time.Minute},
		{time.Minute, 2, longestRecheck},
		{time.Minute, 9, longestRecheck},
		{time.Hour, 1, time.Hour},
	} {
		b := authorized(t, p10("k", "pm_ok", Manual))
		id := done(t)(b.capture(t, nil, true))
		for n := range b.Attempts {
			b.Attempts[n].NextCheckAt = b.Attempts[n].SentAt.Add(c.given)
		}
		for range c.times {
			b.mustSettle(t, id, psprouter.AcceptedAs("ref"))
		}
		if a, _ := attemptOf(b.Snapshot, id); !a.NextCheckAt.Equal(b.at.Add(c.want)) {
			t.Errorf("given %v, accepted %d times: the next check is %v from now, want %v", c.given, c.times, a.NextCheckAt.Sub(b.at), c.want)
		}
	}
}

// A notice of a capture that names only the authorization, while a second capture waits for its answer: one that may be of the first
// settles nothing, is no misfit, and is known once the second has its end; one that can only be of the second settles it.
func TestNoticeOfTheFirstCaptureWhileASecondWaits(t *testing.T) {
	const early, settles, misfit = "early", "settles", "misfit"
	for name, c := range map[string]struct {
		first, second, told int64
		reference           string
		yes                 bool
		want                string
	}{
		"two equal ones, the first's reference": {5000, 5000, 5000, "ch_1", true, early},
		"two equal ones, no reference":          {5000, 5000, 5000, "", true, early},
		"two equal ones, the payment's ID":      {5000, 5000, 5000, "pi_1", true, early},
		"two equal ones, the total of both":     {5000, 5000, 10000, "ch_1", true, settles},
		"two equal ones, another reference":     {5000, 5000, 5000, "cap_2", true, settles},
		"two equal ones, one is refused":        {5000, 5000, 5000, "", false, settles},
		"the first's amount":                    {4000, 6000, 4000, "ch_1", true, early},
		"the second's amount":                   {4000, 6000, 6000, "ch_1", true, settles},
		"no amount, the first's reference":      {4000, 4000, 0, "ch_1", true, early},
		"no amount, another reference":          {4000, 4000, 0, "cap_2", true, settles},
		"nobody's amount":                       {4000, 6000, 5000, "ch_1", true, misfit},
		"the first's amount, another reference": {4000, 6000, 4000, "cap_2", true, misfit},
	} {
		for _, captured := range []bool{true, false} { // what becomes of the second
			b := authorized(t, p10("k", "pm_ok", Manual))
			b.mustSettle(t, done(t)(b.capture(t, eur(c.first), true)), psprouter.ApprovedAs("ch_1"))
			second := done(t)(b.capture(t, eur(c.second), true))
			n := psprouter.Notice{Operation: AttemptCapture, Reference: c.reference, Original: "pi_1", Outcome: psprouter.DeclinedWith("no", "no")}
			if c.yes {
				n.Outcome = psprouter.ApprovedAs(c.reference)
				n.Outcome.Captured = true
			}
			if c.told != 0 {
				n.Amount = *eur(c.told)
			}
			change, err := noticed(b.Snapshot, nil, b.Attempts[0].ID, n, noon, lifetime)
			got := settles
			if wrong := (*misfitError)(nil); errors.As(err, &wrong) {
				got = misfit
			} else if errors.Is(err, errEarly) {
				got = early
			} else if err != nil || len(change.Attempts) != 1 || change.Attempts[0].ID != second || change.Attempts[0].Status == Pending {
				t.Fatalf("%s: %+v, %v", name, change.Attempts, err)
			}
			if got != c.want {
				t.Errorf("%s: %s, want %s: %v", name, got, c.want, err)
			}
			if c.want != early {
				continue
			}
			end := psprouter.ApprovedAs("ch_1")
			if !captured {
				end = psprouter.DeclinedWith("no", "no")
			}
			b.mustSettle(t, second, end)
			if _, err := noticed(b.Snapshot, nil, b.Attempts[0].ID, n, noon, lifetime); !errors.Is(err, errClosed) {
				t.Errorf("%s: after the second has its end: %v", name, err)
			}
		}
	}
}
