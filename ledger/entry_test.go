package ledger_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"paygrid/ledger"
)

// books are balances per account: debits less credits, in minor units.
type books map[ledger.Account]int64

func (b books) post(t interface{ Fatal(...any) }, entries ...ledger.Entry) {
	for _, e := range entries {
		if err := e.Check(); err != nil {
			t.Fatal(err)
		}
		for _, line := range e.Lines() {
			if line.Side == ledger.SideDebit {
				b[line.Account] += line.Minor
			} else {
				b[line.Account] -= line.Minor
			}
		}
	}
}

func mustEntry(t interface{ Fatal(...any) }) func(ledger.Entry, error) ledger.Entry {
	return func(e ledger.Entry, err error) ledger.Entry {
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
}

// cap10 is the capture of P10 in whole.
func cap10(t *testing.T) ledger.Entry {
	return mustEntry(t)(ledger.Capture("att_1", "stripe", "EUR", p10Shares(6300, 2550, 1150)))
}

func TestCAP10(t *testing.T) {
	e := cap10(t)
	want := []ledger.Line{
		{Account: "psp_receivable:stripe", Side: ledger.SideDebit, Minor: 10000, Currency: "EUR"},
		{Account: "seller_payable:s-ann", Side: ledger.SideCredit, Minor: 6300, Currency: "EUR"},
		{Account: "seller_payable:s-bob", Side: ledger.SideCredit, Minor: 2550, Currency: "EUR"},
		{Account: "commission_revenue", Side: ledger.SideCredit, Minor: 1150, Currency: "EUR"},
	}
	if got := e.Lines(); !slices.Equal(got, want) {
		t.Errorf("lines %v, want %v", got, want)
	}
	if total, err := e.Total(); total != 10000 || err != nil || e.ID != "capture:att_1" || e.Kind != ledger.EntryCapture {
		t.Errorf("%s of kind %s moves %d, %v", e.ID, e.Kind, total, err)
	}
}

func TestRefundOfCAP10(t *testing.T) {
	e := mustEntry(t)(ledger.Refund("ref_1", "stripe", "EUR", p10Shares(3780, 1530, 690)))
	want := []ledger.Line{
		{Account: "seller_payable:s-ann", Side: ledger.SideDebit, Minor: 3780, Currency: "EUR"},
		{Account: "seller_payable:s-bob", Side: ledger.SideDebit, Minor: 1530, Currency: "EUR"},
		{Account: "commission_revenue", Side: ledger.SideDebit, Minor: 690, Currency: "EUR"},
		{Account: "psp_receivable:stripe", Side: ledger.SideCredit, Minor: 6000, Currency: "EUR"},
	}
	if got := e.Lines(); !slices.Equal(got, want) {
		t.Errorf("lines %v, want %v", got, want)
	}
	if e.ID != "refund:ref_1" || e.Kind != ledger.EntryRefund {
		t.Errorf("ID %q, kind %q", e.ID, e.Kind)
	}
}

// The worked example of the design: USD 64.99 from seller 42 at 10 %, fee 2.9 % + 0.30, 20.00 refunded.
func TestWorkedExample(t *testing.T) {
	const usd = ledger.Currency("USD")
	receivable, fees, seller, bank := ledger.PSPReceivable("stripe"), ledger.PSPFees("stripe"), ledger.SellerPayable("42"), ledger.Cash("main")
	commission, err := ledger.Commission(6499, 1000)
	if err != nil {
		t.Fatal(err)
	}
	splits := []ledger.Split{{SellerID: "42", Minor: 6499, CommissionMinor: commission}}
	if err := ledger.CheckSplits(ledger.Money{Minor: 6499, Currency: usd}, splits); err != nil {
		t.Fatal(err)
	}
	parts, shares := must2(t)(ledger.PartsOf(splits).Capture(6499))
	capture := mustEntry(t)(ledger.Capture("att_1", "stripe", usd, shares))
	_, shares = must2(t)(parts.Refund(2000))
	refund := mustEntry(t)(ledger.Refund("ref_1", "stripe", usd, shares))

	byHand := func(id, kind string, postings ...ledger.Posting) ledger.Entry {
		return ledger.Entry{ID: id, Kind: ledger.EntryKind(kind), Currency: usd, Postings: postings}
	}
	end := books{}
	for _, step := range []struct {
		entry ledger.Entry
		want  books
	}{
		{capture, books{receivable: 6499, seller: -5849, ledger.CommissionRevenue: -650}},
		{byHand("settle:stripe:1", "settlement", ledger.Posting{Debit: bank, Credit: receivable, Minor: 6281},
			ledger.Posting{Debit: fees, Credit: receivable, Minor: 218}), books{bank: 6281, fees: 218, receivable: -6499}},
		{refund, books{seller: 1800, ledger.CommissionRevenue: 200, receivable: -2000}},
		{byHand("settle:stripe:2", "settlement", ledger.Posting{Debit: receivable, Credit: bank, Minor: 2000}), books{receivable: 2000, bank: -2000}},
		{byHand("payout:p1:s1", "payout", ledger.Posting{Debit: seller, Credit: ledger.PayoutsInTransit, Minor: 4049}),
			books{seller: 4049, ledger.PayoutsInTransit: -4049}},
		{byHand("payout_confirmed:p1:s1", "payout_confirmed", ledger.Posting{Debit: ledger.PayoutsInTransit, Credit: bank, Minor: 4049}),
			books{ledger.PayoutsInTransit: 4049, bank: -4049}},
	} {
		got := books{}
		got.post(t, step.entry)
		if !reflect.DeepEqual(got, step.want) {
			t.Errorf("%s moves %v, want %v", step.entry.ID, got, step.want)
		}
		end.post(t, step.entry)
	}
	want := books{bank: 232, fees: 218, ledger.CommissionRevenue: -450, receivable: 0, seller: 0, ledger.PayoutsInTransit: 0}
	if !reflect.DeepEqual(end, want) {
		t.Errorf("ends with %v, want %v", end, want)
	}
}

func TestReversalLeavesNothing(t *testing.T) {
	e := cap10(t)
	before := slices.Clone(e.Postings)
	r := mustEntry(t)(e.Reversal(ledger.ReversalID(e.ID), "captured twice", "u-kim"))
	if r.ID != "reversal:capture:att_1" || r.Kind != ledger.EntryReversal || r.Reverses != e.ID || r.Reason != "captured twice" || r.Actor != "u-kim" {
		t.Errorf("reversal %+v", r)
	}
	if len(r.Lines()) != 4 || len(e.Lines()) != 4 || !slices.Equal(before, e.Postings) {
		t.Errorf("the reversal has %d lines and leaves %d to its original", len(r.Lines()), len(e.Lines()))
	}
	sum := books{}
	sum.post(t, e, r)
	for account, minor := range sum {
		if minor != 0 {
			t.Errorf("%s is left with %d", account, minor)
		}
	}
}

func TestReversalRefuses(t *testing.T) {
	e := cap10(t)
	r := mustEntry(t)(e.Reversal("reversal:1", "wrong", "u-kim"))
	returned := r
	returned.Kind = ledger.EntryRefundReturn
	for _, c := range []struct {
		name              string
		of                ledger.Entry
		id, reason, actor string
		fault             ledger.EntryFault
	}{
		{"of a reversal", r, "x", "wrong", "u-kim", ledger.FaultReversal},
		{"of a returned refund", returned, "x", "wrong", "u-kim", ledger.FaultReversal},
		{"without a reason", e, "x", "", "u-kim", ledger.FaultReversal},
		{"without an actor", e, "x", "wrong", "", ledger.FaultReversal},
		{"without an ID", e, "", "wrong", "u-kim", ledger.FaultIdentity},
		{"under its original's ID", e, e.ID, "wrong", "u-kim", ledger.FaultReversal},
		{"of an unsound entry", ledger.Entry{ID: "e", Kind: "capture", Currency: "EUR"}, "x", "wrong", "u-kim", ledger.FaultEmpty},
	} {
		got, err := c.of.Reversal(c.id, c.reason, c.actor)
		var wrong *ledger.EntryError
		if !errors.As(err, &wrong) || wrong.Fault != c.fault || !reflect.DeepEqual(got, ledger.Entry{}) {
			t.Errorf("reversal %s: %+v, %v; want fault %s", c.name, got, err, c.fault)
		}
	}
}

func TestEntryCheck(t *testing.T) {
	good := ledger.Posting{Debit: "cash:main", Credit: "psp_receivable:stripe", Minor: 1}
	posting := func(debit, credit ledger.Account, minor int64) []ledger.Posting {
		return []ledger.Posting{good, {Debit: debit, Credit: credit, Minor: minor}}
	}
	for _, c := range []struct {
		name  string
		entry ledger.Entry
		fault ledger.EntryFault
		index int
		cause any
	}{
		{"no ID", ledger.Entry{Kind: "k", Currency: "EUR", Postings: posting("cash:b", "cash:c", 1)}, ledger.FaultIdentity, -1, nil},
		{"no kind", ledger.Entry{ID: "e", Currency: "EUR", Postings: posting("cash:b", "cash:c", 1)}, ledger.FaultIdentity, -1, nil},
		{"no currency", ledger.Entry{ID: "e", Kind: "k", Postings: posting("cash:b", "cash:c", 1)}, ledger.FaultCurrency, -1, new(*ledger.CurrencyError)},
		{"lower-case currency", ledger.Entry{ID: "e", Kind: "k", Currency: "eur", Postings: posting("cash:b", "cash:c", 1)}, ledger.FaultCurrency, -1, new(*ledger.CurrencyError)},
		{"no postings", ledger.Entry{ID: "e", Kind: "k", Currency: "EUR"}, ledger.FaultEmpty, -1, nil},
		{"bad debit", ledger.Entry{ID: "e", Kind: "k", Currency: "EUR", Postings: posting("cash", "cash:c", 1)}, ledger.FaultAccount, 1, new(*ledger.AccountError)},
		{"bad credit", ledger.Entry{ID: "e", Kind: "k", Currency: "EUR", Postings: posting("cash:b", "", 1)}, ledger.FaultAccount, 1, new(*ledger.AccountError)},
		{"to itself", ledger.Entry{ID: "e", Kind: "k", Currency: "EUR", Postings: posting("cash:b", "cash:b", 1)}, ledger.FaultSameAccount, 1, nil},
		{"zero", ledger.Entry{ID: "e", Kind: "k", Currency: "EUR", Postings: posting("cash:b", "cash:c", 0)}, ledger.FaultNotPositive, 1, nil},
		{"negative", ledger.Entry{ID: "e", Kind: "k", Currency: "EUR", Postings: posting("cash:b", "cash:c", -1)}, ledger.FaultNotPositive, 1, nil},
		{"overflow", ledger.Entry{ID: "e", Kind: "k", Currency: "EUR", Postings: posting("cash:b", "cash:c", math.MaxInt64)}, ledger.FaultOverflow, -1, nil},
		{"reversal of nothing", ledger.Entry{ID: "e", Kind: ledger.EntryReversal, Currency: "EUR", Postings: posting("cash:b", "cash:c", 1)}, ledger.FaultReversal, -1, nil},
	} {
		var wrong *ledger.EntryError
		err := c.entry.Check()
		if !errors.As(err, &wrong) || wrong.Fault != c.fault || wrong.Index != c.index || wrong.Error() == "" {
			t.Errorf("%s: %v, want fault %s at %d", c.name, err, c.fault, c.index)
		}
		if c.cause != nil && !errors.As(err, c.cause) {
			t.Errorf("%s: %v does not unwrap to a %T", c.name, err, c.cause)
		}
		if errors.Is(err, ledger.ErrOverflow) != (c.fault == ledger.FaultOverflow) {
			t.Errorf("%s: %v is ErrOverflow: %v", c.name, err, errors.Is(err, ledger.ErrOverflow))
		}
	}
	most := ledger.Entry{ID: "e", Kind: "k", Currency: "EUR", Postings: posting("cash:b", "cash:c", math.MaxInt64-1)}
	if err := most.Check(); err != nil {
		t.Errorf("a sum of exactly MaxInt64: %v", err)
	}
}

func TestCaptureAndRefundRefuse(t *testing.T) {
	for _, c := range []struct {
		name, id, psp string
		shares        []ledger.Share
		fault         ledger.EntryFault
	}{
		{"no ID", "", "stripe", p10Shares(1, 2, 3), ledger.FaultIdentity},
		{"no PSP", "x", "", p10Shares(1, 2, 3), ledger.FaultAccount},
		{"no shares", "x", "stripe", nil, ledger.FaultEmpty},
		{"the PSP's own account", "x", "stripe", []ledger.Share{{Account: ledger.PSPReceivable("stripe"), Minor: 1}}, ledger.FaultSameAccount},
		{"a share of zero", "x", "stripe", []ledger.Share{{Account: ledger.CommissionRevenue}}, ledger.FaultNotPositive},
	} {
		for _, build := range []func(string, string, ledger.Currency, []ledger.Share) (ledger.Entry, error){ledger.Capture, ledger.Refund} {
			e, err := build(c.id, c.psp, "EUR", c.shares)
			var wrong *ledger.EntryError
			if !errors.As(err, &wrong) || wrong.Fault != c.fault || !reflect.DeepEqual(e, ledger.Entry{}) {
				t.Errorf("%s: %+v, %v; want fault %s", c.name, e, err, c.fault)
			}
		}
	}
}

// An account on both sides of an entry keeps both lines; several postings on one side become one.
func TestLinesGroupPerAccountAndSide(t *testing.T) {
	e := ledger.Entry{ID: "e", Kind: "k", Currency: "JPY", Postings: []ledger.Posting{
		{Debit: "cash:b", Credit: "cash:a", Minor: 1}, {Debit: "cash:c", Credit: "cash:b", Minor: 2}, {Debit: "cash:b", Credit: "cash:a", Minor: 4},
	}}
	want := []ledger.Line{
		{"cash:b", ledger.SideDebit, 5, "JPY"}, {"cash:c", ledger.SideDebit, 2, "JPY"},
		{"cash:a", ledger.SideCredit, 5, "JPY"}, {"cash:b", ledger.SideCredit, 2, "JPY"},
	}
	if got := e.Lines(); !slices.Equal(got, want) {
		t.Errorf("lines %v, want %v", got, want)
	}
}

func genEntry() *rapid.Generator[ledger.Entry] {
	return rapid.Custom(func(t *rapid.T) ledger.Entry {
		e := ledger.Entry{ID: "e", Kind: "k", Currency: "EUR"}
		accounts := append(accountsNamed("a"), accountsNamed("b")[:5]...)
		for range rapid.IntRange(1, 12).Draw(t, "postings") {
			pair := rapid.Permutation(accounts).Draw(t, "accounts")
			minor := rapid.OneOf(rapid.Int64Range(1, 99), rapid.Int64Range(1, math.MaxInt64/12)).Draw(t, "minor")
			e.Postings = append(e.Postings, ledger.Posting{Debit: pair[0], Credit: pair[1], Minor: minor})
		}
		return e
	})
}

// L1: whatever the postings, debits equal credits equal the total, and the mirror undoes them per account.
func TestEveryEntryBalances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genEntry().Draw(t, "entry")
		total, err := e.Total()
		if err != nil {
			t.Fatal(err)
		}
		bySide, lines := map[ledger.Side]int64{}, map[ledger.Line]bool{}
		for _, line := range e.Lines() {
			bySide[line.Side] += line.Minor
			key := ledger.Line{Account: line.Account, Side: line.Side}
			if lines[key] || line.Minor <= 0 || line.Currency != e.Currency {
				t.Fatalf("line %+v of %+v", line, e)
			}
			lines[key] = true
		}
		if bySide[ledger.SideDebit] != total || bySide[ledger.SideCredit] != total {
			t.Fatalf("total %d, sides %v", total, bySide)
		}
		sum := books{}
		sum.post(t, e, mustEntry(t)(e.Reversal("r", "why", "who")))
		for account, minor := range sum {
			if minor != 0 {
				t.Fatalf("%s is left with %d", account, minor)
			}
		}
	})
}

