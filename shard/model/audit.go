package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"paygrid/ledger"
	"paygrid/shard"
)

// auditSpan is how many buckets one span of Walk holds.
const auditSpan = 64

// Walk is shard.Cluster's: every bucket of a shard, a span at a time. The hook does not see it.
func (s *Store) Walk(_ context.Context, shardName string, visit func(shard.Span) error) error {
	if err := s.known(shardName); err != nil {
		return err
	}
	for from := shard.Bucket(0); from < shard.Buckets; from += auditSpan {
		if err := visit(s.span(shardName, from)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) span(shardName string, from shard.Bucket) shard.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	span := shard.Span{Shard: shardName}
	for number := from; number < from+auditSpan; number++ {
		owner := s.owners.Owner(number)
		if owner.Shard != shardName {
			continue
		}
		b := s.buckets[number]
		if b == nil {
			span.Buckets = append(span.Buckets, shard.BucketRow{Bucket: number, Epoch: owner.Epoch, State: owned})
			continue
		}
		if b.row.State == owned {
			span.Buckets = append(span.Buckets, b.row)
		}
		b.adds(&span)
	}
	return span
}

// adds appends the bucket's rows, each kind in the order of its key.
func (b *bucket) adds(span *shard.Span) {
	for _, id := range slices.Sorted(maps.Keys(b.payments)) {
		span.Payments = append(span.Payments, clonePayment(b.payments[id]))
	}
	for _, id := range slices.Sorted(maps.Keys(b.attempts)) {
		span.Attempts = append(span.Attempts, b.attempts[id].Attempt)
	}
	for _, id := range slices.Sorted(maps.Keys(b.refunds)) {
		span.Refunds = append(span.Refunds, cloneRefund(b.refunds[id]))
	}
	refs := slices.SortedFunc(maps.Keys(b.keys), func(x, y shard.KeyRef) int {
		return cmp.Or(cmp.Compare(x.ClientID, y.ClientID), cmp.Compare(x.Scope, y.Scope), cmp.Compare(x.Key, y.Key))
	})
	for _, ref := range refs {
		span.Keys = append(span.Keys, b.keys[ref])
	}
	span.Entries = append(span.Entries, b.entries...)
	span.Events = append(span.Events, b.events...)
}

// RollUp is shard.Cluster's.
func (s *Store) RollUp(_ context.Context, shardName string) (moved int, err error) {
	err = s.step("RollUp", func() error {
		for _, b := range s.on(shardName) {
			if b.row.State != owned || b.row.Seq == b.row.RollupSeq {
				continue
			}
			b.rollUp()
			moved++
		}
		return s.known(shardName)
	})
	return moved, err
}

// rollUp adds the postings since the last one to the sums of house accounts.
func (b *bucket) rollUp() {
	for _, e := range b.entries {
		if e.Seq > b.row.RollupSeq {
			count(b.rollups, e)
		}
	}
	b.row.RollupSeq = b.row.Seq
}

// count adds an entry to sums of house accounts.
func count(into map[subAccount]sums, e shard.PostedEntry) {
	side := func(account ledger.Account) (sums, bool) {
		key := subAccount{"", account, e.Currency}
		if account.IsSeller() {
			return sums{}, false
		}
		if into[key].debits == nil {
			into[key] = sums{new(big.Int), new(big.Int)}
		}
		return into[key], true
	}
	for _, p := range e.Postings {
		if sum, house := side(p.Debit); house {
			sum.debits.Add(sum.debits, big.NewInt(p.Minor))
		}
		if sum, house := side(p.Credit); house {
			sum.credits.Add(sum.credits, big.NewInt(p.Minor))
		}
	}
}

// WrongSums is shard.Cluster's. The hook does not see it.
func (s *Store) WrongSums(_ context.Context, shardName string) ([]string, error) {
	if err := s.known(shardName); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	posted := map[subAccount]*big.Int{}
	for _, b := range s.on(shardName) {
		rolled := map[subAccount]sums{}
		for _, e := range b.entries {
			addSellers(posted, shardName, e)
			if e.Seq <= b.row.RollupSeq {
				count(rolled, e)
			}
		}
		out = append(out, differing(b.row.Bucket, b.rollups, rolled)...)
	}
	for account, live := range s.sellers {
		if want := posted[account]; account.shard == shardName && (want == nil || want.Cmp(live) != 0) {
			out = append(out, fmt.Sprintf("%s %s: live balance %s, postings %v", account.account, account.currency, live, want))
		}
	}
	slices.Sort(out)
	return out, nil
}

func addSellers(into map[subAccount]*big.Int, shardName string, e shard.PostedEntry) {
	add := func(account ledger.Account, minor int64) {
		key := subAccount{shardName, account, e.Currency}
		if into[key] == nil {
			into[key] = new(big.Int)
		}
		into[key].Add(into[key], big.NewInt(minor))
	}
	for _, p := range e.Postings {
		add(p.Credit, p.Minor)
		add(p.Debit, -p.Minor)
	}
}

func differing(b shard.Bucket, kept, posted map[subAccount]sums) []string {
	var out []string
	for account, is := range kept {
		if want := posted[account]; want.debits == nil || is.debits.Cmp(want.debits) != 0 || is.credits.Cmp(want.credits) != 0 {
			out = append(out, fmt.Sprintf("bucket %s %s %s: roll-up and postings differ", b, account.account, account.currency))
		}
	}
	return out
}

// Balance is shard.Cluster's; a seller's sub-account shows its net alone, as Credits.
func (s *Store) Balance(_ context.Context, account ledger.Account, currency ledger.Currency) (shard.Balance, error) {
	out := shard.Balance{Account: account, Currency: currency, Minor: new(big.Int), At: s.now()}
	err := s.step("Balance", func() error {
		for _, name := range s.owners.Names() {
			part := shard.SubAccount{Shard: name, Debits: new(big.Int), Credits: new(big.Int)}
			for b := range shard.Bucket(shard.Buckets) {
				if s.owners.Owner(b).Shard == name {
					part.Buckets++
				}
			}
			s.sum(&part, account, currency)
			out.Parts = append(out.Parts, part)
			out.Minor.Add(out.Minor, part.Debits).Sub(out.Minor, part.Credits)
		}
		return nil
	})
	return out, err
}

func (s *Store) sum(part *shard.SubAccount, account ledger.Account, currency ledger.Currency) {
	if account.IsSeller() {
		if live := s.sellers[subAccount{part.Shard, account, currency}]; live != nil {
			part.Credits.Set(live)
		}
		return
	}
	all := map[subAccount]sums{}
	for _, b := range s.on(part.Shard) {
		for _, e := range b.entries {
			count(all, e)
		}
	}
	if sum := all[subAccount{"", account, currency}]; sum.debits != nil {
		part.Debits, part.Credits = sum.debits, sum.credits
	}
}
