package relay

import (
	"context"
	"time"
)

// pace says when rounds begin. A round reads and writes the same for one event as for many, so while events flow they gather
// between two rounds; after a pause the first one does not wait.
type pace struct {
	every     time.Duration   // the least time between the beginnings of two rounds while events flow
	idle      time.Duration   // the longest pause when none came
	committed <-chan struct{} // tells of a commit: ends the pause when none came
}

// haul is what a round found.
type haul uint8

const (
	haulNothing haul = iota // no event waited
	haulAll                 // all that waited was passed
	haulFull                // a batch was full: more waits already
)

// run does rounds until ctx ends or one fails.
func (p pace) run(ctx context.Context, round func(context.Context) (haul, error)) error {
	for ctx.Err() == nil {
		next := time.NewTimer(p.every)
		p.forget()
		found, err := round(ctx)
		switch {
		case err != nil:
			return err
		case found == haulAll:
			select {
			case <-next.C:
			case <-ctx.Done():
			}
		case found == haulNothing:
			wait(ctx, p.idle, p.committed)
		}
		next.Stop()
	}
	return nil
}

// forget takes note of commits that the round that begins will read anyway: they are told after they are there.
func (p pace) forget() {
	select {
	case <-p.committed:
	default:
	}
}
