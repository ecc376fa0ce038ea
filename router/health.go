package router

import (
	"context"
	_ "embed" // openapi.yaml
	"net/http"

	"github.com/gin-gonic/gin"

	"paygrid/payment"
)

//go:embed openapi.yaml
var openAPIDocument []byte

// health is the body of a probe that passes.
type health struct {
	Status string `json:"status"` // pass
}

// livez says that the process answers. It asks nobody: a dead database must not get every router restarted.
func (r *Router) livez(c *gin.Context) {
	r.writeJSON(c, http.StatusOK, "application/health+json", health{Status: "pass"})
}

// readyz says whether a load balancer should send traffic here.
func (r *Router) readyz(c *gin.Context) {
	if r.phase.Load() != phaseServing {
		r.refuse(c, &payment.Error{Code: CodeNotReady, Detail: "this router is shutting down", Remedy: "send traffic elsewhere"})
		return
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), r.cfg.ReadyTimeout)
	defer cancel()
	if err := r.payments.Ready(ctx); err != nil {
		r.refuse(c, &payment.Error{Code: CodeNotReady, Detail: "not every shard answers", Remedy: "send traffic elsewhere", Err: err})
		return
	}
	r.writeJSON(c, http.StatusOK, "application/health+json", health{Status: "pass"})
}

func (r *Router) openAPI(c *gin.Context) {
	c.Data(http.StatusOK, "application/yaml", openAPIDocument)
}
