package shard_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/shard"
)

// opening makes an opening of 10000 EUR for two sellers.
func opening(client, key string) shard.Opening {
	now := time.Now().UTC().Truncate(time.Microsecond)
	b := shard.BucketOf(client, key)
	splits := []ledger.Split{{SellerID: "s-ann", Minor: 7000, CommissionMinor: 700}, {SellerID: "s-bob", Minor: 3000, CommissionMinor: 450}}
	p := shard.Payment{
		ID: shard.NewID(shard.PaymentPrefix, b, now), ClientID: client, OrderID: "o-" + key, Status: "AUTH_PENDING", Version: 1,
		PSP: "stripe", Currency: "EUR", Authorized: 10000, CaptureMode: "manual", Method: json.RawMessage(`{}`), Splits: splits,
		Parts: ledger.PartsOf(splits), CreatedAt: now, UpdatedAt: now,
	}
	a := shard.Attempt{ID: shard.NewID(shard.AttemptPrefix, b, now), PaymentID: p.ID, Kind: "AUTHORIZE", PSP: "stripe", Amount: 10000,
		Status: "PENDING", ClientKey: key, SentAt: now, NextCheckAt: now.Add(time.Minute), UpdatedAt: now}
	k := shard.Key{KeyRef: shard.KeyRef{ClientID: client, Scope: "payments", Key: key}, RequestHash: sha256.Sum256([]byte(key)), PaymentID: p.ID,
		SubjectID: a.ID}
	return shard.Opening{Payment: p, Attempt: a, Key: k, At: now,
		Event: shard.Event{Type: "payment.processing", Payload: json.RawMessage(`{"status":"PROCESSING"}`)}}
}

// capture makes the change that closes an opening as captured in full.
func capture(t testing.TB, o shard.Opening) shard.Change {
	t.Helper()
	p := o.Payment
	p.Version, p.Status, p.Captured, p.PSPRef = 2, "CAPTURED", p.Authorized, "pi_1"
	parts, shares, err := p.Parts.Capture(p.Authorized)
	if err != nil {
		t.Fatal(err)
	}
	p.Parts = parts
	entry, err := ledger.Capture(o.Attempt.ID, "stripe", p.Currency, shares)
	if err != nil {
		t.Fatal(err)
	}
	a := o.Attempt
	a.Status, a.Outcome, a.PSPRef = "SUCCEEDED", "APPROVED", "pi_1"
	k := o.Key
	k.AnswerKind, k.Answer = "CHARGED", []byte(`{"id":"x"}`)
	return shard.Change{From: "AUTH_PENDING", Payment: p, Attempts: []shard.Attempt{a}, Keys: []shard.Key{k}, Entry: &entry,
		Event: shard.Event{Type: "payment.captured", Payload: json.RawMessage(`{"status":"CAPTURED"}`)}, At: o.At}
}

func TestLifeOfAPayment(t *testing.T) {
	for _, serializable := range []bool{false, true} {
		t.Run(fmt.Sprintf("serializable=%v", serializable), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			layout := databases.Layout(t, 2)
			c := layout.Open(t, shard.Options{Serializable: serializable})
			o := opening("shop", "k1")
			if err := c.Begin(ctx, o); err != nil {
				t.Fatal(err)
			}
			if err := c.Begin(ctx, opening("shop", "k1")); !errors.Is(err, shard.ErrConflict) {
				t.Fatalf("second opening under the same key: %v", err)
			}
			ch := capture(t, o)
			if err := c.Apply(ctx, ch); err != nil {
				t.Fatal(err)
			}
			if err := c.Apply(ctx, ch); !errors.Is(err, shard.ErrConflict) {
				t.Fatalf("the same change again: %v", err)
			}
			found, err := c.Find(ctx, o.Payment.ID, o.Key.KeyRef)
			if err != nil {
				t.Fatal(err)
			}
			if found.Payment.Status != "CAPTURED" || found.Key == nil || string(found.Key.Answer) != `{"id":"x"}` || len(found.Attempts) != 1 {
				t.Fatalf("found %+v", found)
			}
			entries, err := c.Entries(ctx, o.Payment.ID)
			if err != nil || len(entries) != 1 || len(entries[0].Lines()) != 4 {
				t.Fatalf("entries %+v, %v", entries, err)
			}
			balance, err := c.Balance(ctx, ledger.PSPReceivable("stripe"), "EUR")
			if err != nil || balance.Minor.Int64() != 10000 {
				t.Fatalf("balance %+v, %v", balance, err)
			}
			balance, err = c.Balance(ctx, ledger.SellerPayable("s-ann"), "EUR")
			if err != nil || balance.Minor.Int64() != -6300 {
				t.Fatalf("balance %+v, %v", balance, err)
			}
			for _, name := range layout.Names {
				if _, err := c.RollUp(ctx, name); err != nil {
					t.Fatal(err)
				}
			}
			balance, err = c.Balance(ctx, ledger.PSPReceivable("stripe"), "EUR")
			if err != nil || balance.Minor.Int64() != 10000 {
				t.Fatalf("balance after roll-up %+v, %v", balance, err)
			}
		})
	}
}

func TestRacingKeys(t *testing.T) {
	ctx := context.Background()
	layout := databases.Layout(t, 1)
	c := layout.Open(t, shard.Options{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 50 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			o := opening("shop", "same")
			err := c.Begin(ctx, o)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case !errors.Is(err, shard.ErrConflict):
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	if won != 1 {
		t.Fatalf("%d openings won", won)
	}
}
