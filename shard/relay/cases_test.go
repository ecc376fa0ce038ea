package relay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"paygrid/ledger"
	"paygrid/shard"
	"paygrid/shard/relay"
	"paygrid/shard/relay/consume"
)

// hundred writes C046's events: ten of one payment, ninety of others. All move s-ann's balance but the first of each.
func (b *bench) hundred(t *testing.T) {
	t.Helper()
	p := b.captures(t, b.opens(t, "ten", payload{}))
	for range 8 {
		p = b.refunds(t, p, 100)
	}
	for n := range 45 {
		b.captures(t, b.opens(t, fmt.Sprintf("other-%d", n), payload{}))
	}
}

// projected compares the projection of a consumer that applies each event once with the ledger.
func (b *bench) projected(t *testing.T, events []consume.Event) {
	t.Helper()
	var sum int64
	for _, e := range events {
		var p payload
		must(t, json.Unmarshal(e.Data, &p))
		sum += p.Ann
	}
	balance, err := b.Balance(context.Background(), ledger.SellerPayable("s-ann"), "EUR")
	must(t, err)
	if owed := -balance.Minor.Int64(); owed != sum || sum == 0 {
		t.Errorf("the projection says that s-ann is owed %d, the ledger %d", sum, owed)
	}
}

// TestC046RelayDiesBetweenPublishAndMark (a): a relay that is killed after the broker's acknowledgement and before its mark.
func TestC046RelayDiesBetweenPublishAndMark(t *testing.T) {
	t.Parallel()
	b := open(t, 1)
	b.hundred(t)
	b.child(t, relay.PointAcked).dies(t)
	if n := b.layout.Count(t, "shard-1", "SELECT count(*) FROM relay_cursors"); n != 0 {
		t.Fatalf("%d cursors moved before the mark", n)
	}
	b.relay(t, "after", nil)
	b.settled(t)
	events, duplicates := b.sound(t)
	if len(events) != 100 || duplicates == 0 {
		t.Errorf("%d events, want 100; %d duplicates, want some: the killed relay had published", len(events), duplicates)
	}
	b.projected(t, events)
}

// TestC046TwoRelays (b): two relays that both believe to hold the lease publish the same rows; only the owner's cursors move.
func TestC046TwoRelays(t *testing.T) {
	t.Parallel()
	b := open(t, 1)
	b.hundred(t)
	reached, release := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	first := b.relay(t, "first", func(c *relay.Config) {
		c.Pause = func(at relay.Point) {
			if at == relay.PointAcked && once.CompareAndSwap(false, true) {
				close(reached)
				<-release
			}
		}
	})
	<-reached // it has published, and stands still longer than its lease …
	b.layout.Exec(t, "shard-1", "UPDATE leases SET until_at = now() - INTERVAL '1 minute', owner = 'gone' WHERE name = 'relay'")
	b.relay(t, "second", nil)
	b.settled(t)
	close(release) // … and goes on as if nothing had been
	eventually(t, "the first relay notices", func() bool { return first.log.count("lease went to another") > 0 })
	events, duplicates := b.sound(t)
	if len(events) != 100 || duplicates == 0 {
		t.Errorf("%d events, %d duplicates", len(events), duplicates)
	}
	b.projected(t, events)
	if n := b.layout.Count(t, "shard-1", "SELECT count(*) FROM relay_cursors WHERE token = 1"); n != 0 {
		t.Errorf("%d cursors were moved by a relay whose lease was another's", n)
	}
}

