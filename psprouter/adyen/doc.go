// Package adyen speaks Adyen's wire format (Checkout API v71, standard webhooks) for psprouter. It is a thin client of
// our own: one method makes one HTTP request, never two (see psprouter/wire).
//
//	Authorize  POST /payments
//	Capture    POST /payments/{pspReference}/captures
//	Void       POST /payments/{pspReference}/cancels
//	Refund     POST /payments/{pspReference}/refunds
//
// The attempt ID is the Idempotency-Key and the reference of every request. A card is named by its storedPaymentMethodId,
// or by "shopperReference/storedPaymentMethodId" where the token belongs to a shopper.
//
// # Captured at once
//
// Adyen has no call that authorizes and captures: an automatic capture is an authorization with captureDelayHours 0, which
// Adyen then captures by itself. Our domain wants one outcome, so an Authorised payment of that kind counts as captured.
// A capture that fails later comes as CAPTURE_FAILED and takes the success back. An AUTHORISATION notice does not say how
// the payment is captured: its outcome has Captured false and CaptureImplied, and whoever applies it knows what was asked.
//
// # Results
//
// Declines are HTTP 200; classify.go turns one answer into an Outcome by a list of what is positively recognised.
// Modifications are only "received": their result comes by webhook (CAPTURE, CANCELLATION, REFUND).
//
// An authorization in doubt cannot be looked up: Adyen has no search by our reference. Inquire therefore sends the
// byte-identical request again under the same key, within ResendLimit; it executes a request that never arrived. Later only a
// webhook or a settlement file can tell. The bytes hold only as long as the account, the return URL and this package's
// requests stay the same: change them only when no attempt is pending.
//
// What happens on failure: no connection at all is NotSent; a request that may have left and has no readable answer is
// Unknown; so are error 704 (in progress), 703 (key store down) and every 5xx; an answer that does not fit the question is
// Unknown with Alert.
//
// Adyen releases the rest of a partial capture unless the account has several captures, and has no word to release it in
// that case: there a final partial capture leaves the rest to expire.
//
//	psp, err := adyen.New(adyen.Config{BaseURL: "https://checkout-test.adyen.com/v71", APIKey: key,
//		MerchantAccount: "ShopEUMain", ReturnURL: "https://shop.example/back", HMACKeys: []string{hexKey}})
package adyen
