package relay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"paygrid/shard"
	"paygrid/shard/relay"
)

// childSpec says what a child process does; it travels as JSON in childEnv.
type childSpec struct {
	Map, Topic string
	Seeds      []string
	Die        relay.Point // kill -9 itself when it first comes here; "" = never
}

// childRelay is main of a child: one relay, until it dies.
func childRelay(text string) int {
	var spec childSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := childRun(ctx, spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func childRun(ctx context.Context, spec childSpec) error {
	cluster, err := shard.Open(ctx, shard.NewMapFile(spec.Map), shard.Options{Now: time.Now}, nil)
	if err != nil {
		return err
	}
	defer cluster.Close()
	r, err := relay.New(cluster, relay.Config{Broker: relay.Broker{Seeds: spec.Seeds}, Topic: spec.Topic, Owner: fmt.Sprintf("child-%d", os.Getpid()),
		Lease: time.Second, MaxBytes: smallBatch, MaxTries: 2, Backoff: time.Millisecond, Batch: 20, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Pause: func(at relay.Point) {
			if at == spec.Die { // as kill -9 does: nothing deferred runs, nothing is flushed
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // the signal is on its way
			}
		}})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// smallBatch is less than a grown event takes.
const smallBatch = 2048

// child is a relay in a process of its own.
type child struct{ cmd *exec.Cmd }

func (b *bench) child(t *testing.T, die relay.Point) child {
	t.Helper()
	text, err := json.Marshal(childSpec{Map: b.layout.MapPath, Topic: b.topic, Seeds: b.seeds, Die: die})
	must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return child{cmd}
}

// dies waits for the kill.
func (c child) dies(t *testing.T) {
	t.Helper()
	late := time.AfterFunc(time.Minute, func() { _ = c.cmd.Process.Signal(syscall.SIGTERM) })
	defer late.Stop()
	_ = c.cmd.Wait() // says that it was killed, which is looked at below
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the relay did not come to its point: %s", c.cmd.ProcessState)
	}
}

// TestKilledAtEachPoint kills a relay at every point of a round, with a payment that can be sent only after it was mended; then another
// takes over.
func TestKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	for _, point := range relay.Points() {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			b := open(t, 2)
			var bad shard.Payment
			for n := range 40 {
				p := b.opens(t, fmt.Sprintf("k-%d", n), payload{})
				if n == 0 {
					bad = b.grown(t, p) // larger than the relay sends
					b.grown(t, bad)
					continue
				}
				b.captures(t, p)
			}
			b.child(t, point).dies(t)
			b.relay(t, "after", func(c *relay.Config) {
				c.MaxBytes, c.MaxTries, c.Backoff, c.Batch = smallBatch, 2, time.Millisecond, 20
			})
			b.settled(t)
			if events, _ := b.sound(t); len(events) != 79 {
				t.Errorf("%d events, want 79", len(events))
			}
			name := b.Map().Owner(bucketOf(t, bad.ID)).Shard
			if parked := b.parked(t, name); len(parked) != 1 || parked[0].PaymentID != bad.ID {
				t.Fatalf("parked: %+v", parked)
			}
			b.layout.Exec(t, name, "UPDATE outbox SET payload = '{}' WHERE payment_id = $1", bad.ID)
			must(t, b.Redrive(context.Background(), bad.ID))
			b.settled(t)
			if events, _ := b.sound(t); len(events) != 81 || len(b.parked(t, name)) != 0 {
				t.Errorf("%d events after the re-drive, want 81", len(events))
			}
		})
	}
}

func bucketOf(t *testing.T, payment string) shard.Bucket {
	t.Helper()
	b, err := shard.BucketOfID(shard.PaymentPrefix, payment)
	must(t, err)
	return b
}