// TestC046AnswerAfterWriting (c): the broker writes and answers with REQUEST_TIMED_OUT or NOT_ENOUGH_REPLICAS_AFTER_APPEND while relays
// are stopped in the middle, 100 rounds of it. Nothing is marked that cannot be read from the topic.
func TestC046AnswerAfterWriting(t *testing.T) {
	t.Parallel()
	b := openFake(t, 1)
	faults := b.fake.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: 60},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: 60})
	defer faults.Remove()
	for round := range 100 {
		r := b.relay(t, fmt.Sprintf("r%d", round), func(c *relay.Config) { c.Lease = 200 * time.Millisecond })
		b.captures(t, b.opens(t, fmt.Sprintf("k-%d", round), payload{}))
		if round%2 == 0 {
			eventually(t, "something was published or answered with a fault", func() bool {
				return faults.Hits() > round/2 || r.metric(t, "paygrid_relay_published_total") > 0
			})
		}
		r.stop()
		b.markedIsThere(t)
	}
	b.relay(t, "last", nil)
	b.settled(t)
	if faults.Hits() == 0 {
		t.Error("no fault was hit")
	}
	events, _ := b.sound(t)
	if len(events) != 200 {
		t.Errorf("%d events, want 200", len(events))
	}
	b.projected(t, events)
}

// markedIsThere wants every event behind a cursor on the topic.
func (b *bench) markedIsThere(t *testing.T) {
	t.Helper()
	heads, err := b.Heads(context.Background(), "shard-1")
	must(t, err)
	var buckets []shard.Bucket
	for _, h := range heads {
		buckets = append(buckets, h.Bucket)
	}
	marked, err := b.Cursors(context.Background(), "shard-1", buckets)
	must(t, err)
	there := map[string]bool{}
	for _, e := range b.published(t) {
		there[e.ID] = true
	}
	for bucket, through := range marked {
		for seq := int64(1); seq <= through; seq++ {
			if !there[shard.EventID(bucket, seq)] {
				t.Fatalf("%s is marked and cannot be read from the topic", shard.EventID(bucket, seq))
			}
		}
	}
}

// TestC047BadRowsAtTheHead: 50 events that can never be sent hold up nobody.
func TestC047BadRowsAtTheHead(t *testing.T) {
	t.Parallel()
	b := open(t, 1)
	const bucket, tries = shard.Bucket(7), 4
	blob := strings.Repeat("x", 2<<20)
	for n := range 50 {
		b.opens(t, keyIn(bucket, n), payload{Blob: blob})
	}
	for n := range 500 {
		b.opens(t, keyIn(bucket, 100+n), payload{Ann: 1})
	}
	var rounds, roundsOfGood atomic.Int64
	count := func(c *relay.Config) {
		c.Batch, c.MaxTries = 50, tries
		c.Pause = func(at relay.Point) {
			if at == relay.PointMarked {
				rounds.Add(1)
			}
		}
	}
	first, second := b.relay(t, "first", count), b.relay(t, "second", count)
	eventually(t, "the good ones are published", func() bool {
		if first.metric(t, "paygrid_relay_published_total")+second.metric(t, "paygrid_relay_published_total") < 500 {
			return false
		}
		roundsOfGood.CompareAndSwap(0, rounds.Load())
		return true
	})
	if n := roundsOfGood.Load(); n > 15 {
		t.Errorf("it took %d rounds", n)
	}
	b.settled(t)
	parked := b.parked(t, "shard-1")
	for _, p := range parked {
		if p.State != shard.ParkParked || p.Tries != tries || p.Reason == "" {
			t.Errorf("%+v, want it parked after %d tries, and why", p, tries)
		}
	}
	const told = "an event cannot be sent"
	if alerts := first.log.count(told) + second.log.count(told); len(parked) != 50 || alerts != 50 {
		t.Errorf("%d payments are parked and %d alerts told, want 50 of each", len(parked), alerts)
	}
	if n := first.metric(t, "paygrid_relay_parked_total") + second.metric(t, "paygrid_relay_parked_total"); n != 50 {
		t.Errorf("the metric says %v were parked", n)
	}
	if events, _ := b.sound(t); len(events) != 500 {
		t.Errorf("%d events on the topic, want the 500 good ones", len(events))
	}
	b.redriveMended(t, parked[0], first, second)
}

