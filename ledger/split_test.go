package ledger_test

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"paygrid/ledger"
)

// p10 is the standard payment of the cases: EUR 100.00 of two sellers.
func p10() []ledger.Split {
	return []ledger.Split{
		{SellerID: "s-ann", Minor: 7000, CommissionMinor: 700},
		{SellerID: "s-bob", Minor: 3000, CommissionMinor: 450},
	}
}

func manySplits(n int, minor int64) []ledger.Split {
	splits := make([]ledger.Split, n)
	for i := range splits {
		splits[i] = ledger.Split{SellerID: fmt.Sprintf("s-%03d", i), Minor: minor}
	}
	return splits
}

func TestCheckSplits(t *testing.T) {
	const most = ledger.MaxAmountMinor
	one := func(seller string, minor, commission int64) []ledger.Split {
		return []ledger.Split{{SellerID: seller, Minor: minor, CommissionMinor: commission}}
	}
	for _, c := range []struct {
		name   string
		total  int64
		splits []ledger.Split
		kind   ledger.SplitErrorKind // "" for none
		index  int
		field  string
	}{
		{"P10", 10000, p10(), "", 0, ""},
		{"all commission", 100, one("s", 100, 100), "", 0, ""},
		{"largest amount", most, one("s", most, 0), "", 0, ""},
		{"a hundred sellers", 100, manySplits(100, 1), "", 0, ""},
		{"case tells sellers apart", 3, append(one("S", 1, 0), one("s", 2, 0)...), "", 0, ""},
		{"none", 10000, nil, ledger.SplitEmpty, -1, ""},
		{"empty list", 0, []ledger.Split{}, ledger.SplitEmpty, -1, ""},
		{"one too many", 101, manySplits(101, 1), ledger.SplitTooMany, -1, ""},
		{"bad seller", 1, one("a:b", 1, 0), ledger.SplitSeller, 0, "sellerId"},
		{"no seller", 1, one("", 1, 0), ledger.SplitSeller, 0, "sellerId"},
		{"same seller twice", 10000, append(one("s", 7000, 0), one("s", 3000, 0)...), ledger.SplitDuplicate, 1, "sellerId"},
		{"zero", 0, one("s", 0, 0), ledger.SplitNotPositive, 0, "minor"},
		{"12000 and -2000", 10000, append(one("s", 12000, 0), one("b", -2000, 0)...), ledger.SplitNotPositive, 1, "minor"},
		{"lowest int64", 1, one("s", math.MinInt64, 0), ledger.SplitNotPositive, 0, "minor"},
		{"one above the largest", most + 1, one("s", most+1, 0), ledger.SplitTooLarge, 0, "minor"},
		{"largest int64", math.MaxInt64, one("s", math.MaxInt64, 0), ledger.SplitTooLarge, 0, "minor"},
		{"sum above the largest", most + 1, append(one("s", most, 0), one("b", 1, 0)...), ledger.SplitTooLarge, -1, ""},
		{"commission -1", 7000, one("s", 7000, -1), ledger.SplitCommission, 0, "commissionMinor"},
		{"commission 7001 of 7000", 7000, one("s", 7000, 7001), ledger.SplitCommission, 0, "commissionMinor"},
		{"sum 9999", 10000, append(one("s", 7000, 0), one("b", 2999, 0)...), ledger.SplitSum, -1, ""},
		{"sum 10001", 10000, append(one("s", 7000, 0), one("b", 3001, 0)...), ledger.SplitSum, -1, ""},
		{"negative total", -1, one("s", 1, 0), ledger.SplitSum, -1, ""},
	} {
		err := ledger.CheckSplits(ledger.Money{Minor: c.total, Currency: "EUR"}, c.splits)
		if c.kind == "" {
			if err != nil {
				t.Errorf("%s: %v, want nil", c.name, err)
			}
			continue
		}
		var wrong *ledger.SplitError
		if !errors.As(err, &wrong) || wrong.Kind != c.kind || wrong.Index != c.index || wrong.Field != c.field || wrong.Detail == "" {
			t.Errorf("%s: %#v, want kind %s at %d.%s", c.name, err, c.kind, c.index, c.field)
		}
	}
}

