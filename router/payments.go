package router

import (
	"context"
	"net/http"

	"paygrid/payment"
)

// Payments is the domain service as the front door calls it; *payment.Service is the real one. Every refusal is a
// *payment.Error; any other error means that nothing was decided. Commands go on to their end when ctx is cancelled.
type Payments interface {
	// Authorize starts a payment, or replays the first answer of its key.
	Authorize(ctx context.Context, c payment.AuthorizeCommand) (payment.Answer, error)
	// Confirm asks the PSP what became of a redirect and answers with the payment as it is now.
	Confirm(ctx context.Context, c payment.ConfirmCommand) (payment.Answer, error)
	// Capture takes all or a part of an authorization.
	Capture(ctx context.Context, c payment.CaptureCommand) (payment.Answer, error)
	// Void releases an authorization.
	Void(ctx context.Context, c payment.VoidCommand) (payment.Answer, error)
	// Refund gives back all or a part of what was captured.
	Refund(ctx context.Context, c payment.RefundCommand) (payment.Answer, error)
	// Get reads a payment; another client's is payment.CodeNotFound.
	Get(ctx context.Context, client, paymentID string) (payment.View, error)
	// ByOrder lists the client's payments of an order, oldest first; none is an empty list.
	ByOrder(ctx context.Context, client, orderID string) ([]payment.View, error)
	// Ledger reads what a payment posted.
	Ledger(ctx context.Context, client, paymentID string) (payment.LedgerView, error)
	// TakeWebhook stores the notices of a PSP's webhook and returns what the PSP wants to hear. A *psprouter.WebhookError
	// says that it was refused, payment.CodeNotFound that no such PSP sends any, payment.CodeUnavailable that the PSP must
	// send it again.
	TakeWebhook(ctx context.Context, psp string, header http.Header, body []byte) (contentType string, answer []byte, err error)
	// Ready is nil if every shard answers.
	Ready(ctx context.Context) error
}
