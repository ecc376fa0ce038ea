package router

import (
	"context"

	"paygrid/payment"
)

// Payments is the domain service as the front door calls it; *payment.Service is the real one. Every refusal is a
// *payment.Error; any other error means that nothing was decided. Commands go on to their end when ctx is cancelled.
type Payments interface {
	// Authorize starts a payment, or replays the first answer of its key.
	Authorize(ctx context.Context, c payment.AuthorizeCommand) (payment.Answer, error)
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
	// Ready is nil if every shard answers.
	Ready(ctx context.Context) error
}
