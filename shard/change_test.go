package shard_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/shard"
)

func checkInvariant(t *testing.T, name string, err error, want string) {
	t.Helper()
	var broken *shard.InvariantError
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", name, err)
	case want != "" && (!errors.As(err, &broken) || broken.Invariant != want):
		t.Errorf("%s: %v, want invariant %s broken", name, err, want)
	}
}

func TestOpeningCheck(t *testing.T) {
	elsewhere := shard.NewID(shard.AttemptPrefix, (shard.BucketOf("shop", "k1")+1)%shard.Buckets, time.Unix(0, 0))
	for name, c := range map[string]struct {
		spoil func(*shard.Opening)
		want  string
	}{
		"sound":                 {func(*shard.Opening) {}, ""},
		"another key":           {func(o *shard.Opening) { o.Key.Key = "k2" }, "S1"},
		"another client":        {func(o *shard.Opening) { o.Payment.ClientID = "thief" }, "S1"},
		"another scope":         {func(o *shard.Opening) { o.Key.Scope = "refunds" }, "S1"},
		"attempt elsewhere":     {func(o *shard.Opening) { o.Attempt.ID = elsewhere }, "S1"},
		"version":               {func(o *shard.Opening) { o.Payment.Version = 2 }, "S3"},
		"nothing authorized":    {func(o *shard.Opening) { o.Payment.Authorized = 0 }, "P1"},
		"less than nothing":     {func(o *shard.Opening) { o.Payment.Authorized = -1 }, "P1"},
		"captured too much":     {func(o *shard.Opening) { o.Payment.Captured = 10001 }, "P1"},
		"captured and released": {func(o *shard.Opening) { o.Payment.Captured, o.Payment.Released = 10000, 1 }, "P1"},
	} {
		o := opening("shop", "k1")
		c.spoil(&o)
		checkInvariant(t, name, o.Check(), c.want)
	}
	var id *shard.IDError
	for _, spoil := range []func(*shard.Opening){
		func(o *shard.Opening) { o.Payment.ID = "pay_1" },
		func(o *shard.Opening) { o.Attempt.ID = o.Payment.ID },
	} {
		o := opening("shop", "k1")
		spoil(&o)
		if err := o.Check(); !errors.As(err, &id) {
			t.Errorf("not an ID: %v", err)
		}
	}
}

func TestChangeCheck(t *testing.T) {
	o := opening("shop", "k1")
	other := (shard.BucketOf("shop", "k1") + 1) % shard.Buckets
	for name, c := range map[string]struct {
		spoil func(*shard.Change)
		want  string
	}{
		"sound":                   {func(*shard.Change) {}, ""},
		"without entry":           {func(c *shard.Change) { c.Entry = nil }, ""},
		"version of an opening":   {func(c *shard.Change) { c.Payment.Version = 1 }, "S3"},
		"attempt elsewhere":       {func(c *shard.Change) { c.Attempts[0].ID = shard.NewID("att", other, c.At) }, "S1"},
		"refund elsewhere":        {func(c *shard.Change) { c.Refunds = []shard.Refund{{ID: shard.NewID("ref", other, c.At)}} }, "S1"},
		"five attempts":           {func(c *shard.Change) { c.Attempts = make([]shard.Attempt, 5) }, "S5"},
		"102 postings":            {func(c *shard.Change) { c.Entry.Postings = make([]ledger.Posting, 102) }, "S5"},
		"entry in dollars":        {func(c *shard.Change) { c.Entry.Currency = "USD" }, "L2"},
		"captured too much":       {func(c *shard.Change) { c.Payment.Captured = 10001 }, "P1"},
		"released too much":       {func(c *shard.Change) { c.Payment.Released = 1 }, "P1"},
		"refunded too much":       {func(c *shard.Change) { c.Payment.Refunded = 10001 }, "P1"},
		"refunding on top":        {func(c *shard.Change) { c.Payment.Refunded, c.Payment.Refunding = 6000, 4001 }, "P1"},
		"refunding to the limit":  {func(c *shard.Change) { c.Payment.Refunded, c.Payment.Refunding = 6000, 4000 }, ""},
		"a negative refund":       {func(c *shard.Change) { c.Payment.Refunded = -1 }, "P1"},
		"released overflows":      {func(c *shard.Change) { c.Payment.Released = math.MaxInt64 }, "P1"},
		"refunding overflows":     {func(c *shard.Change) { c.Payment.Refunding, c.Payment.Refunded = math.MaxInt64, math.MaxInt64 }, "P1"},
		"everything at its limit": {func(c *shard.Change) { c.Payment.Authorized, c.Payment.Captured = math.MaxInt64, math.MaxInt64 }, ""},
	} {
		ch := capture(t, o)
		c.spoil(&ch)
		checkInvariant(t, name, ch.Check(), c.want)
	}
	var fault *ledger.EntryError
	ch := capture(t, o)
	ch.Entry.Postings[0].Credit = ch.Entry.Postings[0].Debit
	if err := ch.Check(); !errors.As(err, &fault) || fault.Fault != ledger.FaultSameAccount {
		t.Errorf("a posting from an account to itself: %v", err)
	}
}
