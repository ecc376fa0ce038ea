package loadtest

import (
	"net/http"
	"slices"
)

// Op is a call of the API, or something that the buyer does.
type Op string

// The calls.
const (
	Authorize Op = "authorize"
	Capture   Op = "capture"
	Void      Op = "void"
	Refund    Op = "refund"
	Read      Op = "read"
)

// What buyers do after a redirect.
const (
	Return Op = "return" // acts at the PSP and comes back: the shop confirms
	Act    Op = "act"    // acts at the PSP and is not seen again: the PSP's webhook must tell
)

// Part is what a capture or refund asks for: percent of the payment's amount, rounded down, or one of the constants.
type Part int64

// Parts that are no percentage.
const (
	Rest    Part = 0  // all that is left; no amount is sent
	TooMuch Part = -1 // the least amount above what is left
)

// End is how a call ends.
type End uint8

// The ends that a journey plans. The zero value is the good one.
const (
	Done         End = iota // moved, here and at the PSP
	Declined                // the PSP's definite no
	NotProcessed            // it is proved that nothing moved
	BuyerActs               // the buyer must act first
	Exceeds                 // refused: more than is left
	KeyReused               // refused: the key was used with another meaning
	NotFound                // refused: another client's payment
	WrongState              // refused: the payment's state does not allow it

	// What faults make of a call beside.
	Open        // there is no outcome yet
	Unavailable // no PSP can be asked now; nothing is kept, not even the key
)

// ending is what an End means.
type ending struct {
	name   string
	status map[Op]int // HTTP
	code   string     // of the problem; "" = the answer is the resource
	stored bool       // the answer is kept with the key: a replay has its bytes
}

var ends = map[End]ending{
	Done: {name: "done", stored: true, status: map[Op]int{Authorize: http.StatusCreated, Capture: http.StatusOK,
		Void: http.StatusOK, Refund: http.StatusCreated, Read: http.StatusOK}},
	Declined: {name: "declined", stored: true, status: map[Op]int{Authorize: http.StatusPaymentRequired,
		Capture: http.StatusUnprocessableEntity, Void: http.StatusUnprocessableEntity, Refund: http.StatusUnprocessableEntity}},
	NotProcessed: {name: "not processed", stored: true, status: moves(http.StatusServiceUnavailable)},
	BuyerActs:    {name: "buyer must act", stored: true, status: map[Op]int{Authorize: http.StatusOK}},
	Exceeds:      {name: "exceeds", status: moves(http.StatusUnprocessableEntity)}, // the code is the operation's own: see codeOf
	KeyReused:    {name: "key reused", code: "IDEMPOTENCY_KEY_REUSED", status: moves(http.StatusUnprocessableEntity)},
	NotFound:     {name: "not found", code: "PAYMENT_NOT_FOUND", status: all(http.StatusNotFound)},
	WrongState:   {name: "wrong state", code: "WRONG_STATE", status: moves(http.StatusConflict)},
	Open:         {name: "open", status: moves(http.StatusAccepted)},
	Unavailable:  {name: "no PSP available", code: "PSP_UNAVAILABLE", status: moves(http.StatusServiceUnavailable)},
}

// moves are the calls that can reach a PSP.
func moves(status int) map[Op]int {
	return map[Op]int{Authorize: status, Capture: status, Void: status, Refund: status}
}

func all(status int) map[Op]int {
	statuses := moves(status)
	statuses[Read] = status
	return statuses
}

// codeOf is the problem's code when an operation ends so; "" if the answer is the resource.
func codeOf(op Op, e End) string {
	switch {
	case e != Exceeds:
		return ends[e].code
	case op == Refund:
		return "REFUND_EXCEEDS_CAPTURED"
	}
	return "CAPTURE_EXCEEDS_AUTHORIZED"
}

// endOf reads how a call ended from its answer; false if no call ends so.
func endOf(op Op, a *answer) (End, bool) {
	for e, ending := range ends {
		if ending.status[op] == a.status && codeOf(op, e) == a.resource.Code {
			return e, true
		}
	}
	return Open, false
}

// Step is one call of a journey.
type Step struct {
	Op       Op
	Part     Part // of captures and refunds
	End      End  // when no fault meets the call
	HangUp   bool // the caller leaves once the request is out, and asks again under the same key
	SameKey  bool // … as the step before
	Stranger bool // another client calls
}

