package payment

import "slices"

//go:generate go test -run ^TestEventSchemas$ -count=1 . -update

// EventTypes returns the types of all events that a payment can emit, sorted. The payload of each is an EventData, and each has a
// schema in docs/events.
func EventTypes() []string {
	all := []string{EventProcessing} // of the opening, which is no transition
	for _, t := range Transitions() {
		all = append(all, t.Emits)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
