package shard_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"paygrid/shard"
)

// TestBucketOf holds the hash by vectors. Each was computed by Python's hashlib, and the first checked by hand:
//
//	printf 'shop\0k1' | openssl dgst -sha256   # bf8da477a0de3fc8…; 0xbf8da477a0de3fc8 mod 4096 = 0xfc8 = 4040
//
// A change of any of them would send repeated requests to other shards, which would charge again.
func TestBucketOf(t *testing.T) {
	for _, v := range []struct {
		client, key string
		want        shard.Bucket
	}{
		{"shop", "k1", 4040},
		{"shop", "k-c001", 1462},
		{"", "a", 1962},
		{"a", "b", 467},
		{"ab", "", 213}, // not the bucket of ("a", "b"): the zero byte parts them
		{"shop", strings.Repeat("x", 255), 2311},
		{"käufer", "schlüssel", 2822},
	} {
		if got := shard.BucketOf(v.client, v.key); got != v.want {
			t.Errorf("BucketOf(%q, %q) = %s, want %s", v.client, v.key, got, v.want)
		}
	}
}

// TestBucketsAreEven: 409,600 keys of one client spread evenly. With 100 expected per bucket, five standard deviations
// are 50.
func TestBucketsAreEven(t *testing.T) {
	var filled [shard.Buckets]int
	var keys counter
	for range 100 * shard.Buckets {
		filled[shard.BucketOf("shop", keys.key("k"))]++
	}
	for b, n := range filled {
		if n < 45 || n > 160 {
			t.Errorf("bucket %s has %d keys, want about 100", shard.Bucket(b), n)
		}
	}
}

func TestNewIDRoundTrip(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, b := range []shard.Bucket{0, 1, 42, 999, 4095} {
		for _, prefix := range []string{shard.PaymentPrefix, shard.AttemptPrefix, shard.RefundPrefix} {
			id := shard.NewID(prefix, b, at)
			got, err := shard.BucketOfID(prefix, id)
			if err != nil || got != b {
				t.Errorf("%s lies in %v, %v; want %v", id, got, err, b)
			}
			parsed, err := ulid.ParseStrict(id[strings.LastIndexByte(id, '_')+1:])
			if err != nil || !ulid.Time(parsed.Time()).Equal(at) {
				t.Errorf("%s tells the time %v, %v", id, ulid.Time(parsed.Time()), err)
			}
		}
	}
	if first, second := shard.NewID("pay", 1, at), shard.NewID("pay", 1, at); first == second {
		t.Error("two IDs of the same moment are equal")
	}
	if got := shard.EventID(42, 7); got != "evt_0042_7" {
		t.Errorf("event ID %s", got)
	}
}

func TestBucketOfIDRefuses(t *testing.T) {
	good := shard.NewID("pay", 42, time.Unix(0, 0))
	body := strings.TrimPrefix(good, "pay_0042_")
	for name, id := range map[string]string{
		"empty":              "",
		"another prefix":     "att_0042_" + body,
		"no bucket":          "pay_" + body,
		"bucket too large":   "pay_4096_" + body,
		"bucket too short":   "pay_42_" + body,
		"bucket with a sign": "pay_+042_" + body,
		"bucket in letters":  "pay_00a2_" + body,
		"ulid too short":     good[:len(good)-1],
		"ulid too long":      good + "0",
		"ulid with an I":     good[:len(good)-1] + "I",
		"ulid overflow":      "pay_0042_8" + body[1:],
		"one part more":      good + "_x",
		"white space":        " " + good,
	} {
		var refused *shard.IDError
		if b, err := shard.BucketOfID("pay", id); !errors.As(err, &refused) || refused.ID != id {
			t.Errorf("%s: %q is taken as bucket %s (%v)", name, id, b, err)
		}
	}
}

// FuzzBucketOfID: what is taken has the form that NewID writes, and nothing panics.
func FuzzBucketOfID(f *testing.F) {
	f.Add(shard.NewID("pay", 42, time.Unix(0, 0)))
	f.Add("pay_4096_00000000000000000000000000")
	f.Add("pay__")
	f.Fuzz(func(t *testing.T, id string) {
		b, err := shard.BucketOfID("pay", id)
		if err != nil {
			return
		}
		if b < 0 || b >= shard.Buckets || !strings.HasPrefix(id, "pay_"+b.String()+"_") || len(id) != 35 {
			t.Errorf("%q is taken as bucket %s", id, b)
		}
	})
}
