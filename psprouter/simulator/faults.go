package simulator

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The operations that faults apply to.
const (
	opAuthorize = "authorize"
	opCapture   = "capture"
	opVoid      = "void"
	opRefund    = "refund"
	opCreate    = "create"  // an unconfirmed payment: no money, no faults
	opDetails   = "details" // the buyer is back from a redirect: no faults of its own
	opWebhook   = "webhook" // not a call but a notice of ours
)

// effect is what the execution of a call does.
type effect uint8

const (
	approve effect = iota // the money moves
	decline               // a definite no
	pend                  // taken, the end comes later
	act                   // the buyer must act first; only an authorization
)

// ending is how a call ends on the wire.
type ending uint8

const (
	answered     ending = iota
	dropped             // connection closed without an answer
	reset               // connection reset without an answer
	resetHeaders        // connection reset in the middle of the answer's header
	resetBody           // connection reset in the middle of the answer's body
	truncated           // the answer's first half, under its full Content-Length
	serverError         // HTTP 500 in place of the answer, and under the key
	badGateway          // HTTP 502 of a proxy; the key keeps the true answer
	lateGateway         // HTTP 504 of a proxy; the key keeps the true answer
	garbled             // HTTP 200 with a body that is not JSON
	empty               // HTTP 200 without a body
	redirected          // HTTP 302
)

// refusal is an answer in place of the execution: nothing is done, nothing is kept.
type refusal uint8

const (
	notRefused     refusal = iota
	silence                // no answer; the ending cuts the connection
	notProcessed           // the explicit promise that nothing moved
	unavailable            // HTTP 503 without a promise
	storeDown              // the idempotency layer is down
	limited                // the rate limiter
	locked                 // the object is locked
	inFlight               // the key is in use; try again
	stuck                  // the key is in use; not to be tried again
	internal               // HTTP 500
	gatewayDown            // HTTP 502 of a proxy
	gatewayTimeout         // HTTP 504 of a proxy
	unauthorized           // HTTP 401
	unreadable             // a body that cannot be read
	keyTooLong             // an idempotency key above the limit
	unknownPath            // no such call
)

// distortion is a lie in an answer. The key keeps the true answer: a replay tells it.
type distortion uint8

const (
	truthful distortion = iota
	wrongStatus
	wrongAmount
	wrongCurrency
	wrongReference
)

// hook is how the notices of a call are delivered.
type hook uint8

const (
	inTurn     hook = iota // to one target; a retry goes to the next
	early                  // before the call is answered
	late                   // after some time
	doubled                // the same event twice
	twin                   // a second event with an ID of its own and the same content
	reordered              // after the payment's next event
	forged                 // a changed copy with a wrong signature comes first
	everywhere             // to all targets at the same moment
	unsent                 // not at all, until it is asked for
)

// behaviour is one fault: what is refused, awaited, done, answered and told. Its zero value does as it should.
type behaviour struct {
	name, group, doc string

	refuse     refusal
	again      refusal       // answers the first re-send under the key
	unread     bool          // the connection is reset before the request is read
	wait       time.Duration // before the execution
	effect     effect
	kind       string        // of a decline; "" = the token's own
	hide       time.Duration // look-ups answer "not found" that long
	ends       time.Duration // what is pending ends by itself after that time, if it does
	endsBadly  bool
	takesBack  time.Duration // what succeeded is taken back after that time
	hold       time.Duration // between execution and answer
	end        ending
	lie        distortion
	hook       hook
	hookAfter  time.Duration
	setSeconds func(*behaviour, time.Duration) // what N in a name ending in _Ns sets
}

// maxFaultSeconds bounds N in names like slow_Ns.
const maxFaultSeconds = 600

const timeoutAfter = 60 * time.Second

// The groups of faults; a group's name stands for all its faults wherever a set of faults is asked for.
const (
	groupWire    = "wire"    // the request or the answer is lost
	groupAnswer  = "answer"  // the answer is wrong or says that it failed
	groupCard    = "card"    // the card's own answer
	groupLater   = "later"   // the end comes later
	groupWebhook = "webhook" // the notices are late, many, false or none
)

