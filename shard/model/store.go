package model

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"sync"
	"time"

	"paygrid/ledger"
	"paygrid/shard"
)

// Rule is one thing that a shard holds. Leaving one out plants a fault.
type Rule string

// The rules that can be left out, with what then happens.
const (
	UniqueKeys    Rule = "unique keys"     // an opening under a key that is taken makes a second payment
	CompareAndSet Rule = "compare and set" // a change is written whatever became of the payment since it was decided
	InboxKey      Rule = "inbox key"       // a notice that comes again is stored again
	UniqueEntries Rule = "unique entries"  // an entry is posted again under its ID
	Atomicity     Rule = "atomicity"       // a change's entry is lost while the rest of it is written
)

// Options sets a Store up.
type Options struct {
	Shards  []string         // names; the buckets are spread over them evenly. One shard if empty
	Now     func() time.Time // required: the clock of leases
	Hook    Hook             // may be nil
	Without []Rule           // rules that are not held
}

// Effect says whether a call that failed did its work all the same.
type Effect uint8

// The effects of a failed call.
const (
	None Effect = iota // it did nothing
	Done               // it did its work, and its answer was lost
	Late               // it does its work when Release is called: its commit was still on its way
)

// Crash is how a call fails: Err is what its caller hears, nil lets the call be.
type Crash struct {
	Err    error
	Effect Effect
}

// Hook decides whether the next call fails. call is the method's name. It runs outside the store's lock.
type Hook func(call string) Crash

// Store is a cluster of shards in memory. It is safe for concurrent use; each call is one step.
type Store struct {
	now  func() time.Time
	hook Hook
	held map[Rule]bool

	mu      sync.Mutex
	owners  *shard.Map
	buckets map[shard.Bucket]*bucket
	leases  map[leaseKey]lease
	sellers map[subAccount]*big.Int // live balances: credits minus debits
	late    []func()
}

// bucket is all that lies in one bucket.
type bucket struct {
	row      shard.BucketRow
	keys     map[shard.KeyRef]shard.Key
	payments map[string]shard.Payment
	attempts map[string]attempt
	refunds  map[string]shard.Refund
	entries  []shard.PostedEntry
	events   []shard.PostedEvent
	rollups  map[subAccount]sums
	inbox    map[noticeKey]notice
}

// attempt is a row of attempts with its lease in the resolver's queue.
type attempt struct {
	shard.Attempt
	lease hold
}

// hold is a lease on a row of a queue.
type hold struct {
	owner string
	until time.Time
}

// free tells whether a row may be claimed.
func (h hold) free(now time.Time) bool { return !h.until.After(now) }

type subAccount struct {
	shard    string // "" within a bucket
	account  ledger.Account
	currency ledger.Currency
}

type sums struct{ debits, credits *big.Int }

// New returns an empty store in which every bucket is owned.
func New(o Options) (*Store, error) {
	if o.Now == nil {
		return nil, errors.New("model: Options.Now is missing")
	}
	if len(o.Shards) == 0 {
		o.Shards = []string{"shard-1"}
	}
	urls := map[string]string{}
	for _, name := range o.Shards {
		urls[name] = "memory:" + name
	}
	s := &Store{now: o.Now, hook: o.Hook, held: map[Rule]bool{}, owners: shard.EvenMap(o.Shards, urls), buckets: map[shard.Bucket]*bucket{},
		leases: map[leaseKey]lease{}, sellers: map[subAccount]*big.Int{}}
	for _, rule := range []Rule{UniqueKeys, CompareAndSet, InboxKey, UniqueEntries, Atomicity} {
		s.held[rule] = true
	}
	for _, rule := range o.Without {
		if !s.held[rule] {
			return nil, fmt.Errorf("model: Options.Without: there is no rule %q", rule)
		}
		s.held[rule] = false
	}
	return s, nil
}

