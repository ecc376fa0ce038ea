package simulator

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// adyenDialect speaks Adyen Checkout v71.
type adyenDialect struct{ *Simulator }

// opTechnicalCancel is a void by our own reference: for faults and books a void.
const opTechnicalCancel = "technical_cancel"

func (s *adyenDialect) routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /v71/payments", s.post(opAuthorize, s.pay))
	mux.HandleFunc("POST /v71/payments/details", s.post(opDetails, s.details))
	mux.HandleFunc("POST /v71/payments/{id}/captures", s.post(opCapture, s.captures))
	mux.HandleFunc("POST /v71/payments/{id}/cancels", s.post(opVoid, s.cancels))
	mux.HandleFunc("POST /v71/payments/{id}/refunds", s.post(opRefund, s.refundsOf))
	mux.HandleFunc("POST /v71/cancels", s.post(opVoid, s.technicalCancel))
}

func (s *adyenDialect) authenticate(r *http.Request) *answer {
	key := r.Header.Get("X-API-Key")
	if key != "" && (s.opts.SecretKey == "" || key == s.opts.SecretKey) {
		return nil
	}
	refused := s.refuse(unauthorized)
	return &refused
}

func (s *adyenDialect) read(r *request, body []byte) *answer {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	r.body = &adyenRequest{}
	if err := decoder.Decode(r.body); err != nil {
		return adyenFail(http.StatusBadRequest, "702", "Unable to read the request: "+err.Error(), adyenValidation)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return adyenFail(http.StatusBadRequest, "702", "Unable to read the request: more than one value", adyenValidation)
	}
	if r.op != opDetails && r.body.MerchantAccount != s.opts.MerchantAccount {
		return adyenFail(http.StatusForbidden, "901", "Invalid Merchant Account", adyenSecurity)
	}
	r.print = sha256.Sum256(append([]byte(r.path+"?"), body...))
	return nil
}

func (s *adyenDialect) locate(r *request) {
	switch {
	case r.id != "":
		r.payment = s.payments[r.id]
	case r.op == opDetails:
		r.payment = s.payments[redirected3DS(r.body)]
	case r.op == opVoid:
		r.payment = s.references[r.body.PaymentReference]
	default:
		r.token = tokenOf(r.body)
	}
	if r.payment != nil {
		r.token = r.payment.token
	}
}

// tokenOf reads what decides a payment: a stored token, or one of Adyen's own test triggers.
func tokenOf(b *adyenRequest) string {
	method := b.PaymentMethod
	if method.StoredPaymentMethodID != "" {
		return method.StoredPaymentMethodID
	}
	wanted := cmp.Or(b.AdditionalData["RequestedTestAcquirerResponseCode"], method.HolderName)
	switch strings.ToLower(wanted) {
	case "capture failed":
		return "pm_ok_capture_fails_later_60s"
	case "refund failed":
		return "pm_ok_refund_fails_later_60s"
	}
	word, _, _ := strings.Cut(wanted, ":")
	word = strings.ToUpper(strings.TrimSpace(word))
	if n, ok := adyenTriggers[word]; ok {
		return triggerPrefix + strconv.Itoa(n)
	}
	if _, ok := triggerOf(triggerPrefix + word); ok {
		return triggerPrefix + word
	}
	if method.Number != "" || method.EncryptedCardNumber != "" {
		return "pm_ok"
	}
	return ""
}

func (s *adyenDialect) maxKey() int { return 64 }

func (s *adyenDialect) keyLife() time.Duration { return 7 * 24 * time.Hour }

func (s *adyenDialect) authorizationLife() time.Duration { return 28 * 24 * time.Hour }

func (s *adyenDialect) otherBody() *answer {
	if !s.opts.StrictKeys {
		return nil // undocumented at Adyen: the first answer
	}
	a := s.refuse(stuck)
	return &a
}

func (s *adyenDialect) refuse(why refusal) answer {
	switch why {
	case silence:
		return answer{}
	case notProcessed:
		a := adyenFail(http.StatusServiceUnavailable, "000", "The service is unavailable; nothing was processed", adyenInternal)
		a.header = map[string]string{NotProcessedHeader: "true"}
		return *a
	case unavailable:
		return *adyenFail(http.StatusServiceUnavailable, "000", "The service is unavailable", adyenInternal)
	case storeDown:
		return *transient(adyenFail(http.StatusServiceUnavailable, "703", "The idempotency store is unavailable", adyenInternal))
	case limited:
		return *adyenFail(http.StatusTooManyRequests, "000", "Too many requests", adyenValidation)
	case locked, inFlight:
		return *transient(unprocessable("704", "Request already processed or in progress"))
	case stuck:
		return *unprocessable("704", "Request already processed or in progress")
	case gatewayDown:
		return proxyError(badGateway)
	case gatewayTimeout:
		return proxyError(lateGateway)
	case unauthorized:
		return *adyenFail(http.StatusUnauthorized, "000", "HTTP Status Response - Unauthorized", adyenSecurity)
	case unreadable:
		return *adyenFail(http.StatusBadRequest, "702", "Unable to read the request", adyenValidation)
	case keyTooLong:
		return *unprocessable("702", "The idempotency key is longer than 64 characters")
	case unknownPath:
		return *adyenFail(http.StatusNotFound, "000", "Not found", adyenConfiguration)
	}
	return *adyenFail(http.StatusInternalServerError, "905", "Payment details are not supported", adyenConfiguration)
}

// transient marks an answer after which the same key may be sent again.
func transient(a *answer) *answer {
	a.header = map[string]string{"transient-error": "true"}
	return a
}

// headers echoes the key, which says that it was taken into account. A replay has no mark of its own.
func (s *adyenDialect) headers(out, in http.Header, _ bool) {
	if key := in.Get("Idempotency-Key"); key != "" {
		out.Set("Idempotency-Key", key)
	}
}

func (s *adyenDialect) distort(body map[string]any, lie distortion) {
	amount, _ := body["amount"].(map[string]any)
	switch {
	case lie == wrongStatus && body["resultCode"] != nil:
		body["resultCode"] = "Perplexed"
	case lie == wrongStatus:
		body["status"] = "perplexed"
	case lie == wrongAmount && amount != nil:
		bump(amount, "value")
	case lie == wrongCurrency && amount != nil:
		amount["currency"] = other(amount["currency"], "USD", "EUR")
	case lie == wrongReference:
		for _, name := range []string{"merchantReference", "reference", "paymentPspReference", "paymentReference"} {
			if ref, ok := body[name].(string); ok {
				body[name] = ref + "X"
			}
		}
	}
}

// newRef returns 16 digits and capitals, as all of Adyen's references are.
func (s *adyenDialect) newRef(string) string { return s.newID("", 8, capitalsEnd) }

// isoMinor converts Adyen's unit to ISO minor units, for the few currencies where they differ; -1 if that is no whole
// number of minor units.
func (s *adyenDialect) isoMinor(amount int64, currency string) int64 {
	switch strings.ToUpper(currency) {
	case "CVE", "IDR": // two decimals in ISO 4217, none at Adyen
		return amount * 100
	case "CLP", "ISK": // none in ISO 4217, two at Adyen
		if amount%100 != 0 {
			return -1
		}
		return amount / 100
	}
	return amount
}
