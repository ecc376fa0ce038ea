package payment

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"paygrid/psprouter"
	"paygrid/shard"
	"paygrid/shard/model"
)

// plantedWithin is how many histories may pass before a planted fault is found.
const plantedWithin = 3000

// Each link of the chain that charges once is cut, and the simulation finds it.
func TestPlantedFaults(t *testing.T) {
	without := func(rules ...model.Rule) plant { return plant{without: rules} }
	for _, row := range []struct {
		link  string
		plant plant
		finds string // in what the simulation tells
	}{
		{"the client's key is not unique", without(model.UniqueKeys), "key that is not there"},
		{"every send has an idempotency key of its own", plant{wire: freshKeys()}, "P2"},
		{"the PSP is called before the intent is committed", plant{store: callsFirst}, "no shard has the attempt"},
		{"a state is written without compare-and-set", without(model.CompareAndSet), "S3"},
		{"a notice that comes again is stored again", without(model.InboxKey), "stored twice"},
		{"an unknown goes to the other PSP", plant{psp: guessing}, "was approved 2 times"},
		{"a change is not written whole", without(model.Atomicity), "L5"},
	} {
		t.Run(row.link, func(t *testing.T) {
			_, err := simulate(1, plantedWithin, nil, row.plant)
			if err == nil {
				t.Fatalf("%d histories have not found it", plantedWithin)
			}
			told, _, _ := strings.Cut(err.Error(), "\n\n")
			if !strings.Contains(told, row.finds) {
				t.Errorf("found as\n%s\nwant %q in it", told, row.finds)
			}
			seed, _, _ := strings.Cut(told, " (")
			t.Log("found with", seed)
		})
	}
}

// freshKeys gives every request a new idempotency key: the attempt's ID is not stable at the PSP.
func freshKeys() func(*http.Request, []byte) []byte {
	var mu sync.Mutex
	n := 0
	return func(r *http.Request, body []byte) []byte {
		if r.Method == http.MethodPost {
			mu.Lock()
			defer mu.Unlock()
			n++
			r.Header.Set("Idempotency-Key", fmt.Sprint("fresh-", n))
		}
		return body
	}
}

// lazy acknowledges an opening and writes it with the payment's first change: what is sent has no row that says so.
type lazy struct {
	worldStore
	mu     sync.Mutex
	opened map[string]shard.Opening
}

func callsFirst(s worldStore) worldStore {
	return &lazy{worldStore: s, opened: map[string]shard.Opening{}}
}

// Begin keeps an opening in memory.
func (l *lazy) Begin(ctx context.Context, o shard.Opening) error {
	if key, err := l.worldStore.OpeningKey(ctx, o.Key.ClientID, o.Key.Key); err != nil || key != nil {
		return l.worldStore.Begin(ctx, o)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened[o.Payment.ID] = o
	return nil
}

// Apply writes the opening first.
func (l *lazy) Apply(ctx context.Context, c shard.Change) error {
	l.mu.Lock()
	o, first := l.opened[c.Payment.ID]
	delete(l.opened, c.Payment.ID)
	l.mu.Unlock()
	if first {
		if err := l.worldStore.Begin(ctx, o); err != nil {
			return err
		}
	}
	return l.worldStore.Apply(ctx, c)
}

// guesser takes an answer that it does not know for proof that nothing happened.
type guesser struct{ psprouter.PSP }

func guessing(p psprouter.PSP) psprouter.PSP { return guesser{p} }

// Authorize is psprouter.PSP's.
func (g guesser) Authorize(ctx context.Context, r psprouter.AuthorizeRequest) psprouter.Outcome {
	o := g.PSP.Authorize(ctx, r)
	if o.Class() == psprouter.Unknown {
		return psprouter.NotSentBecause("it did not answer")
	}
	return o
}
