package simulator

import "strconv"

// declineReason is what a declined authorization says: in Stripe's words, and by Adyen's number.
type declineReason struct {
	code, declineCode, message string
	refusal                    int
}

// declineKinds are the reasons by the short names that faults use.
var declineKinds = map[string]declineReason{
	"generic":        {"card_declined", "generic_decline", "Your card was declined.", 2},
	"funds":          {"card_declined", "insufficient_funds", "Your card has insufficient funds.", 12},
	"expired":        {"expired_card", "expired_card", "Your card has expired.", 6},
	"lost":           {"card_declined", "lost_card", "Your card was declined.", 5},
	"stolen":         {"card_declined", "stolen_card", "Your card was declined.", 5},
	"honor":          {"card_declined", "do_not_honor", "Your card was declined.", 27},
	"fraud":          {"card_declined", "fraudulent", "Your card was declined.", 20},
	"cvc":            {"incorrect_cvc", "incorrect_cvc", "Your card's security code is incorrect.", 24},
	"error":          {"processing_error", "processing_error", "An error occurred while processing your card.", 4},
	"velocity":       {"card_declined", "card_velocity_exceeded", "Your card was declined.", 29},
	"authentication": {"authentication_required", "authentication_required", "Your card requires authentication.", 38},
	"failed3ds":      {"payment_intent_authentication_failure", "", "The buyer could not be authenticated.", 11},
}

// tokenKinds: the tokens that decline, and how.
var tokenKinds = map[string]string{
	"pm_decline":                                       "funds",
	"pm_decline_funds":                                 "funds",
	"pm_decline_expired":                               "expired",
	"pm_decline_lost":                                  "lost",
	"pm_decline_honor":                                 "honor",
	"pm_decline_fraud":                                 "fraud",
	"pm_decline_error":                                 "error",
	"pm_card_visa_chargeDeclined":                      "generic",
	"pm_card_chargeDeclined":                           "generic",
	"pm_card_radarBlock":                               "fraud",
	"pm_card_chargeDeclinedFraudulent":                 "fraud",
	"pm_card_visa_chargeDeclinedInsufficientFunds":     "funds",
	"pm_card_visa_chargeDeclinedLostCard":              "lost",
	"pm_card_visa_chargeDeclinedStolenCard":            "stolen",
	"pm_card_chargeDeclinedExpiredCard":                "expired",
	"pm_card_chargeDeclinedIncorrectCvc":               "cvc",
	"pm_card_chargeDeclinedProcessingError":            "error",
	"pm_card_visa_chargeDeclinedVelocityLimitExceeded": "velocity",
}

// declineOf returns what a declined call says: the fault's kind, or else the token's, or else nothing in particular.
func declineOf(kind, token string) *declineReason {
	if n, ok := triggerOf(token); ok && kind == "" {
		return &declineReason{"card_declined", "generic_decline", "Your card was declined.", n}
	}
	if kind == "" {
		kind = tokenKinds[token]
	}
	reason, ok := declineKinds[kind]
	if !ok {
		reason = declineKinds["generic"]
	}
	return &reason
}

// Adyen's numbers with a meaning of their own.
const (
	refusalUnknown       = 0
	refusalApproved      = 1 // only as a test trigger
	refusalAcquirerError = 4
	refusalPending       = 13 // only as a test trigger
	refusalFraudCancel   = 22
)

// adyenRefusals are the words of refusalReasonCode.
var adyenRefusals = map[int]string{
	0: "Unknown", 2: "Refused", 3: "Referral", 4: "Acquirer Error", 5: "Blocked Card", 6: "Expired Card", 7: "Invalid Amount",
	8: "Invalid Card Number", 9: "Issuer Unavailable", 10: "Not supported", 11: "3D Not Authenticated", 12: "Not enough balance",
	14: "Acquirer Fraud", 15: "Cancelled", 16: "Shopper Cancelled", 17: "Invalid Pin", 18: "Pin tries exceeded",
	19: "Pin validation not possible", 20: "FRAUD", 21: "Not Submitted", 22: "FRAUD-CANCELLED", 23: "Transaction Not Permitted",
	24: "CVC Declined", 25: "Restricted Card", 26: "Revocation Of Auth", 27: "Declined Non Generic", 28: "Withdrawal amount exceeded",
	29: "Withdrawal count exceeded", 31: "Issuer Suspected Fraud", 32: "AVS Declined", 33: "Card requires online pin",
	38: "Authentication required",
}

// adyenTriggers are the words that Adyen's test cards take as holder name or RequestedTestAcquirerResponseCode.
var adyenTriggers = map[string]int{
	"UNKNOWN": 0, "APPROVED": 1, "DECLINED": 2, "REFERRAL": 3, "ERROR": 4, "BLOCK_CARD": 5, "CARD_EXPIRED": 6, "INVALID_AMOUNT": 7,
	"INVALID_CARD_NUMBER": 8, "ISSUER_UNAVAILABLE": 9, "NOT_SUPPORTED": 10, "NOT_3D_AUTHENTICATED": 11, "NOT_ENOUGH_BALANCE": 12,
	"PENDING": 13, "ACQUIRER_FRAUD": 14, "CANCELLED": 15, "SHOPPER_CANCELLED": 16, "INVALID_PIN": 17, "PIN_TRIES_EXCEEDED": 18,
	"PIN_VALIDATION_NOT_POSSIBLE": 19, "FRAUD": 20, "NOT_SUBMITTED": 21, "FRAUD_CANCELLED": 22, "TRANSACTION_NOT_PERMITTED": 23,
	"CVC_DECLINED": 24, "RESTRICTED_CARD": 25, "REVOCATION_OF_AUTH": 26, "DECLINED_NON_GENERIC": 27, "WITHDRAWAL_AMOUNT_EXCEEDED": 28,
	"WITHDRAWAL_COUNT_EXCEEDED": 29, "ISSUER_SUSPECTED_FRAUD": 31, "AVS_DECLINED": 32, "PIN_REQUIRED": 33,
}

const triggerPrefix = "test_"

// triggerOf reads Adyen's number from a token made of one of its test triggers: test_12.
func triggerOf(token string) (int, bool) {
	if len(token) <= len(triggerPrefix) || token[:len(triggerPrefix)] != triggerPrefix {
		return 0, false
	}
	n, err := strconv.Atoi(token[len(triggerPrefix):])
	_, known := adyenRefusals[n]
	return n, err == nil && (known || n == refusalApproved || n == refusalPending)
}
