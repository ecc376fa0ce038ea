// Package router is the HTTP front door: it turns requests into commands of package payment and their answers into
// HTTP. It holds no state, so any router serves any request and killing one loses nothing.
//
// # The way of a request
//
//	observe      request ID, clock, in-flight gauge, recovery from panics, one log record, metrics
//	refuseDrain  503 to a POST that comes after the shutdown began
//	authenticate bearer key -> client, 401 otherwise
//	acceptCall   media type 415, size 413, card numbers 400, idempotency key 400
//	decode       strict JSON -> command, 400 and 422 with the member named
//	Payments     the domain service; whatever it refuses is a *payment.Error
//	answer       payment.Kind -> status, the stored bytes as they are
//
// A confirm goes the same way without an idempotency key. A PSP's webhook goes from observe straight to Payments, as the
// raw bytes that its signature is over; operators' routes have credentials of their own.
//
// # What goes wrong, and what the caller sees
//
// Every refusal is an application/problem+json with a stable code. All codes and statuses stand in errors.go and
// nowhere else. An error that is no *payment.Error means that a dependency failed before anything was decided: 503
// with Retry-After, and the cause goes to the log. A panic is the only 500. A caller that hangs up cancels the
// request's context; the domain service detaches what it has begun, so nothing is left half done.
//
// A webhook that is not taken is told so in one text for every cause: its sender may be a forger. What could not be stored
// is a 503, so that the PSP sends it again. Webhooks are taken until the shutdown's end: what is stored needs nobody.
//
// # Card numbers
//
// A card number must never enter the system. Bodies, idempotency keys, queries and payment IDs are searched for 13 to
// 19 digits that pass Luhn before anything in them is looked at, and what holds one is refused without being echoed
// (pan.go says how). Logs carry codes, route templates and IDs of ours, never bodies, keys, tokens or raw paths.
//
// # Idempotency keys
//
// Exactly one Idempotency-Key header line of 1 to 255 printable ASCII bytes, blanks around it trimmed, case kept. The
// quoted form of the IETF draft (draft-ietf-httpapi-idempotency-key-header-07) is the same key as the bare one:
// `"abc"` = `abc`.
//
// # Shutdown
//
// When the context of Serve ends, /readyz turns to 503 at once, and for Config.DrainDelay everything is still served
// (answers carry Connection: close), so that load balancers can look away. Then the listener closes, new POSTs on open
// connections are refused with DRAINING, and running requests have Config.DrainTimeout to end.
//
// # Example
//
//	r, err := router.New(router.Config{Clients: clients}, service, prometheus.NewRegistry(), slog.Default(), time.Now)
//	if err != nil {
//		return err
//	}
//	return r.Serve(ctx, listener)
package router
