package shard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"paygrid/shard"
)

// mixed is what leaves in one turn: an opening, a capture and a notice, each marked in its text.
type mixed struct {
	opening shard.Opening
	change  shard.Change
	notice  shard.InboxItem
	stored  bool
}

// mixture makes one of each kind; the payment that is captured is opened first.
func mixture(t *testing.T, c bench) *mixed {
	t.Helper()
	before := opening("shop", "before")
	must(t, c.Begin(context.Background(), before))
	m := &mixed{opening: opening("shop", "now"), change: capture(t, before)}
	m.opening.Payment.ReturnURL = "marked"
	m.notice = shard.InboxItem{Bucket: 9, PSP: "stripe", EventID: "evt_1", Kind: "charge.succeeded", Raw: []byte("{}")}
	return m
}

func (m *mixed) calls(c bench) []func() error {
	ctx := context.Background()
	return []func() error{
		func() error { return c.Begin(ctx, m.opening) },
		func() error { return c.Apply(ctx, m.change) },
		func() (err error) {
			m.stored, err = c.PutInbox(ctx, m.notice, m.opening.At)
			return err
		},
	}
}

// once holds that each was written once, and by how many transactions.
func (m *mixed) once(t *testing.T, c bench, transactions int64) {
	t.Helper()
	if !m.stored {
		t.Error("the notice was told as known")
	}
	written := fmt.Sprintf(`SELECT count(%%s) FROM (
SELECT xmin::TEXT AS x FROM payments WHERE payment_id IN ('%s', '%s') UNION ALL SELECT xmin::TEXT FROM webhook_inbox) w`,
		m.opening.Payment.ID, m.change.Payment.ID)
	if n := c.layout.Count(t, "shard-1", fmt.Sprintf(written, "*")); n != 3 {
		t.Errorf("%d rows, want 3", n)
	}
	if n := c.layout.Count(t, "shard-1", fmt.Sprintf(written, "DISTINCT x")); n != transactions {
		t.Errorf("written by %d transactions, want %d", n, transactions)
	}
	if n := c.layout.Count(t, "shard-1", "SELECT version FROM payments WHERE payment_id = $1", m.change.Payment.ID); n != 2 {
		t.Errorf("the captured payment is at version %d", n)
	}
	c.sound(t)
}

// TestOneCommitForAllKinds: what waits of each kind leaves together and is committed once.
func TestOneCommitForAllKinds(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		c := oneLane(t, options)
		m := mixture(t, c)
		for _, err := range together(t, c, m.calls(c)...) {
			must(t, err)
		}
		m.once(t, c, 1)
	})
}

// TestOneBadItemAmongKinds: the database refuses one item, and with it the whole turn; written again kind by kind, only that
// one is refused.
func TestOneBadItemAmongKinds(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		c := oneLane(t, options)
		m := mixture(t, c)
		bad := shard.InboxItem{Bucket: 8, PSP: "stripe", EventID: "evt_bad", Kind: "a zero byte: \x00", Raw: []byte("{}")}
		calls := append(m.calls(c), func() error {
			_, err := c.PutInbox(context.Background(), bad, m.opening.At)
			return err
		})
		errs := together(t, c, calls...)
		must(t, errors.Join(errs[:3]...))
		var refused *shard.RefusedError
		if !errors.As(errs[3], &refused) {
			t.Errorf("the bad one was told %v", errs[3])
		}
		m.once(t, c, 3)
	})
}

// TestTurnInDoubt (C040): the answer of a whole turn is lost, before or after its commit. All callers hear that it is
// written, and it is written once.
func TestTurnInDoubt(t *testing.T) {
	for name, f := range map[string]struct {
		fault
		transactions int64
	}{"before the server has it": {cutBefore, 3}, "after it has committed": {cutAfter, 1}, "the answer is late": {holdAnswer, 1}} {
		t.Run(name, func(t *testing.T) {
			isolations(t, func(t *testing.T, options shard.Options) {
				options.Lanes, options.StatementTimeout = 1, 2*time.Second
				c, p := doubtful(t, options)
				m := mixture(t, c)
				p.add("marked", f.fault, 1)
				for _, err := range together(t, c, m.calls(c)...) {
					must(t, err)
				}
				m.once(t, c, f.transactions)
			})
		})
	}
}
