package main

import (
	"flag"
	"fmt"
	"io"
	"path/filepath"

	"paygrid/loadtest"
)

const mergeUsage = `usage: loadtest merge a.json b.json … [--json FILE] [--html FILE]

Makes one report, with one verdict, of the reports of all parts of a run. Several generators share a trace so, each with its own k:

  loadtest run --part k/n --start TIME --json part-k.json --url … --key … --map … --sim … --profile … (or --trace FILE)

All parts play the same trace against the same cluster, and wait until its books stand still before they compare them.

`

// runMerge makes one report of those of all parts of a run; the exit code is its verdict.
func runMerge(args []string, stdout, stderr io.Writer) error {
	var o runOptions
	flags := flag.NewFlagSet("loadtest merge", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, mergeUsage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.json, "json", "", "file for the report as JSON")
	flags.StringVar(&o.html, "html", "", "file for the report as one page with plots")
	var reports []loadtest.Kept
	for { // flags may come after files
		if err := flags.Parse(args); err != nil {
			return err
		}
		if flags.NArg() == 0 {
			break
		}
		name := flags.Arg(0)
		args = flags.Args()[1:]
		r, err := readReport(name)
		if err != nil {
			return err
		}
		reports = append(reports, loadtest.Kept{Name: name, Report: r})
	}
	for _, k := range reports {
		if filepath.Clean(k.Name) == filepath.Clean(o.json) || filepath.Clean(k.Name) == filepath.Clean(o.html) {
			return &loadtest.MergeError{Report: k.Name, Field: "json, html", Remedy: "it would be overwritten: name another file"}
		}
	}
	merged, err := loadtest.Merge(reports)
	if err != nil {
		return err
	}
	if err := o.write(merged, stdout); err != nil {
		return err
	}
	if !merged.Pass {
		return errFailed
	}
	return nil
}
