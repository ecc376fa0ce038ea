package relay_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"paygrid/ledger"
	"paygrid/shard"
	"paygrid/shard/relay"
	"paygrid/shard/relay/consume"
	"paygrid/shard/shardtest"
)

// realBroker names the environment variable with the address of an Apache Kafka that tests may use.
const realBroker = "PAYGRID_TEST_KAFKA"

const partitions = 6

// topics numbers the tests' topics: on a real broker they stay.
var topics atomic.Int64

// bench is databases, a broker and a topic of a test's own.
type bench struct {
	*shard.Cluster // writes the payments
	layout         shardtest.Layout
	fake           *kfake.Cluster // nil on a real broker
	seeds          []string
	topic          string
}

// open makes n shards, with the real broker where there is one.
func open(t *testing.T, n int) *bench {
	t.Helper()
	if address := os.Getenv(realBroker); address != "" {
		return on(t, n, nil, strings.Split(address, ","))
	}
	return openFake(t, n)
}

// openFake makes n shards with a broker that has its faults on request.
func openFake(t *testing.T, n int, options ...kfake.Opt) *bench {
	t.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, options...)...)
	must(t, err)
	t.Cleanup(fake.Close)
	return on(t, n, fake, fake.ListenAddrs())
}

func on(t *testing.T, n int, fake *kfake.Cluster, seeds []string) *bench {
	t.Helper()
	b := &bench{layout: databases.Layout(t, n), fake: fake, seeds: seeds, topic: fmt.Sprintf("t%d-%d", os.Getpid(), topics.Add(1))}
	b.Cluster = b.layout.Open(t, shard.Options{})
	client := b.client(t)
	created, err := kadm.NewClient(client).CreateTopic(context.Background(), partitions, 1, nil, b.topic)
	must(t, err)
	must(t, created.Err)
	client.Close()
	return b
}

func (b *bench) client(t *testing.T) *kgo.Client {
	t.Helper()
	options, err := relay.Broker{Seeds: b.seeds}.Options()
	must(t, err)
	client, err := kgo.NewClient(options...)
	must(t, err)
	return client
}

// running is a relay under test, with a cluster of its own as another process has.
type running struct {
	stop     func()
	log      *logged
	registry *prometheus.Registry
}

// relay starts a relay; it ends with the test at the latest.
func (b *bench) relay(t *testing.T, owner string, change func(*relay.Config)) *running {
	t.Helper()
	out := &running{log: &logged{}, registry: prometheus.NewRegistry()}
	config := relay.Config{Broker: relay.Broker{Seeds: b.seeds}, Topic: b.topic, Owner: owner, Now: time.Now, Registry: out.registry,
		Log: slog.New(slog.NewTextHandler(out.log, nil)), Lease: time.Second, Backoff: 20 * time.Millisecond, Pace: 20 * time.Millisecond, Poll: 20 * time.Millisecond}
	if change != nil {
		change(&config)
	}
	cluster, err := shard.Open(context.Background(), shard.NewMapFile(b.layout.MapPath), shard.Options{Now: time.Now}, nil)
	must(t, err)
	r, err := relay.New(cluster, config)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	out.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the relay ended with %v", err)
		}
		cluster.Close()
	})
	t.Cleanup(out.stop)
	return out
}

