package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/payment"
	"paygrid/shard"
	"paygrid/shard/model"
	"paygrid/shard/shardtest"
)

var databases shardtest.Databases

func TestMain(m *testing.M) { os.Exit(databases.Main(m)) }

// store is what the two are compared by.
type store interface {
	payment.Store
	payment.Books
	Events(ctx context.Context, paymentID string) ([]shard.PostedEvent, error)
	PendingAttempts(ctx context.Context, shardName string, sentBefore time.Time, limit int) ([]shard.PendingAttempt, error)
	Inbox(ctx context.Context, shardName string, state shard.Status, limit int) ([]shard.InboxItem, error)
	Balance(ctx context.Context, account ledger.Account, currency ledger.Currency) (shard.Balance, error)
}

var (
	_ store = (*shard.Cluster)(nil)
	_ store = (*model.Store)(nil)
)

// twins are a cluster and its model, which are given the same commands.
type twins struct {
	ctx        context.Context
	random     *rand.Rand
	mu         sync.Mutex // of now, which the lanes read too
	now        time.Time
	real, spec store
	layout     shardtest.Layout
	openings   []shard.Opening
	changes    []shard.Change
	items      []shard.InboxItem
	found      string // the first difference
	no         int
	kinds      map[string]bool // command and kind of error, as far as they came
}

func newTwins(t *testing.T, seed uint64, o shard.Options, without ...model.Rule) *twins {
	t.Helper()
	w := &twins{ctx: context.Background(), random: rand.New(rand.NewPCG(seed, 0xd1ff)), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		kinds: map[string]bool{}}
	clock := func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.now
	}
	layout := databases.Layout(t, 2)
	o.Now = clock
	w.layout, w.real = layout, layout.Open(t, o)
	spec, err := model.New(model.Options{Shards: layout.Names, Now: clock, Without: without})
	if err != nil {
		t.Fatal(err)
	}
	w.spec = spec
	return w
}

// answer is what a call gave: its value, and what kind of error.
type answer struct {
	Value any
	Error string
}

func give(value any, err error) answer { return answer{plain(reflect.ValueOf(value)), kindOf(err)} }

// kindOf names the kind of an error, by which callers decide.
func kindOf(err error) string {
	var refused *shard.RefusedError
	var invariant *shard.InvariantError
	var id *shard.IDError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return "refused " + refused.SQLState
	case errors.As(err, &invariant):
		return "invariant " + invariant.Invariant
	}
	for _, sentinel := range []error{shard.ErrConflict, shard.ErrNotFound, shard.ErrNoOwner, shard.ErrUnavailable, shard.ErrInDoubt} {
		if errors.Is(err, sentinel) {
			return sentinel.Error()
		}
	}
	if errors.As(err, &id) {
		return "no ID"
	}
	return err.Error()
}

// plain is a value without what has no meaning: the zones of times, empty and missing lists, the spaces in JSON.
func plain(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	switch x := v.Interface().(type) {
	case time.Time:
		return x.UTC().Format(time.RFC3339Nano)
	case json.RawMessage:
		var any any
		_ = json.Unmarshal(x, &any) // no JSON is nil on both sides
		return any
	case fmt.Stringer:
		return x.String()
	}
	switch v.Kind() {
	case reflect.Pointer:
		return plain(v.Elem())
	case reflect.Slice:
		var list []any
		for n := range v.Len() {
			list = append(list, plain(v.Index(n)))
		}
		return list
	case reflect.Struct:
		fields := map[string]any{}
		for n := range v.NumField() {
			fields[v.Type().Field(n).Name] = plain(v.Field(n))
		}
		return fields
	}
	return v.Interface()
}

// both gives a command to both and compares their answers.
func (w *twins) both(name string, do func(s store) answer) {
	w.no++
	real, spec := do(w.real), do(w.spec)
	w.kinds[name+": "+real.Error] = true
	if w.found == "" && !reflect.DeepEqual(real, spec) {
		w.found = fmt.Sprintf("command %d, %s:\nreal  %+v\nmodel %+v", w.no, name, real, spec)
	}
}

// pass moves the clock, so that no two rows have one time.
func (w *twins) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d + time.Microsecond)
}

func (w *twins) n(n int) int { return w.random.IntN(n) }

func (w *twins) one(chance int) bool { return w.random.IntN(chance) == 0 }

