package wire

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

// Packing writes recovery data into an object's metadata within a PSP's limits, and reads them back.
//
// A value above Chars characters goes on in "<key>_2", "<key>_3", …. Splits stand as "seller=minor/commission" (seller
// query-escaped) joined by ";", whole ones only, in splits_1, splits_2, …; splits_total counts them, and splits_cut
// is how many of them are written when not all of them fit.
type Packing struct {
	Keys  int // of one object
	Chars int // of one value
	Spare int // keys that stay free for what a later call adds
}

const (
	metaPayment     = "payment"
	metaClient      = "client"
	metaKey         = "key"
	metaOrder       = "order"
	metaSplits      = "splits_" // prefix
	metaSplitsTotal = "splits_total"
	metaSplitsCut   = "splits_cut"
)

// ErrSplitsCut is returned by Unpack when the metadata hold only the first of a payment's splits.
var ErrSplitsCut = errors.New("recovery metadata: the splits did not all fit: take the rest from the client's order")

// Pack adds r to m, which may hold keys of the PSP's adapter. The order is by worth: what is longer than the PSP takes
// is cut at its end, the splits first.
func (p Packing) Pack(m map[string]string, r psprouter.Recovery) {
	p.Put(m, metaPayment, r.Payment)
	p.Put(m, metaClient, r.Client)
	p.Put(m, metaKey, r.Key)
	p.Put(m, metaOrder, r.Order)
	p.putSplits(m, r.Splits)
}

// reserved keys stay free of long values: the splits' total, one field of splits, the mark of a cut, and the spare ones.
func (p Packing) reserved() int { return 3 + p.Spare }

// Put writes value under key and as many follow-ups as it takes. An empty value is left out: PSPs take it as an order to
// remove the key, or refuse it.
func (p Packing) Put(m map[string]string, key, value string) {
	for part := 1; value != "" && len(m) < p.Keys-p.reserved(); part++ {
		head := firstChars(value, p.Chars)
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

func (p Packing) putSplits(m map[string]string, splits []ledger.Split) {
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
		if text != "" && utf8.RuneCountInString(text)+1+len(one) > p.Chars {
			flush()
		}
		// Keys stay for the mark of a cut and for the spare ones.
		if text == "" && len(m) >= p.Keys-p.Spare-1 || len(one) > p.Chars {
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

// Unpack reads the recovery data back. With ErrSplitsCut all but the last splits are there. Any other error means that
// the metadata are not ours.
func (p Packing) Unpack(m map[string]string) (psprouter.Recovery, error) {
	r := psprouter.Recovery{
		Payment: p.Get(m, metaPayment), Client: p.Get(m, metaClient), Key: p.Get(m, metaKey), Order: p.Get(m, metaOrder),
	}
	var err error
	r.Splits, err = p.splits(m)
	return r, err
}

// Get reads what Put wrote.
func (p Packing) Get(m map[string]string, key string) string {
	value := m[key]
	for part := 2; part <= p.Keys && m[partKey(key, part)] != ""; part++ {
		value += m[partKey(key, part)]
	}
	return value
}

func (p Packing) splits(m map[string]string) ([]ledger.Split, error) {
	if m[metaSplitsTotal] == "" {
		return nil, nil
	}
	var splits []ledger.Split
	for field := 1; field <= p.Keys && m[metaSplits+strconv.Itoa(field)] != ""; field++ {
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
		return ledger.Split{}, fmt.Errorf("recovery metadata: split %.40q: %w", text, err)
	}
	return ledger.Split{SellerID: id, Minor: m, CommissionMinor: c}, nil
}
