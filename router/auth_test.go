package router

import (
	"net/http"
	"strings"
	"testing"

	"paygrid/payment"
)

func TestAuthentication(t *testing.T) {
	for name, c := range map[string]struct {
		lines  []string
		client string // "" = 401
	}{
		"shop a":           {[]string{"Bearer tk_shop_a"}, "shop_a"},
		"shop b":           {[]string{"Bearer tk_shop_b"}, "shop_b"},
		"a's next key":     {[]string{"Bearer tk_shop_a_next"}, "shop_a"},
		"scheme in lower":  {[]string{"bearer tk_shop_a"}, "shop_a"},
		"two blanks":       {[]string{"Bearer  tk_shop_a"}, "shop_a"},
		"none":             {nil, ""},
		"empty":            {[]string{""}, ""},
		"no key":           {[]string{"Bearer "}, ""},
		"no scheme":        {[]string{"tk_shop_a"}, ""},
		"other scheme":     {[]string{"Basic tk_shop_a"}, ""},
		"unknown key":      {[]string{"Bearer tk_shop_c"}, ""},
		"the hash":         {[]string{"Bearer " + hashed("tk_shop_a")}, ""},
		"a key and a tail": {[]string{"Bearer tk_shop_a x"}, ""},
		"two lines":        {[]string{"Bearer tk_shop_a", "Bearer tk_shop_b"}, ""},
	} {
		a := newAPI(t)
		res := a.post("/v1/payments", goodBody, func(r *http.Request) { r.Header["Authorization"] = c.lines })
		if c.client != "" {
			if len(a.script.asked) != 1 || a.script.asked[0].(payment.AuthorizeCommand).Client != c.client {
				t.Errorf("%s: asked %+v", name, a.script.asked)
			}
			continue
		}
		a.wantRefused(res, 401, CodeUnauthorized, "")
		if !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: WWW-Authenticate %q", name, res.Header.Get("WWW-Authenticate"))
		}
		if strings.Contains(a.log.String(), "tk_shop") {
			t.Errorf("%s: a key is in the log", name)
		}
	}
}

// Every route of the API wants a key; open are only the service's own, and the PSPs', whose signatures are their keys.
func TestRoutesWithoutKey(t *testing.T) {
	open := map[string]bool{"/livez": true, "/readyz": true, "/metrics": true, "/openapi.yaml": true, "/v1/webhooks/:psp": true}
	a := newAPI(t)
	for _, route := range a.router.engine.Routes() {
		path := strings.NewReplacer(":id", payID, ":psp", "stripe").Replace(route.Path)
		res := a.do(route.Method, path, "{}", header("Authorization", ""))
		if want := map[bool]int{true: 200, false: 401}[open[route.Path]]; res.StatusCode != want {
			t.Errorf("%s %s: %d, want %d", route.Method, route.Path, res.StatusCode, want)
		}
	}
}
