package adyen

import (
	"fmt"
	"strings"

	"paygrid/psprouter"
	"paygrid/psprouter/wire"
)

// meaning is what an eventCode settles. Codes that are not in the table settle nothing: chargebacks, information, reports,
// and CANCEL_OR_REFUND, whose half stands in an unsigned field and whose request we never send.
type meaning struct {
	operation string
	reversal  bool // success takes back what an earlier notice told
	expiry    bool
}

var meanings = map[string]meaning{
	"AUTHORISATION":     {operation: psprouter.OpAuthorize},
	"CAPTURE":           {operation: psprouter.OpCapture},
	"CAPTURE_FAILED":    {operation: psprouter.OpCapture, reversal: true},
	"CANCELLATION":      {operation: psprouter.OpVoid},
	"TECHNICAL_CANCEL":  {operation: psprouter.OpVoid},
	"REFUND":            {operation: psprouter.OpRefund},
	"REFUND_FAILED":     {operation: psprouter.OpRefund, reversal: true},
	"REFUNDED_REVERSED": {operation: psprouter.OpRefund, reversal: true},
	"EXPIRE":            {expiry: true},
}

// eventID is what tells one notice from another. There is no time in it: a later event with the same words is the same event.
// Mode, account and amount are: a notice that is not ours, or does not fit, must not stand in the way of a right one.
func eventID(live text, i item) string {
	return strings.Join([]string{i.PSPReference, i.EventCode, string(i.Success), string(live), i.MerchantAccountCode, string(i.Amount.Value),
		string(i.Amount.Currency)}, ":")
}

// notice reads one item.
func (a *Adapter) notice(live text, i item) psprouter.Notice {
	n := psprouter.Notice{
		EventID:   eventID(live, i),
		Kind:      i.EventCode,
		Attempt:   wire.AttemptID(i.MerchantReference),
		Reference: i.PSPReference, Original: i.OriginalReference,
		Foreign: a.foreign(live, i),
	}
	a.readAmount(i, &n)
	m := meanings[i.EventCode]
	switch {
	case i.Success == "true" && m.expiry:
		n.Expired = true
	case i.Success == "true" && m.reversal:
		n.Operation, n.Reversed = m.operation, true
		n.Outcome = refusedAs(i.PSPReference, strings.ToLower(i.EventCode), i.Reason)
	case i.Success == "true" && m.operation != "":
		n.Operation, n.Outcome = m.operation, psprouter.ApprovedAs(i.PSPReference)
		n.Outcome.Captured = m.operation == psprouter.OpCapture
		n.CaptureImplied = m.operation == psprouter.OpAuthorize // with captureDelayHours 0 no CAPTURE follows
	case i.Success == "false" && m.operation != "" && !m.reversal:
		n.Operation = m.operation
		n.Outcome = refusedAs(i.PSPReference, reasonWord(i.Reason), i.Reason)
	}
	return n
}

// refusedAs is a no that came by notice. Its words are not signed and only for people: the no itself is.
func refusedAs(reference, code, reason string) psprouter.Outcome {
	out := psprouter.DeclinedWith(code, fmt.Sprintf("%.200s", reason))
	out.Reference = reference
	return out
}

func (a *Adapter) readAmount(i item, n *psprouter.Notice) {
	if i.Amount.Currency == "" && i.Amount.Value == "" {
		return
	}
	value, err := wholeNumber(i.Amount.Value)
	if err != nil {
		n.AmountProblem = fmt.Sprintf("the amount %.40q is no whole number", i.Amount.Value)
		return
	}
	n.Amount, n.AmountProblem = a.units.Notice(value, string(i.Amount.Currency))
}

// foreign: the live flag is not signed, but all that it can do is to make us ignore a notice.
func (a *Adapter) foreign(live text, i item) string {
	switch {
	case live != "true" && live != "false":
		return fmt.Sprintf("the notice does not say whether it is live: %.20q", live)
	case (live == "true") != a.cfg.Live:
		return fmt.Sprintf("live is %s, this account's is %t", live, a.cfg.Live)
	case i.MerchantAccountCode != a.cfg.MerchantAccount:
		return fmt.Sprintf("the notice is for account %.80q", i.MerchantAccountCode)
	}
	return ""
}
