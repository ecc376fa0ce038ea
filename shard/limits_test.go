package shard_test

import (
	"context"
	"reflect"
	"sync"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/shard"
)

// endless are the calls that no call's limit ends: the first two read whole tables, the others only the map.
var endless = map[string]bool{"Walk": true, "WrongSums": true, "Reload": true, "Watch": true}

// TestEveryCallEnds: a database that was lost without a word holds nobody who brings no time limit of their own.
func TestEveryCallEnds(t *testing.T) {
	layout, p := through(t, databases.Layout(t, 1))
	b := on(t, layout, shard.Options{Readers: 64, StatementTimeout: 300 * time.Millisecond, CallTimeout: time.Second})
	calls := callsOf(t, b)
	withContext := reflect.TypeFor[context.Context]()
	cluster := reflect.TypeFor[*shard.Cluster]()
	for n := range cluster.NumMethod() {
		m := cluster.Method(n)
		if m.Type.NumIn() > 1 && m.Type.In(1) == withContext && calls[m.Name] == nil && !endless[m.Name] {
			t.Errorf("%s is not among the calls that are tried", m.Name)
		}
	}
	for _, marker := range []string{"FROM", "INSERT", "UPDATE", "-- ping"} {
		p.add(marker, holdAnswer, 10_000)
	}
	var running sync.WaitGroup
	defer running.Wait()
	for name, call := range calls {
		running.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
			defer cancel()
			if err := call(ctx); err == nil || ctx.Err() != nil {
				t.Errorf("%s was ended by its caller: %v, told %v", name, ctx.Err(), err)
			}
		})
	}
}

// callsOf are all calls that reach a database, each with arguments that make it do so.
func callsOf(t *testing.T, b bench) map[string]func(context.Context) error {
	const name = "shard-1"
	at, o := now(), opening("shop", "lost")
	pay, attempt := o.Payment.ID, o.Attempt.ID
	change := capture(t, o)
	approval := shard.NewID(shard.ApprovalPrefix, 1, at)
	fence, log := shard.Fence{Lease: "relay", Owner: "me", Token: 1}, []shard.Stretch{{Bucket: 1, Through: 1}}
	return map[string]func(context.Context) error{
		"Begin": func(ctx context.Context) error { return b.Begin(ctx, o) },
		"Apply": func(ctx context.Context) error { return b.Apply(ctx, change) },
		"PutInbox": func(ctx context.Context) error {
			return second(b.PutInbox(ctx, shard.InboxItem{PSP: "stripe", EventID: "e"}, at))
		},
		"Find":             func(ctx context.Context) error { return second(b.Find(ctx, pay, shard.KeyRef{})) },
		"Snapshot":         func(ctx context.Context) error { return second(b.Snapshot(ctx, pay)) },
		"Snapshots":        func(ctx context.Context) error { return second(b.Snapshots(ctx, name, []string{attempt})) },
		"OpeningKey":       func(ctx context.Context) error { return second(b.OpeningKey(ctx, "shop", "lost")) },
		"PaymentsOfOrder":  func(ctx context.Context) error { return second(b.PaymentsOfOrder(ctx, "shop", "lost")) },
		"Entries":          func(ctx context.Context) error { return second(b.Entries(ctx, pay)) },
		"Events":           func(ctx context.Context) error { return second(b.Events(ctx, pay)) },
		"PaymentOfAttempt": func(ctx context.Context) error { return second(b.PaymentOfAttempt(ctx, attempt)) },
		"AttemptsByRef":    func(ctx context.Context) error { return second(b.AttemptsByRef(ctx, "stripe", "r")) },
		"PendingAttempts":  func(ctx context.Context) error { return second(b.PendingAttempts(ctx, name, at, 1)) },
		"PendingCount":     func(ctx context.Context) error { return third(b.PendingCount(ctx, name, at)) },
		"Expired":          func(ctx context.Context) error { return second(b.Expired(ctx, name, at, 1)) },
		"ClaimAttempts":    func(ctx context.Context) error { return second(b.ClaimAttempts(ctx, name, "me", at, at, 1)) },
		"Reschedule": func(ctx context.Context) error {
			return second(b.Reschedule(ctx, name, "me", []shard.Recheck{{AttemptID: attempt}}))
		},
		"ClaimInbox": func(ctx context.Context) error { return second(b.ClaimInbox(ctx, name, "me", at, at, 1)) },
		"CloseInbox": func(ctx context.Context) error {
			return second(b.CloseInbox(ctx, name, "me", []shard.InboxEnd{{}}, at))
		},
		"Inbox":    func(ctx context.Context) error { return second(b.Inbox(ctx, name, shard.InboxMisfit, 1)) },
		"InboxLag": func(ctx context.Context) error { return third(b.InboxLag(ctx, name)) },
		"InboxOf":  func(ctx context.Context) error { return second(b.InboxOf(ctx, []string{attempt})) },
		"Lease":    func(ctx context.Context) error { return third(b.Lease(ctx, name, "relay", "me", time.Minute)) },
		"Unsent":   func(ctx context.Context) error { return second(b.Unsent(ctx, name)) },
		"Heads":    func(ctx context.Context) error { return second(b.Heads(ctx, name)) },
		"Cursors":  func(ctx context.Context) error { return second(b.Cursors(ctx, name, []shard.Bucket{1})) },
		"Outbox":   func(ctx context.Context) error { return second(b.Outbox(ctx, name, log, 1)) },
		"Advance":  func(ctx context.Context) error { return b.Advance(ctx, name, fence, log) },
		"PruneOutbox": func(ctx context.Context) error {
			return second(b.PruneOutbox(ctx, name, fence, []shard.Bucket{1}, 1, at))
		},
		"RelayLag": func(ctx context.Context) error { return third(b.RelayLag(ctx, name)) },
		"Hold": func(ctx context.Context) error {
			return b.Hold(ctx, name, fence, []shard.ParkedPayment{{PaymentID: pay}})
		},
		"DueParked": func(ctx context.Context) error { return second(b.DueParked(ctx, name, at, 1)) },
		"Parked":    func(ctx context.Context) error { return second(b.Parked(ctx, name, 1)) },
		"HeldEvents": func(ctx context.Context) error {
			return second(b.HeldEvents(ctx, name, shard.ParkedPayment{PaymentID: pay}, 1, 1, 1))
		},
		"Redrive": func(ctx context.Context) error { return b.Redrive(ctx, pay) },
		"RequestApproval": func(ctx context.Context) error {
			return b.RequestApproval(ctx, shard.Approval{ID: approval, RequestedAt: at})
		},
		"DecideApproval": func(ctx context.Context) error { return second(b.DecideApproval(ctx, approval, "bob", true, at)) },
		"Approval":       func(ctx context.Context) error { return second(b.Approval(ctx, approval)) },
		"OpenApprovals":  func(ctx context.Context) error { return second(b.OpenApprovals(ctx, name, 1)) },
		"SetSwitch":      func(ctx context.Context) error { return b.SetSwitch(ctx, shard.Switch{PSP: "stripe", At: at}) },
		"Switches":       func(ctx context.Context) error { return second(b.Switches(ctx)) },
		"Balance":        func(ctx context.Context) error { return second(b.Balance(ctx, ledger.CommissionRevenue, "EUR")) },
		"RollUp":         func(ctx context.Context) error { return second(b.RollUp(ctx, name)) },
		"Ping":           func(ctx context.Context) error { return b.Ping(ctx) },
		"PingAny":        func(ctx context.Context) error { return b.PingAny(ctx) },
	}
}

func second[A any](_ A, err error) error { return err }

func third[A, B any](_ A, _ B, err error) error { return err }
