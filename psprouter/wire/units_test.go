package wire

import (
	"math"
	"testing"
)

func FuzzRescale(f *testing.F) {
	f.Add(int64(150), uint8(2), uint8(0))
	f.Add(int64(math.MaxInt64), uint8(0), uint8(4))
	f.Fuzz(func(t *testing.T, amount int64, from, to uint8) {
		there, ok := Rescale(amount, int(from%5), int(to%5))
		if !ok {
			return
		}
		if back, ok := Rescale(there, int(to%5), int(from%5)); !ok || back != amount {
			t.Fatalf("%d from %d to %d decimals: %d, back %d %t", amount, from%5, to%5, there, back, ok)
		}
	})
}
