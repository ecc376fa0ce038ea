package ledger_test

import (
	"fmt"

	"paygrid/ledger"
)

// A payment of USD 64.99, captured in whole, of which 20.00 is refunded.
func Example() {
	amount := ledger.Money{Minor: 6499, Currency: "USD"}
	commission, err := ledger.Commission(amount.Minor, 1000) // 10 %
	if err != nil {
		fmt.Println(err)
		return
	}
	splits := []ledger.Split{{SellerID: "42", Minor: amount.Minor, CommissionMinor: commission}}
	if err := ledger.CheckSplits(amount, splits); err != nil {
		fmt.Println(err)
		return
	}
	parts, captured, err := ledger.PartsOf(splits).Capture(amount.Minor)
	if err != nil {
		fmt.Println(err)
		return
	}
	printEntry(ledger.Capture("att_0007_01J", "stripe", amount.Currency, captured))
	_, refunded, err := parts.Refund(2000)
	if err != nil {
		fmt.Println(err)
		return
	}
	printEntry(ledger.Refund("ref_0007_01J", "stripe", amount.Currency, refunded))
	// Output:
	// capture:att_0007_01J
	//   debit  psp_receivable:stripe 64.99 USD
	//   credit seller_payable:42 58.49 USD
	//   credit commission_revenue 6.50 USD
	// refund:ref_0007_01J
	//   debit  seller_payable:42 18.00 USD
	//   debit  commission_revenue 2.00 USD
	//   credit psp_receivable:stripe 20.00 USD
}

func printEntry(e ledger.Entry, err error) {
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.ID)
	for _, line := range e.Lines() {
		fmt.Printf("  %-6s %s %s\n", line.Side, line.Account, ledger.Money{Minor: line.Minor, Currency: line.Currency})
	}
}
