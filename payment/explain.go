package payment

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"paygrid/shard"
)

// Explanation is the whole story of one payment, for people.
type Explanation struct {
	Payment  View           `json:"payment"`
	Client   string         `json:"client"`
	State    string         `json:"state"` // as stored
	Version  int64          `json:"version"`
	PSPRef   string         `json:"pspRef,omitempty"`
	Bucket   string         `json:"bucket"`
	Shard    string         `json:"shard"`
	Epoch    int64          `json:"epoch"`
	Attempts []AttemptStory `json:"attempts"`
	Notices  []NoticeStory  `json:"notices"`
	Refunds  []RefundView   `json:"refunds"`
	Entries  []EntryView    `json:"entries"`
	Events   []EventStory   `json:"events"`
}

// AttemptStory is one call out to a PSP.
type AttemptStory struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	PSP       string    `json:"psp"`
	Minor     int64     `json:"minor"`
	Status    string    `json:"status"`
	Outcome   string    `json:"outcome"` // "" = no answer was recorded
	Routed    string    `json:"routed,omitempty"`
	Code      string    `json:"code,omitempty"`
	Detail    string    `json:"detail,omitempty"`
	PSPRef    string    `json:"pspRef,omitempty"`
	SentAt    time.Time `json:"sentAt"`
	UpdatedAt time.Time `json:"updatedAt"`

	// What was done to find out, while no answer was there.
	Checks       int32     `json:"checks"`               // how often the PSP was asked
	AbsentChecks int32     `json:"absentChecks"`         // how many of the last checks found no record there
	Escalated    bool      `json:"escalated"`            // people were told
	NextCheckAt  time.Time `json:"nextCheckAt,omitzero"` // zero once it has its end
}

// NoticeStory is a PSP's notice that named one of the attempts.
type NoticeStory struct {
	EventID    string    `json:"event"`
	PSP        string    `json:"psp"`
	Kind       string    `json:"kind"` // the PSP's word
	AttemptID  string    `json:"attempt"`
	State      string    `json:"state"` // what became of it
	Reason     string    `json:"reason,omitempty"`
	Tries      int32     `json:"tries"`
	ReceivedAt time.Time `json:"receivedAt"`
}

// EventStory is one event.
type EventStory struct {
	ID      string          `json:"id"`
	Version int64           `json:"version"`
	Type    string          `json:"type"`
	At      time.Time       `json:"at"`
	Payload json.RawMessage `json:"payload"`
}

// Explain reads the whole story of a payment, or returns shard.ErrNotFound.
func Explain(ctx context.Context, shards *shard.Cluster, paymentID string) (Explanation, error) {
	s, err := shards.Snapshot(ctx, paymentID)
	if err != nil {
		return Explanation{}, err
	}
	entries, err := shards.Entries(ctx, paymentID)
	if err != nil {
		return Explanation{}, err
	}
	events, err := shards.Events(ctx, paymentID)
	if err != nil {
		return Explanation{}, err
	}
	notices, err := noticesOf(ctx, shards, s)
	if err != nil {
		return Explanation{}, err
	}
	b, err := shard.BucketOfID(shard.PaymentPrefix, paymentID)
	if err != nil {
		return Explanation{}, err
	}
	owner := shards.Map().Owner(b)
	x := Explanation{Payment: viewOf(s.Payment), Client: s.Payment.ClientID, State: string(s.Payment.Status), Version: s.Payment.Version,
		PSPRef: s.Payment.PSPRef, Bucket: b.String(), Shard: owner.Shard, Epoch: owner.Epoch,
		Attempts: []AttemptStory{}, Notices: notices, Refunds: []RefundView{}, Entries: []EntryView{}, Events: []EventStory{}}
	for _, a := range s.Attempts {
		x.Attempts = append(x.Attempts, attemptStoryOf(a))
	}
	for _, r := range s.Refunds {
		x.Refunds = append(x.Refunds, refundViewOf(r, s.Payment))
	}
	for _, e := range entries {
		x.Entries = append(x.Entries, entryViewOf(e))
	}
	for _, e := range events {
		x.Events = append(x.Events, EventStory{ID: shard.EventID(e.Bucket, e.Seq), Version: e.Version, Type: e.Type, At: e.CreatedAt.UTC(),
			Payload: e.Payload})
	}
	return x, nil
}

func attemptStoryOf(a shard.Attempt) AttemptStory {
	story := AttemptStory{ID: a.ID, Kind: a.Kind, PSP: a.PSP, Minor: a.Amount, Status: string(a.Status), Outcome: a.Outcome,
		Routed: a.RouteReason, Code: a.Code, Detail: a.Detail, PSPRef: a.PSPRef, SentAt: a.SentAt.UTC(), UpdatedAt: a.UpdatedAt.UTC(),
		Checks: a.Checks, AbsentChecks: a.Absent, Escalated: a.Escalated}
	if a.Status == Pending {
		story.NextCheckAt = a.NextCheckAt.UTC()
	}
	return story
}

