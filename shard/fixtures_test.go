package shard_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"paygrid/ledger"
	"paygrid/shard"
	"paygrid/shard/shardtest"
)

// annBob is what the tests sell: 100.00 EUR of two sellers, of which 11.50 are commission.
var annBob = []ledger.Split{
	{SellerID: "s-ann", Minor: 7000, CommissionMinor: 700},
	{SellerID: "s-bob", Minor: 3000, CommissionMinor: 450},
}

// What one captured payment of annBob leaves on each account, in minor units; debits are positive.
var annBobPosted = map[ledger.Account]int64{
	ledger.PSPReceivable("stripe"): 10000,
	ledger.SellerPayable("s-ann"):  -6300,
	ledger.SellerPayable("s-bob"):  -2550,
	ledger.CommissionRevenue:       -1150,
}

// opening makes an opening of annBob.
func opening(client, key string) shard.Opening { return openingOf(client, key, annBob) }

func openingOf(client, key string, splits []ledger.Split) shard.Opening {
	now := time.Now().UTC().Truncate(time.Microsecond)
	b := shard.BucketOf(client, key)
	parts := ledger.PartsOf(splits)
	p := shard.Payment{
		ID: shard.NewID(shard.PaymentPrefix, b, now), ClientID: client, OrderID: "order-" + key, Status: "AUTH_PENDING", Version: 1,
		PSP: "stripe", Currency: "EUR", Authorized: parts.Authorized(), CaptureMode: "manual", Method: json.RawMessage(`{}`),
		Splits: splits, Parts: parts, CreatedAt: now, UpdatedAt: now,
	}
	a := shard.Attempt{
		ID: shard.NewID(shard.AttemptPrefix, b, now), PaymentID: p.ID, Kind: "AUTHORIZE", PSP: "stripe", Amount: p.Authorized,
		Status: "PENDING", RouteReason: "only one", ClientKey: key, SentAt: now, NextCheckAt: now.Add(time.Minute), UpdatedAt: now,
	}
	k := shard.Key{
		KeyRef:      shard.KeyRef{ClientID: client, Scope: "payments", Key: key},
		RequestHash: sha256.Sum256([]byte(key)), PaymentID: p.ID, SubjectID: a.ID,
	}
	return shard.Opening{
		Payment: p, Attempt: a, Key: k, At: now,
		Event: shard.Event{Type: "payment.processing", Payload: json.RawMessage(`{"status": "PROCESSING"}`)},
	}
}

// capture makes the change that closes an opening as captured in full, with its entry and its answer.
func capture(t testing.TB, o shard.Opening) shard.Change {
	t.Helper()
	p := o.Payment
	p.Version, p.Status, p.Captured, p.PSPRef = 2, "CAPTURED", p.Authorized, "pi_1"
	parts, shares, err := p.Parts.Capture(p.Authorized)
	if err != nil {
		t.Fatal(err)
	}
	p.Parts = parts
	entry, err := ledger.Capture(o.Attempt.ID, "stripe", p.Currency, shares)
	if err != nil {
		t.Fatal(err)
	}
	a := o.Attempt
	a.Status, a.Outcome, a.PSPRef = "SUCCEEDED", "APPROVED", "pi_1"
	k := o.Key
	k.AnswerKind, k.Answer = "CHARGED", []byte(`{"id":"x"}`)
	return shard.Change{
		From: "AUTH_PENDING", Payment: p, Attempts: []shard.Attempt{a}, Keys: []shard.Key{k}, Entry: &entry, At: o.At,
		Event: shard.Event{Type: "payment.captured", Payload: json.RawMessage(`{"status": "CAPTURED"}`)},
	}
}

// refund makes the next change of a captured payment: a refund of minor that succeeds at once.
func refund(t testing.TB, before shard.Payment, minor int64) shard.Change {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	b := shard.BucketOf(before.ClientID, strings.TrimPrefix(before.OrderID, "order-"))
	p := before
	p.Version, p.Refunded = p.Version+1, p.Refunded+minor
	parts, shares, err := p.Parts.Refund(minor)
	if err != nil {
		t.Fatal(err)
	}
	p.Parts = parts
	r := shard.Refund{ID: shard.NewID(shard.RefundPrefix, b, now), PaymentID: p.ID, Amount: minor, Status: "SUCCEEDED", Shares: shares}
	entry, err := ledger.Refund(r.ID, "stripe", p.Currency, shares)
	if err != nil {
		t.Fatal(err)
	}
	return shard.Change{
		From: before.Status, Payment: p, Refunds: []shard.Refund{r}, Entry: &entry, At: now,
		Event: shard.Event{Type: "refund.succeeded", Payload: json.RawMessage(`{}`)},
	}
}

// keyIn returns a key of client whose payment lies in bucket b.
func keyIn(client string, b shard.Bucket, no int) string {
	for n := 0; ; n++ {
		if key := fmt.Sprintf("k-%d-%d", no, n); shard.BucketOf(client, key) == b {
			return key
		}
	}
}

// isolations runs a test under both isolation levels of PostgreSQL, side by side.
func isolations(t *testing.T, test func(t *testing.T, o shard.Options)) {
	for _, serializable := range []bool{false, true} {
		name := "read committed"
		if serializable {
			name = "serializable"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, shard.Options{Serializable: serializable})
		})
	}
}

