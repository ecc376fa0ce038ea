package ledger_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"paygrid/ledger"
)

// shares of P10's accounts, in their order; zero is left out.
func p10Shares(ann, bob, commission int64) []ledger.Share {
	var shares []ledger.Share
	for _, s := range []ledger.Share{
		{Account: "seller_payable:s-ann", Minor: ann}, {Account: "seller_payable:s-bob", Minor: bob}, {Account: ledger.CommissionRevenue, Minor: commission},
	} {
		if s.Minor != 0 {
			shares = append(shares, s)
		}
	}
	return shares
}

func TestPartsOf(t *testing.T) {
	for _, c := range []struct {
		name   string
		splits []ledger.Split
		want   ledger.Parts
	}{
		{"P10", p10(), ledger.Parts{
			{Account: "seller_payable:s-ann", Authorized: 6300}, {Account: "seller_payable:s-bob", Authorized: 2550},
			{Account: ledger.CommissionRevenue, Authorized: 1150},
		}},
		{"no commission", manySplits(1, 5), ledger.Parts{{Account: "seller_payable:s-000", Authorized: 5}}},
		{"all commission", []ledger.Split{{SellerID: "s", Minor: 5, CommissionMinor: 5}}, ledger.Parts{{Account: ledger.CommissionRevenue, Authorized: 5}}},
		{"none", nil, ledger.Parts{}},
	} {
		if got := ledger.PartsOf(c.splits); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// step is one capture or refund of a scenario; more than is left is written as its error.
type step struct {
	refund bool
	minor  int64
	shares []ledger.Share
	left   int64 // of the *RangeError, where shares is nil
}

func TestCaptureAndRefundScenarios(t *testing.T) {
	cap10 := step{minor: 10000, shares: p10Shares(6300, 2550, 1150)}
	for _, c := range []struct {
		name   string
		splits []ledger.Split
		steps  []step
	}{
		{"6000 of P10, 6000 again, the rest", p10(), []step{
			cap10,
			{refund: true, minor: 6000, shares: p10Shares(3780, 1530, 690)},
			{refund: true, minor: 6000, left: 4000},
			{refund: true, minor: 4000, shares: p10Shares(2520, 1020, 460)},
			{refund: true, minor: 1, left: 0},
		}},
		{"captures stop at the authorization", p10(), []step{
			{minor: 6000, shares: p10Shares(3780, 1530, 690)},
			{minor: 6000, left: 4000},
			{minor: 4000, shares: p10Shares(2520, 1020, 460)},
		}},
		{"a refund stops at what is captured", []ledger.Split{{SellerID: "s-ann", Minor: 2294, CommissionMinor: 230}}, []step{
			{minor: 1000, shares: p10Shares(900, 0, 100)},
			{refund: true, minor: 2294, left: 1000},
			{refund: true, minor: 1000, shares: p10Shares(900, 0, 100)},
		}},
		{"64.99, 20.00 back", []ledger.Split{{SellerID: "s-ann", Minor: 6499, CommissionMinor: 650}}, []step{
			{minor: 6499, shares: p10Shares(5849, 0, 650)},
			{refund: true, minor: 2000, shares: p10Shares(1800, 0, 200)},
			{refund: true, minor: 4499, shares: p10Shares(4049, 0, 450)},
		}},
		{"zero and below", p10(), []step{
			{minor: 0, left: 10000}, {minor: -1, left: 10000}, {refund: true, minor: 0, left: 0}, cap10,
			{refund: true, minor: 0, left: 10000}, {refund: true, minor: -500, left: 10000}, {refund: true, minor: math.MinInt64, left: 10000},
		}},
		{"a tie goes to the earlier part", []ledger.Split{{SellerID: "s-ann", Minor: 1}, {SellerID: "s-bob", Minor: 1}}, []step{
			{minor: 1, shares: p10Shares(1, 0, 0)}, {minor: 1, shares: p10Shares(0, 1, 0)},
		}},
		{"cent by cent", []ledger.Split{{SellerID: "s-ann", Minor: 2}, {SellerID: "s-bob", Minor: 1}}, []step{
			{minor: 3, shares: p10Shares(2, 1, 0)}, {refund: true, minor: 1, shares: p10Shares(1, 0, 0)},
			{refund: true, minor: 1, shares: p10Shares(1, 0, 0)}, {refund: true, minor: 1, shares: p10Shares(0, 1, 0)},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			parts := ledger.PartsOf(c.splits)
			for _, s := range c.steps {
				parts = runStep(t, parts, s)
			}
		})
	}
}

func runStep(t *testing.T, parts ledger.Parts, s step) ledger.Parts {
	t.Helper()
	move := parts.Capture
	if s.refund {
		move = parts.Refund
	}
	next, shares, err := move(s.minor)
	if s.shares == nil {
		var wrong *ledger.RangeError
		if next != nil || shares != nil || !errors.As(err, &wrong) || *wrong != (ledger.RangeError{Asked: s.minor, Left: s.left}) {
			t.Fatalf("%+v: %v, %v, %v; want a *RangeError", s, next, shares, err)
		}
		return parts
	}
	if err != nil || !reflect.DeepEqual(shares, s.shares) {
		t.Fatalf("%+v: shares %v, %v", s, shares, err)
	}
	return next
}

func TestReturns(t *testing.T) {
	captured, all := must2(t)(ledger.PartsOf(p10()).Capture(10000))
	refunded, some := must2(t)(captured.Refund(6000))
	if back, err := refunded.ReturnRefund(some); err != nil || !reflect.DeepEqual(back, captured) {
		t.Errorf("a returned refund leaves %v, %v; want %v", back, err, captured)
	}
	if back, err := captured.ReturnCapture(all); err != nil || !reflect.DeepEqual(back, ledger.PartsOf(p10())) {
		t.Errorf("a returned capture leaves %v, %v", back, err)
	}
	for _, c := range []struct {
		name   string
		back   func([]ledger.Share) (ledger.Parts, error)
		shares []ledger.Share
		want   ledger.RangeError
	}{
		{"capture below what is refunded", refunded.ReturnCapture, all, ledger.RangeError{Account: "seller_payable:s-ann", Asked: 6300, Left: 2520}},
		{"refund above what is refunded", refunded.ReturnRefund, all, ledger.RangeError{Account: "seller_payable:s-ann", Asked: 6300, Left: 3780}},
		{"refund twice in one list", refunded.ReturnRefund, append(slices.Clone(some), some...), ledger.RangeError{Account: "seller_payable:s-ann", Asked: 3780, Left: 0}},
		{"an account that is not here", refunded.ReturnRefund, []ledger.Share{{Account: "seller_payable:x", Minor: 1}}, ledger.RangeError{Account: "seller_payable:x", Asked: 1}},
		{"a share of zero", refunded.ReturnRefund, []ledger.Share{{Account: "seller_payable:s-bob"}}, ledger.RangeError{Account: "seller_payable:s-bob", Left: 1530}},
		{"a negative share", refunded.ReturnRefund, []ledger.Share{{Account: "seller_payable:s-bob", Minor: -1}}, ledger.RangeError{Account: "seller_payable:s-bob", Asked: -1, Left: 1530}},
		{"no shares", refunded.ReturnRefund, nil, ledger.RangeError{Left: 6000}},
	} {
		before := slices.Clone(refunded)
		parts, err := c.back(c.shares)
		var wrong *ledger.RangeError
		if parts != nil || !errors.As(err, &wrong) || *wrong != c.want || wrong.Error() == "" {
			t.Errorf("%s: %v, %v; want %+v", c.name, parts, err, c.want)
		}
		if !slices.Equal(before, refunded) {
			t.Errorf("%s changed its receiver", c.name)
		}
	}
}

// must2 unwraps a capture or refund that the test takes for granted.
func must2(t interface{ Fatal(...any) }) func(ledger.Parts, []ledger.Share, error) (ledger.Parts, []ledger.Share) {
	return func(p ledger.Parts, s []ledger.Share, err error) (ledger.Parts, []ledger.Share) {
		if err != nil {
			t.Fatal(err)
		}
		return p, s
	}
}

func TestCorruptPartsMoveNothing(t *testing.T) {
	many := make(ledger.Parts, ledger.MaxSplits+2)
	for i, s := range manySplits(len(many), 1) {
		many[i] = ledger.Part{Account: ledger.SellerPayable(s.SellerID), Authorized: 1}
	}
	for _, c := range []struct {
		name  string
		parts ledger.Parts
		index int
	}{
		{"captured above authorized", ledger.Parts{{"seller_payable:a", 1, 0, 0}, {"seller_payable:b", 1, 2, 0}}, 1},
		{"refunded above captured", ledger.Parts{{"seller_payable:a", 3, 1, 2}}, 0},
		{"negative refunded", ledger.Parts{{"seller_payable:a", 3, 1, -1}}, 0},
		{"negative throughout", ledger.Parts{{"seller_payable:a", -1, -2, -3}}, 0},
		{"account twice", ledger.Parts{{"seller_payable:a", 1, 0, 0}, {"seller_payable:a", 1, 0, 0}}, 1},
		{"sum overflows", ledger.Parts{{"seller_payable:a", math.MaxInt64, 0, 0}, {"seller_payable:b", 1, 0, 0}}, 1},
		{"too many", many, -1},
	} {
		_, _, captureErr := c.parts.Capture(1)
		_, _, refundErr := c.parts.Refund(1)
		_, returnErr := c.parts.ReturnRefund([]ledger.Share{{Account: "seller_payable:a", Minor: 1}})
		for _, err := range []error{c.parts.Check(), captureErr, refundErr, returnErr} {
			var wrong *ledger.PartsError
			if !errors.As(err, &wrong) || wrong.Index != c.index || wrong.Error() == "" {
				t.Errorf("%s: %v, want a *PartsError at %d", c.name, err, c.index)
			}
		}
	}
}

// The stored form is a contract with rows that exist.
func TestPartsJSON(t *testing.T) {
	parts := ledger.Parts{{"seller_payable:a", 9007199254740993, 5, 1}, {ledger.CommissionRevenue, 7, 0, 0}}
	want := `[{"a":"seller_payable:a","n":9007199254740993,"c":5,"r":1},{"a":"commission_revenue","n":7}]`
	text, err := json.Marshal(parts)
	if err != nil || string(text) != want {
		t.Fatalf("%s, %v; want %s", text, err, want)
	}
	var back ledger.Parts
	if err := json.Unmarshal(text, &back); err != nil || !slices.Equal(back, parts) {
		t.Fatalf("%v, %v; want %v", back, err, parts)
	}
}

// largestRemainder is the rounding rule written plainly with big rationals, as a second opinion: again and
// again a cent to the part whose rounded share lies furthest below its exact one.
func largestRemainder(minor int64, left []int64) []int64 {
	total := new(big.Int)
	for _, l := range left {
		total.Add(total, big.NewInt(l))
	}
	shares, below, rest := make([]int64, len(left)), make([]*big.Rat, len(left)), minor
	for i, l := range left {
		exact := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(minor), big.NewInt(l)), total)
		shares[i] = new(big.Int).Quo(exact.Num(), exact.Denom()).Int64()
		below[i] = exact.Sub(exact, new(big.Rat).SetInt64(shares[i]))
		rest -= shares[i]
	}
	for ; rest > 0; rest-- {
		most := 0
		for i := range below {
			if below[i].Cmp(below[most]) > 0 {
				most = i
			}
		}
		shares[most]++
		below[most].Sub(below[most], big.NewRat(1, 1))
	}
	return shares
}

func TestSharesAgainstBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n") // above 12 an unstable sort shows
		most := rapid.SampledFrom([]int64{2, 10, 9999, math.MaxInt64 / 40}).Draw(t, "most")
		parts, left := make(ledger.Parts, n), make([]int64, n)
		for i, s := range manySplits(n, 1) {
			left[i] = rapid.Int64Range(0, most).Draw(t, "left")
			parts[i] = ledger.Part{Account: ledger.SellerPayable(s.SellerID), Authorized: left[i]}
		}
		total := parts.Authorized()
		if total == 0 {
			return
		}
		minor := rapid.Int64Range(1, total).Draw(t, "minor")
		moved, _ := must2(t)(parts.Capture(minor))
		for i, want := range largestRemainder(minor, left) {
			if moved[i].Captured != want {
				t.Fatalf("part %d of %v gets %d of %d, want %d", i, left, moved[i].Captured, minor, want)
			}
		}
	})
}

// checkMove holds what is true of every capture and refund: it moves exactly what was asked, in positive shares of
// parts that stay in order, and leaves its receiver alone.
func checkMove(t interface{ Fatalf(string, ...any) }, before, after ledger.Parts, shares []ledger.Share, minor int64) {
	var sum int64
	for _, s := range shares {
		if s.Minor <= 0 {
			t.Fatalf("share %+v of %d is not positive", s, minor)
		}
		sum += s.Minor
	}
	moved := after.Captured() - before.Captured() + after.Refunded() - before.Refunded()
	if sum != minor || moved != minor || after.Check() != nil || after.Authorized() != before.Authorized() {
		t.Fatalf("%d moved %d in shares of %d: %v to %v, %v", minor, moved, sum, before, after, after.Check())
	}
}

