package payment

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/shard"
)

// payment compares what a shard holds of one payment with itself.
func (r *Report) payment(b *books) {
	r.parts(b.payment)
	r.amounts(b)
	r.states(b)
	r.successes(b)
	r.refunds(b)
	r.postings(b)
	r.reversals(b)
	r.versions(b)
}

// parts: the running totals per account are those of the splits, and sum to the payment's amounts.
func (r *Report) parts(p shard.Payment) {
	want := ledger.PartsOf(p.Splits)
	if len(want) != len(p.Parts) {
		r.find("P4", p.ID, "its splits make %d parts, it has %d", len(want), len(p.Parts))
		return
	}
	for n, part := range p.Parts {
		if part.Account != want[n].Account || part.Authorized != want[n].Authorized {
			r.find("P4", p.ID, "part %d is %s %d, its splits say %s %d", n, part.Account, part.Authorized, want[n].Account, want[n].Authorized)
		}
	}
	if err := p.Parts.Check(); err != nil {
		r.find("P4", p.ID, "%v", err)
	}
	if p.Parts.Authorized() != p.Authorized || p.Parts.Captured() != p.Captured || p.Parts.Refunded() != p.Refunding+p.Refunded {
		r.find("P4", p.ID, "its parts sum to %d, %d, %d; it has authorized %d, captured %d, refunding and refunded %d",
			p.Parts.Authorized(), p.Parts.Captured(), p.Parts.Refunded(), p.Authorized, p.Captured, p.Refunding+p.Refunded)
	}
}

// amounts: the refunds add up, and the state is one that the amounts can have.
func (r *Report) amounts(b *books) {
	p := b.payment
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
	if !fits(p) {
		r.find("P5", p.ID, "is %s with authorized %d, captured %d, released %d", p.Status, p.Authorized, p.Captured, p.Released)
	}
}

// fits tells whether a payment's amounts can be those of its state.
func fits(p shard.Payment) bool {
	switch p.Status {
	case Captured:
		return p.Captured == p.Authorized && p.Released == 0
	case PartiallyCaptured:
		return p.Captured > 0 && p.Captured < p.Authorized
	case CapturePending:
		return p.Captured < p.Authorized
	case Voided, Expired, CaptureFailed:
		return p.Captured == 0 && p.Released == p.Authorized
	}
	return p.Captured == 0 && p.Released == 0
}

// pendingBy says which kind of attempt a state waits for.
var pendingBy = map[shard.Status]string{AuthPending: AttemptAuthorize, RequiresAction: AttemptAuthorize, CapturePending: AttemptCapture,
	VoidPending: AttemptVoid}

// states: a payment waits for exactly the attempt that its state names.
func (r *Report) states(b *books) {
	pending := map[string]int{}
	for _, a := range b.attempts {
		if a.Status != Pending {
			continue
		}
		r.Pending++
		if returns(a) == "" {
			pending[a.Kind]++
		}
	}
	for _, kind := range []string{AttemptAuthorize, AttemptCapture, AttemptVoid} {
		want := 0
		if pendingBy[b.payment.Status] == kind {
			want = 1
		}
		if pending[kind] != want {
			r.find("P5", b.payment.ID, "is %s with %d pending %s attempts", b.payment.Status, pending[kind], kind)
		}
	}
}

// givenBack names the late successes of a payment, each with the attempt of our own that gives it back.
func (b *books) givenBack() map[string]shard.Attempt {
	out := map[string]shard.Attempt{}
	for _, a := range b.attempts {
		id := returns(a)
		if other, several := out[id]; id != "" && (!several || other.Status != Succeeded) {
			out[id] = a // of several the one that did it, or the last: a void that came too late is followed by a refund
		}
	}
	return out
}

// successes: a payment has the one successful authorization, or the failure, that its state follows from. A late success
// that is given back is the failure that it was taken for.
func (r *Report) successes(b *books) {
	p := b.payment
	ends := map[string]map[shard.Status]int{AttemptAuthorize: {}, AttemptVoid: {}}
	late := b.givenBack()
	for _, a := range b.attempts {
		if ends[a.Kind] == nil || returns(a) != "" {
			continue
		}
		if _, back := late[a.ID]; back && a.Status == Succeeded {
			ends[a.Kind][FailedEnd]++
			ends[a.Kind][NotSent]++
			continue
		}
		ends[a.Kind][a.Status]++
	}
	want := 1
	switch p.Status {
	case AuthPending, RequiresAction, Declined, Failed:
		want = 0
	case Expired: // an authorization, or a redirect that nobody came back from in time, which may have succeeded late
		want = min(1, ends[AttemptAuthorize][Succeeded])
		if want == 0 && ends[AttemptAuthorize][FailedEnd] == 0 {
			want = 1
		}
	}
	authorized := ends[AttemptAuthorize]
	if authorized[Succeeded] != want {
		r.find("P2", p.ID, "is %s with %d successful authorizations", p.Status, authorized[Succeeded])
	}
	if (p.Status == Declined && authorized[FailedEnd] == 0) || (p.Status == Failed && authorized[NotSent] == 0) {
		r.find("P5", p.ID, "is %s, and no authorization ended so", p.Status)
	}
	if voided := ends[AttemptVoid][Succeeded]; (p.Status == Voided) != (voided == 1) {
		r.find("P5", p.ID, "is %s with %d successful voids", p.Status, voided)
	}
}

