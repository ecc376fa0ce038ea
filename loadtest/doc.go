// Package loadtest sends payments to a cluster over HTTP as shops would, and knows what must become of each. It shares no
// code with what it tests but the words of package ledger (money, accounts, splits): it works out amounts, states and
// balances by itself, so that a wrong sum cannot hide on both sides.
//
// A Journey is data: what a shop does with one payment, step by step, with what card, at which PSPs, and how each step ends
// when no fault meets it. A plan is made of journeys by a seed: amounts, currencies, sellers and journeys. Two plans of one
// seed are equal. The Runner then makes the calls and goes through four phases:
//
//	pay     every journey, a bounded number at once. Each tenth key is sent twice at once, to two routers
//	settle  the PSPs are well again (Options.Heal): every call that had to be left open gets its outcome
//	replay  each seventh key that was answered is sent again to another router: same bytes, marked as replayed
//	read    every payment is read: it is as its calls left it, and its order has no other
//
// Which calls the PSPs' faults meet is not known beforehand, so a call may also stay open, not be processed, or find no PSP
// (Step.allows); it may never end the other way. A journey follows an open call for a while by reading the payment; what was
// proved not to have been processed is asked again under a new key. How each call ended, by its own final answer, makes the
// order's State: what the payment must show, what its PSP must have moved (Result.CompareWitness) and what the ledger must
// hold (Balances). The ends are the API's word and the witness is the PSP's, so that a wrong word cannot stand.
//
// Whatever is not so is a Finding that names the payment; the journey ends there. Calls that a router could not take (busy,
// shard unavailable, connection lost) are repeated under their key, as a shop would; that is no finding.
//
//	r, err := loadtest.New(loadtest.Options{URLs: urls, Key: "tk_shop_a", StrangerKey: "tk_shop_b", Payments: 600,
//		Concurrency: 32, Seed: 1, Now: time.Now, Buyer: buyer, Heal: heal})
//	if err != nil {
//		return err
//	}
//	result, err := r.Run(ctx)
//
// # Traffic
//
// The second workload is traffic, to see how fast a cluster is and whether every cent was right. A trace is a list of Arrivals,
// each a buyer with what the shop does afterwards; Generate makes one from Segments of profiles by a seed, ReadTrace reads one,
// a Recorder writes one from live traffic without personal details.
//
//	Player   an open system: each arrival begins at its own time, whether or not others were answered
//	Meter    measures from the intended start, so that a stall meets all who came meanwhile
//	Probe    adds up the processes' own metrics, over deaths and restarts
//	Audit    compares what the API acknowledged with the books, payment by payment, and names what a run leaves (two digests)
//	Report   all of it and the verdict, as text, JSON and one page
//	Merge    one report of those of several generators that shared a trace
//
// Generators that share a trace (PartOf) share a cluster, too. What each did itself, its report says of it alone: counts, histograms
// and seconds (Raw) add up on a common time. What each saw of the cluster is of all of them: routers' metrics count the calls of
// every part, and so they count once for each process (ProcessRow); the books hold the payments of every part, and so a part waits
// until they stand still (BooksRow.Moving) before it compares its own payments with them, one by one, and looks for orders of the
// whole run that are paid twice. Merge wants all parts to have read the same final books, and holds the sums of what they asked for
// and were told (Claim) against them; a sum cannot tell a payment that nobody asked for from one that never came to be.
//
// A run of three segments, the second of which is more than the cluster can take (Overload), is judged by Meter.Overloaded: how
// many authorizations a second were decided before and during it, when all was as before, and what was turned away. Each such
// answer must name the time to come back, and what was not sent again must not be in the books: no payment of an order, nothing
// of a capture, void or refund.
//
// What fails a verdict: a double charge, a loss, a sum that does not balance, an attempt without an answer when all has
// settled, an answer of the API that the books contradict, or a generator that could not send what it was asked to. A fault
// script (ParseFaults) is only read here; program loadtest makes the faults.
//
//	p, err := loadtest.NewPlayer(loadtest.PlayOptions{URLs: urls, Keys: keys, Now: time.Now, Meter: meter})
//	if err != nil {
//		return err
//	}
//	err = p.Play(ctx, start, loadtest.ReadTrace(file))
package loadtest
