package loadtest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const scraped = `# TYPE paygrid_own_share_seconds histogram
paygrid_own_share_seconds_bucket{route="/a",le="0.1"} 3
paygrid_own_share_seconds_bucket{route="/a",le="+Inf"} 4
paygrid_own_share_seconds_sum{route="/a"} 1.5
paygrid_own_share_seconds_count{route="/a"} 4
paygrid_own_share_seconds_bucket{route="/b",le="0.1"} 1
paygrid_own_share_seconds_bucket{route="/b",le="+Inf"} 1
paygrid_own_share_seconds_sum{route="/b"} 0.01
paygrid_own_share_seconds_count{route="/b"} 1
# TYPE trips counter
trips{psp="stripe"} 3
trips{psp="adyen"} 0
`

func TestScrapeAddsRouters(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(scraped)) }))
	defer server.Close()
	m, err := ScrapeAll(t.Context(), []string{server.URL, server.URL})
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.Histograms("paygrid_own_share_seconds", "route")
	if a, b := got["/a"], got["/b"]; err != nil || len(got) != 2 || a.Counts[0] != 6 || a.Count() != 8 || b.Count() != 2 {
		t.Errorf("%v, %v", got, err)
	}
	trips := map[string]float64{}
	m.Counters("trips", func(labels map[string]string, value float64) { trips[labels["psp"]] += value })
	if len(trips) != 2 || trips["stripe"] != 6 || trips["adyen"] != 0 {
		t.Errorf("trips %v", trips)
	}
	if err := m.parse(strings.NewReader("{nonsense")); err == nil {
		t.Error("nonsense was read")
	}
	server.Config.Handler = http.NotFoundHandler()
	if _, err := ScrapeAll(t.Context(), []string{server.URL}); err == nil {
		t.Error("a router without metrics went unseen")
	}
}
