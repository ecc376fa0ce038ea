//go:build !cockroach

package localdb

import (
	"context"
	"errors"
)

// ErrNoCockroach is returned by [Start] when the environment asks for CockroachDB and the program was built without it.
var ErrNoCockroach = errors.New("localdb: the environment asks for CockroachDB (COCKROACH_BINARY or PAYGRID_DB), " +
	"but this program was built without it: build and test with -tags cockroach, as make does, or unset them")

func startCockroach(context.Context, Options) (*Engine, error) { return nil, ErrNoCockroach }
