package shard

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"paygrid/ledger"
)

// One statement per shard, so that the sums and the buckets that they cover come from one snapshot. A bucket counts where
// it is OWNED or FROZEN: its rows move in between, not its money.
const (
	// sqlSellerBalance sums a seller's slots. It relies on the primary key.
	sqlSellerBalance = `
SELECT 0::NUMERIC::TEXT, coalesce((SELECT sum(s.balance) FROM seller_balances s
        WHERE s.account = $1::TEXT AND s.currency = $2::TEXT), 0)::TEXT,
    (SELECT array_agg(b.bucket ORDER BY b.bucket) FROM buckets b
        WHERE b.bucket >= 0 AND b.state IN ('OWNED', 'FROZEN'))`

	// sqlHouseBalance sums the roll-ups and the postings after them. Per bucket it relies on the primary
	// keys of both.
	sqlHouseBalance = `
SELECT coalesce(sum(r.debits + x.debits), 0)::TEXT, coalesce(sum(r.credits + x.credits), 0)::TEXT,
    array_agg(b.bucket ORDER BY b.bucket)
FROM buckets b
CROSS JOIN LATERAL (
    SELECT coalesce(sum(y.debits), 0) AS debits, coalesce(sum(y.credits), 0) AS credits FROM rollups y
    WHERE y.bucket = b.bucket AND y.account = $1::TEXT AND y.currency = $2::TEXT
) r
CROSS JOIN LATERAL (
    SELECT coalesce(sum(p.amount) FILTER (WHERE p.debit_account = $1::TEXT), 0) AS debits,
        coalesce(sum(p.amount) FILTER (WHERE p.credit_account = $1::TEXT), 0) AS credits
    FROM postings p
    WHERE p.bucket = b.bucket AND p.seq > b.rollup_seq AND p.currency = $2::TEXT
        AND (p.debit_account = $1::TEXT OR p.credit_account = $1::TEXT)
) x
WHERE b.bucket >= 0 AND b.state IN ('OWNED', 'FROZEN')`

	// sqlRollUp moves the roll-ups of house accounts on to where their buckets are now.
	//
	//	f  takes the buckets' seq from the statement's snapshot, without a lock: the postings come from the same
	//	   snapshot, so none up to seq can be missing (a locked row would be newer than they are)
	//	l  locks the rows in the order of all other statements, so that they cannot deadlock
	//	b  moves rollup_seq by compare-and-set, so that two roll-ups at once count nothing twice
	sqlRollUp = `
WITH f AS (
    SELECT b.bucket, b.seq, b.rollup_seq FROM buckets b
    WHERE b.bucket = ANY($1::INT4[]) AND b.state = 'OWNED' AND b.seq > b.rollup_seq
),
l AS (
    SELECT b.bucket FROM buckets b
    WHERE b.bucket = ANY($1::INT4[]) AND b.state = 'OWNED' AND b.seq > b.rollup_seq
    ORDER BY b.bucket FOR NO KEY UPDATE
),
b AS (
    UPDATE buckets SET rollup_seq = f.seq FROM f JOIN l ON l.bucket = f.bucket
    WHERE buckets.bucket = f.bucket AND buckets.rollup_seq = f.rollup_seq AND buckets.state = 'OWNED'
    RETURNING buckets.bucket
),
d AS (
    SELECT f.bucket, v.account, p.currency, sum(v.debit) AS debits, sum(v.credit) AS credits
    FROM b JOIN f ON f.bucket = b.bucket
    JOIN postings p ON p.bucket = f.bucket AND p.seq > f.rollup_seq AND p.seq <= f.seq
    CROSS JOIN LATERAL (VALUES (p.debit_account, p.amount, 0::INT8), (p.credit_account, 0::INT8, p.amount))
        AS v(account, debit, credit)
    WHERE v.account < 'seller_payable:' OR v.account >= 'seller_payable;'
    GROUP BY f.bucket, v.account, p.currency
),
r AS (
    INSERT INTO rollups (bucket, account, currency, debits, credits)
    SELECT d.bucket, d.account, d.currency, d.debits, d.credits FROM d ORDER BY d.bucket, d.account, d.currency
    ON CONFLICT (bucket, account, currency) DO UPDATE SET debits = rollups.debits + excluded.debits,
        credits = rollups.credits + excluded.credits
)
SELECT count(b.bucket) FROM b`
)

// SubAccount is the part of an account that lies on one shard. Sums are in minor units and can be larger than an int64.
type SubAccount struct {
	Shard   string   `json:"shard"`
	Debits  *big.Int `json:"debits"`
	Credits *big.Int `json:"credits"`
	Buckets int      `json:"buckets"` // how many buckets it covers
}

// Balance is an account over all shards: debits minus credits, every bucket counted exactly once.
type Balance struct {
	Account  ledger.Account  `json:"account"`
	Currency ledger.Currency `json:"currency"`
	Minor    *big.Int        `json:"minor"` // positive = debit
	At       time.Time       `json:"at"`
	Parts    []SubAccount    `json:"parts"`
}

