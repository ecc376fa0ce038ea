package loadtest

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
)

// check compares the answer to a call with what was planned; "" if it fits.
func (o *Order) check(c *Call, a *answer) string {
	want, code := c.Step.wantStatus(), c.Step.wantCode()
	if a.status != want || a.resource.Code != code {
		return strings.TrimSpace(fmt.Sprintf("HTTP %d %s, want %d %s", a.status, a.resource.word(), want, code))
	}
	switch {
	case code != "":
		return ""
	case c.Step.Op == Refund:
		return o.checkRefund(c, a.resource)
	}
	return o.checkPayment(c.Want, a.resource)
}

// checkPayment compares a payment with the state that it must be in.
func (o *Order) checkPayment(want State, got resource) string {
	switch {
	case got.ID == "" || o.paymentID != "" && got.ID != o.paymentID:
		return fmt.Sprintf("is payment %q, want %q", got.ID, o.paymentID)
	case got.OrderID != o.ID || got.Amount != o.Amount:
		return fmt.Sprintf("is order %q over %s, want %q over %s", got.OrderID, got.Amount, o.ID, o.Amount)
	case got.word() != want.Status:
		return fmt.Sprintf("is %s, want %s", got.word(), want.Status)
	case got.Captured != want.Captured || got.Refunding != want.Refunding || got.Refunded != want.Refunded:
		return fmt.Sprintf("captured, refunding, refunded are %d, %d, %d, want %d, %d, %d", got.Captured, got.Refunding, got.Refunded,
			want.Captured, want.Refunding, want.Refunded)
	}
	return ""
}

func (o *Order) checkRefund(c *Call, got resource) string {
	word := map[End]string{Done: "SUCCEEDED", Declined: shownFailed}[c.Step.End]
	if word == "" {
		word = shownProcessing
	}
	switch {
	case got.PaymentID != o.paymentID || got.ID == "":
		return fmt.Sprintf("is refund %q of %q, want one of %q", got.ID, got.PaymentID, o.paymentID)
	case got.word() != word:
		return fmt.Sprintf("the refund is %s, want %s", got.word(), word)
	case got.Amount.Minor != c.Minor || got.Amount.Currency != o.Amount.Currency || got.Refundable != c.Want.left(Refund):
		return fmt.Sprintf("refunds %s and leaves %d, want %d and %d", got.Amount, got.Refundable, c.Minor, c.Want.left(Refund))
	}
	return ""
}

// checkTwice compares the two answers to a key that was sent twice at once: one is as planned; the other is the same, or
// says that the first is under way.
func (o *Order) checkTwice(c *Call, a, b *answer) (final *answer, detail string) {
	if isOpen(a) && !isOpen(b) {
		a, b = b, a
	}
	switch {
	case isOpen(b):
		if paymentOf(c, a) != paymentOf(c, b) {
			return a, fmt.Sprintf("one key, two payments: %s and %s", paymentOf(c, a), paymentOf(c, b))
		}
	case ends[c.Step.End].stored && !bytes.Equal(a.body, b.body):
		return a, fmt.Sprintf("one key, two answers: %.200s and %.200s", a.body, b.body)
	default:
		detail = o.check(c, b)
	}
	if first := o.check(c, a); first != "" {
		return a, first
	}
	return a, detail
}

func isOpen(a *answer) bool { return a.status == http.StatusAccepted }

// paymentOf is the payment that an answer is about.
func paymentOf(c *Call, a *answer) string {
	if c.Step.Op == Refund {
		return a.resource.PaymentID
	}
	return a.resource.ID
}

// checkReplay compares a repeated key's answer with the first.
func checkReplay(c *Call, again *answer) string {
	switch first := c.answer; {
	case again.status != first.status:
		return fmt.Sprintf("replay of %s: HTTP %d, the first answer was %d", c.Key, again.status, first.status)
	case !ends[c.Step.End].stored:
		if paymentOf(c, again) != paymentOf(c, first) {
			return fmt.Sprintf("replay of %s is of payment %s", c.Key, paymentOf(c, again))
		}
	case !again.replayed || !bytes.Equal(again.body, first.body):
		return fmt.Sprintf("replay of %s (marked as one: %t) says %.200s, first was %.200s", c.Key, again.replayed, again.body, first.body)
	}
	return ""
}
