package shard

import (
	"encoding/json"
	"time"

	"paygrid/ledger"
)

// Status is a state's stored word. This package stores states and compares them; package payment owns what they mean.
type Status string

// Payment is one row of payments. Amounts are minor units of Currency.
type Payment struct {
	ID          string
	ClientID    string
	OrderID     string
	CustomerID  string
	Status      Status
	Version     int64
	PSP         string
	PSPRef      string
	Currency    ledger.Currency
	Authorized  int64
	Captured    int64
	Released    int64
	Refunding   int64
	Refunded    int64
	CaptureMode string
	Method      json.RawMessage
	Splits      []ledger.Split
	Parts       ledger.Parts
	ReturnURL   string
	RedirectURL string
	FailureCode string
	Failure     string
	ExpiresAt   time.Time // zero = none
	CreatedAt   time.Time
	UpdatedAt   time.Time
}

// Attempt is one row of attempts: one call out to a PSP.
type Attempt struct {
	ID          string
	PaymentID   string
	Kind        string // AUTHORIZE, CAPTURE, VOID or REFUND
	PSP         string
	Amount      int64
	Status      Status // PENDING, SUCCEEDED, FAILED or NOT_SENT
	Outcome     string // the outcome class last seen, "" before any answer
	RouteReason string
	Code        string // the PSP's word for a refusal
	Detail      string // for people
	PSPRef      string
	ClientKey   string // the idempotency key that asked for it, "" if we did ourselves
	SentAt      time.Time
	NextCheckAt time.Time
	UpdatedAt   time.Time

	// What the resolver's queue counts. These are only read: a change does not write them.
	Checks    int32 // how often the PSP was asked
	Absent    int32 // how many of the last checks found that the PSP has no record
	Escalated bool  // people were told
}

// Refund is one row of refunds.
type Refund struct {
	ID        string
	PaymentID string
	AttemptID string
	Amount    int64
	Status    Status
	Shares    []ledger.Share
	Code      string
	Detail    string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// KeyRef names one idempotency key. Scope is the route, and the payment for a later call.
type KeyRef struct{ ClientID, Scope, Key string }

// Key is one row of idempotency_keys. AnswerKind is "" while the outcome is not known.
type Key struct {
	KeyRef
	RequestHash [32]byte
	PaymentID   string
	SubjectID   string // the attempt or refund that the call made
	AnswerKind  string
	Answer      []byte
}

// Event is what a change tells the world.
type Event struct {
	Type    string
	Payload json.RawMessage
}

// Snapshot is a payment with all that belongs to it, as one reader saw it. The payment row is read first, so rows that
// are newer than it can be among the rest; a change decided on such a mixture fails its compare-and-set.
type Snapshot struct {
	Payment  Payment
	Attempts []Attempt // oldest first
	Refunds  []Refund  // oldest first
}

// PostedEntry is an entry as it lies in the ledger.
type PostedEntry struct {
	ledger.Entry
	Bucket    Bucket
	Seq       int64
	PaymentID string
	CreatedAt time.Time
}

// PostedEvent is an event as it lies in the outbox.
type PostedEvent struct {
	Event
	Bucket    Bucket
	Seq       int64
	PaymentID string
	Version   int64
	CreatedAt time.Time
}
