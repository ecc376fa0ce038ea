package main

import "testing"

// The operator's own settings stand; without them the heap may grow, but not beyond half of the memory.
func TestTuneCollector(t *testing.T) {
	for _, c := range []struct {
		env            map[string]string
		percent, limit bool
	}{
		{nil, true, true},
		{map[string]string{"GOGC": "100"}, false, true},
		{map[string]string{"GOMEMLIMIT": "1GiB"}, true, false},
	} {
		percent, limit := 0, int64(0)
		tuneCollector(func(name string) string { return c.env[name] }, func(n int) int { percent = n; return 0 }, func(n int64) int64 { limit = n; return 0 })
		known := usableMemory(readText("/proc/meminfo"), readText("/sys/fs/cgroup/memory.max")) > 0
		if (percent == gcPercent) != c.percent || (limit > 0) != (c.limit && known) {
			t.Errorf("%v: percent %d, limit %d", c.env, percent, limit)
		}
	}
}

func TestUsableMemory(t *testing.T) {
	const meminfo = "MemTotal:       24683432 kB\nMemFree:        20334 kB\n"
	for _, c := range []struct {
		meminfo, limit string
		want           int64
	}{
		{meminfo, "max\n", 24683432 << 10},
		{meminfo, "", 24683432 << 10},
		{meminfo, "536870912\n", 512 << 20},
		{meminfo, "9223372036854771712\n", 24683432 << 10},
		{"", "536870912\n", 512 << 20},
		{"", "", 0},
		{"MemTotal: much\n", "max", 0},
	} {
		if got := usableMemory(c.meminfo, c.limit); got != c.want {
			t.Errorf("%q, %q: %d, want %d", c.meminfo, c.limit, got, c.want)
		}
	}
}
