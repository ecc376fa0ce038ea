package payment

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"paygrid/psprouter"
	"paygrid/shard"
)

// Webhooks are hints: they are checked when they arrive, stored as they came, answered, and applied later, by the same
// decisions as everything else that we learn. What cannot be applied yet waits; what does not fit is kept and shown.
const (
	noticeBatch    = 200 // notices claimed at a time
	noticeParallel = 32  // notices applied at a time
	noticeLease    = time.Minute
	firstRetry     = 2 * time.Second
	longestRetry   = 6 * time.Hour
	inboxUnmatched = "names nothing of ours"
	// unmatchedAlarm is the look at which people are told of a notice that names nothing of ours: after 17 minutes, since
	// pauses double. It is looked at again all the same.
	unmatchedAlarm = 9
)

// TakeWebhook checks a webhook of a PSP, stores its notices and returns what the PSP wants to hear. A *psprouter.WebhookError
// says that it was refused, a *Error with CodeUnavailable that it could not be stored: the PSP sends it again.
func (s *Service) TakeWebhook(ctx context.Context, pspName string, header http.Header, body []byte) (contentType string, answer []byte, err error) {
	reader, err := s.webhooksOf(pspName)
	if err != nil {
		return "", nil, err
	}
	if err := reader.CheckWebhook(header, body, s.now()); err != nil {
		s.metrics.rejected(pspName, err)
		return "", nil, err
	}
	notices, err := reader.ReadWebhook(body)
	if err != nil {
		s.metrics.rejected(pspName, err)
		return "", nil, err
	}
	for _, n := range notices {
		item := shard.InboxItem{Bucket: bucketOfNotice(pspName, n), PSP: pspName, EventID: n.EventID, Kind: clip(n.Kind), AttemptID: n.Attempt,
			Reference: clip(n.Reference), Original: clip(n.Original), Raw: body}
		stored, err := s.shards.PutInbox(ctx, item, s.now())
		if err != nil {
			return "", nil, unavailable(err)
		}
		s.metrics.notice(pspName, stored)
	}
	contentType, answer = reader.WebhookAnswer()
	return contentType, answer, nil
}

func (s *Service) webhooksOf(pspName string) (psprouter.WebhookReader, error) {
	if psp, ok := s.psps.ByName(pspName); ok {
		return psp, nil
	}
	return nil, &Error{Code: CodeNotFound, Detail: "no PSP of that name sends webhooks here", Reference: clip(pspName), Remedy: "check the URL"}
}

// bucketOfNotice places a notice with the attempt that it names, else by its own ID: a redelivery comes to the same place.
func bucketOfNotice(pspName string, n psprouter.Notice) shard.Bucket {
	if b, err := shard.BucketOfID(shard.AttemptPrefix, n.Attempt); err == nil {
		return b
	}
	sum := sha256.Sum256([]byte(pspName + "\x00" + n.EventID))
	return shard.Bucket(binary.BigEndian.Uint64(sum[:8]) % shard.Buckets)
}

// ApplyNoticesOn applies the notices on one shard that are due, and returns how many it looked at. Three statements serve all
// of them: one claims them, one reads what they name, one says what became of them. Most notices tell what is known already
// and need no other; those that change a payment are applied side by side, so that their changes share statements too.
func (s *Service) ApplyNoticesOn(ctx context.Context, shardName, owner string) (int, error) {
	now := s.now()
	items, err := s.shards.ClaimInbox(ctx, shardName, owner, now, now.Add(noticeLease), noticeBatch)
	if err != nil || len(items) == 0 {
		return 0, err
	}
	known, unread := s.shards.Snapshots(ctx, shardName, attemptsNamed(items))
	queues := byBucket(items)
	ends := make([][]shard.InboxEnd, len(queues))
	inParallel(s.noticeWorkers, len(queues), func(n int) {
		q := noticeQueue{Service: s, known: known, changed: map[string]bool{}}
		for _, item := range queues[n] {
			var end shard.InboxEnd
			if unread != nil {
				end = s.again(item, shard.InboxNew, unread.Error())
			} else if err := s.guarded(ctx, panicNotice, func() error { end = q.apply(ctx, item); return nil }); err != nil {
				end, q.known = s.again(item, shard.InboxNew, err.Error()), nil // what it has changed is not known
			}
			end.InboxKey = shard.InboxKey{Bucket: item.Bucket, PSP: item.PSP, EventID: item.EventID}
			s.config.Pause(point("webhook", stepSettled))
			ends[n] = append(ends[n], end)
		}
	})
	return len(items), s.closeNotices(ctx, shardName, owner, slices.Concat(ends...))
}

