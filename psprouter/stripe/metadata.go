package stripe

import (
	"errors"

	"paygrid/psprouter"
	"paygrid/psprouter/wire"
)

// Stripe's limits of an object's metadata.
const (
	maxMetaKeys  = 50
	maxMetaChars = 500 // of one value
)

// The metadata that we write beside the recovery data; see wire.Packing for those.
const (
	metaAttempt        = "attempt"
	metaCaptureAttempt = "capture_attempt" // of the latest capture
	metaRefund         = "refund"
)

// ErrSplitsCut is returned by RecoveryFrom when the metadata hold only the first of a payment's splits.
var ErrSplitsCut = wire.ErrSplitsCut

// packing leaves one key for a later capture's attempt.
func packing() wire.Packing { return wire.Packing{Keys: maxMetaKeys, Chars: maxMetaChars, Spare: 1} }

func authorizeMetadata(attempt string, r psprouter.Recovery) map[string]string {
	m := map[string]string{metaAttempt: attempt}
	packing().Pack(m, r)
	return m
}

func refundMetadata(attempt, refund string, r psprouter.Recovery) map[string]string {
	m := map[string]string{metaAttempt: attempt}
	packing().Put(m, metaRefund, refund)
	packing().Pack(m, r)
	return m
}

// RecoveryFrom reads back what an authorization or a refund carries: its attempt ID and the recovery data. With
// ErrSplitsCut all but the last splits are there. Any other error means that the metadata are not ours.
func RecoveryFrom(metadata map[string]string) (attempt string, r psprouter.Recovery, err error) {
	attempt = metadata[metaAttempt]
	if attempt == "" {
		return "", r, errors.New("stripe metadata: no attempt: the object is not ours")
	}
	r, err = packing().Unpack(metadata)
	return attempt, r, err
}
