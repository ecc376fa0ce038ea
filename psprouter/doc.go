// Package psprouter defines how paygrid speaks to payment service providers (PSPs): the PSP interface, the closed
// Outcome that every call ends in, and the choice of a PSP for a payment.
//
//	choice, err := router.Choose(wish)      // permission of breaker and rate limit; nothing is written yet
//	…                                       // the intent is committed with choice.Reason
//	outcome := choice.PSP.Authorize(…)
//	choice.Done(outcome)                    // or NotAsked, if it came to no call
//	if proof, ok := outcome.NotSent(); ok { // no other class has a proof
//		choice, ok = router.Elsewhere(choice, proof, wish)
//	}
//
// A choice is made among the PSPs that the payment has a token for, that can take the amount exactly, that the Rules allow,
// that no operator has drained, and whose breaker and rate limit let a call through. Of these the one that costs least, its
// declines counted as lost commission, gets the payment; equals share by weight, and a small part goes to the others so that
// their paths are known to work. What each was like is one sentence, stored with the attempt.
//
// There is one breaker per PSP and operation. A definite answer, declines included, is a success; no answer, or a documented
// "not processed", is a failure; our own doing is left out. While it is open, calls that do not exist yet (new payments,
// captures, voids, refunds) are refused before anything is written, and after a while one of them is the probe. Attempts in
// flight are asked about whatever the breaker says, and never are the probe.
//
// A router remembers only hints: a new process starts with closed breakers and assumed rates, and loses no fact.
//
// Three rules hold everywhere:
//
//   - What an adapter does not positively recognise is Unknown. Unknown is not a failure: the attempt stays pending.
//   - The attempt ID is the idempotency key and our reference at the PSP, for ever.
//   - Only NotSent may go to another PSP.
//
// The package touches no network and no database, and its clock is given to it; only gobreaker keeps its own.
package psprouter
