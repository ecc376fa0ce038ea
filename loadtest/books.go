package loadtest

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// Booked is one payment as the cluster's books have it, in minor units.
type Booked struct {
	ID, Client, Order, Currency string
	Status                      string // of the row: AUTHORIZED, CAPTURED, …
	Authorized                  int64
	Captured                    int64
	Refunding                   int64
	Refunded                    int64
}

// holdsMoney tells whether the buyer's card is charged, or reserved, by this payment.
func (b Booked) holdsMoney() bool {
	return b.Captured > 0 || slices.Contains([]string{"AUTHORIZED", "CAPTURE_PENDING", "AUTH_PENDING"}, b.Status)
}

// Audit compares what the API acknowledged with the books, as they are read payment by payment. It is used by one goroutine.
type Audit struct {
	known    map[string]Acknowledged // by payment
	refused  map[string]bool         // orders that the API turned away for good
	holders  map[string][]string     // order -> payments that hold money
	lines    []string                // a payment each, without what another run would call differently
	balances map[string]*big.Int     // "account currency" -> debits less credits
	findings []string
	found    int
	prefix   string
	run      Claim // what was named
	ofRun    int   // payments of the run, all its parts together
	captured int   // … of which something is captured
	left     int   // calls that were turned away, and are in the books
	buyers   int   // payments that wait for their buyer
}

// NewAudit begins with what the API acknowledged; of one payment it may have told several times.
func NewAudit(known []Acknowledged) *Audit {
	a := &Audit{known: map[string]Acknowledged{}, refused: map[string]bool{},
		holders: map[string][]string{}, balances: map[string]*big.Int{}}
	for _, k := range known {
		before, again := a.known[k.Payment]
		if again && (before.Order != k.Order || before.Minor != k.Minor) {
			a.find("payment %s was given to two orders: %s and %s", k.Payment, before.Order, k.Order)
		}
		k.Captured, k.Refunded = max(k.Captured, before.Captured), max(k.Refunded, before.Refunded)
		k.Voided, k.Shed = k.Voided || before.Voided, cmp.Or(k.Shed, before.Shed)
		if before.Word != "" && before.Word != "PROCESSING" {
			k.Word = before.Word
		}
		a.known[k.Payment] = k
	}
	a.run.Named = len(a.known)
	for _, k := range a.known {
		if k.Captured > 0 {
			a.run.Captured++
		}
	}
	return a
}

// Run says by what the run's orders begin, all its parts together: their payments are counted, and none of them may be paid twice.
func (a *Audit) Run(prefix string) { a.prefix = prefix }

// Counted is what was named by the API, and how many payments of the run the books hold.
func (a *Audit) Counted() (named Claim, ofRun, captured int) { return a.run, a.ofRun, a.captured }

func (a *Audit) find(format string, args ...any) {
	a.found++
	if len(a.findings) < maxFindings {
		a.findings = append(a.findings, fmt.Sprintf(format, args...))
	}
}

// Refused says which orders the API turned away for good: they must not be in the books.
func (a *Audit) Refused(orders []string) {
	for _, order := range orders {
		a.refused[order] = true
	}
}

