package shard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"paygrid/shard"
)

// doubtful makes a cluster of one shard behind a proxy.
func doubtful(t *testing.T, o shard.Options) (bench, *proxy) {
	t.Helper()
	layout, p := through(t, databases.Layout(t, 1))
	return on(t, layout, o), p
}

// marked is a payment whose two write statements carry markers that no read carries.
type marked struct {
	opening            shard.Opening
	change             shard.Change
	beginMark, endMark string
}

func mark(t *testing.T, key string) marked {
	m := marked{beginMark: "begin-" + key, endMark: "end-" + key}
	m.opening = opening("shop", key)
	m.opening.Payment.ReturnURL = m.beginMark
	m.change = capture(t, m.opening)
	m.change.Payment.RedirectURL = m.endMark
	return m
}

// once holds that the payment was opened and captured once, and reads the same to everybody.
func (m marked) once(t *testing.T, c bench) {
	t.Helper()
	found, err := c.Find(context.Background(), m.opening.Payment.ID, m.opening.Key.KeyRef)
	must(t, err)
	if found.Missing || found.Payment.Version != 2 || found.Payment.RedirectURL != m.endMark || found.Key == nil {
		t.Errorf("found %+v", found)
	}
	entries, err := c.Entries(context.Background(), m.opening.Payment.ID)
	must(t, err)
	if len(entries) != 1 || len(entries[0].Lines()) != 4 {
		t.Errorf("%d entries", len(entries))
	}
}

// TestAnswerLate (C040): the answer of a statement that committed comes after its time limit. It is read back by its own
// ID: the caller hears that it is written, and it is written once.
func TestAnswerLate(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		ctx := context.Background()
		options.StatementTimeout = 500 * time.Millisecond
		c, p := doubtful(t, options)
		m := mark(t, "k1")
		for _, step := range []struct {
			op, mark string
			do       func() error
		}{
			{"begin", m.beginMark, func() error { return c.Begin(ctx, m.opening) }},
			{"apply", m.endMark, func() error { return c.Apply(ctx, m.change) }},
		} {
			p.add(step.mark, holdAnswer, 1)
			if err := step.do(); err != nil {
				t.Errorf("%s: %v", step.op, err)
			}
			if n := c.metric(t, "paygrid_shard_read_backs_total", "op="+step.op, "result=committed"); n != 1 {
				t.Errorf("%s was read back as committed %d times, want once", step.op, n)
			}
		}
		m.once(t, c)
		c.sound(t)
	})
}

// TestAnswersLateInABatch (C040): the same for many callers at once.
func TestAnswersLateInABatch(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		options.StatementTimeout = 500 * time.Millisecond
		c, p := doubtful(t, options)
		p.add("begin-", holdAnswer, 100)
		p.add("end-", holdAnswer, 100)
		var group sync.WaitGroup
		for n := range 50 {
			group.Go(func() {
				m := mark(t, fmt.Sprintf("k%d", n))
				if err := errors.Join(c.Begin(context.Background(), m.opening), c.Apply(context.Background(), m.change)); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		c.expectPosted(t, 50)
		c.sound(t)
	})
}

// TestConnectionCut: a connection that ends before the server has the statement, or after it has committed. Both look
// the same to us; both are read back, and the first is run again.
func TestConnectionCut(t *testing.T) {
	for name, c := range map[string]struct {
		fault  fault
		result string
	}{
		"before the server has it":  {cutBefore, "absent"},
		"after it has committed":    {cutAfter, "committed"},
		"three times, and then not": {cutBefore, "absent"},
	} {
		t.Run(name, func(t *testing.T) {
			isolations(t, func(t *testing.T, options shard.Options) {
				times := 1
				if name == "three times, and then not" {
					times = 3
				}
				cut(t, options, c.fault, times, c.result)
			})
		})
	}
}

func cut(t *testing.T, options shard.Options, f fault, times int, result string) {
	ctx := context.Background()
	c, p := doubtful(t, options)
	m := mark(t, "k1")
	p.add(m.beginMark, f, times)
	p.add(m.endMark, f, times)
	must(t, c.Begin(ctx, m.opening))
	must(t, c.Apply(ctx, m.change))
	for _, op := range []string{"begin", "apply"} {
		if n := c.metric(t, "paygrid_shard_read_backs_total", "op="+op, "result="+result); n != times {
			t.Errorf("%s was read back as %s %d times, want %d", op, result, n, times)
		}
	}
	m.once(t, c)
	c.sound(t)
}

// TestCannotBeReadBack: when the commit's answer is lost and every look after it too, the caller hears that it is not
// known: never that nothing was written.
func TestCannotBeReadBack(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		ctx := context.Background()
		options.CallTimeout = 2 * time.Second
		c, p := doubtful(t, options)
		m := mark(t, "k1")
		p.add(m.beginMark, cutAfter, 1)
		p.add("k1", cutBefore, 1000)
		err := c.Begin(ctx, m.opening)
		if !errors.Is(err, shard.ErrInDoubt) || errors.Is(err, shard.ErrUnavailable) {
			t.Errorf("begin: %v, want ErrInDoubt alone", err)
		}
		p.heal()
		if err := c.Begin(ctx, opening("shop", "k1")); !errors.Is(err, shard.ErrConflict) {
			t.Errorf("the same key afterwards: %v", err)
		}
		p.add(m.endMark, cutAfter, 1)
		p.add(m.opening.Payment.ID, cutBefore, 1000)
		if err = c.Apply(ctx, m.change); !errors.Is(err, shard.ErrInDoubt) || errors.Is(err, shard.ErrUnavailable) {
			t.Errorf("apply: %v, want ErrInDoubt alone", err)
		}
		p.heal()
		m.once(t, c)
		c.sound(t)
	})
}

