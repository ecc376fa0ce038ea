package adyen

import "strings"

// refusals are the words of refusalReasonCode, in Adyen's order. Merchants read them, and rules of psprouter may; numbers
// would tell neither anything.
var refusals = map[string]string{
	"0": "unknown", "2": "refused", "3": "referral", "4": "acquirer_error", "5": "blocked_card", "6": "expired_card", "7": "invalid_amount",
	"8": "invalid_card_number", "9": "issuer_unavailable", "10": "not_supported", "11": "3d_not_authenticated",
	"12": "not_enough_balance", "14": "acquirer_fraud", "15": "cancelled", "16": "shopper_cancelled", "17": "invalid_pin",
	"18": "pin_tries_exceeded", "19": "pin_validation_not_possible", "20": "fraud", "21": "not_submitted", "22": "fraud_cancelled",
	"23": "transaction_not_permitted", "24": "cvc_declined", "25": "restricted_card", "26": "revocation_of_auth",
	"27": "declined_non_generic", "28": "withdrawal_amount_exceeded", "29": "withdrawal_count_exceeded", "31": "issuer_suspected_fraud",
	"32": "avs_declined", "33": "card_requires_online_pin", "34": "no_checking_account_available_on_card",
	"35": "no_savings_account_available_on_card", "36": "mobile_pin_required", "37": "contactless_fallback",
	"38": "authentication_required", "39": "rreq_not_received_from_ds", "40": "current_aid_is_in_penalty_box",
	"41": "cvm_required_restart_payment", "42": "3ds_authentication_error", "43": "online_pin_required", "44": "try_another_interface",
	"45": "chip_downgrade_mode", "46": "transaction_blocked_to_prevent_excessive_retry_fees",
}

// refusalWord is the stable word of a refusalReasonCode; one that we have not heard of keeps its number.
func refusalWord(code string) string {
	if word := refusals[code]; word != "" {
		return word
	}
	if code == "" || len(code) > 8 || strings.Trim(code, "0123456789") != "" {
		return "refused"
	}
	return "refusal_" + code
}

// reasonWord is the word of a notice's reason, which is a text for people: the one of the table if it reads so, else
// "refused".
func reasonWord(reason string) string {
	text := strings.ReplaceAll(strings.ToLower(strings.TrimSpace(reason)), " ", "_")
	for _, word := range refusals {
		if word == text {
			return word
		}
	}
	return "refused"
}
