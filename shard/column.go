package shard

import (
	"encoding/json"
	"time"
)

// column takes one value out of each row: the hot statements get one array per column, which unnest turns into rows again.
func column[R, V any](rows []R, value func(R) V) []V {
	out := make([]V, len(rows))
	for n, row := range rows {
		out[n] = value(row)
	}
	return out
}

// jsonList encodes a list of this project's own types, which hold only strings and integers and so always can be; an
// empty list is [], never null.
func jsonList[T any](list []T) string {
	if len(list) == 0 {
		return "[]"
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "" // no JSON: the database refuses it, loudly
	}
	return string(text)
}

// nullTime is a TIMESTAMPTZ that may be missing.
func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// nullText is a TEXT that is NULL where the row has none.
func nullText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
