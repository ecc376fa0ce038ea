package simulator

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Notices of the queue leave at their own times: one that is late holds back none that comes after it, and receivers that do
// not answer hold back nobody but themselves.
func TestRunDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		in := &inbox{onEntry: func(n notice) {
			if strings.Contains(string(n.body), "att_stuck") {
				<-stuck
			}
		}}
		s := newSim(t, Options{Now: time.Now, Seed: 1, WebhookTransport: in, WebhookSecrets: []string{stripeSecret},
			Webhooks: []Target{{URL: "http://router.example/hooks"}}})
		handler, ctx := s.Handler(), t.Context()
		ctx, cancel := context.WithCancel(ctx)
		ran := make(chan struct{})
		go func() { defer close(ran); s.Run(ctx) }()
		pay := func(token, attempt string) {
			req, _ := http.NewRequest(http.MethodPost, "/v1/payment_intents", strings.NewReader(form(token, "automatic", attempt)))
			req.Header.Set("Authorization", "Bearer sk_test_1")
			handler.ServeHTTP(newRecorder(), req)
		}
		arrived := func(attempt string, after time.Duration) bool {
			<-time.After(after)
			synctest.Wait()
			return strings.Contains(fmt.Sprintf("%s", in.take()), `"attempt":"`+attempt+`"`)
		}
		synctest.Wait()
		pay("pm_ok_authorize_webhook_late_5s", "att_late")
		synctest.Wait() // the queue waits for it
		pay("pm_ok", "att_now")
		if !arrived("att_now", time.Second) {
			t.Error("what is due at once waits for what is late")
		}
		if !arrived("att_late", 4*time.Second) {
			t.Error("the late one did not come")
		}
		for range senders - 1 {
			pay("pm_ok", "att_stuck")
		}
		pay("pm_ok", "att_free")
		if !arrived("att_free", time.Second) {
			t.Error("receivers that do not answer hold back another")
		}
		close(stuck)
		cancel()
		<-ran
	})
}
