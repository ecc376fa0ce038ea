package loadtest

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Share says which part of which run a report tells of. Reports are merged only if all but Part is equal.
type Share struct {
	Part     int    `json:"part"` // from 1
	Parts    int    `json:"parts"`
	Trace    string `json:"trace"` // "generated", or the digest of the file that was played
	Seed     uint64 `json:"seed"`
	Profile  string `json:"profile"`
	Traffic  string `json:"traffic"` // what else a generated trace follows from
	Prefix   string `json:"prefix"`  // of orders and keys: the books know the run's payments by it
	Setting  string `json:"setting"` // how the shops behave
	Arrivals int    `json:"arrivals"`
}

// isPart tells whether others play the rest of the trace.
func (s *Share) isPart() bool { return s != nil && s.Parts > 1 }

func (s *Share) String() string { return fmt.Sprintf("part %d/%d", s.Part, s.Parts) }

// due is how many arrivals of the trace are this part's.
func (s *Share) due() int { return (s.Arrivals - s.Part + s.Parts) / s.Parts }

// Extent is how much of a trace was read, the parts of other processes with it.
type Extent struct {
	Arrivals int
	Last     time.Duration // when the last thing of its arrivals is due, from the trace's start
	Whole    bool          // it was read to its end
}

// Of notes what is read.
func (e *Extent) Of(arrivals iter.Seq2[Arrival, error]) iter.Seq2[Arrival, error] {
	return func(yield func(Arrival, error) bool) {
		for a, err := range arrivals {
			if err == nil {
				e.Arrivals++
				e.Last = max(e.Last, time.Duration(a.lastMS())*time.Millisecond)
			}
			if !yield(a, err) {
				return
			}
		}
		e.Whole = true
	}
}

// lastMS is when the last thing of an arrival is due.
func (a Arrival) lastMS() int64 {
	last := int64(0)
	for _, after := range a.Repeats {
		last = max(last, after)
	}
	if a.Second != nil {
		last = max(last, a.Second.AfterMS)
	}
	for _, l := range a.Then {
		last = max(last, l.AfterMS)
	}
	return a.AtMS + last
}

// ProfileText writes segments as ParseSegments reads them.
func ProfileText(segments []Segment) string {
	var out []string
	for _, s := range segments {
		rate := strconv.FormatFloat(s.Rate, 'f', -1, 64)
		if s.From > 0 {
			rate = strconv.FormatFloat(s.From, 'f', -1, 64) + "-" + rate
		}
		out = append(out, fmt.Sprintf("%s:%s:%s", s.Profile, rate, s.Duration))
	}
	return strings.Join(out, ",")
}

// Claim is what a generator says of its payments, in figures that the books can be held against. An answer may be lost on its way:
// the books have at least what was named, and at most what was asked for.
type Claim struct {
	Asked         int `json:"asked"` // payments: authorizations under keys of their own
	Named         int `json:"named"` // … of which the API told the ID
	CapturesAsked int `json:"capturesAsked"`
	Captured      int `json:"captured"` // payments of which a capture was acknowledged
}

func (c *Claim) add(other Claim) {
	c.Asked += other.Asked
	c.Named += other.Named
	c.CapturesAsked += other.CapturesAsked
	c.Captured += other.Captured
}

// Raw is what was measured, in the form in which parts add up: quantiles do not.
type Raw struct {
	Interval  time.Duration   `json:"interval"` // of Plots
	Seconds   seconds         `json:"seconds"`
	Calls     map[string]kept `json:"calls"` // latency of calls, by what the report's rows call them
	Plots     []kept          `json:"plots"` // … of all calls, by interval
	Processes []ProcessRow    `json:"processes"`
}

// ProcessRow is what one router or worker counted while this generator looked. Several generators see the same process, and the
// calls of all of them in it.
type ProcessRow struct {
	URL      string               `json:"url"`
	Name     string               `json:"name"`
	Starts   []float64            `json:"starts"` // when it began, in seconds since 1970; a process that came back has several
	Own      map[string]Histogram `json:"own"`    // our own share by route, in seconds
	Segments []Histogram          `json:"segments"`
	PSPs     []PSPRow             `json:"psps"`
}

