package loadtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"paygrid/ledger"
)

// fakeAPI is a router that answers for one order of one journey. Each key that it sees gets the next of its ends; an open
// one becomes settled at the read of that number.
type fakeAPI struct {
	t        *testing.T
	ends     []End
	settleAt int // reads; 0 = never

	amount ledger.Money
	keys   []string
	reads  int
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	key := q.Header.Get("Idempotency-Key")
	switch {
	case q.URL.Query().Get("orderId") != "":
		f.list(w)
	case q.Method == http.MethodGet:
		f.reads++
		n := len(f.keys) - 1
		f.write(w, http.StatusOK, f.payment(n))
	case slices.Contains(f.keys, key):
		w.Header().Set("Idempotent-Replayed", "true")
		f.answer(w, slices.Index(f.keys, key))
	default:
		var sale sale
		if err := json.NewDecoder(q.Body).Decode(&sale); err != nil {
			f.t.Error(err)
		}
		f.amount, f.keys = sale.Amount, append(f.keys, key)
		f.answer(w, len(f.keys)-1)
	}
}

// end is how a key's call ended by now.
func (f *fakeAPI) end(n int) End {
	e := f.ends[n]
	if e == Open && f.settleAt > 0 && f.reads >= f.settleAt {
		return Done
	}
	return e
}

func (f *fakeAPI) payment(n int) string {
	word, captured := map[End]string{Done: "CAPTURED", Open: "PROCESSING", NotProcessed: "FAILED"}[f.end(n)], int64(0)
	if f.end(n) == Done {
		captured = f.amount.Minor
	}
	return fmt.Sprintf(`{"id":"pay_%d","orderId":"demo-o1","psp":"stripe","status":%q,"captured":%d,"amount":{"minor":%d,"currency":%q}}`,
		n, word, captured, f.amount.Minor, f.amount.Currency)
}

func (f *fakeAPI) answer(w http.ResponseWriter, n int) {
	body := f.payment(n)
	if f.end(n) == Unavailable {
		body = `{"code":"PSP_UNAVAILABLE","status":503}`
	}
	f.write(w, ends[f.end(n)].status[Authorize], body)
}

func (f *fakeAPI) list(w http.ResponseWriter) {
	var all []string
	for n := range f.keys {
		if f.end(n) != Unavailable {
			all = append(all, f.payment(n))
		}
	}
	f.write(w, http.StatusOK, `{"payments":[`+strings.Join(all, ",")+`]}`)
}

func (f *fakeAPI) write(w http.ResponseWriter, status int, body string) {
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// TestFaultsAreFollowed: what stays open is followed by reading, within the journey or when the PSPs are well; what is not
// processed gets a new key and payment, what finds no PSP a new key; and an outcome that never comes is a finding.
func TestFaultsAreFollowed(t *testing.T) {
	for name, tc := range map[string]struct {
		ends     []End
		settleAt int
		haste    time.Duration // what each look at the clock adds
		found    int
		failed   int
		unknown  int
	}{
		"at once":                {[]End{Done}, 0, 0, 0, 0, 0},
		"within the journey":     {[]End{Open}, 3, 0, 0, 0, 0},
		"when the PSPs are well": {[]End{Open}, 4, followFor, 0, 0, 0},
		"never":                  {[]End{Open}, 0, settleFor, 1, 0, 1},
		"not processed":          {[]End{NotProcessed, Done}, 0, 0, 0, 1, 0},
		"no PSP at first":        {[]End{Unavailable, Done}, 0, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &fakeAPI{t: t, ends: tc.ends, settleAt: tc.settleAt}
			result := runOne(t, api, tc.haste)
			o := result.Orders[0]
			unknown, _ := result.Pending()
			if result.Found != tc.found || len(o.Failed) != tc.failed || unknown != tc.unknown || len(api.keys) != len(tc.ends) {
				t.Errorf("%d findings %v, failed %v, %d unknown, keys %v", result.Found, result.Findings, o.Failed, unknown, api.keys)
			}
			if tc.found == 0 && (o.State.Status != "CAPTURED" || o.PSP != "stripe" || result.Payments() != tc.failed+1) {
				t.Errorf("ends as %+v at %q", o.State, o.PSP)
			}
		})
	}
}

// runOne runs one order of the journey "charge" on a clock that each look at it moves on.
func runOne(t *testing.T, api http.Handler, haste time.Duration) *Result {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	o := options(server.URL)
	now := time.Unix(0, 0)
	o.Payments, o.Concurrency, o.Now = 1, 1, func() time.Time { now = now.Add(haste); return now }
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range Journeys() {
		if j.Name == "charge" {
			r.orders[0].Journey = j
		}
	}
	r.orders[0].number = 1 // a key that is sent once
	result, err := r.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return result
}
