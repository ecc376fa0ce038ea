// Package simulator is a payment service provider that lives in one process: it speaks Stripe's or Adyen's wire format,
// moves simulated money, tells of it by signed webhooks, misbehaves on demand, and keeps its own books of what it did.
//
// It is the independent witness of the tests: it shares no code and no table with the adapters or the ledger, so that a wrong
// exponent or a double charge cannot hide in both. Books counts every money move and every call with its idempotency
// key.
//
// The life of one POST:
//
//	cut off   an outage, or a reset before reading      nothing kept
//	read      API key, body, known parameters           400, 401, 403, 422: nothing kept
//	admit     idempotency key, room, the call's fault   replay, conflict; drop_before, 503, 429 …
//	wait      latency, and a slow fault's seconds       on the server's own timer: a client that hangs up changes nothing
//	execute   the money moves, under one lock           what is answered after this point is kept under the key
//	tell      the notices that come early               the others are queued
//	hold      a timeout fault's seconds                 a second request under the key is told that it is in flight
//	answer    saved under the key; sent, cut or falsified as the fault says
//
// What happens is chosen by a script (POST /sim/script) for the next call, or else by the payment's token, or else drawn
// from the seed and the call's idempotency key; all name entries of one table, faults.go.
//
// Both dialects move money through the same state machine, moves.go; dialect.go lists what they do differently. A
// simulator speaks one of them. At Adyen a capture, cancel or refund is answered "received" whatever comes of it: the money has
// moved, or not, and only the notice tells.
//
// Notices leave while Run or Serve runs, or by Flush and Deliver in the caller's goroutine. Time is Options.Now and
// Options.Wait alone; with a Wait that returns at once, Options.Patience and Transport, a test plays years without a
// socket and without a sleep:
//
//	sim, err := simulator.New(simulator.Options{Now: clock.Now, Wait: clock.Advance, Patience: 20 * time.Second,
//		Dialect: simulator.DialectAdyen})
//	client := &http.Client{Transport: sim.Transport()}
//
// Everything is in memory, bounded by Options.MaxPayments and by the limits in delivery.go, and gone with the process. The
// objects carry the fields that paygrid reads; disputes, payouts and transfers are not simulated.
package simulator
