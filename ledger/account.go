package ledger

import (
	"fmt"
	"strings"
)

// Account is a name in the chart of accounts, "kind" or "kind:name": commission_revenue,
// psp_receivable:stripe, seller_payable:s_42. Read one from outside by ParseAccount; the functions
// below do not check their argument, Entry.Check does.
type Account string

// Accounts that exist once.
const (
	CommissionRevenue Account = "commission_revenue" // what we earned
	PayoutsInTransit  Account = "payouts_in_transit" // taken from sellers, not yet confirmed by the bank
)

const (
	pspReceivable = "psp_receivable"
	pspFees       = "psp_fees"
	suspense      = "suspense"
	cash          = "cash"
	sellerPayable = "seller_payable"

	// sellerPrefix begins every seller's account and no other. The byte after ':' is ';', so in byte order
	// (collation "C") account >= 'seller_payable:' AND account < 'seller_payable;' selects exactly the sellers.
	sellerPrefix = sellerPayable + ":"
)

// chart is the chart of accounts. Kinds that are named have one account per name.
var chart = [...]struct {
	kind  string
	named bool
}{
	{kind: pspReceivable, named: true}, // what a PSP holds for us
	{kind: pspFees, named: true},       // what a PSP kept
	{kind: suspense, named: true},      // money at a PSP that we cannot place yet
	{kind: sellerPayable, named: true}, // what we owe a seller
	{kind: cash, named: true},          // what lies at a bank
	{kind: string(CommissionRevenue)},
	{kind: string(PayoutsInTransit)},
}

// PSPReceivable is what the PSP of that name ("stripe") holds for us.
func PSPReceivable(psp string) Account { return Account(pspReceivable + ":" + psp) }

// PSPFees is what the PSP of that name kept for its service.
func PSPFees(psp string) Account { return Account(pspFees + ":" + psp) }

// Suspense is money at the PSP of that name that we cannot place yet.
func Suspense(psp string) Account { return Account(suspense + ":" + psp) }

// SellerPayable is what we owe the seller.
func SellerPayable(seller string) Account { return Account(sellerPrefix + seller) }

// Cash is what lies at the bank of that name.
func Cash(bank string) Account { return Account(cash + ":" + bank) }

// AccountError says that a text is not an account of the chart.
type AccountError struct {
	Account string // as it came
	Detail  string // what is wrong and what is wanted
}

// Error names the account and the remedy.
func (e *AccountError) Error() string {
	return fmt.Sprintf("account %.120q: %s", e.Account, e.Detail)
}

// ParseAccount returns the account that s names, or an *AccountError. A parsed account reads back
// as the same text: nothing is trimmed or folded.
func ParseAccount(s string) (Account, error) {
	kind, name, colon := strings.Cut(s, ":")
	for _, row := range chart {
		if row.kind != kind {
			continue
		}
		if row.named != colon {
			return "", &AccountError{Account: s, Detail: nameWanted(row.named)}
		}
		if detail := nameFault(name); row.named && detail != "" {
			return "", &AccountError{Account: s, Detail: "name after the colon: " + detail}
		}
		return Account(s), nil
	}
	return "", &AccountError{Account: s, Detail: "no such kind in the chart of accounts"}
}

func nameWanted(named bool) string {
	if named {
		return "want a colon and a name after the kind"
	}
	return "this account exists once: want no colon"
}

// Seller is the ID of the seller whose account this is; false for every other account.
func (a Account) Seller() (string, bool) {
	id, found := strings.CutPrefix(string(a), sellerPrefix)
	if !found || nameFault(id) != "" {
		return "", false
	}
	return id, true
}

// IsSeller reports whether this is a seller's account: it has a live balance row.
func (a Account) IsSeller() bool {
	_, seller := a.Seller()
	return seller
}

// IsHouse reports whether this is an account of ours: its balance is a roll-up and the postings after
// it. A text that is no account at all is neither a seller's nor ours.
func (a Account) IsHouse() bool {
	if _, err := ParseAccount(string(a)); err != nil {
		return false
	}
	return !a.IsSeller()
}

// maxNameBytes is the longest name of a seller, a PSP or a bank.
const maxNameBytes = 64

// SellerIDError says that a text cannot be a seller's ID.
type SellerIDError struct {
	ID     string // as it came
	Detail string // what is wrong and what is wanted
}

// Error names the ID and the remedy.
func (e *SellerIDError) Error() string {
	return fmt.Sprintf("seller ID %.120q: %s", e.ID, e.Detail)
}

// ValidSellerID returns nil for 1 to 64 bytes of A-Z a-z 0-9 . _ - and a *SellerIDError otherwise.
// Case counts: S1 and s1 are two sellers.
func ValidSellerID(s string) error {
	if detail := nameFault(s); detail != "" {
		return &SellerIDError{ID: s, Detail: detail}
	}
	return nil
}

// nameFault says what is wrong with the name of a seller, PSP or bank; "" if nothing is. The colon is
// not among its bytes: an account would read back as another one.
func nameFault(s string) string {
	if len(s) == 0 || len(s) > maxNameBytes {
		return fmt.Sprintf("want 1 to %d bytes, got %d", maxNameBytes, len(s))
	}
	for i := range len(s) {
		if !nameByte(s[i]) {
			return fmt.Sprintf("byte %d is not one of A-Z a-z 0-9 . _ -", i)
		}
	}
	return ""
}

func nameByte(b byte) bool {
	switch {
	case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', '0' <= b && b <= '9':
		return true
	}
	return b == '.' || b == '_' || b == '-'
}
