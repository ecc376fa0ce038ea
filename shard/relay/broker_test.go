package relay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"paygrid/shard"
	"paygrid/shard/relay"
)

// TestBrokerDown: nothing is marked, parked or lost while no broker answers; the lag is told; then all flows.
func TestBrokerDown(t *testing.T) {
	t.Parallel()
	b := openFake(t, 1)
	for n := range 5 {
		b.captures(t, b.opens(t, fmt.Sprintf("before-%d", n), payload{}))
	}
	r := b.relay(t, "one", nil)
	b.settled(t)
	var down atomic.Bool
	down.Store(true)
	b.fake.Control(func(kmsg.Request) (kmsg.Response, error, bool) { // every connection breaks
		b.fake.KeepControl()
		if down.Load() {
			return nil, errors.New("down"), true
		}
		return nil, nil, false
	})
	for n := range 20 {
		b.captures(t, b.opens(t, fmt.Sprintf("k-%d", n), payload{}))
	}
	eventually(t, "the lag is told", func() bool {
		return r.metric(t, "paygrid_relay_lag_events") >= 30 && r.metric(t, "paygrid_relay_lag_seconds") > 1
	})
	if n := len(b.parked(t, "shard-1")); n != 0 {
		t.Errorf("%d payments are held for the broker's fault", n)
	}
	down.Store(false)
	b.settled(t)
	if events, _ := b.sound(t); len(events) != 50 {
		t.Errorf("%d events, want 50", len(events))
	}
	eventually(t, "the lag is gone", func() bool { return r.metric(t, "paygrid_relay_lag_events") == 0 })
}

// TestBrokersFaultsParkNobody: refusals that are about the topic or the producer are no event's fault.
func TestBrokersFaultsParkNobody(t *testing.T) {
	t.Parallel()
	for _, fault := range []*kerr.Error{kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.InvalidProducerEpoch, kerr.UnknownProducerID,
		kerr.OutOfOrderSequenceNumber, kerr.UnknownServerError, kerr.NotLeaderForPartition, kerr.KafkaStorageError} {
		t.Run(fault.Message, func(t *testing.T) {
			t.Parallel()
			b := openFake(t, 1)
			installed := b.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: fault, Count: 2})
			for n := range 5 {
				b.captures(t, b.opens(t, fmt.Sprintf("k-%d", n), payload{}))
			}
			b.relay(t, "one", func(c *relay.Config) { c.MaxTries = 2 })
			b.settled(t)
			if installed.Hits() == 0 {
				t.Error("the fault was not hit")
			}
			if n := len(b.parked(t, "shard-1")); n != 0 {
				t.Errorf("%d payments are parked", n)
			}
			if events, _ := b.sound(t); len(events) != 10 {
				t.Errorf("%d events, want 10", len(events))
			}
		})
	}
}

// TestLeaseLostWhilePublishing: no broker answers, the lease goes to another relay, and that one publishes all.
func TestLeaseLostWhilePublishing(t *testing.T) {
	t.Parallel()
	b := openFake(t, 1)
	var slow atomic.Bool
	slow.Store(true)
	reached := make(chan struct{}, 100)
	b.fake.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		if slow.Load() {
			reached <- struct{}{}
			return nil, errors.New("no answer"), true
		}
		return nil, nil, false
	})
	for n := range 10 {
		b.captures(t, b.opens(t, fmt.Sprintf("k-%d", n), payload{}))
	}
	first := b.relay(t, "first", nil)
	<-reached
	b.layout.Exec(t, "shard-1", "UPDATE leases SET owner = 'second', token = token + 1, until_at = now() + INTERVAL '1 minute' WHERE name = 'relay'")
	eventually(t, "the first relay notices", func() bool { return first.log.count("lease went to another") > 0 })
	if n := b.layout.Count(t, "shard-1", "SELECT count(*) FROM relay_cursors"); n != 0 {
		t.Errorf("%d cursors moved", n)
	}
	slow.Store(false)
	b.relay(t, "second", nil)
	b.settled(t)
	if events, _ := b.sound(t); len(events) != 20 {
		t.Errorf("%d events, want 20", len(events))
	}
}

