package model

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"time"

	"paygrid/ledger"
	"paygrid/shard"
)

// Begin is shard.Cluster's.
func (s *Store) Begin(_ context.Context, o shard.Opening) error {
	if err := o.Check(); err != nil {
		return err
	}
	return s.step("Begin", func() error { return s.begin(o) })
}

// begin writes an opening: of its rows only what is decided by the caller, all else has its one first value.
func (s *Store) begin(o shard.Opening) error {
	id, _ := shard.BucketOfID(shard.PaymentPrefix, o.Payment.ID) // Check has read it
	b, err := s.fenced(id)
	if err != nil {
		return err
	}
	if _, taken := b.keys[o.Key.KeyRef]; taken && s.held[UniqueKeys] {
		return shard.ErrConflict
	}
	p := o.Payment
	p.Status, p.PSPRef, p.Captured, p.Released, p.Refunding, p.Refunded = "AUTH_PENDING", "", 0, 0, 0, 0
	p.RedirectURL, p.FailureCode, p.Failure, p.ExpiresAt = "", "", "", time.Time{}
	p.CreatedAt, p.UpdatedAt = o.At, o.At
	a := shard.Attempt{ID: o.Attempt.ID, PaymentID: p.ID, Kind: "AUTHORIZE", PSP: p.PSP, Amount: p.Authorized, Status: pending,
		RouteReason: o.Attempt.RouteReason, ClientKey: o.Key.Key, SentAt: o.At, NextCheckAt: o.Attempt.NextCheckAt, UpdatedAt: o.At}
	k := shard.Key{KeyRef: o.Key.KeyRef, RequestHash: o.Key.RequestHash, PaymentID: p.ID, SubjectID: a.ID}
	_, twice := b.payments[p.ID]
	_, again := b.attempts[a.ID]
	if err := refuse(
		rule{!twice && !again, "23505", "payments_pkey"},
		rule{json.Valid(p.Method) && json.Valid(o.Event.Payload), "22P02", ""},
		rule{mayBe(p.CaptureMode, "manual", "automatic"), "23514", "payments_mode"},
		rule{keyLength(k.Key), "23514", "keys_length"},
	); err != nil {
		return err
	}
	b.keys[k.KeyRef], b.payments[p.ID], b.attempts[a.ID] = k, p, attempt{Attempt: a}
	b.emits(p, o.Event, o.At)
	return nil
}

// Apply is shard.Cluster's.
func (s *Store) Apply(_ context.Context, c shard.Change) error {
	if err := c.Check(); err != nil {
		return err
	}
	return s.step("Apply", func() error { return s.apply(c) })
}

func (s *Store) apply(c shard.Change) error {
	id, _ := shard.BucketOfID(shard.PaymentPrefix, c.Payment.ID) // Check has read it
	b, err := s.fenced(id)
	if err != nil {
		return err
	}
	p, there := b.payments[c.Payment.ID]
	if !there || !s.holds(p, c) {
		return shard.ErrConflict
	}
	if err := b.refuses(c, s.held[UniqueEntries]); err != nil {
		return err
	}
	b.moves(p, c)
	for _, a := range c.Attempts {
		b.putAttempt(a, c)
	}
	for _, r := range c.Refunds {
		b.putRefund(r, c)
	}
	for _, k := range c.Keys {
		b.putKey(k, c.Payment.ID)
	}
	b.emits(c.Payment, c.Event, c.At)
	if c.Entry != nil && s.held[Atomicity] {
		s.posts(b, c)
	}
	return nil
}

// holds is the compare-and-set, with the caps against what is stored.
func (s *Store) holds(p shard.Payment, c shard.Change) bool {
	if s.held[CompareAndSet] && (p.Version != c.Payment.Version-1 || p.Status != c.From) {
		return false
	}
	return c.Payment.Captured <= p.Authorized-c.Payment.Released && c.Payment.Refunding <= c.Payment.Captured-c.Payment.Refunded
}

// moves writes of the payment what a change may change; who pays whom how much stays for ever.
func (b *bucket) moves(p shard.Payment, c shard.Change) {
	n := c.Payment
	p.Status, p.Version, p.PSP, p.PSPRef, p.Captured, p.Released = n.Status, n.Version, n.PSP, n.PSPRef, n.Captured, n.Released
	p.Refunding, p.Refunded, p.Parts, p.RedirectURL = n.Refunding, n.Refunded, slices.Clone(n.Parts), n.RedirectURL
	p.FailureCode, p.Failure, p.ExpiresAt, p.UpdatedAt = n.FailureCode, n.Failure, n.ExpiresAt, c.At
	b.payments[p.ID] = p
}

func (b *bucket) putAttempt(a shard.Attempt, c shard.Change) {
	row, there := b.attempts[a.ID]
	if !there {
		row = attempt{Attempt: a}
		row.PaymentID = c.Payment.ID
		row.Checks, row.Absent, row.Escalated = 0, 0, false // the queue's own
	}
	row.Status, row.Outcome, row.Code, row.Detail, row.PSPRef = a.Status, a.Outcome, a.Code, a.Detail, a.PSPRef
	row.NextCheckAt, row.UpdatedAt = a.NextCheckAt, c.At
	b.attempts[a.ID] = row
}

