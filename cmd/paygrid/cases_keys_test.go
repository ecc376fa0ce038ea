package main

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"paygrid/payment"
)

// TestC001: fifty copies of one request at the same instant, on two routers. A copy that comes while the first is under way
// hears 202 with the payment's ID.
func TestC001(t *testing.T) {
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		const copies = 50
		replies := make([]reply, copies)
		send := func() {
			together(copies, func(i int) { replies[i] = g.callers[i%2].pay(t, "k-c001", p10("o-c001", "pm_ok", "automatic")) })
		}
		send()
		first, id := reply{}, ""
		for _, r := range replies {
			if r.status == http.StatusCreated && !r.replayed {
				if first.status != 0 {
					t.Errorf("two first answers: %s and %s", first, r)
				}
				first = r
			}
			if r.status != http.StatusCreated && r.status != http.StatusAccepted {
				t.Errorf("want 201 or 202, got %s", r)
			}
			if id == "" {
				id = r.ID
			}
			if r.ID != id {
				t.Errorf("two payments: %s and %s", id, r.ID)
			}
		}
		send()
		for _, r := range replies {
			r.wantReplay(t, first)
		}
		if got := g.callers[1].byOrder(t, "o-c001"); len(got) != 1 {
			t.Errorf("the order has %d payments", len(got))
		}
		g.callers[0].wantCAP10(t, id)
		if got := g.tally(); got != (tally{Authorized: 1, Charges: 1, Calls: 1}) {
			t.Errorf("the PSP saw %+v", got)
		}
	})
}

// TestC002: same key, same meaning in other bytes; other meaning; and other meaning while the first is still running.
func TestC002(t *testing.T) {
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		a, b := g.callers[0], g.callers[1]
		first := a.pay(t, "k-c002", p10("o-c002", "pm_decline", "automatic")).want(t, http.StatusPaymentRequired)
		again := b.pay(t, "k-c002", `{ "splits":[{"commissionMinor":700,"minor":7000,"sellerId":"s-ann"},{"minor":3000,"sellerId":"s-bob","commissionMinor":450}],
			"captureMode":"automatic","paymentMethod":"pm_decline","amount":{"currency":"EUR","minor":10000},"orderId":"o-c002" }`)
		again.wantReplay(t, first)
		b.pay(t, "k-c002", p10("o-c002", "pm_ok", "automatic")).wantCode(t, http.StatusUnprocessableEntity, payment.CodeKeyReused)
		a.pay(t, "k-c002b", p10("o-c002", "pm_ok", "automatic")).want(t, http.StatusCreated)

		slow := make(chan reply)
		go func() { slow <- a.pay(t, "k-c002c", p10("o-c002c", "pm_slow_ok_1s", "automatic")) }()
		eventually(t, "the slow payment is under way", func() bool { return len(b.byOrder(t, "o-c002c")) == 1 })
		b.pay(t, "k-c002c", p10("o-c002d", "pm_ok", "automatic")).wantCode(t, http.StatusUnprocessableEntity, payment.CodeKeyReused)
		(<-slow).want(t, http.StatusCreated)

		captured := 0
		for _, p := range a.byOrder(t, "o-c002") {
			if p.Status == "CAPTURED" {
				captured++
			}
		}
		if other := a.byOrder(t, "o-c002d"); captured != 1 || len(other) != 0 {
			t.Errorf("o-c002 has %d captured payments, o-c002d %d payments", captured, len(other))
		}
		if got := g.tally(); got != (tally{Authorized: 2, Charges: 2, Calls: 3}) {
			t.Errorf("the PSP saw %+v", got)
		}
	})
}

// TestC003: the same key from another client, and on another route.
func TestC003(t *testing.T) {
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		a, b := g.callers[0], g.callers[1].as(shopB)
		ofA := a.pay(t, "same-key", p10("o-c003-a", "pm_ok", "automatic")).want(t, http.StatusCreated)
		ofB := b.pay(t, "same-key", p10("o-c003-b", "pm_ok", "automatic")).want(t, http.StatusCreated)
		if ofA.ID == ofB.ID || strings.Contains(string(ofB.raw), ofA.ID) || strings.Contains(string(ofB.raw), "o-c003-a") {
			t.Errorf("shop B hears of shop A: %s", ofB)
		}
		refund := a.post(t, "/v1/payments/"+ofA.ID+"/refunds", "same-key", eur(1000)).want(t, http.StatusCreated)
		if !strings.HasPrefix(refund.ID, "ref_") || refund.Amount.Minor != 1000 {
			t.Errorf("want a refund of 1000, got %s", refund)
		}
		a.get(t, "/v1/payments/"+ofA.ID).wantState(t, "CAPTURED", 10000, 1000)
		b.get(t, "/v1/payments/"+ofA.ID).wantCode(t, http.StatusNotFound, payment.CodeNotFound)
		b.get(t, "/v1/payments/"+ofA.ID+"/ledger").wantCode(t, http.StatusNotFound, payment.CodeNotFound)
		b.post(t, "/v1/payments/"+ofA.ID+"/refunds", "same-key", eur(1000)).wantCode(t, http.StatusNotFound, payment.CodeNotFound)
		if got := g.tally(); got != (tally{Authorized: 2, Charges: 2, Refunds: 1, Calls: 3}) {
			t.Errorf("the PSP saw %+v", got)
		}
	})
}

