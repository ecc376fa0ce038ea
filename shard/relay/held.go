package relay

import (
	"context"
	"time"

	"paygrid/shard"
)

const (
	dueEvery  = 100 * time.Millisecond // between two looks at what is to be tried again …
	dueIdle   = 500 * time.Millisecond // … when there was nothing, as nearly always
	dueLimit  = 20                     // payments per look …
	dueBudget = 50 * time.Millisecond  // … and time to spend on them, so that other payments need not wait long
	heldLimit = 100                    // events of one payment per look
)

// hold writes what was decided of held payments, and tells people of those that are given up.
func (t *term) hold(ctx context.Context, payments []shard.ParkedPayment) error {
	if len(payments) == 0 {
		return nil
	}
	if err := t.relay.shards.Hold(ctx, t.shard, t.fence, payments); err != nil {
		return err
	}
	for _, p := range payments {
		t.tell(ctx, p)
	}
	return nil
}

// tell logs a payment's new state: once when it is first held, once when it is given up, once when it is free.
func (t *term) tell(ctx context.Context, p shard.ParkedPayment) {
	log := t.relay.config.Log.With("shard", t.shard, "payment", p.PaymentID, "event", shard.EventID(p.Bucket, p.Seq), "tries", p.Tries,
		"reason", p.Reason)
	switch {
	case p.State == shard.ParkParked:
		t.relay.metrics.parked.WithLabelValues(t.shard).Inc()
		log.ErrorContext(ctx, "an event cannot be sent: its payment is parked, and its later events wait. Mend the cause, then: paygrid events redrive "+
			p.PaymentID)
	case p.State == shard.ParkReleased:
		log.InfoContext(ctx, "a held payment's events were all sent")
	case p.Tries == 1:
		log.WarnContext(ctx, "an event was refused: its payment's later events wait while it is tried again")
	}
}

// retryDue tries again the events of held payments whose time has come, or that people want tried.
func (t *term) retryDue(ctx context.Context) error {
	now := t.relay.config.Now()
	if now.Before(t.due) {
		return nil
	}
	due, err := t.relay.shards.DueParked(ctx, t.shard, now, dueLimit)
	if err != nil || len(due) == 0 {
		t.due = now.Add(dueIdle)
		return err
	}
	defer func() { t.due = t.relay.config.Now().Add(dueEvery) }()
	cursors, err := t.cursorsOf(ctx, due)
	if err != nil {
		return err
	}
	var decided []shard.ParkedPayment
	for _, p := range due {
		if t.relay.config.Now().Sub(now) > dueBudget {
			break // the others are still due at the next look
		}
		after, err := t.retry(ctx, p, cursors[p.Bucket])
		if err != nil {
			return err
		}
		decided = append(decided, after)
	}
	if len(decided) > 0 {
		t.pause(PointRetry)
	}
	return t.hold(ctx, decided)
}

// cursorsOf looks up how far the buckets of held payments are published. No round is under way meanwhile.
func (t *term) cursorsOf(ctx context.Context, payments []shard.ParkedPayment) (map[shard.Bucket]int64, error) {
	buckets := make([]shard.Bucket, len(payments))
	for n, p := range payments {
		buckets[n] = p.Bucket
	}
	return t.relay.shards.Cursors(ctx, t.shard, buckets)
}

// retry sends a held payment's events up to its bucket's cursor, each alone and in order; what lies after the cursor the rounds
// will find once it is released. It returns what to write of the payment. It returns an error if the broker is at fault: then
// the try does not count.
func (t *term) retry(ctx context.Context, p shard.ParkedPayment, through int64) (shard.ParkedPayment, error) {
	limit := heldLimit
	if p.Tries > 0 {
		limit = 1 // it was refused before: what lies behind it is read once it is sent
	}
	events, err := t.relay.shards.HeldEvents(ctx, t.shard, p, through, limit, t.relay.config.MaxBytes)
	if err != nil {
		return p, err
	}
	rest, err := t.sendAlone(ctx, events)
	switch {
	case err == nil && len(events) == limit:
		p.Seq, p.Tries, p.State, p.NextTryAt = events[len(events)-1].Seq+1, 0, shard.ParkRetrying, t.relay.config.Now()
		return p, nil
	case err == nil:
		p.State, p.Reason = shard.ParkReleased, ""
		return p, nil
	case blame(err) == faultBroker:
		return p, err
	}
	if rest[0].Seq != p.Seq { // another event than the one that was refused before
		p.Seq, p.Tries, p.State = rest[0].Seq, 0, shard.ParkRetrying
	}
	return t.refused(p, err), nil
}