// step runs one call under the lock, or lets it fail as the hook says.
func (s *Store) step(call string, do func() error) error {
	var crash Crash
	if s.hook != nil {
		crash = s.hook(call)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case crash.Err == nil:
		return do()
	case crash.Effect == Done:
		_ = do() // its caller hears of the crash alone
	case crash.Effect == Late:
		s.late = append(s.late, func() { _ = do() })
	}
	return fmt.Errorf("%s: %w", call, crash.Err)
}

// Release lets the commits that are still on their way arrive, in their order.
func (s *Store) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	late := s.late
	s.late = nil
	for _, do := range late {
		do()
	}
}

// at returns a bucket, which is made when it is first looked at.
func (s *Store) at(b shard.Bucket) *bucket {
	if s.buckets[b] == nil {
		s.buckets[b] = &bucket{row: shard.BucketRow{Bucket: b, Epoch: s.owners.Owner(b).Epoch, State: owned},
			keys: map[shard.KeyRef]shard.Key{}, payments: map[string]shard.Payment{}, attempts: map[string]attempt{},
			refunds: map[string]shard.Refund{}, rollups: map[subAccount]sums{}, inbox: map[noticeKey]notice{}}
	}
	return s.buckets[b]
}

const (
	owned  = "OWNED"
	frozen = "FROZEN"
)

// fenced returns the bucket if its shard may write and read it by ID, else shard.ErrNoOwner.
func (s *Store) fenced(b shard.Bucket) (*bucket, error) {
	if b < 0 || b >= shard.Buckets {
		return nil, fmt.Errorf("bucket %s: %w", b, shard.ErrNoOwner)
	}
	found := s.at(b)
	if found.row.State != owned {
		return nil, fmt.Errorf("bucket %s: %w", b, shard.ErrNoOwner)
	}
	return found, nil
}

// Freeze takes a bucket from its owner for a while, as the end of a move does; thaw gives it back.
func (s *Store) Freeze(b shard.Bucket) (thaw func()) {
	set := func(state string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.at(b).row.State = state
	}
	set(frozen)
	return func() { set(owned) }
}

// Map returns the map of the shards. Its URLs lead nowhere.
func (s *Store) Map() *shard.Map { return s.owners }

// ShardNames returns the shards in order.
func (s *Store) ShardNames() []string { return s.owners.Names() }

// ShardOf is shard.Cluster's.
func (s *Store) ShardOf(b shard.Bucket) (string, bool) {
	if b < 0 || b >= shard.Buckets {
		return "", false
	}
	return s.owners.Owner(b).Shard, true
}

// PingAny is shard.Cluster's.
func (s *Store) PingAny(context.Context) error { return s.step("PingAny", func() error { return nil }) }

// known returns an error for a shard that there is none of.
func (s *Store) known(shardName string) error {
	if _, ok := s.owners.URLs[shardName]; !ok {
		return fmt.Errorf("shard %q: %w", shardName, shard.ErrNotFound)
	}
	return nil
}

// on returns the buckets of a shard that were ever looked at, in order, frozen ones too.
func (s *Store) on(shardName string) []*bucket {
	var out []*bucket
	for _, number := range slices.Sorted(maps.Keys(s.buckets)) {
		if s.owners.Owner(number).Shard == shardName {
			out = append(out, s.buckets[number])
		}
	}
	return out
}

type leaseKey struct{ shard, name string }

type lease struct {
	hold
	token int64
}

// Lease is shard.Cluster's.
func (s *Store) Lease(_ context.Context, shardName, name, owner string, ttl time.Duration) (token int64, held bool, err error) {
	err = s.step("Lease", func() error {
		if err := s.known(shardName); err != nil {
			return err
		}
		key, now := leaseKey{shardName, name}, s.now()
		l, taken := s.leases[key]
		if taken && l.owner != owner && !l.free(now) {
			return nil
		}
		if l.owner != owner {
			l.token++
		}
		l.hold = hold{owner, now.Add(ttl)}
		s.leases[key] = l
		token, held = l.token, true
		return nil
	})
	return token, held, err
}
