package payment

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/psprouter/stripe"
	"paygrid/shard"
)

var update = flag.Bool("update", false, "write the golden files and docs/states.md anew")

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	compareFile(t, filepath.Join("testdata", name), got)
}

func compareFile(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is stale; read the difference, then run go test ./payment -update\ngot:\n%s", path, got)
	}
}

var anyID = regexp.MustCompile(`\b(pay|att|ref|evt|pi|re|ch)_[0-9A-Za-z_]+`)

// numbered replaces every ID by its kind and number in order of appearance, so that texts can be compared.
func numbered(text string) string {
	names, counts := map[string]string{}, map[string]int{}
	return anyID.ReplaceAllStringFunc(text, func(id string) string {
		kind := anyID.FindStringSubmatch(id)[1]
		if names[id] == "" {
			counts[kind]++
			names[id] = fmt.Sprintf("%s#%d", kind, counts[kind])
		}
		return names[id]
	})
}

// noon is when the pure tests play.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	checkAfter = time.Minute
	lifetime   = 7 * 24 * time.Hour
)

func eur(minor int64) *ledger.Money { return &ledger.Money{Minor: minor, Currency: "EUR"} }

// p10 is the standard purchase: 100.00 EUR, ann 70.00 (commission 7.00), bob 30.00 (commission 4.50).
func p10(key, token string, mode CaptureMode) AuthorizeCommand {
	return AuthorizeCommand{Client: "tk_shop_a", Key: key, OrderID: "ord-" + key, CustomerID: "c1", Amount: *eur(10000),
		Method:      Method{Tokens: map[string]string{stripe.Name: token}, Brand: "visa", Last4: "4242", Expiry: "2028-09", Country: "DE"},
		CaptureMode: mode, Splits: []ledger.Split{{SellerID: "s-ann", Minor: 7000, CommissionMinor: 700}, {SellerID: "s-bob", Minor: 3000, CommissionMinor: 450}},
		ReturnURL: "https://shop.example/back"}
}

// tb is what *testing.T and *rapid.T have in common.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// book is one payment in memory: what a shard would hold of it, under the same conditions.
type book struct {
	shard.Snapshot
	keys    map[shard.KeyRef]shard.Key
	entries []ledger.Entry
	events  []shard.Event
	at      time.Time
}

// choice is a real adapter that is never called.
func choice() psprouter.Choice {
	psp, err := stripe.New(stripe.Config{BaseURL: "http://127.0.0.1:1", SecretKey: "sk_test"})
	if err != nil {
		panic(err)
	}
	return psprouter.Choice{PSP: psp, Token: "pm_ok", Reason: "stripe: first with a token"}
}

// opened is a payment whose intent is committed.
func opened(t tb, c AuthorizeCommand) *book {
	t.Helper()
	o, err := open(c, choice(), noon, checkAfter)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	if err := o.Check(); err != nil {
		t.Fatalf("open: %v", err)
	}
	return &book{Snapshot: shard.Snapshot{Payment: o.Payment, Attempts: []shard.Attempt{o.Attempt}},
		keys: map[shard.KeyRef]shard.Key{o.Key.KeyRef: o.Key}, events: []shard.Event{o.Event}, at: noon}
}

// authorized is a payment that the PSP approved: AUTHORIZED, or CAPTURED in automatic mode.
func authorized(t tb, c AuthorizeCommand) *book {
	t.Helper()
	b := opened(t, c)
	o := psprouter.ApprovedAs("pi_1")
	o.Captured = c.CaptureMode == Automatic
	b.mustSettle(t, b.Attempts[0].ID, o)
	return b
}

// take commits a change as a shard does: compare-and-set, upserts, the first answer of a key stays.
func (b *book) take(t tb, c shard.Change) {
	t.Helper()
	if err := c.Check(); err != nil {
		t.Fatalf("%v", err)
	}
	if c.From != b.Payment.Status || c.Payment.Version != b.Payment.Version+1 {
		t.Fatalf("from %s to version %d; the payment is %s at %d", c.From, c.Payment.Version, b.Payment.Status, b.Payment.Version)
	}
	if !json.Valid(c.Event.Payload) || c.Event.Type == "" {
		t.Fatalf("event %q with payload %q", c.Event.Type, c.Event.Payload)
	}
	b.Payment = c.Payment
	for _, a := range c.Attempts {
		b.Attempts = upsert(b.Attempts, a, func(x shard.Attempt) string { return x.ID })
	}
	for _, r := range c.Refunds {
		b.Refunds = upsert(b.Refunds, r, func(x shard.Refund) string { return x.ID })
	}
	for _, k := range c.Keys {
		if b.keys[k.KeyRef].AnswerKind == "" {
			b.keys[k.KeyRef] = k
		}
	}
	if c.Entry != nil {
		b.entries = append(b.entries, *c.Entry)
	}
	b.events = append(b.events, c.Event)
}

