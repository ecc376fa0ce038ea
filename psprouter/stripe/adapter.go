package stripe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v82"

	"paygrid/ledger"
	"paygrid/psprouter"
	"paygrid/psprouter/wire"
)

// Name is this PSP's stable name in accounts, rows and metrics.
const Name = "stripe"

// DefaultTimeout bounds one call when Config.Timeout is zero. Stripe's own advice is 80 s; the buyer does not wait that long,
// and a call that takes longer is resolved later by looking it up.
const DefaultTimeout = 20 * time.Second

// DefaultVisibilityWindow is Config.VisibilityWindow when that is zero.
const DefaultVisibilityWindow = 15 * time.Minute

// maxKeyBytes is Stripe's limit of an idempotency key.
const maxKeyBytes = 255

// Config describes one Stripe account.
type Config struct {
	// BaseURL is scheme and host, e.g. https://api.stripe.com. It has no default: nothing may reach the real Stripe by
	// omission.
	BaseURL string
	// SecretKey is the account's key (sk_…), sent as a bearer token.
	SecretKey string
	// Timeout bounds one call from the first dial to the last byte of the answer; 0 means DefaultTimeout.
	Timeout time.Duration
	// SeveralCaptures tells that multicapture is on for the account: the rest of a partial capture stays open.
	SeveralCaptures bool
	// AllowUGX turns UGX on, sent times 100. See units.
	AllowUGX bool
	// NotProcessedHeader names a response header that, as "true" on an HTTP 503, promises that nothing was done. Stripe
	// documents no such marker, so it must be "" (never) there; a gateway or simulator that makes the promise has its name
	// here. Without the promise every 503 is Unknown.
	NotProcessedHeader string
	// WebhookSecrets check webhooks, each the whole text "whsec_…". Several are valid at once while a secret is changed.
	// Without any, every webhook is refused.
	WebhookSecrets []string
	// Live tells which notices are ours: those of the live or of the test mode.
	Live bool
	// VisibilityWindow is how long a call's absence proves nothing: search lags behind by up to that. 0 means
	// DefaultVisibilityWindow.
	VisibilityWindow time.Duration
	// Transport carries the requests; nil means a new http.Transport that keeps connections alive. A transport that does
	// not report to httptrace as http.Transport does can never prove that nothing was sent: its failures are Unknown.
	Transport http.RoundTripper
}

// ConfigError says which field of a Config cannot be used, and what to put there.
type ConfigError struct {
	Field, Remedy string
}

func (e *ConfigError) Error() string { return "stripe config: " + e.Field + ": " + e.Remedy }

// Adapter is the psprouter.PSP of one Stripe account. It holds connections and the look-ups that are under way but no other
// state, and is safe for concurrent use.
type Adapter struct {
	client  *stripego.Client
	backend stripego.Backend // the client's own, for lists
	key     string
	http    *http.Client
	timeout time.Duration
	several bool
	units   units
	judge   judge
	secrets [][]byte // of webhooks
	live    bool
	window  time.Duration

	censuses *censuses
}

var _ psprouter.PSP = (*Adapter)(nil)

// New returns an adapter, or a *ConfigError. It makes no call.
func New(cfg Config) (*Adapter, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	client := wire.NewClient(cfg.Transport)
	backends := newBackends(cfg, client)
	u := units{allowUGX: cfg.AllowUGX}
	return &Adapter{
		client:  stripego.NewClient(cfg.SecretKey, stripego.WithBackends(backends)),
		backend: backends.API,
		key:     cfg.SecretKey,
		http:    client,
		timeout: cmp.Or(cfg.Timeout, DefaultTimeout),
		several: cfg.SeveralCaptures,
		units:   u,
		judge:   judge{notProcessedHeader: cfg.NotProcessedHeader},
		secrets: bytesOf(cfg.WebhookSecrets),
		live:    cfg.Live,
		window:  cmp.Or(cfg.VisibilityWindow, DefaultVisibilityWindow),

		censuses: newCensuses(),
	}, nil
}

