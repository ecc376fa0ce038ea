package ledger

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// Part is the running total of one credited account of a payment, in minor units of the payment's
// currency. 0 <= Refunded <= Captured <= Authorized.
type Part struct {
	Account    Account `json:"a"`
	Authorized int64   `json:"n"`
	Captured   int64   `json:"c,omitempty"`
	Refunded   int64   `json:"r,omitempty"` // pending refunds included
}

// Parts are the running totals of one payment, one per credited account.
//
// An amount is shared over what is left of each part, in proportion to what is left: rounded down, and the
// cents that remain go to the largest remainders, the earlier part first. So a share is never negative and
// never above what is left, and any sequence that uses up the whole ends with exactly nothing left of
// every part; no last refund has to put anything right. For the first capture or refund this is the
// proportion of the splits. Parts are values: no method changes its receiver.
type Parts []Part

// Share is one account's part of a capture or refund. Minor > 0.
type Share struct {
	Account Account `json:"a"`
	Minor   int64   `json:"m"`
}

// RangeError says that more was asked than is left, or nothing at all.
type RangeError struct {
	Account     Account // whose part, or "" for the payment as a whole
	Asked, Left int64   // minor units
}

// Error names the amount, the account if it is one's, and the remedy.
func (e *RangeError) Error() string {
	if e.Account == "" {
		return fmt.Sprintf("amount %d: want 1 to %d, which is left", e.Asked, e.Left)
	}
	return fmt.Sprintf("share %d of %s: want 1 to %d, which is left", e.Asked, e.Account, e.Left)
}

// PartsError says that stored parts break their own rules. Nothing may be posted from them; people look.
type PartsError struct {
	Index  int // of the part, or -1 for the list as a whole
	Detail string
}

// Error names the part and what is wrong with it.
func (e *PartsError) Error() string {
	return fmt.Sprintf("parts[%d]: %s: compare with the payment's postings", e.Index, e.Detail)
}

// PartsOf are the parts of a payment of which nothing is captured yet: one per seller in the order of the
// splits (its amount less the commission), then one of the summed commission. Parts of zero are left
// out. The splits must have passed CheckSplits.
func PartsOf(splits []Split) Parts {
	parts := make(Parts, 0, len(splits)+1)
	var commission int64
	for _, s := range splits {
		commission += s.CommissionMinor
		if net := s.Minor - s.CommissionMinor; net != 0 {
			parts = append(parts, Part{Account: SellerPayable(s.SellerID), Authorized: net})
		}
	}
	if commission != 0 {
		parts = append(parts, Part{Account: CommissionRevenue, Authorized: commission})
	}
	return parts
}

// Check returns a *PartsError if a part is out of order (0 <= Refunded <= Captured <= Authorized), an account
// stands there twice, there are more than a payment can have, or their sum overflows.
func (p Parts) Check() error {
	if len(p) > MaxSplits+1 {
		return &PartsError{Index: -1, Detail: fmt.Sprintf("%d parts, want at most %d", len(p), MaxSplits+1)}
	}
	var sum int64
	for i, part := range p {
		if part.Refunded < 0 || part.Captured < part.Refunded || part.Authorized < part.Captured {
			return &PartsError{Index: i, Detail: "want 0 <= refunded <= captured <= authorized"}
		}
		if p[:i].index(part.Account) >= 0 {
			return &PartsError{Index: i, Detail: "an account stands here twice"}
		}
		var err error
		if sum, err = CheckedAdd(sum, part.Authorized); err != nil {
			return &PartsError{Index: i, Detail: "the sum overflows"}
		}
	}
	return nil
}

// Authorized is the sum authorized, in minor units. No sum of parts that Check accepts overflows.
func (p Parts) Authorized() int64 { return p.sum(func(x Part) int64 { return x.Authorized }) }

// Captured is the sum captured, refunded or not, in minor units.
func (p Parts) Captured() int64 { return p.sum(func(x Part) int64 { return x.Captured }) }

// Refunded is the sum refunded, pending refunds included, in minor units.
func (p Parts) Refunded() int64 { return p.sum(func(x Part) int64 { return x.Refunded }) }

