package router

import (
	"errors"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"

	"paygrid/payment"
	"paygrid/psprouter"
)

// webhook takes a PSP's notices: raw bytes in, stored by the domain service, answered. It has no API key, since the
// signature over the bytes is what says who sent them, and it is served while the router drains: a notice that is stored
// needs nobody who stays.
func (r *Router) webhook(c *gin.Context) {
	body, err := readWebhook(c.Writer, c.Request)
	if err != nil {
		r.refuse(c, err)
		return
	}
	psp := c.Param("psp")
	contentType, answer, err := r.payments.TakeWebhook(c.Request.Context(), psp, c.Request.Header, body)
	if err != nil {
		r.refuse(c, r.refusedWebhook(c, psp, err))
		return
	}
	exchangeOf(c).client = senderOf(psp)
	c.Data(http.StatusOK, contentType, answer)
}

// readWebhook reads at most webhookBytesMax bytes as they came: no media type is asked for and nothing is decoded, because
// the signature is over the bytes. A length that is too large is refused before a byte is read.
func readWebhook(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	if req.ContentLength > webhookBytesMax {
		return nil, errWebhookTooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, webhookBytesMax))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, errWebhookTooLarge
	case err != nil:
		return nil, &payment.Error{Code: CodeWebhookMalformed, Detail: "the body did not arrive whole", Remedy: "send it again", Err: err}
	}
	return body, nil
}

var errWebhookTooLarge = &payment.Error{Code: CodeBodyTooLarge, Detail: "the body is larger than 1 MiB", Remedy: "send less"}

// refusedWebhook says a refusal to somebody who may be a forger: one text for every cause, so that nothing is learned from
// it. Only the log has the cause.
func (r *Router) refusedWebhook(c *gin.Context, psp string, err error) error {
	var fault *psprouter.WebhookError
	if errors.As(err, &fault) {
		exchangeOf(c).client = senderOf(psp)
		if fault.Why == psprouter.WebhookMalformed {
			return &payment.Error{Code: CodeWebhookMalformed, Detail: "the body is no notice", Remedy: "send what the PSP documents", Err: err}
		}
		c.Header("WWW-Authenticate", "Signature")
		return &payment.Error{Code: CodeWebhookRefused, Detail: "the webhook was refused",
			Remedy: "sign the bytes that are sent, with the secret of this endpoint", Err: err}
	}
	var refusal *payment.Error
	if errors.As(err, &refusal) && refusal.Code == payment.CodeNotFound {
		// The domain's refusal names the PSP that it does not know: a text of the caller's.
		return &payment.Error{Code: CodeRouteNotFound, Detail: "there is nothing at this path", Remedy: "see /openapi.yaml"}
	}
	return err
}

// senderOf is how the log names a PSP that the domain service knows.
func senderOf(psp string) string { return "psp:" + psp }
