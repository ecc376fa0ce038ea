package simulator

import "strings"

// Token is one payment method and what it does, for help texts.
type Token struct{ Name, Doc string }

// Tokens returns the payment methods that the simulator knows.
func Tokens() []Token {
	return []Token{
		{"pm_ok", "approves at once"},
		{"pm_decline", "declines at once: insufficient funds (Stripe 402 card_declined, Adyen Refused 12)"},
		{"pm_decline_KIND", "declines at once; KIND is funds, expired, lost, honor, fraud or error"},
		{"pm_slow_ok_Ns", "moves the money at the end of N seconds, then answers ok, even if the client has hung up"},
		{"pm_ok_drop", "moves the money, then cuts the connection"},
		{"pm_500_charged", "moves the money, then answers HTTP 500"},
		{"pm_timeout_charged", "moves the money at once, answers after 60 s"},
		{"pm_hidden_Ns", "as pm_ok_drop, and look-ups find nothing for N seconds (pm_hidden_20s)"},
		{"pm_never", "connection reset after the request was read; no record, ever"},
		{"pm_pending", "answers \"processing\" (Adyen: Received); the end comes by POST /sim/settle and by webhook"},
		{"pm_503", "HTTP 503 with " + NotProcessedHeader + ": true; nothing moved"},
		{"pm_3ds", "the buyer must act: a redirect; POST /sim/settle (Adyen: or payments/details) ends it"},
		{"pm_ok_OP_FAULT", "approves; every later OP (capture, void, refund) has that FAULT: pm_ok_capture_drop,\n" +
			"pm_ok_refund_drop, pm_ok_refund_pending, pm_ok_capture_decline, pm_ok_capture_webhook_early, …\n" +
			"With authorize as OP the authorization itself: pm_ok_authorize_wrong_amount.\n" +
			"Short names: drop, never, 500, timeout, reset, truncated, garbage, redirect"},
		{"pm_card_…", "Stripe's test payment methods that concern authorizations: pm_card_visa,\n" +
			"pm_card_visa_chargeDeclinedLostCard, pm_card_authenticationRequired, …"},
		{"test_N", "the Adyen refusal N; Adyen's own triggers (paymentMethod.holderName or\n" +
			"additionalData.RequestedTestAcquirerResponseCode) mean the same"},
	}
}

// authFaults: the tokens whose authorization has a fault of a fixed name.
var authFaults = map[string]string{
	"pm_ok": "ok", "pm_decline": "decline", "pm_ok_drop": "drop_after", "pm_500_charged": "500_after",
	"pm_timeout_charged": "timeout_after", "pm_never": "drop_before", "pm_pending": "pending", "pm_503": "503",
	"pm_3ds": "action", "pm_card_visa": "ok", "pm_card_mastercard": "ok", "pm_card_bypassPending": "ok",
	"pm_card_authenticationRequired": "action",
}

// laterFault is the fault of one later operation.
type laterFault struct{ op, fault string }

// tokenFault returns the fault of an operation on a payment with token; "" if there is no such token.
func tokenFault(token, op string) string {
	authorize, later := parseToken(token)
	switch op {
	case opAuthorize:
		return authorize
	case later.op:
		return later.fault
	}
	return "ok"
}

// parseToken splits a token into the fault of its authorization ("" = unknown token) and that of one later operation.
func parseToken(token string) (authorize string, later laterFault) {
	if name, ok := authFaults[token]; ok {
		return name, later
	}
	if _, ok := tokenKinds[token]; ok {
		return "decline", later
	}
	if n, ok := triggerOf(token); ok {
		return triggerFault(n), later
	}
	if rest, ok := strings.CutPrefix(token, "pm_slow_ok_"); ok {
		return knownFault("slow_" + rest), later
	}
	if strings.HasPrefix(token, "pm_hidden_") {
		return knownFault(strings.TrimPrefix(token, "pm_")), later
	}
	rest, ok := strings.CutPrefix(token, "pm_ok_")
	op, fault, both := strings.Cut(rest, "_")
	b, known := faultNamed(fault)
	switch {
	case !ok || !both || !known || op == opWebhook || !b.fits(op):
		return "", later
	case op == opAuthorize:
		return fault, later
	}
	return "ok", laterFault{op, fault}
}

func triggerFault(n int) string {
	switch n {
	case refusalApproved:
		return "ok"
	case refusalPending:
		return "pending"
	}
	return "decline"
}

func knownFault(name string) string {
	if _, ok := faultNamed(name); !ok {
		return ""
	}
	return name
}