// bench is a cluster on databases of its own, with its metrics.
type bench struct {
	*shard.Cluster
	layout   shardtest.Layout
	registry *prometheus.Registry
}

// open makes a cluster of n shards.
func open(t testing.TB, n int, o shard.Options) bench {
	t.Helper()
	return on(t, databases.Layout(t, n), o)
}

// on opens one more process on a layout.
func on(t testing.TB, layout shardtest.Layout, o shard.Options) bench {
	t.Helper()
	if o.Now == nil {
		o.Now = time.Now
	}
	registry := prometheus.NewRegistry()
	c, err := shard.Open(context.Background(), shard.NewMapFile(layout.MapPath), o, registry)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return bench{Cluster: c, layout: layout, registry: registry}
}

// metric sums the counters of a name that carry all of the labels ("result=committed").
func (b bench) metric(t testing.TB, name string, labels ...string) int {
	t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			has := map[string]bool{}
			for _, pair := range m.GetLabel() {
				has[pair.GetName()+"="+pair.GetValue()] = true
			}
			all := true
			for _, label := range labels {
				all = all && has[label]
			}
			if all {
				sum += int(m.GetCounter().GetValue())
			}
		}
	}
	return sum
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// captured opens and captures one payment.
func (b bench) captured(t testing.TB, client, key string) shard.Opening {
	t.Helper()
	o := opening(client, key)
	must(t, b.Begin(context.Background(), o))
	must(t, b.Apply(context.Background(), capture(t, o)))
	return o
}

// balance reads an account in EUR, in minor units.
func (b bench) balance(t testing.TB, account ledger.Account) int64 {
	t.Helper()
	balance, err := b.Balance(context.Background(), account, "EUR")
	must(t, err)
	return balance.Minor.Int64()
}

// expectPosted holds the balances of n captured payments of annBob.
func (b bench) expectPosted(t testing.TB, n int64) {
	t.Helper()
	for account, each := range annBobPosted {
		if got := b.balance(t, account); got != n*each {
			t.Errorf("%s is %d, want %d times %d", account, got, n, each)
		}
	}
}

// sound holds what must hold on every shard at rest, whatever happened before, by SQL that shares nothing with the package.
func (b bench) sound(t testing.TB) {
	t.Helper()
	for _, name := range b.layout.Names {
		for what, sql := range soundness {
			if n := b.layout.Count(t, name, sql); n != 0 {
				t.Errorf("%s: %d × %s", name, n, what)
			}
		}
		wrong, err := b.WrongSums(context.Background(), name)
		must(t, err)
		for _, line := range wrong {
			t.Errorf("%s: %s", name, line)
		}
	}
}

var soundness = map[string]string{
	"a bucket whose outbox is not 1..seq (S4)": `
SELECT count(*) FROM buckets b LEFT JOIN (SELECT bucket, count(*) AS n, min(seq) AS lo, max(seq) AS hi FROM outbox GROUP BY bucket) o
ON o.bucket = b.bucket WHERE b.seq <> coalesce(o.n, 0) OR b.seq <> coalesce(o.hi, 0) OR coalesce(o.lo, 1) <> 1`,
	"a payment whose events are not its versions (S3)": `
SELECT count(*) FROM payments p LEFT JOIN (SELECT bucket, payment_id, count(*) AS n, max(version) AS hi FROM outbox GROUP BY 1, 2) o
ON o.bucket = p.bucket AND o.payment_id = p.payment_id WHERE p.version IS DISTINCT FROM o.n OR p.version IS DISTINCT FROM o.hi`,
	"a payment without its key or attempt (S1)": `
SELECT count(*) FROM payments p WHERE NOT EXISTS (SELECT 1 FROM idempotency_keys k WHERE k.bucket = p.bucket AND k.payment_id = p.payment_id)
OR NOT EXISTS (SELECT 1 FROM attempts a WHERE a.bucket = p.bucket AND a.payment_id = p.payment_id)`,
	"a key without its payment (S1)": `
SELECT count(*) FROM idempotency_keys k WHERE NOT EXISTS (SELECT 1 FROM payments p WHERE p.bucket = k.bucket AND p.payment_id = k.payment_id)`,
	"a payment whose postings are not what it captured and gave back": `
SELECT count(*) FROM payments p LEFT JOIN (
    SELECT e.bucket, e.payment_id, sum(CASE e.kind WHEN 'capture' THEN l.amount ELSE -l.amount END) AS kept
    FROM journal_entries e JOIN postings l ON l.bucket = e.bucket AND l.entry_id = e.entry_id GROUP BY 1, 2) x
ON x.bucket = p.bucket AND x.payment_id = p.payment_id WHERE p.captured - p.refunded <> coalesce(x.kept, 0)`,
	"an entry whose sequence number is not its event's": `
SELECT count(*) FROM journal_entries e WHERE NOT EXISTS (
    SELECT 1 FROM outbox o WHERE o.bucket = e.bucket AND o.seq = e.seq AND o.payment_id = e.payment_id)`,
}

// counter numbers keys so that tests on one client never share one.
type counter struct{ n atomic.Int64 }

func (c *counter) key(prefix string) string { return fmt.Sprintf("%s-%d", prefix, c.n.Add(1)) }
