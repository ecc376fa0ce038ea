package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// The control API has no credentials: it is for tests, on a loopback address.

// handleScript takes {"on":"capture","fault":"drop_after","payment":"","count":1}: the fault of the next calls.
func (s *Simulator) handleScript(w http.ResponseWriter, r *http.Request) {
	sc := script{}
	if !decodeControl(w, r, &sc) {
		return
	}
	if err := s.script(sc); err != nil {
		control(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	control(w, http.StatusOK, map[string]bool{"ok": true})
}

// Script sets the fault of the next count calls of an operation (authorize, capture, void, refund), of one payment
// (pi_…) or, with "", of any. Scripts come before tokens and are used up in the order they were set.
func (s *Simulator) Script(on, fault, payment string, count int) error {
	return s.script(script{On: on, Fault: fault, Payment: payment, Count: count})
}

func (s *Simulator) script(sc script) error {
	b, known := faultNamed(sc.Fault)
	switch {
	case sc.On != opAuthorize && sc.On != opCapture && sc.On != opVoid && sc.On != opRefund:
		return fmt.Errorf("on %q: want authorize, capture, void or refund", sc.On)
	case !known:
		return fmt.Errorf("fault %q: not in the table; see pspsim --help", sc.Fault)
	case b.effect == act && sc.On != opAuthorize:
		return fmt.Errorf("fault %q: only for authorize", sc.Fault)
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

// handleSettle takes {"id":"pi_… or re_…","result":"succeeded" or "failed"}: the end of something pending.
func (s *Simulator) handleSettle(w http.ResponseWriter, r *http.Request) {
	var in struct{ ID, Result string }
	if !decodeControl(w, r, &in) {
		return
	}
	if in.Result != "succeeded" && in.Result != "failed" {
		control(w, http.StatusBadRequest, map[string]string{"error": "result: want succeeded or failed"})
		return
	}
	if !s.Settle(in.ID, in.Result == "succeeded") {
		control(w, http.StatusConflict, map[string]string{"error": "nothing of this id is open that could end so"})
		return
	}
	control(w, http.StatusOK, map[string]bool{"ok": true})
}

// Settle ends a pending authorization, capture, void (by the payment's pi_…) or refund (re_…), and makes a succeeded
// refund fail late. It returns false if there is nothing of that ID that could end so.
func (s *Simulator) Settle(id string, succeeded bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.payments[id]; p != nil {
		return p.settle(succeeded, s.opts.Now())
	}
	if r := s.refunds[id]; r != nil {
		return r.settle(succeeded)
	}
	return false
}

// handleBooks serves the books as JSON; ?ref=pi_… or ?attempt=att_… narrows them to one payment.
func (s *Simulator) handleBooks(w http.ResponseWriter, r *http.Request) {
	control(w, http.StatusOK, s.books(r.URL.Query().Get("ref"), r.URL.Query().Get("attempt")))
}

func decodeControl(w http.ResponseWriter, r *http.Request, into any) bool {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		control(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return false
	}
	return true
}

func control(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(encode(body), '\n'))
}
