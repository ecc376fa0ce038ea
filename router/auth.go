package router

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"paygrid/payment"
)

// authenticate finds the client of the request's bearer key and notes it on the exchange.
func (r *Router) authenticate(c *gin.Context) { r.admit(c, r.credentials) }

// admit finds whose the request's bearer key is among the credentials, notes it on the exchange, and refuses everybody else.
func (r *Router) admit(c *gin.Context, among []credential) {
	key, ok := bearerKey(c.Request.Header)
	if !ok {
		c.Header("WWW-Authenticate", `Bearer realm="paygrid"`)
		r.refuse(c, &payment.Error{Code: CodeUnauthorized, Detail: "the request has no usable API key",
			Remedy: "send one header line Authorization: Bearer <key>"})
		return
	}
	client, ok := holderOf(among, key)
	if !ok {
		c.Header("WWW-Authenticate", `Bearer realm="paygrid", error="invalid_token"`)
		r.refuse(c, &payment.Error{Code: CodeUnauthorized, Detail: "the API key is not known",
			Remedy: "use a key that is in force"})
		return
	}
	exchangeOf(c).client = client
}

// bearerKey reads the key of exactly one Authorization line. The scheme's case does not matter (RFC 9110 section 11.1).
func bearerKey(h http.Header) (string, bool) {
	lines := h.Values("Authorization")
	if len(lines) != 1 {
		return "", false
	}
	scheme, key, found := strings.Cut(lines[0], " ")
	key = strings.Trim(key, " ")
	return key, found && strings.EqualFold(scheme, "Bearer") && key != ""
}

// holderOf compares the key's hash with every credential, so that the time taken tells neither which one matched nor
// how much of one did.
func holderOf(among []credential, key string) (string, bool) {
	digest := sha256.Sum256([]byte(key))
	match := -1
	for i := range among {
		same := subtle.ConstantTimeCompare(digest[:], among[i].digest[:])
		match = subtle.ConstantTimeSelect(same, i, match)
	}
	if match < 0 {
		return "", false
	}
	return among[match].client, true
}
