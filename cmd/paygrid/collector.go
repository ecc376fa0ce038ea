package main

import (
	"context"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// gcPercent lets the heap grow to five times what is live before garbage is collected, where Go's default is twice. What
// is live is small and what a payment leaves behind is not: at the default a fifth of a busy process is the collector.
const gcPercent = 400

// limitDivisor: the collector works harder, whatever gcPercent says, when this process holds one such part of the memory
// that it may use.
const limitDivisor = 2

// long is a command that runs for long: it is started with the collector tuned, unless GOGC or GOMEMLIMIT say how.
func long(run func(context.Context, env, []string) error) func(context.Context, env, []string) error {
	return func(ctx context.Context, e env, args []string) error {
		tuneCollector(os.Getenv, debug.SetGCPercent, debug.SetMemoryLimit)
		return run(ctx, e, args)
	}
}

func tuneCollector(getenv func(string) string, setPercent func(int) int, setLimit func(int64) int64) {
	if getenv("GOGC") == "" {
		setPercent(gcPercent)
	}
	if limit := usableMemory(readText("/proc/meminfo"), readText("/sys/fs/cgroup/memory.max")) / limitDivisor; limit > 0 && getenv("GOMEMLIMIT") == "" {
		setLimit(limit)
	}
}

// readText is a file's content, "" where there is none: other systems than Linux do not say.
func readText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

// usableMemory is how many bytes the machine has, or the container if it may use less; 0 = not known. meminfo and limit
// are the kernel's texts.
func usableMemory(meminfo, limit string) int64 {
	var bytes int64
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			bytes = kib << 10
		}
	}
	if most, err := strconv.ParseInt(strings.TrimSpace(limit), 10, 64); err == nil && (bytes == 0 || most < bytes) { // "max" is none
		bytes = most
	}
	return bytes
}
