package model

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"paygrid/shard"
)

// queueSlots is how many ranges a queue is claimed from, in turn.
const queueSlots = 8

// claimable is a row of a queue, in the order in which rows are claimed: by slot, then by time.
type claimable struct {
	b   *bucket
	due time.Time
	id  string
}

func inTurn(x, y claimable) int {
	return cmp.Or(cmp.Compare(x.b.row.Bucket%queueSlots, y.b.row.Bucket%queueSlots), x.due.Compare(y.due), cmp.Compare(x.id, y.id))
}

// ClaimAttempts is shard.Cluster's.
func (s *Store) ClaimAttempts(_ context.Context, shardName, owner string, now, until time.Time, limit int) ([]shard.Due, error) {
	var out []shard.Due
	err := s.step("ClaimAttempts", func() error {
		var queue []claimable
		for _, b := range s.on(shardName) {
			for id, a := range b.attempts {
				if a.Status == pending && !a.NextCheckAt.After(now) && a.lease.free(now) && b.row.State == owned {
					queue = append(queue, claimable{b, a.NextCheckAt, id})
				}
			}
		}
		slices.SortFunc(queue, inTurn)
		for _, row := range queue[:min(len(queue), limit)] {
			a := row.b.attempts[row.id]
			a.lease = hold{owner, until}
			row.b.attempts[row.id] = a
			out = append(out, shard.Due{AttemptID: a.ID, PaymentID: a.PaymentID, Checks: a.Checks, Absent: a.Absent, Escalated: a.Escalated,
				SentAt: a.SentAt})
		}
		return s.known(shardName)
	})
	return out, err
}

// Reschedule is shard.Cluster's.
func (s *Store) Reschedule(_ context.Context, r shard.Recheck) error {
	number, err := shard.BucketOfID(shard.AttemptPrefix, r.AttemptID)
	if err != nil {
		return err
	}
	return s.step("Reschedule", func() error {
		b := s.at(number)
		a, there := b.attempts[r.AttemptID]
		if !there || a.lease.owner != r.Owner || a.Status != pending {
			return fmt.Errorf("attempt %s: %w", r.AttemptID, shard.ErrConflict)
		}
		a.Checks++
		a.Absent, a.Escalated, a.NextCheckAt, a.Detail, a.lease = r.Absent, r.Escalated, r.NextAt, r.Detail, hold{}
		b.attempts[r.AttemptID] = a
		return nil
	})
}

// PendingAttempts is shard.Cluster's.
func (s *Store) PendingAttempts(_ context.Context, shardName string, sentBefore time.Time, limit int) ([]shard.PendingAttempt, error) {
	var out []shard.PendingAttempt
	err := s.step("PendingAttempts", func() error {
		out = s.waiting(shardName, sentBefore)
		return s.known(shardName)
	})
	slices.SortFunc(out, func(x, y shard.PendingAttempt) int {
		return cmp.Or(x.NextCheckAt.Compare(y.NextCheckAt), cmp.Compare(x.AttemptID, y.AttemptID))
	})
	return out[:min(len(out), limit)], err
}

func (s *Store) waiting(shardName string, sentBefore time.Time) []shard.PendingAttempt {
	var out []shard.PendingAttempt
	for _, b := range s.on(shardName) {
		for _, a := range b.attempts {
			if a.Status != pending || a.SentAt.After(sentBefore) {
				continue
			}
			out = append(out, shard.PendingAttempt{AttemptID: a.ID, PaymentID: a.PaymentID, Kind: a.Kind, PSP: a.PSP, Amount: a.Amount,
				Outcome: a.Outcome, Detail: a.Detail, Checks: a.Checks, Absent: a.Absent, Escalated: a.Escalated, SentAt: a.SentAt,
				NextCheckAt: a.NextCheckAt})
		}
	}
	return out
}

// PendingCount is shard.Cluster's.
func (s *Store) PendingCount(_ context.Context, shardName string, sentBefore time.Time) (n int64, oldest time.Time, err error) {
	err = s.step("PendingCount", func() error {
		for _, a := range s.waiting(shardName, sentBefore) {
			n++
			if oldest.IsZero() || a.SentAt.Before(oldest) {
				oldest = a.SentAt
			}
		}
		return s.known(shardName)
	})
	return n, oldest, err
}