// TestFirstRunCommitsLate: the first run waits for a lock beyond its time limit and is given up, but the server goes on
// with it. The second run waits behind it and meets a conflict, with ourselves: the caller hears that it is written.
func TestFirstRunCommitsLate(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		ctx := context.Background()
		options.StatementTimeout, options.CallTimeout = 500*time.Millisecond, patience
		c, p := doubtful(t, options)
		p.deafToCancels()
		m := mark(t, "k1")
		b := shard.BucketOf("shop", "k1")
		for _, step := range []struct {
			op, mark string
			do       func() error
		}{
			{"begin", m.beginMark, func() error { return c.Begin(ctx, m.opening) }},
			{"apply", m.endMark, func() error { return c.Apply(ctx, m.change) }},
		} {
			g := shut(t, c.layout, "shard-1", b)
			runs := p.add(step.mark, tell, 100)
			told := make(chan error, 1)
			go func() { told <- step.do() }()
			<-runs.hit
			<-runs.hit // the second run has left; the first still waits at the server
			g.waitBlocked(t, 2)
			g.open(t)
			if err := <-told; err != nil {
				t.Errorf("%s: %v", step.op, err)
			}
			if n := c.metric(t, "paygrid_shard_read_backs_total", "op="+step.op, "result=absent"); n == 0 {
				t.Errorf("%s was never in doubt", step.op)
			}
		}
		m.once(t, c)
		c.sound(t)
	})
}

// TestServerEndsConnections: the server ends connections again and again while writers work. What callers hear is true:
// written means written once, unavailable means not written.
func TestServerEndsConnections(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		c := open(t, 1, options)
		stop := make(chan struct{})
		var killer, writers sync.WaitGroup
		killer.Go(func() { endConnections(t, c, stop) })
		heard := make([][]error, 8)
		for w := range heard {
			writers.Go(func() {
				for n := range 40 {
					heard[w] = append(heard[w], c.Begin(context.Background(), opening("shop", keyIn("shop", shard.Bucket(w), n))))
				}
			})
		}
		writers.Wait()
		close(stop)
		killer.Wait()
		var written, open int64
		for _, err := range flatten(heard) {
			switch {
			case err == nil:
				written++
			case errors.Is(err, shard.ErrInDoubt):
				open++
			case !errors.Is(err, shard.ErrUnavailable):
				t.Errorf("told %v", err)
			}
		}
		got := c.layout.Count(t, "shard-1", "SELECT count(*) FROM payments")
		if got < written || got > written+open || written < 200 {
			t.Errorf("%d payments are there; %d callers heard written, %d in doubt", got, written, open)
		}
		if c.metric(t, "paygrid_shard_read_backs_total") == 0 {
			t.Error("no statement was ever in doubt: the test proves nothing")
		}
		c.sound(t)
	})
}

func flatten(lists [][]error) (out []error) {
	for _, list := range lists {
		out = append(out, list...)
	}
	return out
}

// endConnections ends a busy connection of the services again and again, until stop is closed.
func endConnections(t *testing.T, c bench, stop <-chan struct{}) {
	admin := connect(t, c.layout.Admin["shard-1"])
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		_, err := admin.Exec(context.Background(), `SELECT pg_catalog.pg_terminate_backend(a.pid) FROM pg_catalog.pg_stat_activity a
WHERE a.datname = current_database() AND a.usename = 'paygrid_app' AND a.state = 'active' LIMIT 1`)
		if err != nil {
			t.Errorf("end connections: %v", err)
			return
		}
	}
}
