package consume

// Seen tells first appearances from duplicates, by bucket and number. It is not safe for use by several goroutines.
type Seen struct {
	limit int
	logs  map[int]*log
}

// log is what was seen of one bucket: everything up to through, and a few numbers above it.
type log struct {
	through int64
	above   map[int64]struct{}
}

// defaultAbove is how many numbers above the first gap are remembered per bucket.
const defaultAbove = 100_000

// NewSeen remembers at most limit numbers above the first gap of each bucket; 0 means 100,000. Gaps close as the other partitions are
// read, or stay while a payment is parked.
func NewSeen(limit int) *Seen {
	if limit <= 0 {
		limit = defaultAbove
	}
	return &Seen{limit: limit, logs: map[int]*log{}}
}

// First tells whether number seq of a bucket is seen for the first time, and remembers it. Where the limit is reached, an
// event that was seen can be called first again, never the other way round.
func (s *Seen) First(bucket int, seq int64) bool {
	l := s.logs[bucket]
	if l == nil {
		l = &log{above: map[int64]struct{}{}}
		s.logs[bucket] = l
	}
	if _, ok := l.above[seq]; ok || seq <= l.through {
		return false
	}
	if len(l.above) < s.limit || seq == l.through+1 {
		l.above[seq] = struct{}{}
	}
	for {
		if _, ok := l.above[l.through+1]; !ok {
			return true
		}
		l.through++
		delete(l.above, l.through)
	}
}

// Start says that everything up to through was seen before: where a consumer goes on from its own store, or where the topic no
// longer holds what is older.
func (s *Seen) Start(bucket int, through int64) {
	l := &log{through: through, above: map[int64]struct{}{}}
	s.logs[bucket] = l
}

// Through returns up to which number a bucket was seen without a gap.
func (s *Seen) Through(bucket int) int64 {
	if l := s.logs[bucket]; l != nil {
		return l.through
	}
	return 0
}