// step gives one random command.
func (w *twins) step() {
	w.pass(time.Duration(w.n(3000)) * time.Millisecond)
	if len(w.openings) == 0 {
		w.begin()
		return
	}
	commands := []func(){w.begin, w.begin, w.apply, w.apply, w.apply, w.apply, w.apply, w.claimAttempts, w.putInbox, w.claimInbox, w.lease, w.reads,
		w.counts, w.rollUp, w.balance}
	commands[w.n(len(commands))]()
}

// begin opens a payment, now and then under a key, with an ID or a word that cannot be.
func (w *twins) begin() {
	o := w.opening(fmt.Sprintf("k-%d", w.n(60)))
	if w.one(4) {
		o.Payment.CaptureMode = "sometimes"
	} else if len(w.openings) > 0 && w.one(10) {
		other := w.openings[w.n(len(w.openings))]
		o = w.opening(other.Key.Key)
		o.Payment.ID = other.Payment.ID
	}
	if w.one(20) {
		o.Payment.Refunded = 1
	}
	w.both("begin", func(s store) answer { return give(nil, s.Begin(w.ctx, o)) })
	w.openings = append(w.openings, o)
}

func (w *twins) opening(key string) shard.Opening {
	b := shard.BucketOf("client", key)
	splits := []ledger.Split{{SellerID: "s-ann", Minor: 7000, CommissionMinor: 700}, {SellerID: "s-bob", Minor: 3000, CommissionMinor: 450}}
	p := shard.Payment{ID: shard.NewID(shard.PaymentPrefix, b, w.now), ClientID: "client", OrderID: fmt.Sprintf("o-%d", w.n(5)), CustomerID: "c",
		Status: "AUTH_PENDING", Version: 1, PSP: "stripe", Currency: "EUR", Authorized: 10000, CaptureMode: "manual",
		Method: json.RawMessage(`{"tokens": {"stripe": "pm_ok"}}`), Splits: splits, Parts: ledger.PartsOf(splits), ReturnURL: "https://shop.example"}
	a := shard.Attempt{ID: shard.NewID(shard.AttemptPrefix, b, w.now), Kind: "AUTHORIZE", PSP: "stripe", Amount: 10000, Status: "PENDING",
		RouteReason: "only one", NextCheckAt: w.now.Add(time.Duration(w.n(100_000)) * time.Millisecond)}
	k := shard.Key{KeyRef: shard.KeyRef{ClientID: "client", Scope: "payments", Key: key}, PaymentID: p.ID, SubjectID: a.ID}
	return shard.Opening{Payment: p, Attempt: a, Key: k, Event: shard.Event{Type: "opened", Payload: json.RawMessage(`{"a":1}`)}, At: w.now}
}

// apply moves a payment as it was read, and now and then as it was not.
func (w *twins) apply() {
	o := w.openings[w.n(len(w.openings))]
	found, err := w.spec.Find(w.ctx, o.Payment.ID, shard.KeyRef{})
	if err != nil || found.Missing {
		return
	}
	c := w.change(found.Snapshot, o)
	if len(w.changes) > 0 && w.one(8) {
		c = w.changes[w.n(len(w.changes))] // decided on what is no more
	}
	w.both("apply", func(s store) answer { return give(nil, s.Apply(w.ctx, c)) })
	w.changes = append(w.changes, c)
}

func (w *twins) change(s shard.Snapshot, o shard.Opening) shard.Change {
	states := []shard.Status{"AUTH_PENDING", "AUTHORIZED", "REQUIRES_ACTION", "CAPTURED", "DECLINED", "CAPTURE_PENDING", "VOIDED", "CAPTURE_FAILED"}
	c := shard.Change{From: s.Payment.Status, Payment: s.Payment, At: w.now, Event: shard.Event{Type: "moved", Payload: json.RawMessage(`[1, 2]`)}}
	c.Payment.Version++
	c.Payment.Status = states[w.n(len(states))]
	c.Payment.ExpiresAt = w.now.Add(time.Duration(w.n(100_000)-50_000) * time.Millisecond)
	c.Payment.PSPRef, c.Payment.Failure = fmt.Sprintf("pi_%d", w.n(4)), "why not"
	b, _ := shard.BucketOfID(shard.PaymentPrefix, s.Payment.ID)
	w.attempts(&c, s, b)
	w.captures(&c, s)
	if w.one(3) {
		k := shard.Key{KeyRef: o.Key.KeyRef, PaymentID: s.Payment.ID, SubjectID: o.Attempt.ID}
		if w.one(2) {
			k.Scope = "capture:" + s.Payment.ID
		}
		if w.one(2) {
			k.AnswerKind, k.Answer = "CAPTURED", fmt.Appendf(nil, `{"n":%d}`, w.n(100))
		}
		c.Keys = append(c.Keys, k)
	}
	if w.one(4) {
		c.Refunds = append(c.Refunds, shard.Refund{ID: shard.NewID(shard.RefundPrefix, b, w.now), AttemptID: o.Attempt.ID, Amount: int64(w.n(500)),
			Status: "PENDING", Shares: []ledger.Share{{Account: ledger.SellerPayable("s-ann"), Minor: 1}}})
	}
	w.spoil(&c)
	return c
}