// reaches tells whether the call is for a PSP: faults may then change its end.
func (s Step) reaches() bool { return s.Op != Read && codeOf(s.Op, s.End) == "" }

// allows tells whether a call may end so: as planned, or as a fault leaves it without saying anything false.
func (s Step) allows(e End) bool {
	return e == s.End || s.reaches() && (e == Open || e == NotProcessed || e == Unavailable)
}

// The PSPs that a journey's payment method has tokens for.
var (
	anyPSP      = []string{"stripe", "adyen"}
	stripeAlone = []string{"stripe"}
	adyenAlone  = []string{"adyen"}
)

// Journey is what a shop does with one payment. The first step is its authorization.
type Journey struct {
	Name      string
	Weight    int // how often, among all weights
	PSPs      []string
	Token     string // at each PSP
	Automatic bool   // captured with the authorization
	Steps     []Step
}

// Journeys returns the workload.
func Journeys() []Journey {
	return slices.Concat(plainJourneys, refusedJourneys, buyerJourneys, faultyJourneys, misusingJourneys)
}

var plainJourneys = []Journey{
	{"reserve", 4, anyPSP, "pm_ok", false, []Step{{Op: Authorize}}},
	{"reserve, capture", 14, anyPSP, "pm_ok", false, []Step{{Op: Authorize}, {Op: Capture}}},
	{"reserve, capture (Stripe alone)", 6, stripeAlone, "pm_ok", false, []Step{{Op: Authorize}, {Op: Capture}}},
	{"reserve, capture (Adyen alone)", 6, adyenAlone, "pm_ok", false, []Step{{Op: Authorize}, {Op: Capture}}},
	{"reserve, capture a part", 8, anyPSP, "pm_ok", false, []Step{{Op: Authorize}, {Op: Capture, Part: 40}}},
	{"reserve, capture in three", 5, anyPSP, "pm_ok", false, []Step{
		{Op: Authorize}, {Op: Capture, Part: 25}, {Op: Capture, Part: 35}, {Op: Capture}}},
	{"reserve, void", 6, anyPSP, "pm_ok", false, []Step{{Op: Authorize}, {Op: Void}}},
	{"reserve, void (Adyen alone)", 3, adyenAlone, "pm_ok", false, []Step{{Op: Authorize}, {Op: Void}}},
	{"charge", 12, anyPSP, "pm_ok", true, []Step{{Op: Authorize}}},
	{"charge (Stripe alone)", 5, stripeAlone, "pm_ok", true, []Step{{Op: Authorize}}},
	{"charge, refund", 7, anyPSP, "pm_ok", true, []Step{{Op: Authorize}, {Op: Refund}}},
	{"charge, refund a part (Adyen alone)", 5, adyenAlone, "pm_ok", true, []Step{{Op: Authorize}, {Op: Refund, Part: 30}}},
	{"charge, refund in three", 5, anyPSP, "pm_ok", true, []Step{{Op: Authorize}, {Op: Refund, Part: 33}, {Op: Refund, Part: 33}, {Op: Refund}}},
	{"capture and refund by turns", 4, anyPSP, "pm_ok", false, []Step{
		{Op: Authorize}, {Op: Capture, Part: 50}, {Op: Refund, Part: 20}, {Op: Capture}, {Op: Refund}}},
}

var refusedJourneys = []Journey{
	{"card declined", 5, anyPSP, "pm_decline", false, []Step{{Op: Authorize, End: Declined}}},
	{"card lost", 2, stripeAlone, "pm_card_visa_chargeDeclinedLostCard", true, []Step{{Op: Authorize, End: Declined}}},
	{"capture refused, void", 2, anyPSP, "pm_ok_capture_decline", false, []Step{{Op: Authorize}, {Op: Capture, Part: 60, End: Declined}, {Op: Void}}},
	{"refund refused", 2, anyPSP, "pm_ok_refund_decline", true, []Step{{Op: Authorize}, {Op: Refund, Part: 60, End: Declined}}},
}

var buyerJourneys = []Journey{
	{"3-D Secure, buyer comes back", 4, anyPSP, "pm_3ds", false, []Step{{Op: Authorize, End: BuyerActs}, {Op: Return}, {Op: Capture}}},
	{"3-D Secure, webhook tells", 3, anyPSP, "pm_3ds", true, []Step{{Op: Authorize, End: BuyerActs}, {Op: Act}, {Op: Refund, Part: 20}}},
	{"3-D Secure, buyer fails", 2, anyPSP, "pm_3ds", false, []Step{{Op: Authorize, End: BuyerActs}, {Op: Return, End: Declined}}},
	{"3-D Secure, buyer never acts", 2, anyPSP, "pm_3ds", false, []Step{{Op: Authorize, End: BuyerActs}}},
}

