package shard_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/shard"
)

// The bucket that moves from shard-1 to shard-2 in these tests, and the tables that hold its rows.
const moving = shard.Bucket(10)

var bucketTables = []string{"payments", "attempts", "refunds", "idempotency_keys", "journal_entries", "postings", "outbox", "rollups"}

// moved is a cluster whose map is old, one whose map is new, and the payment that moved.
type moved struct {
	old, new bench
	payment  shard.Opening
	oldFile  *shard.MapFile
	newMap   *shard.Map
}

// move captures a payment in the bucket, then moves the bucket by hand: its rows are copied, shard-1 says MOVED and
// shard-2 OWNED at epoch 2. What shard-1 held stays there, as after a real move.
func move(t *testing.T, options shard.Options) moved {
	t.Helper()
	layout := databases.Layout(t, 2)
	m := moved{old: on(t, layout, options), oldFile: shard.NewMapFile(layout.MapPath)}
	m.payment = m.old.captured(t, "shop", keyIn("shop", moving, 0))

	m.newMap = layout.Map.With(moving, "shard-2", 2)
	next := layout
	next.MapPath = filepath.Join(t.TempDir(), "shards.json")
	must(t, shard.NewMapFile(next.MapPath).Write(m.newMap))
	copyBucket(t, layout.Admin["shard-1"], layout.Admin["shard-2"])
	m.new = on(t, next, options)
	return m
}

func copyBucket(t *testing.T, from, to string) {
	t.Helper()
	source, target := connect(t, from), connect(t, to)
	source.exec(t, "UPDATE buckets SET state = 'MOVED' WHERE bucket = $1", int32(moving))
	target.exec(t, "INSERT INTO buckets (bucket, epoch, state, seq) VALUES ($1, 2, 'OWNED', $2)", int32(moving),
		source.count(t, "SELECT seq FROM buckets WHERE bucket = $1", int32(moving)))
	for _, table := range bucketTables {
		columns := source.text(t, `SELECT string_agg(a.attname, ', ' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
WHERE a.attrelid = $1::TEXT::regclass AND a.attnum > 0 AND a.attgenerated = ''`, table)
		rows := source.text(t, "SELECT coalesce(json_agg(r), '[]')::TEXT FROM "+table+" r WHERE r.bucket = $1", int32(moving))
		target.exec(t, "INSERT INTO "+table+" ("+columns+") SELECT "+columns+" FROM json_populate_recordset(NULL::"+table+", $1)", rows)
	}
	target.exec(t, `INSERT INTO seller_balances (account, currency, slot, balance)
SELECT p.credit_account, p.currency, 0, sum(p.amount) FROM postings p WHERE p.credit_account LIKE 'seller_payable:%' GROUP BY 1, 2`)
	source.exec(t, "DELETE FROM seller_balances")
}

// writtenTo counts the rows that a shard holds of the moving bucket.
func (m moved) writtenTo(t *testing.T, shardName string) (n int64) {
	t.Helper()
	for _, table := range bucketTables {
		n += m.old.layout.Count(t, shardName, "SELECT count(*) FROM "+table+" WHERE bucket = $1", int32(moving))
	}
	return n
}

// TestStaleMap: a process with an old map is refused by the fence, whatever it does, and nothing is written to the wrong
// shard. As soon as its file is replaced it finds the right one, by itself.
func TestStaleMap(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		ctx := context.Background()
		m := move(t, options)
		before := m.writtenTo(t, "shard-1")
		seq := m.old.layout.Count(t, "shard-1", "SELECT seq FROM buckets WHERE bucket = $1", int32(moving))
		next := opening("shop", keyIn("shop", moving, 1))
		change := refund(t, capture(t, m.payment).Payment, 1000)
		calls := map[string]func() error{
			"begin":   func() error { return m.old.Begin(ctx, next) },
			"apply":   func() error { return m.old.Apply(ctx, change) },
			"find":    func() error { _, err := m.old.Find(ctx, m.payment.Payment.ID, shard.KeyRef{}); return err },
			"key":     func() error { _, err := m.old.OpeningKey(ctx, "shop", m.payment.Key.Key); return err },
			"entries": func() error { _, err := m.old.Entries(ctx, m.payment.Payment.ID); return err },
			"events":  func() error { _, err := m.old.Events(ctx, m.payment.Payment.ID); return err },
			"notice": func() error {
				_, err := m.old.PutInbox(ctx, shard.InboxItem{Bucket: moving, PSP: "stripe", EventID: "evt_1", Raw: []byte("{}")}, next.At)
				return err
			},
		}
		for op, err := range atOnce(calls) {
			if !errors.Is(err, shard.ErrNoOwner) {
				t.Errorf("%s with the old map: %v, want ErrNoOwner", op, err)
			}
		}
		if n := m.old.metric(t, "paygrid_shard_fenced_total", "shard=shard-1"); n < len(calls) {
			t.Errorf("the fence refused %d times", n)
		}
		must(t, m.oldFile.Write(m.newMap))
		for op, err := range atOnce(calls) {
			if err != nil {
				t.Errorf("%s after the file was replaced: %v", op, err)
			}
		}
		if n := m.writtenTo(t, "shard-1"); n != before {
			t.Errorf("the wrong shard has %d rows of the bucket, had %d", n, before)
		}
		for name, want := range map[string]int64{"shard-1": 0, "shard-2": 1} {
			if n := m.old.layout.Count(t, name, "SELECT count(*) FROM webhook_inbox"); n != want {
				t.Errorf("%s has %d notices, want %d", name, n, want)
			}
		}
		if n := m.old.layout.Count(t, "shard-1", "SELECT seq FROM buckets WHERE bucket = $1", int32(moving)); n != seq {
			t.Errorf("the wrong shard's sequence went from %d to %d", seq, n)
		}
		if n := m.old.layout.Count(t, "shard-2", "SELECT seq FROM buckets WHERE bucket = $1", int32(moving)); n != seq+2 {
			t.Errorf("the right shard's sequence is %d, want %d", n, seq+2)
		}
	})
}

