package loadtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"paygrid/ledger"
)

// Arrival is one line of a trace: a buyer who pays, and what the shop does about it afterwards. Times are milliseconds: AtMS
// from the trace's start, the others from the arrival.
type Arrival struct {
	AtMS    int64          `json:"at"`
	Client  string         `json:"client"`
	Order   string         `json:"order"`
	Key     string         `json:"key"` // the idempotency key of the authorization
	Amount  ledger.Money   `json:"amount"`
	Country string         `json:"country,omitempty"` // of the buyer, ISO 3166-1 alpha-2
	Sellers []ledger.Split `json:"sellers"`
	Card    Card           `json:"card"`
	PSPs    []string       `json:"psps,omitempty"`    // where the card has a token; none = stripe and adyen
	Charge  bool           `json:"charge,omitempty"`  // captured with the authorization
	Repeats []int64        `json:"repeats,omitempty"` // the same request again under the same key: double clicks, impatience
	Second  *SecondCard    `json:"secondCard,omitempty"`
	Then    []Later        `json:"then,omitempty"`
}

// SecondCard is what a buyer tries after a decline, as a payment of its own for the same order.
type SecondCard struct {
	AfterMS int64 `json:"after"` // from the decline
	Card    Card  `json:"card"`
}

// Later is a capture, void or refund. Its key is the arrival's with its number appended.
type Later struct {
	Op      Op    `json:"op"`
	AfterMS int64 `json:"after"`
	Minor   int64 `json:"minor,omitempty"` // 0 = all that is left
}

// Card is a kind of card, or "token:" and a token of the simulators.
type Card string

// The kinds of cards.
const (
	CardOK       Card = "ok"
	CardDeclined Card = "declined"
	CardLost     Card = "lost"    // the PSP takes the money, and its answer is lost
	CardPending  Card = "pending" // the PSP says that it is still working
	CardBuyer    Card = "3ds"     // the buyer must act first
)

const tokenPrefix = "token:"

// tokens are what the kinds are called at the PSPs' simulators, in either dialect.
var tokens = map[Card]string{CardOK: "pm_ok", CardDeclined: "pm_decline", CardLost: "pm_ok_drop", CardPending: "pm_pending", CardBuyer: "pm_3ds"}

// Token is the payment method's token at the PSPs' simulators; "" if the kind is unknown.
func (c Card) Token() string {
	if token, ok := strings.CutPrefix(string(c), tokenPrefix); ok {
		return token
	}
	return tokens[c]
}

// Limits of a trace.
const (
	MaxArrivals   = 10_000_000
	maxTraceLine  = 64 << 10
	maxRepeats    = 20
	maxLaters     = 20
	maxTraceMS    = 30 * 24 * 3600 * 1000 // a month
	defaultPSPs   = "stripe,adyen"
	maxTraceMinor = 1_000_000_000
)

// TraceError is a line that cannot be played.
type TraceError struct {
	Line   int
	Field  string
	Remedy string
}

func (e *TraceError) Error() string {
	return fmt.Sprintf("trace line %d: %s: %s", e.Line, e.Field, e.Remedy)
}

// ReadTrace reads JSON Lines, one at a time, strictly; arrivals must be in the order of their times. It ends with the first
// error, a *TraceError or one of reading.
func ReadTrace(r io.Reader) iter.Seq2[Arrival, error] {
	return func(yield func(Arrival, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, maxTraceLine), maxTraceLine)
		last := int64(0)
		for n := 1; lines.Scan(); n++ {
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			a, err := parseArrival(lines.Bytes(), n, last)
			if last = a.AtMS; !yield(a, err) || err != nil {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(Arrival{}, fmt.Errorf("trace: %w", err))
		}
	}
}

