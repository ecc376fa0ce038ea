package loadtest

import (
	"math/big"
	"slices"

	"paygrid/ledger"
)

// State is a payment as it must be, in minor units of its currency.
type State struct {
	Status    string // as the API shows it
	Amount    int64
	Captured  int64
	Refunding int64
	Refunded  int64
	Witness   Witness
}

// Witness is what a PSP has done for one payment, in minor units.
type Witness struct {
	PSP        string // "" if nothing was done
	Currency   ledger.Currency
	Authorized int64
	Captured   int64
	Refunded   int64
	Voided     bool
}

// What the API calls a payment's states.
const (
	shownAuthorized = "AUTHORIZED"
	shownCaptured   = "CAPTURED"
	shownPart       = "PARTIALLY_CAPTURED"
	shownRefunded   = "REFUNDED"
	shownVoided     = "VOIDED"
	shownDeclined   = "DECLINED"
	shownFailed     = "FAILED"
	shownAction     = "REQUIRES_ACTION"
	shownProcessing = "PROCESSING"
	shownSucceeded  = "SUCCEEDED" // a refund
)

// left is what a capture, or a refund, can still ask for.
func (s State) left(op Op) int64 {
	if op == Refund {
		return s.Captured - s.Refunding - s.Refunded
	}
	return s.Amount - s.Captured
}

// ask is the amount of a step, a multiple of unit: what of the payment's amount it takes.
func (s State) ask(step Step, unit int64) int64 {
	switch {
	case step.Op == Authorize, step.Op == Void, step.Op == Return, step.Op == Act:
		return s.Amount
	case step.Op == Read:
		return 0
	case step.Part == Rest:
		return s.left(step.Op)
	case step.Part == TooMuch:
		return s.left(step.Op) + unit
	}
	minor := s.Amount * int64(step.Part) / 100
	return max(unit, minor-minor%unit)
}

// after is the state that follows a call that ended, over minor.
func (s State) after(op Op, e End, minor int64, automatic bool) State {
	switch op {
	case Authorize, Return, Act:
		return s.afterAuthorize(e, automatic)
	case Capture:
		return s.afterCapture(e, minor)
	case Void:
		if e == Done {
			s.Status, s.Witness.Voided = shownVoided, true
		}
	case Refund:
		return s.afterRefund(e, minor)
	}
	return s
}

func (s State) afterAuthorize(e End, automatic bool) State {
	switch {
	case e == Done && automatic:
		s.Status, s.Captured = shownCaptured, s.Amount
		s.Witness.Authorized, s.Witness.Captured = s.Amount, s.Amount
	case e == Done:
		s.Status, s.Witness.Authorized = shownAuthorized, s.Amount
	case e == Declined:
		s.Status = shownDeclined
	case e == NotProcessed:
		s.Status = shownFailed
	case e == BuyerActs:
		s.Status = shownAction
	}
	return s
}

func (s State) afterCapture(e End, minor int64) State {
	if e != Done {
		return s
	}
	s.Captured += minor
	s.Witness.Captured = s.Captured
	s.Status = shownPart
	if s.Captured == s.Amount {
		s.Status = shownCaptured
	}
	return s
}

func (s State) afterRefund(e End, minor int64) State {
	if e != Done {
		return s
	}
	s.Refunded += minor
	s.Witness.Refunded = s.Refunded
	if s.Status == shownCaptured && s.Refunded == s.Captured {
		s.Status = shownRefunded
	}
	return s
}

// AccountOf names a balance.
type AccountOf struct {
	Account  ledger.Account
	Currency ledger.Currency
}

// pot is what one account gets of a payment.
type pot struct {
	account                        ledger.Account
	authorized, captured, refunded int64
}

// post adds to balances what the order's calls leave on each account; positive = debit. Amounts are bounded by the plan
// (maxMinor), so that no sum of a plan comes near the end of an int64.
func (o *Order) post(balances map[AccountOf]int64) {
	pots := o.pots()
	move := func(to ledger.Account, minor int64) {
		balances[AccountOf{to, o.Amount.Currency}] -= minor
		balances[AccountOf{ledger.PSPReceivable(o.PSP), o.Amount.Currency}] += minor
	}
	for _, c := range o.Calls {
		paid := c.Step.Op == Authorize || c.Step.Op == Return || c.Step.Op == Act
		switch {
		case c.End != Done:
		case c.Step.Op == Capture || paid && o.Journey.Automatic:
			for n, share := range shares(c.Minor, pots, func(p pot) int64 { return p.authorized - p.captured }) {
				pots[n].captured += share
				move(pots[n].account, share)
			}
		case c.Step.Op == Refund:
			for n, share := range shares(c.Minor, pots, func(p pot) int64 { return p.captured - p.refunded }) {
				pots[n].refunded += share
				move(pots[n].account, -share)
			}
		}
	}
}

func (o *Order) pots() []pot {
	var pots []pot
	commission := pot{account: ledger.CommissionRevenue}
	for _, s := range o.Splits {
		pots = append(pots, pot{account: ledger.SellerPayable(s.SellerID), authorized: s.Minor - s.CommissionMinor})
		commission.authorized += s.CommissionMinor
	}
	return append(pots, commission)
}

// shares divides minor in proportion to what is left of each pot: rounded down, and the cents that remain go to the largest
// remainders, the earlier first. It is written from the rule, not from package ledger, which it checks.
func shares(minor int64, pots []pot, left func(pot) int64) []int64 {
	total := new(big.Int)
	for _, p := range pots {
		total.Add(total, big.NewInt(left(p)))
	}
	out := make([]int64, len(pots))
	remainders := make([]*big.Int, len(pots))
	rest := minor
	if total.Sign() == 0 {
		return out // more than there is: a finding elsewhere
	}
	for n, p := range pots {
		product := new(big.Int).Mul(big.NewInt(minor), big.NewInt(left(p)))
		share, remainder := product.DivMod(product, total, new(big.Int))
		out[n], remainders[n] = share.Int64(), remainder
		rest -= out[n]
	}
	for ; rest > 0; rest-- {
		most := slices.MaxFunc(remainders, func(a, b *big.Int) int { return a.Cmp(b) })
		n := slices.IndexFunc(remainders, func(r *big.Int) bool { return r == most })
		out[n]++
		remainders[n] = big.NewInt(-1)
	}
	return out
}
