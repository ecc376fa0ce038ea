// Package consume reads what package relay publishes: it parses the events, tells first appearances from duplicates, and checks
// a whole topic. Services that follow paygrid's events may import it; it needs nothing of the rest.
//
// Events come at least once. Their IDs are evt_<bucket>_<seq>, and within a bucket the numbers are 1, 2, 3, … without a gap, so one
// number per bucket, and a few above it, is all that has to be remembered to deduplicate for ever (Seen). A payment's events lie in
// one partition, in order; those of one bucket may come from several partitions in any order.
//
//	seen := consume.NewSeen(0)
//	err := consume.Read(ctx, client, "paygrid.payments", true, func(e consume.Event) error {
//		if !seen.First(e.Bucket, e.Seq) {
//			return nil // a duplicate: it was applied
//		}
//		return apply(e)
//	})
//
// A consumer that keeps its effects in a database does better to insert the event's ID, under a unique key, in the same
// transaction.
//
// What is wrong with an event is an *EventError that names it; what Check finds is told as text, one line each.
package consume