func (w *twins) attempts(c *shard.Change, s shard.Snapshot, b shard.Bucket) {
	if len(s.Attempts) > 0 && w.one(2) {
		a := s.Attempts[w.n(len(s.Attempts))]
		a.Status, a.Outcome, a.PSPRef = []shard.Status{"PENDING", "SUCCEEDED", "FAILED", "NOT_SENT"}[w.n(4)], "APPROVED", c.Payment.PSPRef
		c.Attempts = append(c.Attempts, a)
	}
	if w.one(3) {
		c.Attempts = append(c.Attempts, shard.Attempt{ID: shard.NewID(shard.AttemptPrefix, b, w.now), Kind: "CAPTURE", PSP: "stripe",
			Amount: int64(w.n(1000)), Status: "PENDING", SentAt: w.now, NextCheckAt: w.now.Add(time.Duration(w.n(100_000)) * time.Millisecond)})
	}
}

// captures posts an entry, or the reversal of one.
func (w *twins) captures(c *shard.Change, s shard.Snapshot) {
	if w.one(2) {
		return
	}
	minor := int64(1 + w.n(6000))
	parts, shares, err := s.Payment.Parts.Capture(minor)
	if err != nil {
		return
	}
	entry, err := ledger.Capture(s.Payment.ID+fmt.Sprint(w.n(4)), "stripe", "EUR", shares)
	if err != nil {
		return
	}
	if w.one(3) {
		if entry, err = entry.Reversal(fmt.Sprintf("reversal:%d:%s", w.n(3), entry.ID), "in error", "u-kim"); err != nil {
			return
		}
	}
	c.Payment.Captured, c.Payment.Parts, c.Entry = s.Payment.Captured+minor, parts, &entry
}

// spoil breaks one thing of a change, now and then.
func (w *twins) spoil(c *shard.Change) {
	if !w.one(4) {
		return
	}
	switch w.n(7) {
	case 0:
		c.Payment.Version++
	case 1:
		c.From = "NEVER"
	case 2:
		c.Payment.Authorized *= 2
		c.Payment.Captured = c.Payment.Authorized // beyond what is stored
	case 3:
		c.Payment.Status = "UNHEARD_OF"
	case 4:
		c.Event.Payload = json.RawMessage(`{`)
	case 5:
		if len(c.Attempts) > 0 { // alone: of two faults, such as an entry's ID that is taken, a database names the one that it likes
			c.Entry, c.Attempts = nil, append(c.Attempts, c.Attempts...)
		}
	case 6:
		c.Payment.Refunding = c.Payment.Captured + 1
	}
}

func (w *twins) claimAttempts() {
	name, owner, limit := w.shard(), fmt.Sprintf("w-%d", w.n(2)), 1+w.n(30)
	var claimed []shard.Due
	w.both("claim attempts", func(s store) answer {
		due, err := s.ClaimAttempts(w.ctx, name, owner, w.now, w.now.Add(10*time.Second), limit)
		slices.SortFunc(due, func(x, y shard.Due) int { return x.SentAt.Compare(y.SentAt) })
		claimed = due
		return give(due, err)
	})
	var rechecks []shard.Recheck
	for _, d := range claimed {
		if w.one(3) {
			continue
		}
		w.pass(0)
		rechecks = append(rechecks, shard.Recheck{AttemptID: d.AttemptID, Absent: d.Absent + 1, Escalated: w.one(2), Detail: "asked",
			NextAt: w.now.Add(time.Duration(w.n(40_000)) * time.Millisecond)})
	}
	if w.one(20) {
		rechecks = append(rechecks, shard.Recheck{AttemptID: "no ID"})
	}
	w.givesBack(&name, &owner)
	w.both("reschedule", func(s store) answer { return w.told("reschedule")(s.Reschedule(w.ctx, name, owner, rechecks)) })
}

// givesBack lets somebody else give back what was claimed, or to another shard, now and then.
func (w *twins) givesBack(shardName, owner *string) {
	if w.one(5) {
		*owner = "somebody else"
	}
	if w.one(10) {
		*shardName = w.shard()
	}
}

