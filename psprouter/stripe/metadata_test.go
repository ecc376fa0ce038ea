package stripe

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"paygrid/ledger"
	"paygrid/psprouter"
)

func checkLimits(t interface{ Fatalf(string, ...any) }, m map[string]string) {
	if len(m) > maxMetaKeys-1 {
		t.Fatalf("%d keys: none is left for a capture's attempt", len(m))
	}
	for k, v := range m {
		if n := utf8.RuneCountInString(v); n == 0 || n > maxMetaChars || len(k) > 40 {
			t.Fatalf("%s has %d characters", k, n)
		}
	}
}

// Any recovery data stay within Stripe's limits and come back whole, or say that they were cut.
func TestRecoveryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := psprouter.Recovery{
			Payment: rapid.StringN(1, 40, -1).Draw(t, "payment"),
			Client:  rapid.StringN(0, 40, -1).Draw(t, "client"),
			Key:     rapid.StringN(0, 255, -1).Draw(t, "key"),
			Order:   rapid.StringN(0, 1600, -1).Draw(t, "order"),
		}
		for i := range rapid.IntRange(0, 900).Draw(t, "splits") {
			r.Splits = append(r.Splits, ledger.Split{
				SellerID: fmt.Sprintf("%s-%d", rapid.SampledFrom([]string{"s", "a;b=c/d", "ключ"}).Draw(t, "seller"), i), Minor: int64(i) * 1e9, CommissionMinor: int64(i)})
		}
		m := authorizeMetadata("att_1", r)
		checkLimits(t, m)
		attempt, got, err := RecoveryFrom(m)
		if attempt != "att_1" {
			t.Fatalf("attempt %q", attempt)
		}
		if errors.Is(err, ErrSplitsCut) && len(got.Splits) < len(r.Splits) && len(r.Splits) > 100 {
			r.Splits = r.Splits[:len(got.Splits)]
		} else if err != nil {
			t.Fatalf("%v", err)
		}
		if !reflect.DeepEqual(got, r) && len(r.Splits) > 0 {
			t.Fatalf("got %+v, want %+v", got, r)
		}
	})
}

func TestMetadataWords(t *testing.T) {
	got := refundMetadata("att_2", "ref_1", psprouter.Recovery{Payment: "pay_1", Client: "shop", Key: "k", Order: "o", Splits: []ledger.Split{
		{SellerID: "s-ann", Minor: 7000, CommissionMinor: 700}, {SellerID: "s-bob", Minor: 3000, CommissionMinor: 450}}})
	want := map[string]string{"attempt": "att_2", "refund": "ref_1", "payment": "pay_1", "client": "shop", "key": "k", "order": "o",
		"splits_1": "s-ann=7000/700;s-bob=3000/450", "splits_total": "2"}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got %v", got)
	}
}

func TestMetadataHugeValuesAreCutAndSaySo(t *testing.T) {
	m := authorizeMetadata("att_1", psprouter.Recovery{Order: strings.Repeat("ö", 100_000), Splits: []ledger.Split{{SellerID: "s", Minor: 1}}})
	checkLimits(t, m)
	if m["splits_total"] != "1" {
		t.Fatal("the number of splits is lost")
	}
	m = authorizeMetadata("att_1", psprouter.Recovery{Splits: []ledger.Split{{SellerID: strings.Repeat("s", 600), Minor: 1}}})
	if _, _, err := RecoveryFrom(m); !errors.Is(err, ErrSplitsCut) || m["splits_cut"] != "0" {
		t.Fatalf("%v, %v", m, err)
	}
}

func TestRecoveryFromRefusesWhatIsNotOurs(t *testing.T) {
	for _, m := range []map[string]string{nil, {"order": "x"}, {"attempt": "a", "splits_total": "1", "splits_1": "s=x/1"}} {
		if _, _, err := RecoveryFrom(m); err == nil || errors.Is(err, ErrSplitsCut) {
			t.Errorf("%v: %v", m, err)
		}
	}
}
