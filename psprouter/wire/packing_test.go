package wire

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

// Whatever the limits: they hold, the spare keys stay free, and what comes back is whole or says that it was cut.
func TestPackingWithinAnyLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Packing{Keys: rapid.IntRange(12, 60).Draw(t, "keys"), Chars: rapid.IntRange(40, 600).Draw(t, "chars"), Spare: rapid.IntRange(0, 3).Draw(t, "spare")}
		r := psprouter.Recovery{Payment: "pay_0001_01JD0000000000000000000000", Client: rapid.StringN(0, 40, -1).Draw(t, "client"),
			Key: rapid.StringN(0, 80, -1).Draw(t, "key"), Order: rapid.StringN(0, 2000, -1).Draw(t, "order")}
		for i := range rapid.IntRange(0, 200).Draw(t, "splits") {
			r.Splits = append(r.Splits, ledger.Split{SellerID: fmt.Sprintf("s;=/%d", i), Minor: int64(i) * 1000, CommissionMinor: int64(i)})
		}
		m := map[string]string{}
		p.Pack(m, r)
		if len(m) > p.Keys-p.Spare {
			t.Fatalf("%d keys of %d with %d to spare", len(m), p.Keys, p.Spare)
		}
		for k, v := range m {
			if n := utf8.RuneCountInString(v); n == 0 || n > p.Chars {
				t.Fatalf("%s has %d characters of %d", k, n, p.Chars)
			}
		}
		got, err := p.Unpack(m)
		if err != nil && !errors.Is(err, ErrSplitsCut) {
			t.Fatal(err)
		}
		if got.Payment != r.Payment || got.Client != r.Client || !strings.HasPrefix(r.Key, got.Key) || !strings.HasPrefix(r.Order, got.Order) {
			t.Fatalf("got %+v", got)
		}
		if len(got.Splits) > len(r.Splits) || len(got.Splits) > 0 && !reflect.DeepEqual(got.Splits, r.Splits[:len(got.Splits)]) ||
			err == nil && len(got.Splits) != len(r.Splits) {
			t.Fatalf("%d of %d splits, %v", len(got.Splits), len(r.Splits), err)
		}
	})
}

func TestUnpackRefusesWhatIsNotOurs(t *testing.T) {
	p := Packing{Keys: 20, Chars: 80}
	for _, splits := range []string{"x", "s=1", "s=1/x", "s=x/1", "%zz=1/1", "s=1/1;"} {
		if _, err := p.Unpack(map[string]string{"splits_total": "1", "splits_1": splits}); err == nil || errors.Is(err, ErrSplitsCut) {
			t.Errorf("%q: %v", splits, err)
		}
	}
	if _, err := p.Unpack(map[string]string{"splits_total": "2", "splits_1": "s=1/0"}); !errors.Is(err, ErrSplitsCut) {
		t.Errorf("one of two: %v", err)
	}
	if r, err := p.Unpack(nil); err != nil || !reflect.DeepEqual(r, psprouter.Recovery{}) {
		t.Errorf("%+v, %v", r, err)
	}
}