// TestC004: odd keys, as raw header lines: Go's own client would trim or refuse some of them.
func TestC004(t *testing.T) {
	random := make([]byte, 2250)
	_, _ = rand.Read(random)
	long := strings.Repeat("a", 255)
	line := func(key string) string { return "Idempotency-Key: " + key + "\r\n" }
	cases := []struct {
		name, header string
		status       int
	}{
		{"255 bytes", line(long), http.StatusCreated},
		{"256 bytes", line(long + "a"), http.StatusBadRequest},
		{"3000 random characters", line(base64.StdEncoding.EncodeToString(random)), http.StatusBadRequest},
		{"cyrillic", line("ключ-ключ-ключ-"), http.StatusBadRequest},
		{"emoji", line(strings.Repeat("🧾", 200)), http.StatusBadRequest},
		{"lower case", line("k-c004"), http.StatusCreated},
		{"upper case", line("K-C004"), http.StatusCreated},
		{"trailing blanks", line("k-c004  "), http.StatusUnprocessableEntity},
		{"empty", line(""), http.StatusBadRequest},
		{"no-break spaces", line("\u00a0\u00a0"), http.StatusBadRequest},
		{"two lines", line("k-x1") + line("k-x2"), http.StatusBadRequest},
		{"no line", "", http.StatusBadRequest},
	}
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		for n, c := range cases {
			r := rawPay(t, g.callers[n%2], c.header, p10(fmt.Sprintf("o-c004-%d", n), "pm_ok", "automatic"))
			switch c.status {
			case http.StatusBadRequest:
				r.wantCode(t, c.status, "INVALID_IDEMPOTENCY_KEY")
			case http.StatusUnprocessableEntity:
				r.wantCode(t, c.status, payment.CodeKeyReused)
			default:
				r.want(t, c.status)
			}
		}
		if got := g.tally(); got != (tally{Authorized: 3, Charges: 3, Calls: 3}) {
			t.Errorf("the PSP saw %+v", got)
		}
		if rows := g.sum(t, `SELECT count(*) FROM idempotency_keys`); rows != 3 {
			t.Errorf("%d keys are stored", rows)
		}
	})
}

// rawPay writes a request byte by byte.
func rawPay(t *testing.T, c caller, header, body string) reply {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "POST /v1/payments HTTP/1.1\r\nHost: paygrid\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n%s"+
		"Content-Length: %d\r\nConnection: close\r\n\r\n%s", c.token, header, len(body), body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := read(response)
	r.decent(t)
	return r
}

// TestC005: the key record and the payment do not live apart. Keys are never swept while their payment lives, so the case's
// sweeper has nothing to run here; the payment's row alone is moved to cold storage, by hand.
func TestC005(t *testing.T) {
	inBothLevels(t, gridOptions{}, func(t *testing.T, g *testGrid) {
		a, b := g.callers[0], g.callers[1]
		order := p10("o-c005", "pm_ok", "automatic")
		first := a.pay(t, "k-c005", order).want(t, http.StatusCreated)
		g.clock.advance(25 * time.Hour)
		b.pay(t, "k-c005", order).wantReplay(t, first)

		home := g.shardOf(t, "k-c005")
		g.exec(t, home, `CREATE TABLE cold AS TABLE payments`)
		g.exec(t, home, `DELETE FROM payments`)
		b.pay(t, "k-c005", order).wantReplay(t, first)
		b.pay(t, "k-c005", p10("o-c005", "pm_decline", "automatic")).wantCode(t, http.StatusUnprocessableEntity, payment.CodeKeyReused)

		together(20, func(i int) {
			r := g.callers[i%2].pay(t, "k-c005x", p10("o-c005x", "pm_ok", "automatic"))
			if r.status != http.StatusCreated && r.status != http.StatusAccepted {
				t.Errorf("want 201 or 202, got %s", r)
			}
		})
		for _, c := range g.callers {
			if r := c.pay(t, "k-c005x", p10("o-c005x", "pm_ok", "automatic")).want(t, http.StatusCreated); !r.replayed {
				t.Errorf("want a replay, got %s", r)
			}
		}
		g.exec(t, home, `INSERT INTO payments TABLE cold`)
		if got := g.tally(); got != (tally{Authorized: 2, Charges: 2, Calls: 2}) {
			t.Errorf("the PSP saw %+v", got)
		}
	})
}
