package loadtest

import (
	"fmt"
	"html/template"
	"io"
)

// WritePage writes the report as one HTML page that needs no other file and no network, for light and dark screens.
func (r *Report) WritePage(w io.Writer) error {
	page, err := template.New("report").Parse(pageText)
	if err != nil {
		return err
	}
	return page.Execute(w, struct {
		*Report
		Plots   []drawnPlot
		Tables  []table
		Bad     []string
		Figures []headline
		Style   template.CSS
	}{r, r.drawn(), r.tables(), append(append([]string{}, r.Failures...), r.findings()...), r.headlines(), template.CSS(pageStyle)})
}

// drawnPlot is a plot with the names of its lines.
type drawnPlot struct {
	Title string
	SVG   template.HTML // drawn by plotOf, which escapes what it is given
	Names []string
}

func (r *Report) drawn() []drawnPlot {
	var out []drawnPlot
	width := 1.0 // all plots share their time, so that one can be read under the other
	for _, s := range r.Series {
		for _, p := range s.Points {
			width = max(width, p.Seconds)
		}
	}
	for _, title := range plots {
		var series []Series
		var names []string
		for _, s := range r.Series {
			if s.Plot == title && len(s.Points) > 0 {
				series, names = append(series, s), append(names, s.Name)
			}
		}
		if len(series) > 0 {
			out = append(out, drawnPlot{title, template.HTML(plotOf(series, r.Faults, width)), names}) //nolint:gosec // see SVG
		}
	}
	return out
}

// headline is one of the figures on top.
type headline struct{ What, Figure string }

func (r *Report) headlines() []headline {
	out := []headline{{"payments/s at the peak", fmt.Sprintf("%.0f", r.Peak)}, {"own share, p99", fmt.Sprintf("%.1f ms", r.PeakOwnP99)}}
	for _, l := range r.Latency {
		if l.What == string(Authorize) {
			out = append(out, headline{"authorization in all, p99", fmt.Sprintf("%.0f ms", l.P99)})
		}
	}
	out = append(out, headline{"paid", fmt.Sprint(r.Paid)})
	if b := r.judged(); b != nil {
		out = append(out, headline{"double charges", fmt.Sprint(max(b.DoubleCharges, r.Audit.Doubles))},
			headline{"lost", fmt.Sprint(max(b.Lost, r.Audit.Lost))}, headline{"unknown", fmt.Sprint(b.Unknown)})
	}
	return out
}

const pageText = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title><style>{{.Style}}</style></head><body><main>
<h1>{{.Title}} <span class="verdict {{if .Pass}}pass{{else}}fail{{end}}">{{if .Pass}}PASS{{else}}FAIL{{end}}</span></h1>
<p>{{.Setting}}<br>{{.Started.UTC.Format "2006-01-02 15:04:05 UTC"}}, took {{.Took}}; intended {{.Intended}}, requests sent {{.Sent}}, calls
answered {{.Answered}}, payments captured {{.Paid}}</p>
<div class="figures">{{range .Figures}}<div><b>{{.Figure}}</b><span>{{.What}}</span></div>{{end}}</div>
{{with .LimitNote}}<p>{{.}}</p>{{end}}{{with .Note}}<p>{{.}}</p>{{end}}
{{with .Bad}}<ul class="bad">{{range .}}<li>{{.}}</li>{{end}}</ul>{{end}}
<section class="plots">{{range .Plots}}<figure><figcaption>{{.Title}}</figcaption>{{.SVG}}<p class="legend">{{range $n, $name :=
.Names}}<span class="key k{{$n}}">{{$name}}</span> {{end}}</p></figure>{{end}}</section>
<section class="tables">{{range .Tables}}{{if .Rows}}<div class="wide"><h2>{{.Title}}</h2><table><thead><tr>{{range .Head}}<th>{{.}}</th>{{end}}</tr></thead>
<tbody>{{range .Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>{{end}}</tbody></table></div>{{end}}{{end}}</section>
{{range .Slowest}}{{if .Explain}}<details><summary>{{.Op}} of {{.Payment}}, {{.TookMS}} ms: what happened</summary><pre>{{.Explain}}</pre></details>
{{end}}{{end}}<p class="last"><code>{{.Verdict}}</code></p></main></body></html>
`

// pageStyle uses the reader's own colour scheme. The six colours of lines keep a contrast of three to one on both grounds.
const pageStyle = `:root{color-scheme:light dark;--ground:#fff;--text:#1b1f24;--dim:#57606a;--line:#d8dee4;--good:#1a7f37;--bad:#cf222e;
--c0:#0969da;--c1:#bc4c00;--c2:#1a7f37;--c3:#8250df;--c4:#bf3989;--c5:#57606a}
@media (prefers-color-scheme:dark){:root{--ground:#0d1117;--text:#e6edf3;--dim:#9198a1;--line:#30363d;--good:#3fb950;--bad:#f85149;
--c0:#58a6ff;--c1:#f0883e;--c2:#3fb950;--c3:#bc8cff;--c4:#f778ba;--c5:#9198a1}}
body{margin:0;background:var(--ground);color:var(--text);font:15px/1.45 system-ui,sans-serif}
main{max-width:1180px;margin:0 auto;padding:20px}h1{font-size:24px;margin:0 0 8px}h2{font-size:16px;margin:24px 0 6px}
.verdict{padding:2px 10px;border-radius:6px;color:var(--ground);font-size:18px}.pass{background:var(--good)}.fail{background:var(--bad)}
.figures{display:flex;flex-wrap:wrap;gap:12px;margin:16px 0}.figures div{border:1px solid var(--line);border-radius:8px;padding:8px 14px}
.figures b{display:block;font-size:22px}.figures span,.legend,figcaption{color:var(--dim);font-size:13px}.bad{color:var(--bad)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,500px),1fr));gap:16px}figure{margin:0}
figcaption{font-weight:600}svg{width:100%;height:auto;display:block}svg text{fill:var(--dim);font:11px system-ui,sans-serif}
.grid{stroke:var(--line)}.fault{stroke:var(--bad);stroke-dasharray:3 3}.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}.c5{stroke:var(--c5)}
.legend{margin:2px 0 0 40px}.key::before{content:"";display:inline-block;width:14px;height:3px;margin:0 5px 3px 8px;background:var(--c5)}
.k0::before{background:var(--c0)}.k1::before{background:var(--c1)}.k2::before{background:var(--c2)}.k3::before{background:var(--c3)}
.k4::before{background:var(--c4)}.tables{display:flex;flex-wrap:wrap;gap:0 48px}.wide{overflow-x:auto}table{border-collapse:collapse}
td,th{padding:3px 14px 3px 0;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap;font-variant-numeric:tabular-nums}
th{color:var(--dim);font-weight:600}pre{overflow-x:auto;font-size:12px}details{margin:8px 0}.last{margin-top:24px;overflow-x:auto}`
