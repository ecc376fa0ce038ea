package model_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"paygrid/shard"
	"paygrid/shard/model"
)

// A call that fails does nothing, all, or all of it later, as the hook says; its caller hears the same.
func TestHook(t *testing.T) {
	for _, row := range []struct {
		effect             model.Effect
		there, onceArrived bool
	}{{model.None, false, false}, {model.Done, true, true}, {model.Late, false, true}} {
		crash := model.Crash{}
		w := lone()
		store, err := model.New(model.Options{Now: func() time.Time { return noon }, Hook: func(string) model.Crash { return crash }})
		if err != nil {
			t.Fatal(err)
		}
		o := w.opening("k")
		crash = model.Crash{Err: shard.ErrInDoubt, Effect: row.effect}
		if err := store.Begin(context.Background(), o); !errors.Is(err, shard.ErrInDoubt) {
			t.Errorf("effect %d: %v", row.effect, err)
		}
		crash = model.Crash{}
		for _, want := range []bool{row.there, row.onceArrived} {
			key, err := store.OpeningKey(context.Background(), "client", "k")
			if err != nil || (key != nil) != want {
				t.Errorf("effect %d: the key is %v, %v; want it there: %t", row.effect, key, err, want)
			}
			store.Release()
		}
	}
}

// lone makes commands for a model alone.
func lone() *twins { return &twins{now: noon, random: rand.New(rand.NewPCG(1, 1))} }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A commit that arrives late meets the fence, the keys and the compare-and-set like every other.
func TestLateCommitMeetsTheKey(t *testing.T) {
	crash := model.Crash{Err: shard.ErrInDoubt, Effect: model.Late}
	store, err := model.New(model.Options{Now: func() time.Time { return noon }, Hook: func(string) model.Crash { return crash }})
	if err != nil {
		t.Fatal(err)
	}
	w, ctx := lone(), context.Background()
	_ = store.Begin(ctx, w.opening("k")) // its outcome is not known
	crash = model.Crash{}
	second := w.opening("k")
	if err := store.Begin(ctx, second); err != nil {
		t.Fatal(err)
	}
	store.Release()
	key, err := store.OpeningKey(ctx, "client", "k")
	if err != nil || key.PaymentID != second.Payment.ID {
		t.Errorf("the key belongs to %+v, %v", key, err)
	}
}

// A bucket that is frozen is written and read by nobody, in the model and in the databases.
func TestFrozenBucket(t *testing.T) {
	w := newTwins(t, 1, shard.Options{CallTimeout: time.Minute}) // the tries end before the time does, on a busy machine too
	o := w.opening("k")
	w.both("begin", func(s store) answer { return give(nil, s.Begin(w.ctx, o)) })
	b := shard.BucketOf("client", "k")
	w.layout.Exec(t, w.layout.Map.Owner(b).Shard, `UPDATE buckets SET state = 'FROZEN' WHERE bucket = $1`, int32(b))
	spec, _ := w.spec.(*model.Store)
	spec.Freeze(b)
	w.both("begin", func(s store) answer { return give(nil, s.Begin(w.ctx, w.opening("k"))) })
	w.both("find", func(s store) answer { return give(s.Find(w.ctx, o.Payment.ID, shard.KeyRef{})) })
	w.both("put inbox", func(s store) answer {
		return give(s.PutInbox(w.ctx, shard.InboxItem{Bucket: b, PSP: "p", EventID: "e"}, w.now))
	})
	w.pass(time.Hour)
	w.claimAttempts()
	if w.found != "" {
		t.Error(w.found)
	}
	if kind := shard.ErrNoOwner.Error(); !w.kinds["begin: "+kind] || !w.kinds["find: "+kind] || !w.kinds["put inbox: "+kind] {
		t.Errorf("the fence let somebody in: %v", w.kinds)
	}
}

// Options that cannot be used are refused.
func TestOptions(t *testing.T) {
	clock := func() time.Time { return noon }
	for _, o := range []model.Options{{}, {Now: clock, Without: []model.Rule{"gravity"}}} {
		if _, err := model.New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
