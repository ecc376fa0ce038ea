package simulator

// Witnessed is what this PSP says of the money of one payment, in ISO minor units: its word against the ledger's.
type Witnessed struct {
	Ref, Attempt, Currency string
	Authorized             int64
	Captured               int64
	Refunded               int64 // done or under way
	Released               bool  // by a call or by time, with nothing taken of it
	Authorizations         int   // more than one under a reference would be a double charge
}

// Witness returns the payments of which anything was ever reserved or taken.
func (b Books) Witness() []Witnessed {
	out := []Witnessed{}
	for _, p := range b.Payments {
		if p.Authorizations == 0 && p.CapturedMinor == 0 {
			continue
		}
		w := Witnessed{Ref: p.Ref, Attempt: p.Attempt, Currency: p.Currency, Authorized: p.AuthorizedMinor, Captured: p.CapturedMinor,
			Released: (p.Voided || p.Expired) && p.CapturedMinor == 0, Authorizations: p.Authorizations}
		for _, r := range p.Refunds {
			if r.Status != refundFailed {
				w.Refunded += r.AmountMinor
			}
		}
		out = append(out, w)
	}
	return out
}
