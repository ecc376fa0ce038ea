package ledger

import (
	"fmt"
	"math/bits"
)

// Split is one seller's share of a payment: Minor in all, of which CommissionMinor is ours.
type Split struct {
	SellerID        string `json:"sellerId"`
	Minor           int64  `json:"minor"`
	CommissionMinor int64  `json:"commissionMinor"`
}

// MaxSplits is how many sellers one payment can have. It bounds the lines of an entry, the metadata sent to
// a PSP, and every loop over splits.
const MaxSplits = 100

// SplitErrorKind says which rule a list of splits breaks.
type SplitErrorKind string

// The rules of CheckSplits.
const (
	SplitEmpty       SplitErrorKind = "empty"        // no split at all
	SplitTooMany     SplitErrorKind = "too_many"     // more than MaxSplits
	SplitSeller      SplitErrorKind = "seller"       // not a seller ID
	SplitDuplicate   SplitErrorKind = "duplicate"    // a seller stands in the list twice
	SplitNotPositive SplitErrorKind = "not_positive" // an amount of zero or less
	SplitTooLarge    SplitErrorKind = "too_large"    // an amount or the sum above MaxAmountMinor
	SplitCommission  SplitErrorKind = "commission"   // a commission below zero or above the split's amount
	SplitSum         SplitErrorKind = "sum"          // the splits do not sum to the payment's amount
)

// SplitError says which split of a payment is wrong, and how.
type SplitError struct {
	Index  int    // of the split, or -1 for the list as a whole
	Field  string // "sellerId", "minor" or "commissionMinor"; "" for the list as a whole
	Kind   SplitErrorKind
	Detail string // what is wrong and what is wanted
}

// Error names the field by its place in the request and the remedy.
func (e *SplitError) Error() string {
	if e.Index < 0 {
		return "splits: " + e.Detail
	}
	return fmt.Sprintf("splits[%d].%s: %s", e.Index, e.Field, e.Detail)
}

// CheckSplits returns nil if the splits say who gets the whole of total: each split is sound by itself, no seller
// stands there twice, and they sum to total exactly. Otherwise a *SplitError for the first rule broken.
func CheckSplits(total Money, splits []Split) error {
	if len(splits) == 0 {
		return listError(SplitEmpty, "want at least one split")
	}
	if len(splits) > MaxSplits {
		return listError(SplitTooMany, fmt.Sprintf("want at most %d splits, got %d", MaxSplits, len(splits)))
	}
	for i := range splits {
		if err := checkSplit(splits, i); err != nil {
			return err
		}
	}
	return checkSplitSum(total, splits)
}

func checkSplit(splits []Split, i int) error {
	s := splits[i]
	if detail := nameFault(s.SellerID); detail != "" {
		return &SplitError{i, "sellerId", SplitSeller, detail}
	}
	for j := range splits[:i] {
		if splits[j].SellerID == s.SellerID {
			return &SplitError{i, "sellerId", SplitDuplicate, fmt.Sprintf("the seller of splits[%d]: want one split per seller", j)}
		}
	}
	switch {
	case s.Minor <= 0:
		return &SplitError{i, "minor", SplitNotPositive, fmt.Sprintf("want more than 0, got %d", s.Minor)}
	case s.Minor > MaxAmountMinor:
		return &SplitError{i, "minor", SplitTooLarge, fmt.Sprintf("want at most %d, got %d", MaxAmountMinor, s.Minor)}
	case s.CommissionMinor < 0 || s.CommissionMinor > s.Minor:
		return &SplitError{i, "commissionMinor", SplitCommission, fmt.Sprintf("want 0 to minor (%d), got %d", s.Minor, s.CommissionMinor)}
	}
	return nil
}

func checkSplitSum(total Money, splits []Split) error {
	var sum int64
	for _, s := range splits {
		var err error
		if sum, err = CheckedAdd(sum, s.Minor); err != nil || sum > MaxAmountMinor {
			return listError(SplitTooLarge, fmt.Sprintf("the sum is above %d", MaxAmountMinor))
		}
	}
	if sum != total.Minor {
		return listError(SplitSum, fmt.Sprintf("want a sum of %d (amount.minor), got %d", total.Minor, sum))
	}
	return nil
}

func listError(kind SplitErrorKind, detail string) error {
	return &SplitError{Index: -1, Kind: kind, Detail: detail}
}

// basisPointsOfWhole is how many basis points make the whole.
const basisPointsOfWhole = 10_000

// CommissionError says that a commission cannot be computed.
type CommissionError struct {
	Minor, BasisPoints int64 // as they came
}

// Error names both numbers and the remedy.
func (e *CommissionError) Error() string {
	return fmt.Sprintf("commission of %d minor units at %d basis points: want an amount of 0 or more and 0 to %d basis points",
		e.Minor, e.BasisPoints, basisPointsOfWhole)
}

// Commission is our share of minor at a rate in basis points (1000 = 10 %), rounded half up; the seller gets
// the remainder. A negative amount or a rate outside 0..10000 is a *CommissionError.
func Commission(minor, basisPoints int64) (int64, error) {
	if minor < 0 || basisPoints < 0 || basisPoints > basisPointsOfWhole {
		return 0, &CommissionError{Minor: minor, BasisPoints: basisPoints}
	}
	// 128 bits: minor * rate overflows 64 from 0.9e15 on. The result is at most minor, so it fits.
	hi, lo := bits.Mul64(uint64(minor), uint64(basisPoints))
	lo, carry := bits.Add64(lo, basisPointsOfWhole/2, 0)
	commission, _ := bits.Div64(hi+carry, lo, basisPointsOfWhole)
	return int64(commission), nil
}