// A payment captured and refunded in random pieces leaves every account at zero, through entries and all.
func TestCapturedAndRefundedPaymentLeavesNoBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		splits := genSplits().Draw(t, "splits")
		parts, total, sum := ledger.PartsOf(splits), totalOf(splits), books{}
		var shares []ledger.Share
		for _, minor := range genCuts(total).Draw(t, "captures") {
			parts, shares = must2(t)(parts.Capture(minor))
			sum.post(t, mustEntry(t)(ledger.Capture("a", "adyen", "EUR", shares)))
		}
		if sum[ledger.PSPReceivable("adyen")] != total {
			t.Fatalf("captured %d of %d", sum[ledger.PSPReceivable("adyen")], total)
		}
		for _, split := range splits {
			if owed := -sum[ledger.SellerPayable(split.SellerID)]; owed != split.Minor-split.CommissionMinor {
				t.Fatalf("%s is owed %d of %+v", split.SellerID, owed, split)
			}
		}
		for _, minor := range genCuts(total).Draw(t, "refunds") {
			parts, shares = must2(t)(parts.Refund(minor))
			sum.post(t, mustEntry(t)(ledger.Refund("r", "adyen", "EUR", shares)))
		}
		for account, minor := range sum {
			if minor != 0 {
				t.Fatalf("%s is left with %d", account, minor)
			}
		}
	})
}
