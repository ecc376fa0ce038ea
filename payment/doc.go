// Package payment is the life of a payment: its states and transitions, the commands that clients give, and what is posted
// to the ledger on the way.
//
// Deciding is pure: settle, askCapture, askVoid, askRefund and the transition table take values and return a
// shard.Change; they touch no database, no clock and no network. Committing is package shard's: the Service only carries
// values between the two and the PSP. Every command is the same three steps,
//
//	commit the intent   key, pending attempt, event: what is about to be sent has a row that says so
//	call the PSP        no transaction open, no row locked, the attempt ID as idempotency key
//	commit the outcome  compare-and-set, entry, the first answer of the key, event
//
// and each step can be the last one: a process that dies between them leaves a pending attempt, which says exactly what is
// not known. An outcome that is Unknown closes nothing. An outcome that cannot be committed closes nothing either.
//
// What happens on each failure:
//
//   - the shard cannot be reached before the PSP was called: 503, nothing was charged; it was reached and gave no answer: 503, and
//     this may still be carried out, so only the same key may be used again;
//   - the PSP's answer is lost: the attempt stays PENDING, the caller hears PROCESSING;
//   - the outcome cannot be committed: the same;
//   - the caller hangs up: the command goes on to its end; the same key asks for its answer;
//   - two callers race: one compare-and-set holds; the other decides anew on what it finds.
package payment
