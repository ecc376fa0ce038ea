package consume_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"paygrid/shard/relay/consume"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// record is a good event, with headers changed as wanted.
func record(bucket int, seq int64, payment string, change map[string]string) *kgo.Record {
	headers := map[string]string{"ce_specversion": "1.0", "ce_id": fmt.Sprintf("evt_%04d_%d", bucket, seq), "ce_source": "paygrid",
		"ce_type": "payment.captured", "ce_subject": payment, "ce_time": "2026-11-30T12:00:00.123456Z", "content-type": "application/json"}
	for key, value := range change {
		headers[key] = value
	}
	r := &kgo.Record{Key: []byte(payment), Value: []byte(`{"captured": 100}`)}
	for key, value := range headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
	}
	return r
}

func event(t testing.TB, bucket int, seq int64, payment string) consume.Event {
	t.Helper()
	e, err := consume.Parse(record(bucket, seq, payment, nil))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestParse(t *testing.T) {
	e := event(t, 42, 7, "pay_1")
	if e.Bucket != 42 || e.Seq != 7 || e.Payment != "pay_1" || e.Type != "payment.captured" || string(e.Data) != `{"captured": 100}` ||
		!e.Time.Equal(time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC)) {
		t.Errorf("%+v", e)
	}
	for header, value := range map[string]string{"ce_specversion": "0.3", "ce_id": "evt_42_7", "ce_source": "", "ce_type": "", "ce_subject": "another",
		"ce_time": "yesterday", "content-type": "text/plain"} {
		var bad *consume.EventError
		if _, err := consume.Parse(record(42, 7, "pay_1", map[string]string{header: value})); !errors.As(err, &bad) {
			t.Errorf("%s %q: %v", header, value, err)
		}
	}
	torn := record(42, 7, "pay_1", nil)
	torn.Value = torn.Value[:5]
	if _, err := consume.Parse(torn); err == nil {
		t.Error("half a value was taken")
	}
}

func FuzzParseID(f *testing.F) {
	for _, id := range []string{"evt_0042_7", "evt_4096_1", "evt_42_1", "evt_0042_0", "evt_0042_01", "evt_0042_-1", "evt__", ""} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		bucket, seq, err := consume.ParseID(id)
		if err == nil && (fmt.Sprintf("evt_%04d_%d", bucket, seq) != id || bucket >= consume.Buckets || seq < 1) {
			t.Errorf("%q is read as %d, %d", id, bucket, seq)
		}
	})
}

// TestSeen: however events mix and repeat, each is first exactly once.
func TestSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seqs := rapid.SliceOfN(rapid.Int64Range(1, 30), 0, 100).Draw(t, "seqs")
		seen, model := consume.NewSeen(0), map[int64]bool{}
		for _, seq := range seqs {
			if got := seen.First(1, seq); got == model[seq] {
				t.Fatalf("%d: first %v", seq, got)
			}
			model[seq] = true
		}
		through := int64(0)
		for model[through+1] {
			through++
		}
		if seen.Through(1) != through || seen.Through(2) != 0 {
			t.Fatalf("through %d, want %d", seen.Through(1), through)
		}
	})
}

// TestSeenLimit: with the limit reached an event can be called first again, but a new one is never called seen.
func TestSeenLimit(t *testing.T) {
	seen := consume.NewSeen(2)
	for _, seq := range []int64{3, 4, 5, 6} {
		if !seen.First(1, seq) {
			t.Errorf("%d is new", seq)
		}
	}
	for seq, first := range map[int64]bool{3: false, 4: false, 6: true} {
		if seen.First(1, seq) != first {
			t.Errorf("%d: first %v, want %v", seq, !first, first)
		}
	}
	seen.Start(2, 10)
	if seen.First(2, 10) || !seen.First(2, 11) || seen.Through(2) != 11 {
		t.Error("a start was not kept")
	}
	if seen.First(1, 1); seen.Through(1) != 1 {
		t.Errorf("through %d", seen.Through(1))
	}
	if seen.First(1, 2); seen.Through(1) != 4 {
		t.Errorf("through %d, want 4", seen.Through(1))
	}
}

