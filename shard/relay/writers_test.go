package relay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"paygrid/shard"
	"paygrid/shard/relay"
)

// pingAs logs in.
func (b *bench) pingAs(t *testing.T, s relay.SASL) error {
	t.Helper()
	options, err := relay.Broker{Seeds: b.seeds, SASL: &s}.Options()
	must(t, err)
	client, err := kgo.NewClient(append(options, kgo.RequestRetries(0))...)
	must(t, err)
	defer client.Close()
	return client.Ping(context.Background())
}

const (
	writers       = 20
	writesEach    = 40
	writersBucket = 5 // buckets that they meet in
)

var errRolledBack = errors.New("rolled back on purpose")

// TestLateCommits: 20 writers take a number under their bucket's lock as Begin and Apply do, then sleep, then commit, or roll back
// one time in ten. While the relay reads on, no number commits late below one that it has passed: the set on the topic is
// the set that committed.
func TestLateCommits(t *testing.T) {
	t.Parallel()
	b := open(t, 1)
	b.relay(t, "one", nil)
	var mu sync.Mutex
	committed := map[string]bool{}
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			conn, err := pgx.Connect(context.Background(), b.layout.URLs["shard-1"])
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close(context.Background()) }()
			for n := range writesEach {
				bucket := shard.Bucket(rand.IntN(writersBucket))
				seq, err := writeLate(conn, bucket, fmt.Sprintf("pay-%d-%d", w, n), rand.IntN(10) == 0)
				switch {
				case err == nil:
					mu.Lock()
					committed[shard.EventID(bucket, seq)] = true
					mu.Unlock()
				case !errors.Is(err, errRolledBack):
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	b.settled(t)
	events, _ := b.sound(t)
	if len(events) != len(committed) || len(committed) == writers*writesEach {
		t.Errorf("%d events on the topic, %d of %d committed", len(events), len(committed), writers*writesEach)
	}
	for _, e := range events {
		if !committed[e.ID] {
			t.Errorf("%s is on the topic and did not commit", e.ID)
		}
	}
}

// writeLate writes one event in a transaction of its own that sleeps between number and commit.
func writeLate(conn *pgx.Conn, bucket shard.Bucket, payment string, back bool) (seq int64, err error) {
	ctx := context.Background()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, "SELECT seq + 1 FROM buckets WHERE bucket = $1 AND state = 'OWNED' FOR UPDATE", int32(bucket)).Scan(&seq); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO outbox (bucket, seq, payment_id, version, change_id, type, payload, created_at)
			VALUES ($1, $2, $3, 1, '', 'payment.processing', '{}', now())`, int32(bucket), seq, payment)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE buckets SET seq = $2 WHERE bucket = $1", int32(bucket), seq); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_sleep($1::FLOAT8)", rand.Float64()*0.01); err != nil {
			return err
		}
		if back {
			return errRolledBack
		}
		return nil
	})
	return seq, err
}

// TestNumberThatComesLate plants what the lock is there for: a number below the head that is not there yet. The relay does not step
// over it; when it comes, all flows.
func TestNumberThatComesLate(t *testing.T) {
	t.Parallel()
	b := open(t, 1)
	const insert = `INSERT INTO outbox (bucket, seq, payment_id, version, change_id, type, payload, created_at)
		VALUES (1, $1, $2, 1, '', 'payment.processing', '{}', now())`
	b.layout.Exec(t, "shard-1", insert, 2, "second")
	b.layout.Exec(t, "shard-1", "UPDATE buckets SET seq = 2 WHERE bucket = 1")
	r := b.relay(t, "one", nil)
	eventually(t, "the relay complains", func() bool { return r.log.count("invariant S4", "evt_0001_2") > 0 })
	if n := b.layout.Count(t, "shard-1", "SELECT count(*) FROM relay_cursors"); n != 0 || len(b.published(t)) != 0 {
		t.Error("the relay stepped over a number")
	}
	b.layout.Exec(t, "shard-1", insert, 1, "first")
	b.settled(t)
	if events, _ := b.sound(t); len(events) != 2 {
		t.Errorf("%d events, want 2", len(events))
	}
}

// TestUnderLoad: the real path. 20 callers open and move payments that meet in few buckets, some of them twice (one of the two loses),
// while two relays compete. The set on the topic is the set that committed.
func TestUnderLoad(t *testing.T) {
	t.Parallel()
	b := open(t, 2)
	b.relay(t, "first", nil)
	b.relay(t, "second", nil)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for n := range 15 {
				p := b.opens(t, keyIn(shard.Bucket(1000*(n%4)), 1000*w+n), payload{})
				p = b.captures(t, p)
				b.refunds(t, p, 100)
				stale := p // somebody who read before the refund: the compare-and-set refuses it, and it takes no number
				stale.Version++
				if err := b.Apply(context.Background(), shard.Change{From: p.Status, Payment: stale, At: p.UpdatedAt, Event: payload{}.event("x")}); !errors.Is(err, shard.ErrConflict) {
					t.Errorf("a stale change: %v", err)
				}
			}
		})
	}
	group.Wait()
	b.settled(t)
	if events, _ := b.sound(t); len(events) != writers*15*3 {
		t.Errorf("%d events, want %d", len(events), writers*15*3)
	}
}
