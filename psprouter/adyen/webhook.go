package adyen

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"paygrid/psprouter"
)

// Limits of a body of notices.
const (
	maxNoticeBytes = 1 << 20
	maxItems       = 500
)

// envelope is the body of a standard webhook. Attributes that we do not know are tolerated.
type envelope struct {
	Live  text `json:"live"`
	Items []struct {
		Item item `json:"NotificationRequestItem"`
	} `json:"notificationItems"`
}

// item is one notice. Eight fields of it are signed (see signedText); Reason and AdditionalData are not, so no money may
// move on their word alone.
type item struct {
	PSPReference        string                         `json:"pspReference"`
	OriginalReference   string                         `json:"originalReference"`
	MerchantAccountCode string                         `json:"merchantAccountCode"`
	MerchantReference   string                         `json:"merchantReference"`
	Amount              struct{ Value, Currency text } `json:"amount"`
	EventCode           string                         `json:"eventCode"`
	Success             text                           `json:"success"`
	Reason              string                         `json:"reason"`
	AdditionalData      map[string]json.RawMessage     `json:"additionalData"`
}

// text is a value that Adyen sends as a string in some places and as a number or boolean in others.
type text string

// UnmarshalJSON keeps a string's content, and the digits or the word of anything else.
func (t *text) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(t))
	}
	if len(raw) > 0 && (raw[0] == '{' || raw[0] == '[') {
		return errors.New("a string, number or boolean is wanted")
	}
	if *t = text(raw); *t == "null" {
		*t = ""
	}
	return nil
}

// signedText is what Adyen signs: eight fields joined by colons, nothing escaped, what is missing empty.
func (i item) signedText() string {
	return strings.Join([]string{i.PSPReference, i.OriginalReference, i.MerchantAccountCode, i.MerchantReference,
		string(i.Amount.Value), string(i.Amount.Currency), i.EventCode, string(i.Success)}, ":")
}

// signature is the one that came with the item, nil if there is none that can be read.
func (i item) signature() []byte {
	var encoded string
	if json.Unmarshal(i.AdditionalData["hmacSignature"], &encoded) != nil {
		return nil
	}
	sum, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil
	}
	return sum
}

// CheckWebhook checks the signature of every item against each key. Adyen signs fields, not bytes, so the body has to be
// parsed first; and it signs no time, so an old notice cannot be told from a new one: it is a redelivery that changes
// nothing.
func (a *Adapter) CheckWebhook(_ http.Header, body []byte, _ time.Time) error {
	e, err := readEnvelope(body)
	if err != nil {
		return err
	}
	for n, one := range e.Items {
		if !a.verifies(one.Item) {
			return &psprouter.WebhookError{Why: psprouter.WebhookUnsigned,
				Err: fmt.Errorf("item %d of %d does not verify with any of %d keys", n+1, len(e.Items), len(a.keys))}
		}
	}
	return nil
}

func (a *Adapter) verifies(i item) bool {
	got, message, valid := i.signature(), []byte(i.signedText()), false
	for _, key := range a.keys {
		mac := hmac.New(sha256.New, key)
		mac.Write(message)
		// Every key is tried, so that the time taken does not tell which one fits.
		valid = hmac.Equal(mac.Sum(nil), got) || valid
	}
	return valid
}

func readEnvelope(body []byte) (envelope, error) {
	var e envelope
	malformed := func(err error) (envelope, error) {
		return envelope{}, &psprouter.WebhookError{Why: psprouter.WebhookMalformed, Err: err}
	}
	if len(body) > maxNoticeBytes {
		return malformed(fmt.Errorf("above %d bytes", maxNoticeBytes))
	}
	if err := readJSON(bytes.TrimSpace(body), &e); err != nil {
		return malformed(err)
	}
	if len(e.Items) == 0 || len(e.Items) > maxItems {
		return malformed(fmt.Errorf("%d items, not 1 to %d", len(e.Items), maxItems))
	}
	for n, one := range e.Items {
		if one.Item.PSPReference == "" || one.Item.EventCode == "" {
			return malformed(fmt.Errorf("item %d names no pspReference or eventCode", n+1))
		}
	}
	return e, nil
}

// WebhookAnswer is "[accepted]": Adyen's older systems take nothing else for a yes.
func (a *Adapter) WebhookAnswer() (contentType string, body []byte) {
	return "text/plain; charset=utf-8", []byte("[accepted]")
}

// ReadWebhook returns one notice per item, in their order.
func (a *Adapter) ReadWebhook(body []byte) ([]psprouter.Notice, error) {
	e, err := readEnvelope(body)
	if err != nil {
		return nil, err
	}
	notices := make([]psprouter.Notice, len(e.Items))
	for n, one := range e.Items {
		notices[n] = a.notice(e.Live, one.Item)
	}
	return notices, nil
}

// wholeNumber reads an amount, which comes as a number or as a string.
func wholeNumber(t text) (int64, error) { return strconv.ParseInt(string(t), 10, 64) }
