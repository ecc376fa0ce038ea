package localdb

import (
	"context"
	"fmt"
	"os"
	"sync"
)

// Runner is what [Shared.Main] needs of *testing.M.
type Runner interface{ Run() int }

// TB is what [Shared.Engine] needs of *testing.T and *testing.B.
type TB interface {
	Helper()
	Context() context.Context
	Fatal(args ...any)
}

// Shared is the one engine of a test package: not durable, in a temporary folder, started when the first test asks for
// it, so that a run of pure tests needs no database. The zero value is ready to use.
type Shared struct {
	once   sync.Once
	engine *Engine
	err    error
}

// Main runs the package's tests, then stops the engine, and returns the exit code.
func (s *Shared) Main(m Runner) int {
	code := m.Run()
	if s.engine == nil {
		return code
	}
	if err := s.engine.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Engine returns the running engine. It fails the test, and does not skip it, where there is none to start:
// a suite without its database proves nothing.
func (s *Shared) Engine(t TB) *Engine {
	t.Helper()
	s.once.Do(func() {
		// Not cancelled with the test that happens to be first: the engine is for all of them.
		s.engine, s.err = Start(context.WithoutCancel(t.Context()), Options{Log: os.Stderr})
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.engine
}
