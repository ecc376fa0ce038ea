package model

import (
	"cmp"
	"context"
	"slices"
	"time"

	"paygrid/shard"
)

// claimable is a row of a queue.
type claimable struct {
	b   *bucket
	due time.Time
	id  string
}

// inTurn is the order in which rows are claimed: what has been due for longest comes first.
func inTurn(x, y claimable) int { return cmp.Or(x.due.Compare(y.due), cmp.Compare(x.id, y.id)) }

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
func (s *Store) Reschedule(_ context.Context, shardName, owner string, rechecks []shard.Recheck) ([]bool, error) {
	for _, r := range rechecks {
		if _, err := shard.BucketOfID(shard.AttemptPrefix, r.AttemptID); err != nil {
			return nil, err
		}
	}
	var given []bool
	err := s.step("Reschedule", func() error {
		if err := s.known(shardName); err != nil {
			return err
		}
		for _, r := range rechecks {
			given = append(given, s.reschedule(shardName, owner, r))
		}
		return nil
	})
	return given, err
}

func (s *Store) reschedule(shardName, owner string, r shard.Recheck) bool {
	number, _ := shard.BucketOfID(shard.AttemptPrefix, r.AttemptID) // looked at before
	b := s.at(number)
	a, there := b.attempts[r.AttemptID]
	if !there || !s.serves(shardName, b) || a.lease.owner != owner || a.Status != pending {
		return false
	}
	a.Checks++
	a.Absent, a.Escalated, a.NextCheckAt, a.Detail, a.lease = r.Absent, r.Escalated, r.NextAt, r.Detail, hold{}
	b.attempts[r.AttemptID] = a
	return true
}

// serves tells whether a shard owns a bucket.
func (s *Store) serves(shardName string, b *bucket) bool {
	return b.row.State == owned && s.owners.Owner(b.row.Bucket).Shard == shardName
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
		slices.SortFunc(out, shard.InboxItem.Compare)
		return s.known(shardName)
	})
	return out, err
}

// CloseInbox is shard.Cluster's.
func (s *Store) CloseInbox(_ context.Context, shardName, owner string, ends []shard.InboxEnd, _ time.Time) ([]bool, error) {
	var closed []bool
	err := s.step("CloseInbox", func() error {
		if err := s.known(shardName); err != nil {
			return err
		}
		for _, end := range ends {
			closed = append(closed, s.closeNotice(shardName, owner, end))
		}
		return nil
	})
	return closed, err
}

func (s *Store) closeNotice(shardName, owner string, end shard.InboxEnd) bool {
	b, key := s.at(end.Bucket), noticeKey{end.PSP, end.EventID}
	n, there := b.inbox[key]
	if !there || !s.serves(shardName, b) || n.lease.owner != owner || !waits(n.State) {
		return false
	}
	n.State, n.Reason, n.NextTryAt, n.lease = end.State, end.Reason, end.NextTryAt, hold{}
	n.Tries++
	b.inbox[key] = n
	return true
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
