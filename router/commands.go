package router

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"paygrid/payment"
)

func (r *Router) authorize(c *gin.Context) {
	in, err := acceptCall(c, false)
	if err != nil {
		r.refuse(c, err)
		return
	}
	cmd, err := decodeAuthorize(in.body, r.cfg.DefaultPSP)
	if err != nil {
		r.refuse(c, err)
		return
	}
	cmd.Client, cmd.Key = in.client, in.key
	answer, err := r.payments.Authorize(c.Request.Context(), cmd)
	r.answer(c, answer, err)
}

func (r *Router) confirm(c *gin.Context) {
	in, err := acceptKeyless(c, false)
	if err != nil {
		r.refuse(c, err)
		return
	}
	details, err := decodeConfirm(in.body)
	if err != nil {
		r.refuse(c, err)
		return
	}
	cmd := payment.ConfirmCommand{Client: in.client, PaymentID: in.paymentID, Details: details}
	answer, err := r.payments.Confirm(c.Request.Context(), cmd)
	r.say(c, answer, err, viewStatus)
}

func (r *Router) capture(c *gin.Context) {
	in, err := acceptCall(c, false)
	if err != nil {
		r.refuse(c, err)
		return
	}
	amount, err := decodePart(in.body)
	if err != nil {
		r.refuse(c, err)
		return
	}
	cmd := payment.CaptureCommand{Client: in.client, Key: in.key, PaymentID: in.paymentID, Amount: amount}
	answer, err := r.payments.Capture(c.Request.Context(), cmd)
	r.answer(c, answer, err)
}

func (r *Router) void(c *gin.Context) {
	in, err := acceptCall(c, true)
	if err != nil {
		r.refuse(c, err)
		return
	}
	if err := decodeNothing(in.body); err != nil {
		r.refuse(c, err)
		return
	}
	cmd := payment.VoidCommand{Client: in.client, Key: in.key, PaymentID: in.paymentID}
	answer, err := r.payments.Void(c.Request.Context(), cmd)
	r.answer(c, answer, err)
}

func (r *Router) refund(c *gin.Context) {
	in, err := acceptCall(c, false)
	if err != nil {
		r.refuse(c, err)
		return
	}
	amount, err := decodePart(in.body)
	if err != nil {
		r.refuse(c, err)
		return
	}
	cmd := payment.RefundCommand{Client: in.client, Key: in.key, PaymentID: in.paymentID, Amount: amount}
	answer, err := r.payments.Refund(c.Request.Context(), cmd)
	r.answer(c, answer, err)
}

// answer says a command's answer in HTTP: the stored bytes as they are, so that a replay is byte-equal.
func (r *Router) answer(c *gin.Context, a payment.Answer, err error) {
	r.say(c, a, err, func(kind payment.Kind) (int, bool) {
		status, known := kindStatus[kind]
		return status, known
	})
}

// say is answer with a table of statuses.
func (r *Router) say(c *gin.Context, a payment.Answer, err error, statusOf func(payment.Kind) (int, bool)) {
	if err != nil {
		r.refuse(c, err)
		return
	}
	status, known := statusOf(a.Kind)
	if !known || len(a.Body) == 0 {
		// Never a success without a body: a caller could not tell what it has got.
		r.refuse(c, fmt.Errorf("router: answer of kind %q with %d bytes", a.Kind, len(a.Body)))
		return
	}
	x := exchangeOf(c)
	x.answered, x.pspTime = true, a.PSPTime
	if a.PaymentID != "" {
		x.paymentID = a.PaymentID
	}
	setAnswerHeaders(c.Writer.Header(), status, a)
	c.Data(status, "application/json", a.Body)
}

// setAnswerHeaders adds what the status asks for. Location is the payment, also for a refund: that is where its
// amounts are read.
func setAnswerHeaders(h http.Header, status int, a payment.Answer) {
	if a.Replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	switch status {
	case http.StatusCreated, http.StatusAccepted:
		if a.PaymentID != "" {
			h.Set("Location", "/v1/payments/"+a.PaymentID)
		}
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.FormatInt(wholeSeconds(retryDefault), 10))
	}
}
