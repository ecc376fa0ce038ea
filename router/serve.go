package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"paygrid/payment"
)

// The phases of a router, in order; none comes back.
const (
	phaseServing  int32 = iota // ready
	phaseLeaving               // not ready, and still serving everything
	phaseDraining              // the listener is closed; what runs ends, no new command begins
)

// Serve answers on l until ctx ends, then drains as the package's page says and returns nil, or an error if requests
// were still running after Config.DrainTimeout (they are cut off; what they began goes on in the domain service). It
// returns early with an error if l fails. A router serves once.
func (r *Router) Serve(ctx context.Context, l net.Listener) error {
	srv := r.server()
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("router: serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	err := r.drain(srv, failed)
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("router: serve %s: %w", l.Addr(), served))
	}
	return err
}

// server has a limit on everything that a caller could stretch. Its own complaints go to the log of the router.
func (r *Router) server() *http.Server {
	return &http.Server{
		Handler:           r.engine,
		ReadHeaderTimeout: r.cfg.HeaderTimeout,
		ReadTimeout:       r.cfg.ReadTimeout,
		WriteTimeout:      r.cfg.WriteTimeout,
		IdleTimeout:       r.cfg.IdleTimeout,
		MaxHeaderBytes:    headerBytesMax,
		ErrorLog:          slog.NewLogLogger(r.log.Handler(), slog.LevelWarn),
	}
}

// drain walks the phases. It skips the delay if the listener fails meanwhile, and leaves that error in failed.
func (r *Router) drain(srv *http.Server, failed chan error) error {
	r.phase.Store(phaseLeaving)
	r.log.Info("leaving", "delay", r.cfg.DrainDelay)
	delay := time.NewTimer(r.cfg.DrainDelay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case err := <-failed:
		failed <- err
	}
	r.phase.Store(phaseDraining)
	r.log.Info("draining", "timeout", r.cfg.DrainTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), r.cfg.DrainTimeout)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("router: requests still running after %s: %w", r.cfg.DrainTimeout, err), srv.Close())
	}
	return nil
}

// refuseDrain keeps new commands out of a router that is draining: a connection may still carry one that crossed with
// our closing it. Reads are let through.
func (r *Router) refuseDrain(c *gin.Context) {
	if c.Request.Method == http.MethodPost && r.phase.Load() == phaseDraining {
		r.refuse(c, &payment.Error{Code: CodeDraining, Detail: "this router is shutting down; nothing was done",
			Remedy: "send the same request with the same Idempotency-Key again"})
	}
}
