package loadtest

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"paygrid/ledger"
)

// GenerateOptions say what traffic to make. The zero value of a share means none; Habits has realistic ones.
type GenerateOptions struct {
	Seed     uint64
	Segments []Segment
	Clients  []string // at least one
	Sellers  int      // how many; their sizes follow Zipf's law
	Whale    bool     // one seller, WhaleSeller, is in half of the orders
	Habits   Habits
	Prefix   string // of orders and keys
}

// Habits are in thousandths of the arrivals, and delays.
type Habits struct {
	DoubleClick  int           // the same request again within 300 ms
	Impatient    int           // … several times, seconds apart, under the same key
	Declined     int           // the card is declined
	SecondCard   int           // of those declined: another card follows
	Lost         int           // the PSP's answer is lost after the money moved
	Charge       int           // captured with the authorization; the others are captured or voided later
	Void         int           // of the others
	Refund       int           // of what is captured
	CaptureAfter time.Duration // half to one and a half of it
	RefundAfter  time.Duration // … after the capture
}

// Shop is how buyers behave, in a compressed day: captures after two seconds, refunds three seconds later.
func Shop() Habits {
	return Habits{DoubleClick: 20, Impatient: 10, Declined: 50, SecondCard: 600, Charge: 0, Void: 20, Refund: 30, CaptureAfter: 2 * time.Second,
		RefundAfter: 3 * time.Second}
}

// WhaleSeller is the one that half of the orders go to with GenerateOptions.Whale.
const WhaleSeller = "s-whale"

const (
	maxTraceSellers  = 1_000_000
	zipfExponent     = 1.1
	zipfOffset       = 10
	clickWithinMS    = 300
	impatientTries   = 3
	impatientAfterMS = 2_000
	secondCardMS     = 1_500
	fewestMinor      = 500
	mostMinor        = 30_000
	contentStream    = 0xc0de
	perMille         = 1000
)

// countries of the buyers with their currency, and how many of a hundred they are.
var countries = []struct {
	code     string
	currency ledger.Currency
	weight   int
	unit     int64 // amounts are multiples of it
}{{"DE", "EUR", 40, 1}, {"FR", "EUR", 20, 1}, {"US", "USD", 20, 1}, {"GB", "GBP", 12, 1}, {"JP", "JPY", 6, 1}, {"KW", "KWD", 2, 10}}

// Generate makes the arrivals of the options, the same for the same options. What is bought does not depend on the profile:
// the n-th arrival of a seed buys the same at any rate.
func Generate(o GenerateOptions) (iter.Seq2[Arrival, error], error) {
	switch {
	case len(o.Segments) == 0 || len(o.Clients) == 0:
		return nil, errors.New("loadtest: GenerateOptions.Segments and Clients are required")
	case o.Sellers < 1 || o.Sellers > maxTraceSellers:
		return nil, fmt.Errorf("loadtest: %d sellers: want 1 to %d", o.Sellers, maxTraceSellers)
	}
	return func(yield func(Arrival, error) bool) {
		n := 0
		for at := range Times(o.Segments, o.Seed) {
			if n++; n > MaxArrivals {
				yield(Arrival{}, fmt.Errorf("loadtest: more than %d arrivals: shorten the profile or lower its rate", MaxArrivals))
				return
			}
			if !yield(o.arrival(n, at), nil) {
				return
			}
		}
	}, nil
}

func (o GenerateOptions) arrival(n int, at time.Duration) Arrival {
	random := rand.New(rand.NewPCG(o.Seed^contentStream, uint64(n)))
	where := countries[weighted(random)]
	minor := fewestMinor + random.Int64N(mostMinor-fewestMinor)
	minor -= minor % where.unit
	a := Arrival{AtMS: at.Milliseconds(), Client: o.Clients[random.IntN(len(o.Clients))], Order: fmt.Sprintf("%so%d", o.Prefix, n),
		Key: fmt.Sprintf("%sk%d", o.Prefix, n), Amount: ledger.Money{Minor: minor, Currency: where.currency}, Country: where.code, Card: CardOK}
	a.Sellers = o.sellers(random, minor)
	o.habits(random, &a, where.unit)
	return a
}

func weighted(random *rand.Rand) int {
	at := random.IntN(100)
	for n, c := range countries {
		if at -= c.weight; at < 0 {
			return n
		}
	}
	return 0
}

// sellers shares an amount among one to three of them, large ones more often.
func (o GenerateOptions) sellers(random *rand.Rand, minor int64) []ledger.Split {
	zipf := rand.NewZipf(random, zipfExponent, zipfOffset, uint64(o.Sellers-1))
	whale := o.Whale && random.IntN(2) == 0
	want := 1 + random.IntN(maxSellers)
	taken := map[string]bool{}
	var out []ledger.Split
	for k := range want {
		name := fmt.Sprintf("s-%d", zipf.Uint64())
		if k == 0 && whale {
			name = WhaleSeller
		}
		if taken[name] {
			continue // an order names a seller once
		}
		taken[name] = true
		out = append(out, ledger.Split{SellerID: name, Minor: minor / int64(want)})
	}
	out[0].Minor += minor - minor/int64(want)*int64(len(out))
	for k := range out {
		out[k].CommissionMinor = commissionOf(random, out[k].Minor)
	}
	return out
}

// habits decide about clicks, cards and what follows.
func (o GenerateOptions) habits(random *rand.Rand, a *Arrival, unit int64) {
	h := o.Habits
	chance := func(thousandths int) bool { return random.IntN(perMille) < thousandths }
	if chance(h.DoubleClick) {
		a.Repeats = append(a.Repeats, random.Int64N(clickWithinMS))
	} else if chance(h.Impatient) {
		for k := range int64(impatientTries) {
			a.Repeats = append(a.Repeats, (k+1)*impatientAfterMS)
		}
	}
	switch {
	case chance(h.Declined):
		a.Card = CardDeclined
		if !chance(h.SecondCard) {
			return
		}
		a.Second = &SecondCard{AfterMS: secondCardMS, Card: CardOK}
	case chance(h.Lost):
		a.Card = CardLost
	}
	o.follow(random, a, unit, chance)
}

// follow plans the capture or void, and a refund.
func (o GenerateOptions) follow(random *rand.Rand, a *Arrival, unit int64, chance func(int) bool) {
	h := o.Habits
	at := int64(0)
	if a.Charge = chance(h.Charge); !a.Charge {
		at = about(random, h.CaptureAfter)
		if chance(h.Void) {
			a.Then = []Later{{Op: Void, AfterMS: at}}
			return
		}
		a.Then = []Later{{Op: Capture, AfterMS: at}}
	}
	if !chance(h.Refund) {
		return
	}
	refund := Later{Op: Refund, AfterMS: at + about(random, h.RefundAfter)}
	if random.IntN(2) == 0 { // of half of them a part only
		part := a.Amount.Minor * (10 + random.Int64N(80)) / 100
		refund.Minor = max(unit, part-part%unit)
	}
	a.Then = append(a.Then, refund)
}

// about is from half to one and a half of d, in milliseconds.
func about(random *rand.Rand, d time.Duration) int64 {
	ms := d.Milliseconds()
	return ms/2 + random.Int64N(ms+1)
}
