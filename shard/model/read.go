package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"paygrid/shard"
)

// pending is the one status of attempts that this package looks at.
const pending shard.Status = "PENDING"

// paymentStates are the words that the tables take for a payment's status.
var paymentStates = []string{"AUTH_PENDING", "REQUIRES_ACTION", "AUTHORIZED", "DECLINED", "FAILED", "EXPIRED", "CAPTURE_PENDING", "CAPTURED",
	"PARTIALLY_CAPTURED", "VOID_PENDING", "VOIDED", "CAPTURE_FAILED"}

// Find is shard.Cluster's.
func (s *Store) Find(_ context.Context, paymentID string, ref shard.KeyRef) (shard.Found, error) {
	var found shard.Found
	err := s.look("Find", shard.PaymentPrefix, paymentID, func(b *bucket) {
		_, there := b.payments[paymentID]
		found.Missing, found.Snapshot = !there, b.snapshot(paymentID)
		if key, there := b.keys[ref]; there {
			found.Key = &key
		}
	})
	return found, err
}

// snapshot is a payment with all that belongs to it; empty if it is not there.
func (b *bucket) snapshot(paymentID string) shard.Snapshot {
	out := shard.Snapshot{Payment: clonePayment(b.payments[paymentID])}
	for _, a := range b.attempts {
		if a.PaymentID == paymentID {
			out.Attempts = append(out.Attempts, a.Attempt)
		}
	}
	for _, r := range b.refunds {
		if r.PaymentID == paymentID {
			out.Refunds = append(out.Refunds, cloneRefund(r))
		}
	}
	slices.SortFunc(out.Attempts, func(x, y shard.Attempt) int { return cmp.Compare(x.ID, y.ID) })
	slices.SortFunc(out.Refunds, func(x, y shard.Refund) int { return cmp.Compare(x.ID, y.ID) })
	return out
}

// look reads in the bucket that an ID names; an ID that is none of ours is not found.
func (s *Store) look(call, prefix, id string, read func(*bucket)) error {
	number, err := shard.BucketOfID(prefix, id)
	if err != nil {
		return fmt.Errorf("%w: %w", shard.ErrNotFound, err)
	}
	return s.step(call, func() error {
		b, err := s.fenced(number)
		if err == nil {
			read(b)
		}
		return err
	})
}

// clonePayment copies what a caller could change in place.
func clonePayment(p shard.Payment) shard.Payment {
	p.Splits, p.Parts = slices.Clone(p.Splits), slices.Clone(p.Parts)
	return p
}

func cloneRefund(r shard.Refund) shard.Refund {
	r.Shares = slices.Clone(r.Shares)
	return r
}

// Snapshot is shard.Cluster's.
func (s *Store) Snapshot(ctx context.Context, paymentID string) (shard.Snapshot, error) {
	found, err := s.Find(ctx, paymentID, shard.KeyRef{})
	if err == nil && found.Missing {
		err = fmt.Errorf("payment %s: %w", paymentID, shard.ErrNotFound)
	}
	return found.Snapshot, err
}

// Snapshots is shard.Cluster's.
func (s *Store) Snapshots(_ context.Context, shardName string, attemptIDs []string) (map[string]shard.Snapshot, error) {
	out := map[string]shard.Snapshot{}
	err := s.step("Snapshots", func() error {
		for _, id := range attemptIDs {
			number, err := shard.BucketOfID(shard.AttemptPrefix, id)
			if err != nil || !s.serves(shardName, s.at(number)) {
				continue
			}
			b := s.at(number)
			if a, there := b.attempts[id]; there {
				out[id] = b.snapshot(a.PaymentID)
			}
		}
		return s.known(shardName)
	})
	return out, err
}

// OpeningKey is shard.Cluster's.
func (s *Store) OpeningKey(_ context.Context, clientID, key string) (*shard.Key, error) {
	var found *shard.Key
	err := s.step("OpeningKey", func() error {
		b, err := s.fenced(shard.BucketOf(clientID, key))
		if err != nil {
			return err
		}
		if k, there := b.keys[shard.KeyRef{ClientID: clientID, Scope: "payments", Key: key}]; there {
			found = &k
		}
		return nil
	})
	return found, err
}

