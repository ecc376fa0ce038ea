package adyen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"paygrid/psprouter"
	"paygrid/psprouter/wire"
)

// amount is Adyen's amount: Value counts in Adyen's own unit of the currency.
type amount struct {
	Value    int64  `json:"value"`
	Currency string `json:"currency"`
}

// paymentBody is the request of POST /payments. Its encoding must be the same for the same request, for ever: a re-send
// has to be byte-identical. Structs are written in order and maps sorted, and nothing here depends on the moment.
type paymentBody struct {
	Amount                   amount            `json:"amount"`
	MerchantAccount          string            `json:"merchantAccount"`
	Reference                string            `json:"reference"`
	PaymentMethod            paymentMethod     `json:"paymentMethod"`
	ReturnURL                string            `json:"returnUrl"`
	ShopperInteraction       string            `json:"shopperInteraction"`
	RecurringProcessingModel string            `json:"recurringProcessingModel"`
	ShopperReference         string            `json:"shopperReference,omitempty"`
	CaptureDelayHours        *int              `json:"captureDelayHours,omitempty"`
	AdditionalData           map[string]string `json:"additionalData,omitempty"`
	Metadata                 map[string]string `json:"metadata,omitempty"`
}

type paymentMethod struct {
	Type   string `json:"type"`
	Stored string `json:"storedPaymentMethodId"`
}

type modificationBody struct {
	MerchantAccount string  `json:"merchantAccount"`
	Amount          *amount `json:"amount,omitempty"`
	Reference       string  `json:"reference"`
}

// Adyen's limits of a payment's metadata: 20 pairs, names of 20 characters (ours are shorter), values of 80.
func packing() wire.Packing { return wire.Packing{Keys: 20, Chars: 80} }

func (a *Adapter) paymentBody(r psprouter.AuthorizeRequest, value int64) paymentBody {
	body := paymentBody{
		Amount:          amount{Value: value, Currency: string(r.Amount.Currency)},
		MerchantAccount: a.cfg.MerchantAccount,
		Reference:       r.Attempt,
		PaymentMethod:   paymentMethod{Type: "scheme", Stored: r.Token},
		ReturnURL:       r.ReturnURL,
		// A buyer who pays with a card that is kept on file.
		ShopperInteraction: "ContAuth", RecurringProcessingModel: "CardOnFile",
		Metadata: map[string]string{},
	}
	if shopper, stored, both := strings.Cut(r.Token, "/"); both {
		body.ShopperReference, body.PaymentMethod.Stored = shopper, stored
	}
	if body.ReturnURL == "" {
		body.ReturnURL = a.cfg.ReturnURL
	}
	if r.AutoCapture {
		body.CaptureDelayHours = new(int)
	} else {
		body.AdditionalData = map[string]string{"manualCapture": "true"}
	}
	packing().Pack(body.Metadata, r.Recovery)
	return body
}

// RecoveryFrom reads the recovery data of a payment's metadata back; with wire.ErrSplitsCut all but the last splits are
// there. The payment's reference is the attempt ID.
func RecoveryFrom(metadata map[string]string) (psprouter.Recovery, error) {
	return packing().Unpack(metadata)
}

// answer is all that one call showed, as a value, so that judging it is pure.
type answer struct {
	unsent string // why provably nothing was sent; "" = something may have been
	status int    // HTTP status; 0 = no answer
	header http.Header
	body   []byte
	broken error // why there is no whole answer
}

// post makes one call within the timeout and returns what was seen of it.
func (a *Adapter) post(ctx context.Context, path, key string, body any) answer {
	if err := ctx.Err(); err != nil {
		return answer{unsent: "the caller had given up before the call: " + err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	seen := new(wire.Exchange)
	text, err := a.exchange(wire.With(ctx, seen), path, key, body)
	return answer{unsent: seen.Unsent(err), status: seen.Status(), header: seen.Header(), body: text, broken: err}
}

func (a *Adapter) exchange(ctx context.Context, path, key string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.cfg.BaseURL+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("X-API-Key", a.cfg.APIKey)
	req.Header.Set("Idempotency-Key", key)
	resp, err := a.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	return answer, nil
}

// readJSON reads one JSON object and nothing after it.
func readJSON(text []byte, into any) error {
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		return errors.New("no JSON object")
	}
	return json.Unmarshal(text, into)
}