func parseArrival(line []byte, number int, last int64) (Arrival, error) {
	var a Arrival
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&a); err != nil {
		return a, &TraceError{number, "JSON", err.Error()}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return a, &TraceError{number, "JSON", "something follows the object: write one object per line"}
	}
	if a.AtMS < last {
		return a, &TraceError{number, "at", fmt.Sprintf("%d lies before the line above: sort the trace by at", a.AtMS)}
	}
	if field, remedy := a.fault(); field != "" {
		return a, &TraceError{number, field, remedy}
	}
	return a, nil
}

// fault names the first field that cannot be played, and what to write.
func (a Arrival) fault() (field, remedy string) {
	_, err := ledger.ParseCurrency(string(a.Amount.Currency))
	switch {
	case a.AtMS < 0 || a.AtMS > maxTraceMS:
		return "at", fmt.Sprintf("want milliseconds from 0 to %d", maxTraceMS)
	case a.Client == "" || a.Order == "" || a.Key == "":
		return "client, order, key", "all three are required"
	case err != nil:
		return "amount.currency", err.Error()
	case a.Amount.Minor < 1 || a.Amount.Minor > maxTraceMinor:
		return "amount.minor", fmt.Sprintf("want 1 to %d", maxTraceMinor)
	case a.Card.Token() == "" || a.Second != nil && a.Second.Card.Token() == "":
		return "card", "want ok, declined, lost, pending, 3ds or token:…"
	case len(a.Repeats) > maxRepeats || len(a.Then) > maxLaters || len(a.Sellers) > ledger.MaxSplits:
		return "repeats, then, sellers", fmt.Sprintf("at most %d, %d and %d", maxRepeats, maxLaters, ledger.MaxSplits)
	}
	return a.faultOfParts()
}

// faultOfParts looks at sums and times.
func (a Arrival) faultOfParts() (field, remedy string) {
	sum := int64(0)
	for _, s := range a.Sellers {
		if s.Minor < 0 || s.Minor > a.Amount.Minor || s.CommissionMinor < 0 || s.CommissionMinor > s.Minor {
			return "sellers", "each share from 0 to the amount, each commission from 0 to its share"
		}
		sum += s.Minor
	}
	if sum != a.Amount.Minor {
		return "sellers", fmt.Sprintf("the shares add up to %d, the amount is %d", sum, a.Amount.Minor)
	}
	for _, after := range a.Repeats {
		if after < 0 || after > maxTraceMS {
			return "repeats", "want milliseconds from 0"
		}
	}
	last := int64(0)
	for _, l := range a.Then {
		if l.Op != Capture && l.Op != Void && l.Op != Refund || l.Minor < 0 || l.Minor > a.Amount.Minor {
			return "then", "want op capture, void or refund, and minor from 0 to the amount"
		}
		if l.AfterMS < last || l.AfterMS > maxTraceMS {
			return "then", "want milliseconds from 0, each after the one before"
		}
		last = l.AfterMS
	}
	return "", ""
}

// psps are where the card has a token.
func (a Arrival) psps() []string {
	if len(a.PSPs) > 0 {
		return a.PSPs
	}
	return strings.Split(defaultPSPs, ",")
}

// WriteTrace writes arrivals as JSON Lines and returns how many. It stops at the first error of the arrivals.
func WriteTrace(w io.Writer, arrivals iter.Seq2[Arrival, error]) (n int, err error) {
	buffer := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffer)
	for a, err := range arrivals {
		if err != nil {
			return n, errors.Join(err, buffer.Flush())
		}
		if err := encoder.Encode(a); err != nil {
			return n, err
		}
		n++
	}
	return n, buffer.Flush()
}

// PartOf keeps each n-th arrival, beginning with the k-th (from 1): processes that share a trace play each a part of it.
func PartOf(arrivals iter.Seq2[Arrival, error], k, n int) iter.Seq2[Arrival, error] {
	return func(yield func(Arrival, error) bool) {
		at := 0
		for a, err := range arrivals {
			at++
			if err == nil && (at-1)%n != k-1 {
				continue
			}
			if !yield(a, err) {
				return
			}
		}
	}
}
