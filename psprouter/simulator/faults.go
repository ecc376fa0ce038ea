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
	opCreate    = "create" // an unconfirmed payment: no money, no faults
)

// effect is what the execution of a call does.
type effect uint8

const (
	approve effect = iota // the money moves
	decline               // a definite no
	pend                  // taken, the end comes later (POST /sim/settle)
	act                   // the buyer must act first; only an authorization
)

// ending is how a call ends on the wire.
type ending uint8

const (
	answered    ending = iota
	dropped            // connection closed without an answer
	reset              // connection reset without an answer
	serverError        // HTTP 500 in place of the answer, and under the key
	truncated          // the answer's first half, under its full Content-Length
	garbled            // HTTP 200 with a body that is not JSON
	redirected         // HTTP 302
)

// behaviour is one fault: what is refused, awaited, done, and answered.
type behaviour struct {
	doc    string
	refuse func() answer // not nil: nothing is done and nothing kept; its answer is sent, or cut by end
	wait   time.Duration // before the execution
	effect effect
	hide   time.Duration // look-ups answer "not found" that long
	hold   time.Duration // between execution and answer
	end    ending
}

// maxFaultSeconds bounds N in slow_Ns and hidden_Ns.
const maxFaultSeconds = 600

// faults is the table of what can go wrong, by name. Names ending in _before do nothing and keep nothing; names ending
// in _after do everything and fail to say so.
var faults = map[string]behaviour{
	"ok":              {doc: "executes and answers"},
	"decline":         {doc: "answers a definite no", effect: decline},
	"pending":         {doc: "takes the request; the end comes by POST /sim/settle", effect: pend},
	"action":          {doc: "the buyer must act first (3-D Secure redirect); authorize only", effect: act},
	"drop_before":     {doc: "resets the connection after reading the request; no record remains", refuse: nothing, end: reset},
	"drop_after":      {doc: "executes, then cuts the connection", end: dropped},
	"reset_after":     {doc: "executes, then resets the connection", end: reset},
	"500_after":       {doc: "executes, then answers HTTP 500 (and again to every replay)", end: serverError},
	"timeout_after":   {doc: "executes at once, answers after 60 s", hold: 60 * time.Second},
	"truncated_after": {doc: "executes, then sends half of the answer", end: truncated},
	"garbage_after":   {doc: "executes, then answers HTTP 200 with no JSON", end: garbled},
	"redirect_after":  {doc: "executes, then answers HTTP 302", end: redirected},
	"503":             {doc: "HTTP 503 with " + NotProcessedHeader + ": true; nothing is done", refuse: notProcessed},
	"429":             {doc: "HTTP 429 of the rate limiter; nothing is done", refuse: limited},
	"lock_timeout":    {doc: "HTTP 429 lock_timeout; nothing is done, but that is not promised", refuse: lockTimeout},
	"slow_Ns":         {doc: "executes after N seconds (1 to 600), then answers"},
	"hidden_Ns":       {doc: "as drop_after, and look-ups find nothing for N seconds (1 to 600)"},
}

// faultAliases are the short names inside tokens: pm_ok_capture_drop.
var faultAliases = map[string]string{
	"drop": "drop_after", "never": "drop_before", "500": "500_after", "timeout": "timeout_after",
	"reset": "reset_after", "truncated": "truncated_after", "garbage": "garbage_after", "redirect": "redirect_after",
}

// faultNamed returns the behaviour of a name or alias; false if there is none.
func faultNamed(name string) (behaviour, bool) {
	name = cmp.Or(faultAliases[name], name)
	if strings.HasSuffix(name, "_Ns") {
		return behaviour{}, false // a pattern, not a name
	}
	if b, ok := faults[name]; ok {
		return b, true
	}
	if n, ok := secondsIn(name, "slow_"); ok {
		return behaviour{wait: n}, true
	}
	if n, ok := secondsIn(name, "hidden_"); ok {
		return behaviour{hide: n, end: dropped}, true
	}
	return behaviour{}, false
}

// secondsIn reads N from prefix + "Ns".
func secondsIn(name, prefix string) (time.Duration, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	digits, unit := strings.CutSuffix(digits, "s")
	n, err := strconv.Atoi(digits)
	if !ok || !unit || err != nil || n < 1 || n > maxFaultSeconds {
		return 0, false
	}
	return time.Duration(n) * time.Second, true
}

// Fault names one entry of the fault table, for help texts and catalogues.
type Fault struct{ Name, Doc string }

// Faults returns the fault table in the order of its names.
func Faults() []Fault {
	list := make([]Fault, 0, len(faults))
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		list = append(list, Fault{name, faults[name].doc})
	}
	return list
}

// script is one POST /sim/script: a fault for the next count calls of an operation.
type script struct {
	On      string `json:"on"`      // authorize, capture, void, refund
	Fault   string `json:"fault"`   // a name of the table
	Payment string `json:"payment"` // pi_…, or "" for any
	Count   int    `json:"count"`   // calls; 0 means 1
}

// maxScripts bounds the scripts that wait.
const maxScripts = 10_000

// takeScript returns the first waiting fault of op for the payment and uses it up once. The caller holds the lock.
func (s *Simulator) takeScript(op, ref string) (string, bool) {
	for i := range s.scripts {
		sc := &s.scripts[i]
		if sc.On != op || (sc.Payment != "" && sc.Payment != ref) {
			continue
		}
		name := sc.Fault
		if sc.Count--; sc.Count == 0 {
			s.scripts = slices.Delete(s.scripts, i, i+1)
		}
		return name, true
	}
	return "", false
}

// faultFor chooses a call's behaviour: a script first, else what the token says. The caller holds the lock.
func (s *Simulator) faultFor(r *request) behaviour {
	name, scripted := s.takeScript(r.op, r.ref())
	if !scripted {
		name = tokenFault(r.token, r.op)
	}
	b, _ := faultNamed(name) // both were checked when they came in
	return b
}
