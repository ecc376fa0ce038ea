package payment

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestRunners: a command that takes long holds up no other, one that dies takes no other along, and runners without a command end.
// The bubble says if one stays.
func TestRunners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := make(runners)
		free, done := make(chan struct{}), make(chan int, 4)
		r.run(func() { <-free; done <- 1 })
		r.run(func() { defer func() { done <- 2 }(); runtime.Goexit() })
		r.run(func() { done <- 3 })
		synctest.Wait()
		if len(done) != 2 {
			t.Errorf("%d of two commands are done behind one that waits", len(done))
		}
		r.run(func() { done <- 4 }) // by the runner that is idle
		synctest.Wait()
		close(free)
		<-time.After(2 * patience)
		if len(done) != 4 {
			t.Errorf("%d of four commands are done", len(done))
		}
	})
}