// Everything that can go wrong, group by group. Names ending in _before do nothing and keep nothing; names ending in
// _after do everything and fail to say so.

func wireFaults() []behaviour {
	return []behaviour{
		{name: "reset_unread", doc: "resets the connection before reading the request", refuse: silence, unread: true, end: reset},
		{name: "drop_before", doc: "resets the connection after reading the request; no record remains", refuse: silence, end: reset},
		{name: "close_before", doc: "closes the connection after reading the request; no record remains", refuse: silence, end: dropped},
		{name: "timeout_before", doc: "does nothing, resets the connection after 60 s", refuse: silence, wait: timeoutAfter, end: reset},
		{name: "drop_after", doc: "executes, then cuts the connection", end: dropped},
		{name: "reset_after", doc: "executes, then resets the connection", end: reset},
		{name: "reset_headers", doc: "executes, then resets the connection within the answer's header", end: resetHeaders},
		{name: "reset_body", doc: "executes, then resets the connection within the answer's body", end: resetBody},
		{name: "truncated_after", doc: "executes, then sends half of the answer", end: truncated},
		{name: "timeout_after", doc: "executes at once, answers after 60 s", hold: timeoutAfter},
		{name: "slow_Ns", doc: "executes after N seconds (1 to 600), then answers",
			setSeconds: func(b *behaviour, n time.Duration) { b.wait = n }},
		{name: "hidden_Ns", doc: "as drop_after, and look-ups find nothing for N seconds", end: dropped,
			setSeconds: func(b *behaviour, n time.Duration) { b.hide = n }},
		{name: "429_resend", doc: "as drop_after, and the first re-send under the key gets HTTP 429", end: dropped, again: limited},
		{name: "conflict_resend", doc: "as drop_after, and the first re-send under the key is told that it is in use",
			end: dropped, again: inFlight},
	}
}

func answerFaults() []behaviour {
	return []behaviour{
		{name: "503", doc: "HTTP 503 with " + NotProcessedHeader + ": true; nothing is done", refuse: notProcessed},
		{name: "503_bare", doc: "HTTP 503 without that promise; nothing is done", refuse: unavailable},
		{name: "500_before", doc: "HTTP 500; nothing is done", refuse: internal},
		{name: "502_before", doc: "HTTP 502 of a proxy; nothing is done", refuse: gatewayDown},
		{name: "504_before", doc: "HTTP 504 of a proxy; nothing is done", refuse: gatewayTimeout},
		{name: "429", doc: "HTTP 429 of the rate limiter; nothing is done", refuse: limited},
		{name: "401", doc: "HTTP 401 as if the key were wrong; nothing is done", refuse: unauthorized},
		{name: "lock_timeout", doc: "Stripe: HTTP 429 lock_timeout, Adyen: 704 transient; nothing is done, but no promise", refuse: locked},
		{name: "key_in_use", doc: "answers that the key is in flight (Stripe 409, Adyen 704 transient); nothing is done", refuse: inFlight},
		{name: "key_stuck", doc: "the same, and not to be tried again (Adyen 704 without transient-error)", refuse: stuck},
		{name: "store_down", doc: "the idempotency layer is down (Adyen 503/703, Stripe 503); nothing is done", refuse: storeDown},
		{name: "500_after", doc: "executes, then answers HTTP 500 (and again to every replay)", end: serverError},
		{name: "502_after", doc: "executes, then answers HTTP 502 of a proxy; a replay tells the truth", end: badGateway},
		{name: "504_after", doc: "executes, then answers HTTP 504 of a proxy; a replay tells the truth", end: lateGateway},
		{name: "garbage_after", doc: "executes, then answers HTTP 200 with no JSON", end: garbled},
		{name: "empty_after", doc: "executes, then answers HTTP 200 with no body", end: empty},
		{name: "redirect_after", doc: "executes, then answers HTTP 302", end: redirected},
		{name: "wrong_status", doc: "executes, then answers with a status that nobody has heard of", lie: wrongStatus},
		{name: "wrong_amount", doc: "executes, then answers with another amount", lie: wrongAmount},
		{name: "wrong_currency", doc: "executes, then answers with another currency", lie: wrongCurrency},
		{name: "wrong_reference", doc: "executes, then answers with another payment's references", lie: wrongReference},
	}
}