// maxCoverTries bounds how often a balance is read again because the shards' answers did not cover every bucket once.
const maxCoverTries = 20

// errCover is a set of answers that does not cover each bucket once: a bucket moved between them.
var errCover = errors.New("the shards' answers do not cover every bucket exactly once")

// Balance reads an account: the sum of its sub-accounts. Sellers' sub-accounts show their net alone, as Credits.
func (c *Cluster) Balance(ctx context.Context, account ledger.Account, currency ledger.Currency) (Balance, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.CallTimeout)
	defer cancel()
	pause := firstPause
	for try := 1; ; try++ {
		balance, err := c.balanceOnce(ctx, account, currency)
		if !errors.Is(err, errCover) || try == maxCoverTries {
			return balance, err
		}
		if !sleep(ctx, jitter(pause)) {
			return Balance{}, ctx.Err()
		}
		pause = min(2*pause, longestPause)
		if err := c.Reload(ctx); err != nil {
			return Balance{}, err
		}
	}
}

func (c *Cluster) balanceOnce(ctx context.Context, account ledger.Account, currency ledger.Currency) (Balance, error) {
	out := Balance{Account: account, Currency: currency, Minor: new(big.Int), At: c.opts.Now()}
	var covered [Buckets]int
	for _, s := range c.all() {
		part, buckets, err := s.subAccount(ctx, account, currency)
		if err != nil {
			return Balance{}, err
		}
		for _, b := range buckets {
			covered[b]++
		}
		out.Parts = append(out.Parts, part)
		out.Minor.Add(out.Minor, part.Debits)
		out.Minor.Sub(out.Minor, part.Credits)
	}
	for b, times := range covered {
		if times != 1 {
			return Balance{}, fmt.Errorf("bucket %s is counted %d times: %w", Bucket(b), times, errCover)
		}
	}
	return out, nil
}

func (s *Shard) subAccount(ctx context.Context, account ledger.Account, currency ledger.Currency) (SubAccount, []int32, error) {
	sql := sqlHouseBalance
	if account.IsSeller() {
		sql = sqlSellerBalance
	}
	var debits, credits string
	var buckets []int32
	err := s.readLong(ctx, s.opts.CallTimeout, "balance", func(ctx context.Context) error {
		return s.readers.QueryRow(ctx, sql, string(account), string(currency)).Scan(&debits, &credits, &buckets)
	})
	if err != nil {
		return SubAccount{}, nil, fmt.Errorf("shard %s: %w", s.name, err)
	}
	part := SubAccount{Shard: s.name, Buckets: len(buckets)}
	var ok1, ok2 bool
	part.Debits, ok1 = new(big.Int).SetString(debits, 10)
	part.Credits, ok2 = new(big.Int).SetString(credits, 10)
	if !ok1 || !ok2 {
		return SubAccount{}, nil, fmt.Errorf("shard %s: sums %q and %q are not integers", s.name, debits, credits)
	}
	return part, buckets, nil
}

// rollUpBuckets is how many buckets one roll-up statement takes. It holds their rows while it sums, and payments wait for
// them: so not more.
const rollUpBuckets = 32

// RollUp moves the roll-ups of house accounts on one shard to where its buckets are now, and returns how many buckets
// moved on. A statement of it has the call's time limit: one that sums hours of postings must come to its end.
func (c *Cluster) RollUp(ctx context.Context, shardName string) (int, error) {
	s, buckets, err := c.ownedBy(shardName)
	if err != nil {
		return 0, err
	}
	moved := 0
	for start := 0; start < len(buckets); start += rollUpBuckets {
		some := buckets[start:min(start+rollUpBuckets, len(buckets))]
		var n int
		err := s.retryLong(ctx, s.opts.CallTimeout, "roll up", func(ctx context.Context) error {
			return s.readers.QueryRow(ctx, sqlRollUp, some).Scan(&n)
		})
		if err != nil {
			return moved, fmt.Errorf("shard %s: %w", shardName, err)
		}
		moved += n
	}
	return moved, nil
}

// named returns a shard of the map, or ErrNotFound.
func (c *Cluster) named(name string) (*Shard, error) {
	m := c.Map()
	c.mu.RLock()
	s := c.shards[m.URLs[name]]
	c.mu.RUnlock()
	if s == nil {
		return nil, fmt.Errorf("shard %q: %w", name, ErrNotFound)
	}
	return s, nil
}

// ownedBy returns a shard and the buckets that the map gives it.
func (c *Cluster) ownedBy(name string) (*Shard, []int32, error) {
	m := c.Map()
	s, err := c.named(name)
	if err != nil {
		return nil, nil, err
	}
	var buckets []int32
	for b := range Buckets {
		if m.Owner(Bucket(b)).Shard == name {
			buckets = append(buckets, int32(b))
		}
	}
	return s, buckets, nil
}
