// Package contract judges psprouter/stripe and the simulator by Stripe's own documents, and holds nothing but tests:
//
//   - stripe-mock, in this process, judges every request that the adapter makes: unknown, missing or mistyped parameters and
//     unknown addresses are HTTP 400 or 404 there.
//   - The OpenAPI document that stripe-mock embeds judges every answer and every webhook object of the simulator.
//
// It is a module of its own, so that stripe-mock and a validator of JSON Schema are not requirements of paygrid. Run it with
//
//	cd psprouter/stripe/contract && go test ./...
//
// What it cannot see: stripe-mock keeps no state, so what an answer means is tested in psprouter/stripe itself.
package contract
