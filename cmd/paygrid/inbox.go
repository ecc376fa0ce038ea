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

// runInbox lists the PSPs' notices that people must look at.
func runInbox(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "inbox", "list the PSPs' notices that changed nothing and that a person must look at, the oldest first")
	unmatched := flags.Bool("unmatched", false, "those that name nothing of ours; they are looked at again and again")
	misfit := flags.Bool("misfit", false, "those that contradict what they name: amount, currency, state")
	ask := askerFlags(flags, false)
	if _, err := parse(flags, args, 0, "flags alone"); err != nil {
		return err
	}
	var states []shard.Status
	if *unmatched {
		states = append(states, shard.InboxUnmatched)
	}
	if *misfit {
		states = append(states, shard.InboxMisfit)
	}
	if len(states) == 0 {
		return &usageError{"want --unmatched, --misfit or both"}
	}
	shards, err := openShards(ctx, *ask.mapPath)
	if err != nil {
		return err
	}
	defer shards.Close()
	items, err := inboxItems(ctx, shards, states)
	if *ask.asJSON {
		return errors.Join(printJSON(e.out, items), err)
	}
	return errors.Join(writeInbox(e.out, items, time.Now()), err)
}

func inboxItems(ctx context.Context, shards *shard.Cluster, states []shard.Status) ([]shard.InboxItem, error) {
	items, err := onShards(shards, func(name string) ([]shard.InboxItem, error) {
		var out []shard.InboxItem
		for _, state := range states {
			some, err := shards.Inbox(ctx, name, state, listLimit)
			if err != nil {
				return out, err
			}
			out = append(out, some...)
		}
		return out, nil
	})
	slices.SortFunc(items, func(x, y shard.InboxItem) int { return x.ReceivedAt.Compare(y.ReceivedAt) })
	return items, err
}

func writeInbox(out io.Writer, items []shard.InboxItem, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprint(w, "age\tstate\tpsp\tkind\tevent\tattempt\treference\ttries\treason\n")
	for _, i := range items {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", age(i.ReceivedAt, now), i.State, i.PSP, i.Kind, i.EventID, orDash(i.AttemptID),
			orDash(i.Reference), i.Tries, i.Reason)
	}
	fmt.Fprintf(w, "%d notices; a shard lists at most %d of each state. --json shows what they said\n", len(items), listLimit)
	return w.Flush()
}

// orDash keeps an empty column visible.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
