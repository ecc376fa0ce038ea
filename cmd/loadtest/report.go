package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// summary is the median of the samples of one cell.
type summary struct {
	cell
	steps, payments float64 // per second
	low, high       float64 // steps per second: the slowest and the fastest sample
	used            usage
}

func summarize(samples []sample) map[cell]summary {
	byCell := map[cell][]sample{}
	for _, s := range samples {
		byCell[s.cell] = append(byCell[s.cell], s)
	}
	out := map[cell]summary{}
	for c, all := range byCell {
		steps := values(all, sample.stepsPerSecond)
		out[c] = summary{cell: c, steps: median(steps), payments: median(values(all, sample.paymentsPerSecond)),
			low: slices.Min(steps), high: slices.Max(steps), used: medianUsage(all)}
	}
	return out
}

func medianUsage(all []sample) usage {
	of := func(value func(usage) float64) float64 {
		return median(values(all, func(s sample) float64 { return value(s.used) }))
	}
	return usage{
		database: of(func(u usage) float64 { return u.database }), own: of(func(u usage) float64 { return u.own }),
		others: of(func(u usage) float64 { return u.others }), batch: of(func(u usage) float64 { return u.batch }),
		statementsPerSecond: of(func(u usage) float64 { return u.statementsPerSecond }),
		syncsPerSecond:      of(func(u usage) float64 { return u.syncsPerSecond }),
		walPerPayment:       of(func(u usage) float64 { return u.walPerPayment }),
		cpuPerStep:          of(func(u usage) float64 { return u.cpuPerStep }),
	}
}

func values(all []sample, of func(sample) float64) []float64 {
	out := make([]float64, len(all))
	for n, s := range all {
		out[n] = of(s)
	}
	return out
}

// median of a list that is not empty: the mean of the middle two where there are two.
func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// report prints the table and the last line.
func report(w io.Writer, samples []sample) error {
	all := summarize(samples)
	buffer := bufio.NewWriter(w)
	fmt.Fprintf(buffer, "\n%-10s %7s %-7s %9s %17s %11s %7s %6s %6s %6s %7s %6s %7s %9s\n", "variant", "callers", "sellers", "steps/s", "(min to max)",
		"payments/s", "×single", "cpu db", "own", "others", "µs/step", "batch", "syncs/s", "KiB/pay")
	for _, c := range slices.SortedFunc(maps.Keys(all), compareCells) {
		s := all[c]
		fmt.Fprintf(buffer, "%-10s %7d %-7s %9.0f %17s %11.0f %7s %6.2f %6.2f %6.2f %7.0f %6.1f %7.0f %9.1f\n", c.variant, c.callers, c.sellers, s.steps,
			fmt.Sprintf("(%.0f to %.0f)", s.low, s.high), s.payments, ratio(all, c, cell{single, c.callers, c.sellers}), s.used.database,
			s.used.own, s.used.others, s.used.cpuPerStep, s.used.batch, s.used.syncsPerSecond, s.used.walPerPayment/1024)
	}
	fmt.Fprintf(buffer, "\n×single compares payments; a payment is 4 steps, of the naive twin the capture alone. "+
		"cpu: busy processors of %d,\nµs/step: of database and own together.\n%s\n",
		runtime.NumCPU(), limit(all))
	fmt.Fprintln(buffer, ratioLine(all))
	return buffer.Flush()
}

// compareCells sorts as the eye compares: one group of variants for each load.
func compareCells(a, b cell) int {
	if a.callers != b.callers {
		return a.callers - b.callers
	}
	if a.sellers != b.sellers {
		return -strings.Compare(a.sellers, b.sellers) // spread before hot
	}
	return slices.Index(variantNames, a.variant) - slices.Index(variantNames, b.variant)
}

// ratioCallers is the load at which the last line compares: about what a router has under way at 300 payments a second, at PSPs
// of 300 ms.
const ratioCallers = 256

func ratioLine(all map[cell]summary) string {
	fast := cell{coalesced, ratioCallers, spread}
	return fmt.Sprintf("RATIO coalesced/single=%s coalesced/naive=%s hot/spread=%s", ratio(all, fast, cell{single, ratioCallers, spread}),
		ratio(all, fast, cell{naive, ratioCallers, spread}), ratio(all, cell{coalesced, ratioCallers, hot}, fast))
}

// ratio compares payments per second, "n/a" where one of the two was not measured.
func ratio(all map[cell]summary, a, b cell) string {
	if all[a].payments == 0 || all[b].payments == 0 {
		return "n/a"
	}
	return fmt.Sprintf("%.2f", all[a].payments/all[b].payments)
}

// limit says what the coalesced variant waits for at the load that the last line compares, and what a step costs there.
func limit(all map[cell]summary) string {
	s, ok := all[cell{coalesced, ratioCallers, spread}]
	if !ok {
		return ""
	}
	processors := float64(runtime.NumCPU())
	what := "commits (the log's syncs, and the round trip between two statements of a lane)"
	switch {
	case s.used.others > processors/4:
		what = "what else the machine does: repeat when it is idle"
	case s.used.database+s.used.own > 0.9*processors:
		what = "processors"
	}
	text := fmt.Sprintf("Limit of coalesced at %d callers: %s.", ratioCallers, what)
	if one, ok := all[cell{single, ratioCallers, spread}]; ok && s.used.cpuPerStep > 0 {
		text += fmt.Sprintf(" Processor time of a step there: %.0f µs, single %.0f µs: %.2f times.", s.used.cpuPerStep,
			one.used.cpuPerStep, one.used.cpuPerStep/s.used.cpuPerStep)
	}
	if twin := all[cell{naive, ratioCallers, spread}]; twin.steps > 0 {
		text += fmt.Sprintf(" Commit for commit it does %.2f times the naive twin's.", s.steps/twin.steps)
	}
	return text
}

// writeSamples writes one line per sample in the Go benchmark format; benchstat makes the medians and compares two runs.
func writeSamples(path string, samples []sample) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(filepath.Clean(path))
	if err != nil {
		return err
	}
	return errors.Join(formatSamples(file, samples), file.Close())
}

func formatSamples(w io.Writer, samples []sample) error {
	buffer := bufio.NewWriter(w)
	fmt.Fprintf(buffer, "goos: %s\ngoarch: %s\npkg: paygrid/cmd/loadtest\n", runtime.GOOS, runtime.GOARCH)
	fmt.Fprint(buffer, "Unit steps/s better=higher\nUnit payments/s better=higher\n")
	for _, s := range samples {
		if s.steps == 0 {
			continue
		}
		fmt.Fprintf(buffer, "BenchmarkApply/%s %d %d ns/op %.0f steps/s %.0f payments/s\n", s.cell, s.steps, s.elapsed.Nanoseconds()/s.steps,
			s.stepsPerSecond(), s.paymentsPerSecond())
	}
	return buffer.Flush()
}
