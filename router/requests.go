package router

import (
	"fmt"
	"time"

	"paygrid/ledger"
	"paygrid/payment"
)

// What each POST may say, as tables of members. Whether the values fit each other (splits against the amount,
// currencies, limits) is for package payment; here is only what makes a value of its kind.

// decodeAuthorize reads the body of POST /v1/payments. A paymentMethod that is a plain string is defaultPSP's token.
func decodeAuthorize(body []byte, defaultPSP string) (payment.AuthorizeCommand, error) {
	// Without a mode nothing is taken: a reservation can still be captured, a capture can only be refunded.
	cmd := payment.AuthorizeCommand{CaptureMode: payment.Manual}
	err := decodeObject(body, []member{
		{"orderId", true, text(&cmd.OrderID)},
		{"customerId", false, text(&cmd.CustomerID)},
		{"amount", true, money(&cmd.Amount)},
		{"paymentMethod", true, method(&cmd.Method, defaultPSP)},
		{"captureMode", false, captureMode(&cmd.CaptureMode)},
		{"splits", true, splits(&cmd.Splits)},
		{"returnUrl", false, text(&cmd.ReturnURL)},
	})
	return cmd, err
}

// decodeConfirm reads the body of a confirm: what the buyer brought back, or an empty object. A null is not nothing.
func decodeConfirm(body []byte) (map[string]string, error) {
	var details map[string]string
	err := decodeObject(body, []member{{"details", false, func(d *decoder) (err error) {
		if details, err = d.textMap(); err == nil && len(details) > detailsMax {
			err = d.invalid(fmt.Sprintf("must have at most %d members", detailsMax))
		}
		return err
	}}})
	return details, err
}

// decodePart reads the body of a capture or refund: an amount, or an empty object for all that is left. A body of no
// bytes is refused, so that a body lost on the way never means "everything".
func decodePart(body []byte) (*ledger.Money, error) {
	var amount *ledger.Money
	err := decodeObject(body, []member{{"amount", false, func(d *decoder) error {
		amount = new(ledger.Money)
		return money(amount)(d)
	}}})
	return amount, err
}

// decodeNothing reads the body of a void: nothing, or an empty object.
func decodeNothing(body []byte) error {
	if len(body) == 0 {
		return nil
	}
	return decodeObject(body, nil)
}

func text(to *string) func(*decoder) error {
	return func(d *decoder) (err error) {
		*to, err = d.text()
		return err
	}
}

// money reads an amount. A null is well-formed and still no amount, nor does it mean "all" as a missing member does.
func money(to *ledger.Money) func(*decoder) error {
	return func(d *decoder) error {
		if null, err := d.null(); err != nil {
			return err
		} else if null {
			return d.invalid("must be an amount, not null")
		}
		var currency string
		err := d.object([]member{
			{"minor", true, integer(&to.Minor)},
			{"currency", true, text(&currency)},
		})
		to.Currency = ledger.Currency(currency)
		return err
	}
}

func integer(to *int64) func(*decoder) error {
	return func(d *decoder) (err error) {
		*to, err = d.integer()
		return err
	}
}

func captureMode(to *payment.CaptureMode) func(*decoder) error {
	return func(d *decoder) error {
		s, err := d.text()
		if err != nil {
			return err
		}
		*to = payment.CaptureMode(s)
		if *to != payment.Manual && *to != payment.Automatic {
			return d.invalid("must be manual or automatic")
		}
		return nil
	}
}

// splits reads the sellers' shares. An empty array is an answer of its own, not a missing one.
func splits(to *[]ledger.Split) func(*decoder) error {
	return func(d *decoder) error {
		*to = []ledger.Split{}
		return d.array(func(d *decoder) error {
			var s ledger.Split
			err := d.object([]member{
				{"sellerId", true, text(&s.SellerID)},
				{"minor", true, integer(&s.Minor)},
				{"commissionMinor", true, integer(&s.CommissionMinor)},
			})
			*to = append(*to, s)
			return err
		})
	}
}

// method reads a payment method in either form.
func method(to *payment.Method, defaultPSP string) func(*decoder) error {
	return func(d *decoder) error {
		if d.dec.PeekKind() != '"' {
			return methodObject(to)(d)
		}
		var token string
		if err := checked(&token, isToken, ruleToken)(d); err != nil {
			return err
		}
		to.Tokens = map[string]string{defaultPSP: token}
		return nil
	}
}

func methodObject(to *payment.Method) func(*decoder) error {
	return func(d *decoder) error {
		if d.dec.PeekKind() != '{' {
			_, err := d.scalar('"', "a string or an object")
			return err
		}
		return d.object([]member{
			{"tokens", true, tokens(&to.Tokens)},
			{"brand", false, checked(&to.Brand, isBrand, "must have 1 to 32 printable characters")},
			{"last4", false, checked(&to.Last4, isLast4, "must be four digits")},
			{"expiry", false, checked(&to.Expiry, isExpiry, "must be a month as YYYY-MM")},
			{"country", false, checked(&to.Country, isCountry, "must be two capital letters (ISO 3166-1 alpha-2)")},
		})
	}
}

// tokens reads a token per PSP. Which PSPs there are is the domain's business.
func tokens(to *map[string]string) func(*decoder) error {
	return func(d *decoder) (err error) {
		if *to, err = d.textMap(); err != nil {
			return err
		}
		for psp, token := range *to {
			if psp == "" || len(psp) > brandBytesMax || !isToken(token) {
				return d.invalid("must name PSPs, and each token " + ruleToken)
			}
		}
		return nil
	}
}

// checked reads a string that must satisfy ok; rule says so in the error.
func checked(to *string, ok func(string) bool, rule string) func(*decoder) error {
	return func(d *decoder) (err error) {
		if *to, err = d.text(); err == nil && !ok(*to) {
			err = d.invalid(rule)
		}
		return err
	}
}

const ruleToken = "must have 1 to 255 printable ASCII characters"

func isToken(s string) bool { return s != "" && len(s) <= tokenBytesMax && printableASCII(s) }

func isBrand(s string) bool { return s != "" && len(s) <= brandBytesMax && printableASCII(s) }

func isLast4(s string) bool { return len(s) == 4 && isDigits(s) }

func isExpiry(s string) bool {
	_, err := time.Parse("2006-01", s)
	return err == nil
}

func isCountry(s string) bool {
	return len(s) == 2 && 'A' <= s[0] && s[0] <= 'Z' && 'A' <= s[1] && s[1] <= 'Z'
}