// A payment's whole life at random: captures, refunds, and either of them given back. It ends by capturing and
// refunding what is left, and then every part must be used up to the cent.
func TestAnyHistoryEndsAtZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		splits := genSplits().Draw(t, "splits")
		parts, total := ledger.PartsOf(splits), totalOf(splits)
		var done history
		for range rapid.IntRange(0, 25).Draw(t, "steps") {
			parts = done.randomStep(t, parts)
		}
		if left := total - parts.Captured(); left > 0 {
			parts, _ = must2(t)(parts.Capture(left))
		}
		if left := parts.Captured() - parts.Refunded(); left > 0 {
			parts, _ = must2(t)(parts.Refund(left))
		}
		for _, part := range parts {
			if part.Captured != part.Authorized || part.Refunded != part.Authorized {
				t.Fatalf("all %d is refunded, and yet %+v", total, part)
			}
		}
	})
}

// history is what a random payment went through and can still be given back.
type history struct{ captures, refunds [][]ledger.Share }

func (h *history) randomStep(t *rapid.T, parts ledger.Parts) ledger.Parts {
	before, next := slices.Clone(parts), parts
	capturable, refundable := parts.Authorized()-parts.Captured(), parts.Captured()-parts.Refunded()
	switch kind := rapid.SampledFrom([]string{"capture", "refund", "return_refund", "return_capture"}).Draw(t, "kind"); {
	case kind == "capture" && capturable > 0:
		next = randomMove(t, parts, capturable, parts.Capture, &h.captures)
	case kind == "refund" && refundable > 0:
		next = randomMove(t, parts, refundable, parts.Refund, &h.refunds)
	case kind == "return_refund" && len(h.refunds) > 0:
		back, err := parts.ReturnRefund(take(t, &h.refunds))
		if err != nil || back.Check() != nil {
			t.Fatalf("a refund of %v cannot be returned: %v, %v", parts, err, back.Check())
		}
		next = back
	case kind == "return_capture" && len(h.captures) > 0:
		next = randomReturn(t, parts, take(t, &h.captures))
	}
	if !slices.Equal(before, parts) {
		t.Fatalf("the receiver changed: %v to %v", before, parts)
	}
	return next
}

