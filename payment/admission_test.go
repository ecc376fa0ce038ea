package payment

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"paygrid/shard"
)

// line is a shard in virtual time: one statement at a time, with all that has gathered; a statement costs something by
// itself and something for each write in it. A stalled line answers nobody.
type line struct {
	mu      sync.Mutex
	queue   []chan struct{}
	running bool
	base    time.Duration
	each    time.Duration
	stalled time.Time // until then
}

// lineBatch is the most writes of a statement.
const lineBatch = 64

// write waits for a statement that takes this write along.
func (l *line) write() {
	done := make(chan struct{})
	l.mu.Lock()
	l.queue = append(l.queue, done)
	if !l.running {
		l.running = true
		go l.run()
	}
	l.mu.Unlock()
	<-done
}

func (l *line) run() {
	for {
		l.mu.Lock()
		batch := l.queue[:min(lineBatch, len(l.queue))]
		l.queue = l.queue[len(batch):]
		if len(batch) == 0 {
			l.running = false
			l.mu.Unlock()
			return
		}
		cost := l.base + time.Duration(len(batch))*l.each + max(0, time.Until(l.stalled))
		l.mu.Unlock()
		<-time.After(cost)
		for _, done := range batch {
			close(done)
		}
	}
}

// tide is traffic through one door: commands of two writes with a PSP's 300 ms between, at a rate per second and class.
type tide struct {
	door  *door
	line  *line
	rates [classes]int
}

// ebb is what became of a stretch of a tide.
type ebb struct {
	admitted, shed [classes]int
	slowest        time.Duration // first write of an authorization
}

// flow sends the traffic for so long, and returns when all that was admitted is finished.
func (s tide) flow(length time.Duration) ebb {
	var out ebb
	var mu sync.Mutex
	var group sync.WaitGroup
	for class, rate := range s.rates {
		if rate == 0 {
			continue
		}
		random := rand.New(rand.NewPCG(uint64(class), uint64(rate)))
		group.Go(func() {
			for end := time.Now().Add(length); time.Now().Before(end); {
				<-time.After(time.Duration(random.ExpFloat64() * float64(time.Second) / float64(rate)))
				begun := time.Now()
				first, ok := s.door.admit(Class(class), begun)
				mu.Lock()
				if !ok {
					out.shed[class]++
					mu.Unlock()
					continue
				}
				out.admitted[class]++
				mu.Unlock()
				group.Go(func() {
					first = s.door.begin(first, begun)
					s.line.write()
					s.door.leave(first, time.Now(), true)
					if took := time.Since(begun); Class(class) == ClassAuthorize {
						mu.Lock()
						out.slowest = max(out.slowest, took)
						mu.Unlock()
					}
					<-time.After(300 * time.Millisecond)
					second := s.door.enter(time.Now(), true)
					s.line.write()
					s.door.leave(second, time.Now(), true)
				})
			}
		})
	}
	group.Wait()
	return out
}

// recovers flows for a while in which no authorization may be turned away, and few others: those wait for calm windows until the
// limit is gone. Ten seconds later nobody is turned away.
func (s tide) recovers(t *testing.T, length time.Duration) {
	t.Helper()
	if soon := s.flow(length); soon.shed[ClassAuthorize] > 0 || share(soon, ClassCapture) < 95 || soon.slowest > 2*testTarget {
		t.Errorf("soon after the stress: %+v", soon)
	}
	s.flow(10 * time.Second)
	if after := s.flow(10 * time.Second); after.shed != [classes]int{} || after.slowest > 2*testTarget {
		t.Errorf("long after the stress: %+v", after)
	}
}

const testTarget = 100 * time.Millisecond

// newTide is a shard that takes some 240 writes a second.
func newTide(rates [classes]int) tide {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "a"})
	return tide{door: newDoor(testTarget, 10_000, time.Now(), func(time.Time) time.Duration { return 0 }, gauge, gauge), line: &line{base: 5 * time.Millisecond, each: 4 * time.Millisecond}, rates: rates}
}

func share(e ebb, c Class) int { return 100 * e.admitted[c] / max(1, e.admitted[c]+e.shed[c]) }

