package main

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"paygrid/loadtest"
)

// forgedEventIsFound: a run whose broker was down has read the topic, and what nobody committed is a finding.
func forgedEventIsFound(t *testing.T, c *cluster) {
	t.Helper()
	findings := func(kind loadtest.FaultKind, ok bool) []string {
		t.Helper()
		r := &loadtest.Report{Books: &loadtest.BooksRow{}}
		run := &trial{c: c, progress: io.Discard, o: runOptions{settle: time.Minute}}
		run.saboteur.rows = []loadtest.FaultRow{{Fault: loadtest.Fault{Kind: kind}, OK: ok}}
		if err := run.checkTopic(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		return r.Books.Findings
	}
	if found := findings(loadtest.KafkaDown, true); len(found) > 0 {
		t.Errorf("findings on a sound topic: %v", found)
	}
	data, err := os.ReadFile(c.config)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Events struct {
			Brokers []string
			Topic   string
		}
	}
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(config.Events.Brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: config.Events.Topic, Value: []byte("forged")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if found := findings(loadtest.KafkaDown, true); len(found) < 2 || !strings.Contains(found[len(found)-1], "topic: EVENTS CHECK FAIL") {
		t.Errorf("a forged event: %v", found)
	}
	if found := slices.Concat(findings(loadtest.KafkaDown, false), findings(loadtest.KillRouter, true)); len(found) > 0 {
		t.Errorf("the topic was read although the broker was never down: %v", found)
	}
}