func (cfg Config) check() error {
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || (base.Scheme != "https" && base.Scheme != "http") || base.Host == "" {
		return &ConfigError{"BaseURL", "give scheme and host, e.g. https://api.stripe.com"}
	}
	if strings.TrimSpace(cfg.SecretKey) == "" {
		return &ConfigError{"SecretKey", "give the account's secret key"}
	}
	if cfg.Timeout < 0 {
		return &ConfigError{"Timeout", "give a positive duration, or 0 for the default"}
	}
	if cfg.VisibilityWindow < 0 {
		return &ConfigError{"VisibilityWindow", "give a positive duration, or 0 for the default"}
	}
	if slices.ContainsFunc(cfg.WebhookSecrets, func(s string) bool { return strings.TrimSpace(s) == "" }) {
		return &ConfigError{"WebhookSecrets", "give each endpoint's whole secret, whsec_…, and no empty one: it would sign for everybody"}
	}
	return nil
}

func bytesOf(texts []string) [][]byte {
	var all [][]byte
	for _, text := range texts {
		all = append(all, []byte(text))
	}
	return all
}

// newBackends sets everything by which stripe-go would do more than one plain request: retries, redirects, telemetry, logs.
func newBackends(cfg Config, client *http.Client) *stripego.Backends {
	return stripego.NewBackendsWithConfig(&stripego.BackendConfig{
		URL:               stripego.String(strings.TrimRight(cfg.BaseURL, "/")),
		MaxNetworkRetries: stripego.Int64(0),
		EnableTelemetry:   stripego.Bool(false),
		LeveledLogger:     &stripego.LeveledLogger{Level: stripego.LevelNull},
		HTTPClient:        client,
	})
}

// Close drops the idle connections. Calls that run are not touched.
func (a *Adapter) Close() { wire.CloseIdle(a.http) }

// Name returns "stripe".
func (a *Adapter) Name() string { return Name }

// SeveralCaptures tells whether the account has multicapture.
func (a *Adapter) SeveralCaptures() bool { return a.several }

// Supports returns an *psprouter.AmountError if amount is not positive or would have to be rounded. Stripe's own limits
// (smallest, largest) differ per account and currency: Stripe refuses those itself, before it does anything.
func (a *Adapter) Supports(amount ledger.Money) error {
	return a.units.table().Supports(amount)
}

// Authorize creates and confirms a payment intent in one call.
func (a *Adapter) Authorize(ctx context.Context, r psprouter.AuthorizeRequest) psprouter.Outcome {
	amount, err := a.units.table().Positive(r.Amount)
	if out, bad := refuseUnsent(err, r.Attempt, r.Token); bad {
		return out
	}
	var intent *stripego.PaymentIntent
	seen := a.do(ctx, func(ctx context.Context) (err error) {
		intent, err = a.client.V1PaymentIntents.Create(ctx, authorizeParams(r, amount))
		return err
	})
	return a.judge.authorize(seen, intent, asked{
		attempt: r.Attempt, amount: amount, currency: wireCurrency(r.Amount), captured: r.AutoCapture,
	})
}

// Capture takes r.Amount. The rest stays open only if r.Final is false, the account allows it, and there is a rest.
func (a *Adapter) Capture(ctx context.Context, r psprouter.CaptureRequest) psprouter.Outcome {
	amount, authorized, before, err := a.captureAmounts(r)
	if out, bad := refuseUnsent(err, r.Attempt, r.PaymentRef); bad {
		return out
	}
	want := askedCapture{
		attempt: r.Attempt, intent: r.PaymentRef, currency: wireCurrency(r.Amount),
		authorized: authorized, received: before + amount,
		open: a.several && !r.Final && before+amount < authorized,
	}
	var intent *stripego.PaymentIntent
	seen := a.do(ctx, func(ctx context.Context) (err error) {
		intent, err = a.client.V1PaymentIntents.Capture(ctx, r.PaymentRef, captureParams(r, amount, want.open))
		return err
	})
	return a.judge.capture(seen, intent, want)
}