// randomMove captures or refunds a part of what is left and notes its shares.
func randomMove(t *rapid.T, parts ledger.Parts, left int64, move func(int64) (ledger.Parts, []ledger.Share, error), done *[][]ledger.Share) ledger.Parts {
	minor := rapid.Int64Range(1, left).Draw(t, "minor")
	next, shares := must2(t)(move(minor))
	checkMove(t, parts, next, shares, minor)
	*done = append(*done, shares)
	return next
}

// randomReturn takes a capture back. It may be refused, for what is refunded must stay captured.
func randomReturn(t *rapid.T, parts ledger.Parts, capture []ledger.Share) ledger.Parts {
	back, err := parts.ReturnCapture(capture)
	if err != nil {
		var wrong *ledger.RangeError
		if !errors.As(err, &wrong) {
			t.Fatalf("%v of %v: %v", capture, parts, err)
		}
		return parts
	}
	if back.Check() != nil || back.Captured() >= parts.Captured() || back.Refunded() != parts.Refunded() {
		t.Fatalf("%v of %v returned leaves %v, %v", capture, parts, back, back.Check())
	}
	return back
}

func take(t *rapid.T, from *[][]ledger.Share) []ledger.Share {
	i := rapid.IntRange(0, len(*from)-1).Draw(t, "which")
	taken := (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return taken
}

// The largest payment that CheckSplits lets through must not be too large for its parts.
func TestMostSplitsWithCommission(t *testing.T) {
	splits := manySplits(ledger.MaxSplits, 3)
	for i := range splits {
		splits[i].CommissionMinor = 1
	}
	parts := ledger.PartsOf(splits)
	captured, shares := must2(t)(parts.Capture(299))
	checkMove(t, parts, captured, shares, 299)
	if len(parts) != ledger.MaxSplits+1 {
		t.Errorf("%d parts, want one per seller and one of commission", len(parts))
	}
}

// Two orders of the same refunds may round a cent differently on the way; they must end alike, and each account gives
// back in all what it got.
func TestOrderOfRefundsDoesNotMatterInTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		splits := genSplits().Draw(t, "splits")
		captured, got := must2(t)(ledger.PartsOf(splits).Capture(totalOf(splits)))
		amounts := genCuts(totalOf(splits)).Draw(t, "amounts")
		for _, order := range [][]int64{amounts, rapid.Permutation(amounts).Draw(t, "order")} {
			parts, gave := captured, map[ledger.Account]int64{}
			for _, minor := range order {
				var shares []ledger.Share
				parts, shares = must2(t)(parts.Refund(minor))
				for _, s := range shares {
					gave[s.Account] += s.Minor
				}
			}
			for _, s := range got {
				if gave[s.Account] != s.Minor {
					t.Fatalf("%s got %d and gave back %d over %v", s.Account, s.Minor, gave[s.Account], order)
				}
			}
		}
	})
}

