package router

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"paygrid/payment"
)

// quiet answers every authorization and remembers none.
type quiet struct{ script }

func (q *quiet) Authorize(context.Context, payment.AuthorizeCommand) (payment.Answer, error) {
	return q.answer, nil
}

// BenchmarkAuthorize is the front door's part of an authorization: all but the domain and the connection. Its log is either
// off, as in paygrid dev, or written as one record a request, as by paygrid serve router.
func BenchmarkAuthorize(b *testing.B) {
	for _, level := range []slog.Level{slog.LevelWarn, slog.LevelInfo} {
		b.Run("log="+level.String(), func(b *testing.B) {
			log := slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: level}))
			domain := &quiet{script{answer: payment.Answer{Kind: payment.KindAuthorized, Body: []byte(`{"id":"` + payID + `"}`), PaymentID: payID}}}
			r, err := New(testConfig(), domain, prometheus.NewRegistry(), log, time.Now)
			if err != nil {
				b.Fatal(err)
			}
			handler := r.Handler()
			b.ReportAllocs()
			for b.Loop() {
				req := httptest.NewRequest(http.MethodPost, "/v1/payments", strings.NewReader(goodBody))
				req.Header.Set("Authorization", "Bearer tk_shop_a")
				req.Header.Set("Idempotency-Key", "k-1")
				req.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				if handler.ServeHTTP(w, req); w.Code != http.StatusCreated {
					b.Fatalf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
}
