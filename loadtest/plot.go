package loadtest

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// The plots' geometry, in units of the SVG's own coordinates.
const (
	plotWidth   = 720
	plotHeight  = 220
	plotLeft    = 64
	plotRight   = 12
	plotTop     = 12
	plotBottom  = 30
	plotColours = 6 // classes c0 to c5 of the page's style
	plotTicks   = 4
)

// plotOf draws series of one plot over width seconds, with the faults as marks: SVG that needs no other file.
func plotOf(series []Series, faults []FaultRow, width float64) string {
	height := 0.0
	for _, s := range series {
		for _, p := range s.Points {
			height = math.Max(height, p.Value)
		}
	}
	height = niceCeiling(height)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s over time">`, plotWidth, plotHeight, html.EscapeString(series[0].Plot))
	grid(&b, width, height, series[0].Unit)
	for _, f := range faults {
		x := xOf(f.At.Seconds(), width)
		if f.At.Seconds() <= width && f.OK {
			fmt.Fprintf(&b, `<line class="fault" x1="%.1f" x2="%.1f" y1="%d" y2="%d"><title>%s</title></line>`, x, x, plotTop, plotHeight-plotBottom,
				html.EscapeString(f.String()))
		}
	}
	for n, s := range series {
		b.WriteString(`<polyline class="line c` + strconv.Itoa(n%plotColours) + `" points="`)
		for _, p := range s.Points {
			fmt.Fprintf(&b, "%.1f,%.1f ", xOf(p.Seconds, width), yOf(p.Value, height))
		}
		b.WriteString(`"/>`)
	}
	b.WriteString("</svg>")
	return b.String()
}

func xOf(seconds, width float64) float64 {
	return plotLeft + seconds/width*(plotWidth-plotLeft-plotRight)
}

func yOf(value, height float64) float64 {
	return plotHeight - plotBottom - value/height*(plotHeight-plotTop-plotBottom)
}

// grid draws the axes with their figures.
func grid(b *strings.Builder, width, height float64, unit string) {
	for n := range plotTicks + 1 {
		value := height * float64(n) / plotTicks
		y := yOf(value, height)
		fmt.Fprintf(b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, plotLeft, plotWidth-plotRight, y, y)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`, plotLeft-6, y+4, figure(value)+" "+html.EscapeString(unit))
		seconds := width * float64(n) / plotTicks
		anchor := "middle"
		if n == plotTicks {
			anchor = "end"
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="%s">%s s</text>`, xOf(seconds, width), plotHeight-10, anchor, figure(seconds))
	}
}

// figure writes a number with as many digits as an axis needs.
func figure(v float64) string {
	switch {
	case v >= 10_000:
		return strconv.FormatFloat(v/1000, 'f', -1, 64) + "k"
	case v == math.Trunc(v) || v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// niceCeiling is the next of 1, 2, 4, 5 times a power of ten, at least 1: axes end at round figures.
func niceCeiling(v float64) float64 {
	if v <= 1 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 4, 5, 10} {
		if v <= step*power {
			return step * power
		}
	}
	return 10 * power
}
