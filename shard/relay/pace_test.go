package relay

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// stream is a log with a relay that takes at most limit events in a round.
type stream struct {
	limit     int
	committed chan struct{}

	mu      sync.Mutex
	written []time.Time // when each event committed
	sent    int
	rounds  []time.Time // when each began
	late    time.Duration
}

// write commits n events of another process.
func (s *stream) write(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.written = append(s.written, time.Now())
	}
}

// commit commits an event of the relay's own process.
func (s *stream) commit() {
	s.write(1)
	select {
	case s.committed <- struct{}{}:
	default:
	}
}

func (s *stream) round(context.Context) (haul, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rounds = append(s.rounds, time.Now())
	n := min(s.limit, len(s.written)-s.sent)
	for _, at := range s.written[s.sent : s.sent+n] {
		s.late = max(s.late, time.Since(at))
	}
	s.sent += n
	switch {
	case s.sent < len(s.written):
		return haulFull, nil
	case n > 0:
		return haulAll, nil
	}
	return haulNothing, nil
}

// paced runs a pace in virtual time, in which nothing else passes; by is what happens beside it, step by step.
func paced(t *testing.T, limit int, idle time.Duration, by func(*stream)) *stream {
	t.Helper()
	s := &stream{limit: limit}
	synctest.Test(t, func(t *testing.T) {
		s.committed = make(chan struct{}, 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- pace{every: 100 * time.Millisecond, idle: idle, committed: s.committed}.run(ctx, s.round)
		}()
		synctest.Wait()
		by(s)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
	return s
}

// after lets virtual time pass and the relay do what it then does.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestFirstEventDoesNotWait: after a pause an event leaves at once, whenever it comes.
func TestFirstEventDoesNotWait(t *testing.T) {
	s := paced(t, 500, time.Hour, func(s *stream) {
		for n := range 20 {
			after(time.Second + time.Duration(n)*37*time.Millisecond)
			s.commit()
			synctest.Wait()
		}
	})
	if s.sent != 20 || s.late != 0 {
		t.Errorf("%d of 20 events were sent, the latest after %s", s.sent, s.late)
	}
	if len(s.rounds) > 1+2*20 { // the first, one per event, and one that finds nothing more
		t.Errorf("it took %d rounds", len(s.rounds))
	}
}

// TestStreamIsGrouped: while events flow, a round begins a tenth of a second after the last began, and no event waits longer.
func TestStreamIsGrouped(t *testing.T) {
	s := paced(t, 500, time.Hour, func(s *stream) {
		for range 1000 {
			after(3 * time.Millisecond)
			s.commit()
		}
		after(time.Second)
	})
	if s.sent != 1000 || s.late > 100*time.Millisecond {
		t.Errorf("%d of 1000 events were sent, the latest after %s", s.sent, s.late)
	}
	if n := len(s.rounds); n < 30 || n > 34 {
		t.Errorf("three seconds took %d rounds", n)
	}
}

// TestReadOnce: a commit that was told between two rounds is read by the next, and causes no other.
func TestReadOnce(t *testing.T) {
	s := paced(t, 500, time.Hour, func(s *stream) {
		after(time.Second)
		s.commit()
		after(50 * time.Millisecond)
		s.commit()
		after(time.Second)
	})
	if n := len(s.rounds); s.sent != 2 || n != 4 {
		t.Errorf("%d events in %d rounds, want 2 in 4: one at the start, one for each, one that finds nothing more", s.sent, n)
	}
}

// TestBacklogIsNotPaced: a round whose batch was full is followed at once.
func TestBacklogIsNotPaced(t *testing.T) {
	s := paced(t, 10, time.Hour, func(s *stream) {
		s.write(1000)
		s.commit()
		synctest.Wait()
	})
	if s.sent != 1001 || s.late != 0 {
		t.Errorf("%d events were sent, the latest after %s", s.sent, s.late)
	}
}

// TestIdleRelayLooks: what another process commits, which nobody tells, is found by looking.
func TestIdleRelayLooks(t *testing.T) {
	s := paced(t, 500, 50*time.Millisecond, func(s *stream) {
		after(10 * time.Second)
		s.write(1)
		after(time.Second)
	})
	if s.sent != 1 || s.late > 50*time.Millisecond || len(s.rounds) > 230 {
		t.Errorf("%d events were sent, the latest after %s, in %d rounds", s.sent, s.late, len(s.rounds))
	}
}

// TestPaceEndsWithAnError: a round that fails is the last, and its error is told.
func TestPaceEndsWithAnError(t *testing.T) {
	fault := errors.New("fault")
	err := pace{every: time.Hour, idle: time.Hour}.run(t.Context(), func(context.Context) (haul, error) { return haulNothing, fault })
	if !errors.Is(err, fault) {
		t.Errorf("%v", err)
	}
}