// Payment compares one payment of the books.
func (a *Audit) Payment(b Booked) {
	a.lines = append(a.lines, fmt.Sprintf("%s %s %s %s %d %d %d %d", b.Client, b.Order, b.Currency, b.Status, b.Authorized, b.Captured,
		b.Refunding, b.Refunded))
	if b.Status == "REQUIRES_ACTION" {
		a.buyers++
	}
	if strings.HasPrefix(b.Order, a.prefix) {
		a.ofRun++
		if b.Captured > 0 {
			a.captured++
		}
		if b.holdsMoney() {
			a.holders[b.Order] = append(a.holders[b.Order], b.ID)
		}
	}
	if a.refused[b.Order] {
		a.left++
		a.find("payment %s is of order %s, which was turned away under stress", b.ID, b.Order)
	}
	k, ok := a.known[b.ID]
	if !ok {
		return // it was not answered, or another process asked for it
	}
	delete(a.known, b.ID)
	if k.Shed == Capture && b.Captured > k.Captured || k.Shed == Refund && b.Refunding+b.Refunded > k.Refunded || k.Shed == Void && b.Status == "VOIDED" {
		a.left++
		a.find("payment %s is %s with %d captured and %d refunded; the API turned its last %s away", b.ID, b.Status, b.Captured,
			b.Refunding+b.Refunded, k.Shed)
	}
	refused := b.Status == "DECLINED" || b.Status == "FAILED"
	switch {
	case k.Order != b.Order || k.Minor != b.Authorized || k.Currency != b.Currency:
		a.find("payment %s is order %s over %d %s; the API acknowledged %s over %d %s", b.ID, b.Order, b.Authorized, b.Currency, k.Order,
			k.Minor, k.Currency)
	case refused && (k.Word == shownAuthorized || k.Word == shownCaptured), !refused && k.Word == shownDeclined:
		a.find("payment %s is %s; the API said %s", b.ID, b.Status, k.Word)
	case b.Captured < k.Captured || b.Refunding+b.Refunded < k.Refunded:
		a.find("payment %s has captured %d and refunded %d; the API acknowledged %d and %d", b.ID, b.Captured, b.Refunding+b.Refunded,
			k.Captured, k.Refunded)
	case k.Voided && b.Status != "VOIDED":
		a.find("payment %s is %s; the API acknowledged its void", b.ID, b.Status)
	}
}

// Posting adds one posting of the ledger.
func (a *Audit) Posting(currency, debit, credit string, minor int64) {
	a.move(debit, currency, big.NewInt(minor))
	a.move(credit, currency, big.NewInt(-minor))
}

// move books on one account for all PSPs: which of them a payment goes to may depend on the hour, what is owed may not.
func (a *Audit) move(account, currency string, minor *big.Int) {
	if name, _, ok := strings.Cut(account, ":"); ok && name == "psp_receivable" {
		account = name
	}
	key := account + " " + currency
	if a.balances[key] == nil {
		a.balances[key] = new(big.Int)
	}
	a.balances[key].Add(a.balances[key], minor)
}

// Audited is what an audit found.
type Audited struct {
	Lost     int      `json:"lost"`          // acknowledged, and not in the books
	Doubles  int      `json:"doubleCharges"` // orders of the run for which two payments hold money
	Buyers   int      `json:"buyers"`        // payments that wait for their buyer: their attempts have no answer, and need none yet
	Left     int      `json:"left"`          // calls that were turned away under stress, and are in the books
	Found    int      `json:"found"`         // all findings
	Findings []string `json:"findings,omitempty"`
	// Payments and Balances name the sets of payments and of final balances, whatever their IDs, shards and PSPs: two runs of
	// one trace have the same.
	Payments string            `json:"paymentsDigest"`
	Balances string            `json:"balancesDigest"`
	House    map[string]string `json:"house"` // balances of house accounts, in minor units, positive = debit
}

// Result ends the audit.
func (a *Audit) Result() Audited {
	r := Audited{House: map[string]string{}, Buyers: a.buyers, Left: a.left}
	for _, id := range slices.Sorted(maps.Keys(a.known)) {
		r.Lost++
		a.find("payment %s of order %s was acknowledged and is not in the books", id, a.known[id].Order)
	}
	for _, order := range slices.Sorted(maps.Keys(a.holders)) {
		if ids := a.holders[order]; len(ids) > 1 {
			r.Doubles++
			a.find("order %s is paid %d times: %s", order, len(ids), strings.Join(ids, ", "))
		}
	}
	var balances []string
	for key, minor := range a.balances {
		if minor.Sign() == 0 {
			continue // as if it had never been touched
		}
		balances = append(balances, key+" "+minor.String())
		if !strings.Contains(key, ":") {
			r.House[key] = minor.String()
		}
	}
	r.Payments, r.Balances = digest(a.lines), digest(balances)
	r.Found, r.Findings = a.found, a.findings
	return r
}

// digest names a set of lines, in whatever order they come.
func digest(lines []string) string {
	hash := sha256.New()
	for _, line := range slices.Sorted(slices.Values(lines)) {
		fmt.Fprintln(hash, line)
	}
	return hex.EncodeToString(hash.Sum(nil)[:12])
}
