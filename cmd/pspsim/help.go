package main

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"paygrid/psprouter/simulator"
)

func usage(flags *flag.FlagSet) {
	w := flags.Output()
	fmt.Fprint(w, helpIntro)
	flags.PrintDefaults()
	fmt.Fprint(w, "\nTokens: what happens is chosen by payment_method (Adyen: paymentMethod.storedPaymentMethodId)\n\n")
	for _, t := range simulator.Tokens() {
		entry(w, t.Name, t.Doc)
	}
	fmt.Fprint(w, helpFaults)
	group := "ok"
	for _, f := range simulator.Faults() {
		if f.Group != group {
			fmt.Fprintf(w, "\n %s\n", strings.TrimSpace(f.Group))
			group = f.Group
		}
		entry(w, f.Name, f.Doc)
	}
	fmt.Fprint(w, helpControl)
}

func entry(w io.Writer, name, doc string) {
	fmt.Fprintf(w, "  %-20s %s\n", name, strings.ReplaceAll(doc, "\n", "\n"+strings.Repeat(" ", 23)))
}

const helpIntro = `pspsim simulates a payment service provider on one machine: no real money, no network, all in memory. It speaks
Stripe's or Adyen's API, sends signed webhooks, misbehaves on demand, and keeps books of what it really did.

  pspsim --listen 127.0.0.1:12111
  curl -H 'Authorization: Bearer sk_test_1' -H 'Idempotency-Key: k1' http://127.0.0.1:12111/v1/payment_intents \
    -d amount=1099 -d currency=eur -d confirm=true -d payment_method=pm_ok -d capture_method=manual \
    -d 'metadata[attempt]=att_1'

  pspsim --dialect adyen --listen 127.0.0.1:12112 --webhook http://127.0.0.1:8080/hooks --webhook-secret A1B2C3D4
  curl -H 'X-API-Key: any' -H 'Idempotency-Key: k1' http://127.0.0.1:12112/v71/payments -H 'Content-Type: application/json' \
    -d '{"merchantAccount":"ShopEUMain","reference":"att_1","amount":{"value":1099,"currency":"EUR"},"returnUrl":"https://shop.example/",
         "paymentMethod":{"type":"scheme","storedPaymentMethodId":"pm_ok"},"additionalData":{"manualCapture":"true"}}'

Stripe, below /v1: POST payment_intents, payment_intents/{id}/confirm|capture|cancel, refunds; GET payment_intents,
payment_intents/{id}, payment_intents/search, refunds, refunds/{id}.

Adyen, below /v71: POST payments, payments/details, payments/{id}/captures|cancels|refunds, cancels (by our reference). A capture,
cancel or refund is answered "received"; its result comes by webhook alone, as does that of asking for too much.

Idempotency keys work as at the PSP: the first answer is replayed, for 24 hours at Stripe and 7 days at Adyen.

Flags:

`

const helpFaults = `
Faults: for POST /sim/script, as FAULT in pm_ok_OP_FAULT, and drawn by --fault-rate. A call that draws one draws none when it is
sent again under its key, and one seed draws the same faults for the same keys. N is 1 to 600.

`

const helpControl = `
Webhooks: each change is told to one receiver (--webhook), in turn, or to all (--broadcast). Stripe's are signed in
Stripe-Signature and received with any 2xx; Adyen's are signed in additionalData.hmacSignature and received with a 2xx and
"[accepted]". What is not received is sent again after 1 s, 2 s, … up to 1 minute, to the next receiver, 15 times at most.
Stripe: payment_intent.* and refund.*. Adyen: AUTHORISATION, CAPTURE, CAPTURE_FAILED, CANCELLATION, TECHNICAL_CANCEL, REFUND,
REFUND_FAILED, EXPIRE.

Control API (no credentials: keep it on a loopback address):

  POST /sim/script    {"on":"capture","fault":"drop_after","payment":"pi_…","count":1}
                      The fault of the next count calls of on (authorize, capture, void, refund), or of the next count
                      notices (webhook); payment "" means any. Scripts come before tokens, tokens before drawn faults.
                      Replays of an idempotency key use none up.
  POST /sim/faults    {"perMille":150,"faults":["wire","wrong_amount"]}     what the seed draws from now on; GET lists all
  POST /sim/outage    {"seconds":30,"mode":"503"}                           or "reset", "timeout"; 0 seconds end it
  POST /sim/settle    {"id":"…","result":"succeeded"}                       or "failed"
                      The end of what is pending (pm_pending, pm_3ds, …_pending), by the payment's, the modification's or
                      the refund's ID. A succeeded refund can still fail.
  POST /sim/reverse   {"id":"…"}   takes back a capture (by the payment's or the capture's ID) or a refund
  POST /sim/expire    {"id":"…"}   lets an authorization expire now
  GET  /sim/webhooks  every notice: its content, how often it was sent, whether and when it was received
  PUT  /sim/webhooks  {"targets":["http://127.0.0.1:8080/hooks"]}   the receivers from now on, in place of --webhook; [] is nobody
  POST /sim/webhooks  {"redeliver":"evt_…"}   sends one again; "all": every one that was dropped or given up
  GET  /sim/books     Everything that moved, as JSON: per payment the amounts authorized, captured and refunded, each
                      capture and refund with its idempotency key, and each call; totals per currency; faults by name;
                      notices with tries, lag and forgeries that were accepted.
                      …PSP amounts are in the PSP's unit, …Minor amounts in ISO 4217 minor units.
                      ?ref=… (the PSP's) or ?attempt=att_… (Stripe metadata "attempt", Adyen reference) narrows it.
`
