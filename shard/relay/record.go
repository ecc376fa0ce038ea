package relay

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"paygrid/shard"
)

// record makes the Kafka record of an event: CloudEvents 1.0, binary mode. The same event always is the same key, headers and
// value, so duplicates are equal.
func record(e shard.PostedEvent, source string) *kgo.Record {
	return &kgo.Record{
		Key:   []byte(e.PaymentID),
		Value: e.Payload,
		Headers: []kgo.RecordHeader{
			header("ce_specversion", "1.0"),
			header("ce_id", shard.EventID(e.Bucket, e.Seq)),
			header("ce_source", source),
			header("ce_type", e.Type),
			header("ce_subject", e.PaymentID),
			header("ce_time", e.CreatedAt.UTC().Format(time.RFC3339Nano)),
			header("content-type", "application/json"),
		},
	}
}

func header(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}
