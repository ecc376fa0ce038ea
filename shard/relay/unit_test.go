package relay

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"paygrid/shard"
)

// TestShare: a batch is never larger than its limit, never leaves out events of a bucket, and over the turns serves everybody.
func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.Int64Range(1, 50), 1, 40).Draw(t, "lengths")
		limit := rapid.IntRange(1, 60).Draw(t, "limit")
		var waiting []shard.Stretch
		var left int64
		for n, length := range lengths {
			waiting = append(waiting, shard.Stretch{Bucket: shard.Bucket(n), After: 10, Through: 10 + length})
			left += length
		}
		for turn := 1; left > 0; turn++ {
			if turn > 5000 {
				t.Fatal("somebody is never served")
			}
			out, more := share(waiting, limit, turn)
			var sum int64
			for _, s := range out {
				if s.Through <= s.After || s.After != waiting[s.Bucket].After || s.Through > waiting[s.Bucket].Through {
					t.Fatalf("%+v of %+v", s, waiting[s.Bucket])
				}
				sum += s.Through - s.After
				waiting[s.Bucket].After = s.Through
			}
			left -= sum
			if sum > int64(limit) || sum == 0 || more != (left > 0) {
				t.Fatalf("%d of at most %d, %d left, more %v", sum, limit, left, more)
			}
			var open []shard.Stretch
			for _, w := range waiting {
				if w.Through > w.After {
					w.Bucket = shard.Bucket(len(open))
					open = append(open, w)
				}
			}
			waiting = open
		}
	})
}

func TestChains(t *testing.T) {
	event := func(payment string, seq int64, held bool) shard.OutboxEvent {
		return shard.OutboxEvent{PostedEvent: shard.PostedEvent{PaymentID: payment, Seq: seq}, Held: held}
	}
	got := chains([]shard.OutboxEvent{event("a", 1, false), event("b", 2, true), event("c", 3, false), event("a", 4, false), event("b", 5, true)})
	if len(got) != 2 || len(got[0]) != 2 || got[0][0].Seq != 1 || got[0][1].Seq != 4 || len(got[1]) != 1 || got[1][0].PaymentID != "c" {
		t.Errorf("%+v", got)
	}
}

func TestBlame(t *testing.T) {
	for _, test := range []struct {
		err  error
		want fault
	}{
		{kerr.MessageTooLarge, faultEvent}, {kerr.InvalidRecord, faultEvent}, {fmt.Errorf("wrapped: %w", kerr.RecordListTooLarge), faultEvent},
		{kerr.PolicyViolation, faultEvent},
		{kerr.NotLeaderForPartition, faultBroker}, {kerr.RequestTimedOut, faultBroker}, {kerr.TopicAuthorizationFailed, faultBroker},
		{kgo.ErrClientClosed, faultBroker}, {context.Canceled, faultBroker}, {io.EOF, faultBroker}, {kerr.SaslAuthenticationFailed, faultBroker},
		{kerr.UnknownTopicOrPartition, faultBroker}, {kerr.OutOfOrderSequenceNumber, faultBroker},
		{kerr.UnknownServerError, faultUnclear}, {kerr.InvalidRequest, faultUnclear},
	} {
		if got := blame(test.err); got != test.want {
			t.Errorf("%v is blamed on %s, want %s", test.err, got, test.want)
		}
	}
	for works, want := range map[bool]bool{true: true, false: false} {
		if isEvents(kerr.UnknownServerError, works) != want {
			t.Errorf("with the broker taking others %v, an unclear fault is the event's: %v", works, !want)
		}
	}
}

// TestRefused walks a payment from its first refusal to being parked, and re-driven in vain.
func TestRefused(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r := &Relay{config: Config{MaxTries: 8, Backoff: time.Second, Now: func() time.Time { return now }, Log: slog.Default()}.withDefaults()}
	term := &term{relay: r}
	p := shard.ParkedPayment{PaymentID: "a", Seq: 1}
	for try := 1; try <= 8; try++ {
		p = term.refused(p, kerr.InvalidRecord)
		longest := min(time.Second<<(try-1), longestBackoff)
		pause := p.NextTryAt.Sub(now)
		if p.Tries != int32(try) || pause < longest/2 || pause > longest {
			t.Errorf("try %d: %d tries, the next after %s", try, p.Tries, pause)
		}
		if want := map[bool]shard.Status{true: shard.ParkParked, false: shard.ParkRetrying}[try == 8]; p.State != want {
			t.Errorf("try %d: %s, want %s", try, p.State, want)
		}
	}
	p.State, p.Tries = shard.ParkRedrive, 0
	if p = term.refused(p, kerr.InvalidRecord); p.State != shard.ParkParked || p.Tries != 1 || p.Reason == "" {
		t.Errorf("re-driven in vain: %+v", p)
	}
}

// TestRecord: the same event always is the same record, and the CloudEvents attributes are there.
func TestRecord(t *testing.T) {
	e := shard.PostedEvent{Event: shard.Event{Type: "payment.captured", Payload: []byte(`{"a": 1}`)}, Bucket: 42, Seq: 7, PaymentID: "pay_1",
		CreatedAt: time.Date(2026, 11, 30, 13, 0, 0, 5000, time.FixedZone("", 3600))}
	r := record(e, "paygrid")
	want := map[string]string{"ce_specversion": "1.0", "ce_id": "evt_0042_7", "ce_source": "paygrid", "ce_type": "payment.captured", "ce_subject": "pay_1",
		"ce_time": "2026-11-30T12:00:00.000005Z", "content-type": "application/json"}
	for _, h := range r.Headers {
		if want[h.Key] != string(h.Value) {
			t.Errorf("%s is %q, want %q", h.Key, h.Value, want[h.Key])
		}
		delete(want, h.Key)
	}
	if len(want) > 0 || string(r.Key) != "pay_1" || string(r.Value) != `{"a": 1}` {
		t.Errorf("missing %v, key %s, value %s", want, r.Key, r.Value)
	}
}