// TestStressShedsTheLeastUrgentFirst: at 85 % of what a shard takes nobody is turned away; at 170 % nearly all authorizations
// are served, some captures, and hardly any refund or payout; two seconds later all authorizations are served again, and most others.
func TestStressShedsTheLeastUrgentFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTide([classes]int{1, 4, 47, 50})
		if before := s.flow(20 * time.Second); before.shed != [classes]int{} {
			t.Errorf("shed below the capacity: %+v", before)
		}
		s.rates = [classes]int{2, 8, 95, 100}
		during := s.flow(60 * time.Second)
		if share(during, ClassAuthorize) < 92 || share(during, ClassCapture) > 40 || share(during, ClassRefund) > 15 || share(during, ClassPayout) > 10 ||
			during.admitted[ClassCapture] == 0 || during.slowest > 15*testTarget {
			t.Errorf("during stress: %+v, the limit is %d", during, s.door.limit)
		}
		s.rates = [classes]int{1, 4, 47, 50}
		s.flow(2 * time.Second)
		s.recovers(t, 10*time.Second)
	})
}

// TestStalledShardIsSeen: writes that do not come back cut the limit as slow ones do, and a crowd does not gather behind them.
func TestStalledShardIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTide([classes]int{0, 4, 47, 50})
		s.flow(5 * time.Second)
		s.line.stalled = time.Now().Add(5 * time.Second)
		stalled := s.flow(5 * time.Second)
		if total := stalled.admitted[ClassAuthorize] + stalled.admitted[ClassCapture]; total > 150 || stalled.shed[ClassAuthorize] < 100 {
			t.Errorf("behind a shard that stands still: %+v", stalled)
		}
		s.flow(3 * time.Second)
		s.recovers(t, 5*time.Second)
	})
}

// TestIdleShardForgetsStress: a limit is not kept for the next morning.
func TestIdleShardForgetsStress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTide([classes]int{}).door
		var steps []step
		for range 100 {
			steps = append(steps, d.enter(time.Now(), true))
		}
		<-time.After(time.Second)
		for _, s := range steps {
			d.leave(s, time.Now(), true)
		}
		if d.limit >= 1000 {
			t.Fatalf("the limit is %d after a hundred writes that took a second", d.limit)
		}
		<-time.After(time.Second)
		if d.enter(time.Now(), true); d.limit != d.most {
			t.Errorf("the limit is %d after a pause, want %d", d.limit, d.most)
		}
	})
}

// TestLagIsStress: a process that waits for its processors turns commands away although its shards are quick.
func TestLagIsStress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTide([classes]int{1, 4, 20, 20})
		lag := time.Duration(0)
		s.door.lately = func(time.Time) time.Duration { return lag }
		if before := s.flow(5 * time.Second); before.shed != [classes]int{} {
			t.Errorf("shed without a lag: %+v", before)
		}
		lag = testTarget + time.Millisecond
		during := s.flow(20 * time.Second)
		if s.door.limit != leastLimit || during.shed[ClassRefund] == 0 || share(during, ClassAuthorize) < share(during, ClassCapture) || share(during, ClassAuthorize) < 95 {
			t.Errorf("with a lag: %+v, the limit is %d", during, s.door.limit)
		}
		lag = 0
		s.flow(3 * time.Second)
		if after := s.flow(5 * time.Second); after.shed != [classes]int{} {
			t.Errorf("three seconds after it: %+v", after)
		}
	})
}

// TestAfterABadWindowOnlyAuthorizations: room alone lets nobody else in.
func TestAfterABadWindowOnlyAuthorizations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTide([classes]int{}).door
		for at, c := range []Class{ClassPayout, ClassRefund, ClassCapture, ClassAuthorize} {
			d.closed = true
			if _, ok := d.admit(c, time.Now()); ok != (c == ClassAuthorize) {
				t.Errorf("%s, %d: let in: %t", c, at, ok)
			}
			d.closed = false
			if _, ok := d.admit(c, time.Now()); !ok {
				t.Errorf("%s is turned away after a calm window", c)
			}
		}
	})
}

