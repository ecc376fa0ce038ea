package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// gauges read what limits a run: processor time, log and statements.
type gauges struct {
	conn       *pgx.Conn
	postmaster int // 0 where /proc cannot be read
}

// reading is the state of all counters at one moment.
type reading struct {
	at         time.Time
	database   time.Duration // processor time of the engine's processes
	own        time.Duration // of this process
	machine    time.Duration // of all processes
	walBytes   int64
	walSyncs   int64
	statements uint64
	changes    float64 // Openings and Changes in those statements
}

func openGauges(ctx context.Context, url string) (*gauges, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	g := &gauges{conn: conn}
	var backend int
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	if p, err := readProcess(backend); err == nil {
		g.postmaster = p.parent
	}
	return g, nil
}

func (g *gauges) close() { _ = g.conn.Close(context.Background()) }

// checkpoint lets all rounds begin alike.
func (g *gauges) checkpoint(ctx context.Context) error {
	_, err := g.conn.Exec(ctx, `CHECKPOINT`)
	return err
}

func (g *gauges) read(ctx context.Context, registry *prometheus.Registry) (reading, error) {
	var r reading
	err := g.conn.QueryRow(ctx, `
SELECT (pg_current_wal_lsn() - '0/0'::PG_LSN)::INT8, w.wal_sync::INT8 FROM pg_stat_wal w`).Scan(&r.walBytes, &r.walSyncs)
	if err != nil {
		return r, fmt.Errorf("read the log's counters: %w", err)
	}
	if registry != nil {
		if r.statements, r.changes, err = batches(registry); err != nil {
			return r, err
		}
	}
	r.at = time.Now()
	if g.postmaster != 0 {
		r.database, r.own, r.machine = processTimes(g.postmaster)
	}
	return r, nil
}

// batches reads the shard's own histogram of Changes per statement.
func batches(registry *prometheus.Registry) (statements uint64, changes float64, err error) {
	families, err := registry.Gather()
	if err != nil {
		return 0, 0, err
	}
	for _, family := range families {
		if family.GetName() != "paygrid_shard_batch_changes" || family.GetType() != dto.MetricType_HISTOGRAM {
			continue
		}
		for _, m := range family.GetMetric() {
			statements += m.GetHistogram().GetSampleCount()
			changes += m.GetHistogram().GetSampleSum()
		}
	}
	return statements, changes, nil
}

// usage is what one sample used.
type usage struct {
	database, own, others float64 // busy processors, on average
	statementsPerSecond   float64
	syncsPerSecond        float64
	batch                 float64 // Changes per statement, 0 where there are no metrics
	walPerPayment         float64 // bytes
	cpuPerStep            float64 // microseconds of database and own: it hardly depends on what else the machine does
}

func (u usage) String() string {
	text := fmt.Sprintf("cpu db %.2f own %.2f others %.2f of %d", u.database, u.own, u.others, runtime.NumCPU())
	if u.batch > 0 {
		text += fmt.Sprintf("  %.0f statements/s of %.1f", u.statementsPerSecond, u.batch)
	}
	return text + fmt.Sprintf("  %.0f µs cpu/step  %.0f syncs/s  %.1f KiB log/payment", u.cpuPerStep, u.syncsPerSecond, u.walPerPayment/1024)
}

func (r reading) since(before reading, s sample) usage {
	seconds := r.at.Sub(before.at).Seconds()
	u := usage{
		database:            (r.database - before.database).Seconds() / seconds,
		own:                 (r.own - before.own).Seconds() / seconds,
		others:              (r.machine - before.machine - (r.database - before.database) - (r.own - before.own)).Seconds() / seconds,
		statementsPerSecond: float64(r.statements-before.statements) / seconds,
		syncsPerSecond:      float64(r.walSyncs-before.walSyncs) / seconds,
	}
	if n := r.statements - before.statements; n > 0 {
		u.batch = (r.changes - before.changes) / float64(n)
	}
	if s.steps > 0 {
		u.cpuPerStep = (u.database + u.own) * 1e6 / s.stepsPerSecond()
		// The log holds what came after the window too; scaled to the window it is what its payments cost.
		u.walPerPayment = float64(r.walBytes-before.walBytes) / seconds / s.paymentsPerSecond()
	}
	return u
}

// tick is the unit of /proc: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// process is what /proc/PID/stat says of a process.
type process struct {
	parent int
	self   time.Duration // user and system time
	waited time.Duration // of children that ended
}

func readProcess(pid int) (process, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, err
	}
	return parseProcess(string(text))
}

// parseProcess reads the fields behind the name, which is in brackets and may hold blanks and brackets itself.
func parseProcess(text string) (process, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return process{}, fmt.Errorf("/proc stat %q: too short", text)
	}
	var numbers [5]int64
	for i, at := range []int{1, 11, 12, 13, 14} { // ppid, utime, stime, cutime, cstime
		n, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return process{}, fmt.Errorf("/proc stat: %w", err)
		}
		numbers[i] = n
	}
	return process{parent: int(numbers[0]), self: time.Duration(numbers[1]+numbers[2]) * tick,
		waited: time.Duration(numbers[3]+numbers[4]) * tick}, nil
}

// processTimes sums the processor time of the engine (the postmaster, its children, and those that ended) and of this
// process, and the machine's. A process that ends while it is looked at counts at the next reading.
func processTimes(postmaster int) (database, own, machine time.Duration) {
	pids, _ := filepath.Glob("/proc/[0-9]*")
	for _, path := range pids {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		p, err := readProcess(pid)
		switch {
		case err != nil:
		case pid == postmaster:
			database += p.self + p.waited
		case p.parent == postmaster:
			database += p.self
		case pid == os.Getpid():
			own = p.self
		}
	}
	return database, own, machineTime()
}

// machineTime is the time that all processors were busy: the first line of /proc/stat without idle and iowait.
func machineTime() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var busy int64
	for n, field := range strings.Fields(line) {
		value, err := strconv.ParseInt(field, 10, 64)
		if err != nil || n == 4 || n == 5 || n > 8 { // the label, idle, iowait, and guests, which user holds already
			continue
		}
		busy += value
	}
	return time.Duration(busy) * tick
}
