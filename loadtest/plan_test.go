package loadtest

import (
	"reflect"
	"testing"

	"paygrid/ledger"
)

func TestPlanIsMadeOfItsSeed(t *testing.T) {
	a, b, c := Plan(Journeys(), 300, 7, "x"), Plan(Journeys(), 300, 7, "x"), Plan(Journeys(), 300, 8, "x")
	if !reflect.DeepEqual(a, b) {
		t.Error("one seed made two plans")
	}
	if reflect.DeepEqual(a, c) {
		t.Error("two seeds made one plan")
	}
}

// TestPlanIsSound: whatever the seed, every order is one that the API takes, and every call asks for what its end says.
func TestPlanIsSound(t *testing.T) {
	for seed := range uint64(20) {
		keys := map[string]int{}
		for _, o := range Plan(Journeys(), 400, seed, "x") {
			if err := ledger.CheckSplits(o.Amount, o.Splits); err != nil {
				t.Fatalf("seed %d, %s: %v", seed, o.ID, err)
			}
			unit := unitOf(o.Amount.Currency)
			before := State{Amount: o.Amount.Minor}
			for _, c := range o.Calls {
				if !c.Step.SameKey {
					keys[c.Key]++
				}
				checkAsk(t, o, c, before, unit)
				before = c.Want
			}
			checkFinal(t, o)
		}
		for key, times := range keys {
			if times != 1 {
				t.Fatalf("seed %d: key %s is used %d times", seed, key, times)
			}
		}
	}
}

func checkAsk(t *testing.T, o *Order, c Call, before State, unit int64) {
	t.Helper()
	if c.Step.Op != Capture && c.Step.Op != Refund {
		return
	}
	if c.Minor%unit != 0 {
		t.Errorf("%s: %s of %d %s, which the PSP cannot take", o.Journey.Name, c.Step.Op, c.Minor, o.Amount.Currency)
	}
	left := before.left(c.Step.Op)
	switch c.Step.End {
	case Exceeds:
		if c.Minor <= left || left == 0 {
			t.Errorf("%s: %s of %d is to be too much, %d are left", o.Journey.Name, c.Step.Op, c.Minor, left)
		}
	case Done, Declined, LostAfter, LostBefore, Accepted:
		if c.Minor <= 0 || c.Minor > left {
			t.Errorf("%s: %s of %d, %d are left", o.Journey.Name, c.Step.Op, c.Minor, left)
		}
	}
}

func checkFinal(t *testing.T, o *Order) {
	t.Helper()
	s := o.Final
	if s.Refunding < 0 || s.Refunded < 0 || s.Refunding+s.Refunded > s.Captured || s.Captured > s.Amount || s.Status == "" {
		t.Errorf("%s: ends as %+v", o.Journey.Name, s)
	}
	if w := s.Witness; w.Refunded > w.Captured || w.Captured > w.Authorized || w.Captured < s.Captured || w.Refunded < s.Refunded {
		t.Errorf("%s: ends as %+v, which no PSP has", o.Journey.Name, s)
	}
}

func TestPlanHoldsEveryJourney(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range Plan(Journeys(), len(Journeys()), 3, "x") {
		seen[o.Journey.Name] = true
	}
	if len(seen) != len(Journeys()) {
		t.Errorf("%d of %d journeys", len(seen), len(Journeys()))
	}
}

// TestEveryTenthKeyIsSentTwice counts keys as the plan numbers them.
func TestEveryTenthKeyIsSentTwice(t *testing.T) {
	twice, again, hot, keys := 0, 0, 0, 0
	for _, o := range Plan(Journeys(), 1000, 1, "x") {
		if o.Splits[0].SellerID == HotSeller {
			hot++
		}
		for _, c := range o.Calls {
			if c.Step.SameKey {
				continue
			}
			keys++
			if c.Twice {
				twice++
			}
			if c.Again {
				again++
			}
		}
	}
	if twice < keys/12 || twice > keys/10 || again < keys/9 || again > keys/7 || hot < 200 || hot > 400 {
		t.Errorf("of %d keys %d are sent twice at once and %d again; %d of 1000 payments are the hot seller's", keys, twice, again, hot)
	}
}

// TestJourneysUseEveryEnd: an end that no journey has is tested nowhere.
func TestJourneysUseEveryEnd(t *testing.T) {
	used := map[End]bool{}
	for _, j := range Journeys() {
		if j.Weight < 1 || j.Name == "" || j.Token == "" || len(j.Steps) == 0 || j.Steps[0].Op != Authorize {
			t.Errorf("%q cannot be made", j.Name)
		}
		for _, s := range j.Steps {
			used[s.End] = true
			if s.wantStatus() == 0 {
				t.Errorf("%q: a %s that ends as %d has no HTTP status", j.Name, s.Op, s.End)
			}
		}
	}
	for end := range ends {
		if !used[end] {
			t.Errorf("no journey ends as %d", end)
		}
	}
}