// noticesOf reads what the PSPs said of a payment's attempts, whatever came of it.
func noticesOf(ctx context.Context, shards *shard.Cluster, s shard.Snapshot) ([]NoticeStory, error) {
	ids := make([]string, len(s.Attempts))
	for n, a := range s.Attempts {
		ids[n] = a.ID
	}
	items, err := shards.InboxOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make([]NoticeStory, len(items))
	for n, i := range items {
		out[n] = NoticeStory{EventID: i.EventID, PSP: i.PSP, Kind: i.Kind, AttemptID: i.AttemptID, State: string(i.State), Reason: i.Reason,
			Tries: i.Tries, ReceivedAt: i.ReceivedAt.UTC()}
	}
	return out, nil
}

// clockForm shows times of one payment: the day is in the heading.
const clockForm = "15:04:05.000"

// Write prints the story on one page.
func (x Explanation) Write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	p := x.Payment
	fmt.Fprintf(w, "payment %s\t\n", p.ID)
	fmt.Fprintf(w, "  state\t%s (version %d)\n", x.State, x.Version)
	fmt.Fprintf(w, "  amount\t%s: %d minor units, captured %d, refunding %d, refunded %d, capturable %d\n", p.Amount, p.Amount.Minor,
		p.Captured, p.Refunding, p.Refunded, p.Capturable)
	fmt.Fprintf(w, "  client\t%s, order %s\n", x.Client, p.OrderID)
	fmt.Fprintf(w, "  place\tbucket %s on %s at epoch %d\n", x.Bucket, x.Shard, x.Epoch)
	fmt.Fprintf(w, "  psp\t%s %s\n", p.PSP, x.PSPRef)
	fmt.Fprintf(w, "  since\t%s\n", p.CreatedAt.Format(time.RFC3339Nano))
	if p.DeclineCode+p.FailureCode != "" {
		fmt.Fprintf(w, "  refused\t%s%s: %s\n", p.DeclineCode, p.FailureCode, p.FailureCause)
	}
	x.writeAttempts(w)
	x.writeNotices(w)
	x.writeEntries(w)
	x.writeEvents(w)
	return w.Flush()
}

func (x Explanation) writeAttempts(w io.Writer) {
	fmt.Fprintf(w, "\nattempts\t\n")
	for _, a := range x.Attempts {
		outcome := a.Outcome
		if outcome == "" {
			outcome = "no answer recorded"
		}
		fmt.Fprintf(w, "  %s\t%s\t%d\t%s\t%s\t%s\n", a.SentAt.Format(clockForm), a.Kind, a.Minor, a.Status, outcome, a.ID)
		if a.Routed != "" {
			fmt.Fprintf(w, "  \trouted\t%s\n", a.Routed)
		}
		if a.Code+a.Detail != "" {
			fmt.Fprintf(w, "  \tsaid\t%s %s\n", a.Code, a.Detail)
		}
		a.writeChecks(w)
	}
	for _, r := range x.Refunds {
		fmt.Fprintf(w, "  %s\trefund\t%d\t%s\t\t%s\n", r.CreatedAt.Format(clockForm), r.Amount.Minor, r.Status, r.ID)
	}
}

// writeChecks tells what was done to find out, of an attempt that was not answered at once.
func (a AttemptStory) writeChecks(w io.Writer) {
	if a.Checks > 0 {
		fmt.Fprintf(w, "  \tchecked\t%d times, no record there in the last %d\n", a.Checks, a.AbsentChecks)
	}
	if a.Escalated {
		fmt.Fprintf(w, "  \tpeople\twere told\n")
	}
	if !a.NextCheckAt.IsZero() {
		fmt.Fprintf(w, "  \tnext check\t%s\n", a.NextCheckAt.Format(time.RFC3339))
	}
}

func (x Explanation) writeNotices(w io.Writer) {
	if len(x.Notices) == 0 {
		return
	}
	fmt.Fprintf(w, "\nnotices\t\n")
	for _, n := range x.Notices {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", n.ReceivedAt.Format(clockForm), n.Kind, n.State, n.EventID, n.AttemptID)
		if n.Reason != "" {
			fmt.Fprintf(w, "  \tbecause\t%s\n", n.Reason)
		}
	}
}

func (x Explanation) writeEntries(w io.Writer) {
	fmt.Fprintf(w, "\nentries\t\n")
	for _, e := range x.Entries {
		fmt.Fprintf(w, "  %s\t%s\n", e.CreatedAt.Format(clockForm), e.ID)
		for _, l := range e.Lines {
			sign := "+"
			if l.Side == "credit" {
				sign = "-"
			}
			fmt.Fprintf(w, "  \t%s\t%s%d\t%s\n", l.Account, sign, l.Minor, l.Currency)
		}
	}
}

func (x Explanation) writeEvents(w io.Writer) {
	fmt.Fprintf(w, "\nevents\t\n")
	for _, e := range x.Events {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", e.At.Format(clockForm), e.Type, e.ID)
	}
}
