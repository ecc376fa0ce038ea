package shard_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"paygrid/shard"
)

// TestExpired names open authorizations that have run out, the oldest first, up to the limit, and no others.
func TestExpired(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := open(t, 1, shard.Options{})
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var want []string
	for n, p := range []struct {
		status  shard.Status
		expires time.Duration // from at; 0 = never
		listed  bool
	}{
		{"AUTHORIZED", -3 * time.Hour, true},
		{"REQUIRES_ACTION", -2 * time.Hour, true},
		{"AUTHORIZED", -time.Nanosecond * 1000, true},
		{"AUTHORIZED", time.Hour, false},
		{"AUTHORIZED", 0, false},
		{"EXPIRED", -time.Hour, false},
		{"CAPTURE_PENDING", -time.Hour, false},
	} {
		o := opening("shop", keyIn("shop", shard.Bucket(7*n), n))
		must(t, c.Begin(ctx, o))
		ch := shard.Change{From: "AUTH_PENDING", Payment: o.Payment, Event: o.Event, At: at}
		ch.Payment.Version, ch.Payment.Status = 2, p.status
		if p.expires != 0 {
			ch.Payment.ExpiresAt = at.Add(p.expires)
		}
		must(t, c.Apply(ctx, ch))
		if p.listed {
			want = append(want, o.Payment.ID)
		}
	}
	got, err := c.Expired(ctx, "shard-1", at, 10)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("expired %v (%v), want %v", got, err, want)
	}
	if got, err = c.Expired(ctx, "shard-1", at, 2); err != nil || !slices.Equal(got, want[:2]) {
		t.Errorf("the first two are %v (%v), want %v", got, err, want[:2])
	}
}
