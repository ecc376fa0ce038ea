package loadtest

import (
	"math/rand/v2"
	"testing"

	"paygrid/ledger"
)

// order makes one order of 10.00 EUR by a named journey, paid at Stripe: 6.67 to a, 3.33 to b, with 10 % and no commission.
func order(t *testing.T, name string) *Order {
	t.Helper()
	for _, j := range Journeys() {
		if j.Name == name {
			o := &Order{ID: "o1", Journey: j, Amount: ledger.Money{Minor: 1000, Currency: "EUR"}, PSP: "stripe",
				Splits: []ledger.Split{{SellerID: "a", Minor: 667, CommissionMinor: 67}, {SellerID: "b", Minor: 333}}}
			o.State = o.unpaid()
			return o
		}
	}
	t.Fatalf("no journey %q", name)
	return nil
}

// travelled is an order all of whose calls ended as planned, but for those that instead names by number.
func travelled(t *testing.T, name string, instead map[int]End) *Order {
	t.Helper()
	o := order(t, name)
	for n, step := range o.Journey.Steps {
		c, e := o.next(step), step.End
		if other, ok := instead[n]; ok {
			e = other
		}
		o.ended(c, e)
	}
	return o
}

func TestWhatJourneysLeaveBehind(t *testing.T) {
	for name, want := range map[string]State{
		"reserve":                         {Status: "AUTHORIZED", Witness: Witness{Authorized: 1000}},
		"reserve, capture a part":         {Status: "PARTIALLY_CAPTURED", Captured: 400, Witness: Witness{Authorized: 1000, Captured: 400}},
		"reserve, capture in three":       {Status: "CAPTURED", Captured: 1000, Witness: Witness{Authorized: 1000, Captured: 1000}},
		"reserve, void":                   {Status: "VOIDED", Witness: Witness{Authorized: 1000, Voided: true}},
		"charge, refund in three":         {Status: "REFUNDED", Captured: 1000, Refunded: 1000, Witness: Witness{Authorized: 1000, Captured: 1000, Refunded: 1000}},
		"capture and refund by turns":     {Status: "REFUNDED", Captured: 1000, Refunded: 1000, Witness: Witness{Authorized: 1000, Captured: 1000, Refunded: 1000}},
		"card declined":                   {Status: "DECLINED"},
		"PSP out of order":                {Status: "FAILED"},
		"3-D Secure, buyer never acts":    {Status: "REQUIRES_ACTION"},
		"3-D Secure, buyer comes back":    {Status: "CAPTURED", Captured: 1000, Witness: Witness{Authorized: 1000, Captured: 1000}},
		"3-D Secure, webhook tells":       {Status: "CAPTURED", Captured: 1000, Refunded: 200, Witness: Witness{Authorized: 1000, Captured: 1000, Refunded: 200}},
		"3-D Secure, buyer fails":         {Status: "DECLINED"},
		"PSP still working, then no":      {Status: "DECLINED"},
		"charge, request lost":            {Status: "FAILED"},
		"capture, answer lost":            {Status: "PARTIALLY_CAPTURED", Captured: 500, Refunded: 200, Witness: Witness{Authorized: 1000, Captured: 500, Refunded: 200}},
		"capture, request lost":           {Status: "AUTHORIZED", Witness: Witness{Authorized: 1000}},
		"refund on its way, then no":      {Status: "CAPTURED", Captured: 1000, Witness: Witness{Authorized: 1000, Captured: 1000}},
		"capture refused, void":           {Status: "VOIDED", Witness: Witness{Authorized: 1000, Voided: true}},
		"refund too much":                 {Status: "REFUNDED", Captured: 1000, Refunded: 1000, Witness: Witness{Authorized: 1000, Captured: 1000, Refunded: 1000}},
		"key used again for another sale": {Status: "CAPTURED", Captured: 1000, Witness: Witness{Authorized: 1000, Captured: 1000}},
	} {
		want.Amount, want.Witness.Currency = 1000, "EUR"
		if got := travelled(t, name, nil).State; got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
}

// TestWhatFaultsLeaveBehind: a call that stayed open, was not processed or could not be made has moved nothing.
func TestWhatFaultsLeaveBehind(t *testing.T) {
	for _, e := range []End{Open, NotProcessed, Unavailable} {
		want := State{Status: "AUTHORIZED", Amount: 1000, Witness: Witness{Currency: "EUR", Authorized: 1000}}
		if got := travelled(t, "reserve, capture", map[int]End{1: e}).State; got != want {
			t.Errorf("a capture that is %s: %+v", ends[e].name, got)
		}
	}
	o := travelled(t, "reserve", map[int]End{0: NotProcessed})
	if o.State.Status != "FAILED" {
		t.Errorf("an authorization that is not processed: %+v", o.State)
	}
	o.paymentID = "pay_1"
	if o.startAgain(); o.State != o.unpaid() || o.paymentID != "" || len(o.Failed) != 1 || o.Failed[0] != "pay_1" {
		t.Errorf("begun anew: %+v", o)
	}
	if c := o.next(o.Journey.Steps[0]); c.Key == o.Calls[0].Key {
		t.Errorf("the next payment has the first one's key %s", c.Key)
	}
}

func TestBalancesOfAnOrder(t *testing.T) {
	for name, want := range map[string][4]int64{ // receivable, a, b, commission
		"charge":                     {1000, -600, -333, -67},
		"charge, refund in three":    {0, 0, 0, 0},
		"reserve, capture a part":    {400, -240, -133, -27}, // 240.0, 133.2, 26.8
		"refund, answer lost":        {700, -420, -233, -47}, // back: 180.0, 99.9, 20.1
		"refund on its way, then no": {1000, -600, -333, -67},
		"charge, request lost":       {0, 0, 0, 0},
	} {
		balances := Balances([]*Order{travelled(t, name, nil)})
		got := [4]int64{}
		for n, account := range []ledger.Account{"psp_receivable:stripe", "seller_payable:a", "seller_payable:b", "commission_revenue"} {
			got[n] = balances[AccountOf{account, "EUR"}]
		}
		if got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestBalancesSumToZero(t *testing.T) {
	for seed := range uint64(10) {
		sums := map[ledger.Currency]int64{}
		for of, minor := range Balances(travelAll(seed, 500)) {
			sums[of.Currency] += minor
		}
		for currency, sum := range sums {
			if sum != 0 || len(sums) != len(currencies) {
				t.Errorf("seed %d: %s sums to %d", seed, currency, sum)
			}
		}
	}
}

// travelAll plans orders and ends every call as planned.
func travelAll(seed uint64, payments int) []*Order {
	orders := Plan(Journeys(), payments, seed, "x")
	for n, o := range orders {
		o.PSP = o.Journey.PSPs[n%len(o.Journey.PSPs)]
		for _, step := range o.Journey.Steps {
			o.ended(o.next(step), step.End)
		}
	}
	return orders
}

// TestSharesAgreeWithTheLedger: two programs from one rule.
func TestSharesAgreeWithTheLedger(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		o := newOrder(random, Journey{}, "o")
		pots, parts := o.pots(), ledger.PartsOf(o.Splits)
		for left := o.Amount.Minor; left > 0; {
			minor := 1 + random.Int64N(left)
			left -= minor
			var want []ledger.Share
			var err error
			if parts, want, err = parts.Capture(minor); err != nil {
				t.Fatal(err)
			}
			got := shares(minor, pots, func(p pot) int64 { return p.authorized - p.captured })
			for n, share := range got {
				pots[n].captured += share
				if share == 0 {
					continue
				}
				if want[0] != (ledger.Share{Account: pots[n].account, Minor: share}) {
					t.Fatalf("%d of %v: %v, the ledger says %v", minor, pots, got, want)
				}
				want = want[1:]
			}
		}
	}
}
