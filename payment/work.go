package payment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/shard"
)

// Work is the background work of the shards: the resolver, the inbox, roll-ups of house accounts, and the end of
// authorizations that ran out. It holds leases, not state: any worker takes over any shard's.
type Work struct {
	Service *Service
	Owner   string        // who holds the leases: unique to the process
	Every   time.Duration // between two rounds of resolver and inbox while they find nothing to do
	Ledger  time.Duration // between two rounds of expiry and gauges; 15 s if zero
	RollUps time.Duration // between two roll-ups of house accounts; 1 min if zero
}

// A job's lease outlives leaseTerms rounds, and at least shortestLease: so long another worker waits for one that died. It is
// renewed whenever a third of its time is over, not in each round, since it is a write; and given up at the end.
const (
	leaseTerms    = 5
	leaseParts    = 3
	shortestLease = 15 * time.Second
	leaseTry      = 2 * time.Second // between two questions for a lease that another holds
	leaseRelease  = time.Second     // for giving it up
)

// busyPause is the least time from the beginning of one round of resolver or inbox to the next, unless the first took all
// that it could. Little by little is dear: a round costs the same few statements for one notice as for fifty, and while they
// come steadily nobody misses the tenth of a second.
const busyPause = 100 * time.Millisecond

// job is one kind of work on one shard; do tells how much it did, of at most full.
type job struct {
	name  string
	every time.Duration // between the beginnings of two rounds
	busy  time.Duration // the same, after a round that did something
	full  int
	lease time.Duration // at least
	do    func(ctx context.Context, shardName string) (int, error)
}

func (w Work) jobs() []job {
	s := w.Service
	ledger, rollUps := orDefault(w.Ledger, 15*time.Second), orDefault(w.RollUps, time.Minute)
	busy := min(busyPause, w.Every)
	return []job{
		{"resolver", w.Every, busy, resolveBatch, resolveLease,
			func(ctx context.Context, name string) (int, error) { return s.ResolveOn(ctx, name, w.Owner) }},
		{"inbox", w.Every, busy, noticeBatch, shortestLease,
			func(ctx context.Context, name string) (int, error) { return s.ApplyNoticesOn(ctx, name, w.Owner) }},
		{"ledger", ledger, ledger, expireBatch, shortestLease, s.keepLedgerOn},
		{"rollups", rollUps, rollUps, shard.Buckets + 1, shortestLease, s.shards.RollUp}, // it takes all there is
	}
}

func orDefault(d, ifZero time.Duration) time.Duration {
	if d <= 0 {
		return ifZero
	}
	return d
}

// Run works until ctx ends. What fails is logged and tried again in the next round.
func (w Work) Run(ctx context.Context) error {
	var group errgroup.Group
	for _, name := range w.Service.shards.ShardNames() {
		for _, j := range w.jobs() {
			group.Go(func() error {
				w.runJob(ctx, name, j)
				return nil
			})
		}
	}
	return group.Wait()
}

// runJob does rounds of one job on one shard, at once again while there is more than one round can take.
func (w Work) runJob(ctx context.Context, name string, j job) {
	lease := tenure{}
	defer func() { w.release(ctx, name, j, lease) }()
	next := time.After(j.every)
	for {
		select {
		case <-ctx.Done():
			return
		case <-next:
		}
		idle, busy := time.After(j.every), time.After(j.busy)
		did, err := w.round(ctx, name, j, &lease)
		for err == nil && did >= j.full && ctx.Err() == nil {
			did, err = w.round(ctx, name, j, &lease)
		}
		if err != nil && ctx.Err() == nil {
			w.Service.config.Log.ErrorContext(ctx, "a round of background work failed; the next follows", "shard", name, "job", j.name,
				"error", err)
		}
		next = idle
		if err == nil && did > 0 {
			next = busy
		}
	}
}

// tenure is what a worker knows of a job's lease on a shard, and until when that will do.
type tenure struct {
	held  bool
	until time.Time
}