// closeNotices says what became of notices. One whose lease went to another is the other's to close.
func (s *Service) closeNotices(ctx context.Context, shardName, owner string, ends []shard.InboxEnd) error {
	for _, end := range ends {
		s.metrics.applied.WithLabelValues(end.PSP, string(end.State)).Inc()
	}
	_, err := s.shards.CloseInbox(ctx, shardName, owner, ends, s.now())
	return err
}

func attemptsNamed(items []shard.InboxItem) []string {
	var ids []string
	for _, item := range items {
		if item.AttemptID != "" {
			ids = append(ids, item.AttemptID)
		}
	}
	return ids
}

// byBucket parts notices by their buckets and keeps their order in each: a payment's notices lie in its bucket, and one that
// overtook another would be early, or decide on what the other is about to change.
func byBucket(items []shard.InboxItem) [][]shard.InboxItem {
	var queues [][]shard.InboxItem
	at := map[shard.Bucket]int{}
	for _, item := range items {
		n, known := at[item.Bucket]
		if !known {
			n = len(queues)
			at[item.Bucket], queues = n, append(queues, nil)
		}
		queues[n] = append(queues[n], item)
	}
	return queues
}

// noticeQueue applies the notices of one bucket, one after the other.
type noticeQueue struct {
	*Service
	known   map[string]shard.Snapshot // by attempt, as they were when the round began; shared with the other queues
	changed map[string]bool           // payments that are not as known any more, or may not be
}

// apply does what a notice says, if it can, and tells what became of it.
func (q *noticeQueue) apply(ctx context.Context, item shard.InboxItem) shard.InboxEnd {
	n, err := q.noticeOf(item)
	if err != nil {
		return shard.InboxEnd{State: shard.InboxMisfit, Reason: clip(err.Error())}
	}
	if n.Foreign != "" {
		return shard.InboxEnd{State: shard.InboxIgnored, Reason: clip(n.Foreign)}
	}
	target, err := q.matching(ctx, item.PSP, n)
	if err != nil {
		return q.again(item, shard.InboxNew, err.Error())
	}
	if target.PaymentID == "" {
		if item.Tries == unmatchedAlarm {
			q.config.Log.ErrorContext(ctx, "a notice names nothing of ours; a person must look, and we look again", "psp", item.PSP,
				"event", item.EventID, "reference", item.Reference)
		}
		return q.again(item, shard.InboxUnmatched, inboxUnmatched)
	}
	q.config.Pause(point("webhook", stepBegun))
	err = q.applyTo(ctx, target, n)
	if !errors.Is(err, errClosed) && !errors.Is(err, errNothing) {
		q.changed[target.PaymentID] = true
	}
	return q.ended(ctx, item, err)
}

// ended turns what came of applying into the notice's state.
func (s *Service) ended(ctx context.Context, item shard.InboxItem, err error) shard.InboxEnd {
	var misfit *misfitError
	var transition *TransitionError
	switch {
	case err == nil, errors.Is(err, errClosed):
		return shard.InboxEnd{State: shard.InboxApplied}
	case errors.Is(err, errNothing):
		return shard.InboxEnd{State: shard.InboxIgnored, Reason: "its kind settles nothing"}
	case errors.As(err, &misfit):
		s.config.Log.ErrorContext(ctx, "a notice does not fit what it names; a person must look", "psp", item.PSP, "event", item.EventID,
			"attempt", item.AttemptID, "reason", misfit.reason)
		return shard.InboxEnd{State: shard.InboxMisfit, Reason: clip(misfit.reason)}
	case errors.As(err, &transition), errors.Is(err, errEarly):
		return s.again(item, shard.InboxNew, "early: "+err.Error())
	}
	return s.again(item, shard.InboxNew, err.Error())
}

