// Package shard keeps payments, their ledger and their events on many databases, and is the only package that writes them.
//
// It knows two writes: Begin opens a payment, Apply moves one. Each is one statement, commits by itself, and is refused by
// the bucket fence where it does not belong. This page is about that fence.
//
// # Who decides
//
// A bucket is one of 4,096 slots, found by hashing what the client sent (BucketOf). Each lies on one shard at a time. Which,
// is decided by a row in the shard's own database, and by nothing else:
//
//	buckets: bucket | epoch | state | seq | rollup_seq
//
//	state   OWNED      this shard writes the bucket, at this epoch
//	        FROZEN     a move is about to end: nobody writes, the rows are still ours
//	        RECEIVING  rows arrive from the former owner: nobody writes, the rows are not ours yet
//	        MOVED      another shard owns it; what lies here is a copy that nobody reads
//	epoch   grows with every change of owner, also when a bucket comes back
//	seq     the number of the last change committed in the bucket
//
// What the database decides, in the same commit as the write itself: whether this shard owns the bucket at that epoch;
// whether a key is free; whether a payment still is in the state and version that a change was decided on; which number
// the change has in its bucket's log.
//
// What a process may only assume: where a bucket lies (the shard map is a hint), that a payment is as it last read it, that
// a lease is still its own, that a statement which did not answer did not commit. Every one of these may be wrong at
// any moment, and each is checked where it matters, by the database, or is read back. No process is ever trusted to know that
// it is alone.
//
// # The two statements, step by step
//
// Both are data-modifying CTEs over arrays, so a batch of changes of many payments is one round trip and one commit.
//
//	step      Begin (sqlBegin)                        Apply (sqlApply)
//	f fence   lock the rows of the batch's buckets    the same
//	          that are OWNED (FOR NO KEY UPDATE), in
//	          the order of their numbers
//	compare   k: insert the keys of items whose       p: update the payments of items whose epoch is the
//	          epoch is the row's; a key that          row's and whose stored version and status are the
//	          exists drops its item out alone         expected ones, within the caps; others drop out alone
//	s number  seq+1, seq+2, … for what is left        the same
//	write     payment, attempt, event                 attempts, refunds, keys, entry, postings,
//	                                                  sellers' balances, event
//	b close   set seq to the last number used         the same
//	answer    per item: owned? written?               the same
//
// An item that is not owned is errFenced, one owned but not written is ErrConflict, the rest is committed. Nothing is
// numbered before its comparison has held, so numbers have no gaps, even where writers race and lose.
//
// # Why READ COMMITTED suffices
//
// A statement in READ COMMITTED sees one snapshot, taken when it starts; then it waits in f for whoever holds the bucket. So
// f's lock can be newer than the snapshot. That does no harm, by what each step does with a row that has changed since:
//
//   - f locks the row and reads it again after the wait: epoch, state and seq are the newest committed ones. Whoever moved
//     the bucket or took a number meanwhile is seen.
//   - p finds a payment by the old snapshot, but an UPDATE whose row has changed since is checked again on the newest
//     version: the version that another change took no longer is Version-1, and the item drops out.
//   - k meets a key that is newer than the snapshot in the unique index, which knows no snapshots, and drops the item out.
//   - A payment that is newer than the snapshot is not found at all, and its item drops out. It cannot have been decided on
//     honestly: who decided it had read the payment, so the payment was committed before the statement began.
//   - Rows that only ever are inserted (postings, outbox) have keys made of the number, which nobody else can have.
//   - Sums (sellers' balances) are added to by ON CONFLICT DO UPDATE, which works on the newest version under its lock.
//
// Locks are taken in one order: buckets by number, payments each under its bucket's lock, balances by account. So two
// statements cannot wait for each other in a circle, whatever order their callers name sellers in.
//
// # Three strengths of one lock
//
// Who takes numbers excludes others who do; who moves a bucket excludes everybody; a notice takes no number and must only be sure
// that the bucket does not move away from it. So one bucket's row is locked in three ways:
//
//	who                  lock                                        waits for
//	a mover              FOR UPDATE, by changing epoch or state      all others
//	Begin, Apply, the    FOR NO KEY UPDATE, and changes seq or       movers and each other
//	roll-up              rollup_seq
//	a notice             FOR KEY SHARE                               movers alone
//
// PostgreSQL locks a row as for UPDATE when a column of a unique index changes. The index buckets_fence makes epoch and state such
// columns, so a mover need not know of this. Without it, a notice could be stored where its bucket no longer is, and be lost.
// CockroachDB knows fewer strengths. There a notice reads the bucket's row, and SERIALIZABLE refuses one of the two if the bucket
// moves meanwhile.
//
// The strengths matter because a PSP sends its webhook as it answers the call: one router writes the answer while another stores the
// notice, in the same bucket at the same moment. As they excluded each other, a write waited for a strange router's commit as often as not.
//
// The roll-up is the one statement that must NOT read seq under the lock. It sums postings up to seq, and sums are read from
// the snapshot: a seq that is newer than the snapshot would count postings that the snapshot does not show yet, and
// they would be lost from the balance for ever. So it takes seq and rollup_seq from the snapshot, locks only for the order,
// and moves rollup_seq by compare-and-set: of two roll-ups at once the second changes nothing.
//
// In SERIALIZABLE (always on CockroachDB, Options.Serializable on PostgreSQL) the database refuses with 40001 what it would
// have to look at again, and the statement is run again from its start. The same statements are right in both.
//
// # Sequence order is commit order
//
// The lock that f takes is held to the commit, and seq is read under it. So of two changes of a bucket, the one with the
// smaller number committed first, and a reader that has seen number n will never see a smaller one appear. One cursor per
// bucket is enough for whoever follows the log: relay, roll-up, mover.
//
// # What happens on each failure
//
//	failure                       what it means            what is done                       what callers hear
//	conflict                      somebody was first       nothing                            ErrConflict
//	fence                         the map is old, or the   the map is read again; the right   nothing, or ErrNoOwner after
//	                              bucket moves             shard is asked, maxReroutes times  a few seconds
//	40001, 40P01                  nothing was written      the statement again, maxTries      nothing, or ErrUnavailable
//	                                                       times, pauses jittered
//	refusal (CHECK, unique key,   nothing was written      a batch is tried one by one, so    *RefusedError, the one who
//	overflow, a trigger)                                   that it hits only who is meant     caused it
//	no connection                 nothing was sent         as 40001                           nothing, or ErrUnavailable
//	doubt: connection lost,       it may have committed    read back, then run again          nothing, or ErrInDoubt if it
//	time limit, 40003             or may yet commit                                           cannot be read back
//
// A doubt is settled by IDs that only this very write has: an opening by the payment that its key belongs to, a change by
// its own ID beside the payment's version in the outbox. Three things can be seen:
//
//	there          it committed, and the caller hears so
//	not there      it is run again. The first run can still be under way at the server; the compare-and-set and
//	               the unique key let only one of the two pass
//	a conflict or  looked behind once more (confirm): if the first run came through after the read-back, the conflict is
//	fence, then    with ourselves, and the caller hears that it committed
//
// After a doubt nobody is told that nothing was written unless the database has refused the change or another's write stands in
// its place: ErrUnavailable would be a guess, so it is ErrInDoubt. Who hears that asks again under the same key.
//
// A process that dies needs nothing of this: what committed is committed, what did not is gone, and whoever asks under the same
// key learns which.
//
// # Lanes
//
// Calls to one shard gather in lanes, by bucket. A lane sends what has gathered in one turn: a statement per kind and one
// commit. It rests between two turns while only strangers come, so a busy shard commits many changes at once; what comes to
// an idle lane does not wait. A payment is in a turn once. Lanes of one process never wait for each other's bucket rows; two
// processes do, in the order of the locks.
//
// # Tables
//
// Written here and nowhere else: payments, attempts, refunds, idempotency_keys, journal_entries, postings, outbox,
// seller_balances, rollups, webhook_inbox, leases, relay_cursors, parked_payments, and seq and rollup_seq of buckets. The role
// of the services may insert into the ledger and read it, no more. Rows of buckets are made by Place, as the tables' owner, and their
// epoch and state are changed by whoever moves them.
//
// # Invariants
//
// docs/invariants.md tells where each is held, tested and looked for.
//
//	S1  everything that a payment writes lies in its bucket, and its bucket follows from its client and key
//	S2  only the owner of a bucket, at its epoch, writes in it
//	S3  a change is written only on the version and status that it was decided on
//	S4  a bucket's changes are numbered 1, 2, 3, … in the order of their commits, without a gap
//	S5  a change is bounded: attempts, postings, items per batch, waiting calls, tries
//	L1  a posting moves one amount from one account to another: it balances by construction
//	L2  an entry has one currency, that of its payment
//	L3  entries and postings are only ever inserted
//	P1  captured + released ≤ authorized, refunding + refunded ≤ captured, none negative
//
// # Example
//
//	cluster, err := shard.Open(ctx, shard.NewMapFile("shards.json"), shard.Options{Now: time.Now}, registry)
//	b := shard.BucketOf(client, key)
//	id := shard.NewID(shard.PaymentPrefix, b, now)
//	err = cluster.Begin(ctx, shard.Opening{Payment: …, Attempt: …, Key: …, Event: …, At: now})
//	if errors.Is(err, shard.ErrConflict) {
//		first, err := cluster.OpeningKey(ctx, client, key) // somebody asked for the same before: answer as then
//	}
//	… call the PSP, with nothing open …
//	err = cluster.Apply(ctx, change) // decided by package payment from what the PSP said
//
// Its tests need a PostgreSQL, which package shardtest starts.
package shard
