package loadtest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// check reads how a call ended from its answer, and compares the answer with what must follow; the detail is "" if it fits.
func (o *Order) check(c *Call, a *answer) (e End, detail string) {
	e, known := endOf(c.Step.Op, a)
	if !known || !c.Step.allows(e) {
		return e, strings.TrimSpace(fmt.Sprintf("HTTP %d %s, want %d %s", a.status, a.resource.word(), ends[c.Step.End].status[c.Step.Op],
			codeOf(c.Step.Op, c.Step.End)))
	}
	want := c.before.after(c.Step.Op, e, c.Minor, o.Journey.Automatic)
	switch {
	case codeOf(c.Step.Op, e) != "":
		return e, ""
	case e == Open:
		return e, o.checkSubject(c, a)
	case c.Step.Op == Refund:
		return e, o.checkRefund(c, e, want, a.resource)
	}
	return e, o.checkPayment(want, a.resource)
}

// checkSubject holds that an open answer is about the order's own payment: what it shows of it can change meanwhile.
func (o *Order) checkSubject(c *Call, a *answer) string {
	if id := paymentOf(c, a); id == "" || o.paymentID != "" && id != o.paymentID {
		return fmt.Sprintf("is of payment %q, want %q", id, o.paymentID)
	}
	return ""
}

// checkPayment compares a payment with the state that it must be in.
func (o *Order) checkPayment(want State, got resource) string {
	switch {
	case got.ID == "" || o.paymentID != "" && got.ID != o.paymentID:
		return fmt.Sprintf("is payment %q, want %q", got.ID, o.paymentID)
	case got.OrderID != o.ID || got.Amount != o.Amount:
		return fmt.Sprintf("is order %q over %s, want %q over %s", got.OrderID, got.Amount, o.ID, o.Amount)
	case !slices.Contains(o.Journey.PSPs, got.PSP):
		return fmt.Sprintf("is at %q, whose token the shop did not give", got.PSP)
	case got.word() != want.Status:
		return fmt.Sprintf("is %s, want %s", got.word(), want.Status)
	case got.Captured != want.Captured || got.Refunding != want.Refunding || got.Refunded != want.Refunded:
		return fmt.Sprintf("captured, refunding, refunded are %d, %d, %d, want %d, %d, %d", got.Captured, got.Refunding, got.Refunded,
			want.Captured, want.Refunding, want.Refunded)
	}
	return ""
}

func (o *Order) checkRefund(c *Call, e End, want State, got resource) string {
	word := shownFailed
	if e == Done {
		word = shownSucceeded
	}
	switch {
	case got.PaymentID != o.paymentID || got.ID == "":
		return fmt.Sprintf("is refund %q of %q, want one of %q", got.ID, got.PaymentID, o.paymentID)
	case got.word() != word:
		return fmt.Sprintf("the refund is %s, want %s", got.word(), word)
	case got.Amount.Minor != c.Minor || got.Amount.Currency != o.Amount.Currency || got.Refundable != want.left(Refund):
		return fmt.Sprintf("refunds %s and leaves %d, want %d and %d", got.Amount, got.Refundable, c.Minor, want.left(Refund))
	}
	return ""
}

// checkTwice compares the two answers to a key that was sent twice at once, and returns the one that says more: both are
// the same, or the other says that the first is under way, or that no PSP could be asked for it.
func (o *Order) checkTwice(c *Call, a, b *answer) (final *answer, detail string) {
	if rank(c, a) < rank(c, b) {
		a, b = b, a
	}
	one, other := paymentOf(c, a), paymentOf(c, b)
	switch end, _ := endOf(c.Step.Op, a); {
	case one != "" && other != "" && one != other:
		return a, fmt.Sprintf("one key, two payments: %s and %s", one, other)
	case ends[end].stored && rank(c, b) == rank(c, a) && !bytes.Equal(a.body, b.body):
		return a, fmt.Sprintf("one key, two answers: %.200s and %.200s", a.body, b.body)
	}
	if _, first := o.check(c, a); first != "" {
		return a, first
	}
	_, detail = o.check(c, b)
	return a, detail
}

// rank is how much an answer says: nothing, that something is under way, how it ended.
func rank(c *Call, a *answer) int {
	switch e, _ := endOf(c.Step.Op, a); e {
	case Unavailable:
		return 0
	case Open:
		return 1
	}
	return 2
}

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
	case !again.replayed || !bytes.Equal(again.body, first.body):
		return fmt.Sprintf("replay of %s (marked as one: %t) says %.200s, first was %.200s", c.Key, again.replayed, again.body, first.body)
	}
	return ""
}
