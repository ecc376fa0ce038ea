package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Limits of what the control is asked.
const (
	maxControlBytes  = 1 << 10
	maxOutageSeconds = 24 * 60 * 60
)

// control is the side of a cluster on this machine that its tests talk to: the metrics of the process, without any router's, and
// faults of the embedded broker. It has no credentials and listens on loopback. The simulators have a control of their own.
//
//	GET  /livez, /metrics
//	POST /kafka/outage     {"seconds":20}   the broker answers nobody for so long, and then goes on with all that it has; 0 ends it
func (g *grid) control() *http.ServeMux {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := probes(registry)
	mux.HandleFunc("POST /kafka/outage", g.handleOutage)
	return mux
}

func (g *grid) handleOutage(w http.ResponseWriter, r *http.Request) {
	var in struct{ Seconds *int64 }
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControlBytes))
	decoder.DisallowUnknownFields()
	switch err := decoder.Decode(&in); {
	case err != nil:
		http.Error(w, fmt.Sprintf(`%v: want {"seconds":20}`, err), http.StatusBadRequest)
	case in.Seconds == nil || *in.Seconds < 0 || *in.Seconds > maxOutageSeconds:
		http.Error(w, fmt.Sprintf("seconds: want 0 to %d", maxOutageSeconds), http.StatusBadRequest)
	case g.broker == nil:
		http.Error(w, "the broker is not in this process: stop it where it runs", http.StatusConflict)
	default:
		until := time.Now().Add(time.Duration(*in.Seconds) * time.Second)
		g.down.Store(&until)
		w.WriteHeader(http.StatusNoContent)
	}
}

var errBrokerDown = errors.New("the embedded broker is down")

// breakWhileDown closes each connection on which the broker is asked something during an outage: the request is not looked at, so
// a producer has no answer and sends it again, under the same sequence numbers.
func (g *grid) breakWhileDown(kmsg.Request) (kmsg.Response, error, bool) {
	until := g.down.Load()
	if until == nil || !time.Now().Before(*until) {
		return nil, nil, false
	}
	g.broker.KeepControl()
	return nil, errBrokerDown, true
}
