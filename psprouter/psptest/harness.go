package psptest

import (
	"context"
	"net/http"
	"testing"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
)

// Adapter is all that an adapter must be.
type Adapter interface {
	psprouter.PSP
	Close() // drops idle connections
}

// Harness is what the suite must know of one PSP.
type Harness struct {
	// New returns an adapter that speaks to base (http://host:port) and waits for timeout. It must check webhooks with two
	// secrets and be configured for live notices.
	New func(t testing.TB, base string, timeout time.Duration) Adapter
	// Success is how the PSP answers a call that did as asked, and Class what that tells.
	Success func(Call) Response
	Class   func(operation string) psprouter.Class
	// Refusals are the PSP's own answers and what each must tell as the answer to a first send.
	Refusals []Refusal
	// Inquired is what an inquiry finds at a peer that answers every request with Found.
	Found    func(c Call, r *http.Request) Response
	Inquired func(operation string) psprouter.Class
	// WireAmount reads amount and currency out of an authorization as it was sent.
	WireAmount func(body []byte) (amount int64, currency string)
	// Amounts are rows of the PSP's exponent table, worked out by hand.
	Amounts []Amount
	// Notice is the body of an unsigned notice of an authorization that succeeded.
	Notice func(Event) []byte
	// Unheard is a body of a kind of notice that does not exist.
	Unheard []byte
	// Sign signs a body with the first or the second secret (0, 1), or with one that is not the adapter's (2).
	Sign func(body []byte, at time.Time, secret int) (http.Header, []byte)
	// SignsTime tells that the PSP signs the time of a notice.
	SignsTime bool
}

// Call is one operation with the values that the suite uses for it.
type Call struct {
	Operation  string // psprouter.OpAuthorize, …
	Attempt    string
	PaymentRef string // of all but an authorization
	Amount     ledger.Money
	Token      string
}

// Response is one HTTP answer.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// Refusal is an answer that a PSP documents. Modified is the class for captures, voids and refunds.
type Refusal struct {
	Name                 string
	Response             Response
	Authorized, Modified psprouter.Class
}

// Refuse returns a Refusal; written so, a table has one row per line.
func Refuse(name string, r Response, authorized, modified psprouter.Class) Refusal {
	return Refusal{Name: name, Response: r, Authorized: authorized, Modified: modified}
}

// Amount is one row of an exponent table: ISO minor units and what must stand on the wire; Refused = it must not cross.
type Amount struct {
	Minor    int64
	Currency ledger.Currency
	Wire     int64
	Refused  bool
}

// Event is what a notice of a successful authorization says, in the PSP's unit.
type Event struct {
	ID, Attempt, PaymentRef string
	Amount                  int64
	Currency                string // upper case
	Foreign                 bool   // of another mode
}

// The suite's card; its token must not turn up in words for people.
const token = "tok_Secret_4242"

// Calls returns one call of each operation.
func Calls() []Call {
	eur := ledger.Money{Minor: 1000, Currency: "EUR"}
	ref := "PSPREF0000000001"
	return []Call{
		{Operation: psprouter.OpAuthorize, Attempt: "att_0001_01JD0000000000000000000001", Amount: eur, Token: token},
		{Operation: psprouter.OpCapture, Attempt: "att_0001_01JD0000000000000000000002", Amount: eur, PaymentRef: ref},
		{Operation: psprouter.OpVoid, Attempt: "att_0001_01JD0000000000000000000003", Amount: eur, PaymentRef: ref},
		{Operation: psprouter.OpRefund, Attempt: "att_0001_01JD0000000000000000000004", Amount: eur, PaymentRef: ref},
	}
}

// send makes the call.
func (c Call) send(ctx context.Context, a Adapter) psprouter.Outcome {
	switch c.Operation {
	case psprouter.OpCapture:
		return a.Capture(ctx, psprouter.CaptureRequest{Attempt: c.Attempt, PaymentRef: c.PaymentRef, Amount: c.Amount,
			Authorized: c.Amount.Minor, Final: true, Recovery: recovery()})
	case psprouter.OpVoid:
		return a.Void(ctx, psprouter.VoidRequest{Attempt: c.Attempt, PaymentRef: c.PaymentRef, Amount: c.Amount, Recovery: recovery()})
	case psprouter.OpRefund:
		return a.Refund(ctx, psprouter.RefundRequest{Attempt: c.Attempt, Refund: refund, PaymentRef: c.PaymentRef, Amount: c.Amount,
			Recovery: recovery()})
	}
	return a.Authorize(ctx, psprouter.AuthorizeRequest{Attempt: c.Attempt, Amount: c.Amount, Token: c.Token, Recovery: recovery()})
}

const refund = "ref_0001_01JD0000000000000000000005"

func recovery() psprouter.Recovery {
	return psprouter.Recovery{Payment: "pay_0001_01JD0000000000000000000000", Client: "shop", Key: "k-1", Order: "o-1",
		Splits: []ledger.Split{{SellerID: "s-ann", Minor: 1000, CommissionMinor: 100}}}
}

// inquire asks about the call a minute after it was sent.
func (c Call) inquire(ctx context.Context, a Adapter) psprouter.Finding {
	sent := time.Unix(1_800_000_000, 0)
	q := psprouter.Inquiry{Attempt: c.Attempt, Operation: c.Operation, PaymentRef: c.PaymentRef, Amount: c.Amount, Token: c.Token,
		SentAt: sent, Now: sent.Add(time.Minute), Recovery: recovery()}
	switch c.Operation {
	case psprouter.OpCapture:
		q.Authorized, q.Final = c.Amount.Minor, true
	case psprouter.OpRefund:
		q.Refund = refund
	}
	return a.Inquire(ctx, q)
}

// Run runs the whole suite.
func Run(t *testing.T, h Harness) {
	t.Run("success", func(t *testing.T) { success(t, h) })
	t.Run("faults", func(t *testing.T) { faults(t, h) })
	t.Run("no connection", func(t *testing.T) { noConnection(t, h) })
	t.Run("refusals", func(t *testing.T) { refusals(t, h) })
	t.Run("amounts", func(t *testing.T) { amounts(t, h) })
	t.Run("webhooks", func(t *testing.T) { webhooks(t, h) })
}
