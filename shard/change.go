package shard

import (
	"fmt"
	"time"

	"paygrid/ledger"
)

// Opening is everything that the first step of a payment writes: it is committed whole or not at all. The payment's
// version is 1.
type Opening struct {
	Payment Payment
	Attempt Attempt
	Key     Key
	Event   Event
	At      time.Time
}

// Change is everything that one later step of a payment writes: it is committed whole, on one shard, or not at all.
// Payment is the row as it shall be; it is written only if the stored row still has status From and version
// Payment.Version-1. A Change has one event and at most one entry.
type Change struct {
	From     Status
	Payment  Payment
	Attempts []Attempt
	Refunds  []Refund
	Keys     []Key
	Entry    *ledger.Entry
	Event    Event
	At       time.Time
}

// openingScope is the scope of an opening's key; its bucket follows from client and key alone.
const openingScope = "payments"

// Limits of one Change; a batch holds at most Options.BatchLimit Changes.
const (
	maxAttemptsPerChange = 4
	maxPostingsPerChange = ledger.MaxSplits + 1
)

// bucket returns where the payment lies. The ID was checked by Check.
func (o Opening) bucket() Bucket { return mustBucket(o.Payment.ID) }
func (c Change) bucket() Bucket  { return mustBucket(c.Payment.ID) }

func mustBucket(paymentID string) Bucket {
	b, err := BucketOfID(PaymentPrefix, paymentID)
	if err != nil {
		return -1 // no bucket row has this number: the fence refuses it
	}
	return b
}

// Check tells whether the opening may be written: everything in one bucket, nothing missing. It is the same property
// that the database's CHECKs hold, told before a round trip and with a name.
func (o Opening) Check() error {
	b, err := BucketOfID(PaymentPrefix, o.Payment.ID)
	if err != nil {
		return err
	}
	if got := BucketOf(o.Key.ClientID, o.Key.Key); got != b {
		return broken("S1", o.Payment.ID, "its key hashes to bucket %s", got)
	}
	if o.Key.ClientID != o.Payment.ClientID || o.Key.Scope != openingScope {
		return broken("S1", o.Payment.ID, "its key is client %q's in scope %q", o.Key.ClientID, o.Key.Scope)
	}
	if o.Payment.Version != 1 {
		return broken("S3", o.Payment.ID, "an opening has version 1, not %d", o.Payment.Version)
	}
	if err := sameBucket(AttemptPrefix, o.Attempt.ID, b); err != nil {
		return err
	}
	return checkAmounts(o.Payment)
}

// Check tells whether the change may be written.
func (c Change) Check() error {
	b, err := BucketOfID(PaymentPrefix, c.Payment.ID)
	if err != nil {
		return err
	}
	if c.Payment.Version < 2 {
		return broken("S3", c.Payment.ID, "a change has version 2 or later, not %d", c.Payment.Version)
	}
	if len(c.Attempts) > maxAttemptsPerChange {
		return broken("S5", c.Payment.ID, "%d attempts in one change", len(c.Attempts))
	}
	for _, a := range c.Attempts {
		if err := sameBucket(AttemptPrefix, a.ID, b); err != nil {
			return err
		}
	}
	for _, r := range c.Refunds {
		if err := sameBucket(RefundPrefix, r.ID, b); err != nil {
			return err
		}
	}
	if err := c.checkEntry(); err != nil {
		return err
	}
	return checkAmounts(c.Payment)
}

func (c Change) checkEntry() error {
	if c.Entry == nil {
		return nil
	}
	if len(c.Entry.Postings) > maxPostingsPerChange {
		return broken("S5", c.Payment.ID, "%d postings in one entry", len(c.Entry.Postings))
	}
	if c.Entry.Currency != c.Payment.Currency {
		return broken("L2", c.Payment.ID, "entry %s is in %s", c.Entry.ID, c.Entry.Currency)
	}
	return c.Entry.Check()
}

func sameBucket(prefix, id string, want Bucket) error {
	b, err := BucketOfID(prefix, id)
	if err != nil {
		return err
	}
	if b != want {
		return broken("S1", id, "lies in bucket %s, its payment in %s", b, want)
	}
	return nil
}

// checkAmounts holds P1: captured + released ≤ authorized and refunding + refunded ≤ captured. It subtracts where adding
// could overflow.
func checkAmounts(p Payment) error {
	if p.Captured < 0 || p.Released < 0 || p.Refunding < 0 || p.Refunded < 0 || p.Authorized <= 0 {
		return broken("P1", p.ID, "an amount is negative")
	}
	if p.Captured > p.Authorized-p.Released {
		return broken("P1", p.ID, "captured %d and released %d of %d", p.Captured, p.Released, p.Authorized)
	}
	if p.Refunding > p.Captured-p.Refunded {
		return broken("P1", p.ID, "refunding %d and refunded %d of %d", p.Refunding, p.Refunded, p.Captured)
	}
	return nil
}

// InvariantError is a change that would break a numbered invariant (docs/invariants.md). Nothing was written.
type InvariantError struct {
	Invariant string
	ID        string
	Detail    string
}

func (e *InvariantError) Error() string {
	return fmt.Sprintf("invariant %s broken by %s: %s", e.Invariant, e.ID, e.Detail)
}

func broken(invariant, id, format string, args ...any) error {
	return &InvariantError{Invariant: invariant, ID: id, Detail: fmt.Sprintf(format, args...)}
}