// TestBackgroundWorkIsNoCrowd: what resolver and inbox write fills no place of a command's, and is never refused.
func TestBackgroundWorkIsNoCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTide([classes]int{}).door
		d.limit = leastLimit
		for range 10 * leastLimit {
			d.enter(time.Now(), false)
		}
		if _, ok := d.admit(ClassPayout, time.Now()); !ok {
			t.Error("background work turned a command away")
		}
		for range leastLimit {
			d.enter(time.Now(), true)
		}
		if _, ok := d.admit(ClassAuthorize, time.Now()); ok {
			t.Error("more commands than the limit were let in")
		}
	})
}

// crowd fills a payment's shard with writes, as if it stood still; end takes them away.
func (b *bench) crowd(bucket shard.Bucket) (end func()) {
	d := b.admission.door(bucket)
	var steps []step
	for range 64 {
		steps = append(steps, d.enter(b.clock.Now(), true))
	}
	d.mu.Lock()
	d.limit = 64
	d.mu.Unlock()
	return func() {
		for _, s := range steps {
			d.leave(s, b.clock.Now(), true)
		}
		for range 3 { // windows pass
			b.clock.advance(time.Second)
			d.leave(d.enter(b.clock.Now(), true), b.clock.Now(), true)
		}
	}
}

// keysOn finds n keys whose payments lie on the shard of like, or on another.
func (b *bench) keysOn(same bool, like string, n int) (keys []string) {
	name := func(key string) string { return b.layout.Map.Owner(shard.BucketOf("tk_shop_a", key)).Shard }
	for k := 0; len(keys) < n; k++ {
		if key := fmt.Sprintf("key-%d", k); (name(key) == name(like)) == same {
			keys = append(keys, key)
		}
	}
	return keys
}

// TestShedCommandsLeaveNothing: under stress every command of the shard is turned away before anything is written or sent,
// those of the other shard are not, what began before is finished, and the same keys are good afterwards.
func TestShedCommandsLeaveNothing(t *testing.T) {
	b := newBench(t, setup{})
	reserved := b.authorizes(p10("first", "pm_ok", Manual), KindAuthorized).PaymentID
	keys := b.keysOn(true, "first", 3)
	charged := b.authorizes(p10(keys[0], "pm_ok", Automatic), KindCharged).PaymentID
	var end func()
	b.at("authorize.committed", func() { end = b.crowd(bucketOf(reserved)) })
	b.authorizes(p10(keys[1], "pm_ok", Manual), KindAuthorized)
	if end == nil {
		t.Fatal("the stress did not begin in the middle of a command")
	}
	calls, before := b.calls("capture")+b.calls("cancel")+b.calls("refund")+b.calls("authorize"), []shard.Snapshot{b.snapshot(reserved), b.snapshot(charged)}
	const shed = "shed-key"
	commands := []func() (Answer, error){
		func() (Answer, error) { return b.Authorize(b.ctx, p10(keys[2], "pm_ok", Manual)) },
		func() (Answer, error) { return b.captures(shed, reserved, nil) },
		func() (Answer, error) { return b.refundsOf(shed, charged, nil) },
	}
	for n, command := range append(commands, func() (Answer, error) { return b.voids(shed, reserved) }) {
		_, err := command()
		if e := wantError(t, err, CodeOverloaded, "", -1); e.RetryIn < time.Second {
			t.Errorf("command %d: when to come back? %v", n, e.RetryIn)
		}
	}
	if k, err := b.shards.OpeningKey(b.ctx, "tk_shop_a", keys[2]); k != nil || err != nil {
		t.Errorf("the key that was turned away is %v, %v", k, err)
	}
	if after := []shard.Snapshot{b.snapshot(reserved), b.snapshot(charged)}; !reflect.DeepEqual(after, before) {
		t.Errorf("commands that were turned away made of\n%+v\n%+v", before, after)
	}
	if now := b.calls("capture") + b.calls("cancel") + b.calls("refund") + b.calls("authorize"); now != calls {
		t.Errorf("the PSP had %d calls, now %d", calls, now)
	}
	if got := b.metric("paygrid_commands_shed_total"); got != 4 {
		t.Errorf("counted %d commands turned away, want 4", got)
	}
	b.authorizes(p10(b.keysOn(false, "first", 1)[0], "pm_ok", Manual), KindAuthorized)
	end()
	for n, command := range commands {
		if _, err := command(); err != nil {
			t.Errorf("command %d after the stress: %v", n, err)
		}
	}
	b.sound()
	if waiting := b.admission.door(bucketOf(reserved)).waiting; waiting != 0 {
		t.Errorf("%d still wait when all is done", waiting)
	}
}