// round does one round if this worker holds the job's lease. Each job is right even if two workers do it at once.
func (w Work) round(ctx context.Context, name string, j job, t *tenure) (did int, err error) {
	now, term := w.Service.now(), max(leaseTerms*j.every, j.lease)
	if !now.Before(t.until) || t.until.Sub(now) > term { // the latter: the clock was set back, and until is as far off as that
		_, held, err := w.Service.shards.Lease(ctx, name, j.name, w.Owner, term)
		if err != nil {
			return 0, err
		}
		*t = tenure{held, now.Add(leaseTry)}
		if held {
			t.until = now.Add(term / leaseParts)
		}
	}
	if !t.held {
		return 0, nil
	}
	err = w.Service.guarded(ctx, panicRound, func() (err error) {
		did, err = j.do(ctx, name)
		return err
	})
	return did, err
}

// release gives a job's lease up, so that another worker need not wait until it runs out.
func (w Work) release(ctx context.Context, name string, j job, t tenure) {
	if !t.held {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseRelease)
	defer cancel()
	if _, _, err := w.Service.shards.Lease(ctx, name, j.name, w.Owner, 0); err != nil {
		w.Service.config.Log.WarnContext(ctx, "a lease was not given up; it runs out", "shard", name, "job", j.name, "error", err)
	}
}

// inParallel does n things, up to workers at a time; the caller is one of the workers, and returns when all are back. What can
// panic is for do to guard.
func inParallel(workers, n int, do func(n int)) {
	var next atomic.Int64
	work := func() {
		for k := int(next.Add(1)); k <= n; k = int(next.Add(1)) {
			do(k - 1)
		}
	}
	var others sync.WaitGroup
	defer others.Wait()
	for range min(workers, n) - 1 {
		others.Go(work)
	}
	work()
}

// keepLedgerOn ends what ran out, and looks how much waits.
func (s *Service) keepLedgerOn(ctx context.Context, shardName string) (int, error) {
	ended, err := s.ExpireOn(ctx, shardName)
	return ended, errors.Join(err, s.gaugesOf(ctx, shardName)) // people look at the gauges when something is wrong
}

// pendingAges are the ages that the gauge of attempts without an answer tells apart.
var pendingAges = []time.Duration{0, time.Minute, 15 * time.Minute, time.Hour, 24 * time.Hour}

func (s *Service) gaugesOf(ctx context.Context, shardName string) error {
	now := s.now()
	for _, age := range pendingAges {
		n, oldest, err := s.shards.PendingCount(ctx, shardName, now.Add(-age))
		if err != nil {
			return err
		}
		s.metrics.pending.WithLabelValues(shardName, age.String()).Set(float64(n))
		if age == 0 {
			s.metrics.oldest.WithLabelValues(shardName).Set(ageOf(oldest, now).Seconds())
		}
	}
	waiting, oldest, err := s.shards.InboxLag(ctx, shardName)
	s.metrics.inbox.WithLabelValues(shardName).Set(float64(waiting))
	s.metrics.inboxLag.WithLabelValues(shardName).Set(ageOf(oldest, now).Seconds())
	return err
}

func ageOf(t, now time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return now.Sub(t)
}

// expireBatch is how many authorizations one round ends at most; expireLost is how many may stay without the shard's answer
// before the round is over: each of them takes its time.
const (
	expireBatch = 500
	expireLost  = 3
)

// ExpireOn ends the authorizations on one shard that have run out, and returns how many it ended. They come in the same order in
// each round, so one that cannot be ended must not hold up those behind it.
func (s *Service) ExpireOn(ctx context.Context, shardName string) (int, error) {
	ids, err := s.shards.Expired(ctx, shardName, s.now(), expireBatch)
	if err != nil {
		return 0, err
	}
	ended, lost := 0, 0
	var errs []error
	for _, id := range ids {
		err := s.guarded(ctx, panicExpiry, func() error { return s.expire(ctx, id) })
		switch {
		case err == nil:
			ended++
			continue
		case errors.Is(err, shard.ErrConflict): // somebody moved it first
			continue
		case errors.Is(err, shard.ErrUnavailable), errors.Is(err, shard.ErrInDoubt):
			lost++
		}
		errs = append(errs, fmt.Errorf("payment %s: expire: %w", id, err))
		if lost == expireLost || ctx.Err() != nil {
			break
		}
	}
	return ended, errors.Join(errs...)
}

