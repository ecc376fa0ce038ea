// Package psprouter defines how paygrid speaks to payment service providers (PSPs): the PSP interface, the closed
// Outcome that every call ends in, and the choice of a PSP for a payment.
//
// Three rules hold everywhere:
//
//   - What an adapter does not positively recognise is Unknown. Unknown is not a failure: the attempt stays pending.
//   - The attempt ID is the idempotency key and our reference at the PSP, for ever.
//   - Only NotSent may go to another PSP.
//
// The package is pure but for the adapters below it: it reads no clock and no database.
package psprouter
