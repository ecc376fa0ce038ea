package psprouter

import (
	"errors"

	"paygrid/ledger"
)

// ErrNoPSP is returned when a payment method has no token for any PSP of the router.
var ErrNoPSP = errors.New("no PSP for this payment method: give the token of a configured PSP")

// Choice is the PSP that a payment goes to, with its token there. Reason is for people and is stored on the attempt.
type Choice struct {
	PSP    PSP
	Token  string
	Reason string
}

// Router knows the PSPs in order of preference. It keeps no state and is safe for concurrent use.
type Router struct{ psps []PSP }

// NewRouter returns a router over psps, the preferred first. Of two with one name the first stands.
func NewRouter(psps ...PSP) *Router {
	r := new(Router)
	for _, p := range psps {
		if _, known := r.ByName(p.Name()); !known {
			r.psps = append(r.psps, p)
		}
	}
	return r
}

// Choose returns the first PSP that has a token in tokens (PSP name -> token) and can take amount exactly. It returns
// ErrNoPSP if no PSP has a token, or the *AmountError of the first that has one if none of them can take the amount.
func (r *Router) Choose(tokens map[string]string, amount ledger.Money) (Choice, error) {
	var refused error
	for _, p := range r.psps {
		token := tokens[p.Name()]
		if token == "" {
			continue
		}
		err := p.Supports(amount)
		if err == nil {
			return Choice{PSP: p, Token: token, Reason: reason(p, refused)}, nil
		}
		if refused == nil {
			refused = err
		}
	}
	if refused != nil {
		return Choice{}, refused
	}
	return Choice{}, ErrNoPSP
}

func reason(p PSP, refused error) string {
	if refused != nil {
		return p.Name() + ": " + refused.Error()
	}
	return p.Name() + ": first with a token"
}

// ByName returns the PSP of that name; a later call of a payment goes where its authorization went.
func (r *Router) ByName(name string) (PSP, bool) {
	for _, p := range r.psps {
		if p.Name() == name {
			return p, true
		}
	}
	return nil, false
}
