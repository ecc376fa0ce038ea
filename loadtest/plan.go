package loadtest

import (
	"fmt"
	"math/rand/v2"

	"paygrid/ledger"
)

// The habits of a plan.
const (
	callStride   = 3  // so that the calls of one order differ in the two habits below
	twiceEvery   = 10 // every such key is sent twice at once
	againEvery   = 7  // every such key is sent again when all is done
	hotPercent   = 30 // of payments go to the hot seller
	sellers      = 40 // others
	maxSellers   = 3  // of one payment
	minMinor     = 1_000
	maxMinor     = 250_000
	HotSeller    = "s-hot"
	planSequence = 0x9a1d // of the random numbers, beside the seed
)

// currencies with the least amount that the PSP takes: it wants the last digit of three-decimal currencies to be zero.
var currencies = []struct {
	code ledger.Currency
	unit int64
}{{"EUR", 1}, {"USD", 1}, {"JPY", 1}, {"KWD", 10}}

// commissions in basis points.
var commissions = []int64{0, 800, 1000, 1250}

// Order is one planned payment, and what came of it. The run writes to it; read it afterwards.
type Order struct {
	ID       string // the API's orderId
	Journey  Journey
	Amount   ledger.Money
	Splits   []ledger.Split
	Calls    []Call   // as they were made
	State    State    // what the calls so far must have left
	PSP      string   // that has the payment, as the API says in the end
	Failed   []string // payments of this order before the last: it is proved that nothing moved for them
	GaveUp   bool     // the shop left it, since no PSP took a call
	Findings int      // what was not as it must be

	number    int    // within the plan
	paymentID string // "" until the API names it
}

// PaymentID is the payment's ID, "" if the API did not name one.
func (o *Order) PaymentID() string { return o.paymentID }

// Call is one call that was made.
type Call struct {
	Step  Step
	Key   string
	Minor int64 // what it is about; 0 for reads
	Twice bool  // sent to two routers at once
	Again bool  // sent again when all is done
	End   End   // Open until there is an outcome

	before State
	answer *answer // the last one; nil if there was none
}

// Plan makes payments out of journeys. Each journey is there once before the weights decide, as far as there is room.
func Plan(journeys []Journey, payments int, seed uint64, prefix string) []*Order {
	random := rand.New(rand.NewPCG(seed, planSequence))
	orders := make([]*Order, payments)
	for n := range orders {
		journey := journeys[min(n, len(journeys)-1)]
		if n >= len(journeys) {
			journey = draw(random, journeys)
		}
		orders[n] = newOrder(random, journey, fmt.Sprintf("%s-o%d", prefix, n+1))
		orders[n].number = n
	}
	random.Shuffle(len(orders), func(a, b int) { orders[a], orders[b] = orders[b], orders[a] })
	return orders
}

func draw(random *rand.Rand, journeys []Journey) Journey {
	total := 0
	for _, j := range journeys {
		total += j.Weight
	}
	at := random.IntN(total)
	for _, j := range journeys {
		if at -= j.Weight; at < 0 {
			return j
		}
	}
	return journeys[len(journeys)-1]
}

func newOrder(random *rand.Rand, j Journey, id string) *Order {
	currency := currencies[random.IntN(len(currencies))]
	minor := minMinor + random.Int64N(maxMinor-minMinor)
	minor -= minor % currency.unit
	o := &Order{ID: id, Journey: j, Amount: ledger.Money{Minor: minor, Currency: currency.code}, Splits: splitsOf(random, minor)}
	o.State = o.unpaid()
	return o
}

// splitsOf shares an amount among one to three sellers.
func splitsOf(random *rand.Rand, minor int64) []ledger.Split {
	names := random.Perm(sellers)[:1+random.IntN(maxSellers)]
	var out []ledger.Split
	for n, name := range names {
		share := minor
		if n < len(names)-1 {
			share = 1 + random.Int64N(minor-int64(maxSellers))
		}
		minor -= share
		seller := fmt.Sprintf("s-%02d", name+1)
		if n == 0 && random.IntN(100) < hotPercent {
			seller = HotSeller
		}
		out = append(out, ledger.Split{SellerID: seller, Minor: share, CommissionMinor: commissionOf(random, share)})
		if minor <= maxSellers {
			out[n].Minor += minor // too little to go on with
			break
		}
	}
	return out
}

// commissionOf is rounded half up. Shares are far below where the product would overflow.
func commissionOf(random *rand.Rand, minor int64) int64 {
	return (minor*commissions[random.IntN(len(commissions))] + 5_000) / 10_000
}

// unpaid is the state before anything was asked.
func (o *Order) unpaid() State {
	return State{Amount: o.Amount.Minor, Witness: Witness{Currency: o.Amount.Currency}}
}

// next adds the call that a step makes in the order's state. A call of a step that was made before has a key of its own.
func (o *Order) next(step Step) *Call {
	n := len(o.Calls)
	c := Call{Step: step, Minor: o.State.ask(step, unitOf(o.Amount.Currency)), End: Open, before: o.State}
	if step.SameKey {
		c.Key = o.Calls[n-1].Key
	} else {
		serial := o.number + callStride*n
		c.Key = fmt.Sprintf("%s-k%d", o.ID, n+1)
		c.Twice = serial%twiceEvery == 0 && !step.HangUp && step.Op != Read
		c.Again = serial%againEvery == 0 && step.reaches()
	}
	o.Calls = append(o.Calls, c)
	return &o.Calls[n]
}

// ended notes how a call ended, and what follows for the order. A payment that provably was not made leaves room for
// another under the same order.
func (o *Order) ended(c *Call, e End) {
	c.End = e
	switch {
	case codeOf(c.Step.Op, e) != "":
		return // refused: nothing changed
	case e == Open:
		return
	}
	o.State = c.before.after(c.Step.Op, e, c.Minor, o.Journey.Automatic)
}

// startAgain forgets a payment that provably was not made.
func (o *Order) startAgain() {
	if o.paymentID != "" {
		o.Failed = append(o.Failed, o.paymentID)
	}
	o.paymentID, o.State = "", o.unpaid()
}

// last is the last call, nil before the first.
func (o *Order) last() *Call {
	if len(o.Calls) == 0 {
		return nil
	}
	return &o.Calls[len(o.Calls)-1]
}

func unitOf(code ledger.Currency) int64 {
	for _, c := range currencies {
		if c.code == code {
			return c.unit
		}
	}
	return 1
}

// Balances is what the orders leave on each account by how their calls ended; positive = debit.
func Balances(orders []*Order) map[AccountOf]int64 {
	balances := map[AccountOf]int64{}
	for _, o := range orders {
		o.post(balances)
	}
	return balances
}