// again is a notice that is looked at later, ever less often.
func (s *Service) again(item shard.InboxItem, state shard.Status, reason string) shard.InboxEnd {
	d := longestRetry
	if item.Tries < 13 {
		d = firstRetry << item.Tries
	}
	return shard.InboxEnd{State: state, Reason: clip(reason), NextTryAt: s.now().Add(min(d, longestRetry))}
}

// noticeOf reads a stored notice again: the raw bytes are what the PSP said.
func (s *Service) noticeOf(item shard.InboxItem) (psprouter.Notice, error) {
	reader, err := s.webhooksOf(item.PSP)
	if err != nil {
		return psprouter.Notice{}, err
	}
	notices, err := reader.ReadWebhook(item.Raw)
	if err != nil {
		return psprouter.Notice{}, err
	}
	for _, n := range notices {
		if n.EventID == item.EventID {
			return n, nil
		}
	}
	return psprouter.Notice{}, fmt.Errorf("the stored body holds no event %s", item.EventID)
}

// matching finds the attempt that a notice means: by our own ID, else by the PSP's references. PaymentID is "" if there is
// none.
func (q *noticeQueue) matching(ctx context.Context, pspName string, n psprouter.Notice) (shard.AttemptRef, error) {
	if known, found := q.known[n.Attempt]; found {
		return shard.AttemptRef{AttemptID: n.Attempt, PaymentID: known.Payment.ID}, nil
	}
	if n.Attempt != "" {
		id, err := q.shards.PaymentOfAttempt(ctx, n.Attempt)
		if err == nil {
			return shard.AttemptRef{AttemptID: n.Attempt, PaymentID: id}, nil
		}
		if !errors.Is(err, shard.ErrNotFound) {
			return shard.AttemptRef{}, err
		}
	}
	for _, reference := range []string{n.Reference, n.Original} {
		if reference == "" {
			continue
		}
		found, err := q.shards.AttemptsByRef(ctx, pspName, reference)
		if err != nil {
			return shard.AttemptRef{}, err
		}
		if len(found) > 0 {
			return preferred(found, n.Operation), nil
		}
	}
	return shard.AttemptRef{}, nil
}

// preferred is the attempt of the notice's own operation among those that share a reference.
func preferred(found []shard.AttemptRef, operation string) shard.AttemptRef {
	for _, ref := range found {
		if ref.Kind == operation {
			return ref
		}
	}
	return found[0]
}

// misfitError is a notice that contradicts what it names. Nothing changes.
type misfitError struct{ reason string }

func (e *misfitError) Error() string { return e.reason }

// errNothing is returned for a notice that settles nothing.
var errNothing = errors.New("the notice settles nothing")

// applyTo commits what a notice says of the attempt that it names, deciding anew while others change the payment first.
func (q *noticeQueue) applyTo(ctx context.Context, target shard.AttemptRef, n psprouter.Notice) error {
	for range maxRaces {
		snapshot, err := q.snapshot(ctx, target)
		if err != nil {
			return err
		}
		var posted []shard.PostedEntry
		if n.Reversed {
			if posted, err = q.shards.Entries(ctx, target.PaymentID); err != nil {
				return err
			}
		}
		change, err := noticed(snapshot, posted, target.AttemptID, n, q.now(), q.config.AuthorizationLifetime)
		if err != nil {
			return err
		}
		err = q.shards.Apply(ctx, change)
		if err == nil && n.Reversed {
			q.takenBack(ctx, target, n)
		}
		if !errors.Is(err, shard.ErrConflict) {
			return err
		}
		q.changed[target.PaymentID] = true
		q.metrics.races.WithLabelValues("webhook").Inc()
	}
	return shard.ErrConflict
}

// snapshot is what the round read of a payment, or if that is not the last word, what is read now.
func (q *noticeQueue) snapshot(ctx context.Context, target shard.AttemptRef) (shard.Snapshot, error) {
	if known, found := q.known[target.AttemptID]; found && !q.changed[target.PaymentID] {
		return known, nil
	}
	return q.shards.Snapshot(ctx, target.PaymentID)
}