// TestTakeOver: a relay that ends gives its lease away at once; one that dies is followed when its lease has run out.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	b := open(t, 2)
	first := b.relay(t, "first", func(c *relay.Config) { c.Lease = time.Hour })
	eventually(t, "the first leads both", func() bool { return first.metric(t, "paygrid_relay_leader") == 2 })
	first.stop()
	second := b.relay(t, "second", nil)
	eventually(t, "the second leads both", func() bool { return second.metric(t, "paygrid_relay_leader") == 2 })
	if n := first.metric(t, "paygrid_relay_leader"); n != 0 {
		t.Errorf("the first still says that it leads %v", n)
	}
}

// TestWakesWithItsProcess: a commit of the same process is published at once, not when an idle relay next looks.
func TestWakesWithItsProcess(t *testing.T) {
	t.Parallel()
	b := open(t, 1)
	r, err := relay.New(b.Cluster, relay.Config{Broker: relay.Broker{Seeds: b.seeds}, Topic: b.topic, Owner: "same", Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Poll: time.Hour})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	eventually(t, "it leads", func() bool { return b.layout.Count(t, "shard-1", "SELECT count(*) FROM leases") > 0 })
	for n := range 3 {
		b.opens(t, fmt.Sprintf("k-%d", n), payload{})
		b.settled(t)
	}
	cancel()
	must(t, <-done)
}

// TestRoundsArePaced: events that flow are gathered for as long as the configuration says, and one statement moves all their cursors.
func TestRoundsArePaced(t *testing.T) {
	t.Parallel()
	b := open(t, 1)
	const pace = time.Second
	var marked atomic.Int64
	began := time.Now()
	r := b.relay(t, "one", func(c *relay.Config) {
		c.Pace = pace
		c.Pause = func(at relay.Point) {
			if at == relay.PointMarked {
				marked.Add(1)
			}
		}
	})
	for n := range 100 {
		b.opens(t, fmt.Sprintf("k-%d", n), payload{})
	}
	b.settled(t)
	r.stop()
	if n, most := marked.Load(), int64(time.Since(began)/pace)+1; n > most {
		t.Errorf("%d rounds moved cursors, want at most %d", n, most)
	}
	if n := r.metric(t, "paygrid_relay_round_events"); int64(n) != marked.Load() {
		t.Errorf("the metric tells of %v rounds, want %d", n, marked.Load())
	}
	if events, duplicates := b.sound(t); len(events) != 100 || duplicates > 0 {
		t.Errorf("%d events, %d duplicates", len(events), duplicates)
	}
}

// TestPruneHoldsUpNothing: events are removed while a round is under way.
func TestPruneHoldsUpNothing(t *testing.T) {
	t.Parallel()
	b := open(t, 1)
	b.captures(t, b.opens(t, "old", payload{}))
	first := b.relay(t, "first", nil)
	b.settled(t)
	first.stop()
	b.layout.Exec(t, "shard-1", "UPDATE outbox SET created_at = created_at - INTERVAL '2 hours'")
	b.opens(t, "new", payload{})
	release := make(chan struct{})
	second := b.relay(t, "second", func(c *relay.Config) {
		c.Keep = time.Hour
		c.Pause = func(at relay.Point) {
			if at == relay.PointRead {
				<-release
			}
		}
	})
	defer close(release)
	eventually(t, "the old events go", func() bool { return second.metric(t, "paygrid_relay_pruned_total") == 2 })
}

