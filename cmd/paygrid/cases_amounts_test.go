package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"paygrid/payment"
)

// refusedBody is a body that must be refused, and how.
type refusedBody struct {
	name, path, body string
	status           int
	field            string // "" = not looked at
}

// refuseAll sends bodies that must be refused, and checks that the PSP heard of none and nothing was written.
func refuseAll(t *testing.T, g *testGrid, cases []refusedBody) {
	t.Helper()
	before, keys, entries := g.tally(), g.sum(t, `SELECT count(*) FROM idempotency_keys`), g.sum(t, `SELECT count(*) FROM journal_entries`)
	for n, c := range cases {
		r := g.callers[n%2].post(t, c.path, fmt.Sprintf("k-refused-%d", n), c.body)
		if r.status != c.status || r.Code == "" || (c.field != "" && r.Field != c.field) {
			t.Errorf("%s: want %d with field %q, got %s", c.name, c.status, c.field, r)
		}
	}
	if got := g.tally(); got != before {
		t.Errorf("the PSP was called: %+v, before %+v", got, before)
	}
	if n := g.sum(t, `SELECT count(*) FROM idempotency_keys`); n != keys {
		t.Errorf("%d keys were stored", n-keys)
	}
	if n := g.sum(t, `SELECT count(*) FROM journal_entries`); n != entries {
		t.Errorf("%d entries were posted", n-entries)
	}
}

// split is one split in JSON.
func split(seller string, minor, commission int64) string {
	return fmt.Sprintf(`{"sellerId":%q,"minor":%d,"commissionMinor":%d}`, seller, minor, commission)
}

func splitList(splits ...string) string { return "[" + strings.Join(splits, ",") + "]" }

// TestC020: zero, negative, null. The same seller twice is refused, with 422.
func TestC020(t *testing.T) {
	const unprocessable = http.StatusUnprocessableEntity
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		_, captured := charge10(t, g.callers[0], "c020")
		_, authorized := authorize10(t, g.callers[1], "c020b")
		pay := func(minor int64, splits ...string) string {
			return body("o-c020c", "pm_ok", "automatic", fmt.Sprintf(`{"minor":%d,"currency":"EUR"}`, minor), splitList(splits...))
		}
		ann := split("s-ann", 7000, 700)
		refuseAll(t, g, []refusedBody{
			{"refund 0", captured + "/refunds", eur(0), unprocessable, "/amount/minor"},
			{"refund -500", captured + "/refunds", eur(-500), unprocessable, "/amount/minor"},
			{"refund null", captured + "/refunds", `{"amount":null}`, unprocessable, "/amount"},
			{"refund without minor", captured + "/refunds", `{"amount":{"currency":"EUR"}}`, http.StatusBadRequest, "/amount/minor"},
			{"capture 0", authorized + "/capture", eur(0), unprocessable, "/amount/minor"},
			{"capture -1", authorized + "/capture", eur(-1), unprocessable, "/amount/minor"},
			{"payment of 0", "/v1/payments", pay(0, split("s-ann", 0, 0)), unprocessable, "/amount/minor"},
			{"negative split", "/v1/payments", pay(10000, split("s-ann", 12000, 0), split("s-bob", -2000, 0)), unprocessable, "/splits/1/minor"},
			{"commission -1", "/v1/payments", pay(7000, split("s-ann", 7000, -1)), unprocessable, "/splits/0/commissionMinor"},
			{"commission above its split", "/v1/payments", pay(7000, split("s-ann", 7000, 7001)), unprocessable, "/splits/0/commissionMinor"},
			{"splits sum to 9999", "/v1/payments", pay(10000, ann, split("s-bob", 2999, 0)), unprocessable, "/splits"},
			{"no splits", "/v1/payments", pay(10000), unprocessable, "/splits"},
			{"same seller twice", "/v1/payments", pay(10000, ann, split("s-ann", 3000, 0)), unprocessable, "/splits/1/sellerId"},
		})
		if p := g.callers[0].get(t, captured); p.Refundable != 10000 {
			t.Errorf("refundable %d", p.Refundable)
		}
	})
}

