package adyen

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"paygrid/psprouter"
)

// detailsBody is the request of POST /payments/details.
type detailsBody struct {
	Details map[string]string `json:"details"`
}

// Confirm hands over what the buyer brought back from a redirect (redirectResult), which ends the payment at Adyen or asks
// for another step. It is no first send: whatever goes wrong with it says nothing about the payment.
func (a *Adapter) Confirm(ctx context.Context, q psprouter.Inquiry, details map[string]string) psprouter.Outcome {
	value, err := a.units.Positive(q.Amount)
	if err != nil {
		return psprouter.UnknownBecause(err.Error())
	}
	seen := a.post(ctx, "/payments/details", detailsKey(q.Attempt, details), detailsBody{Details: details})
	asked := askedPayment{attempt: q.Attempt, amount: amount{Value: value, Currency: string(q.Amount.Currency)}, captured: q.AutoCapture}
	return afterFirst(a.judges.payment(seen, sentBefore, asked))
}

// detailsKey is of the attempt and the details: the same hand-over twice is one at Adyen, another one is not taken for it.
func detailsKey(attempt string, details map[string]string) string {
	text, err := json.Marshal([]any{attempt, details})
	if err != nil {
		text = []byte(attempt) // strings alone: it cannot be
	}
	sum := sha256.Sum256(text)
	return "details_" + hex.EncodeToString(sum[:16])
}