// refunds: every refund and its attempt have the same end and amount, and no refund attempt is without its refund. A refund
// that succeeded late and found nothing left to refund stays failed; what the PSP paid is posted out of suspense.
func (r *Report) refunds(b *books) {
	attempts := map[string]shard.Attempt{}
	for _, a := range b.attempts {
		if a.Kind == AttemptRefund && returns(a) == "" {
			attempts[a.ID] = a
		}
	}
	for _, x := range b.refunds {
		a, ok := attempts[x.AttemptID]
		delete(attempts, x.AttemptID)
		ended := a.Status
		if ended == NotSent || (ended == Succeeded && unplaced(x, a)) {
			ended = FailedEnd
		}
		if !ok || ended != x.Status || a.Amount != x.Amount {
			r.find("P5", x.ID, "is %s over %d; its attempt is %s over %d", x.Status, x.Amount, a.Status, a.Amount)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(attempts)) {
		r.find("P5", id, "is an attempt to refund, and there is no refund")
	}
}

// unplaced tells that a refund succeeded at the PSP after it was closed here, with nothing left to take it from.
func unplaced(x shard.Refund, a shard.Attempt) bool {
	return x.Status == FailedEnd && a.Status == Succeeded && strings.HasPrefix(a.Detail, latePrefix)
}

// postings: every success that moved money has its one entry, every entry its success, and each account has of it what the
// running totals say.
func (r *Report) postings(b *books) {
	want := b.wanted()
	taken := map[string]bool{} // entries whose success the PSP took back
	for _, e := range b.entries {
		if e.Kind == ledger.EntryCaptureReturn || e.Kind == ledger.EntryRefundReturn {
			taken[e.Reverses] = true
		}
	}
	for _, e := range b.entries {
		total := r.entry(b.payment, e.Entry)
		if e.Reverses == "" && want[e.ID] != total && !taken[e.ID] {
			r.find("L5", e.ID, "posts %d, what succeeded is %d", total, want[e.ID])
		}
		delete(want, e.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		r.find("L5", id, "is missing: %d succeeded and was not posted", want[id])
	}
	r.shares(b)
}

// wanted are the entries that follow from what succeeded, by their IDs, with what each moves.
func (b *books) wanted() map[string]int64 {
	want, late := map[string]int64{}, b.givenBack()
	attempts := map[string]shard.Attempt{}
	for _, a := range b.attempts {
		attempts[a.ID] = a
		if a.Status != Succeeded {
			continue
		}
		undo, back := late[a.ID]
		takes := a.Kind == AttemptCapture || (a.Kind == AttemptAuthorize && CaptureMode(b.payment.CaptureMode) == Automatic)
		switch {
		case back && undo.Kind == AttemptRefund:
			want[string(ledger.EntryLateCharge)+":"+a.ID] = a.Amount
		case back:
		case takes:
			want[string(ledger.EntryCapture)+":"+a.ID] = a.Amount
		case returns(a) != "" && a.Kind == AttemptRefund:
			want[string(ledger.EntryLateRefund)+":"+a.ID] = a.Amount
		}
	}
	for _, x := range b.refunds {
		switch {
		case x.Status == Succeeded:
			want[string(ledger.EntryRefund)+":"+x.ID] = x.Amount
		case unplaced(x, attempts[x.AttemptID]):
			want[string(ledger.EntryLateRefund)+":"+x.AttemptID] = x.Amount
		}
	}
	return want
}

// entry checks an entry by itself and returns what it moves, 0 for one that is not sound.
func (r *Report) entry(p shard.Payment, e ledger.Entry) int64 {
	if err := e.Check(); err != nil {
		r.find("L1", e.ID, "%v", err)
		return 0
	}
	if e.Currency != p.Currency {
		r.find("L2", e.ID, "is in %s, its payment in %s", e.Currency, p.Currency)
	}
	total, _ := e.Total() // Check has added it up
	return total
}

// shares: per account, the captures and refunds posted, less what was taken back, are the running totals; refunds under way
// are counted there too.
func (r *Report) shares(b *books) {
	captured, refunded := map[ledger.Account]int64{}, map[ledger.Account]int64{}
	receivable := ledger.PSPReceivable(b.payment.PSP)
	for _, e := range b.entries {
		for _, x := range e.Postings {
			switch {
			case e.Kind == ledger.EntryCapture && x.Debit == receivable:
				captured[x.Credit] += x.Minor
			case e.Kind == ledger.EntryCaptureReturn && x.Credit == receivable:
				captured[x.Debit] -= x.Minor
			case e.Kind == ledger.EntryRefund && x.Credit == receivable:
				refunded[x.Debit] += x.Minor
			case e.Kind == ledger.EntryRefundReturn && x.Debit == receivable:
				refunded[x.Credit] -= x.Minor
			}
		}
	}
	for _, x := range b.refunds {
		if x.Status != Pending {
			continue
		}
		for _, share := range x.Shares {
			refunded[share.Account] += share.Minor
		}
	}
	for _, part := range b.payment.Parts {
		if captured[part.Account] != part.Captured || refunded[part.Account] != part.Refunded {
			r.find("L5", b.payment.ID, "%s: its entries capture %d and refund %d, with what is under way; its part says %d and %d",
				part.Account, captured[part.Account], refunded[part.Account], part.Captured, part.Refunded)
		}
	}
}

// reversals: a reversal mirrors an entry of the same payment, posting by posting.
func (r *Report) reversals(b *books) {
	entries := map[string]ledger.Entry{}
	for _, e := range b.entries {
		entries[e.ID] = e.Entry
	}
	for _, e := range b.entries {
		if e.Reverses == "" {
			continue
		}
		mirror, err := entries[e.Reverses].Reversal(e.ID, e.Reason, e.Actor)
		if err != nil || !slices.Equal(mirror.Postings, e.Postings) {
			r.find("L5", e.ID, "does not mirror %q", e.Reverses)
		}
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

// keys: a key is answered exactly when what it asked for has its end, with an answer that says that end; and every call that
// a client asked for has its key, without which the next one would do it again.
func (r *Report) keys(span shard.Span, all map[string]*books) {
	keyed := map[string]bool{}
	for _, k := range span.Keys {
		keyed[k.SubjectID] = true
		if b := all[k.PaymentID]; b != nil { // nil: archived; the key outlives its payment, and answers without it
			r.key(k, b)
		}
	}
	for _, p := range span.Payments {
		for _, a := range all[p.ID].attempts {
			subject := a.ID
			if first, moved := all[p.ID].opening(); moved && a.Kind == AttemptAuthorize {
				subject = first.ID // a payment that moved to another PSP did so under its one key
			}
			if x, ok := refundOf(shard.Snapshot{Refunds: all[p.ID].refunds}, a.ID); ok {
				subject = x.ID
			}
			if a.ClientKey != "" && !keyed[subject] {
				r.find("P6", a.ID, "was asked for by a key that is not there")
			}
		}
	}
}

func (r *Report) key(k shard.Key, b *books) {
	where := "key of " + k.SubjectID
	a, resource, ok := b.subject(k.SubjectID)
	if !ok {
		r.find("P6", where, "what it asked for is not there")
		return
	}
	redirected := a.Outcome == psprouter.ActionRequired.String() && b.payment.Status != AuthPending
	if ended := a.Status != Pending || redirected; ended != (k.AnswerKind != "") {
		r.find("P6", where, "is %s and its key's answer is %q", a.Status, k.AnswerKind)
		return
	}
	if k.AnswerKind == "" {
		return
	}
	kind := Kind(k.AnswerKind)
	retold := strings.HasPrefix(a.Detail, latePrefix) || a.Detail == returnedText // the first answer stands all the same
	if !retold && !slices.Contains(answersTo[a.Status], kind) && !(a.Kind == AttemptAuthorize && kind == KindActionRequired) {
		r.find("P6", where, "ended as %s; its key's answer says %s", a.Status, kind)
	}
	var body struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(k.Answer, &body); err != nil || body.ID != resource {
		r.find("P6", where, "its key's answer is about %q, not %s", body.ID, resource)
	}
}

// answersTo says which first answers fit the end of an attempt. A redirect is a first answer whatever came of it.
var answersTo = map[shard.Status][]Kind{
	Pending:   {KindActionRequired},
	Succeeded: {KindAuthorized, KindCharged, KindCaptured, KindVoided, KindRefunded},
	FailedEnd: {KindDeclined, KindRefused},
	NotSent:   {KindUnavailable, KindRejected},
}

// opening is the payment's first attempt to authorize; moved tells that others followed, at other PSPs.
func (b *books) opening() (first shard.Attempt, moved bool) {
	n := 0
	for _, a := range b.attempts {
		if a.Kind == AttemptAuthorize {
			if n++; n == 1 {
				first = a
			}
		}
	}
	return first, n > 1
}

// subject is the attempt that ended what a key asked for, and the ID of the resource that its answer shows. Of a payment that
// moved to another PSP it is the last one.
func (b *books) subject(id string) (a shard.Attempt, resource string, ok bool) {
	attempt, resource := id, b.payment.ID
	if first, moved := b.opening(); moved && first.ID == id {
		for _, x := range b.attempts {
			if x.Kind == AttemptAuthorize {
				attempt = x.ID
			}
		}
	}
	for _, x := range b.refunds {
		if x.ID == id {
			attempt, resource = x.AttemptID, x.ID
		}
	}
	a, ok = attemptOf(shard.Snapshot{Attempts: b.attempts}, attempt)
	return a, resource, ok
}