func (a *Adapter) captureAmounts(r psprouter.CaptureRequest) (amount, authorized, before int64, err error) {
	convert := func(minor int64) int64 {
		converted, e := a.units.toStripe(ledger.Money{Minor: minor, Currency: r.Amount.Currency})
		err = errors.Join(err, e)
		return converted
	}
	amount, authorized, before = convert(r.Amount.Minor), convert(r.Authorized), convert(r.Captured)
	if err == nil && (amount > authorized || before > authorized-amount) {
		err = fmt.Errorf("capturing %d on top of %d exceeds the %d authorized", r.Amount.Minor, r.Captured, r.Authorized)
	}
	return amount, authorized, before, err
}

// Void cancels the payment intent, which releases the authorization.
func (a *Adapter) Void(ctx context.Context, r psprouter.VoidRequest) psprouter.Outcome {
	amount, err := a.units.table().Positive(r.Amount)
	if out, bad := refuseUnsent(err, r.Attempt, r.PaymentRef); bad {
		return out
	}
	var intent *stripego.PaymentIntent
	seen := a.do(ctx, func(ctx context.Context) (err error) {
		intent, err = a.client.V1PaymentIntents.Cancel(ctx, r.PaymentRef, voidParams(r))
		return err
	})
	return a.judge.void(seen, intent, askedVoid{intent: r.PaymentRef, amount: amount, currency: wireCurrency(r.Amount)})
}

// Refund gives r.Amount of a captured payment back.
func (a *Adapter) Refund(ctx context.Context, r psprouter.RefundRequest) psprouter.Outcome {
	amount, err := a.units.table().Positive(r.Amount)
	if out, bad := refuseUnsent(err, r.Attempt, r.PaymentRef); bad {
		return out
	}
	var refund *stripego.Refund
	seen := a.do(ctx, func(ctx context.Context) (err error) {
		refund, err = a.client.V1Refunds.Create(ctx, refundParams(r, amount))
		return err
	})
	return a.judge.refund(seen, refund, askedRefund{
		attempt: r.Attempt, intent: r.PaymentRef, amount: amount, currency: wireCurrency(r.Amount),
	})
}

// do makes one call within the timeout and returns what was seen of it.
func (a *Adapter) do(ctx context.Context, call func(context.Context) error) answer {
	if err := ctx.Err(); err != nil {
		return answer{unsent: "the caller had given up before the call: " + err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	seen := new(wire.Exchange)
	err := call(wire.With(ctx, seen))
	return answerOf(seen, err)
}

// answerOf sums up the exchange of a call that returned err.
func answerOf(seen *wire.Exchange, err error) answer {
	a := answer{unsent: seen.Unsent(err), status: seen.Status(), header: seen.Header()}
	var fault *stripego.Error
	switch {
	case err == nil || a.unsent != "":
	case errors.As(err, &fault) && a.status >= http.StatusBadRequest:
		a.fault = fault
	default:
		a.broken = err
	}
	return a
}

// refuseUnsent turns requests that must not be sent at all into an outcome. A request without an attempt ID would get a
// random idempotency key from stripe-go and could never be found again.
func refuseUnsent(err error, attempt, target string) (psprouter.Outcome, bool) {
	switch {
	case err != nil:
		return psprouter.RejectedWith("amount_not_supported", err.Error()), true
	case !wire.SendableKey(attempt, maxKeyBytes):
		return psprouter.RejectedWith("attempt_invalid", "the attempt ID must be 1 to 255 printable ASCII characters"), true
	case strings.TrimSpace(target) == "":
		return psprouter.RejectedWith("reference_missing", "the request names no token or payment"), true
	}
	return psprouter.Outcome{}, false
}

func wireCurrency(m ledger.Money) string { return strings.ToLower(string(m.Currency)) }
