// Package loadtest sends payments to a cluster over HTTP as shops would, and knows what must become of each. It shares no
// code with what it tests but the words of package ledger (money, accounts, splits): it works out amounts, states and
// balances by itself, so that a wrong sum cannot hide on both sides.
//
// A Journey is data: what a shop does with one payment, step by step, with what card, and how each step ends. A plan is
// made of journeys by a seed: amounts, currencies, sellers and keys, and, for each call, the state that must follow (State).
// Two plans of one seed are equal. The Runner then makes the calls and goes through three phases:
//
//	pay     every journey, a bounded number at once. Each tenth key is sent twice at once, to two routers
//	replay  each seventh key that was answered is sent again to another router: same bytes, marked as replayed
//	read    every payment is read: it is as its journey left it, and its order has no other
//
// Whatever is not as planned is a Finding that names the payment; the journey ends there. Calls that a router could not take
// (busy, shard unavailable, connection lost) are repeated under their key, as a shop would; that is no finding. Money is
// compared afterwards with a witness (Result.CompareWitness) and with the ledger (Balances).
//
// Faults are the PSP simulator's: the payment's token says which. A step's End says what the fault leaves behind, here and
// at the PSP; an unknown outcome stays PROCESSING here, and State.Pending counts it.
//
//	r, err := loadtest.New(loadtest.Options{URLs: urls, Key: "tk_shop_a", StrangerKey: "tk_shop_b", Payments: 600,
//		Concurrency: 32, Seed: 1, Now: time.Now})
//	if err != nil {
//		return err
//	}
//	result, err := r.Run(ctx)
package loadtest
