// Package stripe speaks Stripe's wire format (API v1) for psprouter.
//
// One method makes one HTTP request, never two: stripe-go's retries are off, redirects are not followed, and the
// request body cannot be rewound, so that net/http's transport cannot quietly send a POST again on another connection.
//
//	Authorize  POST /v1/payment_intents              confirm=true
//	Capture    POST /v1/payment_intents/{id}/capture
//	Void       POST /v1/payment_intents/{id}/cancel
//	Refund     POST /v1/refunds
//
// The attempt ID is the Idempotency-Key and stands in the metadata. What an answer means is decided in classify.go, by
// pure functions from one recorded exchange to an Outcome; what they do not recognise is Unknown. They judge each call as the
// first send of its attempt: on a re-send a 429, 401 or 400 says nothing about the first request, so a resolver that
// sends again must not use these methods' NotSent and Declined.
//
// Inquire looks up instead (GET alone, inquire.go and found.go): a known payment by its ID, an unknown one by search for our
// attempt and by the list of its time window (census.go: one reading for all who ask), a refund among its payment's refunds.
//
// Webhooks are checked over their bytes (webhook.go) and read by a table of event types (notice.go). The metadata of a
// payment name the authorization's attempt, so a capture's notice takes capture_attempt and a void's the key of its request.
//
// What happens on failure: no connection at all is NotSent; a request that may have left and has no readable answer is
// Unknown; an answer that does not fit the question is Unknown with Alert.
//
// Stripe's amounts differ from ISO 4217's for a few currencies; units.go converts both ways and refuses what it would
// have to round.
package stripe
