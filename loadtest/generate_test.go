package loadtest

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func generated(t *testing.T, o GenerateOptions) []Arrival {
	t.Helper()
	arrivals, err := Generate(o)
	if err != nil {
		t.Fatal(err)
	}
	all, err := gather(arrivals)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func steady(rate float64, d time.Duration) []Segment {
	return []Segment{{Profile: Steady, Rate: rate, Duration: d}}
}

// TestGeneratedTracesCanBePlayed: any habits make arrivals without a fault, in the order of their times.
func TestGeneratedTracesCanBePlayed(t *testing.T) {
	share := rapid.IntRange(0, 1000)
	rapid.Check(t, func(rt *rapid.T) {
		o := GenerateOptions{Seed: rapid.Uint64().Draw(rt, "seed"), Segments: steady(30, 3*time.Second), Clients: []string{"a", "b"},
			Sellers: rapid.IntRange(1, 50).Draw(rt, "sellers"), Whale: rapid.Bool().Draw(rt, "whale"),
			Habits: Habits{DoubleClick: share.Draw(rt, "clicks"), Impatient: share.Draw(rt, "impatient"), Declined: share.Draw(rt, "declined"),
				SecondCard: share.Draw(rt, "second"), Lost: share.Draw(rt, "lost"), Charge: share.Draw(rt, "charge"), Void: share.Draw(rt, "void"),
				Refund: share.Draw(rt, "refund"), CaptureAfter: time.Second, RefundAfter: time.Second}}
		last := int64(0)
		keys := map[string]bool{}
		for _, a := range generated(t, o) {
			if field, remedy := a.fault(); field != "" {
				rt.Fatalf("%s: %s: %+v", field, remedy, a)
			}
			if a.AtMS < last || keys[a.Key] {
				rt.Fatalf("%+v comes after %d ms, its key before: %t", a, last, keys[a.Key])
			}
			last, keys[a.Key] = a.AtMS, true
			named := map[string]bool{}
			for _, s := range a.Sellers {
				if named[s.SellerID] {
					rt.Fatalf("seller %s is there twice", s.SellerID)
				}
				named[s.SellerID] = true
			}
		}
	})
}

// TestContentsDoNotDependOnTheProfile: a seed buys the same at any rate, and another seed something else.
func TestContentsDoNotDependOnTheProfile(t *testing.T) {
	o := GenerateOptions{Seed: 5, Segments: steady(20, 10*time.Second), Clients: []string{"a", "b"}, Sellers: 100, Habits: Shop()}
	slow := generated(t, o)
	if !reflect.DeepEqual(slow, generated(t, o)) {
		t.Error("the same options make two traces")
	}
	o.Segments = []Segment{{Profile: BlackFriday, Rate: 80, Duration: 10 * time.Second}}
	fast := generated(t, o)
	for n := range min(len(slow), len(fast)) {
		slow[n].AtMS, fast[n].AtMS = 0, 0
		if !reflect.DeepEqual(slow[n], fast[n]) {
			t.Fatalf("arrival %d buys %+v at one rate and %+v at another", n, slow[n], fast[n])
		}
	}
	o.Seed = 6
	if other := generated(t, o); slices.EqualFunc(other, fast, func(a, b Arrival) bool { return a.Amount == b.Amount }) {
		t.Error("another seed buys the same")
	}
}

func TestTheWhaleHasHalfOfTheOrders(t *testing.T) {
	o := GenerateOptions{Seed: 1, Segments: steady(200, 20*time.Second), Clients: []string{"a"}, Sellers: 1000, Habits: Shop()}
	for _, whale := range []bool{false, true} {
		o.Whale = whale
		all, orders, first := generated(t, o), 0, 0
		for _, a := range all {
			for _, s := range a.Sellers {
				switch s.SellerID {
				case WhaleSeller:
					orders++
				case "s-0":
					first++
				}
			}
		}
		part := float64(orders) / float64(len(all))
		if whale && (part < .45 || part > .55) || !whale && orders > 0 {
			t.Errorf("whale %t: it has %.2f of the orders", whale, part)
		}
		if even := len(all) * 2 / 1000; first < 10*even {
			t.Errorf("the largest seller has %d orders; if all were alike it had %d", first, even)
		}
	}
}

func TestGenerateRefuses(t *testing.T) {
	good := GenerateOptions{Segments: steady(1, time.Second), Clients: []string{"a"}, Sellers: 1}
	for name, change := range map[string]func(*GenerateOptions){
		"no profile": func(o *GenerateOptions) { o.Segments = nil }, "no client": func(o *GenerateOptions) { o.Clients = nil },
		"no seller": func(o *GenerateOptions) { o.Sellers = 0 }, "too many": func(o *GenerateOptions) { o.Sellers = maxTraceSellers + 1 },
	} {
		o := good
		if change(&o); o.Sellers >= 0 {
			if _, err := Generate(o); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	}
}

// TestTimesFollowTheCurve counts arrivals in tenths of each profile against the curve's own area.
func TestTimesFollowTheCurve(t *testing.T) {
	const tenths, fine = 10, 1000
	for _, profile := range Profiles() {
		s := Segment{Profile: profile, Rate: 1000, Duration: 40 * time.Second}
		var got, want [tenths]float64
		for at := range Times([]Segment{s}, 7) {
			got[int(at*tenths/s.Duration)]++
		}
		for n := range fine {
			want[n*tenths/fine] += s.at(float64(n)/fine) * s.Duration.Seconds() / fine
		}
		for n := range want {
			// Six standard deviations of a Poisson count, and the coarse sum's own error where the curve jumps.
			if math.Abs(got[n]-want[n]) > 6*math.Sqrt(want[n])+10 {
				t.Errorf("%s, tenth %d: %.0f arrivals, want about %.0f", profile, n, got[n], want[n])
			}
		}
	}
}

// TestBlackFridayPeaksTenfold also at any length.
func TestBlackFridayPeaksTenfold(t *testing.T) {
	for _, d := range []time.Duration{time.Minute, 24 * time.Hour} {
		segments := []Segment{{Profile: BlackFriday, Rate: 600, Duration: d}}
		low, high := math.Inf(1), 0.0
		for n := range 10_000 {
			rate := Offered(segments, d*time.Duration(n)/10_000)
			low, high = min(low, rate), max(high, rate)
		}
		if math.Round(high) != 600 || math.Round(low) != 60 {
			t.Errorf("over %s it goes from %.1f to %.1f, want 60 to 600", d, low, high)
		}
	}
}

func TestParseSegments(t *testing.T) {
	got, err := ParseSegments("black-friday:600:2m, ramp:400-1500:1m,steady:0.5:3s")
	want := []Segment{{Profile: BlackFriday, Rate: 600, Duration: 2 * time.Minute}, {Profile: Ramp, Rate: 1500, From: 400, Duration: time.Minute},
		{Profile: Steady, Rate: .5, Duration: 3 * time.Second}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if Length(got) != 183*time.Second || Offered(got, 150*time.Second) != 950 || Offered(got, time.Hour) != 0 {
		t.Errorf("length %s, in the ramp's middle %.0f/s", Length(got), Offered(got, 150*time.Second))
	}
	for _, text := range []string{"", "steady", "steady:10", "sunny:1:1s", "steady:0:1s", "steady:x:1s", "steady:1-2:1s", "ramp:5-1:1s", "ramp:0-1:1s",
		"ramp:x-1:1s", "steady:1:0s", "steady:1:soon", "steady:1:10000h", "steady:1000000:1s", "steady:1:1s,"} {
		if _, err := ParseSegments(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
