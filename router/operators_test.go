package router

import (
	"encoding/json"
	"testing"
	"time"

	"paygrid/psprouter"
)

func aStatus() []psprouter.Status {
	return []psprouter.Status{
		{PSP: "stripe", Operation: psprouter.OpAuthorize, Breaker: "open", RetryIn: 8400 * time.Millisecond, Answered: 812, Failed: 23, Ours: 1,
			ErrorPermille: 27, ApprovalPermille: 931, Drained: true, DrainReason: "status page"},
		{PSP: "adyen", Operation: psprouter.OpInquiry, Breaker: "none", ErrorPermille: -1, ApprovalPermille: -1},
	}
}

func TestPSPStatus(t *testing.T) {
	a := newAPI(t, func(c *Config) { c.PSPs = aStatus })
	res := a.get("/v1/operator/psps", header("Authorization", "Bearer tk_u_lee"))
	var got PSPList
	if err := json.Unmarshal([]byte(res.body), &got); err != nil || res.StatusCode != 200 || len(got.PSPs) != 2 {
		t.Fatalf("%d %s: %v", res.StatusCode, res.body, err)
	}
	want := PSPStatus{PSP: "stripe", Operation: "AUTHORIZE", Breaker: "open", RetryInMS: 8400, Answered: 812, Failed: 23, Ours: 1, Errors: 27,
		Approvals: 931, Drained: true, Reason: "status page"}
	if got.PSPs[0] != want {
		t.Errorf("got %+v", got.PSPs[0])
	}
	if rec := a.records()[0]; rec["client"] != "u-lee" {
		t.Errorf("the log does not say who asked: %v", rec)
	}
	if res := newAPI(t).get("/v1/operator/psps", header("Authorization", "Bearer tk_u_lee")); res.body != `{"psps":[]}` {
		t.Errorf("without PSPs: %s", res.body)
	}
}

// Clients are no operators and operators no clients.
func TestOperatorsAndClientsAreApart(t *testing.T) {
	for _, token := range []string{"tk_shop_a", "tk_u_max", ""} {
		a := newAPI(t)
		a.wantRefused(a.get("/v1/operator/psps", header("Authorization", "Bearer "+token)), 401, CodeUnauthorized, "")
	}
	a := newAPI(t)
	a.wantRefused(a.post("/v1/payments", goodBody, header("Authorization", "Bearer tk_u_kim")), 401, CodeUnauthorized, "")
	nobody := newAPI(t, func(c *Config) { c.Operators = nil })
	nobody.wantRefused(nobody.get("/v1/operator/psps", header("Authorization", "Bearer tk_u_kim")), 401, CodeUnauthorized, "")
}

func TestOperatorOf(t *testing.T) {
	list := []Operator{{"u-kim", hashed("tk_u_kim")}, {"u-lee", hashed("tk_u_lee")}, {"u-kim", hashed("tk_kim_service")}}
	for token, want := range map[string]string{"tk_u_kim": "u-kim", "tk_kim_service": "u-kim", "tk_u_lee": "u-lee", "tk_u_max": "", "": ""} {
		if id, ok, err := OperatorOf(list, token); id != want || ok != (want != "") || err != nil {
			t.Errorf("%q: %q %t %v", token, id, ok, err)
		}
	}
	if _, _, err := OperatorOf([]Operator{{"u-kim", "tk_u_kim"}}, "tk_u_kim"); err == nil {
		t.Error("a token in clear: accepted")
	}
}

// A worker answers probes and nothing else, and needs no clients.
func TestProbesOnly(t *testing.T) {
	a := newAPI(t, func(c *Config) { c.ProbesOnly, c.Clients = true, nil })
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if res := a.get(path); res.StatusCode != 200 {
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	a.wantRefused(a.get("/openapi.yaml"), 404, CodeRouteNotFound, "")
	a.wantRefused(a.post("/v1/payments", goodBody), 404, CodeRouteNotFound, "")
	a.wantRefused(a.post("/v1/webhooks/stripe", `{}`), 404, CodeRouteNotFound, "")
}
