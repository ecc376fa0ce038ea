// Package psptest is the conformance suite of PSP adapters: what every adapter must do, whatever its wire format. It is for
// tests only.
//
// The recipe for a new adapter:
//
//  1. Write the wire format as an Adapter. psprouter/wire has the parts that all of them need.
//
//  2. Write a Harness in its test: how to make the adapter, what a success of each operation looks like on the wire, the PSP's
//     own refusals with the class that each must have, its amounts, its webhooks.
//
//  3. Call Run. It plays every fault point of one HTTP call against every operation and against its inquiry:
//
//     fault point                            a call        its inquiry
//     no connection, caller gone before      NotSent       Unknown
//     reset or end at any point after        Unknown       Unknown
//     cut, garbled, redirected, too long     Unknown       Unknown
//     no answer in time, no end in time      Unknown       Unknown
//     the PSP's own refusals                 Harness       never NotSent, never Absent by mistake
//     success                                Harness       Harness
//
//     and checks each time that exactly one request left, under the attempt ID as its key, and that the words of the outcome
//     do not repeat the card's token.
//
//  4. Test apart what only this PSP does: each of its status words, its published signature vectors, its metadata.
//
// What happens on failure: every deviation is one line with the fault and the operation in the subtest's name.
//
//	func TestConformance(t *testing.T) { psptest.Run(t, harness(t)) }
package psptest
