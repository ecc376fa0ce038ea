package psprouter

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"paygrid/ledger"
)

// account is a PSP that takes multiples of step and is never called.
type account struct {
	name string
	step int64
}

func (a account) Name() string          { return a.name }
func (a account) SeveralCaptures() bool { return false }
func (a account) Supports(m ledger.Money) error {
	if m.Minor%a.step != 0 {
		return &AmountError{PSP: a.name, Amount: m, Why: "not a multiple"}
	}
	return nil
}
func (a account) Authorize(context.Context, AuthorizeRequest) Outcome {
	panic("choosing must not call")
}
func (a account) Capture(context.Context, CaptureRequest) Outcome { panic("choosing must not call") }
func (a account) Void(context.Context, VoidRequest) Outcome       { panic("choosing must not call") }
func (a account) Refund(context.Context, RefundRequest) Outcome   { panic("choosing must not call") }

func (a account) Inquire(context.Context, Inquiry) Finding { panic("choosing must not call") }
func (a account) VisibilityWindow() time.Duration          { return 0 }
func (a account) CheckWebhook(http.Header, []byte, time.Time) error {
	panic("choosing must not call")
}
func (a account) ReadWebhook([]byte) ([]Notice, error) { panic("choosing must not call") }
func (a account) WebhookAnswer() (string, []byte)      { panic("choosing must not call") }

func TestChoose(t *testing.T) {
	r := NewRouter(account{"stripe", 10}, account{"adyen", 1}, account{"stripe", 1})
	for _, c := range []struct {
		name      string
		tokens    map[string]string
		minor     int64
		psp       string
		noPSP     bool
		amountErr string // PSP that is named
	}{
		{name: "preferred first", tokens: map[string]string{"adyen": "a", "stripe": "s"}, minor: 20, psp: "stripe"},
		{name: "the only token", tokens: map[string]string{"adyen": "a"}, minor: 20, psp: "adyen"},
		{name: "the next one takes the amount", tokens: map[string]string{"adyen": "a", "stripe": "s"}, minor: 5, psp: "adyen"},
		{name: "of two names the first stands", tokens: map[string]string{"stripe": "s"}, minor: 5, amountErr: "stripe"},
		{name: "no token", minor: 5, noPSP: true},
		{name: "an empty token is none", tokens: map[string]string{"stripe": ""}, minor: 20, noPSP: true},
		{name: "a PSP that is not ours", tokens: map[string]string{"paypal": "p"}, minor: 20, noPSP: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := r.Choose(Wish{Tokens: c.tokens, Amount: ledger.Money{Minor: c.minor, Currency: "EUR"}})
			var amount *AmountError
			switch {
			case c.noPSP:
				if !errors.Is(err, ErrNoPSP) {
					t.Fatalf("err = %v, want ErrNoPSP", err)
				}
			case c.amountErr != "":
				if !errors.As(err, &amount) || amount.PSP != c.amountErr {
					t.Fatalf("err = %v, want an AmountError of %s", err, c.amountErr)
				}
			case err != nil:
				t.Fatal(err)
			case got.PSP.Name() != c.psp || got.Token != c.tokens[c.psp] || got.Reason == "":
				t.Fatalf("got %s %q %q", got.PSP.Name(), got.Token, got.Reason)
			}
		})
	}
}

func TestByName(t *testing.T) {
	r := NewRouter(account{"stripe", 1}, account{"adyen", 1})
	if p, ok := r.ByName("adyen"); !ok || p.Name() != "adyen" {
		t.Fatal("adyen is not found")
	}
	if _, ok := r.ByName("paypal"); ok {
		t.Fatal("found what is not there")
	}
}
