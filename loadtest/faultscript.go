package loadtest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FaultKind is what a line of a fault script does.
type FaultKind string

// The kinds.
const (
	PSPOutage       FaultKind = "psp outage"       // Name says which, Mode how, For how long
	KillRouter      FaultKind = "kill router"      // Number says which, from 1: ended at once, as by a lost machine
	StartRouter     FaultKind = "start router"     // Number: one that was killed comes back on its address
	KafkaDown       FaultKind = "kafka down"       // For
	DatabaseRestart FaultKind = "database restart" // every connection is lost, and what was committed is recovered
	WorkerPause     FaultKind = "worker pause"     // For: the worker's process stands still and wakes with old leases
)

// Fault is one line of a fault script.
type Fault struct {
	At     time.Duration `json:"at"` // from the run's start
	Kind   FaultKind     `json:"kind"`
	Name   string        `json:"name,omitempty"`
	Mode   string        `json:"mode,omitempty"`
	Number int           `json:"number,omitempty"`
	For    time.Duration `json:"for,omitempty"`
}

// String is the fault as it is written.
func (f Fault) String() string {
	text := fmt.Sprintf("at %s: ", f.At)
	switch f.Kind {
	case PSPOutage:
		return text + strings.TrimSpace(fmt.Sprintf("psp %s outage %s %s", f.Name, f.For, f.Mode))
	case KillRouter, StartRouter:
		return text + fmt.Sprintf("%s %d", f.Kind, f.Number)
	case DatabaseRestart:
		return text + string(f.Kind)
	}
	return text + fmt.Sprintf("%s %s", f.Kind, f.For)
}

// faultForms are what may follow "at TIME: ", with the names that the groups have.
var faultForms = []struct {
	kind FaultKind
	form *regexp.Regexp
	like string
}{
	{PSPOutage, regexp.MustCompile(`^psp (?P<name>[a-z][a-z0-9_]*) outage (?P<for>\S+)(?: (?P<mode>503|reset|timeout))?$`),
		"psp stripe outage 30s [503|reset|timeout]"},
	{KillRouter, regexp.MustCompile(`^kill router (?P<number>[0-9]+)$`), "kill router 2"},
	{StartRouter, regexp.MustCompile(`^start router (?P<number>[0-9]+)$`), "start router 2"},
	{KafkaDown, regexp.MustCompile(`^kafka down (?P<for>\S+)$`), "kafka down 20s"},
	{DatabaseRestart, regexp.MustCompile(`^database restart$`), "database restart"},
	{WorkerPause, regexp.MustCompile(`^worker pause (?P<for>\S+)$`), "worker pause 20s"},
}

// Limits of a script.
const (
	maxFaults   = 1000
	maxFaultFor = 24 * time.Hour
)

// ScriptError is a line of a fault script that means nothing.
type ScriptError struct{ Line, Remedy string }

func (e *ScriptError) Error() string { return fmt.Sprintf("fault script: %q: %s", e.Line, e.Remedy) }

// ParseFaults reads "at 60s: psp stripe outage 30s; at 90s: kill router 2": lines end with a semicolon or a new line, # begins a
// comment. The faults come back in the order of their times. Errors are *ScriptError.
func ParseFaults(text string) ([]Fault, error) {
	var out []Fault
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\n", ";"), ";") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.Join(strings.Fields(line), " "); line == "" {
			continue
		}
		f, err := parseFault(line)
		if err != nil {
			return nil, err
		}
		if out = append(out, f); len(out) > maxFaults {
			return nil, &ScriptError{line, fmt.Sprintf("at most %d lines", maxFaults)}
		}
	}
	slices.SortStableFunc(out, func(a, b Fault) int { return int(a.At - b.At) })
	return out, nil
}

func parseFault(line string) (Fault, error) {
	when, what, ok := strings.Cut(strings.TrimPrefix(line, "at "), ": ")
	at, err := time.ParseDuration(when)
	if !ok || err != nil || at < 0 || !strings.HasPrefix(line, "at ") {
		return Fault{}, &ScriptError{line, "want at TIME: FAULT, such as at 60s: psp stripe outage 30s"}
	}
	var like []string
	for _, f := range faultForms {
		if match := f.form.FindStringSubmatch(what); match != nil {
			return readFault(Fault{At: at, Kind: f.kind}, f.form, match, line)
		}
		like = append(like, f.like)
	}
	return Fault{}, &ScriptError{line, "want one of: " + strings.Join(like, "; ")}
}

func readFault(f Fault, form *regexp.Regexp, match []string, line string) (_ Fault, err error) {
	for n, name := range form.SubexpNames() {
		switch name {
		case "name":
			f.Name = match[n]
		case "mode":
			f.Mode = match[n]
		case "number":
			if f.Number, err = strconv.Atoi(match[n]); err != nil || f.Number < 1 {
				return f, &ScriptError{line, "routers are numbered from 1"}
			}
		case "for":
			if f.For, err = time.ParseDuration(match[n]); err != nil || f.For <= 0 || f.For > maxFaultFor {
				return f, &ScriptError{line, fmt.Sprintf("want a duration such as 30s, at most %s", maxFaultFor)}
			}
		}
	}
	return f, nil
}