func atOnce(calls map[string]func() error) map[string]error {
	var mu sync.Mutex
	var group sync.WaitGroup
	out := map[string]error{}
	for op, call := range calls {
		group.Go(func() {
			err := call()
			mu.Lock()
			defer mu.Unlock()
			out[op] = err
		})
	}
	group.Wait()
	return out
}

// TestEpochIsPartOfTheFence: a bucket that came back to a shard is not written by who knows only its first stay there.
func TestEpochIsPartOfTheFence(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		c := open(t, 1, options)
		o := c.captured(t, "shop", keyIn("shop", moving, 0))
		c.layout.Exec(t, "shard-1", "UPDATE buckets SET epoch = 3 WHERE bucket = $1", int32(moving))
		err := c.Apply(context.Background(), refund(t, capture(t, o).Payment, 1000))
		if !errors.Is(err, shard.ErrNoOwner) {
			t.Errorf("told %v, want ErrNoOwner", err)
		}
		c.sound(t)
	})
}

// TestABucketThatComesIsNotEmpty: a payment is never said to be missing because its bucket was thawed between two looks.
func TestABucketThatComesIsNotEmpty(t *testing.T) {
	t.Parallel()
	layout := databases.Layout(t, 1)
	b := on(t, layout, shard.Options{})
	o := b.captured(t, "shop", keyIn("shop", moving, 0))
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	owner := connect(t, layout.Admin["shard-1"])
	group.Go(func() {
		for ctx.Err() == nil {
			owner.exec(t, "UPDATE buckets SET state = 'FROZEN' WHERE bucket = $1", int32(moving))
			owner.exec(t, "UPDATE buckets SET state = 'OWNED' WHERE bucket = $1", int32(moving))
		}
	})
	for range 300 {
		if found, err := b.Find(t.Context(), o.Payment.ID, shard.KeyRef{}); err == nil && found.Missing {
			t.Fatal("the payment is missing")
		}
	}
	stop()
	group.Wait()
}

// TestFrozenForAMoment: while a bucket is frozen calls wait; they go on when it is owned again.
func TestFrozenForAMoment(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		c := open(t, 1, options)
		c.layout.Exec(t, "shard-1", "UPDATE buckets SET state = 'FROZEN' WHERE bucket = $1", int32(moving))
		told := make(chan error, 1)
		go func() { told <- c.Begin(context.Background(), opening("shop", keyIn("shop", moving, 0))) }()
		eventually(t, "the fence refuses", func() bool { return c.metric(t, "paygrid_shard_fenced_total") > 1 })
		c.layout.Exec(t, "shard-1", "UPDATE buckets SET state = 'OWNED' WHERE bucket = $1", int32(moving))
		if err := <-told; err != nil {
			t.Error(err)
		}
		c.sound(t)
	})
}

// TestMovedRowsAreNotListed: what a moved bucket left behind is in no list: not twice in an order, not in a queue.
func TestMovedRowsAreNotListed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	m := move(t, shard.Options{})
	payments, err := m.new.PaymentsOfOrder(ctx, "shop", m.payment.Payment.OrderID)
	must(t, err)
	if len(payments) != 1 {
		t.Errorf("the order has %d payments, want 1", len(payments))
	}
	for _, name := range m.new.layout.Names {
		m.new.layout.Exec(t, name, "UPDATE payments SET status = 'AUTHORIZED', expires_at = '2020-01-01'")
	}
	for name, want := range map[string]int{"shard-1": 0, "shard-2": 1} {
		ids, err := m.new.Expired(ctx, name, time.Now(), 10)
		if err != nil || len(ids) != want {
			t.Errorf("%s: %v are expired (%v), want %d", name, ids, err, want)
		}
	}
}

// TestBalanceWantsACompleteCover: shards whose answers leave a bucket out, or name one twice, are not added up. They are
// asked again, and the sum is right as soon as they agree.
func TestBalanceWantsACompleteCover(t *testing.T) {
	for name, c := range map[string]struct{ apart, together string }{
		"left out": {"UPDATE buckets SET state = 'RECEIVING' WHERE bucket = 10", "UPDATE buckets SET state = 'OWNED' WHERE bucket = 10"},
		"twice":    {"UPDATE buckets SET bucket = 2049 WHERE bucket = 10", "UPDATE buckets SET bucket = 10 WHERE bucket = 2049"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			b := open(t, 2, shard.Options{})
			b.captured(t, "shop", keyIn("shop", 77, 0))
			b.layout.Exec(t, "shard-1", c.apart)
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			if balance, err := b.Balance(short, ledger.CommissionRevenue, "EUR"); err == nil {
				t.Errorf("added up all the same: %+v", balance)
			}
			told := make(chan error, 1)
			go func() { _, err := b.Balance(ctx, ledger.CommissionRevenue, "EUR"); told <- err }()
			b.layout.Exec(t, "shard-1", c.together)
			must(t, <-told)
			b.expectPosted(t, 1)
		})
	}
}
