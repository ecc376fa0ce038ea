package ledger

import "fmt"

// EntryKind says what an entry records.
type EntryKind string

// The kinds of entries of a payment.
const (
	EntryCapture       EntryKind = "capture"        // the PSP holds the buyer's money
	EntryRefund        EntryKind = "refund"         // the PSP gave it back
	EntryReversal      EntryKind = "reversal"       // mirrors a wrong entry
	EntryRefundReturn  EntryKind = "refund_return"  // mirrors a refund that the bank sent back
	EntryCaptureReturn EntryKind = "capture_return" // mirrors a capture that the PSP took back
	EntryLateCharge    EntryKind = "late_charge"    // the PSP took money for a payment that was closed by then
	EntryLateRefund    EntryKind = "late_refund"    // … and gave it back
)

// Posting moves Minor (> 0) minor units from the credited to the debited account. It cannot be unbalanced.
type Posting struct {
	Debit, Credit Account
	Minor         int64
}

// Entry is a journal entry: postings of one currency that stand or fall together. ID is deterministic, so
// that a replay meets the unique key. Reverses, Reason and Actor are set on corrections.
type Entry struct {
	ID       string
	Kind     EntryKind
	Currency Currency
	Postings []Posting
	Reverses string // the ID of the entry that this one mirrors, or ""
	Reason   string // why, in words; required of a correction
	Actor    string // who asked; required of a correction
}

// EntryFault says which rule an entry breaks.
type EntryFault string

// The rules of Entry.Check and Entry.Reversal.
const (
	FaultIdentity    EntryFault = "identity"     // no ID or no kind
	FaultCurrency    EntryFault = "currency"     // not a known currency
	FaultEmpty       EntryFault = "empty"        // no postings
	FaultAccount     EntryFault = "account"      // not an account of the chart
	FaultSameAccount EntryFault = "same_account" // a posting from an account to itself
	FaultNotPositive EntryFault = "not_positive" // an amount of zero or less
	FaultOverflow    EntryFault = "overflow"     // the sum does not fit an int64
	FaultReversal    EntryFault = "reversal"     // a reversal of a reversal, or without its original, reason or actor
)

// EntryError says why an entry may not be posted.
type EntryError struct {
	ID     string // of the entry, as far as it has one
	Index  int    // of the posting, or -1 for the entry as a whole
	Fault  EntryFault
	Detail string // what is wrong and what is wanted
	cause  error
}

// Error names the entry, the posting and the remedy.
func (e *EntryError) Error() string {
	if e.Index < 0 {
		return fmt.Sprintf("entry %q: %s", e.ID, e.Detail)
	}
	return fmt.Sprintf("entry %q: postings[%d]: %s", e.ID, e.Index, e.Detail)
}

// Unwrap is the error beneath: ErrOverflow, an *AccountError, a *CurrencyError, or nil.
func (e *EntryError) Unwrap() error { return e.cause }

// Check returns nil for an entry that may be posted, and an *EntryError for the first rule that it breaks.
func (e Entry) Check() error {
	if e.ID == "" || e.Kind == "" {
		return e.fault(-1, FaultIdentity, "want an ID and a kind", nil)
	}
	if _, err := ParseCurrency(string(e.Currency)); err != nil {
		return e.fault(-1, FaultCurrency, err.Error(), err)
	}
	if len(e.Postings) == 0 {
		return e.fault(-1, FaultEmpty, "want at least one posting", nil)
	}
	for i, p := range e.Postings {
		if err := e.checkPosting(i, p); err != nil {
			return err
		}
	}
	if _, err := e.Total(); err != nil {
		return e.fault(-1, FaultOverflow, err.Error(), err)
	}
	return e.checkReversal()
}

func (e Entry) checkPosting(i int, p Posting) error {
	for _, account := range [...]Account{p.Debit, p.Credit} {
		if _, err := ParseAccount(string(account)); err != nil {
			return e.fault(i, FaultAccount, err.Error(), err)
		}
	}
	if p.Debit == p.Credit {
		return e.fault(i, FaultSameAccount, fmt.Sprintf("debit and credit are both %s: want two accounts", p.Debit), nil)
	}
	if p.Minor <= 0 {
		return e.fault(i, FaultNotPositive, fmt.Sprintf("minor %d: want more than 0; swap the accounts for the other direction", p.Minor), nil)
	}
	return nil
}

// checkReversal holds that a correction names its original and says why and by whom.
func (e Entry) checkReversal() error {
	if e.Kind != EntryReversal {
		return nil
	}
	if e.Reverses == "" || e.Reverses == e.ID || e.Reason == "" || e.Actor == "" {
		return e.fault(-1, FaultReversal, "a reversal wants the ID of another entry, a reason and an actor", nil)
	}
	return nil
}

func (e Entry) fault(index int, fault EntryFault, detail string, cause error) error {
	return &EntryError{ID: e.ID, Index: index, Fault: fault, Detail: detail, cause: cause}
}

