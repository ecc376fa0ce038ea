package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"paygrid/shard"
)

// chain is what a round publishes of one payment, in order.
type chain []shard.PostedEvent

// chains sorts a round's events by payment, without those that must wait behind a held one.
func chains(events []shard.OutboxEvent) []chain {
	at := map[string]int{}
	var out []chain
	for _, e := range events {
		if e.Held {
			continue
		}
		n, ok := at[e.PaymentID]
		if !ok {
			n = len(out)
			at[e.PaymentID] = n
			out = append(out, nil)
		}
		out[n] = append(out[n], e.PostedEvent)
	}
	return out
}

// result is how a chain ended: with err at its first event that was not acknowledged.
type result struct {
	rest chain
	err  error
}

// publish sends what may be sent, and returns the payments that are now held. It returns an error if the broker, not an event, is at
// fault; then nothing may be marked.
func (t *term) publish(ctx context.Context, events []shard.OutboxEvent) ([]shard.ParkedPayment, error) {
	all := chains(events)
	results := make(chan result, len(all)) // has room for all: a promise never waits, even when nobody listens any more
	for _, c := range all {
		t.send(c, results)
	}
	var suspects []chain
	for ended := range all {
		var end result
		select {
		case end = <-results:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if ended == 0 && end.err == nil {
			t.pause(PointFirst)
		}
		switch {
		case end.err == nil:
		case blame(end.err) == faultBroker:
			return nil, fmt.Errorf("publish: %w", end.err)
		default:
			suspects = append(suspects, end.rest)
		}
	}
	return t.sendSuspects(ctx, suspects, len(suspects) < len(all))
}

// send sends the first event of a chain, and the next when it is acknowledged. The record has a context that never ends; see
// the package's page.
func (t *term) send(rest chain, results chan<- result) {
	if rest[0].Payload == nil { // larger than any batch may be: it was not even read
		t.count(rest[0], kerr.MessageTooLarge)
		results <- result{rest, kerr.MessageTooLarge}
		return
	}
	t.client.Produce(context.Background(), record(rest[0], t.relay.config.Source), func(_ *kgo.Record, err error) {
		t.count(rest[0], err)
		switch {
		case err != nil:
			results <- result{rest, err}
		case len(rest) == 1:
			results <- result{}
		default:
			t.send(rest[1:], results)
		}
	})
}

func (t *term) count(e shard.PostedEvent, err error) {
	if err != nil {
		t.relay.metrics.errors.WithLabelValues(t.shard, blame(err).String()).Inc()
		return
	}
	t.metrics.published.Inc()
	t.metrics.delay.Observe(t.relay.config.Now().Sub(e.CreatedAt).Seconds())
}

// sendSuspects sends again, each alone, what failed beside others: a refused record takes its whole batch with it. works says
// that the broker took something in this round, so that a fault that could be either's is the event's.
func (t *term) sendSuspects(ctx context.Context, suspects []chain, works bool) ([]shard.ParkedPayment, error) {
	var held []shard.ParkedPayment
	for n := 0; n < len(suspects); n++ {
		rest, err := t.sendAlone(ctx, suspects[n])
		works = works || len(rest) < len(suspects[n])
		switch {
		case err == nil:
		case isEvents(err, works):
			held = append(held, t.refused(shard.ParkedPayment{Bucket: rest[0].Bucket, PaymentID: rest[0].PaymentID, Seq: rest[0].Seq}, err))
		default:
			return nil, fmt.Errorf("publish alone: %w", err)
		}
	}
	return held, nil
}

// sendAlone sends the events of a chain with nothing else under way, and returns what is left when one was not acknowledged.
func (t *term) sendAlone(ctx context.Context, rest chain) (chain, error) {
	for ; len(rest) > 0; rest = rest[1:] {
		results := make(chan result, 1)
		t.send(rest[:1], results)
		select {
		case end := <-results:
			if end.err != nil {
				return rest, end.err
			}
		case <-ctx.Done():
			return rest, ctx.Err()
		}
	}
	return nil, nil
}

// fault is whose fault it is that a record was not acknowledged.
type fault uint8

const (
	faultUnclear fault = iota
	faultEvent
	faultBroker
)

func (f fault) String() string { return [...]string{"unclear", "event", "broker"}[f] }

// Faults by the broker's word. What it may take back, the producer has tried for ever already.
var (
	eventsFaults = []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.PolicyViolation,
		kerr.UnsupportedForMessageFormat}
	brokersFaults = []error{kgo.ErrClientClosed, kgo.ErrRecordTimeout, kgo.ErrRecordRetries, kgo.ErrMaxBuffered, context.Canceled,
		context.DeadlineExceeded, kerr.UnknownTopicOrPartition, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed,
		kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState,
		kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.ProducerFenced,
		kerr.InvalidRequiredAcks, kerr.UnsupportedVersion}
)

// blame tells whose fault an error is.
func blame(err error) fault {
	for _, known := range eventsFaults {
		if errors.Is(err, known) {
			return faultEvent
		}
	}
	for _, known := range brokersFaults {
		if errors.Is(err, known) {
			return faultBroker
		}
	}
	var told *kerr.Error
	if kerr.IsRetriable(err) || !errors.As(err, &told) {
		return faultBroker // not the broker's word at all: a connection, a name that does not resolve, …
	}
	return faultUnclear
}

// isEvents tells whether an event that failed alone is at fault. Where the broker's word leaves it open, it is if the broker
// took others.
func isEvents(err error, works bool) bool {
	return blame(err) == faultEvent || blame(err) == faultUnclear && works
}

// maxReason bounds what is kept of the broker's words.
const maxReason = 300

// longestBackoff bounds the pause between two tries of an event.
const longestBackoff = time.Minute

// refused is a held payment after one more refusal: tried again later, or parked.
func (t *term) refused(p shard.ParkedPayment, err error) shard.ParkedPayment {
	config := t.relay.config
	p.Tries++
	p.Reason = err.Error()
	p.Reason = p.Reason[:min(len(p.Reason), maxReason)]
	backoff := min(config.Backoff<<min(p.Tries-1, 16), longestBackoff)
	p.NextTryAt = config.Now().Add(jitter(backoff))
	if int(p.Tries) >= config.MaxTries || p.State == shard.ParkRedrive {
		p.State = shard.ParkParked
	} else {
		p.State = shard.ParkRetrying
	}
	return p
}