// maxPaymentsOfOrder is shard.Cluster's bound.
const maxPaymentsOfOrder = 100

// PaymentsOfOrder is shard.Cluster's.
func (s *Store) PaymentsOfOrder(_ context.Context, clientID, orderID string) ([]shard.Payment, error) {
	var out []shard.Payment
	err := s.step("PaymentsOfOrder", func() error {
		for _, b := range s.buckets {
			for _, p := range b.payments {
				if p.ClientID == clientID && p.OrderID == orderID {
					out = append(out, clonePayment(p))
				}
			}
		}
		return nil
	})
	slices.SortFunc(out, func(x, y shard.Payment) int { return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.ID, y.ID)) })
	return out[:min(len(out), maxPaymentsOfOrder)], err
}

// Entries is shard.Cluster's.
func (s *Store) Entries(_ context.Context, paymentID string) ([]shard.PostedEntry, error) {
	var out []shard.PostedEntry
	err := s.look("Entries", shard.PaymentPrefix, paymentID, func(b *bucket) {
		for _, e := range b.entries {
			if e.PaymentID == paymentID {
				out = append(out, e)
			}
		}
	})
	return out, err
}

// Events is shard.Cluster's.
func (s *Store) Events(_ context.Context, paymentID string) ([]shard.PostedEvent, error) {
	var out []shard.PostedEvent
	err := s.look("Events", shard.PaymentPrefix, paymentID, func(b *bucket) {
		for _, e := range b.events {
			if e.PaymentID == paymentID {
				out = append(out, e)
			}
		}
	})
	return out, err
}

// PaymentOfAttempt is shard.Cluster's.
func (s *Store) PaymentOfAttempt(_ context.Context, attemptID string) (string, error) {
	var id string
	err := s.look("PaymentOfAttempt", shard.AttemptPrefix, attemptID, func(b *bucket) { id = b.attempts[attemptID].PaymentID })
	if err == nil && id == "" {
		err = fmt.Errorf("attempt %s: %w", attemptID, shard.ErrNotFound)
	}
	return id, err
}

// maxByRef is shard.Cluster's bound per shard.
const maxByRef = 20

// AttemptsByRef is shard.Cluster's: by shard, and on each by bucket and ID.
func (s *Store) AttemptsByRef(_ context.Context, psp, reference string) ([]shard.AttemptRef, error) {
	var out []shard.AttemptRef
	err := s.step("AttemptsByRef", func() error {
		for _, name := range s.owners.Names() {
			var here []shard.AttemptRef
			for _, b := range s.on(name) {
				for _, id := range slices.Sorted(maps.Keys(b.attempts)) {
					if a := b.attempts[id]; a.PSP == psp && a.PSPRef == reference {
						here = append(here, shard.AttemptRef{AttemptID: a.ID, PaymentID: a.PaymentID, Kind: a.Kind})
					}
				}
			}
			out = append(out, here[:min(len(here), maxByRef)]...)
		}
		return nil
	})
	return out, err
}

// Expired is shard.Cluster's.
func (s *Store) Expired(_ context.Context, shardName string, at time.Time, limit int) ([]string, error) {
	var out []shard.Payment
	err := s.step("Expired", func() error {
		for _, b := range s.on(shardName) {
			for _, p := range b.payments {
				open := p.Status == "AUTHORIZED" || p.Status == "REQUIRES_ACTION" || p.Status == "PARTIALLY_CAPTURED"
				if open && b.row.State == owned && !p.ExpiresAt.IsZero() && !p.ExpiresAt.After(at) {
					out = append(out, p)
				}
			}
		}
		return s.known(shardName)
	})
	slices.SortFunc(out, func(x, y shard.Payment) int { return cmp.Or(x.ExpiresAt.Compare(y.ExpiresAt), cmp.Compare(x.ID, y.ID)) })
	var ids []string
	for _, p := range out[:min(len(out), limit)] {
		ids = append(ids, p.ID)
	}
	return ids, err
}