// genCuts draws positive amounts that sum to total.
func genCuts(total int64) *rapid.Generator[[]int64] {
	return rapid.Custom(func(t *rapid.T) []int64 {
		var amounts []int64
		for left, n := total, 0; left > 0; n++ {
			amount := left
			if n < 12 {
				amount = rapid.Int64Range(1, left).Draw(t, "amount")
			}
			amounts, left = append(amounts, amount), left-amount
		}
		return amounts
	})
}

// Near the end of int64 products need 128 bits and sums have no room left.
func TestPartsNearMaxInt64(t *testing.T) {
	parts := ledger.Parts{{"seller_payable:a", math.MaxInt64 - 10, 0, 0}, {"seller_payable:b", 7, 0, 0}, {ledger.CommissionRevenue, 3, 0, 0}}
	captured, shares := must2(t)(parts.Capture(math.MaxInt64))
	checkMove(t, parts, captured, shares, math.MaxInt64)
	refunded, shares := must2(t)(captured.Refund(math.MaxInt64 - 1))
	checkMove(t, captured, refunded, shares, math.MaxInt64-1)
	done, shares := must2(t)(refunded.Refund(1))
	checkMove(t, refunded, done, shares, 1)
	if done.Refunded() != math.MaxInt64 || done.Refunded() != done.Authorized() {
		t.Errorf("refunded %d of %d", done.Refunded(), done.Authorized())
	}
}

// FuzzParts feeds parts that no code of ours would store. Whatever they are, a move is refused whole or is sound.
func FuzzParts(f *testing.F) {
	f.Add(int64(6300), int64(0), int64(0), int64(2550), int64(0), int64(0), int64(1150), int64(6000))
	f.Add(int64(6300), int64(6300), int64(3780), int64(2550), int64(2550), int64(1530), int64(1150), int64(4000))
	f.Add(int64(math.MaxInt64-1), int64(5), int64(0), int64(1), int64(1), int64(1), int64(0), int64(math.MaxInt64))
	f.Add(int64(-1), int64(-2), int64(-3), int64(0), int64(0), int64(0), int64(1), int64(1))
	f.Fuzz(func(t *testing.T, n1, c1, r1, n2, c2, r2, n3, minor int64) {
		parts := ledger.Parts{{"seller_payable:a", n1, c1, r1}, {"seller_payable:b", n2, c2, r2}, {ledger.CommissionRevenue, n3, 0, 0}}
		before := slices.Clone(parts)
		for _, move := range []func(int64) (ledger.Parts, []ledger.Share, error){parts.Capture, parts.Refund} {
			after, shares, err := move(minor)
			if err == nil {
				checkMove(t, before, after, shares, minor)
			} else if after != nil || shares != nil {
				t.Fatalf("refused (%v) and yet %v, %v", err, after, shares)
			}
			if !slices.Equal(before, parts) {
				t.Fatalf("the receiver changed: %v to %v", before, parts)
			}
		}
		if refunded, shares, err := parts.Refund(minor); err == nil {
			if back, err := refunded.ReturnRefund(shares); err != nil || !slices.Equal(back, before) {
				t.Fatalf("refund of %d returned leaves %v, %v; want %v", minor, back, err, before)
			}
		}
	})
}

func BenchmarkPartsRefund(b *testing.B) {
	for _, n := range []int{1, 3, ledger.MaxSplits} {
		captured, _ := must2(b)(ledger.PartsOf(manySplits(n, 999)).Capture(int64(n) * 999))
		b.Run(strconv.Itoa(n)+"_sellers", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := captured.Refund(int64(n)*999 - 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
