package simulator

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// stripeDialect speaks Stripe's wire format.
type stripeDialect struct{ *Simulator }

const replayedHeader = "Idempotent-Replayed"

func (s *stripeDialect) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v1/payment_intents", s.post(opAuthorize, s.createIntent))
	mux.HandleFunc("POST /v1/payment_intents/{id}/confirm", s.post(opAuthorize, s.confirmIntent))
	mux.HandleFunc("POST /v1/payment_intents/{id}/capture", s.post(opCapture, s.captureIntent))
	mux.HandleFunc("POST /v1/payment_intents/{id}/cancel", s.post(opVoid, s.cancelIntent))
	mux.HandleFunc("POST /v1/refunds", s.post(opRefund, s.createRefund))
	mux.HandleFunc("GET /v1/payment_intents", s.get(s.listIntents))
	mux.HandleFunc("GET /v1/payment_intents/search", s.get(s.searchIntents))
	mux.HandleFunc("GET /v1/payment_intents/{id}", s.get(s.retrieveIntent))
	mux.HandleFunc("GET /v1/refunds", s.get(s.listRefunds))
	mux.HandleFunc("GET /v1/refunds/{id}", s.get(s.retrieveRefund))
}

func (s *stripeDialect) authenticate(r *http.Request) *answer {
	key, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if user, _, basic := r.BasicAuth(); basic {
		key, bearer = user, true
	}
	if bearer && (key == s.opts.SecretKey || s.opts.SecretKey == "" && strings.HasPrefix(key, "sk_")) {
		return nil
	}
	refused := s.refuse(unauthorized)
	return &refused
}

func (s *stripeDialect) read(r *request, body []byte) *answer {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return invalid("", "", "the request body is not a form")
	}
	r.form = form
	if strings.HasSuffix(r.path, "/payment_intents") && form.Get("confirm") != "true" {
		r.op = opCreate
	}
	// Encode sorts by name: the order of parameters has no meaning.
	r.print = sha256.Sum256([]byte(r.path + "?" + form.Encode()))
	return nil
}

func (s *stripeDialect) locate(r *request) {
	r.payment = s.payments[cmp.Or(r.id, r.form.Get("payment_intent"))]
	r.token = r.form.Get("payment_method")
	if r.payment != nil && r.token == "" {
		r.token = r.payment.token
	}
}

func (s *stripeDialect) maxKey() int { return 255 }

func (s *stripeDialect) keyLife() time.Duration { return 24 * time.Hour }

func (s *stripeDialect) authorizationLife() time.Duration { return 7 * 24 * time.Hour }

func (s *stripeDialect) otherBody() *answer {
	return fail(http.StatusBadRequest, stripeError{Type: typeIdempotency,
		Message: "Keys for idempotent requests can only be used with the same parameters they were first used with."})
}

func (s *stripeDialect) refuse(why refusal) answer {
	switch why {
	case silence:
		return answer{}
	case notProcessed:
		a := fail(http.StatusServiceUnavailable, stripeError{Type: typeAPI, Message: "The service is unavailable; nothing was processed."})
		a.header = map[string]string{NotProcessedHeader: "true"}
		return *a
	case unavailable, storeDown:
		return *fail(http.StatusServiceUnavailable, stripeError{Type: typeAPI, Message: "The service is unavailable."})
	case limited:
		a := fail(http.StatusTooManyRequests, stripeError{Type: typeInvalid, Code: "rate_limit", Message: "Too many requests."})
		a.header = map[string]string{"Stripe-Rate-Limited-Reason": "global-rate"}
		return *a
	case locked:
		return *fail(http.StatusTooManyRequests, stripeError{Type: typeInvalid, Code: "lock_timeout",
			Message: "This object cannot be accessed right now because another API request or Stripe process is accessing it."})
	case inFlight, stuck:
		return *fail(http.StatusConflict, stripeError{Type: typeInvalid, Code: "idempotency_key_in_use",
			Message: "There is currently another in-progress request using this idempotency key."})
	case gatewayDown:
		return proxyError(badGateway)
	case gatewayTimeout:
		return proxyError(lateGateway)
	case unauthorized:
		return *fail(http.StatusUnauthorized, stripeError{Type: typeInvalid, Message: "Invalid API Key provided."})
	case unreadable:
		return *invalid("", "", "the request body cannot be read")
	case keyTooLong:
		return *invalid("", "", "the idempotency key is longer than 255 characters")
	case unknownPath:
		return *fail(http.StatusNotFound, stripeError{Type: typeInvalid, Message: "Unrecognized request URL."})
	}
	return *fail(http.StatusInternalServerError, stripeError{Type: typeAPI, Message: "An unknown error occurred."})
}

func (s *stripeDialect) headers(out, in http.Header, replayed bool) {
	for _, echoed := range []string{"Idempotency-Key", "Stripe-Version"} {
		if value := in.Get(echoed); value != "" {
			out.Set(echoed, value)
		}
	}
	if replayed {
		out.Set(replayedHeader, "true")
	}
}

func (s *stripeDialect) distort(body map[string]any, lie distortion) {
	switch lie {
	case wrongStatus:
		body["status"] = "perplexed"
	case wrongAmount:
		for _, name := range []string{"amount", "amount_capturable", "amount_received"} {
			bump(body, name)
		}
	case wrongCurrency:
		body["currency"] = other(body["currency"], "usd", "eur")
	case wrongReference:
		body["metadata"] = map[string]string{"attempt": "att_of_another"}
		for _, name := range []string{"id", "payment_intent"} {
			if ref, ok := body[name].(string); ok {
				body[name] = ref + "X"
			}
		}
	}
}

// other returns the first of two words, or the second if it is the first already.
func other(is any, first, second string) string {
	if is == first {
		return second
	}
	return first
}

func (s *stripeDialect) newRef(kind string) string {
	prefix := map[string]string{kindPayment: "pi_", kindCharge: "ch_", kindRefund: "re_", kindModification: "mod_"}[kind]
	return s.newID(prefix, 12, len(idAlphabet))
}

// isoMinor converts Stripe's unit to ISO minor units, for the few currencies where they differ. An amount that is no
// whole number of minor units (ISK 150 at the PSP is 1.50 krónur) becomes -1: no books can agree with it.
func (s *stripeDialect) isoMinor(amount int64, currency string) int64 {
	switch strings.ToUpper(currency) {
	case "ISK", "UGX":
		if amount%100 != 0 {
			return -1
		}
		return amount / 100
	case "MGA":
		return amount * 100
	}
	return amount
}

func (s *stripeDialect) acknowledged(status int, _ []byte) bool {
	return status >= 200 && status <= 299
}

// sign makes Stripe-Signature: the time of this try, and an HMAC over it and the body for each secret. The key is the
// secret as it is, whsec_ included.
func (s *stripeDialect) sign(e *event, now time.Time, forge bool) ([]byte, http.Header) {
	body, secrets := e.body, s.opts.WebhookSecrets
	if forge {
		body, secrets = forgedStripe(e.body), []string{"whsec_of_somebody_else"}
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	signature := "t=" + stamp
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(stamp + "."))
		mac.Write(body)
		signature += ",v1=" + hex.EncodeToString(mac.Sum(nil))
	}
	return body, http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Stripe-Signature": {signature}}
}
