package shard

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// Buckets is how many buckets there are, for ever: the hash, the IDs and the shard map rest on it.
const Buckets = 4096

// Bucket is one of the 4,096 slots that payments are placed in.
type Bucket int32

// String is the four-digit form that IDs carry: "0042".
func (b Bucket) String() string {
	if b < 0 || b >= Buckets {
		return strconv.Itoa(int(b))
	}
	return string([]byte{'0' + byte(b/1000), '0' + byte(b/100%10), '0' + byte(b/10%10), '0' + byte(b%10)})
}

// BucketOf places a payment before any ID exists, from what the client sent:
// the first 8 bytes, big endian, of SHA-256(client ‖ 0x00 ‖ key), modulo 4,096. It never changes.
func BucketOf(client, key string) Bucket {
	sum := sha256.Sum256([]byte(client + "\x00" + key))
	return Bucket(binary.BigEndian.Uint64(sum[:8]) % Buckets)
}

// Prefixes of the IDs that carry a bucket.
const (
	PaymentPrefix = "pay"
	AttemptPrefix = "att"
	RefundPrefix  = "ref"
	changePrefix  = "chg"
)

const ulidLength = 26

// BucketOfID reads the bucket out of an ID such as pay_0123_01JD…; it returns an *IDError if id is not of that form.
func BucketOfID(prefix, id string) (Bucket, error) {
	head, rest, _ := strings.Cut(id, "_")
	number, unique, _ := strings.Cut(rest, "_")
	if head != prefix || len(number) != 4 || len(unique) != ulidLength {
		return 0, &IDError{Prefix: prefix, ID: id}
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n >= Buckets {
		return 0, &IDError{Prefix: prefix, ID: id}
	}
	if _, err := ulid.ParseStrict(unique); err != nil {
		return 0, &IDError{Prefix: prefix, ID: id}
	}
	return Bucket(n), nil
}

// IDError is returned for an ID that is not one of ours.
type IDError struct{ Prefix, ID string }

func (e *IDError) Error() string {
	return fmt.Sprintf("not an ID of the form %s_<bucket>_<ulid>: %q", e.Prefix, e.ID)
}

// NewID makes an ID in a bucket: the time in milliseconds and 80 random bits.
func NewID(prefix string, b Bucket, now time.Time) string {
	var id ulid.ULID
	// SetTime refuses only times past the year 10889; the random bits alone keep such an ID unique.
	_ = id.SetTime(ulid.Timestamp(now))
	_, _ = rand.Read(id[6:]) // crypto/rand never fails: it ends the program instead
	return prefix + "_" + b.String() + "_" + id.String()
}

// EventID is the CloudEvents ID of a change's event: evt_<bucket>_<seq>.
func EventID(b Bucket, seq int64) string {
	return "evt_" + b.String() + "_" + strconv.FormatInt(seq, 10)
}
