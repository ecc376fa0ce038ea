package payment

import (
	"context"
	"time"

	"paygrid/shard"
)

// Books is what Verify reads: every row of every shard, and the sums that a shard keeps beside its postings.
type Books interface {
	ShardNames() []string
	Walk(ctx context.Context, shardName string, visit func(shard.Span) error) error
	WrongSums(ctx context.Context, shardName string) ([]string, error)
}

// Store is what the commands and workers ask of the shards. It has two implementations: shard.Cluster on real databases,
// and the in-memory specification that simulations run on; a differential test holds them equal. Each method's contract
// stands on shard.Cluster's.
type Store interface {
	Begin(ctx context.Context, o shard.Opening) error
	Apply(ctx context.Context, c shard.Change) error

	Find(ctx context.Context, paymentID string, ref shard.KeyRef) (shard.Found, error)
	Snapshot(ctx context.Context, paymentID string) (shard.Snapshot, error)
	Snapshots(ctx context.Context, shardName string, attemptIDs []string) (map[string]shard.Snapshot, error)
	OpeningKey(ctx context.Context, clientID, key string) (*shard.Key, error)
	PaymentsOfOrder(ctx context.Context, clientID, orderID string) ([]shard.Payment, error)
	Entries(ctx context.Context, paymentID string) ([]shard.PostedEntry, error)
	PaymentOfAttempt(ctx context.Context, attemptID string) (string, error)
	AttemptsByRef(ctx context.Context, psp, reference string) ([]shard.AttemptRef, error)

	ShardNames() []string
	ShardOf(b shard.Bucket) (name string, owned bool)
	Lease(ctx context.Context, shardName, name, owner string, ttl time.Duration) (token int64, held bool, err error)
	RollUp(ctx context.Context, shardName string) (int, error)
	Expired(ctx context.Context, shardName string, at time.Time, limit int) ([]string, error)
	ClaimAttempts(ctx context.Context, shardName, owner string, now, until time.Time, limit int) ([]shard.Due, error)
	Reschedule(ctx context.Context, shardName, owner string, rechecks []shard.Recheck) (given []bool, err error)

	PendingCount(ctx context.Context, shardName string, sentBefore time.Time) (n int64, oldest time.Time, err error)

	PutInbox(ctx context.Context, item shard.InboxItem, at time.Time) (bool, error)
	ClaimInbox(ctx context.Context, shardName, owner string, now, until time.Time, limit int) ([]shard.InboxItem, error)
	CloseInbox(ctx context.Context, shardName, owner string, ends []shard.InboxEnd, at time.Time) (closed []bool, err error)
	InboxLag(ctx context.Context, shardName string) (waiting int64, oldest time.Time, err error)

	PingAny(ctx context.Context) error
}

var (
	_ Store = (*shard.Cluster)(nil)
	_ Books = (*shard.Cluster)(nil)
)
