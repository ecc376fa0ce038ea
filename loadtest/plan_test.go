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
		for _, o := range travelAll(seed, 400) {
			if err := ledger.CheckSplits(o.Amount, o.Splits); err != nil {
				t.Fatalf("seed %d, %s: %v", seed, o.ID, err)
			}
			for _, c := range o.Calls {
				if !c.Step.SameKey {
					keys[c.Key]++
				}
				checkAsk(t, o, c)
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

func checkAsk(t *testing.T, o *Order, c Call) {
	t.Helper()
	if c.Step.Op != Capture && c.Step.Op != Refund {
		return
	}
	if c.Minor%unitOf(o.Amount.Currency) != 0 {
		t.Errorf("%s: %s of %d %s, which the PSP cannot take", o.Journey.Name, c.Step.Op, c.Minor, o.Amount.Currency)
	}
	left := c.before.left(c.Step.Op)
	switch c.Step.End {
	case Exceeds:
		if c.Minor <= left || left == 0 {
			t.Errorf("%s: %s of %d is to be too much, %d are left", o.Journey.Name, c.Step.Op, c.Minor, left)
		}
	case Done, Declined, NotProcessed:
		if c.Minor <= 0 || c.Minor > left {
			t.Errorf("%s: %s of %d, %d are left", o.Journey.Name, c.Step.Op, c.Minor, left)
		}
	}
}

func checkFinal(t *testing.T, o *Order) {
	t.Helper()
	s := o.State
	if s.Refunding != 0 || s.Refunded < 0 || s.Refunded > s.Captured || s.Captured > s.Amount || s.Status == "" {
		t.Errorf("%s: ends as %+v", o.Journey.Name, s)
	}
	if w := s.Witness; w.Refunded != s.Refunded || w.Captured != s.Captured || w.Captured > w.Authorized {
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

// TestEveryTenthKeyIsSentTwice counts keys as the orders number them.
func TestEveryTenthKeyIsSentTwice(t *testing.T) {
	twice, again, hot, keys := 0, 0, 0, 0
	for _, o := range travelAll(1, 1000) {
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
	if twice < keys/13 || twice > keys/9 || again < keys/9 || again > keys/6 || hot < 200 || hot > 400 {
		t.Errorf("of %d keys %d are sent twice at once and %d again; %d of 1000 payments are the hot seller's", keys, twice, again, hot)
	}
}

// TestJourneysUseEveryEnd: an end that no journey has is tested nowhere.
func TestJourneysUseEveryEnd(t *testing.T) {
	used := map[End]bool{}
	for _, j := range Journeys() {
		if j.Weight < 1 || j.Name == "" || j.Token == "" || len(j.PSPs) == 0 || len(j.Steps) == 0 || j.Steps[0].Op != Authorize {
			t.Errorf("%q cannot be made", j.Name)
		}
		for _, s := range j.Steps {
			used[s.End] = true
			if buyer := s.Op == Return || s.Op == Act; !buyer && ends[s.End].status[s.Op] == 0 {
				t.Errorf("%q: a %s that ends as %d has no HTTP status", j.Name, s.Op, s.End)
			}
		}
	}
	for end, ending := range ends {
		if planned := end != Open && end != Unavailable; used[end] != planned {
			t.Errorf("that a call is %s is planned: %t, want %t", ending.name, used[end], planned)
		}
	}
}

// TestAnEndHasItsOwnAnswer: no two ends of an operation look alike, so that an answer tells how its call ended.
func TestAnEndHasItsOwnAnswer(t *testing.T) {
	type looks struct {
		op     Op
		status int
		code   string
	}
	seen := map[looks]End{}
	for e, ending := range ends {
		for op, status := range ending.status {
			l := looks{op, status, codeOf(op, e)}
			if other, twice := seen[l]; twice {
				t.Errorf("%+v is %s and %s", l, ending.name, ends[other].name)
			}
			seen[l] = e
		}
	}
}