func upsert[T any](rows []T, row T, id func(T) string) []T {
	rows = slices.Clone(rows)
	n := slices.IndexFunc(rows, func(x T) bool { return id(x) == id(row) })
	if n < 0 {
		return append(rows, row)
	}
	rows[n] = row
	return rows
}

// settle decides an outcome, commits it, and returns the answer.
func (b *book) settle(t tb, attempt string, o psprouter.Outcome) (Answer, error) {
	t.Helper()
	change, answer, err := settle(b.Snapshot, attempt, o, b.at, lifetime)
	if err == nil {
		b.take(t, change)
	}
	return answer, err
}

func (b *book) mustSettle(t tb, attempt string, o psprouter.Outcome) Answer {
	t.Helper()
	answer, err := b.settle(t, attempt, o)
	if err != nil {
		t.Fatalf("settle %v: %v", o.Class(), err)
	}
	return answer
}

// capture, void and refund commit an intent and return its attempt, or the refusal; nil takes all that is left.
func (b *book) capture(t tb, amount *ledger.Money, several bool) (string, error) {
	t.Helper()
	a, err := askCapture(b.Snapshot, CaptureCommand{Client: b.Payment.ClientID, Key: b.nextKey(), PaymentID: b.Payment.ID, Amount: amount}, b.at, several, checkAfter)
	return b.commit(t, a, err)
}

func (b *book) void(t tb) (string, error) {
	t.Helper()
	a, err := askVoid(b.Snapshot, VoidCommand{Client: b.Payment.ClientID, Key: b.nextKey(), PaymentID: b.Payment.ID}, b.at, checkAfter)
	return b.commit(t, a, err)
}

func (b *book) refund(t tb, amount *ledger.Money) (string, error) {
	t.Helper()
	a, err := askRefund(b.Snapshot, RefundCommand{Client: b.Payment.ClientID, Key: b.nextKey(), PaymentID: b.Payment.ID, Amount: amount}, b.at, checkAfter)
	return b.commit(t, a, err)
}

func (b *book) nextKey() string { return fmt.Sprintf("k-%d", b.Payment.Version) }

func (b *book) commit(t tb, a asked, err error) (string, error) {
	t.Helper()
	if err != nil {
		return "", err
	}
	after := a.snapshot(b.Snapshot)
	b.take(t, a.change)
	if !reflect.DeepEqual(after, b.Snapshot) {
		t.Errorf("the snapshot after the intent is\n%+v, the book says\n%+v", after, b.Snapshot)
	}
	return a.attempt.ID, nil
}

// done fails the test if an intent was refused.
func done(t tb) func(string, error) string {
	return func(attempt string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		return attempt
	}
}

// balances are the sums per account, debits positive; accounts at zero are left out.
func (b *book) balances() map[ledger.Account]int64 {
	sums := map[ledger.Account]int64{}
	for _, e := range b.entries {
		for _, p := range e.Postings {
			sums[p.Debit] += p.Minor
			sums[p.Credit] -= p.Minor
		}
	}
	for account, sum := range sums {
		if sum == 0 {
			delete(sums, account)
		}
	}
	return sums
}

// wantError checks a refusal: code, field, remaining (-1 = none), and that it says what to do.
func wantError(t tb, err error, code Code, field string, remaining int64) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want %s", err, code)
	}
	left := int64(-1)
	if e.Remaining != nil {
		left = *e.Remaining
	}
	if e.Code != code || e.Field != field || left != remaining {
		t.Errorf("got %s at %q, remaining %d; want %s at %q, remaining %d (%v)", e.Code, e.Field, left, code, field, remaining, e)
	}
	if e.Remedy == "" || e.Detail == "" {
		t.Errorf("%s says %q and no remedy", e.Code, e.Detail)
	}
	return e
}
