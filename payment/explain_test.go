package payment

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"paygrid/shard"
)

var anyPort = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// The story of a payment that was captured, refunded in part, and whose second refund nobody has an answer for.
func TestExplain(t *testing.T) {
	b := newBench(t, setup{})
	id := b.authorizes(p10("k", "pm_ok_refund_ok", Manual), KindAuthorized).PaymentID
	b.clock.advance(90 * time.Minute)
	answer, err := b.captures("c", id, nil)
	b.expect(answer, err, KindCaptured)
	b.clock.advance(time.Second)
	answer, err = b.refundsOf("r1", id, eur(2000))
	b.expect(answer, err, KindRefunded)
	b.clock.advance(1500 * time.Millisecond)
	if err := b.sim.Script("refund", "drop_after", "", 1); err != nil {
		t.Fatal(err)
	}
	answer, err = b.refundsOf("r2", id, eur(3000))
	b.expect(answer, err, KindProcessing)

	x, err := Explain(b.ctx, b.shards, id)
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := x.Write(&page); err != nil {
		t.Fatal(err)
	}
	golden(t, "explain.txt", anyPort.ReplaceAllString(numbered(page.String()), "127.0.0.1:0"))
	if text := indented(t, x); strings.Contains(text, "pm_ok") || strings.Contains(page.String(), "pm_ok") {
		t.Errorf("the story shows the token:\n%s", text)
	}
}

// A refusal is on the page, with its words; lists that are empty are lists.
func TestExplainRefusal(t *testing.T) {
	b := newBench(t, setup{})
	id := b.authorizes(p10("k", "pm_decline", Manual), KindDeclined).PaymentID
	x, err := Explain(b.ctx, b.shards, id)
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := x.Write(&page); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "insufficient_funds") {
		t.Errorf("the page does not say why:\n%s", page.String())
	}
	text, err := json.Marshal(x)
	if err != nil || bytes.Contains(text, []byte("null")) {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := Explain(b.ctx, b.shards, shard.NewID(shard.PaymentPrefix, 1, noon)); !errors.Is(err, shard.ErrNotFound) {
		t.Errorf("nobody's payment: %v", err)
	}
	if _, err := Explain(b.ctx, b.shards, "x"); !errors.Is(err, shard.ErrNotFound) {
		t.Errorf("no ID of ours: %v", err)
	}
}
