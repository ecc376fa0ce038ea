package loadtest

import (
	"math/rand/v2"
	"testing"

	"paygrid/ledger"
)

// order makes one order of 10.00 EUR by a named journey: 6.67 to a, 3.33 to b, with 10 % and no commission.
func order(t *testing.T, name string) *Order {
	t.Helper()
	for _, j := range Journeys() {
		if j.Name == name {
			o := &Order{ID: "o1", Journey: j, Amount: ledger.Money{Minor: 1000, Currency: "EUR"},
				Splits: []ledger.Split{{SellerID: "a", Minor: 667, CommissionMinor: 67}, {SellerID: "b", Minor: 333}}}
			keys := 0
			o.plan(&keys, "x", 1)
			return o
		}
	}
	t.Fatalf("no journey %q", name)
	return nil
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
		"3-D Secure":                      {Status: "REQUIRES_ACTION", Pending: 1},
		"PSP still working":               {Status: "PROCESSING", Pending: 1},
		"charge, answer lost":             {Status: "PROCESSING", Pending: 1, Witness: Witness{Authorized: 1000, Captured: 1000}},
		"reserve, answer lost":            {Status: "PROCESSING", Pending: 1, Witness: Witness{Authorized: 1000}},
		"charge, request lost":            {Status: "PROCESSING", Pending: 1},
		"capture, answer lost":            {Status: "PROCESSING", Pending: 1, Witness: Witness{Authorized: 1000, Captured: 500}},
		"void, answer lost":               {Status: "PROCESSING", Pending: 1, Witness: Witness{Authorized: 1000, Voided: true}},
		"refund, answer lost":             {Status: "CAPTURED", Pending: 1, Captured: 1000, Refunding: 300, Witness: Witness{Authorized: 1000, Captured: 1000, Refunded: 300}},
		"refund, request lost":            {Status: "CAPTURED", Pending: 1, Captured: 1000, Refunding: 1000, Witness: Witness{Authorized: 1000, Captured: 1000}},
		"capture refused, void":           {Status: "VOIDED", Witness: Witness{Authorized: 1000, Voided: true}},
		"refund too much":                 {Status: "REFUNDED", Captured: 1000, Refunded: 1000, Witness: Witness{Authorized: 1000, Captured: 1000, Refunded: 1000}},
		"key used again for another sale": {Status: "CAPTURED", Captured: 1000, Witness: Witness{Authorized: 1000, Captured: 1000}},
	} {
		want.Amount, want.Witness.Currency = 1000, "EUR"
		if got := order(t, name).Final; got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
}

func TestBalancesOfAnOrder(t *testing.T) {
	for name, want := range map[string][4]int64{ // receivable, a, b, commission
		"charge":                  {1000, -600, -333, -67},
		"charge, refund in three": {0, 0, 0, 0},
		"reserve, capture a part": {400, -240, -133, -27}, // 240.0, 133.2, 26.8
		"charge, refund a part":   {700, -420, -233, -47}, // back: 180.0, 99.9, 20.1
		"refund, answer lost":     {1000, -600, -333, -67},
		"charge, answer lost":     {0, 0, 0, 0},
	} {
		balances := Balances([]*Order{order(t, name)})
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
		for of, minor := range Balances(Plan(Journeys(), 500, seed, "x")) {
			sums[of.Currency] += minor
		}
		for currency, sum := range sums {
			if sum != 0 || len(sums) != len(currencies) {
				t.Errorf("seed %d: %s sums to %d", seed, currency, sum)
			}
		}
	}
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
