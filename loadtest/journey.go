package loadtest

import "net/http"

// Op is a call of the API.
type Op string

// The calls.
const (
	Authorize Op = "authorize"
	Capture   Op = "capture"
	Void      Op = "void"
	Refund    Op = "refund"
	Read      Op = "read"
)

// Part is what a capture or refund asks for: percent of the payment's amount, rounded down, or one of the constants.
type Part int64

// Parts that are no percentage.
const (
	Rest    Part = 0  // all that is left; no amount is sent
	TooMuch Part = -1 // the least amount above what is left
)

// End is how a step ends. The table ends says what it leaves behind.
type End uint8

// The ends. The zero value is the good one.
const (
	Done         End = iota // moved, here and at the PSP
	Declined                // the PSP's definite no
	NotProcessed            // the PSP promises that it did nothing
	BuyerActs               // the buyer must act first
	LostAfter               // the money moved and the answer is lost
	LostBefore              // there is no answer, and nothing moved
	Accepted                // the PSP took it and tells later; nothing moved yet
	Exceeds                 // refused: more than is left
	KeyReused               // refused: the key was used with another meaning
	NotFound                // refused: another client's payment
	WrongState              // refused: the payment's state does not allow it
	InDoubt                 // refused: an earlier call of the kind has no known outcome
)

// ending is what an End means.
type ending struct {
	fault  string     // what was done to the call, for reports; "" = nothing
	status map[Op]int // HTTP
	code   string     // of the problem; "" = the answer is the resource
	stored bool       // the answer is kept with the key: a replay has its bytes
	open   bool       // the attempt stays pending
	here   bool       // the money moved in our books
	there  bool       // … and at the PSP
}

var ends = map[End]ending{
	Done: {stored: true, here: true, there: true, status: map[Op]int{Authorize: http.StatusCreated, Capture: http.StatusOK,
		Void: http.StatusOK, Refund: http.StatusCreated, Read: http.StatusOK}},
	Declined: {stored: true, status: map[Op]int{Authorize: http.StatusPaymentRequired, Capture: http.StatusUnprocessableEntity,
		Void: http.StatusUnprocessableEntity, Refund: http.StatusUnprocessableEntity}},
	NotProcessed: {fault: "PSP out of order (503, nothing done)", stored: true, status: all(http.StatusServiceUnavailable)},
	BuyerActs:    {stored: true, open: true, status: all(http.StatusOK)},
	LostAfter:    {fault: "PSP answer lost after the money moved", open: true, there: true, status: all(http.StatusAccepted)},
	LostBefore:   {fault: "PSP connection lost before anything moved", open: true, status: all(http.StatusAccepted)},
	Accepted:     {fault: "PSP says that it is still working", open: true, status: all(http.StatusAccepted)},
	Exceeds:      {status: all(http.StatusUnprocessableEntity)}, // the code is the operation's own: see wantCode
	KeyReused:    {code: "IDEMPOTENCY_KEY_REUSED", status: all(http.StatusUnprocessableEntity)},
	NotFound:     {code: "PAYMENT_NOT_FOUND", status: all(http.StatusNotFound)},
	WrongState:   {code: "WRONG_STATE", status: all(http.StatusConflict)},
	InDoubt:      {code: "CAPTURE_IN_DOUBT", status: all(http.StatusConflict)},
}

func all(status int) map[Op]int {
	return map[Op]int{Authorize: status, Capture: status, Void: status, Refund: status, Read: status}
}

// Step is one call of a journey.
type Step struct {
	Op       Op
	Part     Part // of captures and refunds
	End      End
	HangUp   bool // the caller leaves once the request is out, and asks again under the same key
	SameKey  bool // … as the step before
	Stranger bool // another client calls
}

func (s Step) wantStatus() int { return ends[s.End].status[s.Op] }

func (s Step) wantCode() string {
	switch {
	case s.End != Exceeds:
		return ends[s.End].code
	case s.Op == Refund:
		return "REFUND_EXCEEDS_CAPTURED"
	}
	return "CAPTURE_EXCEEDS_AUTHORIZED"
}

// Journey is what a shop does with one payment. The first step is its authorization.
type Journey struct {
	Name      string
	Weight    int // how often, among all weights
	Token     string
	Automatic bool // captured with the authorization
	Steps     []Step
}

// Journeys returns the workload.
func Journeys() []Journey {
	journeys := []Journey{}
	for _, group := range [][]Journey{plainJourneys, refusedJourneys, faultyJourneys, misusingJourneys} {
		journeys = append(journeys, group...)
	}
	return journeys
}

var plainJourneys = []Journey{
	{"reserve", 4, "pm_ok", false, []Step{{Op: Authorize}}},
	{"reserve, capture", 16, "pm_ok", false, []Step{{Op: Authorize}, {Op: Capture}}},
	{"reserve, capture a part", 8, "pm_ok", false, []Step{{Op: Authorize}, {Op: Capture, Part: 40}}},
	{"reserve, capture in three", 6, "pm_ok", false, []Step{
		{Op: Authorize}, {Op: Capture, Part: 25}, {Op: Capture, Part: 35}, {Op: Capture}}},
	{"reserve, void", 8, "pm_ok", false, []Step{{Op: Authorize}, {Op: Void}}},
	{"charge", 12, "pm_ok", true, []Step{{Op: Authorize}}},
	{"charge, refund", 8, "pm_ok", true, []Step{{Op: Authorize}, {Op: Refund}}},
	{"charge, refund a part", 6, "pm_ok", true, []Step{{Op: Authorize}, {Op: Refund, Part: 30}}},
	{"charge, refund in three", 6, "pm_ok", true, []Step{{Op: Authorize}, {Op: Refund, Part: 33}, {Op: Refund, Part: 33}, {Op: Refund}}},
	{"capture and refund by turns", 4, "pm_ok", false, []Step{
		{Op: Authorize}, {Op: Capture, Part: 50}, {Op: Refund, Part: 20}, {Op: Capture}, {Op: Refund}}},
}

