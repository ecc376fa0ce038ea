package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"paygrid/ledger"
	"paygrid/loadtest"
	"paygrid/payment"
	"paygrid/psprouter/simulator"
	"paygrid/shard"
)

// overlooked reads the books once for two readers: Verify, which compares everything with everything, and the audit, which
// compares them with what the API acknowledged.
type overlooked struct {
	*shard.Cluster
	audit *loadtest.Audit
}

// Walk shows each span to the audit, too.
func (o overlooked) Walk(ctx context.Context, shardName string, visit func(shard.Span) error) error {
	return o.Cluster.Walk(ctx, shardName, func(span shard.Span) error {
		for _, p := range span.Payments {
			o.audit.Payment(loadtest.Booked{ID: p.ID, Client: p.ClientID, Order: p.OrderID, Currency: string(p.Currency), Status: string(p.Status),
				Authorized: p.Authorized, Captured: p.Captured, Refunding: p.Refunding, Refunded: p.Refunded})
		}
		for _, e := range span.Entries {
			for _, posting := range e.Postings {
				o.audit.Posting(string(e.Currency), string(posting.Debit), string(posting.Credit), posting.Minor)
			}
		}
		return visit(span)
	})
}

// compareBooks compares all books with each other, and with what the API acknowledged to this process. Those of the PSPs are read
// first: payments must stand still meanwhile.
func compareBooks(ctx context.Context, shards *shard.Cluster, sims map[string]string, player *loadtest.Player, prefix string,
) (*loadtest.Audit, *loadtest.BooksRow, error) {
	moved, err := witness(ctx, sims)
	if err != nil {
		return nil, nil, err
	}
	a := loadtest.NewAudit(player.Acknowledged())
	a.Run(prefix)
	a.Refused(player.Refused())
	verified, err := payment.Verify(ctx, overlooked{shards, a}, moved)
	if err != nil {
		return nil, nil, err
	}
	return a, booksRow(verified), nil
}

func explainSlowest(ctx context.Context, shards *shard.Cluster, r *loadtest.Report) {
	for n := range r.Slowest {
		r.Slowest[n].Explain = explain(ctx, shards, r.Slowest[n].Payment)
	}
}

func booksRow(v *payment.Report) *loadtest.BooksRow {
	row := &loadtest.BooksRow{Shards: v.Shards, Payments: v.Payments, Attempts: v.Attempts, Refunds: v.Refunds, Entries: v.Entries, Events: v.Events,
		Witnessed: v.Witnessed, Unknown: v.Pending, DoubleCharges: v.DoubleCharges, Lost: v.Lost, Unbalanced: v.Unbalanced}
	for _, f := range v.Findings {
		row.Findings = append(row.Findings, fmt.Sprintf("%s %s: %s", f.Invariant, f.Where, f.Detail))
	}
	return row
}

// explain is the story of a payment; "" if nobody named it.
func explain(ctx context.Context, shards *shard.Cluster, id string) string {
	if id == "" {
		return ""
	}
	var text bytes.Buffer
	x, err := payment.Explain(ctx, shards, id)
	if err == nil {
		err = x.Write(&text)
	}
	if err != nil {
		return err.Error()
	}
	return text.String()
}

// witness reads the books of all simulators; nil if none is known.
func witness(ctx context.Context, sims map[string]string) ([]payment.Moved, error) {
	if len(sims) == 0 {
		return nil, nil
	}
	out := []payment.Moved{}
	for psp, url := range sims {
		books, err := fetchBooks(ctx, url+"/sim/books")
		if err != nil {
			return nil, fmt.Errorf("the books of %s: %w", psp, err)
		}
		for _, x := range books.Witness() {
			out = append(out, payment.Moved{PSPRef: x.Ref, Attempt: x.Attempt, Currency: ledger.Currency(x.Currency), Authorized: x.Authorized,
				Captured: x.Captured, Refunded: x.Refunded, Voided: x.Released, Charges: x.Authorizations})
		}
	}
	return out, nil
}

func fetchBooks(ctx context.Context, url string) (books simulator.Books, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return books, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return books, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return books, fmt.Errorf("HTTP %d", response.StatusCode)
	}
	return books, json.NewDecoder(response.Body).Decode(&books)
}
