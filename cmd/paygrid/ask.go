package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"paygrid/ledger"
	"paygrid/payment"
	"paygrid/psprouter/simulator"
	"paygrid/schema"
	"paygrid/shard"
)

// openShards opens the cluster of a map for a command that only asks.
func openShards(ctx context.Context, path string) (*shard.Cluster, error) {
	c, err := shard.Open(ctx, shard.NewMapFile(path), shard.Options{Lanes: 1, Now: time.Now}, nil)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w; name the shard map with --map (paygrid dev prints where it is)", err)
	}
	return c, err
}

func mapFlag() string {
	if path := os.Getenv("PAYGRID_MAP"); path != "" {
		return path
	}
	return filepath.Join(defaultDir, "shards.json")
}

const mapHelp = "the shard map's file; the environment variable PAYGRID_MAP names another default"

func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// runExplain tells the story of a payment.
func runExplain(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "explain", "tell the whole story of a payment on one page")
	mapPath := flags.String("map", mapFlag(), mapHelp)
	asJSON := flags.Bool("json", false, "print JSON")
	rest, err := parse(flags, args, 1, "one payment ID")
	if err != nil {
		return err
	}
	shards, err := openShards(ctx, *mapPath)
	if err != nil {
		return err
	}
	defer shards.Close()
	x, err := payment.Explain(ctx, shards, rest[0])
	if err != nil {
		return err
	}
	if *asJSON {
		return printJSON(e.out, x)
	}
	return x.Write(e.out)
}

// runBalance sums an account.
func runBalance(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "balance", "sum an account over all shards, with its sub-account on each; positive = debit")
	mapPath := flags.String("map", mapFlag(), mapHelp)
	currency := flags.String("currency", "", "ISO 4217 code (required)")
	asJSON := flags.Bool("json", false, "print JSON")
	rest, err := parse(flags, args, 1, "one account, such as seller_payable:s-ann")
	if err != nil {
		return err
	}
	account, err := ledger.ParseAccount(rest[0])
	if err != nil {
		return &usageError{err.Error()}
	}
	code, err := ledger.ParseCurrency(*currency)
	if err != nil {
		return &usageError{fmt.Sprintf("--currency: %v", err)}
	}
	shards, err := openShards(ctx, *mapPath)
	if err != nil {
		return err
	}
	defer shards.Close()
	balance, err := shards.Balance(ctx, account, code)
	if err != nil {
		return err
	}
	if *asJSON {
		return printJSON(e.out, balance)
	}
	return writeBalance(e.out, balance)
}

func writeBalance(out io.Writer, b shard.Balance) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s %s at %s\n\nshard\tbuckets\tdebits\tcredits\t\n", b.Account, b.Currency, b.At.UTC().Format(time.RFC3339))
	for _, p := range b.Parts {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t\n", p.Shard, p.Buckets, p.Debits, p.Credits)
	}
	fmt.Fprintf(w, "\nbalance (minor units, positive = debit)\t%s\t\n", b.Minor)
	return w.Flush()
}

// runVerify compares everything with everything.
func runVerify(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "verify", "compare all rows of all shards with each other; exit code 1 on any finding")
	mapPath := flags.String("map", mapFlag(), mapHelp)
	books := flags.String("books", "", "comma-separated URLs of the books (…/sim/books) of all PSP simulators that were used, to "+
		"compare with; payments must stand still meanwhile")
	asJSON := flags.Bool("json", false, "print JSON")
	if _, err := parse(flags, args, 0, "flags alone"); err != nil {
		return err
	}
	shards, err := openShards(ctx, *mapPath)
	if err != nil {
		return err
	}
	defer shards.Close()
	var moved []payment.Moved
	if *books != "" {
		if moved, err = fetchMoved(ctx, *books); err != nil {
			return err
		}
	}
	report, err := payment.Verify(ctx, shards, moved)
	if err != nil {
		return err
	}
	if *asJSON {
		err = printJSON(e.out, report)
	} else {
		err = writeReport(e.out, report)
	}
	if err == nil && !report.Pass() {
		err = errFound
	}
	return err
}

func writeReport(w io.Writer, r *payment.Report) error {
	fmt.Fprintf(w, "%d shards, %d buckets, %d payments, %d attempts (%d pending), %d refunds, %d keys, %d entries, %d events\n", r.Shards,
		r.Buckets, r.Payments, r.Attempts, r.Pending, r.Refunds, r.Keys, r.Entries, r.Events)
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s  %s: %s\n", f.Invariant, f.Where, f.Detail)
	}
	verdict := "VERIFY PASS"
	if !r.Pass() {
		verdict = fmt.Sprintf("VERIFY FAIL findings=%d", len(r.Findings))
	}
	_, err := fmt.Fprintf(w, "%s double_charges=%d lost=%d unbalanced=%d pending=%d\n", verdict, r.DoubleCharges, r.Lost, r.Unbalanced, r.Pending)
	return err
}

// fetchMoved reads all books of a list: what a PSP moved whose books are not in it would seem to be missing there.
func fetchMoved(ctx context.Context, urls string) ([]payment.Moved, error) {
	var all []simulator.Books
	for url := range strings.SplitSeq(urls, ",") {
		books, err := fetchBooks(ctx, strings.TrimSpace(url))
		if err != nil {
			return nil, err
		}
		all = append(all, books)
	}
	return movedBy(all...), nil
}

func fetchBooks(ctx context.Context, url string) (books simulator.Books, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return books, &usageError{fmt.Sprintf("--books: %v", err)}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return books, err
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(&books); err != nil {
		return books, fmt.Errorf("%s: %w", url, err)
	}
	return books, nil
}

// movedBy reads the books of simulators as verify wants a witness's. A simulator counts approvals by the card, so a second
// authorization under one reference shows as a second charge.
func movedBy(books ...simulator.Books) []payment.Moved {
	out := []payment.Moved{}
	for _, b := range books {
		for _, x := range b.Witness() {
			out = append(out, payment.Moved{PSPRef: x.Ref, Attempt: x.Attempt, Currency: ledger.Currency(x.Currency), Authorized: x.Authorized,
				Captured: x.Captured, Refunded: x.Refunded, Voided: x.Released, Charges: x.Authorizations})
		}
	}
	return out
}

// adminURLs are --admin shard=URL flags.
type adminURLs map[string]string

func (a adminURLs) String() string { return "" }

func (a adminURLs) Set(text string) error {
	for n := range text {
		if text[n] == '=' && n > 0 {
			a[text[:n]] = text[n+1:]
			return nil
		}
	}
	return errors.New("want shard=URL")
}

// runMigrate lays the tables and bucket rows of every shard.
func runMigrate(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "migrate", "lay or update the tables of every shard of a map; it can be run again")
	mapPath := flags.String("map", mapFlag(), mapHelp)
	admin := adminURLs{}
	flags.Var(admin, "admin", "shard=URL of a role that may create tables and roles; once for each shard")
	if _, err := parse(flags, args, 0, "flags alone"); err != nil {
		return err
	}
	m, err := shard.NewMapFile(*mapPath).Load(ctx)
	if err != nil {
		return err
	}
	for _, name := range m.Names() {
		if admin[name] == "" {
			return &usageError{fmt.Sprintf("--admin %s=URL is missing: services' own role may not create tables", name)}
		}
	}
	for _, name := range m.Names() {
		if err := schema.Migrate(ctx, admin[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := shard.Place(ctx, admin[name], name, m); err != nil {
			return err
		}
		fmt.Fprintf(e.out, "%s migrated\n", name)
	}
	return nil
}
