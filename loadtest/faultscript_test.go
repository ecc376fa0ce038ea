package loadtest

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func TestParseFaults(t *testing.T) {
	const script = `at 60s: psp stripe outage 30s; at 90s: kill router 2;at 95s: start router 2
		# the rest comes later
		at 120s: kafka down 20s; at 180s: worker pause 20s # and wakes with old leases
		at 150s: database restart; at 5s: psp adyen outage 1m timeout;`
	got, err := ParseFaults(script)
	if err != nil {
		t.Fatal(err)
	}
	want := []Fault{
		{At: 5 * time.Second, Kind: PSPOutage, Name: "adyen", Mode: "timeout", For: time.Minute},
		{At: 60 * time.Second, Kind: PSPOutage, Name: "stripe", For: 30 * time.Second},
		{At: 90 * time.Second, Kind: KillRouter, Number: 2},
		{At: 95 * time.Second, Kind: StartRouter, Number: 2},
		{At: 120 * time.Second, Kind: KafkaDown, For: 20 * time.Second},
		{At: 150 * time.Second, Kind: DatabaseRestart},
		{At: 180 * time.Second, Kind: WorkerPause, For: 20 * time.Second},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, f := range got { // what a report shows can be run again
		again, err := ParseFaults(f.String())
		if err != nil || !slices.Equal(again, []Fault{f}) {
			t.Errorf("%q reads %+v, %v", f, again, err)
		}
	}
}

func TestParseFaultsRefuses(t *testing.T) {
	for _, text := range []string{"kill router 2", "at 5: kill router 2", "at -5s: kill router 2", "at 5s kill router 2", "at 5s: kill router 0", "at 5s: kill router two",
		"at 5s: psp stripe outage", "at 5s: psp stripe outage soon", "at 5s: psp stripe outage 5s rain", "at 5s: kafka down", "at 5s: kafka down 0s",
		"at 5s: worker pause 48h", "at 5s: database restart 5s", "at 5s: rain", "5s: kill router 1"} {
		_, err := ParseFaults(text)
		var refused *ScriptError
		if !errors.As(err, &refused) || refused.Remedy == "" {
			t.Errorf("%q: error %v, want a *ScriptError", text, err)
		}
	}
}