// redriveMended mends one bad row and re-drives it, and another without mending: that one is parked again at once.
func (b *bench) redriveMended(t *testing.T, p shard.ParkedPayment, relays ...*running) {
	t.Helper()
	b.layout.Exec(t, "shard-1", "UPDATE outbox SET payload = '{}' WHERE bucket = $1 AND payment_id = $2", int32(p.Bucket), p.PaymentID)
	must(t, b.Redrive(context.Background(), p.PaymentID))
	rest := b.parked(t, "shard-1")
	bad := rest[len(rest)-1]
	must(t, b.Redrive(context.Background(), bad.PaymentID))
	b.settled(t)
	after := b.parked(t, "shard-1")
	if len(after) != 49 || slices.ContainsFunc(after, func(x shard.ParkedPayment) bool { return x.PaymentID == p.PaymentID }) {
		t.Errorf("%d payments are parked after the re-drive, want 49 without %s", len(after), p.PaymentID)
	}
	alerts := 0
	for _, r := range relays {
		alerts += r.log.count("an event cannot be sent", bad.PaymentID)
	}
	if alerts != 2 {
		t.Errorf("%d alerts of %s, want one more after it was re-driven in vain", alerts, bad.PaymentID)
	}
	if events, _ := b.sound(t); len(events) != 501 {
		t.Errorf("%d events on the topic, want the mended one too", len(events))
	}
}

// refuse makes the fake broker refuse every batch that holds key, as long as left says so.
func (b *bench) refuse(key string, left func() bool) {
	b.fake.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		produce := request.(*kmsg.ProduceRequest)
		for _, topic := range produce.Topics {
			for _, p := range topic.Partitions {
				if holds(p.Records, key) && left() {
					return refusal(produce), nil, true
				}
			}
		}
		return nil, nil, false
	})
}

// holds tells whether a record batch has a record of the key.
func holds(raw []byte, key string) bool {
	var batch kmsg.RecordBatch
	if batch.ReadFrom(raw) != nil {
		return false
	}
	records, err := kgo.DefaultDecompressor().Decompress(batch.Records, kgo.CompressionCodecType(batch.Attributes&7))
	return err == nil && bytes.Contains(records, []byte(key))
}

// refusal refuses all that a request wants written.
func refusal(request *kmsg.ProduceRequest) kmsg.Response {
	response := request.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range request.Topics {
		out := kmsg.NewProduceResponseTopic()
		out.Topic, out.TopicID = topic.Topic, topic.TopicID
		for _, p := range topic.Partitions {
			partition := kmsg.NewProduceResponseTopicPartition()
			partition.Partition, partition.ErrorCode = p.Partition, kerr.InvalidRecord.Code
			out.Partitions = append(out.Partitions, partition)
		}
		response.Topics = append(response.Topics, out)
	}
	return response
}

// alphabet writes three events for each of payments A to Z, A's first; it returns A.
func (b *bench) alphabet(t *testing.T) (a shard.Payment) {
	t.Helper()
	all := make([]shard.Payment, 26)
	for n := range all {
		all[n] = b.opens(t, keyIn(3, n), payload{})
	}
	for n := range all {
		all[n] = b.captures(t, all[n])
	}
	for n := range all {
		all[n] = b.refunds(t, all[n], 100)
	}
	return all[0]
}

// indexOf tells where each event of a payment first appears among all.
func indexOf(events []consume.Event, payment string) (at []int, types []string) {
	for n, e := range events {
		if e.Payment == payment {
			at, types = append(at, n), append(types, e.Type)
		}
	}
	return at, types
}

var lifeOfA = []string{"payment.processing", "payment.captured", "refund.succeeded"}

