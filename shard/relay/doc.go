// Package relay publishes the outbox of every shard to Kafka: exactly the events that committed, in order per payment, each at
// least once. How others read them is package consume's subject, and docs/events.md's.
//
// # Who publishes
//
// One relay per shard, the one that holds the shard's lease "relay". A lease is a hint, since clocks differ and a process can
// stand still: what makes two relays harmless is that the statement that moves a cursor compares the lease's token with its
// row (shard.Cluster.Advance). A relay whose lease was taken over can publish what was published already, and no more.
//
// # What is published
//
// A bucket's numbers are given under the lock of its row and kept to the commit, so sequence order is commit order (package
// shard), and a bucket's head and one cursor say all there is to say about what is due: cursor < seq ≤ head. No row is
// marked, no number can appear late below another. The database compares the two and names the buckets that have news; a relay
// remembers neither.
//
//	round:  what is unsent ──> stretches of it, bounded ──> events, and which of their payments are held
//	        ──> chains, one per payment: an event is sent when the one before it is acknowledged
//	        ──> Hold what was refused ──> Advance the cursors
//
// Different payments are under way together; of one payment there is one event under way, so a refused event never has a
// later one of its payment before it on the topic, whatever the producer does with what it has buffered. A round
// ends when every chain has: then the cursors pass events that were acknowledged or whose payment is held, and only those.
//
// While events flow, rounds begin Config.Pace apart: a round costs little more for a hundred events than for one. A full batch
// is followed by the next at once, and an event after a pause leaves at once if this process committed it; what others
// commit is looked for every Config.Poll.
//
// Two relays that send the same payment both send it in order, from a point at or before the first event that was not
// acknowledged. However their records mix, the first appearance of each event is in order.
//
// # What happens on each failure
//
//	failure                              what is done
//	the relay dies, at any point         another takes the lease over in seconds and publishes from the cursors: duplicates
//	the lease is lost while publishing   the round is given up and its producer closed; nothing is marked
//	no broker answers                    the producer tries for ever, with the same sequence numbers; nothing is marked, the lag
//	                                     grows and is told. Nothing is parked for the broker's faults
//	an answer is lost, or tells of an    the producer sends again, and the broker knows the sequence number
//	error after writing
//	an event is refused                  a refusal hits all of a batch, so each is sent again alone. What is refused alone holds
//	                                     its payment: later events wait, all other payments flow. It is tried again with growing pauses;
//	                                     after Config.MaxTries the payment is parked and people are told, once
//	the producer's own trouble           the term ends and a new one begins with a new producer
//
// A record is never produced with a context that can end: a record given up by its context can be on the topic or not, and the
// idempotent producer then has a hole in its numbers. To give up, the relay closes its producer and forgets the round.
//
// # States of a held payment
//
//	refused ──> RETRYING ──(MaxTries)──> PARKED ──(paygrid events redrive)──> REDRIVE ──> RELEASED, or PARKED again
//	                └──────────────────(all was sent)──────────────────────────────────> RELEASED
//
// # Pruning
//
// With Config.Keep, published events older than that are removed beside the rounds, in small batches with pauses, a prefix
// of each bucket, never past its cursor nor past the first event of a held payment.
//
// # Example
//
//	r, err := relay.New(cluster, relay.Config{Broker: relay.Broker{Seeds: []string{"127.0.0.1:9092"}}, Owner: "worker-1",
//		Now: time.Now, Log: slog.Default(), Registry: registry})
//	err = r.Run(ctx)
package relay