// takenBack tells people of a success that the PSP took back: the goods may be on their way, the buyer without a refund.
func (s *Service) takenBack(ctx context.Context, target shard.AttemptRef, n psprouter.Notice) {
	s.metrics.reversals.WithLabelValues(n.Operation).Inc()
	s.config.Log.ErrorContext(ctx, "the PSP took a success back; a person must look", "payment", target.PaymentID, "attempt", target.AttemptID,
		"operation", n.Operation, "kind", n.Kind)
}

// noticed decides what a notice makes of a payment. It is pure.
func noticed(s shard.Snapshot, posted []shard.PostedEntry, attemptID string, n psprouter.Notice, at time.Time,
	lifetime time.Duration) (shard.Change, error) {
	a, ok := attemptOf(s, attemptID)
	if !ok {
		return shard.Change{}, &misfitError{"the attempt " + attemptID + " is not of payment " + s.Payment.ID}
	}
	if n.AmountProblem != "" {
		return shard.Change{}, &misfitError{"AMOUNT_MISMATCH: " + n.AmountProblem}
	}
	if n.Amount.Currency != "" && n.Amount.Currency != s.Payment.Currency {
		return shard.Change{}, &misfitError{fmt.Sprintf("CURRENCY_MISMATCH: the notice is in %s, the payment in %s", n.Amount.Currency, s.Payment.Currency)}
	}
	if n.Expired {
		return expiry(s.Payment, at)
	}
	if n.Operation == "" || n.Outcome.Class() == psprouter.Unknown && !n.Reversed {
		return shard.Change{}, errNothing
	}
	if n.Operation == AttemptAuthorize && n.Outcome.Captured && reserved(s.Payment, a) {
		n.Operation = AttemptCapture // of what was authorized before: by us, or outside
	}
	a, outside, err := meant(s, a, n)
	if err != nil {
		return shard.Change{}, err
	}
	if outside {
		return capturedOutside(s.Payment, n, at)
	}
	if n.Amount.Minor != 0 && n.Amount.Minor != a.Amount {
		return shard.Change{}, &misfitError{fmt.Sprintf("AMOUNT_MISMATCH: the notice says %d, the attempt %d", n.Amount.Minor, a.Amount)}
	}
	if autoCaptured(s.Payment, a) && (n.CaptureImplied || n.Operation == AttemptCapture) {
		n.Outcome.Captured = true
	}
	change, _, err := learn(s, posted, a.ID, fact{outcome: n.Outcome, reversed: n.Reversed}, at, lifetime)
	return change, err
}

// meant finds the attempt that a notice is about. A PSP's notice of a capture or void can carry the authorization's ID: it
// means the one that waits. Its amount is then the total that was captured, so it is compared with the total. A capture
// that nobody here asked for was made outside, in the PSP's own dashboard.
func meant(s shard.Snapshot, a shard.Attempt, n psprouter.Notice) (_ shard.Attempt, outside bool, err error) {
	if n.Operation == a.Kind || (n.Operation == AttemptCapture && autoCaptured(s.Payment, a)) {
		return a, false, nil
	}
	if n.Reversed {
		return tookBack(s, a, n)
	}
	waiting, found := pendingOf(s, n.Operation)
	p := s.Payment
	switch {
	case n.Operation == AttemptCapture && found && bookedAlready(s, n):
		return a, false, errEarly // it is known, or the one that waits: its own proof tells, and then this is known
	case n.Operation == AttemptCapture && found:
		if n.Amount.Minor != 0 && n.Amount.Minor != p.Captured+waiting.Amount && n.Amount.Minor != waiting.Amount {
			return a, false, &misfitError{fmt.Sprintf("AMOUNT_MISMATCH: the notice says %d captured, we have %d and wait for %d", n.Amount.Minor,
				p.Captured, waiting.Amount)}
		}
		waiting.Amount = max(waiting.Amount, n.Amount.Minor) // compared as a total above
		return waiting, false, nil
	case found:
		return waiting, false, nil
	case n.Operation == AttemptCapture && (n.Amount.Minor != 0 && n.Amount.Minor <= p.Captured || bookedAlready(s, n)):
		return a, false, errClosed
	case n.Operation == AttemptCapture && capturable(p) > 0 && n.Outcome.Class() == psprouter.Approved:
		return a, true, nil
	}
	return lastOf(s, a, n.Operation)
}

