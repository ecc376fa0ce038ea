package loadtest

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
)

// Compare writes two reports side by side, with the change from the first to the second.
func Compare(out io.Writer, a, b *Report) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\tA\tB\tchange\t\n")
	for _, row := range comparedRows(a, b) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", row.what, exact(row.a), exact(row.b), change(row.a, row.b))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	same := func(x, y string) string {
		if x == y {
			return "the same"
		}
		return "different"
	}
	_, err := fmt.Fprintf(out, "\npayments: %s\nfinal balances: %s\n\nA: %s\n   %s\nB: %s\n   %s\n", same(a.Audit.Payments, b.Audit.Payments),
		same(a.Audit.Balances, b.Audit.Balances), a.Setting, a.Verdict, b.Setting, b.Verdict)
	return err
}

type comparedRow struct {
	what string
	a, b float64
}

func comparedRows(a, b *Report) []comparedRow {
	rows := []comparedRow{{"intended", float64(a.Intended), float64(b.Intended)}, {"requests sent", float64(a.Sent), float64(b.Sent)},
		{"calls answered", float64(a.Answered), float64(b.Answered)}, {"payments captured", float64(a.Paid), float64(b.Paid)},
		{"peak payments/s", a.Peak, b.Peak}, {"own share p99 ms", a.OwnP99, b.OwnP99}, {"… at the peak", a.PeakOwnP99, b.PeakOwnP99},
		{"limit payments/s", a.Limit, b.Limit}}
	for _, pair := range []struct {
		what string
		a, b []LatencyRow
	}{{"", a.Latency, b.Latency}, {"own share of ", a.OwnShare, b.OwnShare}} {
		for _, x := range pair.a {
			for _, y := range pair.b {
				if x.What == y.What {
					rows = append(rows, comparedRow{pair.what + x.What + " p50 ms", x.P50, y.P50}, comparedRow{pair.what + x.What + " p99 ms", x.P99, y.P99},
						comparedRow{pair.what + x.What + " p99.9 ms", x.P999, y.P999})
				}
			}
		}
	}
	return rows
}

func change(a, b float64) string {
	if a == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.1f %%", 100*(b-a)/a)
}

// exact writes a whole number whole, and others with one digit more.
func exact(v float64) string {
	if v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}