func TestSplitErrorNamesTheField(t *testing.T) {
	err := ledger.CheckSplits(ledger.Money{Minor: 7000, Currency: "EUR"}, []ledger.Split{{SellerID: "s", Minor: 7000, CommissionMinor: 7001}})
	if got, want := err.Error(), "splits[0].commissionMinor: want 0 to minor (7000), got 7001"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	err = ledger.CheckSplits(ledger.Money{Minor: 1, Currency: "EUR"}, nil)
	if got, want := err.Error(), "splits: want at least one split"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCommission(t *testing.T) {
	for _, c := range []struct{ minor, basisPoints, want int64 }{
		{6499, 1000, 650}, // 649.9
		{0, 1000, 0}, {10000, 0, 0}, {10000, 10000, 10000}, {1, 4999, 0}, {1, 5000, 1}, {5, 1000, 1}, {4, 1000, 0},
		{15, 1000, 2}, {25, 1000, 3}, // half goes up, not to even
		{math.MaxInt64, 10000, math.MaxInt64}, {math.MaxInt64, 5000, 1 << 62}, {math.MaxInt64, 1, 922337203685478},
		{1844674407370955, 10000, 1844674407370955}, // the half carries into the upper 64 bits
	} {
		if got, err := ledger.Commission(c.minor, c.basisPoints); err != nil || got != c.want {
			t.Errorf("Commission(%d, %d) = %d, %v; want %d", c.minor, c.basisPoints, got, err, c.want)
		}
	}
	for _, c := range [][2]int64{{-1, 1000}, {100, -1}, {100, 10001}, {math.MinInt64, math.MaxInt64}} {
		var wrong *ledger.CommissionError
		if got, err := ledger.Commission(c[0], c[1]); got != 0 || !errors.As(err, &wrong) {
			t.Errorf("Commission(%d, %d) = %d, %v; want a *CommissionError", c[0], c[1], got, err)
		}
	}
}

func TestCommissionAgainstBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minor := rapid.OneOf(rapid.Int64Range(0, math.MaxInt64), rapid.Int64Range(math.MaxInt64-9, math.MaxInt64)).Draw(t, "minor")
		basisPoints := rapid.Int64Range(0, 10000).Draw(t, "basisPoints")
		want := new(big.Int).Mul(big.NewInt(minor), big.NewInt(basisPoints))
		want.Div(want.Add(want, big.NewInt(5000)), big.NewInt(10000))
		got, err := ledger.Commission(minor, basisPoints)
		if err != nil || got != want.Int64() || got > minor {
			t.Fatalf("Commission(%d, %d) = %d, %v; want %s", minor, basisPoints, got, err, want)
		}
	})
}

// genSplits draws splits that pass CheckSplits, of mostly small amounts, where rounding bites.
func genSplits() *rapid.Generator[[]ledger.Split] {
	return rapid.Custom(func(t *rapid.T) []ledger.Split {
		most := rapid.SampledFrom([]int64{3, 100, 9999, ledger.MaxAmountMinor / 10}).Draw(t, "most")
		splits := manySplits(rapid.IntRange(1, 10).Draw(t, "sellers"), 0)
		for i := range splits {
			splits[i].Minor = rapid.Int64Range(1, most).Draw(t, "minor")
			splits[i].CommissionMinor = rapid.Int64Range(0, splits[i].Minor).Draw(t, "commission")
		}
		return splits
	})
}

func totalOf(splits []ledger.Split) (total int64) {
	for _, s := range splits {
		total += s.Minor
	}
	return total
}

func TestGeneratedSplitsPassAndOneCentOffDoesNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		splits := genSplits().Draw(t, "splits")
		total := totalOf(splits)
		if err := ledger.CheckSplits(ledger.Money{Minor: total, Currency: "EUR"}, splits); err != nil {
			t.Fatal(err)
		}
		off := total + rapid.SampledFrom([]int64{-1, 1}).Draw(t, "off")
		var wrong *ledger.SplitError
		if err := ledger.CheckSplits(ledger.Money{Minor: off, Currency: "EUR"}, splits); !errors.As(err, &wrong) || wrong.Kind != ledger.SplitSum {
			t.Fatalf("total %d for splits of %d: %v, want SplitSum", off, total, err)
		}
	})
}