// TestPlacesComeBack: a command that writes nothing gives its place back, whether it is refused or finds no room.
func TestPlacesComeBack(t *testing.T) {
	b := newBench(t, setup{maxInFlight: 1})
	payment := b.authorizes(p10("first", "pm_ok", Automatic), KindCharged).PaymentID
	if _, err := b.voids("v", payment); err == nil {
		t.Error("a charged payment was voided")
	}
	b.authorizes(p10("first", "pm_ok", Automatic), KindCharged) // a replay
	b.at("refunds.begun", func() {
		_, err := b.refundsOf("other", payment, nil)
		wantError(t, err, CodeUnavailable, "", -1)
	})
	if _, err := b.refundsOf("r", payment, nil); err != nil {
		t.Error(err)
	}
	if err := b.Drain(b.ctx); err != nil {
		t.Fatal(err)
	}
	if waiting := b.admission.door(bucketOf(payment)).waiting; waiting != 0 {
		t.Errorf("%d still wait when all is done", waiting)
	}
}

// TestCommandsWithoutAWrite (replays, refusals) are not taken for a shard that gives no answer: it is asked for nothing. Not after
// some stress either.
func TestCommandsWithoutAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTide([classes]int{}).door
		d.limit = 2 * leastLimit
		var group sync.WaitGroup
		var shed atomic.Int64
		stop := time.Now().Add(5 * time.Second)
		for range 10 { // callers follow a capture by repeating its key: 20 ms of read each, 10 ms of pause
			group.Go(func() {
				for ; time.Now().Before(stop); <-time.After(10 * time.Millisecond) {
					s, ok := d.admit(ClassCapture, time.Now())
					if !ok {
						shed.Add(1)
						continue
					}
					<-time.After(20 * time.Millisecond)
					d.leave(s, time.Now(), false)
				}
			})
			<-time.After(3 * time.Millisecond)
		}
		group.Wait()
		if shed.Load() > 0 || d.limit < 2*leastLimit {
			t.Errorf("%d captures turned away by a shard that does nothing, the limit is %d", shed.Load(), d.limit)
		}
	})
}

// TestOneSlowWriteAfterAPause: one write into a frozen bucket, on a shard with little else to do, is no stress.
func TestOneSlowWriteAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTide([classes]int{}).door
		for range 5 { // a quick write each second
			d.leave(d.enter(time.Now(), true), time.Now(), true)
			<-time.After(time.Second)
		}
		s, ok := d.admit(ClassAuthorize, time.Now())
		if !ok {
			t.Fatal("not let in")
		}
		s = d.begin(s, time.Now())
		<-time.After(1200 * time.Millisecond) // its bucket was frozen
		d.leave(s, time.Now(), true)
		if d.limit != d.most {
			t.Errorf("after one slow write the limit is %d", d.limit)
		}
		<-time.After(testTarget / 2)
		if _, ok := d.admit(ClassCapture, time.Now()); !ok {
			t.Error("the capture behind it is turned away")
		}
	})
}

// TestRetryIsSpread over whole seconds, which is what callers are told.
func TestRetryIsSpread(t *testing.T) {
	for c := ClassPayout; c < classes; c++ {
		seen := map[time.Duration]int{}
		for range 1000 {
			seen[c.retryIn()]++
		}
		for in, n := range seen {
			if in%time.Second != 0 || in < time.Second || n > 500 {
				t.Errorf("%s: %d of 1000 come back in %s", c, n, in)
			}
		}
	}
}
