// Package model is the specification of what package shard promises, in memory: the same calls, the same answers, the same
// rows, and nothing else. It has no SQL, one lock, and no cleverness; where it and a real cluster differ, one of the two is
// wrong. A differential test holds them equal, so that what is proved on the model (thousands of simulated histories in virtual
// time, one seed each) is proved for the databases.
//
// What it holds, by the numbers of docs/invariants.md: the fence (S2), compare-and-set on status and version (S3), a number
// for each change, without gaps and per bucket (S4), unique keys whose first answer stays, unique entries that are reversed
// once and only ever appended (L3), and the caps (P1).
//
// A Hook makes any call fail before or after its effect, or long before it: what a process sees when its database dies. A
// Rule that is left out (Options.Without) is a planted fault: the simulation must find it.
//
//	store, err := model.New(model.Options{Shards: []string{"shard-1", "shard-2"}, Now: clock})
//	service, err := payment.New(store, psps, payment.Config{Now: clock})
package model
