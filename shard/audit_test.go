package shard_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"paygrid/ledger"
	"paygrid/shard"
)

// walked counts what Walk shows of all shards.
func (b bench) walked(t *testing.T) (rows map[string]int, orphans []string) {
	t.Helper()
	rows = map[string]int{}
	for _, name := range b.layout.Names {
		must(t, b.Walk(context.Background(), name, func(s shard.Span) error {
			rows["spans of "+s.Shard]++
			rows["buckets"] += len(s.Buckets)
			rows["payments"] += len(s.Payments)
			rows["attempts"] += len(s.Attempts)
			rows["refunds"] += len(s.Refunds)
			rows["keys"] += len(s.Keys)
			rows["entries"] += len(s.Entries)
			rows["events"] += len(s.Events)
			orphans = append(orphans, s.Orphans...)
			return nil
		}))
	}
	return rows, orphans
}

// TestWalkSeesAll: Walk shows each row of every table once.
func TestWalkSeesAll(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		c := open(t, 2, options)
		for n, b := range []shard.Bucket{0, 63, 64, 2047, 2048, 4095, 4095} {
			o := c.captured(t, "shop", keyIn("shop", b, n))
			must(t, c.Apply(context.Background(), refund(t, capture(t, o).Payment, 500)))
		}
		rows, orphans := c.walked(t)
		want := map[string]int{"spans of shard-1": 64, "spans of shard-2": 64, "buckets": 4096, "payments": 7, "attempts": 7,
			"refunds": 7, "keys": 7, "entries": 14, "events": 21}
		if got := fmt.Sprint(rows); got != fmt.Sprint(want) || len(orphans) != 0 {
			t.Errorf("walked %s, want %v; orphans %v", got, want, orphans)
		}
	})
}

// TestWalkFindsOrphans: a posting whose entry is gone and an entry whose postings are gone are named.
func TestWalkFindsOrphans(t *testing.T) {
	t.Parallel()
	c := open(t, 1, shard.Options{})
	lost := c.captured(t, "shop", keyIn("shop", 5, 0))
	bare := c.captured(t, "shop", keyIn("shop", 6, 0))
	renamed := c.captured(t, "shop", keyIn("shop", 7, 0))
	c.layout.Exec(t, "shard-1", "DELETE FROM journal_entries WHERE payment_id = $1", lost.Payment.ID)
	c.layout.Exec(t, "shard-1", "DELETE FROM postings WHERE entry_id = $1", "capture:"+bare.Attempt.ID)
	c.layout.Exec(t, "shard-1", "UPDATE postings SET entry_id = 'x' WHERE entry_id = $1 AND posting_no = 0", "capture:"+renamed.Attempt.ID)
	_, orphans := c.walked(t)
	found := strings.Join(orphans, "\n")
	for entry, times := range map[string]int{"capture:" + lost.Attempt.ID: 3, "capture:" + bare.Attempt.ID: 1, "seq 2 entry x": 1} {
		if got := strings.Count(found, entry); got != times {
			t.Errorf("%s is named %d times, want %d, in\n%s", entry, got, times, found)
		}
	}
}

// TestWrongSums names each planted fault in a balance, and nothing where there is none.
func TestWrongSums(t *testing.T) {
	for name, fault := range map[string]struct{ sql, want string }{
		"sound":                     {"SELECT 1", ""},
		"a live balance":            {"UPDATE seller_balances SET balance = balance + 1 WHERE account = 'seller_payable:s-ann'", "seller_payable:s-ann EUR: live balance 6301, postings 6300"},
		"a live balance is gone":    {"DELETE FROM seller_balances WHERE account = 'seller_payable:s-bob'", "seller_payable:s-bob EUR: live balance 0, postings 2550"},
		"a live balance of nobody":  {"INSERT INTO seller_balances VALUES ('seller_payable:s-eve', 'EUR', 0, 9)", "seller_payable:s-eve EUR: live balance 9, postings 0"},
		"two faults that make up":   {"UPDATE seller_balances SET balance = balance + CASE account WHEN 'seller_payable:s-ann' THEN 5 ELSE -5 END", "seller_payable:s-bob EUR: live balance 2545, postings 2550"},
		"a roll-up":                 {"UPDATE rollups SET debits = debits + 1 WHERE account = 'psp_receivable:stripe'", "bucket 0005 psp_receivable:stripe EUR: roll-up 10001, postings 10000"},
		"a roll-up is gone":         {"DELETE FROM rollups WHERE account = 'commission_revenue'", "bucket 0005 commission_revenue EUR: roll-up 0, postings -1150"},
		"a roll-up before its time": {"UPDATE buckets SET rollup_seq = 1 WHERE bucket = 5", "bucket 0005 commission_revenue EUR: roll-up -1150, postings 0"},
		"a posting":                 {"UPDATE postings SET amount = amount + 1 WHERE credit_account = 'seller_payable:s-ann'", "seller_payable:s-ann EUR: live balance 6300, postings 6301"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, 1, shard.Options{})
			c.captured(t, "shop", keyIn("shop", 5, 0))
			if _, err := c.RollUp(context.Background(), "shard-1"); err != nil {
				t.Fatal(err)
			}
			c.layout.Exec(t, "shard-1", fault.sql)
			wrong, err := c.WrongSums(context.Background(), "shard-1")
			must(t, err)
			if found := strings.Join(wrong, "\n"); !strings.Contains(found, fault.want) || fault.want == "" && found != "" {
				t.Errorf("found %q, want %q", found, fault.want)
			}
		})
	}
}

// TestRollUp: a balance is the same before, between and after roll-ups, and a roll-up with nothing new does nothing.
func TestRollUp(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		c := open(t, 1, options)
		for n := range 3 {
			c.captured(t, "shop", keyIn("shop", shard.Bucket(5+n%2), n))
			c.expectPosted(t, int64(n+1))
			for k, want := range []int{1, 0} {
				if n == 0 && k == 0 {
					continue // two payments are in before the first roll-up
				}
				if n == 1 && k == 0 {
					want = 2
				}
				if n == 0 {
					continue
				}
				moved, err := c.RollUp(context.Background(), "shard-1")
				if err != nil || moved != want {
					t.Errorf("after payment %d roll-up %d moved %d buckets (%v), want %d", n, k, moved, err, want)
				}
				c.expectPosted(t, int64(n+1))
			}
		}
		if n := c.layout.Count(t, "shard-1", "SELECT count(*) FROM rollups WHERE account LIKE 'seller%'"); n != 0 {
			t.Errorf("%d roll-ups of sellers, who have live rows", n)
		}
		c.sound(t)
	})
}

// TestBalanceBeyondInt64: sums are exact beyond what an amount can be.
func TestBalanceBeyondInt64(t *testing.T) {
	t.Parallel()
	c := open(t, 1, shard.Options{})
	c.captured(t, "shop", "k1")
	c.layout.Exec(t, "shard-1", `INSERT INTO postings (bucket, seq, posting_no, entry_id, debit_account, credit_account, amount, currency)
SELECT 1, n, 0, 'x', 'cash:b', 'payouts_in_transit', 9223372036854775807, 'EUR' FROM generate_series(1, 3) AS n`)
	balance, err := c.Balance(context.Background(), ledger.Cash("b"), "EUR")
	must(t, err)
	if got := balance.Minor.String(); got != "27670116110564327421" || balance.Parts[0].Buckets != 4096 {
		t.Errorf("cash is %s in %+v", got, balance.Parts)
	}
}
