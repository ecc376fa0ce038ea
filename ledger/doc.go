// Package ledger is the arithmetic of money and the grammar of journal entries: currencies, the
// chart of accounts, the splits of a payment, their running totals, and entries made of postings.
//
// It is pure. Everything goes from values to values; there is no database, no clock and no network
// here, and balances are read through a shard. It writes no table: shard stores what is built here.
//
// What must hold, whatever the input:
//
//	an amount     int64 minor units of one currency; no float ever, every sum checked for overflow
//	an entry      a list of postings; a posting is one amount from one credited to one debited
//	              account, so an entry cannot be unbalanced, only refused (Entry.Check)
//	parts         0 <= refunded <= captured <= authorized for every credited account, and the
//	              shares of a capture or refund sum to exactly its amount (Parts.Capture, Parts.Refund)
//	a correction  a new entry with every posting swapped; nothing is edited (Entry.Reversal)
//
// The way of one payment, USD 64.99 from seller 42 at 10 % commission:
//
//	commission, _ := ledger.Commission(6499, 1000)                   // 650, rounded half up
//	splits := []ledger.Split{{SellerID: "42", Minor: 6499, CommissionMinor: commission}}
//	err := ledger.CheckSplits(ledger.Money{Minor: 6499, Currency: "USD"}, splits)
//	parts := ledger.PartsOf(splits)                                  // seller 58.49, commission 6.50
//	parts, shares, err := parts.Capture(6499)
//	entry, err := ledger.Capture("att_0007_01J", "stripe", "USD", shares)
//	parts, shares, err = parts.Refund(2000)                          // seller 18.00, commission 2.00
//	entry, err = ledger.Refund("ref_0007_01J", "stripe", "USD", shares)
//
// On failure nothing is half done: every function returns either a whole new value or a typed error
// that names the field and the remedy, and never changes its receiver or arguments.
package ledger
