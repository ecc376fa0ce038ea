package payment

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"

	"paygrid/ledger"
	"paygrid/psprouter"
)

// Longest values that a command may carry, in bytes.
const (
	maxReference = 128
	maxToken     = 255
	maxURL       = 2048
	maxTokens    = 16 // per payment method
)

// check tells whether the command obeys the rules that need no payment; the first that it breaks is named.
func (c AuthorizeCommand) check() error {
	if err := checkAmount("/amount", c.Amount); err != nil {
		return err
	}
	if err := checkText("/orderId", c.OrderID, 1); err != nil {
		return err
	}
	if err := checkText("/customerId", c.CustomerID, 0); err != nil {
		return err
	}
	if c.CaptureMode != Manual && c.CaptureMode != Automatic {
		return invalid("/captureMode", fmt.Sprintf("captureMode %q is not known", c.CaptureMode), `send "manual" or "automatic"`)
	}
	if err := c.Method.check(); err != nil {
		return err
	}
	if err := checkURL("/returnUrl", c.ReturnURL); err != nil {
		return err
	}
	return checkSplits(c.Amount, c.Splits)
}

func (m Method) check() error {
	if len(m.Tokens) == 0 {
		return &Error{Code: CodeNoPSP, Field: "/paymentMethod", Detail: "the payment method has no token", Remedy: "send a token of a PSP"}
	}
	if len(m.Tokens) > maxTokens {
		return invalid("/paymentMethod/tokens", fmt.Sprintf("%d tokens, the limit is %d", len(m.Tokens), maxTokens),
			"send one token per PSP in use")
	}
	for _, psp := range slices.Sorted(maps.Keys(m.Tokens)) {
		if !pspName.MatchString(psp) {
			return invalid("/paymentMethod/tokens", "a PSP's name is not 1 to 64 of A-Z a-z 0-9 . _ -", `name PSPs as in "stripe"`)
		}
		if token := m.Tokens[psp]; token == "" || len(token) > maxToken || !printable(token) {
			return invalid("/paymentMethod/tokens/"+psp, "a token is empty, too long or not printable", "send the token that the PSP gave you")
		}
	}
	return m.checkCard()
}

// What may be shown of a card has a fixed form, so that nothing longer can stand there, a card number least of all.
var (
	pspName     = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	cardBrand   = regexp.MustCompile(`^[ -~]{1,32}$`)
	cardLast4   = regexp.MustCompile(`^[0-9]{4}$`)
	cardExpiry  = regexp.MustCompile(`^[0-9]{4}-(0[1-9]|1[0-2])$`)
	cardCountry = regexp.MustCompile(`^[A-Z]{2}$`)
)

// checkCard holds the forms of what is shown of the card; all of it may be left out.
func (m Method) checkCard() error {
	for _, rule := range []struct {
		member, value string
		form          *regexp.Regexp
		want          string
	}{
		{"brand", m.Brand, cardBrand, `at most 32 printable characters such as "visa"`},
		{"last4", m.Last4, cardLast4, "the last four digits"},
		{"expiry", m.Expiry, cardExpiry, `year and month such as "2028-09"`},
		{"country", m.Country, cardCountry, `an ISO 3166-1 alpha-2 code such as "DE"`},
	} {
		if rule.value != "" && !rule.form.MatchString(rule.value) {
			return invalid("/paymentMethod/"+rule.member, rule.member+" is not well-formed", "send "+rule.want+", or leave it out")
		}
	}
	return nil
}

// checkAmount holds the bounds of one amount.
func checkAmount(field string, m ledger.Money) error {
	if _, err := ledger.ParseCurrency(string(m.Currency)); err != nil {
		return &Error{Code: CodeCurrencyUnknown, Field: field + "/currency", Detail: err.Error(),
			Remedy: "send an upper-case ISO 4217 code such as EUR", Err: err}
	}
	return checkMinor(field+"/minor", m.Minor)
}

func checkMinor(field string, minor int64) error {
	if minor <= 0 {
		return invalid(field, fmt.Sprintf("the amount is %d", minor), "send a whole number of minor units above zero")
	}
	if minor > ledger.MaxAmountMinor {
		return &Error{Code: CodeAmountTooLarge, Field: field, Detail: fmt.Sprintf("%d is above the limit of %d", minor, ledger.MaxAmountMinor),
			Remedy: "split the sale into several payments"}
	}
	return nil
}

func checkSplits(total ledger.Money, splits []ledger.Split) error {
	err := ledger.CheckSplits(total, splits)
	if err == nil {
		return nil
	}
	out := &Error{Code: CodeInvalid, Field: "/splits", Detail: err.Error(), Err: err,
		Remedy: "let every split be above zero, its commission between zero and the split, and their sum the amount"}
	var split *ledger.SplitError
	if !errors.As(err, &split) {
		return out
	}
	if split.Index >= 0 {
		out.Field += "/" + strconv.Itoa(split.Index)
		if split.Field != "" {
			out.Field += "/" + split.Field
		}
	}
	switch split.Kind {
	case ledger.SplitTooLarge:
		out.Code = CodeAmountTooLarge
	case ledger.SplitSum:
		out.Code = CodeSplitsMismatch
	case ledger.SplitDuplicate:
		out.Code, out.Remedy = CodeDuplicateSeller, "add up what one seller gets into one split"
	}
	return out
}

func checkText(field, s string, least int) error {
	if len(s) < least || len(s) > maxReference || !printable(s) {
		return invalid(field, fmt.Sprintf("must have %d to %d bytes, all printable", least, maxReference), "shorten or clean it")
	}
	return nil
}

func checkURL(field, s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || len(s) > maxURL || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return invalid(field, "not an absolute http(s) URL of at most 2048 bytes", "send where the buyer shall return to")
	}
	return nil
}

func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

func invalid(field, detail, remedy string) *Error {
	return &Error{Code: CodeInvalid, Field: field, Detail: detail, Remedy: remedy}
}

// routeError turns psprouter's refusal to route into a command's.
func routeError(err error) *Error {
	var amount *psprouter.AmountError
	if errors.As(err, &amount) {
		return &Error{Code: CodeAmountNotSupported, Field: "/amount/minor", Detail: amount.Error(),
			Remedy: "change the amount or offer a payment method of another PSP", Err: err}
	}
	var unavailable *psprouter.UnavailableError
	if errors.As(err, &unavailable) {
		return &Error{Code: CodePSPUnavailable, Detail: "no PSP of this payment can be asked now; nothing was charged",
			RetryIn: unavailable.RetryIn, Remedy: "repeat with the same idempotency key after the time given", Err: err}
	}
	return &Error{Code: CodeNoPSP, Field: "/paymentMethod", Detail: "no PSP of ours has a token of this payment method",
		Remedy: "send a token of a PSP that this cluster uses", Err: err}
}

// meaning is the hash of what a command asks for: of its decoded members, not of the bytes that came. The client and the
// key are its scope, not its meaning.
func (c AuthorizeCommand) meaning() [32]byte {
	c.Client, c.Key = "", ""
	return hash("payments", c)
}

func (c CaptureCommand) meaning() [32]byte { return hash("capture", c.PaymentID, c.Amount) }
func (c VoidCommand) meaning() [32]byte    { return hash("void", c.PaymentID) }
func (c RefundCommand) meaning() [32]byte  { return hash("refunds", c.PaymentID, c.Amount) }

// hash is over JSON, whose form is fixed for structs and sorted maps of strings and integers; these types hold no other.
func hash(parts ...any) [32]byte {
	text, _ := json.Marshal(parts) // none of these types can fail to encode
	return sha256.Sum256(text)
}