func (b *bucket) putRefund(r shard.Refund, c shard.Change) {
	row, there := b.refunds[r.ID]
	if !there {
		row = r
		row.PaymentID, row.CreatedAt = c.Payment.ID, c.At
	}
	row.Status, row.Shares, row.Code, row.Detail, row.UpdatedAt = r.Status, slices.Clone(r.Shares), r.Code, r.Detail, c.At
	b.refunds[r.ID] = row
}

// putKey stores a key, or the answer of one that has none: the first answer stays.
func (b *bucket) putKey(k shard.Key, paymentID string) {
	row, there := b.keys[k.KeyRef]
	switch {
	case !there:
		k.PaymentID = paymentID
		b.keys[k.KeyRef] = k
	case row.AnswerKind == "":
		row.AnswerKind, row.Answer = k.AnswerKind, k.Answer
		b.keys[k.KeyRef] = row
	}
}

// emits gives the change its number and appends its event.
func (b *bucket) emits(p shard.Payment, e shard.Event, at time.Time) {
	b.row.Seq++
	b.events = append(b.events, shard.PostedEvent{Event: e, Bucket: b.row.Bucket, Seq: b.row.Seq, PaymentID: p.ID, Version: p.Version,
		CreatedAt: at})
}

// posts appends the change's entry under the change's number, and counts its postings in the sellers' balances.
func (s *Store) posts(b *bucket, c shard.Change) {
	e := *c.Entry
	e.Postings = slices.Clone(e.Postings)
	b.entries = append(b.entries, shard.PostedEntry{Entry: e, Bucket: b.row.Bucket, Seq: b.row.Seq, PaymentID: c.Payment.ID, CreatedAt: c.At})
	name := s.owners.Owner(b.row.Bucket).Shard
	for _, p := range e.Postings {
		s.adds(subAccount{name, p.Credit, e.Currency}, p.Minor)
		s.adds(subAccount{name, p.Debit, e.Currency}, -p.Minor)
	}
}

func (s *Store) adds(a subAccount, minor int64) {
	if !a.account.IsSeller() {
		return
	}
	if s.sellers[a] == nil {
		s.sellers[a] = new(big.Int)
	}
	s.sellers[a].Add(s.sellers[a], big.NewInt(minor))
}

// rule is one condition of the tables, with what the database says where it does not hold.
type rule struct {
	holds                bool
	sqlState, constraint string
}

func refuse(rules ...rule) error {
	for _, r := range rules {
		if !r.holds {
			return &shard.RefusedError{SQLState: r.sqlState, Constraint: r.constraint,
				Err: fmt.Errorf("%s does not hold", r.constraint)}
		}
	}
	return nil
}

// refuses checks a change against the tables' keys and CHECKs.
func (b *bucket) refuses(c shard.Change, uniqueEntries bool) error {
	rules := []rule{{mayBe(string(c.Payment.Status), paymentStates...), "23514", "payments_status"}, {json.Valid(c.Event.Payload), "22P02", ""}}
	seen := map[string]bool{}
	once := func(id string) rule { // one statement cannot write a row twice
		defer func() { seen[id] = true }()
		return rule{!seen[id], "21000", ""}
	}
	for _, a := range c.Attempts {
		rules = append(rules, once(a.ID), rule{mayBe(a.Kind, "AUTHORIZE", "CAPTURE", "VOID", "REFUND"), "23514", "attempts_kind"},
			rule{mayBe(string(a.Status), "PENDING", "SUCCEEDED", "FAILED", "NOT_SENT"), "23514", "attempts_status"},
			rule{a.Amount > 0, "23514", "attempts_amount"})
	}
	for _, r := range c.Refunds {
		rules = append(rules, once(r.ID), rule{mayBe(string(r.Status), "PENDING", "SUCCEEDED", "FAILED"), "23514", "refunds_status"},
			rule{r.Amount > 0, "23514", "refunds_amount"})
	}
	for _, k := range c.Keys {
		rules = append(rules, once(fmt.Sprint(k.KeyRef)), rule{keyLength(k.Key), "23514", "keys_length"},
			rule{(k.AnswerKind == "") == (k.Answer == nil), "23514", "keys_answer"})
	}
	if c.Entry != nil && uniqueEntries {
		rules = append(rules, b.entryRules(*c.Entry)...)
	}
	return refuse(rules...)
}

// entryRules: an entry's ID is used once, and an entry is reversed once.
func (b *bucket) entryRules(e ledger.Entry) []rule {
	posted := slices.ContainsFunc(b.entries, func(x shard.PostedEntry) bool { return x.ID == e.ID })
	reversed := e.Reverses != "" && slices.ContainsFunc(b.entries, func(x shard.PostedEntry) bool { return x.Reverses == e.Reverses })
	return []rule{{!posted, "23505", "journal_entries_pkey"}, {!reversed, "23505", "journal_entries_reversed_once"},
		{e.Reverses != e.ID, "23514", "journal_entries_reverses"}}
}

func mayBe(word string, words ...string) bool { return slices.Contains(words, word) }

func keyLength(key string) bool { return len(key) >= 1 && len(key) <= 255 }