// TestC048OrderInsideOnePayment: the first two sends of A's first event fail. The order of A holds, B to Z do not wait for it.
func TestC048OrderInsideOnePayment(t *testing.T) {
	t.Parallel()
	b := openFake(t, 1)
	a := b.alphabet(t)
	var left atomic.Int64
	left.Store(2)
	b.refuse(a.ID, func() bool { return left.Add(-1) >= 0 })
	var ahead atomic.Int64 // A's next try is due when the test says so
	small := func(c *relay.Config) {
		c.Batch, c.Backoff = 2, time.Minute
		c.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
	first, second := b.relay(t, "first", small), b.relay(t, "second", small)
	eventually(t, "B to Z are published", func() bool {
		return first.metric(t, "paygrid_relay_published_total")+second.metric(t, "paygrid_relay_published_total") >= 75
	})
	ahead.Store(int64(2 * time.Minute))
	b.settled(t)
	events, _ := b.sound(t)
	at, types := indexOf(events, a.ID)
	if !slices.Equal(types, lifeOfA) {
		t.Fatalf("A's order is %v", types)
	}
	partition := events[at[0]].Partition
	for n, e := range events {
		if e.Payment != a.ID && e.Partition == partition && n > at[0] {
			t.Errorf("%s of another payment waited for A", e.ID)
		}
	}
	if len(events) != 78 {
		t.Errorf("%d events, want 78", len(events))
	}
}

// TestC048DeadFirstEvent: A's first event is given up. Its later ones are held, one alert names A, and a re-drive sends all in order.
func TestC048DeadFirstEvent(t *testing.T) {
	t.Parallel()
	b := openFake(t, 1)
	a := b.alphabet(t)
	var bad atomic.Bool
	bad.Store(true)
	b.refuse(a.ID, bad.Load)
	r := b.relay(t, "one", func(c *relay.Config) { c.Batch, c.MaxTries, c.Backoff = 2, 3, 5*time.Millisecond })
	b.settled(t)
	parked := b.parked(t, "shard-1")
	if len(parked) != 1 || parked[0].PaymentID != a.ID || parked[0].Tries != 3 {
		t.Fatalf("parked: %+v, want A after 3 tries", parked)
	}
	if n, all := r.log.count("an event cannot be sent", a.ID), r.log.count("an event cannot be sent"); n != 1 || all != 1 {
		t.Errorf("%d alerts, %d of A; want one", all, n)
	}
	late := b.refunds(t, a, 200) // comes while A is parked, and must wait too
	b.settled(t)
	events, _ := b.sound(t)
	if at, _ := indexOf(events, a.ID); len(at) != 0 || len(events) != 75 {
		t.Errorf("%d events, %d of A, want 75 and none", len(events), len(at))
	}
	bad.Store(false)
	must(t, b.Redrive(context.Background(), a.ID))
	b.settled(t)
	b.refunds(t, late, 300) // A is free: this one goes the usual way
	b.settled(t)
	events, _ = b.sound(t)
	if _, types := indexOf(events, a.ID); !slices.Equal(types, append(slices.Clone(lifeOfA), "refund.succeeded", "refund.succeeded")) {
		t.Errorf("A's order after the re-drive is %v", types)
	}
	if len(b.parked(t, "shard-1")) != 0 {
		t.Error("A is still parked")
	}
}

// TestBatchMates: a refused record takes its whole batch with it. The others of the batch are sent again at once, and none is held.
func TestBatchMates(t *testing.T) {
	t.Parallel()
	b := openFake(t, 1)
	var bad shard.Payment
	for n := range 60 {
		if p := b.opens(t, keyIn(shard.Bucket(n), n), payload{}); n == 30 {
			bad = p
		}
	}
	b.refuse(bad.ID, func() bool { return true })
	r := b.relay(t, "one", func(c *relay.Config) { c.MaxTries, c.Backoff = 2, time.Millisecond })
	b.settled(t)
	if n, all := r.log.count("an event was refused", bad.ID), r.log.count("an event was refused"); n != 1 || all != 1 {
		t.Errorf("%d payments were held, %d times the bad one; want it alone", all, n)
	}
	if events, _ := b.sound(t); len(events) != 59 {
		t.Errorf("%d events, want 59", len(events))
	}
	if errors := r.metric(t, "paygrid_relay_publish_errors_total", "event"); errors < 3 {
		t.Errorf("the metric tells of %v errors, want those of the batch and two of the bad one alone", errors)
	}
}