// told notes whether anything was given back, and whether anything was not.
func (w *twins) told(command string) func([]bool, error) answer {
	return func(given []bool, err error) answer {
		for _, done := range given {
			w.kinds[fmt.Sprintf("%s: %t", command, done)] = true
		}
		return give(given, err)
	}
}

func (w *twins) putInbox() {
	item := shard.InboxItem{Bucket: shard.Bucket(w.n(shard.Buckets)), PSP: "stripe", EventID: fmt.Sprintf("evt_%d", w.n(1000)), Kind: "k",
		AttemptID: "att", Reference: "pi_1", Original: "o", Raw: []byte{0, 1}}
	if len(w.items) > 0 && w.one(3) {
		item = w.items[w.n(len(w.items))]
	}
	if w.one(20) {
		item.Bucket = shard.Buckets
	}
	w.both("put inbox", func(s store) answer { return give(s.PutInbox(w.ctx, item, w.now)) })
	w.items = append(w.items, item)
}

func (w *twins) claimInbox() {
	name, owner, limit := w.shard(), fmt.Sprintf("w-%d", w.n(2)), 1+w.n(30)
	var claimed []shard.InboxItem
	w.both("claim inbox", func(s store) answer {
		items, err := s.ClaimInbox(w.ctx, name, owner, w.now, w.now.Add(10*time.Second), limit)
		claimed = items
		return give(items, err)
	})
	var ends []shard.InboxEnd
	for _, item := range claimed {
		if w.one(5) {
			continue
		}
		ends = append(ends, shard.InboxEnd{InboxKey: shard.InboxKey{Bucket: item.Bucket, PSP: item.PSP, EventID: item.EventID},
			State:  []shard.Status{shard.InboxNew, shard.InboxUnmatched, shard.InboxApplied, shard.InboxMisfit}[w.n(4)],
			Reason: "because", NextTryAt: w.now.Add(time.Duration(w.n(30_000)) * time.Millisecond)})
	}
	if len(w.items) > 0 && w.one(4) { // nobody claimed it, or it is among them already
		item := w.items[w.n(len(w.items))]
		ends = append(ends, shard.InboxEnd{InboxKey: shard.InboxKey{Bucket: item.Bucket % shard.Buckets, PSP: item.PSP, EventID: item.EventID + "0"},
			State: shard.InboxApplied})
	}
	w.givesBack(&name, &owner)
	w.both("close inbox", func(s store) answer { return w.told("close inbox")(s.CloseInbox(w.ctx, name, owner, ends, w.now)) })
}

func (w *twins) shard() string { return []string{"shard-1", "shard-2", "shard-2", "shard-9"}[w.n(4)] }

func (w *twins) lease() {
	name, owner, ttl := w.shard(), fmt.Sprintf("w-%d", w.n(3)), time.Duration(w.n(9))*time.Second
	w.both("lease", func(s store) answer {
		token, held, err := s.Lease(w.ctx, name, "job", owner, ttl)
		return give([]any{token, held}, err)
	})
}

func (w *twins) reads() {
	o := w.openings[w.n(len(w.openings))]
	id, attempt := o.Payment.ID, o.Attempt.ID
	if w.one(6) {
		id, attempt = shard.NewID(shard.PaymentPrefix, 7, w.now), "no ID"
	}
	w.both("find", func(s store) answer { return give(s.Find(w.ctx, id, o.Key.KeyRef)) })
	w.both("snapshot", func(s store) answer { return give(s.Snapshot(w.ctx, id)) })
	w.snapshots(attempt)
	w.both("opening key", func(s store) answer { return give(s.OpeningKey(w.ctx, "client", o.Key.Key)) })
	w.both("by order", func(s store) answer { return give(s.PaymentsOfOrder(w.ctx, "client", o.Payment.OrderID)) })
	w.both("entries", func(s store) answer { return give(s.Entries(w.ctx, id)) })
	w.both("events", func(s store) answer { return give(s.Events(w.ctx, id)) })
	w.both("payment of attempt", func(s store) answer { return give(s.PaymentOfAttempt(w.ctx, attempt)) })
	w.both("by reference", func(s store) answer { return give(s.AttemptsByRef(w.ctx, "stripe", "pi_1")) })
}

