package payment

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"paygrid/ledger"
	"paygrid/shard"
)

// Moved is what a witness who keeps books of his own (a PSP, its simulator) says of one payment, in ISO minor units.
type Moved struct {
	PSPRef     string
	Attempt    string // our reference: the AUTHORIZE attempt
	Currency   ledger.Currency
	Authorized int64
	Captured   int64
	Refunded   int64 // done or under way
	Voided     bool
	Charges    int // how often money was reserved or taken under this reference; more than once is a double charge
}

// Finding is one thing that is not as it must be. Invariant is its number in docs/invariants.md.
type Finding struct {
	Invariant string `json:"invariant"`
	Where     string `json:"where"` // the row
	Detail    string `json:"detail"`
}

// Report is what Verify saw. It passes only without findings.
type Report struct {
	Shards        int       `json:"shards"`
	Buckets       int       `json:"buckets"`
	Payments      int       `json:"payments"`
	Attempts      int       `json:"attempts"`
	Refunds       int       `json:"refunds"`
	Keys          int       `json:"keys"`
	Entries       int       `json:"entries"`
	Events        int       `json:"events"`
	Pending       int       `json:"pending"`   // attempts without an answer; not a finding
	Witnessed     int       `json:"witnessed"` // payments that the witness named
	DoubleCharges int       `json:"doubleCharges"`
	Lost          int       `json:"lost"`       // money that the witness moved and we have no row for
	Unbalanced    int       `json:"unbalanced"` // findings on the ledger's sums
	Findings      []Finding `json:"findings"`
}

// maxFindings bounds the list; the counts go on.
const maxFindings = 1000

// Pass tells whether everything is as it must be.
func (r *Report) Pass() bool {
	return len(r.Findings) == 0 && r.DoubleCharges == 0 && r.Lost == 0 && r.Unbalanced == 0
}

func (r *Report) find(invariant, where, format string, args ...any) {
	if strings.HasPrefix(invariant, "L") {
		r.Unbalanced++
	}
	if len(r.Findings) < maxFindings {
		r.Findings = append(r.Findings, Finding{Invariant: invariant, Where: where, Detail: fmt.Sprintf(format, args...)})
	}
}

// Verify walks all shards and compares amounts, states, attempts, refunds, entries, events, keys and sums with each other,
// and with the witness's books unless moved is nil. It knows nothing of how they came about. Each span of buckets is read
// from one snapshot; the witness's books must stand still meanwhile.
func Verify(ctx context.Context, shards Books, moved []Moved) (*Report, error) {
	r := &Report{}
	witness := map[string]Moved{}
	for _, w := range moved {
		r.witness(witness, w)
	}
	var owned [shard.Buckets]int
	for _, name := range shards.ShardNames() {
		r.Shards++
		err := shards.Walk(ctx, name, func(span shard.Span) error {
			for _, b := range span.Buckets {
				owned[b.Bucket]++
			}
			r.span(span, witness, moved != nil)
			return nil
		})
		if err != nil {
			return nil, err
		}
		wrong, err := shards.WrongSums(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, w := range wrong {
			r.find("L4", name, "%s", w)
		}
	}
	r.owners(owned)
	r.lost(witness)
	return r, nil
}

func (r *Report) owners(owned [shard.Buckets]int) {
	for b, times := range owned {
		if times != 1 {
			r.find("S2", "bucket "+shard.Bucket(b).String(), "is owned by %d shards", times)
		}
	}
}

// books is what a span holds of one payment.
type books struct {
	payment  shard.Payment
	attempts []shard.Attempt
	refunds  []shard.Refund
	entries  []shard.PostedEntry
	events   []shard.PostedEvent
}

func (r *Report) span(span shard.Span, witness map[string]Moved, witnessed bool) {
	r.Buckets += len(span.Buckets)
	r.Payments += len(span.Payments)
	r.Attempts += len(span.Attempts)
	r.Refunds += len(span.Refunds)
	r.Keys += len(span.Keys)
	r.Entries += len(span.Entries)
	r.Events += len(span.Events)
	all := r.gather(span)
	for _, p := range span.Payments {
		b := all[p.ID]
		r.payment(b)
		if witnessed {
			r.compare(b, witness)
		}
	}
	for _, orphan := range span.Orphans {
		r.find("L1", orphan, "an entry without postings, or postings without their entry")
	}
	r.sequences(span)
	r.keys(span, all)
}

// gather hangs every row on its payment; a row without one is a finding.
func (r *Report) gather(span shard.Span) map[string]*books {
	all := make(map[string]*books, len(span.Payments))
	for _, p := range span.Payments {
		all[p.ID] = &books{payment: p}
	}
	of := func(id, where string) *books {
		if b := all[id]; b != nil {
			return b
		}
		r.find("P3", where, "its payment %s is not there", id)
		return &books{}
	}
	for _, a := range span.Attempts {
		b := of(a.PaymentID, a.ID)
		b.attempts = append(b.attempts, a)
	}
	for _, x := range span.Refunds {
		b := of(x.PaymentID, x.ID)
		b.refunds = append(b.refunds, x)
	}
	for _, e := range span.Entries {
		b := of(e.PaymentID, e.ID)
		b.entries = append(b.entries, e)
	}
	for _, e := range span.Events {
		b := of(e.PaymentID, shard.EventID(e.Bucket, e.Seq))
		b.events = append(b.events, e)
	}
	return all
}

// sequences: each bucket's events number without a gap up to its seq, and every entry hangs on one of them.
func (r *Report) sequences(span shard.Span) {
	events := map[shard.Bucket][]int64{}
	for _, e := range span.Events {
		events[e.Bucket] = append(events[e.Bucket], e.Seq)
	}
	for _, b := range span.Buckets {
		seqs := events[b.Bucket]
		for n := 1; n < len(seqs); n++ {
			if seqs[n] != seqs[n-1]+1 {
				r.find("S4", "bucket "+b.Bucket.String(), "event %d follows %d", seqs[n], seqs[n-1])
			}
		}
		if last := len(seqs) - 1; last >= 0 && seqs[last] != b.Seq {
			r.find("S4", "bucket "+b.Bucket.String(), "its seq is %d, its last event %d", b.Seq, seqs[last])
		}
		if len(seqs) > 0 {
			r.entriesOf(span, b.Bucket, seqs)
		}
	}
}

func (r *Report) entriesOf(span shard.Span, b shard.Bucket, seqs []int64) {
	for _, e := range span.Entries {
		if e.Bucket != b || e.Seq < seqs[0] {
			continue
		}
		if _, ok := slices.BinarySearch(seqs, e.Seq); !ok {
			r.find("S4", e.ID, "its change %d has no event", e.Seq)
		}
	}
}