var refusedJourneys = []Journey{
	{"card declined", 6, "pm_decline", false, []Step{{Op: Authorize, End: Declined}}},
	{"card lost", 2, "pm_card_visa_chargeDeclinedLostCard", true, []Step{{Op: Authorize, End: Declined}}},
	{"capture refused, void", 2, "pm_ok_capture_decline", false, []Step{{Op: Authorize}, {Op: Capture, Part: 60, End: Declined}, {Op: Void}}},
	{"refund refused", 2, "pm_ok_refund_decline", true, []Step{{Op: Authorize}, {Op: Refund, Part: 60, End: Declined}}},
	{"3-D Secure", 3, "pm_3ds", false, []Step{{Op: Authorize, End: BuyerActs}}},
}

// What the tokens do to the PSP's answers is told by the simulator.
var faultyJourneys = []Journey{
	{"PSP out of order", 3, "pm_503", false, []Step{{Op: Authorize, End: NotProcessed}}},
	{"PSP still working", 2, "pm_pending", true, []Step{{Op: Authorize, End: Accepted}}},
	{"reserve, answer lost", 2, "pm_ok_drop", false, []Step{{Op: Authorize, End: LostAfter}}},
	{"charge, answer lost", 2, "pm_ok_drop", true, []Step{{Op: Authorize, End: LostAfter}}},
	{"charge, HTTP 500", 2, "pm_500_charged", true, []Step{{Op: Authorize, End: LostAfter}}},
	{"charge, request lost", 2, "pm_never", true, []Step{{Op: Authorize, End: LostBefore}}},
	{"capture, answer lost", 3, "pm_ok_capture_drop", false, []Step{
		{Op: Authorize}, {Op: Capture, Part: 50, End: LostAfter}, {Op: Capture, Part: 20, End: InDoubt}}},
	{"capture, HTTP 500", 2, "pm_ok_capture_500", false, []Step{{Op: Authorize}, {Op: Capture, End: LostAfter}}},
	{"capture, request lost", 2, "pm_ok_capture_never", false, []Step{{Op: Authorize}, {Op: Capture, End: LostBefore}}},
	{"void, answer lost", 2, "pm_ok_void_drop", false, []Step{{Op: Authorize}, {Op: Void, End: LostAfter}}},
	{"void, request lost", 2, "pm_ok_void_never", false, []Step{{Op: Authorize}, {Op: Void, End: LostBefore}}},
	{"refund, answer lost", 3, "pm_ok_refund_drop", true, []Step{{Op: Authorize}, {Op: Refund, Part: 30, End: LostAfter}}},
	{"refund, answer garbled", 2, "pm_ok_refund_garbage", true, []Step{{Op: Authorize}, {Op: Refund, End: LostAfter}}},
	{"refund, request lost", 2, "pm_ok_refund_never", true, []Step{{Op: Authorize}, {Op: Refund, End: LostBefore}}},
	{"refund still on its way", 2, "pm_ok_refund_pending", true, []Step{{Op: Authorize}, {Op: Refund, Part: 50, End: Accepted}}},
	{"charge, caller hangs up", 2, "pm_slow_ok_1s", true, []Step{{Op: Authorize, HangUp: true}, {Op: Refund, Part: 10}}},
	{"capture, caller hangs up", 2, "pm_ok_capture_slow_1s", false, []Step{{Op: Authorize}, {Op: Capture, HangUp: true}}},
}

var misusingJourneys = []Journey{
	{"capture too much", 3, "pm_ok", false, []Step{
		{Op: Authorize}, {Op: Capture, Part: 70}, {Op: Capture, Part: TooMuch, End: Exceeds}, {Op: Capture}}},
	{"refund too much", 3, "pm_ok", true, []Step{
		{Op: Authorize}, {Op: Refund, Part: 40}, {Op: Refund, Part: TooMuch, End: Exceeds}, {Op: Refund}}},
	{"key used again for another sale", 3, "pm_ok", true, []Step{{Op: Authorize}, {Op: Authorize, SameKey: true, End: KeyReused}}},
	{"key used again for another capture", 3, "pm_ok", false, []Step{
		{Op: Authorize}, {Op: Capture, Part: 50}, {Op: Capture, Part: 30, SameKey: true, End: KeyReused}}},
	{"a stranger's calls", 3, "pm_ok", false, []Step{{Op: Authorize}, {Op: Read, Stranger: true, End: NotFound},
		{Op: Capture, Stranger: true, End: NotFound}, {Op: Capture}}},
	{"capture after void", 2, "pm_ok", false, []Step{{Op: Authorize}, {Op: Void}, {Op: Capture, End: WrongState}}},
	{"refund before capture", 2, "pm_ok", false, []Step{{Op: Authorize}, {Op: Refund, End: WrongState}, {Op: Capture}}},
}
