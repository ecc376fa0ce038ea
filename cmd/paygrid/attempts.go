package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"paygrid/psprouter"
	"paygrid/shard"
)

// pendingRow is an attempt without an answer, and where it lies.
type pendingRow struct {
	Shard string `json:"shard"`
	AgeMS int64  `json:"ageMs"`
	shard.PendingAttempt
}

// runAttempts lists the attempts that nobody has an answer for.
func runAttempts(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "attempts", "list the attempts without an answer, on all shards, the oldest first")
	pending := flags.Bool("pending", false, "those without an answer (required: there is no other list)")
	olderThan := flags.Duration("older-than", 0, "only those sent longer ago, such as 15m")
	ask := askerFlags(flags, false)
	if _, err := parse(flags, args, 0, "flags alone"); err != nil {
		return err
	}
	if !*pending || *olderThan < 0 {
		return &usageError{"want --pending, and --older-than not below zero"}
	}
	shards, err := openShards(ctx, *ask.mapPath)
	if err != nil {
		return err
	}
	defer shards.Close()
	now := time.Now()
	rows, err := pendingRows(ctx, shards, now, *olderThan)
	if *ask.asJSON {
		return errors.Join(printJSON(e.out, rows), err)
	}
	return errors.Join(writePending(e.out, rows, now), err)
}

func pendingRows(ctx context.Context, shards *shard.Cluster, now time.Time, olderThan time.Duration) ([]pendingRow, error) {
	rows, err := onShards(shards, func(name string) ([]pendingRow, error) {
		some, err := shards.PendingAttempts(ctx, name, now.Add(-olderThan), listLimit)
		out := make([]pendingRow, len(some))
		for n, a := range some {
			out[n] = pendingRow{Shard: name, AgeMS: now.Sub(a.SentAt).Milliseconds(), PendingAttempt: a}
		}
		return out, err
	})
	slices.SortFunc(rows, func(x, y pendingRow) int { return x.SentAt.Compare(y.SentAt) })
	return rows, err
}

func writePending(out io.Writer, rows []pendingRow, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprint(w, "age\tkind\tpsp\tminor\toutcome\tchecks\tabsent\tpeople\tnext check\tattempt\tpayment\tshard\tdetail\n")
	for _, r := range rows {
		told := "-"
		if r.Escalated {
			told = "told"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", age(r.SentAt, now), r.Kind, r.PSP, r.Amount,
			orDash(r.Outcome), r.Checks, r.Absent, told, r.NextCheckAt.UTC().Format(time.RFC3339), r.AttemptID, r.PaymentID, r.Shard, r.Detail)
	}
	fmt.Fprintf(w, "%d attempts without an answer; a shard lists at most %d\n", len(rows), listLimit)
	return w.Flush()
}

// The decisions about an attempt, as they are stored with the request.
const (
	decidedApproved = "approved"
	decidedDeclined = "declined"
	decidedAbsent   = "absent"
)

// outcomeBy is a decision as an outcome; ok is false for no decision.
func outcomeBy(decision, reference string) (o psprouter.Outcome, ok bool) {
	switch decision {
	case decidedApproved:
		return psprouter.ApprovedAs(reference), true
	case decidedDeclined:
		return psprouter.DeclinedWith("settled_by_hand", ""), true
	case decidedAbsent:
		return psprouter.NotSentBecause(""), true
	}
	return psprouter.Outcome{}, false
}

// settleAttempt is the kind of approvals that end an attempt.
const settleAttempt = "settle_attempt"

// runSettle asks for an attempt to be settled by hand. Nothing is settled before a second person agrees.
func runSettle(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "attempts settle",
		"ask for an attempt without an answer to be settled by hand; a second person decides (paygrid approvals)")
	decision := flags.String("as", "", "approved, declined, or absent: the PSP never had it (required)")
	reference := flags.String("reference", "", "the PSP's ID, as its dashboard shows it; required with approved")
	reason := flags.String("reason", "", "where you saw it (required)")
	ask := askerFlags(flags, true)
	rest, err := parse(flags, args, 1, "one attempt ID")
	if err != nil {
		return err
	}
	outcome, ok := outcomeBy(*decision, *reference)
	if !ok || *reason == "" {
		return &usageError{"want --as approved, declined or absent, and --reason"}
	}
	d, err := ask.sit(ctx, e)
	if err != nil {
		return err
	}
	defer d.shards.Close()
	a, err := d.request(ctx, rest[0], *decision, *reference, *reason, outcome)
	if err != nil {
		return err
	}
	if *ask.asJSON {
		return printJSON(e.out, a)
	}
	_, err = fmt.Fprintf(e.out, "%s asked by %s: settle %s as %s\nanother person decides: paygrid approvals approve %s\n", a.ID, a.RequestedBy,
		a.SubjectID, a.Decision, a.ID)
	return err
}

// request stores the request in the attempt's own bucket, if it could be carried out now.
func (d *desk) request(ctx context.Context, attemptID, decision, reference, reason string, o psprouter.Outcome) (shard.Approval, error) {
	paymentID, err := d.shards.PaymentOfAttempt(ctx, attemptID)
	if err != nil {
		return shard.Approval{}, err
	}
	if err := d.service.CheckByHand(ctx, paymentID, attemptID, o, reason); err != nil {
		return shard.Approval{}, err
	}
	bucket, err := shard.BucketOfID(shard.AttemptPrefix, attemptID)
	if err != nil {
		return shard.Approval{}, err
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	a := shard.Approval{ID: shard.NewID(shard.ApprovalPrefix, bucket, now), Kind: settleAttempt, PaymentID: paymentID, SubjectID: attemptID,
		Decision: decision, Reference: reference, Reason: reason, State: shard.ApprovalOpen, RequestedBy: d.person, RequestedAt: now}
	if err := d.shards.RequestApproval(ctx, a); err != nil {
		return shard.Approval{}, err
	}
	d.log.InfoContext(ctx, "an approval was asked for", "approval", a.ID, "kind", a.Kind, "payment", paymentID, "subject", attemptID,
		"decision", decision, "reference", reference, "reason", reason, "by", d.person)
	return a, nil
}