// logged keeps what a relay logs.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count tells how many lines have all of the words.
func (l *logged) count(words ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

// metric sums the values of a metric over its labels; of a histogram it is the count.
func (r *running) metric(t *testing.T, name string, labels ...string) (sum float64) {
	t.Helper()
	families, err := r.registry.Gather()
	must(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			all := true
			for _, label := range labels {
				all = all && strings.Contains(m.String(), `value:"`+label+`"`)
			}
			if all {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// settled waits until every event is passed and no held payment is tried again by itself.
func (b *bench) settled(t *testing.T) {
	t.Helper()
	eventually(t, "all events are published or parked", func() bool {
		for _, name := range b.layout.Names {
			n, _, err := b.RelayLag(context.Background(), name)
			must(t, err)
			if n > 0 {
				return false
			}
			for _, p := range b.parked(t, name) {
				if p.State != shard.ParkParked {
					return false
				}
			}
		}
		return true
	})
}

func (b *bench) parked(t *testing.T, name string) []shard.ParkedPayment {
	t.Helper()
	out, err := b.Parked(context.Background(), name, 1000)
	must(t, err)
	return out
}

// published reads the whole topic.
func (b *bench) published(t *testing.T) []consume.Event {
	t.Helper()
	client := b.client(t)
	defer client.Close()
	var out []consume.Event
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(t, consume.Read(ctx, client, b.topic, false, func(e consume.Event) error {
		out = append(out, e)
		return nil
	}, nil))
	return out
}

// sound checks the whole topic against every row of the outboxes, but for what is held: nothing missing, nothing else, in order,
// duplicates equal. It returns the events in the order of the topic, duplicates left out, and how many those were.
func (b *bench) sound(t *testing.T) (first []consume.Event, duplicates int) {
	t.Helper()
	check, seen := consume.NewCheck(), consume.NewSeen(0)
	committed := map[string]bool{}
	for _, name := range b.layout.Names {
		b.rows(t, name, "SELECT bucket, seq, seq FROM buckets", func(bucket int, seq, _ int64) { check.Expect(bucket, 0, seq) })
		b.rows(t, name, "SELECT bucket, seq, seq FROM outbox", func(bucket int, seq, _ int64) { committed[shard.EventID(shard.Bucket(bucket), seq)] = true })
		b.rows(t, name, `SELECT o.bucket, o.seq, k.seq FROM outbox o JOIN parked_payments k ON k.bucket = o.bucket AND k.payment_id = o.payment_id
			AND k.state <> 'RELEASED' AND o.seq >= k.seq`, func(bucket int, seq, _ int64) { check.Excuse(bucket, seq) })
	}
	for _, e := range b.published(t) {
		check.Add(e)
		if seen.First(e.Bucket, e.Seq) {
			first = append(first, e)
		}
		if !committed[e.ID] {
			t.Errorf("%s is on the topic and was never committed", e.ID)
		}
	}
	for _, finding := range check.Finish() {
		t.Error(finding)
	}
	return first, check.Duplicates
}

// rows asks a shard as the owner of its tables, past the package under test.
func (b *bench) rows(t *testing.T, name, sql string, visit func(bucket int, x, y int64)) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, b.layout.Admin[name])
	must(t, err)
	defer func() { _ = conn.Close(ctx) }()
	rows, err := conn.Query(ctx, sql)
	must(t, err)
	var bucket int
	var x, y int64
	_, err = pgx.ForEachRow(rows, []any{&bucket, &x, &y}, func() error {
		visit(bucket, x, y)
		return nil
	})
	must(t, err)
}

// annBob is what the tests sell: 100.00 EUR of two sellers.
var annBob = []ledger.Split{{SellerID: "s-ann", Minor: 7000, CommissionMinor: 700}, {SellerID: "s-bob", Minor: 3000, CommissionMinor: 450}}

// payload is what the tests' events carry: what the change moved for the seller s-ann.
type payload struct {
	Ann  int64  `json:"ann"`
	Blob string `json:"blob,omitempty"`
}

func (p payload) event(kind string) shard.Event {
	data, _ := json.Marshal(p) // strings and integers always can be
	return shard.Event{Type: kind, Payload: data}
}

// opens opens a payment, whose first event carries p.
func (b *bench) opens(t testing.TB, key string, p payload) shard.Payment {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	bucket := shard.BucketOf("shop", key)
	parts := ledger.PartsOf(annBob)
	pay := shard.Payment{ID: shard.NewID(shard.PaymentPrefix, bucket, now), ClientID: "shop", OrderID: key, Status: "AUTH_PENDING", Version: 1,
		PSP: "stripe", Currency: "EUR", Authorized: parts.Authorized(), CaptureMode: "manual", Method: json.RawMessage(`{}`), Splits: annBob, Parts: parts,
		CreatedAt: now, UpdatedAt: now}
	a := shard.Attempt{ID: shard.NewID(shard.AttemptPrefix, bucket, now), PaymentID: pay.ID, Kind: "AUTHORIZE", PSP: "stripe", Amount: pay.Authorized,
		Status: "PENDING", ClientKey: key, SentAt: now, NextCheckAt: now, UpdatedAt: now}
	k := shard.Key{KeyRef: shard.KeyRef{ClientID: "shop", Scope: "payments", Key: key}, RequestHash: sha256.Sum256([]byte(key)), PaymentID: pay.ID, SubjectID: a.ID}
	must(t, b.Begin(context.Background(), shard.Opening{Payment: pay, Attempt: a, Key: k, At: now, Event: p.event("payment.processing")}))
	return pay
}

// captures captures a payment in full.
func (b *bench) captures(t testing.TB, p shard.Payment) shard.Payment {
	t.Helper()
	from := p.Status
	parts, shares, err := p.Parts.Capture(p.Authorized)
	must(t, err)
	entry, err := ledger.Capture("att-of-"+p.ID, "stripe", p.Currency, shares)
	must(t, err)
	p.Version, p.Status, p.Captured, p.Parts = p.Version+1, "CAPTURED", p.Authorized, parts
	must(t, b.Apply(context.Background(), shard.Change{From: from, Payment: p, Entry: &entry, At: time.Now().UTC(),
		Event: payload{Ann: annOf(entry)}.event("payment.captured")}))
	return p
}

// refunds gives minor of a captured payment back.
func (b *bench) refunds(t testing.TB, p shard.Payment, minor int64) shard.Payment {
	t.Helper()
	parts, shares, err := p.Parts.Refund(minor)
	must(t, err)
	entry, err := ledger.Refund(fmt.Sprintf("ref-%s-%d", p.ID, p.Version), "stripe", p.Currency, shares)
	must(t, err)
	p.Version, p.Refunded, p.Parts = p.Version+1, p.Refunded+minor, parts
	must(t, b.Apply(context.Background(), shard.Change{From: p.Status, Payment: p, Entry: &entry, At: time.Now().UTC(),
		Event: payload{Ann: annOf(entry)}.event("refund.succeeded")}))
	return p
}

// grown moves a payment on with an event of four kilobytes.
func (b *bench) grown(t testing.TB, p shard.Payment) shard.Payment {
	t.Helper()
	p.Version++
	must(t, b.Apply(context.Background(), shard.Change{From: p.Status, Payment: p, At: time.Now().UTC(),
		Event: payload{Blob: strings.Repeat("x", 4000)}.event("payment.processing")}))
	return p
}

// annOf is what an entry credits to s-ann.
func annOf(e ledger.Entry) (sum int64) {
	for _, p := range e.Postings {
		switch ledger.SellerPayable("s-ann") {
		case p.Credit:
			sum += p.Minor
		case p.Debit:
			sum -= p.Minor
		}
	}
	return sum
}

// keyIn returns a key whose payment lies in bucket.
func keyIn(bucket shard.Bucket, no int) string {
	for n := 0; ; n++ {
		if key := fmt.Sprintf("k%d-%d", no, n); shard.BucketOf("shop", key) == bucket {
			return key
		}
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until ok holds, for what happens in another goroutine or process.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}
