package simulator

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Adyen's limits.
const (
	maxAdyenReference     = 80
	maxAdyenMetadata      = 20
	maxAdyenMetadataKey   = 20
	maxAdyenMetadataValue = 80
	maxCaptureDelayHours  = 672
)

// pay serves POST /v71/payments. Declines are HTTP 200. The caller holds the lock.
func (s *adyenDialect) pay(r *request, b behaviour) answer {
	if bad := s.checkPayment(r); bad != nil {
		return *bad
	}
	in := r.body
	p := &payment{
		currency: strings.ToLower(in.Amount.Currency), amount: in.Amount.Value, attempt: in.Reference, token: r.token,
		manual: in.AdditionalData["manualCapture"] == "true", live: s.opts.Live, metadata: in.Metadata, created: s.opts.Now(),
		returnURL: in.ReturnURL, status: statusNeedsConfirm, ref: s.newRef(kindPayment),
	}
	s.enter(p)
	s.references[p.attempt] = p
	s.authorize(p, r.key, b)
	return kept(http.StatusOK, s.renderPayment(p), p, true)
}

// checkPayment refuses what Adyen refuses before it does anything.
func (s *adyenDialect) checkPayment(r *request) *answer {
	in := r.body
	authorize, _ := parseToken(r.token)
	switch {
	case in.Reference == "" || utf8.RuneCountInString(in.Reference) > maxAdyenReference:
		return unprocessable("130", "Reference Missing, or longer than 80 characters")
	case in.ReturnURL == "":
		return unprocessable("14_030", "Return URL is missing.")
	case in.PaymentMethod.Type == "":
		return unprocessable("14_002", "Missing payment method type")
	case authorize == "":
		return unprocessable("803", "PaymentDetail not found")
	case in.CaptureDelayHours != nil && (*in.CaptureDelayHours < 0 || *in.CaptureDelayHours > maxCaptureDelayHours):
		return unprocessable("702", "captureDelayHours must be 0 to 672")
	case badMetadata(in.Metadata):
		return unprocessable("177", "Metadata size exceeds limit")
	}
	return s.checkAmount(in.Amount)
}

func badMetadata(metadata map[string]string) bool {
	for key, value := range metadata {
		if key == "" || utf8.RuneCountInString(key) > maxAdyenMetadataKey || utf8.RuneCountInString(value) > maxAdyenMetadataValue {
			return true
		}
	}
	return len(metadata) > maxAdyenMetadata
}

// checkAmount takes any three capitals but those that Adyen's table lacks: which others exist is not this witness's business.
func (s *adyenDialect) checkAmount(a *adyenAmount) *answer {
	switch {
	case a == nil:
		return unprocessable("100", "Required object 'amount' is not provided.")
	case len(a.Currency) != 3 || strings.Trim(a.Currency, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || a.Currency == "BIF":
		return unprocessable("138", "Unsupported currency specified")
	case a.Value < 1 || a.Value > s.opts.MaxAmount:
		return unprocessable("137", "Invalid amount specified")
	}
	return nil
}

// renderPayment shows a payment as it is now. The caller holds the lock.
func (s *adyenDialect) renderPayment(p *payment) adyenPayment {
	w := adyenPayment{PSPReference: p.ref, MerchantReference: p.attempt,
		Amount: &adyenAmount{Currency: strings.ToUpper(p.currency), Value: p.amount}}
	switch {
	case p.declined != nil && p.authorized == 0:
		w.Amount = nil
		w.ResultCode, w.RefusalReason = resultOf(p.declined.refusal), adyenRefusals[p.declined.refusal]
		w.RefusalReasonCode = strconv.Itoa(p.declined.refusal)
	case p.status == statusNeedsAction:
		w.ResultCode = resultRedirect
		w.Action = &adyenAction{Type: "redirect", Method: http.MethodGet, PaymentData: paymentDataPrefix + p.ref,
			PaymentMethodType: "scheme", URL: "https://checkoutshopper.example/3ds/" + p.ref}
	case p.status == statusProcessing && p.authorized == 0:
		w.ResultCode = resultReceived
	case p.status == statusCanceled && p.authorized == 0:
		w.ResultCode = resultCancelled
	default:
		w.ResultCode = resultAuthorised
		w.PaymentMethod = map[string]string{"brand": "visa", "type": "scheme"}
		w.AdditionalData = map[string]string{"authCode": "044925", "cvcResult": "1 Matches", "refusalReasonRaw": "AUTHORISED",
			"networkTxReference": "NTX" + p.ref}
	}
	return w
}

// resultOf returns the result code of a refusal.
func resultOf(refusal int) string {
	switch refusal {
	case refusalUnknown, refusalAcquirerError:
		return resultError
	case refusalFraudCancel:
		return resultCancelled
	}
	return resultRefused
}

const paymentDataPrefix = "pd_"

// redirected3DS returns the payment that a buyer comes back for: by paymentData, or by the end of redirectResult.
func redirected3DS(b *adyenRequest) string {
	if ref, ok := strings.CutPrefix(b.PaymentData, paymentDataPrefix); ok {
		return ref
	}
	result := b.Details["redirectResult"]
	return result[strings.LastIndexByte(result, '_')+1:]
}

// details serves POST /v71/payments/details: the buyer is back. A redirectResult that begins with "fail" failed, others
// end as the payment's fault says. The caller holds the lock.
func (s *adyenDialect) details(r *request, _ behaviour) answer {
	p := r.payment
	switch {
	case p == nil:
		return *unprocessable("14_006", "The payment of these details is not known")
	case cmp.Or(r.body.Details["redirectResult"], r.body.Details["payload"], r.body.Details["MD"]) == "":
		return *unprocessable("14_004", "Missing details")
	}
	waiting := p.status == statusNeedsAction
	if waiting {
		s.endPending(p, !p.pending.endsBadly && !strings.HasPrefix(r.body.Details["redirectResult"], "fail"))
	}
	return kept(http.StatusOK, s.renderPayment(p), p, waiting)
}
