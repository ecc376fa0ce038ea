package simulator

import (
	"fmt"
	"slices"
	"time"
)

// script is one POST /sim/script: a fault for the next count calls of an operation.
type script struct {
	On      string `json:"on"`      // authorize, capture, void, refund, webhook
	Fault   string `json:"fault"`   // a name of the table
	Payment string `json:"payment"` // the PSP's reference, or "" for any
	Count   int    `json:"count"`   // calls; 0 means 1
}

// maxScripts bounds the scripts that wait.
const maxScripts = 10_000

// Script sets the fault of the next count calls of an operation (authorize, capture, void, refund) or of the next count
// notices (webhook), of one payment by the PSP's reference or, with "", of any. Scripts come before tokens and are used
// up in the order they were set.
func (s *Simulator) Script(on, fault, payment string, count int) error {
	return s.script(script{On: on, Fault: fault, Payment: payment, Count: count})
}

func (s *Simulator) script(sc script) error {
	b, known := faultNamed(sc.Fault)
	switch {
	case !slices.Contains([]string{opAuthorize, opCapture, opVoid, opRefund, opWebhook}, sc.On):
		return fmt.Errorf("on %q: want authorize, capture, void, refund or webhook", sc.On)
	case !known:
		return fmt.Errorf("fault %q: not in the table; see pspsim --help", sc.Fault)
	case !b.fits(sc.On):
		return fmt.Errorf("fault %q: means nothing for %s", sc.Fault, sc.On)
	case sc.Count < 0:
		return fmt.Errorf("count %d: want 1 or more", sc.Count)
	}
	sc.Count = max(sc.Count, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.scripts) >= maxScripts {
		return fmt.Errorf("%d scripts wait already: let some calls use them up", maxScripts)
	}
	s.scripts = append(s.scripts, sc)
	return nil
}

// takeScript returns the first waiting fault of op for the payment and uses it up once; with unread only one that cuts
// the connection before the request is read. The caller holds the lock.
func (s *Simulator) takeScript(op, ref string, unread bool) (behaviour, bool) {
	for i := range s.scripts {
		sc := &s.scripts[i]
		if sc.On != op || (sc.Payment != "" && sc.Payment != ref) {
			continue
		}
		b, _ := faultNamed(sc.Fault) // it was checked when it came in
		if unread && !b.unread {
			return behaviour{}, false
		}
		if sc.Count--; sc.Count == 0 {
			s.scripts = slices.Delete(s.scripts, i, i+1)
		}
		return b, true
	}
	return behaviour{}, false
}

// faultFor chooses a call's behaviour: a script first, then what the token says, then what the seed draws. The caller
// holds the lock.
func (s *Simulator) faultFor(r *request) behaviour {
	b, chosen := s.takeScript(r.op, r.ref(), false)
	if !chosen {
		b, _ = faultNamed(tokenFault(r.token, r.op)) // it was checked when it came in
		if b.name == "ok" {
			b = s.draw(r.op, r.key, false)
		}
	}
	s.count(b.name)
	return b
}

// count keeps the books' tally of faults. The caller holds the lock.
func (s *Simulator) count(name string) {
	if name != "" && name != "ok" {
		s.tally[name]++
	}
}

// draw takes a call's fault from the seed and its key, once per key: a re-send draws none, and the same history draws
// the same faults whatever runs beside it. The caller holds the lock.
func (s *Simulator) draw(op, key string, unread bool) behaviour {
	if s.perMille == 0 || key == "" || op == opCreate || op == opDetails {
		return behaviour{}
	}
	hash := mix(s.opts.Seed, op, key)
	if hash%1000 >= uint64(s.perMille) || len(s.faultSet) == 0 {
		return behaviour{}
	}
	b := s.faultSet[hash/1000%uint64(len(s.faultSet))]
	if _, again := s.drawn[key]; again || !b.fits(op) || unread && !b.unread || len(s.drawn) >= 4*s.opts.MaxPayments {
		return behaviour{}
	}
	s.drawn[key] = struct{}{}
	return b
}

// mix hashes texts under a seed: FNV-1a, then the finish of splitmix64, for FNV's low bits alone are poor.
func mix(seed uint64, texts ...string) uint64 {
	hash := uint64(14695981039346656037) ^ seed
	for _, text := range texts {
		for i := range len(text) {
			hash = (hash ^ uint64(text[i])) * 1099511628211
		}
		hash = (hash ^ 0xff) * 1099511628211
	}
	hash = (hash ^ hash>>30) * 0xbf58476d1ce4e5b9
	hash = (hash ^ hash>>27) * 0x94d049bb133111eb
	return hash ^ hash>>31
}

// SetFaults changes what the seed draws from now on: perMille of all calls, from the set of names or groups (nil =
// DefaultFaultSet). It returns an *OptionError.
func (s *Simulator) SetFaults(perMille int, names []string) error {
	if perMille < 0 || perMille > 1000 {
		return &OptionError{"FaultPerMille", fmt.Sprintf("%d: want 0 to 1000", perMille)}
	}
	if len(names) == 0 {
		names = DefaultFaultSet()
	}
	set, bad := faultSet(names)
	if bad != nil {
		return bad
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.perMille, s.faultSet = perMille, set
	return nil
}

// OutageMode is how a PSP is down.
type OutageMode string

// The ways of being down.
const (
	Outage503     OutageMode = "503"     // HTTP 503 without a promise
	OutageReset   OutageMode = "reset"   // every connection is reset before the request is read
	OutageTimeout OutageMode = "timeout" // no answer for 60 s, then a reset
	OutageRefuse  OutageMode = "refuse"  // no connection: only through Transport; over a listener it is a reset
)

// Outage makes every call to the PSP's API, look-ups included, fail for d from now; 0 ends an outage. An unknown mode is
// an *OptionError.
func (s *Simulator) Outage(d time.Duration, mode OutageMode) error {
	switch mode {
	case Outage503, OutageReset, OutageTimeout, OutageRefuse:
	default:
		return &OptionError{"mode", fmt.Sprintf("%q: want 503, reset, timeout or refuse", mode)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outageUntil, s.outageMode = s.opts.Now().Add(d), mode
	return nil
}

// down tells whether there is an outage, and counts the call that met it.
func (s *Simulator) down() (OutageMode, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outageMode == "" || !s.opts.Now().Before(s.outageUntil) {
		return "", false
	}
	s.count("outage_" + string(s.outageMode))
	return s.outageMode, true
}
