package stripe

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"paygrid/ledger"
	"paygrid/psprouter"
)

// Stripe's limits of an object's metadata.
const (
	maxMetaKeys  = 50
	maxMetaChars = 500 // of one value
)

// The metadata that we write. A value above 500 characters goes on in "<key>_2", "<key>_3", …. Splits stand as
// "seller=minor/commission" (seller query-escaped) joined by ";", whole ones only, in splits_1, splits_2, …;
// splits_total counts them, and splits_cut is how many of them are written when not all of them fit.
const (
	metaAttempt        = "attempt"
	metaCaptureAttempt = "capture_attempt" // of the latest capture
	metaRefund         = "refund"
	metaPayment        = "payment"
	metaClient         = "client"
	metaKey            = "key"
	metaOrder          = "order"
	metaSplits         = "splits_" // prefix
	metaSplitsTotal    = "splits_total"
	metaSplitsCut      = "splits_cut"
)

func authorizeMetadata(attempt string, r psprouter.Recovery) map[string]string {
	return recoveryMetadata(map[string]string{metaAttempt: attempt}, r)
}

func refundMetadata(attempt, refund string, r psprouter.Recovery) map[string]string {
	m := map[string]string{metaAttempt: attempt}
	putLong(m, metaRefund, refund)
	return recoveryMetadata(m, r)
}

// recoveryMetadata adds r to m. The order is by worth: what is longer than Stripe takes is cut at its end, the splits
// first.
func recoveryMetadata(m map[string]string, r psprouter.Recovery) map[string]string {
	putLong(m, metaPayment, r.Payment)
	putLong(m, metaClient, r.Client)
	putLong(m, metaKey, r.Key)
	putLong(m, metaOrder, r.Order)
	putSplits(m, r.Splits)
	return m
}

// reservedKeys stay free of long values: three for the splits' own marks and one more for a later capture's attempt.
const reservedKeys = 4

// putLong writes value under key and as many follow-ups as it takes. An empty value is left out: Stripe takes it as an
// order to remove the key.
func putLong(m map[string]string, key, value string) {
	for part := 1; value != "" && len(m) < maxMetaKeys-reservedKeys; part++ {
		head := firstChars(value, maxMetaChars)
		value = value[len(head):]
		m[partKey(key, part)] = head
	}
}

func partKey(key string, part int) string {
	if part == 1 {
		return key
	}
	return key + "_" + strconv.Itoa(part)
}

// firstChars returns the first n characters of s.
func firstChars(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func putSplits(m map[string]string, splits []ledger.Split) {
	if len(splits) == 0 {
		return
	}
	m[metaSplitsTotal] = strconv.Itoa(len(splits))
	field, text, written := 1, "", 0
	flush := func() {
		if text != "" {
			m[metaSplits+strconv.Itoa(field)] = text
			field, text = field+1, ""
		}
	}
	for _, s := range splits {
		one := encodeSplit(s)
		if text != "" && utf8.RuneCountInString(text)+1+len(one) > maxMetaChars {
			flush()
		}
		// Two keys stay for the mark of a cut and for a later capture's attempt.
		if text == "" && len(m) >= maxMetaKeys-2 || len(one) > maxMetaChars {
			break
		}
		if text != "" {
			text += ";"
		}
		text += one
		written++
	}
	flush()
	if written < len(splits) {
		m[metaSplitsCut] = strconv.Itoa(written)
	}
}

func encodeSplit(s ledger.Split) string {
	return fmt.Sprintf("%s=%d/%d", url.QueryEscape(s.SellerID), s.Minor, s.CommissionMinor)
}

// ErrSplitsCut is returned by RecoveryFrom when the metadata hold only the first of a payment's splits.
var ErrSplitsCut = errors.New("stripe metadata: the splits did not all fit: take the rest from the client's order")

// RecoveryFrom reads back what an authorization or a refund carries: its attempt ID and the recovery data. With
// ErrSplitsCut all but the last splits are there. Any other error means that the metadata are not ours.
func RecoveryFrom(metadata map[string]string) (attempt string, r psprouter.Recovery, err error) {
	attempt = metadata[metaAttempt]
	if attempt == "" {
		return "", r, errors.New("stripe metadata: no attempt: the object is not ours")
	}
	r = psprouter.Recovery{
		Payment: getLong(metadata, metaPayment), Client: getLong(metadata, metaClient),
		Key: getLong(metadata, metaKey), Order: getLong(metadata, metaOrder),
	}
	r.Splits, err = getSplits(metadata)
	return attempt, r, err
}

func getLong(m map[string]string, key string) string {
	value := m[key]
	for part := 2; part <= maxMetaKeys && m[partKey(key, part)] != ""; part++ {
		value += m[partKey(key, part)]
	}
	return value
}

func getSplits(m map[string]string) ([]ledger.Split, error) {
	if m[metaSplitsTotal] == "" {
		return nil, nil
	}
	var splits []ledger.Split
	for field := 1; field <= maxMetaKeys && m[metaSplits+strconv.Itoa(field)] != ""; field++ {
		for _, text := range strings.Split(m[metaSplits+strconv.Itoa(field)], ";") {
			s, err := decodeSplit(text)
			if err != nil {
				return nil, err
			}
			splits = append(splits, s)
		}
	}
	if m[metaSplitsCut] != "" || strconv.Itoa(len(splits)) != m[metaSplitsTotal] {
		return splits, ErrSplitsCut
	}
	return splits, nil
}

func decodeSplit(text string) (ledger.Split, error) {
	seller, amounts, _ := strings.Cut(text, "=")
	minor, commission, _ := strings.Cut(amounts, "/")
	id, err1 := url.QueryUnescape(seller)
	m, err2 := strconv.ParseInt(minor, 10, 64)
	c, err3 := strconv.ParseInt(commission, 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return ledger.Split{}, fmt.Errorf("stripe metadata: split %.40q: %w", text, err)
	}
	return ledger.Split{SellerID: id, Minor: m, CommissionMinor: c}, nil
}
