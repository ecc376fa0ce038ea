// Package simulator is a payment service provider that lives in one process: it speaks Stripe's wire format, moves
// simulated money, misbehaves on demand, and keeps its own books of what it did.
//
// It is the independent witness of the tests: it shares no code and no table with the adapter or the ledger, so that a wrong
// exponent or a double charge cannot hide in both. Books counts every money move and every call with its idempotency
// key.
//
// The life of one POST:
//
//	read      bearer key, form, known parameters        400, 401: nothing kept
//	admit     idempotency key, room, the call's fault   replay, 400 idempotency_error, 409; drop_before, 503, 429
//	wait      latency, and a slow fault's seconds       on the server's own timer: a client that hangs up changes nothing
//	execute   the money moves, under one lock           402 and 400 after this point are kept under the key
//	hold      a timeout fault's seconds                 a second request under the key gets 409
//	answer    saved under the key; sent, cut or replaced as the fault says
//
// What happens is chosen by a script (POST /sim/script) for the next call, or else by the payment's token; both name
// entries of one table, faults.go. Everything is in memory, bounded by Options.MaxPayments, and gone with the process.
//
// Stripe's objects here carry the fields that paygrid reads; webhooks, disputes, payouts and transfers are not simulated.
package simulator
