package ledger_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"paygrid/ledger"
)

func TestAccountNames(t *testing.T) {
	for _, c := range []struct {
		account ledger.Account
		want    string
		seller  string
	}{
		{ledger.PSPReceivable("stripe"), "psp_receivable:stripe", ""},
		{ledger.PSPFees("adyen"), "psp_fees:adyen", ""},
		{ledger.Suspense("stripe"), "suspense:stripe", ""},
		{ledger.SellerPayable("s_42"), "seller_payable:s_42", "s_42"},
		{ledger.CommissionRevenue, "commission_revenue", ""},
		{ledger.PayoutsInTransit, "payouts_in_transit", ""},
		{ledger.Cash("main"), "cash:main", ""},
	} {
		parsed, err := ledger.ParseAccount(c.want)
		if err != nil || parsed != c.account {
			t.Errorf("ParseAccount(%q) = %q, %v; want %q", c.want, parsed, err, c.account)
		}
		seller, isSeller := c.account.Seller()
		if seller != c.seller || isSeller != (c.seller != "") || c.account.IsSeller() != isSeller || c.account.IsHouse() == isSeller {
			t.Errorf("%s: Seller() = %q, %v; IsHouse() = %v", c.account, seller, isSeller, c.account.IsHouse())
		}
	}
}

func TestParseAccountRefuses(t *testing.T) {
	for _, s := range []string{
		"", ":", "stripe", "seller_payable", "seller_payable:", "seller_payable:a:b", "seller_payable:a b", "seller_payable:ä",
		"seller_payable:a\x00", "seller_payable;", "Seller_payable:a", " seller_payable:a", "seller_payable:a\n",
		"commission_revenue:", "commission_revenue:x", "payouts_in_transit:x", "psp_receivable", "cash:", "goodwill:x",
		"seller_payable:" + strings.Repeat("x", 65),
	} {
		account, err := ledger.ParseAccount(s)
		var wrong *ledger.AccountError
		if account != "" || !errors.As(err, &wrong) || wrong.Account != s {
			t.Errorf("ParseAccount(%q) = %q, %v; want an *AccountError with the text", s, account, err)
		}
		if a := ledger.Account(s); a.IsSeller() || a.IsHouse() {
			t.Errorf("%q is no account, and yet seller %v, house %v", s, a.IsSeller(), a.IsHouse())
		}
	}
}

func TestValidSellerID(t *testing.T) {
	for _, id := range []string{"s", "s-ann", "S_1.2", "0", strings.Repeat("x", 64)} {
		if err := ledger.ValidSellerID(id); err != nil {
			t.Errorf("ValidSellerID(%q) = %v, want nil", id, err)
		}
	}
	for _, id := range []string{"", strings.Repeat("x", 65), "a:b", "a;b", "a b", "a/b", "é", "a\x00", "\xff"} {
		var wrong *ledger.SellerIDError
		if err := ledger.ValidSellerID(id); !errors.As(err, &wrong) || wrong.ID != id {
			t.Errorf("ValidSellerID(%q) = %v, want a *SellerIDError with the ID", id, err)
		}
	}
}

// Sellers' balances and statements are read by this range; an account on the wrong side of it would be lost.
func TestSellersAreARange(t *testing.T) {
	inRange := func(a ledger.Account) bool { return a >= "seller_payable:" && a < "seller_payable;" }
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[A-Za-z0-9._-]{1,64}`).Draw(t, "name")
		for _, a := range accountsNamed(name) {
			if _, err := ledger.ParseAccount(string(a)); err != nil {
				t.Fatalf("ParseAccount(%q): %v", a, err)
			}
			if inRange(a) != a.IsSeller() || a.IsSeller() == a.IsHouse() {
				t.Fatalf("%s: in range %v, seller %v, house %v", a, inRange(a), a.IsSeller(), a.IsHouse())
			}
		}
	})
}

// accountsNamed is one account of every kind.
func accountsNamed(name string) []ledger.Account {
	return []ledger.Account{
		ledger.PSPReceivable(name), ledger.PSPFees(name), ledger.Suspense(name), ledger.SellerPayable(name),
		ledger.Cash(name), ledger.CommissionRevenue, ledger.PayoutsInTransit,
	}
}

func FuzzParseAccount(f *testing.F) {
	for _, a := range accountsNamed("s-1") {
		f.Add(string(a))
	}
	for _, s := range []string{"", ":", "seller_payable:", "cash:a:b", "commission_revenue:", "seller_payable:\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ledger.ParseAccount(s)
		if err != nil {
			if a != "" || err.Error() == "" {
				t.Fatalf("ParseAccount(%q) = %q, %v; want nothing but an error", s, a, err)
			}
			return
		}
		if string(a) != s || a.IsSeller() == a.IsHouse() {
			t.Fatalf("ParseAccount(%q) = %q, seller %v, house %v", s, a, a.IsSeller(), a.IsHouse())
		}
		_, name, named := strings.Cut(s, ":")
		if named && ledger.ValidSellerID(name) != nil {
			t.Fatalf("ParseAccount(%q) took the name %q", s, name)
		}
		if !slices.Contains(accountsNamed(name), a) {
			t.Fatalf("ParseAccount(%q) is of no kind that a constructor makes", s)
		}
	})
}
