package main

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pb33f/jsonschema/v6"
	"github.com/twmb/franz-go/pkg/kgo"

	"paygrid/payment"
	"paygrid/shard"
	"paygrid/shard/relay"
	"paygrid/shard/relay/consume"
)

// unpublished counts the events of the grid that wait for a relay; -1 while a shard does not say.
func (g *testGrid) unpublished(t *testing.T) (sum int64) {
	t.Helper()
	shards, err := openShards(t.Context(), g.MapPath)
	if err != nil {
		t.Fatal(err)
	}
	defer shards.Close()
	for _, name := range shards.ShardNames() {
		n, _, err := shards.RelayLag(t.Context(), name)
		if err != nil {
			return -1
		}
		sum += n
	}
	return sum
}

// published waits until none does.
func (g *testGrid) published(t *testing.T) {
	t.Helper()
	eventually(t, "all events are published", func() bool { return g.unpublished(t) == 0 })
}

// TestEvents: a cluster's payments are on the topic, in order and by their schemas; the commands say so, and say otherwise when
// something was planted.
func TestEvents(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Events: true, WorkEvery: 50 * time.Millisecond})
	id, path := charge10(t, g.callers[0], "events")
	g.callers[1].post(t, path+"/refunds", "k-refund", eur(6000)).want(t, http.StatusCreated)
	g.callers[1].pay(t, "k-declined", p10("o-declined", "pm_declined", "automatic"))
	g.published(t)

	code, out, errs := paygrid(t, "events", "tail", "--config", g.ConfigPath, "--payment", id)
	if code != exitOK || errs != "" {
		t.Fatalf("exit code %d, %s", code, errs)
	}
	var types []string
	for line := range strings.Lines(out) {
		types = append(types, followsSchema(t, line))
	}
	if len(types) < 4 || types[0] != payment.EventProcessing || types[len(types)-1] != payment.EventRefundSucceeded {
		t.Errorf("the payment's events are %v", types)
	}
	check := func(want int, says string) {
		t.Helper()
		code, out, errs := paygrid(t, "events", "check", "--config", g.ConfigPath, "--map", g.MapPath)
		if code != want || errs != "" || !strings.Contains(out, says) {
			t.Errorf("exit code %d, %s\n%s\nwant %d and %q", code, errs, out, want, says)
		}
	}
	check(exitOK, "EVENTS CHECK PASS topic="+relay.DefaultTopic)
	if code, out, _ := paygrid(t, "events", "parked", "--map", g.MapPath, "--json"); code != exitOK || strings.TrimSpace(out) != "[]" {
		t.Errorf("parked: exit code %d, %s", code, out)
	}
	for _, unknown := range []string{id, "nonsense"} {
		if code, _, errs := paygrid(t, "events", "redrive", "--map", g.MapPath, unknown); code != exitFound || errs == "" {
			t.Errorf("redrive %s: exit code %d, %q", unknown, code, errs)
		}
	}
	g.forge(t, out)
	check(exitFound, "a duplicate differs")
	g.exec(t, g.shardOf(t, "k-declined"), "UPDATE relay_cursors SET seq = seq + 1 WHERE bucket = $1", int32(shard.BucketOf("shop_a", "k-declined")))
	check(exitFound, "is missing")
}

// followsSchema holds one line of tail to the schema of its type in docs/events.
func followsSchema(t *testing.T, line string) string {
	t.Helper()
	var e consume.Event
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatal(err)
	}
	s, err := jsonschema.NewCompiler().Compile(filepath.Join("../../docs/events", e.Type+".schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := jsonschema.UnmarshalJSON(strings.NewReader(string(e.Data)))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(data); err != nil {
		t.Errorf("%s: %v", e.ID, err)
	}
	return e.Type
}

// forge puts an event on the topic that has the ID of the first of tail's and another content.
func (g *testGrid) forge(t *testing.T, tail string) {
	t.Helper()
	line, _, _ := strings.Cut(tail, "\n")
	var e consume.Event
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(g.Events.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	record := &kgo.Record{Topic: g.Events.Topic, Key: []byte(e.Payment), Value: []byte(`{"forged": true}`)}
	for key, value := range map[string]string{"ce_specversion": "1.0", "ce_id": e.ID, "ce_source": e.Source, "ce_type": e.Type, "ce_subject": e.Payment,
		"ce_time": e.Time.Format(time.RFC3339Nano), "content-type": "application/json"} {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
	}
	if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// TestServeRelay: a relay in a process of its own publishes what routers without background work commit, and needs a broker.
func TestServeRelay(t *testing.T) {
	t.Parallel()
	g := newGrid(t, gridOptions{Events: true, Shards: 2, Routers: 1})
	charge10(t, g.callers[0], "served")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	var out strings.Builder
	go func() {
		done <- runServeRelay(ctx, env{&out, &strings.Builder{}}, []string{"--config", g.ConfigPath, "--listen", "127.0.0.1:0"})
	}()
	g.published(t)
	cancel()
	if err := <-done; err != nil || !strings.Contains(out.String(), "paygrid relay ready url=http://") {
		t.Errorf("%v, %q", err, out.String())
	}
	without := newGrid(t, gridOptions{Shards: 1, Routers: 1})
	for _, args := range [][]string{{"serve", "relay"}, {"serve", "relay", "--config", without.ConfigPath, "--listen", "127.0.0.1:0"},
		{"events", "tail", "--config", without.ConfigPath}} {
		if code, _, errs := paygrid(t, args...); code == exitOK || errs == "" {
			t.Errorf("%v: exit code %d, %q", args, code, errs)
		}
	}
}

// TestEventsFromTheEnvironment lays the environment over the file. It is not parallel: the environment is the process'.
func TestEventsFromTheEnvironment(t *testing.T) {
	file := eventsConfig{Brokers: []string{"file:1"}, Topic: "file"}
	if got := (routerConfig{Events: &file}).events(); got.Brokers[0] != "file:1" || got.Topic != "file" || got.TLS != nil || got.SASL != nil {
		t.Errorf("%+v", got)
	}
	if got := (routerConfig{}).events(); len(got.Brokers) != 0 || got.Topic != relay.DefaultTopic {
		t.Errorf("%+v", got)
	}
	for name, value := range map[string]string{"KAFKA_BROKERS": "a:1,b:2", "KAFKA_TOPIC": "t", "KAFKA_TLS_CA_FILE": "roots.pem",
		"KAFKA_SASL_MECHANISM": "SCRAM-SHA-512", "KAFKA_SASL_USER": "u", "KAFKA_SASL_PASSWORD": "p"} {
		t.Setenv(name, value)
	}
	got := (routerConfig{Events: &file}).events()
	broker, err := got.broker()
	if err != nil || len(broker.Seeds) != 2 || broker.Seeds[1] != "b:2" || got.Topic != "t" || broker.TLS.CAFile != "roots.pem" ||
		*broker.SASL != (relay.SASL{Mechanism: "SCRAM-SHA-512", User: "u", Password: "p"}) {
		t.Errorf("%+v, %+v, %v", got, broker, err)
	}
	t.Setenv("KAFKA_SASL_PASSWORD", "")
	if _, err := got.broker(); err == nil || !strings.Contains(err.Error(), "KAFKA_SASL_PASSWORD") {
		t.Errorf("without a password: %v", err)
	}
}
