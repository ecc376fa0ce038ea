package shard

import (
	"context"
	"runtime"
	"sync"
	"testing"
)

// TestGather: callers that are ready to send come in before the next statement leaves. On one processor, so that nobody
// else can run them meanwhile: without the yield the lane would find an empty queue.
func TestGather(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const callers = 32
	l := idle(callers)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for range callers {
		all.Go(func() { _ = l.begin(ctx, opening{}) })
	}
	if got := l.gather(); got != callers {
		t.Errorf("%d of %d callers came in", got, callers)
	}
	if got := l.gather(); got != 0 { // ends though nobody comes
		t.Errorf("%d came of nobody", got)
	}
	cancel()
	all.Wait()
}
