package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"paygrid/ledger"
	"paygrid/shard"
)

// job is one payment of one seller, every value of it made before the clock runs.
type job struct {
	opening shard.Opening
	changes []shard.Change // authorized, capture intent, captured
	entry   ledger.Entry   // of the capture: three lines
}

const (
	client     = "bench"
	psp        = "stripe"
	currency   = ledger.Currency("EUR")
	minor      = 6499
	commission = 650
	// spreadSellers is how many sellers the spread payments are for: far more than callers.
	spreadSellers = 10_000
)

// The sizes of what a client and a PSP send are near those of real ones: they are part of what is written.
var (
	method  = json.RawMessage(`{"stripe":"pm_1NXWPnFAKE0000000000000","brand":"visa","last4":"4242","expiry":"2030-12","country":"DE"}`)
	answer  = []byte(`{"id":"pay_0000_01JD0000000000000000000000","status":"CAPTURED","amount":{"minor":6499,"currency":"EUR"},"orderId":"ord_88123"}`)
	payload = json.RawMessage(`{"paymentId":"pay_0000_01JD0000000000000000000000","orderId":"ord_88123","minor":6499,"currency":"EUR"}`)
)

// makeJobs makes n payments, numbered from first, for many sellers or one.
func makeJobs(first, n int, sellers string, now time.Time) ([]job, error) {
	jobs := make([]job, n)
	for i := range jobs {
		seller := "s_hot"
		if sellers == spread {
			seller = fmt.Sprintf("s_%d", (first+i)%spreadSellers)
		}
		var err error
		if jobs[i], err = makeJob(first+i, seller, now); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

func makeJob(no int, seller string, now time.Time) (job, error) {
	o := open(fmt.Sprintf("order-%d-%d", now.UnixNano(), no), seller, now)
	authorized := authorize(o)
	intent := askCapture(o, authorized.Payment)
	captured, err := capture(intent)
	if err != nil {
		return job{}, err
	}
	return job{opening: o, changes: []shard.Change{authorized, intent, captured}, entry: *captured.Entry}, nil
}

func open(key, seller string, now time.Time) shard.Opening {
	b := shard.BucketOf(client, key)
	splits := []ledger.Split{{SellerID: seller, Minor: minor, CommissionMinor: commission}}
	p := shard.Payment{
		ID: shard.NewID(shard.PaymentPrefix, b, now), ClientID: client, OrderID: key, CustomerID: "c_1", Status: "AUTH_PENDING",
		Version: 1, PSP: psp, Currency: currency, Authorized: minor, CaptureMode: "manual", Method: method, Splits: splits,
		Parts: ledger.PartsOf(splits), CreatedAt: now, UpdatedAt: now,
	}
	a := attempt(p, "AUTHORIZE", key, now)
	k := shard.Key{KeyRef: shard.KeyRef{ClientID: client, Scope: "payments", Key: key}, RequestHash: sha256.Sum256([]byte(key)),
		PaymentID: p.ID, SubjectID: a.ID}
	return shard.Opening{Payment: p, Attempt: a, Key: k, Event: shard.Event{Type: "payment.processing", Payload: payload}, At: now}
}

func attempt(p shard.Payment, kind, key string, now time.Time) shard.Attempt {
	return shard.Attempt{ID: shard.NewID(shard.AttemptPrefix, bucketOf(p), now), PaymentID: p.ID, Kind: kind, PSP: psp, Amount: minor,
		Status: "PENDING", RouteReason: "cost", ClientKey: key, SentAt: now, NextCheckAt: now.Add(time.Minute), UpdatedAt: now}
}

func bucketOf(p shard.Payment) shard.Bucket { return shard.BucketOf(client, p.OrderID) }

// authorize is the PSP's yes: the attempt is closed, the key has its answer, the authorization will expire.
func authorize(o shard.Opening) shard.Change {
	p, k := o.Payment, o.Key
	p.Version, p.Status, p.PSPRef, p.ExpiresAt = 2, "AUTHORIZED", "pi_3NXWPnFAKE000000000000000", o.At.Add(7*24*time.Hour)
	k.AnswerKind, k.Answer = "AUTHORIZED", answer
	return shard.Change{From: "AUTH_PENDING", Payment: p, Attempts: []shard.Attempt{succeeded(o.Attempt, p.PSPRef)}, Keys: []shard.Key{k},
		Event: shard.Event{Type: "payment.authorized", Payload: payload}, At: o.At}
}

func succeeded(a shard.Attempt, ref string) shard.Attempt {
	a.Status, a.Outcome, a.PSPRef = "SUCCEEDED", "APPROVED", ref
	return a
}

// askCapture is the intent to capture in full: a new attempt and a new key.
func askCapture(o shard.Opening, p shard.Payment) shard.Change {
	p.Version, p.Status, p.ExpiresAt = 3, "CAPTURE_PENDING", time.Time{}
	key := p.OrderID
	a := attempt(p, "CAPTURE", key, o.At)
	k := shard.Key{KeyRef: shard.KeyRef{ClientID: client, Scope: "capture:" + p.ID, Key: key}, RequestHash: o.Key.RequestHash,
		PaymentID: p.ID, SubjectID: a.ID}
	return shard.Change{From: "AUTHORIZED", Payment: p, Attempts: []shard.Attempt{a}, Keys: []shard.Key{k},
		Event: shard.Event{Type: "payment.capture_pending", Payload: payload}, At: o.At}
}

// capture is the PSP's yes to the intent: the entry with its three lines.
func capture(intent shard.Change) (shard.Change, error) {
	p, a, k := intent.Payment, intent.Attempts[0], intent.Keys[0]
	parts, shares, err := p.Parts.Capture(p.Authorized)
	if err != nil {
		return shard.Change{}, err
	}
	entry, err := ledger.Capture(a.ID, psp, p.Currency, shares)
	if err != nil {
		return shard.Change{}, err
	}
	p.Version, p.Status, p.Captured, p.Parts = 4, "CAPTURED", p.Authorized, parts
	k.AnswerKind, k.Answer = "CAPTURED", answer
	return shard.Change{From: "CAPTURE_PENDING", Payment: p, Attempts: []shard.Attempt{succeeded(a, p.PSPRef)}, Keys: []shard.Key{k},
		Entry: &entry, Event: shard.Event{Type: "payment.captured", Payload: payload}, At: intent.At}, nil
}