func cardFaults() []behaviour {
	return []behaviour{
		{name: "decline", doc: "answers a definite no", effect: decline},
		{name: "decline_funds", doc: "… insufficient funds", effect: decline, kind: "funds"},
		{name: "decline_expired", doc: "… expired card", effect: decline, kind: "expired"},
		{name: "decline_lost", doc: "… lost card", effect: decline, kind: "lost"},
		{name: "decline_honor", doc: "… do not honor", effect: decline, kind: "honor"},
		{name: "decline_fraud", doc: "… suspected fraud", effect: decline, kind: "fraud"},
		{name: "decline_error", doc: "… the acquirer failed (Stripe processing_error, Adyen resultCode Error)", effect: decline, kind: "error"},
		{name: "action", doc: "the buyer must act first (3-D Secure redirect); authorize only, as all action…", effect: act},
		{name: "action_ok_Ns", doc: "… and does so after N seconds", effect: act,
			setSeconds: func(b *behaviour, n time.Duration) { b.ends = n }},
		{name: "action_fail_Ns", doc: "… and fails to after N seconds", effect: act, endsBadly: true,
			setSeconds: func(b *behaviour, n time.Duration) { b.ends = n }},
		{name: "action_abandoned", doc: "… and never comes back: no end, no notice", effect: act, endsBadly: true},
	}
}

func laterFaults() []behaviour {
	ends := func(b *behaviour, n time.Duration) { b.ends = n }
	return []behaviour{
		{name: "pending", doc: "takes the request; the end comes by POST /sim/settle", effect: pend},
		{name: "pending_ok_Ns", doc: "… or by itself, well, after N seconds", effect: pend, setSeconds: ends},
		{name: "pending_fail_Ns", doc: "… or by itself, badly, after N seconds", effect: pend, endsBadly: true, setSeconds: ends},
		{name: "fails_later_Ns", doc: "succeeds, and is taken back after N seconds: a capture (or an automatic one) fails, a refund is returned",
			setSeconds: func(b *behaviour, n time.Duration) { b.takesBack = n }},
	}
}

func webhookFaults() []behaviour {
	return []behaviour{
		{name: "webhook_late_Ns", doc: "the notice comes N seconds late", hook: late,
			setSeconds: func(b *behaviour, n time.Duration) { b.hookAfter = n }},
		{name: "webhook_early", doc: "the notice comes before the answer", hook: early},
		{name: "webhook_double", doc: "the notice comes twice", hook: doubled},
		{name: "webhook_twin", doc: "the notice comes twice, under two event IDs (Adyen: two dates)", hook: twin},
		{name: "webhook_reordered", doc: "the notice comes after the payment's next one, or 10 s late", hook: reordered},
		{name: "webhook_forged", doc: "a changed copy with a wrong signature comes first; it must be refused", hook: forged},
		{name: "webhook_everywhere", doc: "the notice comes to all targets at the same moment", hook: everywhere},
		{name: "webhook_dropped", doc: "the notice does not come, until POST /sim/webhooks asks for it", hook: unsent},
	}
}

// faultAliases are the short names inside tokens: pm_ok_capture_drop.
func faultAlias(name string) string {
	switch name {
	case "never":
		return "drop_before"
	case "drop", "500", "timeout", "reset", "truncated", "garbage", "redirect":
		return name + "_after"
	}
	return name
}

