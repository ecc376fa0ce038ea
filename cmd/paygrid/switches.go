package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"paygrid/psprouter"
	"paygrid/shard"
)

// switchInterval is how often a router asks which PSPs people took out of service, and switchTimeout how long it waits for
// that.
const (
	switchInterval = time.Second
	switchTimeout  = 2 * time.Second
)

// switchboard makes a router's choice of PSPs follow the shards' switches.
type switchboard struct {
	shards *shard.Cluster
	psps   *psprouter.Router
	log    *slog.Logger
	seen   map[string]shard.Switch
	lost   bool // the last look failed; said once, not every second
}

func newSwitchboard(shards *shard.Cluster, psps *psprouter.Router, log *slog.Logger) *switchboard {
	return &switchboard{shards: shards, psps: psps, log: log, seen: map[string]shard.Switch{}}
}

// run follows until ctx ends.
func (s *switchboard) run(ctx context.Context) error {
	ticker := time.NewTicker(switchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			s.look(ctx)
		}
	}
}

// look reads the switches once. While no shard answers, the PSPs stay as they are.
func (s *switchboard) look(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	switches, err := s.shards.Switches(asking)
	if err != nil {
		if !s.lost && ctx.Err() == nil {
			s.log.WarnContext(ctx, "the PSPs' switches cannot be read; the PSPs stay as they are", "error", err)
		}
		s.lost = true
		return
	}
	s.lost = false
	for _, w := range switches {
		s.follow(ctx, w)
	}
}

// follow turns one switch, if it is newer than what was followed before: shards that missed a word tell an old one.
func (s *switchboard) follow(ctx context.Context, w shard.Switch) {
	if before, known := s.seen[w.PSP]; known && !w.At.After(before.At) {
		return
	}
	s.seen[w.PSP] = w
	if err := s.psps.Drain(w.PSP, w.Drained, fmt.Sprintf("%s (%s)", w.Reason, w.Actor)); err != nil {
		s.log.WarnContext(ctx, "a switch names a PSP that this router has not", "psp", w.PSP)
		return
	}
	s.log.InfoContext(ctx, "a PSP was switched", "psp", w.PSP, "drained", w.Drained, "reason", w.Reason, "by", w.Actor, "at", w.At)
}