// bookedAlready tells that a notice of a capture may be of one that is booked: it tells that one's amount, the total then, or none,
// and has no reference that would set it apart from all that is booked. Stripe's captures of one payment share the charge's ID.
func bookedAlready(s shard.Snapshot, n psprouter.Notice) bool {
	if n.Outcome.Class() != psprouter.Approved {
		return false
	}
	var total int64
	reads, apart := n.Amount.Minor == 0, n.Reference != "" && n.Reference != s.Payment.PSPRef
	for _, a := range s.Attempts {
		if a.Kind == AttemptCapture && a.Status == Succeeded {
			total += a.Amount
			reads = reads || n.Amount.Minor == a.Amount || n.Amount.Minor == total
			apart = apart && a.PSPRef != "" && a.PSPRef != n.Reference
		}
	}
	return total > 0 && reads && !apart
}

// tookBack is the attempt whose success a notice takes back although it names another one of the payment: by the PSP's
// reference, else one that succeeded over that amount.
func tookBack(s shard.Snapshot, a shard.Attempt, n psprouter.Notice) (shard.Attempt, bool, error) {
	for _, x := range s.Attempts {
		if x.Kind == n.Operation && x.PSPRef != "" && x.PSPRef == n.Reference {
			return x, false, nil
		}
	}
	for _, x := range s.Attempts {
		if x.Kind == n.Operation && x.Status == Succeeded && (n.Amount.Minor == 0 || n.Amount.Minor == x.Amount) {
			return x, false, nil
		}
	}
	return lastOf(s, a, n.Operation)
}

// autoCaptured tells that an authorization was to take the money at once: its capture is the same attempt.
func autoCaptured(p shard.Payment, a shard.Attempt) bool {
	return a.Kind == AttemptAuthorize && CaptureMode(p.CaptureMode) == Automatic
}

// reserved tells that an authorization only reserved the money, and succeeded: what is captured of it is another attempt's.
func reserved(p shard.Payment, a shard.Attempt) bool {
	return a.Kind == AttemptAuthorize && CaptureMode(p.CaptureMode) == Manual && a.Status == Succeeded
}

// lastOf is the last attempt of a kind: news of one that was closed as failed.
func lastOf(s shard.Snapshot, a shard.Attempt, operation string) (shard.Attempt, bool, error) {
	for n := len(s.Attempts) - 1; n >= 0; n-- {
		if s.Attempts[n].Kind == operation {
			return s.Attempts[n], false, nil
		}
	}
	if s.Payment.Status == AuthPending || s.Payment.Status == RequiresAction {
		return a, false, errEarly
	}
	return a, false, &misfitError{fmt.Sprintf("a notice of %s for a payment that is %s and never asked for it", operation, s.Payment.Status)}
}

// capturedOutside books a capture that was made in the PSP's own dashboard: the attempt records what we were told.
func capturedOutside(p shard.Payment, n psprouter.Notice, at time.Time) (shard.Change, error) {
	minor := capturable(p)
	if n.Amount.Minor != 0 {
		minor = n.Amount.Minor - p.Captured
	}
	if minor <= 0 || minor > capturable(p) {
		return shard.Change{}, &misfitError{fmt.Sprintf("AMOUNT_MISMATCH: %d captured outside, %d can be", n.Amount.Minor, capturable(p))}
	}
	on := OnPartCaptured
	if p.Captured+minor == p.Authorized {
		on = OnCaptured
	}
	m, err := begin(p, on, at)
	if err != nil {
		return shard.Change{}, err
	}
	a := newAttempt(*m.payment(), AttemptCapture, minor, "", at, 0)
	a.RouteReason = "captured outside, as the PSP told"
	m.tells(a, Succeeded, n.Outcome)
	if err := m.captures(minor, a.ID); err != nil {
		return shard.Change{}, err
	}
	return m.finish()
}

// expiry ends an authorization that the PSP released by time.
func expiry(p shard.Payment, at time.Time) (shard.Change, error) {
	switch p.Status {
	case Expired, Voided:
		return shard.Change{}, errClosed
	case Authorized:
		m, err := begin(p, OnExpired, at)
		if err != nil {
			return shard.Change{}, err
		}
		m.releases()
		return m.finish()
	}
	return shard.Change{}, errEarly
}