// What the tokens do to the PSP's answers is told by the simulator; drawn faults come on top. What never arrives and would
// not arrive on a second send either is Stripe's alone: Adyen has no look-up that could prove it.
var faultyJourneys = []Journey{
	{"PSP out of order", 2, stripeAlone, "pm_503", false, []Step{{Op: Authorize, End: NotProcessed}}},
	{"PSP still working", 2, anyPSP, "pm_ok_authorize_pending_ok_1s", true, []Step{{Op: Authorize}, {Op: Refund}}},
	{"PSP still working, then no", 2, anyPSP, "pm_ok_authorize_pending_fail_1s", true, []Step{{Op: Authorize, End: Declined}}},
	{"reserve, answer lost", 2, anyPSP, "pm_ok_drop", false, []Step{{Op: Authorize}, {Op: Capture}}},
	{"charge, HTTP 500", 2, anyPSP, "pm_500_charged", true, []Step{{Op: Authorize}}},
	{"charge, request lost", 2, stripeAlone, "pm_never", true, []Step{{Op: Authorize, End: NotProcessed}}},
	{"capture, answer lost", 2, anyPSP, "pm_ok_capture_drop", false, []Step{{Op: Authorize}, {Op: Capture, Part: 50}, {Op: Refund, Part: 20}}},
	{"capture, HTTP 500", 2, anyPSP, "pm_ok_capture_500", false, []Step{{Op: Authorize}, {Op: Capture}}},
	{"capture, request lost", 2, stripeAlone, "pm_ok_capture_never", false, []Step{{Op: Authorize}, {Op: Capture, End: NotProcessed}}},
	{"void, answer lost", 2, anyPSP, "pm_ok_void_drop", false, []Step{{Op: Authorize}, {Op: Void}}},
	{"refund, answer lost", 2, anyPSP, "pm_ok_refund_drop", true, []Step{{Op: Authorize}, {Op: Refund, Part: 30}}},
	{"refund, answer garbled", 2, anyPSP, "pm_ok_refund_garbage", true, []Step{{Op: Authorize}, {Op: Refund}}},
	{"refund on its way, then no", 2, anyPSP, "pm_ok_refund_pending_fail_1s", true, []Step{{Op: Authorize}, {Op: Refund, Part: 50, End: Declined}}},
	{"charge, caller hangs up", 2, anyPSP, "pm_slow_ok_1s", true, []Step{{Op: Authorize, HangUp: true}, {Op: Refund, Part: 10}}},
	{"capture, caller hangs up", 2, anyPSP, "pm_ok_capture_slow_1s", false, []Step{{Op: Authorize}, {Op: Capture, HangUp: true}}},
}

var misusingJourneys = []Journey{
	{"capture too much", 2, anyPSP, "pm_ok", false, []Step{
		{Op: Authorize}, {Op: Capture, Part: 70}, {Op: Capture, Part: TooMuch, End: Exceeds}, {Op: Capture}}},
	{"refund too much", 2, anyPSP, "pm_ok", true, []Step{
		{Op: Authorize}, {Op: Refund, Part: 40}, {Op: Refund, Part: TooMuch, End: Exceeds}, {Op: Refund}}},
	{"key used again for another sale", 2, anyPSP, "pm_ok", true, []Step{{Op: Authorize}, {Op: Authorize, SameKey: true, End: KeyReused}}},
	{"key used again for another capture", 2, anyPSP, "pm_ok", false, []Step{
		{Op: Authorize}, {Op: Capture, Part: 50}, {Op: Capture, Part: 30, SameKey: true, End: KeyReused}}},
	{"a stranger's calls", 2, anyPSP, "pm_ok", false, []Step{{Op: Authorize}, {Op: Read, Stranger: true, End: NotFound},
		{Op: Capture, Stranger: true, End: NotFound}, {Op: Capture}}},
	{"capture after void", 2, anyPSP, "pm_ok", false, []Step{{Op: Authorize}, {Op: Void}, {Op: Capture, End: WrongState}}},
	{"refund before capture", 2, anyPSP, "pm_ok", false, []Step{{Op: Authorize}, {Op: Refund, End: WrongState}, {Op: Capture}}},
}