// Capture shares minor over what is authorized and not yet captured. It returns the new parts and the
// shares, which sum to minor; a *RangeError if minor is not positive or more than is left; a *PartsError
// if p does not pass Check.
func (p Parts) Capture(minor int64) (Parts, []Share, error) {
	return p.move(minor, capturable, func(x *Part, share int64) { x.Captured += share })
}

// Refund shares minor over what is captured and not yet refunded; otherwise as Capture.
func (p Parts) Refund(minor int64) (Parts, []Share, error) {
	return p.move(minor, refundable, func(x *Part, share int64) { x.Refunded += share })
}

// ReturnRefund gives back the shares of a refund that failed. A *RangeError names a share that is not positive or
// above what is refunded of its part, or says that there are no shares.
func (p Parts) ReturnRefund(shares []Share) (Parts, error) {
	return p.giveBack(shares, refunded, func(x *Part, share int64) { x.Refunded -= share })
}

// ReturnCapture takes back the shares of a capture that failed after it had succeeded. A *RangeError names a
// share that is not positive or above what is captured and not refunded of its part, or says that there are no shares.
func (p Parts) ReturnCapture(shares []Share) (Parts, error) {
	return p.giveBack(shares, refundable, func(x *Part, share int64) { x.Captured -= share })
}

func capturable(x Part) int64 { return x.Authorized - x.Captured }
func refundable(x Part) int64 { return x.Captured - x.Refunded }
func refunded(x Part) int64   { return x.Refunded }

func (p Parts) sum(of func(Part) int64) int64 {
	var sum int64
	for _, part := range p {
		sum += of(part)
	}
	return sum
}

func (p Parts) index(account Account) int {
	return slices.IndexFunc(p, func(x Part) bool { return x.Account == account })
}

// move shares minor over what left says of each part, and adds each share to its part.
func (p Parts) move(minor int64, left func(Part) int64, add func(*Part, int64)) (Parts, []Share, error) {
	if err := p.Check(); err != nil {
		return nil, nil, err
	}
	total := p.sum(left)
	if minor <= 0 || minor > total {
		return nil, nil, &RangeError{Asked: minor, Left: total}
	}
	moved, shares := slices.Clone(p), make([]Share, 0, len(p))
	for i, share := range apportion(minor, total, p, left) {
		if share > 0 {
			add(&moved[i], share)
			shares = append(shares, Share{Account: p[i].Account, Minor: share})
		}
	}
	return moved, shares, nil
}

// giveBack subtracts each share from its part, of which left says how much can be given back.
func (p Parts) giveBack(shares []Share, left func(Part) int64, subtract func(*Part, int64)) (Parts, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if len(shares) == 0 {
		return nil, &RangeError{Left: p.sum(left)}
	}
	given := slices.Clone(p)
	for _, share := range shares {
		// An account that is not here has nothing left to give back.
		i, most := given.index(share.Account), int64(0)
		if i >= 0 {
			most = left(given[i])
		}
		if share.Minor <= 0 || share.Minor > most {
			return nil, &RangeError{Account: share.Account, Asked: share.Minor, Left: most}
		}
		subtract(&given[i], share.Minor)
	}
	return given, nil
}

// apportion divides minor over the parts by the largest remainder. 1 <= minor <= total = sum of left.
//
// Why no share exceeds what is left: minor <= total, so the exact share minor*left/total is at most left.
// Rounded down it is too. A cent is added only where a remainder says that the exact share lies above
// the rounded one, hence below or at left, an integer. There are always enough of those: the remainders
// sum to total times the cents that remain, and each is below total.
func apportion(minor, total int64, p Parts, left func(Part) int64) []int64 {
	shares, remainders, order := make([]int64, len(p)), make([]uint64, len(p)), make([]int, len(p))
	rest := minor
	for i, part := range p {
		// 128 bits for the product. The quotient is at most left, so Div64 cannot overflow.
		hi, lo := bits.Mul64(uint64(minor), uint64(left(part)))
		share, remainder := bits.Div64(hi, lo, uint64(total))
		shares[i], remainders[i], order[i] = int64(share), remainder, i
		rest -= int64(share)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(remainders[b], remainders[a]) })
	for _, i := range order[:rest] {
		shares[i]++
	}
	return shares
}
