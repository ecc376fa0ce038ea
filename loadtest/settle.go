package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
)

// settle follows what the journey had to leave open. The PSPs are well now: an outcome that stays away is a finding.
func (r *Runner) settle(ctx context.Context, n int, o *Order) error {
	c := o.last()
	if c == nil || c.End != Open || o.Findings > 0 {
		return nil
	}
	follow := r.follow
	if c.Step.Op == Return || c.Step.Op == Act {
		follow = r.followBuyer
	}
	e, detail, err := follow(ctx, n, o, c, r.settleBy)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		detail = err.Error()
	case detail == "" && e == Open:
		detail = "there is still no outcome"
	case detail == "":
		o.ended(c, e)
		return nil
	}
	r.find(o, fmt.Sprintf("%s (%s): %s", c.Step.Op, c.Key, detail))
	return nil
}

// replay sends the chosen keys of one order again, to another router than before. Those of payments that were begun anew
// are not about the order's last payment, and stay out.
func (r *Runner) replay(ctx context.Context, n int, o *Order) error {
	for i := range o.Calls {
		c := &o.Calls[i]
		if !c.replayed() || c.Step.Op != Authorize && paymentOf(c, c.answer) != o.paymentID {
			continue
		}
		request, err := o.request(c, r.options.Key)
		if err != nil {
			return err
		}
		a, err := r.send(ctx, n+i+1, uncounted, request)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		detail := fmt.Sprint("replay: ", err)
		if err == nil {
			detail = checkReplay(c, a)
		}
		if detail != "" {
			r.find(o, detail)
		}
	}
	return nil
}

// replayed tells whether a call is one to be sent again: its key has an answer that is kept.
func (c *Call) replayed() bool { return c.Again && c.answer != nil && ends[c.End].stored }

// read reads an order's payments: the last is as its calls left it, the others are failed, and there are no more.
func (r *Runner) read(ctx context.Context, n int, o *Order) error {
	if o.paymentID != "" {
		a, err := r.send(ctx, n+1, uncounted, o.get(r.options.Key))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		detail := fmt.Sprint("read: ", err)
		if err == nil {
			o.PSP = a.resource.PSP
			detail = o.checkPayment(o.State, a.resource)
		}
		if detail != "" && o.Findings == 0 { // a journey that ended early is elsewhere
			r.find(o, detail)
		}
	}
	return r.readOrder(ctx, n, o)
}

func (r *Runner) readOrder(ctx context.Context, n int, o *Order) error {
	path := "/v1/payments?orderId=" + url.QueryEscape(o.ID)
	a, err := r.send(ctx, n, uncounted, request{method: "GET", path: path, token: r.options.Key})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var list struct{ Payments []resource }
	if err == nil {
		err = json.Unmarshal(a.body, &list)
	}
	if err != nil {
		r.find(o, fmt.Sprint("read the order: ", err))
		return nil
	}
	if detail := o.checkList(list.Payments); detail != "" {
		r.find(o, detail)
	}
	return nil
}

// checkList compares the payments that the API has of an order with those that the shop knows of.
func (o *Order) checkList(list []resource) string {
	want := o.Payments()
	for _, got := range list {
		n := slices.Index(want, got.ID)
		if n < 0 {
			return fmt.Sprintf("the order has payment %s, which no key of the shop made", got.ID)
		}
		want = slices.Delete(want, n, n+1)
		if got.ID != o.paymentID && (got.word() != shownFailed || got.Captured+got.Refunding+got.Refunded != 0) {
			return fmt.Sprintf("payment %s was not processed, and is %s", got.ID, got.word())
		}
	}
	if len(want) > 0 {
		return fmt.Sprintf("the order lacks payments %v", want)
	}
	return ""
}

// Payments are the IDs of all payments that the API named for the order.
func (o *Order) Payments() []string {
	all := slices.Clone(o.Failed)
	if o.paymentID != "" {
		all = append(all, o.paymentID)
	}
	return all
}
