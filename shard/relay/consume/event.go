package consume

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Buckets is how many logs the events come from.
const Buckets = 4096

// Event is a CloudEvent as it lies on the topic. Data is the payload, JSON by the schema of its type.
type Event struct {
	ID        string          `json:"id"` // evt_<bucket>_<seq>
	Source    string          `json:"source"`
	Type      string          `json:"type"`    // such as payment.captured
	Payment   string          `json:"subject"` // the record's key too
	Time      time.Time       `json:"time"`
	Bucket    int             `json:"-"`
	Seq       int64           `json:"-"`
	Data      json.RawMessage `json:"data"`
	Partition int32           `json:"-"`
	Offset    int64           `json:"-"`
}

// EventError is a record that is no event of paygrid's.
type EventError struct {
	Partition int32
	Offset    int64
	Detail    string
}

func (e *EventError) Error() string {
	return fmt.Sprintf("partition %d offset %d: %s", e.Partition, e.Offset, e.Detail)
}

// Parse reads an event from a record, or returns an *EventError.
func Parse(r *kgo.Record) (Event, error) {
	wrong := func(format string, args ...any) (Event, error) {
		return Event{}, &EventError{Partition: r.Partition, Offset: r.Offset, Detail: fmt.Sprintf(format, args...)}
	}
	headers := make(map[string]string, len(r.Headers))
	for _, h := range r.Headers {
		headers[h.Key] = string(h.Value)
	}
	if v := headers["ce_specversion"]; v != "1.0" {
		return wrong("ce_specversion is %q, want 1.0", v)
	}
	e := Event{ID: headers["ce_id"], Source: headers["ce_source"], Type: headers["ce_type"], Payment: headers["ce_subject"], Data: r.Value,
		Partition: r.Partition, Offset: r.Offset}
	var err error
	if e.Bucket, e.Seq, err = ParseID(e.ID); err != nil {
		return wrong("ce_id: %v", err)
	}
	if e.Time, err = time.Parse(time.RFC3339Nano, headers["ce_time"]); err != nil {
		return wrong("ce_time: %v", err)
	}
	switch {
	case e.Source == "" || e.Type == "":
		return wrong("%s: ce_source or ce_type is missing", e.ID)
	case e.Payment == "" || string(r.Key) != e.Payment:
		return wrong("%s: its key is %q, its subject %q", e.ID, r.Key, e.Payment)
	case headers["content-type"] != "application/json" || !json.Valid(r.Value):
		return wrong("%s: its value is not JSON (content-type %q)", e.ID, headers["content-type"])
	}
	return e, nil
}

// ParseID reads bucket and number from an event's ID.
func ParseID(id string) (bucket int, seq int64, err error) {
	parts := strings.Split(id, "_")
	if len(parts) == 3 && parts[0] == "evt" && len(parts[1]) == 4 {
		n, errBucket := strconv.ParseUint(parts[1], 10, 16)
		seq, errSeq := strconv.ParseInt(parts[2], 10, 64)
		if errBucket == nil && errSeq == nil && n < Buckets && seq > 0 && parts[2] == strconv.FormatInt(seq, 10) {
			return int(n), seq, nil
		}
	}
	return 0, 0, fmt.Errorf("%q is not of the form evt_<bucket>_<seq>", id)
}