// snapshots asks one shard for several attempts at once, some of which it does not have.
func (w *twins) snapshots(attempt string) {
	name, ids := w.shard(), []string{attempt, shard.NewID(shard.AttemptPrefix, 7, w.now), "no ID"}
	for range w.n(5) {
		ids = append(ids, w.openings[w.n(len(w.openings))].Attempt.ID)
	}
	w.both("snapshots", func(s store) answer {
		found, err := s.Snapshots(w.ctx, name, ids)
		var list []any
		for _, id := range slices.Sorted(maps.Keys(found)) {
			list = append(list, id, plain(reflect.ValueOf(found[id])))
		}
		return give(list, err)
	})
}

func (w *twins) counts() {
	name, before, limit := w.shard(), w.now.Add(-time.Duration(w.n(60))*time.Second), 1+w.n(50)
	w.both("expired", func(s store) answer { return give(s.Expired(w.ctx, name, w.now, limit)) })
	w.both("pending count", func(s store) answer {
		n, oldest, err := s.PendingCount(w.ctx, name, before)
		return give([]any{n, oldest}, err)
	})
	w.both("pending attempts", func(s store) answer { return give(s.PendingAttempts(w.ctx, name, before, limit)) })
	w.both("inbox lag", func(s store) answer {
		n, oldest, err := s.InboxLag(w.ctx, name)
		return give([]any{n, oldest}, err)
	})
	for _, state := range []shard.Status{shard.InboxUnmatched, shard.InboxMisfit, shard.InboxNew} {
		w.both("inbox", func(s store) answer { return give(s.Inbox(w.ctx, name, state, limit)) })
	}
}

func (w *twins) rollUp() {
	name := w.shard()
	w.both("roll up", func(s store) answer { return give(s.RollUp(w.ctx, name)) })
}

func (w *twins) balance() {
	accounts := []ledger.Account{ledger.PSPReceivable("stripe"), ledger.SellerPayable("s-ann"), ledger.CommissionRevenue, ledger.Suspense("stripe")}
	account := accounts[w.n(len(accounts))]
	w.both("balance", func(s store) answer { return give(s.Balance(w.ctx, account, "EUR")) })
}

// rows compares every row of every shard.
func (w *twins) rows() {
	for _, name := range w.spec.ShardNames() {
		w.both("rows of "+name, func(s store) answer {
			var spans []shard.Span
			err := s.Walk(w.ctx, name, func(span shard.Span) error {
				spans = append(spans, span)
				return nil
			})
			return give(spans, err)
		})
		w.both("sums of "+name, func(s store) answer { return give(s.WrongSums(w.ctx, name)) })
	}
}

// play gives commands until one is answered differently.
func (w *twins) play(commands int) {
	for w.no < commands && w.found == "" {
		w.step()
	}
	w.rows()
}

// The model and the databases give the same answers to the same commands and hold the same rows, in both isolation levels.
func TestModelAndDatabasesAgree(t *testing.T) {
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for name, serializable := range map[string]bool{"read committed": false, "serializable": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kinds := map[string]bool{}
			for seed := range seeds {
				w := newTwins(t, seed, shard.Options{Serializable: serializable})
				if w.play(1000); w.found != "" {
					t.Fatalf("seed %d: %s", seed, w.found)
				}
				maps.Copy(kinds, w.kinds)
			}
			wantKinds(t, kinds)
		})
	}
}

// wantKinds holds that the commands met what they can meet.
func wantKinds(t *testing.T, kinds map[string]bool) {
	t.Helper()
	for _, kind := range []string{"begin: ", "begin: " + shard.ErrConflict.Error(), "begin: refused 23514", "begin: invariant P1", "apply: ",
		"apply: " + shard.ErrConflict.Error(), "apply: refused 23505", "apply: refused 23514", "apply: refused 21000", "apply: refused 22P02",
		"apply: invariant P1", "reschedule: true", "reschedule: false", "reschedule: no ID",
		"reschedule: " + shard.ErrNotFound.Error(), "close inbox: true", "close inbox: false", "close inbox: " + shard.ErrNotFound.Error(), "snapshots: ",
		"snapshot: " + shard.ErrNotFound.Error(), "lease: " + shard.ErrNotFound.Error()} {
		if !kinds[kind] {
			t.Errorf("no command was answered %q", kind)
		}
	}
}

// A model that leaves a rule out is told from the databases.
func TestDifferenceIsFound(t *testing.T) {
	for _, rule := range []model.Rule{model.UniqueKeys, model.CompareAndSet, model.InboxKey, model.UniqueEntries, model.Atomicity} {
		w := newTwins(t, 1, shard.Options{}, rule)
		if w.play(1500); w.found == "" {
			t.Errorf("nothing was found without %q in %d commands", rule, w.no)
		}
	}
}
