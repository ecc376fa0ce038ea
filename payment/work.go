package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"paygrid/ledger"
	"paygrid/shard"
)

// Work is the background work of the shards: roll-ups of house accounts, and the end of authorizations that ran out. It
// holds leases, not state: any worker takes over any shard's.
type Work struct {
	Service *Service
	Owner   string        // who holds the leases: unique to the process
	Every   time.Duration // between two rounds
}

// leaseTerms is how many rounds a lease outlives its last renewal.
const leaseTerms = 5

// Run works until ctx ends. What fails is logged and tried again in the next round.
func (w Work) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, name := range w.Service.shards.Map().Names() {
		group.Go(func() error {
			w.runShard(ctx, name)
			return nil
		})
	}
	return group.Wait()
}

func (w Work) runShard(ctx context.Context, name string) {
	ticker := time.NewTicker(w.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := w.round(ctx, name); err != nil && ctx.Err() == nil {
			w.Service.config.Log.ErrorContext(ctx, "a round of background work failed; the next follows", "shard", name, "error", err)
		}
	}
}

// round does one shard's work once if this worker holds its lease. Each piece is right even if two workers do it at once.
func (w Work) round(ctx context.Context, name string) error {
	_, held, err := w.Service.shards.Lease(ctx, name, "background", w.Owner, leaseTerms*w.Every)
	if err != nil || !held {
		return err
	}
	if _, err := w.Service.shards.RollUp(ctx, name); err != nil {
		return err
	}
	_, err = w.Service.ExpireOn(ctx, name)
	return err
}

// expireBatch is how many authorizations one round ends at most.
const expireBatch = 500

// ExpireOn ends the authorizations on one shard that have run out, and returns how many it ended.
func (s *Service) ExpireOn(ctx context.Context, shardName string) (int, error) {
	ids, err := s.shards.Expired(ctx, shardName, s.now(), expireBatch)
	if err != nil {
		return 0, err
	}
	ended := 0
	for _, id := range ids {
		err := s.expire(ctx, id)
		switch {
		case err == nil:
			ended++
		case errors.Is(err, shard.ErrConflict): // somebody moved it first
		default:
			return ended, fmt.Errorf("payment %s: expire: %w", id, err)
		}
	}
	return ended, nil
}

func (s *Service) expire(ctx context.Context, id string) error {
	snapshot, err := s.shards.Snapshot(ctx, id)
	if err != nil {
		return err
	}
	if !expired(snapshot.Payment, s.now()) {
		return shard.ErrConflict
	}
	m, err := begin(snapshot.Payment, OnExpired, s.now())
	if err != nil {
		return shard.ErrConflict
	}
	m.releases()
	change, err := m.finish()
	if err != nil {
		return err
	}
	return s.shards.Apply(ctx, change)
}

// Reverse mirrors an entry of a payment, once: it takes back in the books what should not have been posted. The payment's
// state stays; what the money did is for the reason to say. It is refused with CodeAlreadyReversed the second time: of two at
// once one loses its compare-and-set and then sees the other's entry.
func (s *Service) Reverse(ctx context.Context, paymentID, entryID, reason, actor string) (ledger.Entry, error) {
	for range maxRaces {
		change, err := s.reversal(ctx, paymentID, entryID, reason, actor)
		if err != nil {
			return ledger.Entry{}, err
		}
		err = s.shards.Apply(ctx, change)
		if err == nil {
			return *change.Entry, nil
		}
		if !errors.Is(err, shard.ErrConflict) {
			return ledger.Entry{}, unavailable(err)
		}
	}
	return ledger.Entry{}, busy()
}

func alreadyReversed(by string) *Error {
	return &Error{Code: CodeAlreadyReversed, Detail: "the entry was reversed before", Reference: by, Remedy: "read the reversal"}
}

func (s *Service) reversal(ctx context.Context, paymentID, entryID, reason, actor string) (shard.Change, error) {
	snapshot, err := s.shards.Snapshot(ctx, paymentID)
	if errors.Is(err, shard.ErrNotFound) {
		return shard.Change{}, notFound(paymentID)
	}
	if err != nil {
		return shard.Change{}, unavailable(err)
	}
	entries, err := s.shards.Entries(ctx, paymentID)
	if err != nil {
		return shard.Change{}, unavailable(err)
	}
	entry, err := entryToReverse(entries, entryID)
	if err != nil {
		return shard.Change{}, err
	}
	m, err := begin(snapshot.Payment, OnEntryReversed, s.now())
	if err != nil {
		return shard.Change{}, wrongState(snapshot.Payment, "corrected")
	}
	mirror, err := entry.Reversal(ledger.ReversalID(entryID), reason, actor)
	if err != nil {
		return shard.Change{}, invalid("/entry", err.Error(), "name an entry that is not a reversal, a reason and who asks")
	}
	m.change.Entry = &mirror
	return m.finish()
}

func entryToReverse(entries []shard.PostedEntry, id string) (ledger.Entry, error) {
	var found *shard.PostedEntry
	for n, e := range entries {
		if e.Reverses == id {
			return ledger.Entry{}, alreadyReversed(e.ID)
		}
		if e.ID == id {
			found = &entries[n]
		}
	}
	if found == nil {
		return ledger.Entry{}, &Error{Code: CodeNotFound, Detail: "the payment has no such entry", Reference: clip(id), Remedy: "check the ID"}
	}
	return found.Entry, nil
}