// TestC026: shapes of a number. How the amount reads in Kafka and in a CSV waits for the relay and the reports; the stored event is looked at.
func TestC026(t *testing.T) {
	pay := func(order, minor string) string {
		return body(order, "pm_ok", "automatic", `{"minor":`+minor+`,"currency":"EUR"}`, `[{"sellerId":"s-ann","minor":`+minor+`,"commissionMinor":0}]`)
	}
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		var cases []refusedBody
		for _, minor := range []string{"1000.0", "1e3", `"1000"`, "1000.5", "9223372036854775808", "01000", "true"} {
			cases = append(cases, refusedBody{minor, "/v1/payments", pay("o-c026", minor), http.StatusBadRequest, ""})
		}
		cases = append(cases,
			refusedBody{"2^53+1", "/v1/payments", pay("o-c026", "9007199254740993"), http.StatusUnprocessableEntity, "/amount/minor"},
			refusedBody{"member twice", "/v1/payments", body("o-c026", "pm_ok", "automatic", `{"minor":1000,"minor":1,"currency":"EUR"}`,
				splitList(split("s-ann", 1000, 0))), http.StatusBadRequest, ""})
		refuseAll(t, g, cases)
		if r := g.callers[0].pay(t, "k-zero", pay("o-c026", "-0")); r.status != http.StatusBadRequest && r.status != http.StatusUnprocessableEntity {
			t.Errorf("-0: want 400 or 422, got %s", r)
		}
		g.callers[0].pay(t, "k-good", pay("o-c026", "1000")).want(t, http.StatusCreated)

		const large = "12345678901"
		r := g.callers[1].pay(t, "k-large", pay("o-c026-large", large)).want(t, http.StatusCreated)
		for what, text := range map[string]string{"answer": string(r.raw), "GET": string(g.callers[0].get(t, "/v1/payments/"+r.ID).raw),
			"ledger": string(g.callers[0].get(t, "/v1/payments/"+r.ID+"/ledger").raw)} {
			if !strings.Contains(text, `"minor":`+large+",") {
				t.Errorf("%s: no %s in %s", what, large, text)
			}
		}
		if n := g.sum(t, `SELECT count(*) FROM outbox WHERE payment_id = $1 AND payload->'amount'->>'minor' = $2`, r.ID, large); n != 2 {
			t.Errorf("%d events show the amount, want 2", n)
		}
	})
}

// TestC027: case and mismatch of the currency. (b) waits for webhooks, (d) for payouts.
func TestC027(t *testing.T) {
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		_, captured := charge10(t, g.callers[0], "c027")
		pay := func(currency string) string {
			return body("o-c027", "pm_ok", "automatic", fmt.Sprintf(`{"minor":1000,"currency":%q}`, currency), splitList(split("s-ann", 1000, 0)))
		}
		refuseAll(t, g, []refusedBody{
			{"lower case", "/v1/payments", pay("eur"), http.StatusUnprocessableEntity, "/amount/currency"},
			{"four letters", "/v1/payments", pay("EURO"), http.StatusUnprocessableEntity, "/amount/currency"},
			{"no currency", "/v1/payments", pay("XXX"), http.StatusUnprocessableEntity, "/amount/currency"},
			{"another one", captured + "/refunds", `{"amount":{"minor":1000,"currency":"USD"}}`, http.StatusUnprocessableEntity, "/amount/currency"},
		})
		g.callers[1].post(t, captured+"/refunds", "k-usd", `{"amount":{"minor":1000,"currency":"USD"}}`).
			wantCode(t, http.StatusUnprocessableEntity, payment.CodeCurrencyMismatch)
	})
}

// TestOverflow: amounts, splits and sums that would overflow int64, singly or when added up.
func TestOverflow(t *testing.T) {
	const most, limit = int64(9223372036854775807), int64(999_999_999_999)
	pay := func(minor int64, splits ...string) string {
		return body("o-overflow", "pm_ok", "automatic", fmt.Sprintf(`{"minor":%d,"currency":"EUR"}`, minor), splitList(splits...))
	}
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		_, captured := charge10(t, g.callers[0], "overflow")
		_, authorized := authorize10(t, g.callers[0], "overflow-b")
		const unprocessable = http.StatusUnprocessableEntity
		refuseAll(t, g, []refusedBody{
			{"amount of 2^63-1", "/v1/payments", pay(most, split("s-ann", most, 0)), unprocessable, "/amount/minor"},
			{"amount above the limit", "/v1/payments", pay(limit+1, split("s-ann", limit+1, 0)), unprocessable, "/amount/minor"},
			{"split of 2^63-1", "/v1/payments", pay(10000, split("s-ann", most, 0)), unprocessable, "/splits/0/minor"},
			{"commission of 2^63-1", "/v1/payments", pay(10000, split("s-ann", 10000, most)), unprocessable, "/splits/0/commissionMinor"},
			{"splits that wrap round to the amount", "/v1/payments", pay(10000, split("s-ann", most, 0), split("s-bob", most, 0), split("s-cy", 10002, 0)), unprocessable, ""},
			{"splits within the limit, their sum above", "/v1/payments", pay(limit, split("s-ann", limit, 0), split("s-bob", limit, 0)), unprocessable, "/splits"},
			{"capture of 2^63-1", authorized + "/capture", eur(most), unprocessable, "/amount/minor"},
			{"refund of 2^63-1", captured + "/refunds", eur(most), unprocessable, "/amount/minor"},
		})
		// The largest that is allowed goes through, twice: sums over payments are wider than one amount.
		for n := range 2 {
			g.callers[n].pay(t, fmt.Sprintf("k-limit-%d", n), pay(limit, split("s-max", limit, limit/10))).want(t, http.StatusCreated)
		}
		g.wantBalances(t, lines{"seller_payable:s-max": -2 * (limit - limit/10)})
	})
}
