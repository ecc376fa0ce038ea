package stripe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"paygrid/psprouter"
)

// SignatureHeader carries a webhook's time and signatures: t=<unix>,v1=<hex>[,v1=<hex>…].
const SignatureHeader = "Stripe-Signature"

// SignatureTolerance is how far a webhook's time may be from ours, both ways.
const SignatureTolerance = 300 * time.Second

// maxSignatures bounds the work on one header; Stripe sends one per secret that is valid.
const maxSignatures = 16

// CheckWebhook checks the signature over the exact bytes with each secret, then the age. The key is the whole secret as it
// stands, not what it encodes. Schemes other than v1 are not looked at.
func (a *Adapter) CheckWebhook(header http.Header, body []byte, now time.Time) error {
	refuse := func(why psprouter.WebhookFault, err error) error {
		return &psprouter.WebhookError{Why: why, Err: err}
	}
	at, signatures, err := parseSignature(header.Values(SignatureHeader))
	if err != nil {
		return refuse(psprouter.WebhookUnsigned, err)
	}
	if !a.verifies(at, body, signatures) {
		return refuse(psprouter.WebhookUnsigned, fmt.Errorf("none of %d signatures is by one of %d secrets", len(signatures), len(a.secrets)))
	}
	if off := now.Unix() - at; off > int64(SignatureTolerance.Seconds()) || off < -int64(SignatureTolerance.Seconds()) {
		return refuse(psprouter.WebhookStale, fmt.Errorf("signed %d s before now, tolerated are %v both ways", off, SignatureTolerance))
	}
	return nil
}

// verifies tries every secret on every signature, so that the time taken does not tell which one fits.
func (a *Adapter) verifies(at int64, body []byte, signatures [][]byte) bool {
	valid := false
	for _, secret := range a.secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write(strconv.AppendInt(nil, at, 10))
		mac.Write([]byte{'.'})
		mac.Write(body)
		want := mac.Sum(nil)
		for _, got := range signatures {
			valid = hmac.Equal(want, got) || valid
		}
	}
	return valid
}

// parseSignature reads the header's time and v1 signatures. A v1 that is no hex is skipped, as one by another secret
// would be.
func parseSignature(values []string) (at int64, signatures [][]byte, err error) {
	if len(values) != 1 {
		return 0, nil, fmt.Errorf("%d headers %s, not one", len(values), SignatureHeader)
	}
	at = -1
	for part := range strings.SplitSeq(values[0], ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			// ParseUint and 10 digits: what is signed is this number written plainly.
			t, err := strconv.ParseUint(value, 10, 36)
			if err != nil || at >= 0 || value != strconv.FormatUint(t, 10) {
				return 0, nil, errors.New("the time is missing, doubled or no number")
			}
			at = int64(t)
		case "v1":
			if sum, err := hex.DecodeString(value); err == nil && len(sum) == sha256.Size {
				signatures = append(signatures, sum)
			}
		}
	}
	switch {
	case at < 0:
		return 0, nil, errors.New("the header has no time")
	case len(signatures) == 0 || len(signatures) > maxSignatures:
		return 0, nil, fmt.Errorf("%d signatures of scheme v1, not 1 to %d", len(signatures), maxSignatures)
	}
	return at, signatures, nil
}

// WebhookAnswer is a short yes; Stripe reads only the status.
func (a *Adapter) WebhookAnswer() (contentType string, body []byte) {
	return "application/json", []byte(`{"received":true}`)
}
