package consume

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Read calls visit with every event of a topic from its beginning: to the end that it had when Read began, or, with follow,
// until ctx ends. What is no event goes to wrong, if that is not nil. It stops at the first error of either. client must not
// consume anything else.
func Read(ctx context.Context, client *kgo.Client, topic string, follow bool, visit func(Event) error, wrong func(*EventError) error) error {
	ends, err := endsOf(ctx, client, topic)
	if err != nil {
		return err
	}
	from := map[int32]kgo.Offset{}
	for partition, end := range ends {
		if follow || end.start < end.end {
			from[partition] = kgo.NewOffset().AtStart()
		}
	}
	if len(from) == 0 {
		return nil
	}
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: maps.Clone(from)})
	open := from // partitions whose end has not come yet
	for len(open) > 0 || follow {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); ctx.Err() != nil || errors.Is(err, kgo.ErrClientClosed) {
			return ctx.Err()
		}
		for _, failed := range fetches.Errors() {
			return fmt.Errorf("read %s partition %d: %w", failed.Topic, failed.Partition, failed.Err)
		}
		for records := fetches.RecordIter(); !records.Done(); {
			r := records.Next()
			if err := visitRecord(r, visit, wrong); err != nil {
				return err
			}
			if r.Offset >= ends[r.Partition].end-1 {
				delete(open, r.Partition)
			}
		}
	}
	return nil
}

func visitRecord(r *kgo.Record, visit func(Event) error, wrong func(*EventError) error) error {
	e, err := Parse(r)
	var bad *EventError
	switch {
	case err == nil:
		return visit(e)
	case errors.As(err, &bad) && wrong != nil:
		return wrong(bad)
	}
	return err
}

// ends is where a partition begins and ends; end is the offset after the last record.
type ends struct{ start, end int64 }

func endsOf(ctx context.Context, client *kgo.Client, topic string) (map[int32]ends, error) {
	admin := kadm.NewClient(client)
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("offsets of %s: %w", topic, err)
	}
	last, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("offsets of %s: %w", topic, err)
	}
	if err := errors.Join(starts.Error(), last.Error()); err != nil {
		return nil, fmt.Errorf("offsets of %s: %w", topic, err)
	}
	out := map[int32]ends{}
	last.Each(func(o kadm.ListedOffset) {
		start, _ := starts.Lookup(topic, o.Partition)
		out[o.Partition] = ends{start.Offset, o.Offset}
	})
	return out, nil
}
