package adyen

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/psprouter/wire"
)

// Name is this PSP's stable name in accounts, rows and metrics.
const Name = "adyen"

// Defaults of a Config.
const (
	DefaultTimeout          = 20 * time.Second
	DefaultVisibilityWindow = 15 * time.Minute
)

// maxKeyBytes is Adyen's limit of an idempotency key; an attempt ID has 35.
const maxKeyBytes = 64

// Config describes one merchant account.
type Config struct {
	// BaseURL ends in the API's version, e.g. https://checkout-test.adyen.com/v71. It has no default: nothing may reach
	// the real Adyen by omission.
	BaseURL string
	// APIKey is sent as X-API-Key.
	APIKey string
	// MerchantAccount stands in every request; notices of another account are Foreign.
	MerchantAccount string
	// HMACKeys check webhooks, in hex as Adyen shows them. Several are valid at once while a key is changed. Without any,
	// every webhook is refused.
	HMACKeys []string
	// Live tells which notices are ours: those of the live or of the test system.
	Live bool
	// ReturnURL is where a buyer returns to if a request names no place: Adyen demands one with every payment.
	ReturnURL string
	// Timeout bounds one call from the first dial to the last byte of the answer; 0 means DefaultTimeout.
	Timeout time.Duration
	// SeveralCaptures tells that the account has multiple partial captures: the rest of a partial capture stays open.
	SeveralCaptures bool
	// VisibilityWindow is how long a call's absence proves nothing; 0 means DefaultVisibilityWindow.
	VisibilityWindow time.Duration
	// NotProcessedHeader names a response header that, as "true" on an HTTP 503, promises that nothing was done. Adyen
	// documents no such marker, so it must be "" (never) there; a gateway or simulator that makes the promise has its name
	// here.
	NotProcessedHeader string
	// Transport carries the requests; nil means a new transport that keeps connections alive.
	Transport http.RoundTripper
}

// ConfigError says which field of a Config cannot be used, and what to put there.
type ConfigError struct {
	Field, Remedy string
}

func (e *ConfigError) Error() string { return "adyen config: " + e.Field + ": " + e.Remedy }

// Adapter is the psprouter.PSP of one merchant account. It holds connections but no state, and is safe for concurrent
// use.
type Adapter struct {
	cfg    Config // checked, defaults filled in
	http   *http.Client
	keys   [][]byte // of webhooks
	units  wire.Units
	judges judge
}

var _ psprouter.PSP = (*Adapter)(nil)

// New returns an adapter, or a *ConfigError. It makes no call.
func New(cfg Config) (*Adapter, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	keys, err := decodeKeys(cfg.HMACKeys)
	if err != nil {
		return nil, err
	}
	cfg.BaseURL = strings.TrimRight(cfg.BaseURL, "/")
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.VisibilityWindow == 0 {
		cfg.VisibilityWindow = DefaultVisibilityWindow
	}
	return &Adapter{
		cfg: cfg, http: wire.NewClient(cfg.Transport), keys: keys, units: wire.Units{PSP: Name, Of: unitOf},
		judges: judge{account: cfg.MerchantAccount, notProcessedHeader: cfg.NotProcessedHeader},
	}, nil
}

func (cfg Config) check() error {
	base, err := url.Parse(cfg.BaseURL)
	switch {
	case err != nil || (base.Scheme != "https" && base.Scheme != "http") || base.Host == "":
		return &ConfigError{"BaseURL", "give scheme, host and version, e.g. https://checkout-test.adyen.com/v71"}
	case strings.TrimSpace(cfg.APIKey) == "":
		return &ConfigError{"APIKey", "give the account's API key"}
	case strings.TrimSpace(cfg.MerchantAccount) == "":
		return &ConfigError{"MerchantAccount", "give the merchant account's name"}
	case strings.TrimSpace(cfg.ReturnURL) == "":
		return &ConfigError{"ReturnURL", "give the address where buyers return to: Adyen refuses payments without one"}
	case cfg.Timeout < 0:
		return &ConfigError{"Timeout", "give a positive duration, or 0 for the default"}
	case cfg.VisibilityWindow < 0:
		return &ConfigError{"VisibilityWindow", "give a positive duration, or 0 for the default"}
	}
	return nil
}