func (s *Service) expire(ctx context.Context, id string) error {
	snapshot, err := s.shards.Snapshot(ctx, id)
	if err != nil {
		return err
	}
	if !expired(snapshot.Payment, s.now()) {
		return shard.ErrConflict
	}
	change, err := runOut(snapshot, s.now())
	if err != nil {
		return err
	}
	return s.shards.Apply(ctx, change)
}

// redirectLifetime is how long a buyer may take to come back from a redirect.
const redirectLifetime = time.Hour

// runOut decides the end of what ran out: an authorization, the rest of one that was captured in part, or a redirect that
// nobody came back from. The buyer of the last may still act at the PSP, so it is taken back there by an attempt of our
// own.
func runOut(s shard.Snapshot, at time.Time) (shard.Change, error) {
	m, err := begin(s.Payment, OnExpired, at)
	if err != nil {
		return shard.Change{}, fmt.Errorf("%w: %w", shard.ErrConflict, err)
	}
	if a, waits := pendingOf(s, AttemptAuthorize); waits {
		m.tells(a, FailedEnd, psprouter.DeclinedWith(redirectExpired, "the buyer did not come back in time"))
		m.opensReturn(AttemptVoid, a)
		m.payment().RedirectURL = ""
	}
	m.releases()
	m.payment().ExpiresAt = time.Time{}
	return m.finish()
}

// redirectExpired is the code of an authorization that waited for a buyer who did not come back in time.
const redirectExpired = "redirect_expired"

// Reverse mirrors an entry of a payment, once: it takes back in the books what should not have been posted. The payment's
// state stays; what the money did is for the reason to say. It is refused with CodeAlreadyReversed the second time: of two at
// once one loses its compare-and-set and then sees the other's entry.
func (s *Service) Reverse(ctx context.Context, paymentID, entryID, reason, actor string) (ledger.Entry, error) {
	for range maxRaces {
		change, err := s.reversal(ctx, paymentID, entryID, reason, actor)
		if err != nil {
			return ledger.Entry{}, err
		}
		err = s.shards.Apply(ctx, change)
		if err == nil {
			return *change.Entry, nil
		}
		if !errors.Is(err, shard.ErrConflict) {
			return ledger.Entry{}, unavailable(err)
		}
	}
	return ledger.Entry{}, busy()
}

func alreadyReversed(by string) *Error {
	return &Error{Code: CodeAlreadyReversed, Detail: "the entry was reversed before", Reference: by, Remedy: "read the reversal"}
}

func (s *Service) reversal(ctx context.Context, paymentID, entryID, reason, actor string) (shard.Change, error) {
	snapshot, err := s.shards.Snapshot(ctx, paymentID)
	if errors.Is(err, shard.ErrNotFound) {
		return shard.Change{}, notFound(paymentID)
	}
	if err != nil {
		return shard.Change{}, unavailable(err)
	}
	entries, err := s.shards.Entries(ctx, paymentID)
	if err != nil {
		return shard.Change{}, unavailable(err)
	}
	entry, err := entryToReverse(entries, entryID)
	if err != nil {
		return shard.Change{}, err
	}
	m, err := begin(snapshot.Payment, OnEntryReversed, s.now())
	if err != nil {
		return shard.Change{}, wrongState(snapshot.Payment, "corrected")
	}
	mirror, err := entry.Reversal(ledger.ReversalID(entryID), reason, actor)
	if err != nil {
		return shard.Change{}, invalid("/entry", err.Error(), "name an entry that is not a reversal, a reason and who asks")
	}
	m.change.Entry = &mirror
	return m.finish()
}

func entryToReverse(entries []shard.PostedEntry, id string) (ledger.Entry, error) {
	var found *shard.PostedEntry
	for n, e := range entries {
		if e.Reverses == id {
			return ledger.Entry{}, alreadyReversed(e.ID)
		}
		if e.ID == id {
			found = &entries[n]
		}
	}
	if found == nil {
		return ledger.Entry{}, &Error{Code: CodeNotFound, Detail: "the payment has no such entry", Reference: clip(id), Remedy: "check the ID"}
	}
	return found.Entry, nil
}
