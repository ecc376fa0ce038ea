package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"paygrid/shard"
)

// runApprovals lists what waits for a second person.
func runApprovals(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "approvals", "list what one person asked for and another must decide, the oldest first")
	ask := askerFlags(flags, false)
	if _, err := parse(flags, args, 0, "flags alone"); err != nil {
		return err
	}
	shards, err := openShards(ctx, *ask.mapPath)
	if err != nil {
		return err
	}
	defer shards.Close()
	open, err := onShards(shards, func(name string) ([]shard.Approval, error) { return shards.OpenApprovals(ctx, name, listLimit) })
	slices.SortFunc(open, func(x, y shard.Approval) int { return x.RequestedAt.Compare(y.RequestedAt) })
	if *ask.asJSON {
		return errors.Join(printJSON(e.out, open), err)
	}
	return errors.Join(writeApprovals(e.out, open, time.Now()), err)
}

func writeApprovals(out io.Writer, open []shard.Approval, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprint(w, "age\tapproval\tkind\tdecision\treference\tsubject\tpayment\tby\treason\n")
	for _, a := range open {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", age(a.RequestedAt, now), a.ID, a.Kind, a.Decision, orDash(a.Reference),
			a.SubjectID, a.PaymentID, a.RequestedBy, a.Reason)
	}
	fmt.Fprintf(w, "%d open\n", len(open))
	return w.Flush()
}

// runApprove and runReject are the second person's word.
func runApprove(ctx context.Context, e env, args []string) error {
	return runDecide(ctx, e, args, "approvals approve", "agree to what another person asked for, and carry it out", (*desk).approve)
}

func runReject(ctx context.Context, e env, args []string) error {
	return runDecide(ctx, e, args, "approvals reject", "refuse what another person asked for", (*desk).reject)
}

func runDecide(ctx context.Context, e env, args []string, name, intro string,
	decide func(*desk, context.Context, string) (shard.Approval, error)) error {
	flags := newFlags(e, name, intro)
	ask := askerFlags(flags, true)
	rest, err := parse(flags, args, 1, "one approval ID")
	if err != nil {
		return err
	}
	d, err := ask.sit(ctx, e)
	if err != nil {
		return err
	}
	defer d.shards.Close()
	a, err := decide(d, ctx, rest[0])
	if err != nil {
		return err
	}
	if *ask.asJSON {
		return printJSON(e.out, a)
	}
	_, err = fmt.Fprintf(e.out, "%s %s by %s: %s %s as %s\n", a.ID, a.State, a.DecidedBy, a.Kind, a.SubjectID, a.Decision)
	return err
}

// approve decides and carries out. It can be run again by the same person should the process have died in between; one who
// comes second to a decision is refused.
func (d *desk) approve(ctx context.Context, id string) (shard.Approval, error) {
	a, err := d.shards.Approval(ctx, id)
	if err != nil {
		return a, err
	}
	outcome, ok := outcomeBy(a.Decision, a.Reference)
	if a.Kind != settleAttempt || !ok {
		return a, fmt.Errorf("%s: this program cannot carry out %s %q", id, a.Kind, a.Decision)
	}
	// What cannot be carried out is not approved. Another answer may still come in between: then the first wins.
	if a.State == shard.ApprovalOpen && a.RequestedBy != d.person {
		if err := d.service.CheckByHand(ctx, a.PaymentID, a.SubjectID, outcome, a.Reason); err != nil {
			return a, fmt.Errorf("it cannot be carried out any more, reject it: %w", err)
		}
	}
	a, err = d.decide(ctx, id, true)
	if errors.Is(err, shard.ErrConflict) && a.State == shard.ApprovalApproved && a.DecidedBy == d.person {
		err = nil
	}
	if err != nil {
		return a, err
	}
	both := fmt.Sprintf("asked by %s, approved by %s", a.RequestedBy, a.DecidedBy)
	if err := d.service.SettleByHand(ctx, a.PaymentID, a.SubjectID, outcome, both, a.Reason); err != nil {
		return a, fmt.Errorf("%s is approved and not carried out, run this again: %w", id, err)
	}
	return a, nil
}

func (d *desk) reject(ctx context.Context, id string) (shard.Approval, error) {
	return d.decide(ctx, id, false)
}

// decide stores the word and logs every try of it, the refused ones too.
func (d *desk) decide(ctx context.Context, id string, approve bool) (shard.Approval, error) {
	a, err := d.shards.DecideApproval(ctx, id, d.person, approve, time.Now())
	d.log.InfoContext(ctx, "an approval was decided", "approval", id, "approve", approve, "by", d.person, "requested_by", a.RequestedBy,
		"state", a.State, "error", err)
	switch {
	case errors.Is(err, shard.ErrSamePerson):
		return a, fmt.Errorf("%s: %w: %s asked for it, so another person must decide", id, err, a.RequestedBy)
	case errors.Is(err, shard.ErrConflict):
		return a, fmt.Errorf("%s is %s by %s already: %w", id, a.State, a.DecidedBy, err)
	}
	return a, err
}