// TestPrune: published events that are old enough go, what is held stays, and the relay goes on behind them.
func TestPrune(t *testing.T) {
	t.Parallel()
	b := open(t, 1)
	for n := range 30 {
		b.captures(t, b.opens(t, keyIn(shard.Bucket(n%3), n), payload{}))
	}
	bad := b.grown(t, b.opens(t, keyIn(1, 99), payload{}))
	b.captures(t, b.opens(t, keyIn(1, 100), payload{}))
	small := func(c *relay.Config) { c.MaxBytes, c.MaxTries, c.Backoff = smallBatch, 2, time.Millisecond }
	first := b.relay(t, "first", small)
	b.settled(t)
	first.stop()
	b.layout.Exec(t, "shard-1", "UPDATE outbox SET created_at = created_at - INTERVAL '2 hours' WHERE bucket = 0 AND seq <= 10 OR bucket = 1 OR bucket = 2 AND seq <> 3")
	second := b.relay(t, "second", func(c *relay.Config) {
		small(c)
		c.Keep = time.Hour
	})
	left := func(bucket int) int64 {
		return b.layout.Count(t, "shard-1", "SELECT count(*) FROM outbox WHERE bucket = $1", bucket)
	}
	eventually(t, "the old events go", func() bool { return second.metric(t, "paygrid_relay_pruned_total") >= 10+21+2 })
	// Of bucket 0 ten of twenty are old; of bucket 1 the held event and the two after it stay; of bucket 2 the third is young.
	if a, c, d := left(0), left(1), left(2); a != 10 || c != 3 || d != 18 {
		t.Errorf("%d, %d and %d events are left, want 10, 3 and 18", a, c, d)
	}
	b.captures(t, b.opens(t, keyIn(0, 200), payload{}))
	b.layout.Exec(t, "shard-1", "UPDATE outbox SET payload = '{}' WHERE payment_id = $1", bad.ID)
	must(t, b.Redrive(context.Background(), bad.ID))
	b.settled(t)
	if n := len(b.published(t)); n != 66 {
		t.Errorf("%d records on the topic, want 66", n)
	}
}

// TestConfig: what cannot work is refused by name.
func TestConfig(t *testing.T) {
	t.Parallel()
	good := relay.Config{Broker: relay.Broker{Seeds: []string{"127.0.0.1:9092"}}, Owner: "w", Now: time.Now, Log: slog.Default()}
	for _, test := range []struct {
		want   string
		change func(*relay.Config)
	}{
		{"", func(*relay.Config) {}},
		{"Owner", func(c *relay.Config) { c.Owner = "" }},
		{"Now", func(c *relay.Config) { c.Now = nil }},
		{"Log", func(c *relay.Config) { c.Log = nil }},
		{"Keep", func(c *relay.Config) { c.Keep = time.Minute }},
		{"", func(c *relay.Config) { c.Keep = time.Hour }},
		{"limit", func(c *relay.Config) { c.Batch = -1 }},
		{"time", func(c *relay.Config) { c.Pace = -time.Second }},
		{"time", func(c *relay.Config) { c.Poll = -time.Second }},
		{"Seeds", func(c *relay.Config) { c.Broker.Seeds = nil }},
		{"CAFile", func(c *relay.Config) { c.Broker.TLS = &relay.TLS{CAFile: "no-such-file"} }},
		{"CertFile", func(c *relay.Config) { c.Broker.TLS = &relay.TLS{CertFile: "no-such-file"} }},
		{"PLAIN, SCRAM", func(c *relay.Config) { c.Broker.SASL = &relay.SASL{Mechanism: "GSSAPI"} }},
		{"", func(c *relay.Config) {
			c.Broker.SASL = &relay.SASL{Mechanism: "SCRAM-SHA-512", User: "u", Password: "p"}
		}},
	} {
		c := good
		test.change(&c)
		_, err := relay.New(nil, c)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want it to name %q", err, test.want)
		}
	}
}

// TestLogIn: with PLAIN and SCRAM the right password gets in.
func TestLogIn(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser(mechanism, "relay", "right"))
		must(t, err)
		for password, in := range map[string]bool{"right": true, "wrong": false} {
			b := &bench{seeds: fake.ListenAddrs()}
			if err := b.pingAs(t, relay.SASL{Mechanism: mechanism, User: "relay", Password: password}); (err == nil) != in {
				t.Errorf("%s with the %s password: %v", mechanism, password, err)
			}
		}
		fake.Close()
	}
}
