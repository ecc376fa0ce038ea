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
	Pending       int       `json:"pending"`     // attempts without an answer; not a finding
	Witnessed     int       `json:"witnessed"`   // payments that the witness named
	DoubleCharges int       `json:"doubleCharges"`
	Lost          int       `json:"lost"`        // money that the witness moved and we have no row for
	Unbalanced    int       `json:"unbalanced"`  // findings on the ledger's sums
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
func Verify(ctx context.Context, shards *shard.Cluster, moved []Moved) (*Report, error) {
	r := &Report{}
	witness := map[string]Moved{}
	for _, w := range moved {
		r.witness(witness, w)
	}
	var owned [shard.Buckets]int
	for _, name := range shards.Map().Names() {
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

func (r *Report) witness(witness map[string]Moved, w Moved) {
	r.Witnessed++
	if _, twice := witness[w.Attempt]; twice || w.Charges > 1 {
		r.DoubleCharges++
		r.find("P2", w.Attempt, "the witness moved money more than once under this reference (%s)", w.PSPRef)
	}
	witness[w.Attempt] = w
}

func (r *Report) owners(owned [shard.Buckets]int) {
	for b, times := range owned {
		if times != 1 {
			r.find("S2", "bucket "+shard.Bucket(b).String(), "is owned by %d shards", times)
		}
	}
}

// lost counts what the witness moved and no shard has an attempt for.
func (r *Report) lost(witness map[string]Moved) {
	for attempt, w := range witness {
		if w.Captured > 0 || (w.Authorized > 0 && !w.Voided) {
			r.Lost++
			r.find("P3", attempt, "the witness has %s with authorized %d, captured %d; no shard has the attempt", w.PSPRef, w.Authorized, w.Captured)
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
		r.amounts(b)
		r.states(b)
		r.postings(b)
		r.versions(b)
		if witnessed {
			r.compare(b, witness)
		}
	}
	for _, orphan := range span.Orphans {
		r.find("L1", orphan, "an entry without postings, or postings without their entry")
	}
	r.sequences(span)
	r.answers(span, all)
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

// amounts: the totals, the running totals per account, and the splits say the same.
func (r *Report) amounts(b *books) {
	p := b.payment
	want := ledger.PartsOf(p.Splits)
	if len(want) != len(p.Parts) {
		r.find("P4", p.ID, "its splits make %d parts, it has %d", len(want), len(p.Parts))
	} else {
		for n, part := range p.Parts {
			if part.Account != want[n].Account || part.Authorized != want[n].Authorized {
				r.find("P4", p.ID, "part %d is %s %d, its splits say %s %d", n, part.Account, part.Authorized, want[n].Account, want[n].Authorized)
			}
		}
	}
	if p.Parts.Authorized() != p.Authorized || p.Parts.Captured() != p.Captured || p.Parts.Refunded() != p.Refunding+p.Refunded {
		r.find("P4", p.ID, "its parts sum to %d, %d, %d; it has authorized %d, captured %d, refunding and refunded %d",
			p.Parts.Authorized(), p.Parts.Captured(), p.Parts.Refunded(), p.Authorized, p.Captured, p.Refunding+p.Refunded)
	}
	var pending, done int64
	for _, x := range b.refunds {
		switch x.Status {
		case Pending:
			pending += x.Amount
		case Succeeded:
			done += x.Amount
		}
	}
	if pending != p.Refunding || done != p.Refunded {
		r.find("P4", p.ID, "its refunds sum to %d pending and %d done; it has %d and %d", pending, done, p.Refunding, p.Refunded)
	}
}

// pendingBy says which kind of attempt a state waits for.
var pendingBy = map[shard.Status]string{AuthPending: AttemptAuthorize, RequiresAction: AttemptAuthorize, CapturePending: AttemptCapture,
	VoidPending: AttemptVoid}

// states: a payment waits for exactly the attempt that its state names, and has the success that its state needs.
func (r *Report) states(b *books) {
	p := b.payment
	pending := map[string]int{}
	succeeded := map[string]int{}
	for _, a := range b.attempts {
		switch a.Status {
		case Pending:
			r.Pending++
			pending[a.Kind]++
		case Succeeded:
			succeeded[a.Kind]++
		}
	}
	for _, kind := range []string{AttemptAuthorize, AttemptCapture, AttemptVoid} {
		want := 0
		if pendingBy[p.Status] == kind {
			want = 1
		}
		if pending[kind] != want {
			r.find("P5", p.ID, "is %s with %d pending %s attempts", p.Status, pending[kind], kind)
		}
	}
	waiting := 0
	for _, x := range b.refunds {
		if x.Status == Pending {
			waiting++
		}
	}
	if pending[AttemptRefund] != waiting {
		r.find("P5", p.ID, "has %d pending REFUND attempts and %d pending refunds", pending[AttemptRefund], waiting)
	}
	r.successes(p, succeeded)
}

func (r *Report) successes(p shard.Payment, succeeded map[string]int) {
	authorized := 1
	switch p.Status {
	case AuthPending, RequiresAction, Declined, Failed:
		authorized = 0
	case Expired:
		authorized = min(1, succeeded[AttemptAuthorize]) // a redirect that nobody followed expires as well
	}
	if succeeded[AttemptAuthorize] != authorized {
		r.find("P2", p.ID, "is %s with %d successful authorizations", p.Status, succeeded[AttemptAuthorize])
	}
	if voided := succeeded[AttemptVoid]; (p.Status == Voided) != (voided == 1) {
		r.find("P5", p.ID, "is %s with %d successful voids", p.Status, voided)
	}
}

// postings: every success that moved money has its one entry, and every entry its success.
func (r *Report) postings(b *books) {
	p := b.payment
	want := map[string]int64{}
	for _, a := range b.attempts {
		takes := a.Kind == AttemptCapture || (a.Kind == AttemptAuthorize && CaptureMode(p.CaptureMode) == Automatic)
		if takes && a.Status == Succeeded {
			want["capture:"+a.ID] = a.Amount
		}
	}
	for _, x := range b.refunds {
		if x.Status == Succeeded {
			want["refund:"+x.ID] = x.Amount
		}
	}
	var captured, refunded int64
	for _, e := range b.entries {
		if err := e.Entry.Check(); err != nil {
			r.find("L1", e.ID, "%v", err)
			continue
		}
		total, _ := e.Total() // Check has added it up
		if e.Currency != p.Currency {
			r.find("L2", e.ID, "is in %s, its payment in %s", e.Currency, p.Currency)
		}
		switch e.Kind {
		case ledger.EntryCapture:
			captured += total
		case ledger.EntryRefund:
			refunded += total
		default:
			continue
		}
		if want[e.ID] != total {
			r.find("L5", e.ID, "posts %d, what succeeded is %d", total, want[e.ID])
		}
		delete(want, e.ID)
	}
	for id, minor := range want {
		r.find("L5", id, "is missing: %d succeeded and was not posted", minor)
	}
	if captured != p.Captured || refunded != p.Refunded {
		r.find("L5", p.ID, "its entries capture %d and refund %d; it has %d and %d", captured, refunded, p.Captured, p.Refunded)
	}
}

// versions: one event per change, the last for the version that the payment has.
func (r *Report) versions(b *books) {
	for n, e := range b.events {
		if n > 0 && e.Version != b.events[n-1].Version+1 {
			r.find("S3", b.payment.ID, "event for version %d follows %d", e.Version, b.events[n-1].Version)
		}
	}
	if n := len(b.events); n > 0 && b.events[n-1].Version != b.payment.Version {
		r.find("S3", b.payment.ID, "is at version %d, its last event at %d", b.payment.Version, b.events[n-1].Version)
	}
}

// answers: a key's call is answered exactly when what it asked for has its outcome.
func (r *Report) answers(span shard.Span, all map[string]*books) {
	for _, k := range span.Keys {
		b := all[k.PaymentID]
		where := "key of " + k.SubjectID
		if b == nil {
			continue // archived: the key outlives its payment, and answers without it
		}
		status, outcome, ok := b.subject(k.SubjectID)
		if !ok {
			r.find("P6", where, "what it asked for is not there")
			continue
		}
		closed := status != Pending || (b.payment.Status != AuthPending && outcome == "ACTION_REQUIRED")
		if closed != (k.AnswerKind != "") {
			r.find("P6", where, "is %s and its key's answer is %q", status, k.AnswerKind)
		}
	}
}

// subject is what a key asked for: an attempt, or a refund.
func (b *books) subject(id string) (status shard.Status, outcome string, ok bool) {
	for _, x := range b.refunds {
		if x.ID == id {
			return x.Status, "", true
		}
	}
	for _, a := range b.attempts {
		if a.ID == id {
			return a.Status, a.Outcome, true
		}
	}
	return "", "", false
}

// compare holds a payment against the witness's books. What is pending here may or may not have happened there.
func (r *Report) compare(b *books, witness map[string]Moved) {
	for _, a := range b.attempts {
		if a.Kind != AttemptAuthorize {
			continue
		}
		w, seen := witness[a.ID]
		delete(witness, a.ID)
		switch {
		case a.Status == Succeeded:
			r.compareAmounts(b, a, w, seen)
		case a.Status == Pending: // unknown is not a finding
		case seen && (w.Captured > 0 || (w.Authorized > 0 && !w.Voided)):
			r.find("P3", a.ID, "is %s here; the witness authorized %d and captured %d", a.Status, w.Authorized, w.Captured)
			r.Lost++
		}
	}
}

func (r *Report) compareAmounts(b *books, a shard.Attempt, w Moved, seen bool) {
	p := b.payment
	if !seen {
		r.find("P3", a.ID, "succeeded here; the witness knows nothing of it")
		return
	}
	var capturing, refunding int64
	var voiding bool
	for _, x := range b.attempts {
		if x.Status != Pending {
			continue
		}
		switch x.Kind {
		case AttemptCapture:
			capturing += x.Amount
		case AttemptRefund:
			refunding += x.Amount
		case AttemptVoid:
			voiding = true
		}
	}
	if w.Currency != p.Currency || w.Authorized != p.Authorized {
		r.find("P3", p.ID, "authorized %d %s; the witness %d %s", p.Authorized, p.Currency, w.Authorized, w.Currency)
	}
	if w.Captured < p.Captured || w.Captured > p.Captured+capturing {
		r.find("P3", p.ID, "captured %d and %d pending; the witness %d", p.Captured, capturing, w.Captured)
	}
	if w.Refunded < p.Refunded || w.Refunded > p.Refunded+p.Refunding {
		r.find("P3", p.ID, "refunded %d and %d pending; the witness %d", p.Refunded, refunding, w.Refunded)
	}
	if w.Voided != (p.Status == Voided) && !voiding && p.Status != Expired {
		r.find("P3", p.ID, "is %s; the witness voided: %v", p.Status, w.Voided)
	}
}
