package router

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"paygrid/payment"
)

// call is what every command needs, checked and still undecoded.
type call struct {
	client    string
	key       string // "" where none is needed
	paymentID string // "" for a new payment
	body      []byte
}

// acceptCall checks everything about a POST that does not need its body's meaning. Card numbers come first of what the
// request says, so that no later error can repeat one. bodyOptional allows a request without any body.
func acceptCall(c *gin.Context, bodyOptional bool) (call, error) {
	in, err := acceptKeyless(c, bodyOptional)
	if err != nil {
		return call{}, err
	}
	in.key, err = idempotencyKey(c.Request.Header)
	return in, err
}

// acceptKeyless is acceptCall for a POST that is as good as a read: repeating it is asking again. A key is not looked at,
// but for a card number in it.
func acceptKeyless(c *gin.Context, bodyOptional bool) (call, error) {
	body, err := readBody(c.Writer, c.Request, bodyOptional)
	if err != nil {
		return call{}, err
	}
	if err := refuseCardNumbers(c.Request, body); err != nil {
		return call{}, err
	}
	id, err := paymentID(c)
	return call{client: exchangeOf(c).client, paymentID: id, body: body}, err
}

// readBody reads at most bodyBytesMax bytes of JSON.
func readBody(w http.ResponseWriter, req *http.Request, optional bool) ([]byte, error) {
	if optional && req.ContentLength == 0 {
		return nil, nil
	}
	if err := checkMediaType(req.Header); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, bodyBytesMax))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &payment.Error{Code: CodeBodyTooLarge, Detail: "the body is larger than 64 KiB", Remedy: "send less"}
	case err != nil:
		// Only the network or the caller can fail here; nothing of the request has been looked at.
		return nil, &payment.Error{Code: CodeMalformedJSON, Detail: "the body did not arrive whole", Remedy: "send it again", Err: err}
	}
	return body, nil
}

// checkMediaType wants application/json, in UTF-8 and not compressed.
func checkMediaType(h http.Header) error {
	lines := h.Values("Content-Type")
	encoding := h.Get("Content-Encoding")
	if len(lines) == 1 && (encoding == "" || strings.EqualFold(encoding, "identity")) {
		kind, params, err := mime.ParseMediaType(lines[0])
		charset, has := params["charset"]
		if err == nil && kind == "application/json" && (!has || strings.EqualFold(charset, "utf-8")) {
			return nil
		}
	}
	return &payment.Error{Code: CodeUnsupportedMediaType, Detail: "the body is not declared as JSON in UTF-8",
		Remedy: "send Content-Type: application/json, without Content-Encoding"}
}

// refuseCardNumbers searches the body, the idempotency key and the query.
func refuseCardNumbers(req *http.Request, body []byte) error {
	if pointer, found := cardNumberIn(body); found {
		return cardNumber(pointer, "the body")
	}
	for _, line := range req.Header.Values(keyHeader) {
		if holdsCardNumber(line) {
			return cardNumber("", "the Idempotency-Key")
		}
	}
	return refuseCardQuery(req.URL.RawQuery)
}

// refuseCardQuery searches a query, as sent and with its escapes resolved.
func refuseCardQuery(raw string) error {
	plain, err := url.QueryUnescape(raw)
	if holdsCardNumber(raw) || err == nil && holdsCardNumber(plain) {
		return cardNumber("", "the query")
	}
	return nil
}

func cardNumber(pointer, where string) error {
	return &payment.Error{Code: CodeCardNumber, Field: pointer, Detail: where + " holds what looks like a card number",
		Remedy: "send a token of the PSP; if it was a real card number, treat it as disclosed"}
}

// paymentID reads the ID of the path, "" if the route has none. What has not the form of an ID of ours cannot name a
// payment, so it goes no further: not to the domain, not to a log.
func paymentID(c *gin.Context) (string, error) {
	id, has := c.Params.Get("id")
	if !has {
		return "", nil
	}
	if isPaymentID(id) {
		exchangeOf(c).paymentID = id
		return id, nil
	}
	if holdsCardNumber(id) {
		return "", cardNumber("", "the path")
	}
	return "", &payment.Error{Code: payment.CodeNotFound, Detail: "no payment has such an ID",
		Remedy: "use the id of an answer to POST /v1/payments"}
}

// isPaymentID takes pay_<bucket>_<ulid>: four digits, then 26 characters. Whether it exists is the domain's business.
func isPaymentID(id string) bool {
	const prefix, bucketLen, ulidLen = "pay_", 4, 26
	rest, ok := strings.CutPrefix(id, prefix)
	if !ok || len(rest) != bucketLen+1+ulidLen || rest[bucketLen] != '_' || !isDigits(rest[:bucketLen]) {
		return false
	}
	return isCrockford(rest[bucketLen+1:])
}