func decodeKeys(texts []string) ([][]byte, error) {
	var keys [][]byte
	for _, text := range texts {
		key, err := hex.DecodeString(text)
		if err != nil || len(key) == 0 {
			return nil, &ConfigError{"HMACKeys", "give each key in hex, as Adyen shows it"}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Close drops the idle connections. Calls that run are not touched.
func (a *Adapter) Close() { wire.CloseIdle(a.http) }

// Name returns "adyen".
func (a *Adapter) Name() string { return Name }

// SeveralCaptures tells whether the account has multiple partial captures.
func (a *Adapter) SeveralCaptures() bool { return a.cfg.SeveralCaptures }

// Supports returns an *psprouter.AmountError if amount is not positive or would have to be rounded.
func (a *Adapter) Supports(amount ledger.Money) error { return a.units.Supports(amount) }

// Authorize makes a payment; see the package comment for r.AutoCapture.
func (a *Adapter) Authorize(ctx context.Context, r psprouter.AuthorizeRequest) psprouter.Outcome {
	return a.authorize(ctx, r, firstSend)
}

// Capture takes r.Amount; the result comes by webhook.
func (a *Adapter) Capture(ctx context.Context, r psprouter.CaptureRequest) psprouter.Outcome {
	return a.capture(ctx, r, firstSend)
}

// Void cancels an authorization; the result comes by webhook.
func (a *Adapter) Void(ctx context.Context, r psprouter.VoidRequest) psprouter.Outcome {
	return a.void(ctx, r, firstSend)
}

// Refund gives r.Amount of a captured payment back; the result comes by webhook.
func (a *Adapter) Refund(ctx context.Context, r psprouter.RefundRequest) psprouter.Outcome {
	return a.refund(ctx, r, firstSend)
}

func (a *Adapter) authorize(ctx context.Context, r psprouter.AuthorizeRequest, s send) psprouter.Outcome {
	value, err := a.units.Positive(r.Amount)
	if out, bad := refuseUnsent(err, r.Attempt, r.Token); bad {
		return out
	}
	body := a.paymentBody(r, value)
	seen := a.post(ctx, "/payments", r.Attempt, body)
	return a.judges.payment(seen, s, askedPayment{attempt: r.Attempt, amount: body.Amount, captured: r.AutoCapture})
}

func (a *Adapter) capture(ctx context.Context, r psprouter.CaptureRequest, s send) psprouter.Outcome {
	if r.Amount.Minor > r.Authorized-r.Captured {
		return psprouter.RejectedWith("amount_not_supported", "the capture exceeds what is authorized and not yet captured")
	}
	return a.modify(ctx, "captures", r.Attempt, r.PaymentRef, &r.Amount, s)
}

func (a *Adapter) void(ctx context.Context, r psprouter.VoidRequest, s send) psprouter.Outcome {
	return a.modify(ctx, "cancels", r.Attempt, r.PaymentRef, nil, s)
}

func (a *Adapter) refund(ctx context.Context, r psprouter.RefundRequest, s send) psprouter.Outcome {
	return a.modify(ctx, "refunds", r.Attempt, r.PaymentRef, &r.Amount, s)
}

// modify asks for a modification of a payment; a cancellation has no amount.
func (a *Adapter) modify(ctx context.Context, kind, attempt, payment string, money *ledger.Money, s send) psprouter.Outcome {
	body := modificationBody{MerchantAccount: a.cfg.MerchantAccount, Reference: attempt}
	var err error
	if money != nil {
		body.Amount = &amount{Currency: string(money.Currency)}
		body.Amount.Value, err = a.units.Positive(*money)
	}
	if out, bad := refuseUnsent(err, attempt, payment); bad {
		return out
	}
	seen := a.post(ctx, "/payments/"+url.PathEscape(payment)+"/"+kind, attempt, body)
	return a.judges.modification(seen, s, askedModification{attempt: attempt, payment: payment, amount: body.Amount})
}

// refuseUnsent turns requests that must not be sent at all into an outcome.
func refuseUnsent(err error, attempt, target string) (psprouter.Outcome, bool) {
	switch {
	case err != nil:
		return psprouter.RejectedWith("amount_not_supported", err.Error()), true
	case !wire.SendableKey(attempt, maxKeyBytes):
		return psprouter.RejectedWith("attempt_invalid", "the attempt ID must be 1 to 64 printable ASCII characters"), true
	case strings.TrimSpace(target) == "" || target == "." || target == "..":
		return psprouter.RejectedWith("reference_missing", "the request names no token or payment"), true
	}
	return psprouter.Outcome{}, false
}