// faultIndex is the table by name, with the group filled in.
var faultIndex = func() map[string]behaviour {
	index := map[string]behaviour{"ok": {name: "ok", doc: "executes and answers"}}
	for group, list := range map[string][]behaviour{groupWire: wireFaults(), groupAnswer: answerFaults(), groupCard: cardFaults(),
		groupLater: laterFaults(), groupWebhook: webhookFaults()} {
		for _, b := range list {
			b.group = group
			index[b.name] = b
		}
	}
	return index
}()

// faultNamed returns the behaviour of a name or alias; false if there is none. Its name is the table's.
func faultNamed(name string) (behaviour, bool) {
	name = faultAlias(name)
	if b, ok := faultIndex[name]; ok && b.setSeconds == nil {
		return b, true
	}
	stem, n, ok := secondsIn(name)
	b, known := faultIndex[stem+"_Ns"]
	if !ok || !known {
		return behaviour{}, false
	}
	b.setSeconds(&b, n)
	return b, true
}

// secondsIn splits "stem_Ns".
func secondsIn(name string) (stem string, n time.Duration, ok bool) {
	i := strings.LastIndexByte(name, '_')
	if i < 0 {
		return "", 0, false
	}
	digits, unit := strings.CutSuffix(name[i+1:], "s")
	seconds, err := strconv.Atoi(digits)
	if !unit || err != nil || seconds < 1 || seconds > maxFaultSeconds {
		return "", 0, false
	}
	return name[:i], time.Duration(seconds) * time.Second, true
}

// fits tells whether a fault makes sense for an operation, or for a notice.
func (b behaviour) fits(op string) bool {
	switch {
	case op == opWebhook:
		return b.hook != inTurn || b.name == "ok"
	case b.effect == act:
		return op == opAuthorize
	case b.takesBack > 0:
		return op != opVoid
	}
	return op == opAuthorize || op == opCapture || op == opVoid || op == opRefund
}

// Fault names one entry of the fault table, for help texts and catalogues. Names ending in _Ns take a number of seconds.
type Fault struct{ Name, Group, Doc string }

// Faults returns the fault table in the order of its groups and names.
func Faults() []Fault {
	list := []Fault{}
	for _, name := range slices.Sorted(maps.Keys(faultIndex)) {
		b := faultIndex[name]
		list = append(list, Fault{name, b.group, b.doc})
	}
	slices.SortStableFunc(list, func(a, b Fault) int { return cmp.Compare(a.Group, b.Group) })
	return list
}

// DefaultFaultSet returns what a seed draws from when Options.FaultSet is empty: everything that loses, delays, doubles or
// falsifies answers and notices, and nothing that changes whether the money moves in the end or needs a hand to end.
func DefaultFaultSet() []string {
	return []string{"reset_unread", "drop_before",
		"close_before", "timeout_before", "drop_after", "reset_after", "reset_headers", "reset_body",
		"truncated_after", "timeout_after", "slow_2s", "hidden_20s", "429_resend", "conflict_resend", "503_bare", "500_before", "502_before",
		"504_before", "500_after", "502_after", "504_after", "garbage_after", "empty_after", "redirect_after", "wrong_status", "wrong_amount",
		"wrong_currency", "wrong_reference", "pending_ok_3s", "webhook_late_5s", "webhook_early", "webhook_double", "webhook_twin",
		"webhook_reordered", "webhook_forged", "webhook_everywhere", "webhook_dropped"}
}

// faultSet resolves names, names with seconds and groups; a group's faults with seconds take five.
func faultSet(names []string) ([]behaviour, *OptionError) {
	var set []behaviour
	for _, name := range names {
		if b, ok := faultNamed(name); ok && name != "ok" {
			set = append(set, b)
			continue
		}
		before := len(set)
		for _, fault := range Faults() {
			if fault.Group == name {
				b, _ := faultNamed(strings.Replace(fault.Name, "_Ns", "_5s", 1))
				set = append(set, b)
			}
		}
		if len(set) == before {
			return nil, &OptionError{"FaultSet", "neither a fault nor a group: " + strconv.Quote(name) + "; see pspsim --help"}
		}
	}
	return set, nil
}