type noticeKey struct{ psp, event string }

// notice is a row of the inbox.
type notice struct {
	shard.InboxItem
	lease hold
}

func waits(state shard.Status) bool { return state == shard.InboxNew || state == shard.InboxUnmatched }

// PutInbox is shard.Cluster's.
func (s *Store) PutInbox(_ context.Context, item shard.InboxItem, at time.Time) (stored bool, err error) {
	err = s.step("PutInbox", func() error {
		b, err := s.fenced(item.Bucket)
		if err != nil {
			return err
		}
		key := noticeKey{item.PSP, item.EventID}
		if _, known := b.inbox[key]; known && s.held[InboxKey] {
			return nil
		}
		stored = true
		item.State, item.Reason, item.Tries, item.ReceivedAt, item.NextTryAt = shard.InboxNew, "", 0, at, at
		b.inbox[key] = notice{InboxItem: item}
		return nil
	})
	return stored, err
}

// ClaimInbox is shard.Cluster's.
func (s *Store) ClaimInbox(_ context.Context, shardName, owner string, now, until time.Time, limit int) ([]shard.InboxItem, error) {
	var out []shard.InboxItem
	err := s.step("ClaimInbox", func() error {
		var queue []claimable
		keys := map[string]noticeKey{}
		for _, b := range s.on(shardName) {
			for key, n := range b.inbox {
				if waits(n.State) && !n.NextTryAt.After(now) && n.lease.free(now) && b.row.State == owned {
					id := b.row.Bucket.String() + key.psp + "\x00" + key.event
					keys[id] = key
					queue = append(queue, claimable{b, n.NextTryAt, id})
				}
			}
		}
		slices.SortFunc(queue, inTurn)
		for _, row := range queue[:min(len(queue), limit)] {
			n := row.b.inbox[keys[row.id]]
			n.lease = hold{owner, until}
			row.b.inbox[keys[row.id]] = n
			out = append(out, n.InboxItem)
		}
		return s.known(shardName)
	})
	return out, err
}

// CloseInbox is shard.Cluster's.
func (s *Store) CloseInbox(_ context.Context, item shard.InboxItem, end shard.InboxEnd) error {
	return s.step("CloseInbox", func() error {
		b, key := s.at(item.Bucket), noticeKey{item.PSP, item.EventID}
		n, there := b.inbox[key]
		if !there || n.lease.owner != end.Owner || !waits(n.State) {
			return fmt.Errorf("event %s of %s: %w", item.EventID, item.PSP, shard.ErrConflict)
		}
		n.State, n.Reason, n.NextTryAt, n.lease = end.State, end.Reason, end.NextTryAt, hold{}
		n.Tries++
		b.inbox[key] = n
		return nil
	})
}

// Inbox is shard.Cluster's.
func (s *Store) Inbox(_ context.Context, shardName string, state shard.Status, limit int) ([]shard.InboxItem, error) {
	var out []shard.InboxItem
	err := s.step("Inbox", func() error {
		for _, b := range s.on(shardName) {
			for _, n := range b.inbox {
				if n.State == state && (state == shard.InboxUnmatched || state == shard.InboxMisfit) {
					out = append(out, n.InboxItem)
				}
			}
		}
		return s.known(shardName)
	})
	slices.SortFunc(out, func(x, y shard.InboxItem) int {
		return cmp.Or(x.ReceivedAt.Compare(y.ReceivedAt), cmp.Compare(x.EventID, y.EventID))
	})
	return out[:min(len(out), limit)], err
}

// InboxLag is shard.Cluster's.
func (s *Store) InboxLag(_ context.Context, shardName string) (waiting int64, oldest time.Time, err error) {
	err = s.step("InboxLag", func() error {
		for _, b := range s.on(shardName) {
			for _, n := range b.inbox {
				if n.State != shard.InboxNew {
					continue
				}
				waiting++
				if oldest.IsZero() || n.ReceivedAt.Before(oldest) {
					oldest = n.ReceivedAt
				}
			}
		}
		return s.known(shardName)
	})
	return waiting, oldest, err
}
