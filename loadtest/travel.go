package loadtest

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// uncounted stands for an operation where a call is no call of the journey: a poll, a replay.
const uncounted Op = ""

// travel makes one journey. It ends early at the first answer that must not be, at a call that stays open, and where no PSP
// takes a call in several turns.
func (r *Runner) travel(ctx context.Context, n int, o *Order) error {
	for _, step := range o.Journey.Steps {
		goOn, err := r.take(ctx, n, o, step)
		if err != nil || !goOn {
			return err
		}
	}
	return nil
}

// take makes the call of one step, with a new key for each turn as long as it is proved that nothing was done.
func (r *Runner) take(ctx context.Context, n int, o *Order, step Step) (goOn bool, err error) {
	for range maxTurns {
		c := o.next(step)
		e, detail, err := r.make(ctx, n+len(o.Calls), o, c)
		if err != nil {
			return false, err
		}
		if detail != "" {
			r.find(o, fmt.Sprintf("%s (%s): %s", step.Op, c.Key, detail))
			return false, nil
		}
		o.ended(c, e)
		if e == step.End || e == Open {
			return e != Open, nil
		}
		if !pause(ctx, turnPause) {
			return false, ctx.Err()
		}
		if step.Op == Authorize {
			o.startAgain()
		}
	}
	o.GaveUp = true
	return false, nil
}

// make makes a call and follows it to its end, for a while. An error means that ctx ended.
func (r *Runner) make(ctx context.Context, router int, o *Order, c *Call) (End, string, error) {
	until := r.options.Now().Add(followFor)
	if c.Step.Op == Return || c.Step.Op == Act {
		if detail, err := r.buyer(ctx, router, o, c); detail != "" || err != nil {
			return Open, detail, err
		}
		return r.followBuyer(ctx, router, o, c, until)
	}
	a, detail, err := r.call(ctx, router, o, c)
	if err != nil || detail != "" {
		return Open, detail, err
	}
	c.answer = a
	e, detail := o.check(c, a)
	if o.paymentID == "" {
		o.paymentID = paymentOf(c, a)
	}
	if detail != "" || e != Open {
		return e, detail, nil
	}
	return r.follow(ctx, router, o, c, until)
}

// call sends a call in its planned way. An error means that ctx ended.
func (r *Runner) call(ctx context.Context, router int, o *Order, c *Call) (*answer, string, error) {
	token := r.options.Key
	if c.Step.Stranger {
		token = r.options.StrangerKey
	}
	request, err := o.request(c, token)
	if err != nil {
		return nil, err.Error(), nil
	}
	switch {
	case c.Step.HangUp:
		left := request
		left.hangUp = true
		_, _ = r.client.send(ctx, router, left) // nobody waits for it
		router++
	case c.Twice:
		return r.twice(ctx, router, o, c, request)
	}
	a, err := r.send(ctx, router, c.Step.Op, request)
	if err != nil {
		return nil, err.Error(), ctx.Err()
	}
	return a, "", nil
}

// twice sends a request to two routers at once.
func (r *Runner) twice(ctx context.Context, router int, o *Order, c *Call, request request) (*answer, string, error) {
	var answers [2]*answer
	var group errgroup.Group
	for n := range answers {
		group.Go(func() (err error) {
			answers[n], err = r.send(ctx, router+n, c.Step.Op, request)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err.Error(), ctx.Err()
	}
	a, detail := o.checkTwice(c, answers[0], answers[1])
	return a, detail, nil
}

// follow looks at the payment until the call is no longer open there, and then asks for its answer under its key.
func (r *Runner) follow(ctx context.Context, router int, o *Order, c *Call, until time.Time) (e End, detail string, err error) {
	again, err := o.request(c, r.options.Key)
	if err != nil {
		return Open, err.Error(), nil
	}
	e = Open
	err = r.poll(ctx, router, o, until, func(now resource) (bool, error) {
		if now.word() == shownProcessing || c.Step.Op == Refund && now.Refunding > 0 {
			return false, nil
		}
		a, err := r.send(ctx, router+1, uncounted, again)
		if err != nil {
			return false, err
		}
		c.answer = a
		e, detail = o.check(c, a)
		return e != Open || detail != "", nil
	})
	if err != nil {
		return Open, err.Error(), ctx.Err()
	}
	return e, detail, nil
}

// poll reads the order's payment until done says so or it is late; then it returns nil.
func (r *Runner) poll(ctx context.Context, router int, o *Order, until time.Time, done func(resource) (bool, error)) error {
	for wait := firstPoll; ; wait = min(2*wait, longestPoll) {
		a, err := r.send(ctx, router, uncounted, o.get(r.options.Key))
		if err != nil {
			return err
		}
		if finished, err := done(a.resource); finished || err != nil {
			return err
		}
		if !r.options.Now().Before(until) {
			return nil
		}
		if !pause(ctx, wait) {
			return ctx.Err()
		}
	}
}

// buyer lets the buyer act, and tells the router if they come back.
func (r *Runner) buyer(ctx context.Context, router int, o *Order, c *Call) (string, error) {
	details, err := r.options.Buyer(o.paymentID, c.Step.End == Done, c.Step.Op == Return)
	if err != nil || c.Step.Op == Act {
		return textOf(err), nil
	}
	request, err := o.comeBack(r.options.Key, details)
	if err != nil {
		return err.Error(), nil
	}
	a, err := r.send(ctx, router, c.Step.Op, request)
	if err == nil && a.resource.Code != "" {
		return fmt.Sprintf("the buyer is back: HTTP %d %s", a.status, a.resource.Code), nil
	}
	return textOf(err), ctx.Err() // what became of the payment is read from it
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// followBuyer looks at the payment until what the buyer did is known there.
func (r *Runner) followBuyer(ctx context.Context, router int, o *Order, c *Call, until time.Time) (e End, detail string, err error) {
	e = Open
	err = r.poll(ctx, router, o, until, func(now resource) (bool, error) {
		switch now.word() {
		case shownAction, shownProcessing:
			return false, nil
		case shownDeclined:
			e = Declined
		default:
			e = Done
		}
		if detail = o.checkPayment(c.before.after(c.Step.Op, e, c.Minor, o.Journey.Automatic), now); !c.Step.allows(e) {
			detail = fmt.Sprintf("is %s after the buyer acted", now.word())
		}
		return true, nil
	})
	if err != nil {
		return Open, err.Error(), ctx.Err()
	}
	return e, detail, nil
}
