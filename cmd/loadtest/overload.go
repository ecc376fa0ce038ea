package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"paygrid/loadtest"
)

// findCapacity is --overload's word for a capacity that is not known.
const findCapacity = "find"

// The climb that finds a capacity: from what any machine takes to what none like ours does.
const (
	climbProfile  = "ramp:100-1600:180s"
	climbPrefix   = "climb-"
	overloadTries = 2 // a shop comes back once, when it is told to
)

func (o *runOptions) overloadFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.overload, "overload", "", "in place of a profile: so many payments/s for 30 s, twice as many for a minute,\n"+
		"half as many for 30 s; or find: climb first, as long as what is paid keeps up with what is offered")
	flags.Float64Var(&o.bounds.MinKept, "min-kept", 90, "with --overload: FAIL if it leaves fewer authorizations/s, in percent of those before")
	flags.DurationVar(&o.bounds.MaxRecovery, "max-recovery", 5*time.Second, "with --overload: FAIL if it takes longer until all is as before")
	flags.IntVar(&o.shedTries, "shed-tries", 0, "tries of a call that is turned away under stress; 0: 2 with --overload, else as many as of others")
	flags.BoolVar(&o.impatient, "impatient-shops", false, "shops do not wait as long as Retry-After says")
}

// planOverload lays the profile of --overload, as far as the capacity is known.
func (o *runOptions) planOverload() (err error) {
	switch {
	case o.overload == "":
		o.bounds.MinKept, o.bounds.MaxRecovery = 0, 0
		return nil
	case o.trace != "":
		return errors.New("--overload: a trace has its own profile")
	case o.limitOwn > 0:
		return errors.New("--limit-own-p99: an overload has no ramp that it could end")
	}
	if o.shedTries == 0 {
		o.shedTries = overloadTries
	}
	if o.overload == findCapacity {
		o.traffic.segments, err = loadtest.ParseSegments(climbProfile)
		return err
	}
	capacity, err := strconv.ParseFloat(o.overload, 64)
	if err != nil || !(capacity > 0) || capacity > maxCapacity {
		return fmt.Errorf("--overload %q: want payments a second, or %s", o.overload, findCapacity)
	}
	o.traffic.segments = loadtest.Overload(capacity)
	return nil
}

// maxCapacity is far beyond what one generator can send.
const maxCapacity = 10_000

// find climbs to the capacity, and lays the profile by it.
func (o *runOptions) find(ctx context.Context, c *cluster, stderr io.Writer) error {
	ascent := *o
	ascent.prefix = climbPrefix + o.prefix
	t, err := newTrial(ascent, c, stderr)
	if err != nil {
		return err
	}
	capacity, err := t.capacity(ctx)
	if err != nil {
		return fmt.Errorf("find the capacity: %w", err)
	}
	if capacity = math.Round(capacity); capacity < 1 {
		return errors.New("find the capacity: payments never kept up with the first arrivals; see what the cluster answers, or name a capacity with --overload")
	}
	fmt.Fprintf(stderr, "the capacity is %.0f payments/s\n", capacity)
	o.traffic.segments, o.overload = loadtest.Overload(capacity), strconv.FormatFloat(capacity, 'f', 0, 64)
	return nil
}