// TestCheck plants each fault in a sound topic.
func TestCheck(t *testing.T) {
	sound := []consume.Event{event(t, 1, 1, "a"), event(t, 1, 3, "b"), event(t, 1, 2, "a"), event(t, 1, 1, "a"), event(t, 2, 1, "c"), event(t, 1, 4, "b"), event(t, 1, 2, "a")}
	other := event(t, 1, 2, "a")
	other.Data = []byte(`{"captured": 101}`)
	moved := event(t, 1, 2, "a")
	moved.Partition = 5
	for _, test := range []struct {
		what  string
		plant func(c *consume.Check, topic []consume.Event) []consume.Event
		want  string
	}{
		{"nothing", func(_ *consume.Check, e []consume.Event) []consume.Event { return e }, ""},
		{"a gap", func(_ *consume.Check, e []consume.Event) []consume.Event { return slices.Delete(e, 1, 2) }, "evt_0001_3 is missing"},
		{"a gap that is excused", func(c *consume.Check, e []consume.Event) []consume.Event {
			c.Excuse(1, 3)
			return slices.Delete(e, 1, 2)
		}, ""},
		{"no beginning", func(_ *consume.Check, e []consume.Event) []consume.Event { return e[1:3] }, "evt_0001_1 is missing"},
		{"no beginning, cut off", func(c *consume.Check, e []consume.Event) []consume.Event {
			c.Truncated()
			return e[1:3]
		}, ""},
		{"no end", func(c *consume.Check, e []consume.Event) []consume.Event {
			c.Expect(1, 0, 5)
			return e
		}, "evt_0001_5 is missing"},
		{"a bucket that is not there", func(c *consume.Check, e []consume.Event) []consume.Event {
			c.Expect(3, 0, 1)
			return e
		}, "evt_0003_1 is missing"},
		{"another order", func(_ *consume.Check, e []consume.Event) []consume.Event {
			e[0], e[2] = e[2], e[0]
			return e[:3]
		}, "evt_0001_1: payment a: it appears after number 2"},
		{"a duplicate that differs", func(_ *consume.Check, e []consume.Event) []consume.Event { return append(e, other) }, "evt_0001_2: a duplicate differs"},
		{"a duplicate in another partition", func(_ *consume.Check, e []consume.Event) []consume.Event { return append(e, moved) }, "evt_0001_2: a duplicate differs"},
	} {
		c := consume.NewCheck()
		for _, e := range test.plant(c, slices.Clone(sound)) {
			c.Add(e)
		}
		got := strings.Join(c.Finish(), "\n")
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", test.what, got, test.want)
		}
	}
}

func TestCheckTellsNotTooMuch(t *testing.T) {
	c := consume.NewCheck()
	c.Expect(1, 0, 1000)
	if got := c.Finish(); len(got) != 101 || got[100] != "and 900 more" {
		t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
	}
}

// TestRead reads a topic to its end, and on.
func TestRead(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "full"), kfake.SeedTopics(2, "empty"))
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	client := func() *kgo.Client {
		c, err := kgo.NewClient(kgo.SeedBrokers(fake.ListenAddrs()...))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	producer := client()
	defer producer.Close()
	send := func(r *kgo.Record) {
		r.Topic = "full"
		if err := producer.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Error(err)
		}
	}
	for n := range 100 {
		send(record(n, 1, fmt.Sprint("pay-", rand.Int64()), nil))
	}
	send(&kgo.Record{Value: []byte("no event")})
	read := func(topic string, follow bool, wrong func(*consume.EventError) error) (n int, err error) {
		c := client()
		defer c.Close()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		err = consume.Read(ctx, c, topic, follow, func(consume.Event) error {
			if n++; n == 101 {
				stop()
			}
			return nil
		}, wrong)
		return n, err
	}
	bad := 0
	pass := func(*consume.EventError) error { bad++; return nil }
	if n, err := read("full", false, pass); n != 100 || bad != 1 || err != nil {
		t.Errorf("%d events, %d others, %v", n, bad, err)
	}
	if n, err := read("empty", false, nil); n != 0 || err != nil {
		t.Errorf("%d events of an empty topic, %v", n, err)
	}
	if _, err := read("full", false, nil); err == nil {
		t.Error("what is no event was let pass in silence")
	}
	if _, err := read("unknown", false, nil); err == nil {
		t.Error("a topic that is not there was read")
	}
	go send(record(7, 2, "late", nil))
	if n, err := read("full", true, pass); n != 101 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d events, %v", n, err)
	}
}
