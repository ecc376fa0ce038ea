package loadtest

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Profile is a curve of arrivals per second over a time of any length.
type Profile string

// The profiles. Each reaches the segment's rate at its highest.
const (
	Steady      Profile = "steady"       // the rate all the time
	Soak        Profile = "soak"         // the same, for hours
	Ramp        Profile = "ramp"         // from a tenth of the rate to the rate, evenly
	BlackFriday Profile = "black-friday" // a day's curve with a tenfold peak in the evening
	Spike       Profile = "spike"        // a fifth of the rate, the rate for a tenth of the time in the middle, a fifth again
)

// Profiles are all of them.
func Profiles() []Profile { return []Profile{Steady, Ramp, BlackFriday, Spike, Soak} }

// day is the black-friday curve, in thousandths of the peak at every full hour from 0 to 24: quiet nights, a doorbuster at
// midnight, a lunch and the evening, of which one hour is the peak.
var day = [...]float64{400, 250, 140, 100, 100, 110, 150, 220, 320, 420, 480, 520, 560, 540, 500, 520, 580, 680, 820, 950, 1000, 1000, 850, 600, 400}

// Segment is a stretch of a run: a profile, its highest rate and its length. A day's curve fits any length.
type Segment struct {
	Profile  Profile       `json:"profile"`
	Rate     float64       `json:"rate"` // arrivals per second at the highest
	Duration time.Duration `json:"duration"`
	From     float64       `json:"from,omitempty"` // where a ramp begins; 0 = a tenth of Rate
}

// at is the rate after a part of the segment, from 0 to 1.
func (s Segment) at(part float64) float64 {
	switch s.Profile {
	case Ramp:
		from := s.From
		if from == 0 {
			from = s.Rate / 10
		}
		return from + (s.Rate-from)*part
	case BlackFriday:
		hour := part * float64(len(day)-1)
		low := min(int(hour), len(day)-2)
		return s.Rate / 1000 * (day[low] + (day[low+1]-day[low])*(hour-float64(low)))
	case Spike:
		if part >= 0.45 && part < 0.55 {
			return s.Rate
		}
		return s.Rate / 5
	}
	return s.Rate
}

// Limits of a segment.
const (
	maxRate     = 100_000
	maxDuration = 30 * 24 * time.Hour
)

// ParseSegments reads "black-friday:600:2m,ramp:400-1500:1m": profile, highest rate a second (a ramp's with its first),
// length.
func ParseSegments(text string) ([]Segment, error) {
	var out []Segment
	for _, part := range strings.Split(text, ",") {
		s, err := parseSegment(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("profile %q: %w", part, err)
		}
		out = append(out, s)
	}
	return out, nil
}

func parseSegment(text string) (s Segment, err error) {
	fields := strings.Split(text, ":")
	if len(fields) != 3 || !slices.Contains(Profiles(), Profile(fields[0])) {
		return s, fmt.Errorf("want PROFILE:RATE:DURATION, where PROFILE is one of %v", Profiles())
	}
	s.Profile = Profile(fields[0])
	rate := fields[1]
	if from, to, ok := strings.Cut(rate, "-"); ok && s.Profile == Ramp {
		if s.From, err = strconv.ParseFloat(from, 64); err != nil || s.From <= 0 {
			return s, fmt.Errorf("the ramp's first rate %q: want a number above 0", from)
		}
		rate = to
	}
	if s.Rate, err = strconv.ParseFloat(rate, 64); err != nil || s.Rate <= 0 || s.Rate > maxRate || s.From > s.Rate {
		return s, fmt.Errorf("rate %q: want a number above 0, at most %d, and not below a ramp's first", rate, maxRate)
	}
	if s.Duration, err = time.ParseDuration(fields[2]); err != nil || s.Duration <= 0 || s.Duration > maxDuration {
		return s, fmt.Errorf("duration %q: want one like 90s, at most %v", fields[2], maxDuration)
	}
	return s, nil
}

// arrivalStream separates the times' random numbers from those of what is bought.
const arrivalStream = 0x7a11

// Times are the moments of a Poisson process whose rate follows the segments: arrivals know nothing of each other, nor of
// how fast they are answered. The same seed gives the same moments.
func Times(segments []Segment, seed uint64) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		random := rand.New(rand.NewPCG(seed, arrivalStream))
		begin := time.Duration(0)
		for _, s := range segments {
			// Candidates come at the highest rate; each is kept with the chance that the curve has at its time (thinning).
			for at := 0.0; ; {
				at += random.ExpFloat64() / s.Rate
				part := at / s.Duration.Seconds()
				if part >= 1 {
					break
				}
				if random.Float64()*s.Rate < s.at(part) && !yield(begin+time.Duration(at*float64(time.Second))) {
					return
				}
			}
			begin += s.Duration
		}
	}
}

// Length is how long segments are together.
func Length(segments []Segment) (sum time.Duration) {
	for _, s := range segments {
		sum += s.Duration
	}
	return sum
}

// Offered is the rate that segments have after a time, 0 after their end.
func Offered(segments []Segment, at time.Duration) float64 {
	for _, s := range segments {
		if at < s.Duration {
			return s.at(math.Max(0, at.Seconds()/s.Duration.Seconds()))
		}
		at -= s.Duration
	}
	return 0
}
