package payment

import (
	"context"
	"errors"

	"paygrid/shard"
)

// Get shows a payment to its client.
func (s *Service) Get(ctx context.Context, client, paymentID string) (View, error) {
	snapshot, err := s.owned(ctx, client, paymentID)
	return viewOf(snapshot.Payment), err
}

// owned reads a payment of client; another client's is not found.
func (s *Service) owned(ctx context.Context, client, paymentID string) (shard.Snapshot, error) {
	snapshot, err := s.shards.Snapshot(ctx, paymentID)
	switch {
	case errors.Is(err, shard.ErrNotFound):
		return shard.Snapshot{}, notFound(paymentID)
	case err != nil:
		return shard.Snapshot{}, unavailable(err)
	case snapshot.Payment.ClientID != client:
		return shard.Snapshot{}, notFound(paymentID)
	}
	return snapshot, nil
}

// ByOrder shows the payments that client made for an order, oldest first.
func (s *Service) ByOrder(ctx context.Context, client, orderID string) ([]View, error) {
	if err := checkText("/orderId", orderID, 1); err != nil {
		return nil, err
	}
	payments, err := s.shards.PaymentsOfOrder(ctx, client, orderID)
	if err != nil {
		return nil, unavailable(err)
	}
	views := make([]View, len(payments))
	for n, p := range payments {
		views[n] = viewOf(p)
	}
	return views, nil
}

// Ledger shows what a payment posted.
func (s *Service) Ledger(ctx context.Context, client, paymentID string) (LedgerView, error) {
	if _, err := s.owned(ctx, client, paymentID); err != nil {
		return LedgerView{}, err
	}
	entries, err := s.shards.Entries(ctx, paymentID)
	if err != nil {
		return LedgerView{}, unavailable(err)
	}
	v := LedgerView{PaymentID: paymentID, Entries: make([]EntryView, len(entries))}
	for n, e := range entries {
		v.Entries[n] = entryViewOf(e)
	}
	return v, nil
}
