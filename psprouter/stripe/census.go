package stripe

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"paygrid/psprouter"
)

// Limits of a census. A minute and a half at 600 payments a second is 500 pages.
const (
	censusReaders = 32     // pages read at once: at 300 ms a page, about the hundred reads a second that Stripe allows an account
	censusPages   = 2_000  // beyond them nothing is known
	censusSlice   = 2      // seconds that one reader reads
	censusSpan    = 5 * 60 // the most seconds over which inquiries share one
	censusApron   = 10     // seconds read more on both sides, for those who come while it is under way
)

// census is one reading of the list of all payments that were created in a span of time; the list is consistent, where search
// lags. After an outage hundreds of attempts ask about the same minutes, and each of them would read all those pages. So one
// reading, by several readers at once, serves all who ask while it is under way or waits for its turn.
//
// Nobody gets two answers from one census, for it serves nobody once it is done: two absences are two readings.
type census struct {
	span  span
	begun bool
	at    time.Time // when it began
	done  chan struct{}
	pages atomic.Int64 // that may still be read

	mu      sync.Mutex
	bearers map[string][]string // attempt -> payments that bear it
	err     error               // of the reading; then the rest means nothing
}

// span is a stretch of time in whole seconds, both ends included.
type span struct{ from, to int64 }

// createdAround is when a request sent at that moment may have created a payment.
func createdAround(sent time.Time, timeout time.Duration) span {
	return span{sent.Add(-clockMargin).Unix(), sent.Add(timeout+clockMargin).Unix() + 1}
}

// with is the span over both, false if they are too far from each other to be read as one.
func (s span) with(o span) (span, bool) {
	both := span{min(s.from, o.from), max(s.to, o.to)}
	return both, both.to-both.from < censusSpan && s.from <= o.to && o.from <= s.to
}

func (s span) query() url.Values {
	return url.Values{"created[gte]": {strconv.FormatInt(s.from, 10)}, "created[lte]": {strconv.FormatInt(s.to, 10)}}
}

// slices are what the readers read, one each.
func (s span) slices() []span {
	var all []span
	for from := s.from; from <= s.to; from += censusSlice {
		all = append(all, span{from, min(from+censusSlice-1, s.to)})
	}
	return all
}

func (s span) covers(o span) bool { return s.from <= o.from && o.to <= s.to }

// censuses are taken one after the other.
type censuses struct {
	turn chan struct{} // full while one is under way

	mu      sync.Mutex // of all below, and of every census's span and begun
	running *census
	next    *census // gathers those who wait
}

func newCensuses() *censuses { return &censuses{turn: make(chan struct{}, 1)} }

// join finds a census that covers s and begins at since or later: the one under way, the next, or a new one.
func (all *censuses) join(s span, since time.Time) *census {
	all.mu.Lock()
	defer all.mu.Unlock()
	if r := all.running; r != nil && r.span.covers(s) && !r.at.Before(since) {
		return r
	}
	if all.next != nil {
		if both, near := all.next.span.with(s); near {
			all.next.span = both
			return all.next
		}
	}
	all.next = &census{span: s, done: make(chan struct{}), bearers: map[string][]string{}}
	all.next.pages.Store(censusPages)
	return all.next
}

// begin fixes what a census reads; false if another of those who wait for it began it.
func (all *censuses) begin(c *census, now time.Time) (span, bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if c.begun {
		return c.span, false
	}
	c.begun, c.at, all.running = true, now, c
	c.span = span{c.span.from - censusApron, c.span.to + censusApron}
	if all.next == c {
		all.next = nil
	}
	return c.span, true
}

func (all *censuses) end(c *census, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	c.err, all.running = err, nil
	close(c.done)
}

// created returns the payments that bear the attempt asked about, by a census that begins once absence can prove something.
// The first of those who wait whose turn it is takes it for them all; should his time run out, nobody has an answer.
func (a *Adapter) created(ctx context.Context, q psprouter.Inquiry) ([]string, error) {
	c := a.censuses.join(createdAround(q.SentAt, a.timeout), q.SentAt.Add(a.window))
	select {
	case <-c.done:
	case a.censuses.turn <- struct{}{}:
		if s, ours := a.censuses.begin(c, q.Now); ours {
			a.censuses.end(c, a.take(ctx, c, s, q.Now))
		}
		<-a.censuses.turn
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the list of that time: %w", ctx.Err())
	}
	return c.bearers[q.Attempt], c.err
}

// take reads the list, in slices if it is longer than a page.
func (a *Adapter) take(ctx context.Context, c *census, s span, now time.Time) error {
	first := c.list(s)
	page, err := onePage[listed](ctx, a, first.path+"?"+first.firstQuery().Encode(), false)
	if err != nil {
		return err
	}
	if err := sameTime(page.LastResponse.Header, now); err != nil {
		return err
	}
	if !*page.HasMore {
		first.keepOf(page.Data)
		return nil
	}
	readers, ctx := errgroup.WithContext(ctx)
	readers.SetLimit(censusReaders)
	for _, slice := range s.slices() {
		readers.Go(func() error {
			_, err := pages(ctx, a, c.list(slice))
			return err
		})
	}
	return readers.Wait()
}

// sameTime compares our clock with Stripe's: the list is of the time around our call only as far as they agree.
func sameTime(header http.Header, now time.Time) error {
	at, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return fmt.Errorf("the list does not say when it is of: %w", err)
	}
	if apart := at.Sub(now).Abs(); apart > clockMargin/2 {
		return fmt.Errorf("our clock and Stripe's are %s apart: the list may be of another time", apart)
	}
	return nil
}

// list is what one reader reads; nothing is kept but what c notes.
func (c *census) list(s span) list[listed] {
	return list[listed]{path: "/v1/payment_intents", query: s.query(), left: &c.pages,
		id:   func(one *listed) string { return one.ID },
		keep: func(one *listed) bool { c.note(one); return false }}
}

func (c *census) note(one *listed) {
	attempt := one.Metadata[metaAttempt]
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.bearers[attempt]; attempt != "" && !slices.Contains(known, one.ID) {
		c.bearers[attempt] = append(known, one.ID)
	}
}
