package simulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// The control API has no credentials: it is for tests, on a loopback address.

func (s *Simulator) controlRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST /sim/script", s.handleScript)
	mux.HandleFunc("POST /sim/settle", s.handleSettle)
	mux.HandleFunc("POST /sim/reverse", s.handleReverse)
	mux.HandleFunc("POST /sim/expire", s.handleExpire)
	mux.HandleFunc("POST /sim/faults", s.handleFaults)
	mux.HandleFunc("POST /sim/outage", s.handleOutage)
	mux.HandleFunc("POST /sim/webhooks", s.handleRedeliver)
	mux.HandleFunc("PUT /sim/webhooks", s.handleTargets)
	mux.HandleFunc("GET /sim/webhooks", func(w http.ResponseWriter, _ *http.Request) { control(w, http.StatusOK, s.listEvents()) })
	mux.HandleFunc("GET /sim/faults", func(w http.ResponseWriter, _ *http.Request) { control(w, http.StatusOK, Faults()) })
	mux.HandleFunc("GET /sim/books", s.handleBooks)
}

// handleScript takes {"on":"capture","fault":"drop_after","payment":"","count":1}: the fault of the next calls.
func (s *Simulator) handleScript(w http.ResponseWriter, r *http.Request) {
	sc := script{}
	if !decodeControl(w, r, &sc) {
		return
	}
	controlResult(w, s.script(sc))
}

// handleSettle takes {"id":"…","result":"succeeded" or "failed"}: the end of something pending.
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

// Settle ends a pending authorization, capture, void (by the payment's reference; at Adyen also by the modification's) or
// refund, and makes a succeeded refund fail late. It returns false if there is nothing of that ID that could end so.
func (s *Simulator) Settle(id string, succeeded bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.refunds[id]; r != nil {
		return s.endRefund(r, succeeded)
	}
	if p := s.payments[id]; p != nil {
		return s.endPending(p, succeeded)
	}
	if p := s.changing[id]; p != nil && p.pending != nil && p.pending.ref == id {
		return s.endPending(p, succeeded)
	}
	return false
}

// Reverse takes back what succeeded: the last capture of a payment (by its reference), a capture (Adyen, by the
// modification's) or a refund. It returns false if there is nothing of that ID to take back.
func (s *Simulator) Reverse(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.refunds[id]; r != nil {
		return r.status == refundSucceeded && s.endRefund(r, false)
	}
	if p := s.payments[id]; p != nil {
		return s.takeBack(p, len(p.captures)-1)
	}
	if p := s.changing[id]; p != nil {
		return s.takeBack(p, slices.IndexFunc(p.captures, func(c CaptureBooks) bool { return c.Ref == id }))
	}
	return false
}

// Expire releases an authorization now, as time would. It returns false if there is none to release.
func (s *Simulator) Expire(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.payments[id]
	if p == nil || p.status != statusAuthorized {
		return false
	}
	p.expires = s.opts.Now()
	s.catchUp(p, p.expires)
	return true
}

// handleReverse takes {"id":"…"}.
func (s *Simulator) handleReverse(w http.ResponseWriter, r *http.Request) {
	s.handleID(w, r, s.Reverse)
}

// handleExpire takes {"id":"…"}.
func (s *Simulator) handleExpire(w http.ResponseWriter, r *http.Request) { s.handleID(w, r, s.Expire) }

func (s *Simulator) handleID(w http.ResponseWriter, r *http.Request, do func(string) bool) {
	var in struct{ ID string }
	if !decodeControl(w, r, &in) {
		return
	}
	if !do(in.ID) {
		control(w, http.StatusConflict, map[string]string{"error": "nothing of this id is in a state for that"})
		return
	}
	control(w, http.StatusOK, map[string]bool{"ok": true})
}

// handleFaults takes {"perMille":150,"faults":["wire","wrong_amount"]}.
func (s *Simulator) handleFaults(w http.ResponseWriter, r *http.Request) {
	var in struct {
		PerMille int
		Faults   []string
	}
	if decodeControl(w, r, &in) {
		controlResult(w, s.SetFaults(in.PerMille, in.Faults))
	}
}

// handleOutage takes {"seconds":30,"mode":"503"}.
func (s *Simulator) handleOutage(w http.ResponseWriter, r *http.Request) {
	in := struct {
		Seconds int
		Mode    OutageMode
	}{Mode: Outage503}
	if decodeControl(w, r, &in) {
		controlResult(w, s.Outage(time.Duration(in.Seconds)*time.Second, in.Mode))
	}
}

// handleRedeliver takes {"redeliver":"evt_…"}, or "all" for every event that was not delivered.
func (s *Simulator) handleRedeliver(w http.ResponseWriter, r *http.Request) {
	var in struct{ Redeliver string }
	if !decodeControl(w, r, &in) {
		return
	}
	n := s.Redeliver(in.Redeliver)
	if n == 0 && in.Redeliver != "all" {
		control(w, http.StatusNotFound, map[string]string{"error": "no such event"})
		return
	}
	control(w, http.StatusOK, map[string]int{"sent": n})
}

// handleTargets takes {"targets":["http://…"]}: who receives notices from now on; [] is nobody.
func (s *Simulator) handleTargets(w http.ResponseWriter, r *http.Request) {
	var in struct{ Targets []string }
	if !decodeControl(w, r, &in) {
		return
	}
	if in.Targets == nil {
		control(w, http.StatusBadRequest, map[string]string{"error": "targets: list the URLs of the receivers; [] is nobody"})
		return
	}
	targets := make([]Target, len(in.Targets))
	for n, url := range in.Targets {
		targets[n].URL = url
	}
	controlResult(w, s.SetWebhooks(targets))
}

// listedEvent shows an event's body as the JSON that it is.
type listedEvent struct {
	EventBooks
	Body json.RawMessage `json:"body"`
}

func (s *Simulator) listEvents() []listedEvent {
	list := []listedEvent{}
	for _, e := range s.Events() {
		list = append(list, listedEvent{e, e.Body})
	}
	return list
}

func controlResult(w http.ResponseWriter, err error) {
	if err != nil {
		control(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	control(w, http.StatusOK, map[string]bool{"ok": true})
}

// handleBooks serves the books as JSON; ?ref=… or ?attempt=att_… narrows them to one payment.
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
