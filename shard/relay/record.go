package relay

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"paygrid/shard"
)

// Headers that are the same for all events; nobody changes what a record points to.
var (
	specVersion = header("ce_specversion", "1.0")
	contentType = header("content-type", "application/json")
)

// record makes the Kafka record of an event: CloudEvents 1.0, binary mode. The same event always is the same key, headers and
// value, so duplicates are equal.
func record(e shard.PostedEvent, source string) *kgo.Record {
	payment := []byte(e.PaymentID)
	return &kgo.Record{
		Key:   payment,
		Value: e.Payload,
		Headers: []kgo.RecordHeader{
			specVersion,
			header("ce_id", shard.EventID(e.Bucket, e.Seq)),
			header("ce_source", source),
			header("ce_type", e.Type),
			{Key: "ce_subject", Value: payment},
			header("ce_time", e.CreatedAt.UTC().Format(time.RFC3339Nano)),
			contentType,
		},
	}
}

func header(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}