// Total is what the entry moves: the sum of its postings in minor units, which is the sum of its debits and
// of its credits. ErrOverflow if it does not fit.
func (e Entry) Total() (int64, error) {
	var sum int64
	for _, p := range e.Postings {
		var err error
		if sum, err = CheckedAdd(sum, p.Minor); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// Side is the side of an account that a line stands on.
type Side string

// The two sides.
const (
	SideDebit  Side = "debit"
	SideCredit Side = "credit"
)

// Line is what finance reads: all that an entry debits, or credits, on one account. Minor > 0.
type Line struct {
	Account  Account
	Side     Side
	Minor    int64
	Currency Currency
}

// Lines are the entry's postings per account and side: the debits, then the credits, each in the order in
// which the accounts first appear. The entry must have passed Check, so no line's sum overflows.
func (e Entry) Lines() []Line {
	debits := e.side(SideDebit, func(p Posting) Account { return p.Debit })
	credits := e.side(SideCredit, func(p Posting) Account { return p.Credit })
	return append(debits, credits...)
}

func (e Entry) side(side Side, account func(Posting) Account) []Line {
	var lines []Line
	at := make(map[Account]int, len(e.Postings))
	for _, p := range e.Postings {
		i, seen := at[account(p)]
		if !seen {
			i = len(lines)
			at[account(p)] = i
			lines = append(lines, Line{Account: account(p), Side: side, Currency: e.Currency})
		}
		lines[i].Minor += p.Minor
	}
	return lines
}

// ReversalID is the ID of the entry that reverses the entry of that ID. An entry has one, so two people
// who reverse it at once meet the same unique key.
func ReversalID(entryID string) string { return "reversal:" + entryID }

// Reversal is the entry that undoes e: every posting swapped, in the same order, Reverses = e.ID. The reason and the
// actor are required. An *EntryError if e does not pass Check or is itself a mirror of another entry: what was
// wrongly reversed is posted anew under an ID of its own, for an entry can be reversed only once.
func (e Entry) Reversal(id, reason, actor string) (Entry, error) {
	if err := e.Check(); err != nil {
		return Entry{}, err
	}
	if e.Reverses != "" {
		return Entry{}, e.fault(-1, FaultReversal, "it reverses "+e.Reverses+": post a new entry", nil)
	}
	mirror := Entry{ID: id, Kind: EntryReversal, Currency: e.Currency, Reverses: e.ID, Reason: reason, Actor: actor}
	for _, p := range e.Postings {
		mirror.Postings = append(mirror.Postings, Posting{Debit: p.Credit, Credit: p.Debit, Minor: p.Minor})
	}
	return mirror.checked()
}

// Capture is the entry of a capture: the PSP owes us what the shares' accounts are owed. Its ID is
// "capture:<attempt>". An *EntryError if it breaks a rule of Check.
func Capture(attemptID, psp string, c Currency, shares []Share) (Entry, error) {
	e := Entry{ID: entryID(EntryCapture, attemptID), Kind: EntryCapture, Currency: c}
	for _, s := range shares {
		e.Postings = append(e.Postings, Posting{Debit: PSPReceivable(psp), Credit: s.Account, Minor: s.Minor})
	}
	return e.checked()
}

// Refund is the entry of a refund, the mirror of a capture. Its ID is "refund:<refund>". An *EntryError if it
// breaks a rule of Check.
func Refund(refundID, psp string, c Currency, shares []Share) (Entry, error) {
	e := Entry{ID: entryID(EntryRefund, refundID), Kind: EntryRefund, Currency: c}
	for _, s := range shares {
		e.Postings = append(e.Postings, Posting{Debit: s.Account, Credit: PSPReceivable(psp), Minor: s.Minor})
	}
	return e.checked()
}

// entryID is "" when the source has no ID: two entries without a source would share one, and the second
// would be taken for a replay of the first.
func entryID(kind EntryKind, source string) string {
	if source == "" {
		return ""
	}
	return string(kind) + ":" + source
}

func (e Entry) checked() (Entry, error) {
	if err := e.Check(); err != nil {
		return Entry{}, err
	}
	return e, nil
}

// LateCharge books money that a PSP took for a payment that was closed by then: nobody has earned it, so it lies in
// suspense until it is given back. The ID is "late_charge:<attempt>".
func LateCharge(attemptID, psp string, c Currency, minor int64) (Entry, error) {
	return Entry{
		ID: entryID(EntryLateCharge, attemptID), Kind: EntryLateCharge, Currency: c,
		Postings: []Posting{{Debit: PSPReceivable(psp), Credit: Suspense(psp), Minor: minor}},
	}.checked()
}

// LateRefund books money that a PSP gave back out of what was never placed. The ID is "late_refund:<attempt>".
func LateRefund(attemptID, psp string, c Currency, minor int64) (Entry, error) {
	return Entry{
		ID: entryID(EntryLateRefund, attemptID), Kind: EntryLateRefund, Currency: c,
		Postings: []Posting{{Debit: Suspense(psp), Credit: PSPReceivable(psp), Minor: minor}},
	}.checked()
}
