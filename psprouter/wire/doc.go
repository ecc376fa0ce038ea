// Package wire is what the PSP adapters have in common below their formats: one HTTP request and what can be proved of
// it, amounts in a PSP's own units, recovery data in a PSP's metadata, and the form of our attempt IDs.
//
//	Exchange, Recorder  one request, sent once, with the proof that it never left or the status that came back
//	Units               ISO 4217 minor units to a PSP's and back; what would be rounded is refused
//	Packing             recovery data, cut over metadata fields of limited number and length
//	AttemptID           an attempt ID of ours in a text of theirs, or ""
//
// A call goes like this; err is of the client library, which may have lost what the exchange kept:
//
//	seen := new(wire.Exchange)
//	err := call(wire.With(ctx, seen)) // through a Recorder
//	if why := seen.Unsent(err); why != "" { … NotSent }
//
// What happens on failure: no connection is proof that nothing left; anything after that is no proof. An answer longer
// than a megabyte is an error of its own and never passes for a whole one.
package wire
