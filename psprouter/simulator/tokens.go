package simulator

import (
	"cmp"
	"strings"
)

// Token is one payment method and what it does, for help texts.
type Token struct{ Name, Doc string }

// Tokens returns the payment methods that the simulator knows.
func Tokens() []Token {
	return []Token{
		{"pm_ok", "approves at once"},
		{"pm_decline", "declines at once (402 card_declined, insufficient_funds)"},
		{"pm_slow_ok_Ns", "moves the money at the end of N seconds, then answers ok, even if the client has hung up"},
		{"pm_ok_drop", "moves the money, then cuts the connection"},
		{"pm_500_charged", "moves the money, then answers HTTP 500"},
		{"pm_timeout_charged", "moves the money at once, answers after 60 s"},
		{"pm_hidden_Ns", "as pm_ok_drop, and look-ups find nothing for N seconds (pm_hidden_20s)"},
		{"pm_never", "connection reset after the request was read; no record, ever"},
		{"pm_pending", "answers \"processing\"; the end comes by POST /sim/settle"},
		{"pm_503", "HTTP 503 with " + NotProcessedHeader + ": true; nothing moved"},
		{"pm_3ds", "the buyer must act: requires_action with a redirect; POST /sim/settle ends it"},
		{"pm_ok_OP_FAULT", "approves; every later OP (capture, void, refund) has that FAULT: pm_ok_capture_drop,\n" +
			"pm_ok_refund_drop, pm_ok_refund_pending, pm_ok_capture_decline, pm_ok_void_drop, pm_ok_capture_slow_2s, …\n" +
			"Short names: drop, never, 500, timeout, reset, truncated, garbage, redirect"},
		{"pm_card_…", "Stripe's test payment methods that concern authorizations: pm_card_visa,\n" +
			"pm_card_visa_chargeDeclinedLostCard, pm_card_authenticationRequired, …"},
	}
}

// authFaults: the tokens whose authorization has a fault of a fixed name.
var authFaults = map[string]string{
	"pm_ok": "ok", "pm_decline": "decline", "pm_ok_drop": "drop_after", "pm_500_charged": "500_after",
	"pm_timeout_charged": "timeout_after", "pm_never": "drop_before", "pm_pending": "pending", "pm_503": "503",
	"pm_3ds": "action", "pm_card_visa": "ok", "pm_card_mastercard": "ok", "pm_card_bypassPending": "ok",
	"pm_card_authenticationRequired": "action",
}

// declineReason is what a declined authorization says.
type declineReason struct{ code, declineCode, message string }

// declines: Stripe's test payment methods that decline.
var declines = map[string]declineReason{
	"pm_decline":                                       {"card_declined", "insufficient_funds", "Your card has insufficient funds."},
	"pm_card_visa_chargeDeclined":                      {"card_declined", "generic_decline", "Your card was declined."},
	"pm_card_chargeDeclined":                           {"card_declined", "generic_decline", "Your card was declined."},
	"pm_card_radarBlock":                               {"card_declined", "fraudulent", "Your card was declined."},
	"pm_card_chargeDeclinedFraudulent":                 {"card_declined", "fraudulent", "Your card was declined."},
	"pm_card_visa_chargeDeclinedInsufficientFunds":     {"card_declined", "insufficient_funds", "Your card has insufficient funds."},
	"pm_card_visa_chargeDeclinedLostCard":              {"card_declined", "lost_card", "Your card was declined."},
	"pm_card_visa_chargeDeclinedStolenCard":            {"card_declined", "stolen_card", "Your card was declined."},
	"pm_card_chargeDeclinedExpiredCard":                {"expired_card", "expired_card", "Your card has expired."},
	"pm_card_chargeDeclinedIncorrectCvc":               {"incorrect_cvc", "incorrect_cvc", "Your card's security code is incorrect."},
	"pm_card_chargeDeclinedProcessingError":            {"processing_error", "processing_error", "An error occurred while processing your card."},
	"pm_card_visa_chargeDeclinedVelocityLimitExceeded": {"card_declined", "card_velocity_exceeded", "Your card was declined."},
}

// declineOf returns what a declined call says; a token without words of its own gets the generic ones.
func declineOf(token string) declineReason {
	return cmp.Or(declines[token], declines["pm_card_visa_chargeDeclined"])
}

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

type laterFault struct{ op, fault string }

// parseToken splits a token into the fault of its authorization ("" = unknown token) and that of one later operation.
func parseToken(token string) (authorize string, later laterFault) {
	if name, ok := authFaults[token]; ok {
		return name, later
	}
	if _, ok := declines[token]; ok {
		return "decline", later
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
	if !ok || !both || !known || b.effect == act || (op != opCapture && op != opVoid && op != opRefund) {
		return "", later
	}
	return "ok", laterFault{op, fault}
}

func knownFault(name string) string {
	if _, ok := faultNamed(name); !ok {
		return ""
	}
	return name
}
