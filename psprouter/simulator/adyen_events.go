package simulator

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// adyenItem is one NotificationRequestItem.
type adyenItem struct {
	AdditionalData      map[string]string `json:"additionalData"`
	Amount              adyenAmount       `json:"amount"`
	EventCode           string            `json:"eventCode"`
	EventDate           string            `json:"eventDate"`
	MerchantAccountCode string            `json:"merchantAccountCode"`
	MerchantReference   string            `json:"merchantReference"`
	Operations          []string          `json:"operations,omitempty"`
	OriginalReference   string            `json:"originalReference,omitempty"`
	PaymentMethod       string            `json:"paymentMethod"`
	PSPReference        string            `json:"pspReference"`
	Reason              string            `json:"reason"`
	Success             string            `json:"success"`
}

// adyenNotice is the body of a standard webhook.
type adyenNotice struct {
	Live  string             `json:"live"`
	Items []adyenNoticeEntry `json:"notificationItems"`
}

type adyenNoticeEntry struct {
	Item adyenItem `json:"NotificationRequestItem"`
}

// notice tells of a change as Adyen does: an event code, and whether it succeeded.
func (s *adyenDialect) notice(c change, id string) (event, bool) {
	code := adyenEventCode(c)
	if code == "" {
		return event{}, false
	}
	item := &adyenItem{EventCode: code, EventDate: s.opts.Now().Format(time.RFC3339), MerchantAccountCode: s.opts.MerchantAccount,
		PaymentMethod: "visa", PSPReference: c.move.ref, MerchantReference: c.move.reference,
		Reason: c.reason, Success: strconv.FormatBool(c.ok)}
	item.Amount.Value = c.move.amount
	if c.refund != nil {
		item.PSPReference, item.MerchantReference, item.Amount.Value = c.refund.ref, c.refund.reference, c.refund.amount
	}
	if c.kind == changeCaptureReversed || c.kind == changeRefundReversed {
		item.Success = "true" // the failure is what happened
	}
	if p := c.p; p != nil {
		item.Amount.Currency = strings.ToUpper(p.currency)
		item.OriginalReference = p.ref
		item.MerchantReference = cmp.Or(item.MerchantReference, p.attempt)
		if code == "AUTHORISATION" {
			item.PSPReference, item.OriginalReference, item.MerchantReference = p.ref, "", p.attempt
		}
		if code == "AUTHORISATION" && c.ok {
			item.Operations = []string{"CANCEL", "CAPTURE", "REFUND"}
			item.Reason = "044925:4242:12/2034"
		}
		item.PSPReference = cmp.Or(item.PSPReference, p.ref) // EXPIRE has none of its own
	}
	return event{id: id, kind: code, item: item}, true
}

// adyenEventCode returns the word for a change; "" if Adyen sends nothing.
func adyenEventCode(c change) string {
	switch c.kind {
	case changeAuthorization:
		return "AUTHORISATION"
	case changeCapture:
		return "CAPTURE"
	case changeCaptureReversed:
		return "CAPTURE_FAILED"
	case changeVoid:
		return "CANCELLATION"
	case changeTechnicalCancel:
		return "TECHNICAL_CANCEL"
	case changeExpiry:
		return "EXPIRE"
	case changeRefund:
		if c.ok && c.refund.status == refundPending {
			return "" // its end is told
		}
		return "REFUND"
	case changeRefundEnd:
		return "REFUND"
	case changeRefundReversed:
		return "REFUND_FAILED"
	}
	return ""
}

// twin is the same event under another date: Adyen has no event IDs.
func (s *adyenDialect) twin(e event) event {
	e.id = s.newID("evt_", 12, len(idAlphabet))
	item := *e.item
	item.EventDate = s.opts.Now().Add(time.Second).Format(time.RFC3339)
	e.item = &item
	return e
}

// sign puts the signature into the item. What is not signed (reason, date, mode) is as easily forged at Adyen.
func (s *adyenDialect) sign(e *event, _ time.Time, forge bool) ([]byte, http.Header) {
	item, key := *e.item, ""
	if len(s.opts.WebhookSecrets) > 0 {
		key = s.opts.WebhookSecrets[0]
	}
	if forge {
		item.Success, key = "true", strings.Repeat("00", sha256.Size)
	}
	if key != "" {
		item.AdditionalData = map[string]string{"hmacSignature": adyenSignature(key, adyenSigned(item))}
	}
	body := encode(adyenNotice{Live: strconv.FormatBool(s.opts.Live), Items: []adyenNoticeEntry{{item}}})
	return body, http.Header{"Content-Type": {"application/json; charset=utf-8"}}
}

// adyenSigned is what is signed of an item: eight fields, joined as they are; colons and backslashes are not escaped.
func adyenSigned(i adyenItem) string {
	return strings.Join([]string{i.PSPReference, i.OriginalReference, i.MerchantAccountCode, i.MerchantReference,
		strconv.FormatInt(i.Amount.Value, 10), i.Amount.Currency, i.EventCode, i.Success}, ":")
}

// adyenSignature is the HMAC of a text in base64; New has checked that the key is hex.
func adyenSignature(hexKey, text string) string {
	key, _ := hex.DecodeString(hexKey)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// acknowledged wants a 2xx and, as older receivers were told, the word.
func (s *adyenDialect) acknowledged(status int, body []byte) bool {
	return status >= 200 && status <= 299 && bytes.Contains(body, []byte("[accepted]"))
}
