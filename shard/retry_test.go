package shard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"paygrid/shard"
)

// busy makes the first `runs` transactions that insert into a table fail with 40001 at their COMMIT. A sequence counts
// them: it is not rolled back.
func busy(t *testing.T, c bench, table string, runs int) {
	t.Helper()
	for _, sql := range []string{
		"CREATE SEQUENCE runs",
		"GRANT USAGE ON SEQUENCE runs TO paygrid_app",
		fmt.Sprintf(`CREATE FUNCTION busy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('runs') <= %d THEN RAISE EXCEPTION 'restart transaction' USING ERRCODE = '40001'; END IF;
    RETURN NULL;
END $$`, runs),
		"CREATE CONSTRAINT TRIGGER busy AFTER INSERT ON " + table + " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION busy()",
	} {
		c.layout.Exec(t, "shard-1", sql)
	}
}

func forBatches(t *testing.T, test func(t *testing.T, o shard.Options)) {
	for _, limit := range []int{64, 1} {
		t.Run(fmt.Sprintf("batches of %d", limit), func(t *testing.T) {
			isolations(t, func(t *testing.T, o shard.Options) {
				o.BatchLimit = limit
				test(t, o)
			})
		})
	}
}

// TestRetriedTwice (C041): 40001 at the first two commits. The third holds: the entry has its four lines once, and the
// metric says two retries.
func TestRetriedTwice(t *testing.T) {
	forBatches(t, func(t *testing.T, options shard.Options) {
		c := open(t, 1, options)
		busy(t, c, "journal_entries", 2)
		o := c.captured(t, "shop", "k1")
		entries, err := c.Entries(context.Background(), o.Payment.ID)
		must(t, err)
		if len(entries) != 1 || len(entries[0].Lines()) != 4 {
			t.Errorf("entries %+v", entries)
		}
		if n := c.metric(t, "paygrid_shard_retries_total", "op=apply"); n != 2 {
			t.Errorf("%d retries, want 2", n)
		}
		c.expectPosted(t, 1)
		c.sound(t)
	})
}

// TestBusyForEver (C041): 40001 for ever ends after the bounded tries: the caller hears that nothing was written, which is
// true, and the same change holds once the fault is gone.
func TestBusyForEver(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		ctx := context.Background()
		c := open(t, 1, options)
		o := opening("shop", "k1")
		must(t, c.Begin(ctx, o))
		busy(t, c, "journal_entries", 1_000_000)
		ch := capture(t, o)
		if err := c.Apply(ctx, ch); !errors.Is(err, shard.ErrUnavailable) || errors.Is(err, shard.ErrInDoubt) {
			t.Errorf("told %v, want ErrUnavailable", err)
		}
		if n := c.metric(t, "paygrid_shard_retries_total", "op=apply"); n != 12 {
			t.Errorf("%d runs, want 12", n)
		}
		c.expectPosted(t, 0)
		c.sound(t)
		c.layout.Exec(t, "shard-1", "DROP TRIGGER busy ON journal_entries")
		must(t, c.Apply(ctx, ch))
		c.expectPosted(t, 1)
		c.sound(t)
	})
}

// TestRealConflicts: two processes write to one bucket. SERIALIZABLE fails some commits with 40001 and they are run again;
// READ COMMITTED waits for the lock and fails none.
func TestRealConflicts(t *testing.T) {
	isolations(t, func(t *testing.T, options shard.Options) {
		first := open(t, 1, options)
		processes := []bench{first, on(t, first.layout, options)}
		var group sync.WaitGroup
		for w := range 4 {
			group.Go(func() {
				for n := range 25 {
					if err := processes[w%2].Begin(context.Background(), opening("shop", keyIn("shop", 5, 100*w+n))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		retries := first.metric(t, "paygrid_shard_retries_total") + processes[1].metric(t, "paygrid_shard_retries_total")
		if options.Serializable != (retries > 0) {
			t.Errorf("serializable=%v and %d retries", options.Serializable, retries)
		}
		first.sound(t)
	})
}

// TestShardIsDown: a shard that nobody answers for is unavailable, nothing is in doubt, and the others serve.
func TestShardIsDown(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	layout, p := through(t, databases.Layout(t, 1))
	p.close()
	c := on(t, layout, shard.Options{})
	if err := c.Begin(ctx, opening("shop", "k1")); !errors.Is(err, shard.ErrUnavailable) || errors.Is(err, shard.ErrInDoubt) {
		t.Errorf("begin: %v", err)
	}
	if _, err := c.OpeningKey(ctx, "shop", "k1"); !errors.Is(err, shard.ErrUnavailable) {
		t.Errorf("key: %v", err)
	}
	if err := c.Ping(ctx); !errors.Is(err, shard.ErrUnavailable) {
		t.Errorf("ping: %v", err)
	}
}