// kept is a histogram as the library itself writes it: compressed, in base64; "" = none.
type kept struct{ *hdrhistogram.Histogram }

// MarshalText writes it.
func (k kept) MarshalText() ([]byte, error) {
	if k.Histogram == nil {
		return nil, nil
	}
	return k.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
}

// UnmarshalText reads it, if it counts what ours do.
func (k *kept) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		k.Histogram = nil
		return nil
	}
	if k.Histogram, err = hdrhistogram.Decode(text); err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	if k.LowestTrackableValue() != lowestMicros || k.HighestTrackableValue() != highestMicros {
		return fmt.Errorf("histogram: counts from %d to %d, want %d to %d", k.LowestTrackableValue(), k.HighestTrackableValue(), lowestMicros, highestMicros)
	}
	return nil
}

// seconds are counts by second, kept as compressed varints in base64.
type seconds []second

// fields are the counts of a second, in the order in which they are kept.
func (s *second) fields() []*int {
	return []*int{&s.intended, &s.answered, &s.paid, &s.authorized, &s.shed}
}

// sum adds all seconds up.
func (s seconds) sum() (all second) {
	for _, one := range s {
		all.add(one)
	}
	return all
}

func (s *second) add(other second) {
	more := other.fields()
	for n, field := range s.fields() {
		*field += *more[n]
	}
}

// MarshalText writes them.
func (s seconds) MarshalText() ([]byte, error) {
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	var one []byte
	for n := range s {
		one = one[:0]
		for _, field := range s[n].fields() {
			one = binary.AppendUvarint(one, uint64(max(*field, 0)))
		}
		if _, err := w.Write(one); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, packed.Bytes()), nil
}

// maxSecondBytes bounds what is unpacked: five varints a second.
const maxSecondBytes = (maxSeconds + 1) * 5 * binary.MaxVarintLen64

// UnmarshalText reads them.
func (s *seconds) UnmarshalText(text []byte) error {
	packed, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("seconds: %w", err)
	}
	r, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("seconds: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(r, maxSecondBytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("seconds: %w", err)
	case len(data) > maxSecondBytes:
		return fmt.Errorf("seconds: they unpack to more than %d bytes", maxSecondBytes)
	}
	*s = nil
	for len(data) > 0 {
		var one second
		for _, field := range one.fields() {
			value, size := binary.Uvarint(data)
			if size <= 0 || value > math.MaxInt32 {
				return errors.New("seconds: they end in the middle of a number, or one is too large")
			}
			*field, data = int(value), data[size:]
		}
		*s = append(*s, one)
	}
	return nil
}

// MarshalText writes a Prometheus histogram as "bound:count bound:count …", counts cumulative.
func (h Histogram) MarshalText() ([]byte, error) {
	var out []byte
	for n, bound := range h.Bounds {
		if n > 0 {
			out = append(out, ' ')
		}
		out = append(strconv.AppendFloat(out, bound, 'g', -1, 64), ':')
		out = strconv.AppendUint(out, h.Counts[n], 10)
	}
	return out, nil
}

// UnmarshalText reads one.
func (h *Histogram) UnmarshalText(text []byte) error {
	*h = Histogram{}
	for word := range strings.FieldsSeq(string(text)) {
		bound, count, _ := strings.Cut(word, ":")
		b, err := strconv.ParseFloat(bound, 64)
		if err != nil {
			return fmt.Errorf("histogram: bound %q: %w", bound, err)
		}
		c, err := strconv.ParseUint(count, 10, 64)
		if err != nil {
			return fmt.Errorf("histogram: count %q: %w", count, err)
		}
		h.Bounds, h.Counts = append(h.Bounds, b), append(h.Counts, c)
	}
	return nil
}
