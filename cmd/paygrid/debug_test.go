package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestServeDebug(t *testing.T) {
	var says strings.Builder
	closeDebug, err := serveDebug("127.0.0.1:0", &says)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(strings.TrimPrefix(says.String(), "debug url="))
	resp, err := http.Get(url + "goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	if err := resp.Body.Close(); err != nil || !strings.Contains(string(body), "TestServeDebug") {
		t.Errorf("%v, %.200s", err, body)
	}
	if err := closeDebug(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get(url); err == nil {
		t.Error("it is still served")
	}
	if closeDebug, err = serveDebug("", &says); err != nil || closeDebug() != nil {
		t.Error("no address is no listener")
	}
	if _, err := serveDebug("nonsense", &says); err == nil || !strings.Contains(err.Error(), "--debug-listen") {
		t.Errorf("%v", err)
	}
}
