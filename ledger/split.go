package ledger

// Split is one seller's share of a payment: Minor in all, of which CommissionMinor is ours.
type Split struct {
	SellerID        string `json:"sellerId"`
	Minor           int64  `json:"minor"`
	CommissionMinor int64  `json:"commissionMinor"`
}
