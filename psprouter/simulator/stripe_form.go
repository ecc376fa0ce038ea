package simulator

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Stripe's limits of metadata.
const (
	maxMetadataKeys = 50
	maxMetadataKey  = 40
	maxMetadataText = 500
)

// The parameters that each call knows, by the part of their name before the first bracket. An unknown one is refused,
// so that a misspelt parameter of an adapter cannot pass in silence.
var (
	createParams = []string{"amount", "currency", "capture_method", "confirm", "confirmation_method", "payment_method",
		"payment_method_types", "automatic_payment_methods", "payment_method_options", "customer", "off_session",
		"error_on_requires_action", "return_url", "metadata", "description", "statement_descriptor_suffix",
		"setup_future_usage", "transfer_group", "expand"}
	confirmParams = []string{"payment_method", "return_url", "off_session", "error_on_requires_action", "capture_method",
		"payment_method_types", "expand"}
	captureParams = []string{"amount_to_capture", "final_capture", "metadata", "statement_descriptor_suffix", "expand"}
	cancelParams  = []string{"cancellation_reason", "expand"}
	refundParams  = []string{"payment_intent", "charge", "amount", "reason", "metadata", "expand"}
	listParams    = []string{"created", "customer", "payment_intent", "charge", "limit", "starting_after", "ending_before", "expand"}
	searchParams  = []string{"query", "limit", "page", "expand"}
)

// checkNames refuses parameters that are not in known, and parameters that are given twice.
func checkNames(form url.Values, known []string) *answer {
	for name, values := range form {
		top, _, _ := strings.Cut(name, "[")
		if !slices.Contains(known, top) {
			return invalid("parameter_unknown", name, "Received unknown parameter: "+name)
		}
		if len(values) > 1 && !strings.HasSuffix(name, "[]") {
			return invalid("", name, "Received the parameter twice: "+name)
		}
	}
	return nil
}

// amountIn reads a positive amount in the PSP's unit: digits alone, no sign, point or exponent.
func (s *stripeDialect) amountIn(form url.Values, name string) (int64, *answer) {
	text := form.Get(name)
	if text == "" {
		return 0, invalid("parameter_missing", name, "Missing required param: "+name+".")
	}
	amount, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || strings.HasPrefix(text, "+"):
		return 0, invalid("parameter_invalid_integer", name, "Invalid integer: "+text)
	case amount < 1:
		return 0, invalid("amount_too_small", name, "Amount must be at least 1.")
	case amount > s.opts.MaxAmount:
		return 0, invalid("amount_too_large", name, fmt.Sprintf("Amount must be no more than %d.", s.opts.MaxAmount))
	}
	return amount, nil
}

// currencyIn reads a lower-case three-letter code. Which codes exist is not this witness's business.
func currencyIn(form url.Values) (string, *answer) {
	c := form.Get("currency")
	if len(c) != 3 || strings.Trim(c, "abcdefghijklmnopqrstuvwxyz") != "" {
		return "", invalid("", "currency", "Invalid currency: "+c)
	}
	return c, nil
}

// boolIn reads a boolean; absent is otherwise.
func boolIn(form url.Values, name string, otherwise bool) (bool, *answer) {
	switch form.Get(name) {
	case "":
		return otherwise, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, invalid("", name, "Invalid boolean: "+form.Get(name))
}

// metadataIn reads metadata[key]=value within Stripe's limits.
func metadataIn(form url.Values) (map[string]string, *answer) {
	metadata := map[string]string{}
	for name, values := range form {
		key, ok := strings.CutPrefix(name, "metadata[")
		if !ok {
			continue
		}
		key, closed := strings.CutSuffix(key, "]")
		switch {
		case !closed || key == "" || strings.ContainsAny(key, "[]") || utf8.RuneCountInString(key) > maxMetadataKey:
			return nil, invalid("", name, "Metadata keys have 1 to 40 characters and no brackets.")
		case utf8.RuneCountInString(values[0]) > maxMetadataText:
			return nil, invalid("", name, "Metadata values have at most 500 characters.")
		}
		metadata[key] = values[0]
	}
	if len(metadata) > maxMetadataKeys {
		return nil, invalid("", "metadata", "Metadata have at most 50 keys.")
	}
	return metadata, nil
}

// expands tells whether the caller wants the latest charge whole.
func expands(form url.Values) bool {
	for name, values := range form {
		if strings.HasPrefix(name, "expand[") && slices.Contains(values, "latest_charge") {
			return true
		}
	}
	return false
}
