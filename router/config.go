package router

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"paygrid/psprouter"
)

// Limits of what a caller may send. They are part of the API and stand in openapi.yaml.
const (
	bodyBytesMax      = 64 << 10 // a request's body
	webhookBytesMax   = 1 << 20  // a webhook's body
	detailsMax        = 20       // members of a confirm's details
	headerBytesMax    = 16 << 10 // a request's line and headers together
	keyBytesMax       = 255      // an idempotency key
	requestIDBytesMax = 64       // an X-Request-Id that we take over
	orderIDBytesMax   = 255      // the orderId of a query
	tokenBytesMax     = 255      // a PSP's token for a payment method
	brandBytesMax     = 32       // a card brand
	echoBytesMax      = 200      // a JSON pointer in an error; longer ones are left out
)

// Config is what a router must know. Zero values take the default that the field names.
type Config struct {
	Clients       []Client      // who may call; at least one, unless ProbesOnly
	Operators     []Operator    // who may ask at the operators' routes; nobody
	ProbesOnly    bool          // serve /livez, /readyz and /metrics alone: a worker
	DefaultPSP    string        // whose token a plain paymentMethod string is; "stripe"
	Version       string        // of this build, for /metrics; "dev"
	HeaderTimeout time.Duration // to read a request's headers; 5 s
	ReadTimeout   time.Duration // to read a whole request; 15 s
	WriteTimeout  time.Duration // from the headers' end to the answer's end, so longer than any PSP may take; 2 min
	IdleTimeout   time.Duration // a connection without a request; 75 s
	ReadyTimeout  time.Duration // for all shards to answer /readyz; 2 s
	DrainDelay    time.Duration // from the first 503 of /readyz to the closed listener; 0
	DrainTimeout  time.Duration // for running requests to end after that; 30 s
	// PSPs tells how this process sees its PSPs; nil = there are none to show.
	PSPs func() []psprouter.Status
}

// Client is a caller of the API and the hash of one of its keys. A client may stand in the list several times, with
// another key each, so that keys can be rotated.
type Client struct {
	ID        string
	KeySHA256 string // SHA-256 of the API key, 64 hexadecimal digits
}

// withDefaults fills the zero values.
func (c Config) withDefaults() Config {
	c.DefaultPSP = orElse(c.DefaultPSP, "stripe")
	c.Version = orElse(c.Version, "dev")
	c.HeaderTimeout = orElse(c.HeaderTimeout, 5*time.Second)
	c.ReadTimeout = orElse(c.ReadTimeout, 15*time.Second)
	c.WriteTimeout = orElse(c.WriteTimeout, 2*time.Minute)
	c.IdleTimeout = orElse(c.IdleTimeout, 75*time.Second)
	c.ReadyTimeout = orElse(c.ReadyTimeout, 2*time.Second)
	c.DrainTimeout = orElse(c.DrainTimeout, 30*time.Second)
	if c.PSPs == nil {
		c.PSPs = func() []psprouter.Status { return nil }
	}
	return c
}

func orElse[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// credential is a client's or an operator's key as we hold it: never the key itself.
type credential struct {
	client string
	digest [sha256.Size]byte
}

// checked decodes the hashes of all who may call.
func (c Config) checked() (clients, operators []credential, err error) {
	if len(c.Clients) == 0 && !c.ProbesOnly {
		return nil, nil, fmt.Errorf("router: Config.Clients is empty: nobody could call")
	}
	if clients, err = credentials("Clients", c.Clients); err != nil {
		return nil, nil, err
	}
	operators, err = credentials("Operators", operatorKeys(c.Operators))
	return clients, operators, err
}

// credentials decodes the hashes of one list. An error names who is at fault by place and ID.
func credentials(list string, holders []Client) ([]credential, error) {
	seen := map[[sha256.Size]byte]string{}
	out := make([]credential, 0, len(holders))
	for i, h := range holders {
		raw, err := hex.DecodeString(h.KeySHA256)
		if err != nil || len(raw) != sha256.Size || h.ID == "" {
			return nil, fmt.Errorf("router: Config.%s[%d] %q: want an ID and %d hexadecimal digits", list, i, h.ID, 2*sha256.Size)
		}
		digest := [sha256.Size]byte(raw)
		// One key for two would let the order of a list decide whose money moves.
		if other, dup := seen[digest]; dup {
			return nil, fmt.Errorf("router: Config.%s[%d] %q has the same key as %q", list, i, h.ID, other)
		}
		seen[digest] = h.ID
		out = append(out, credential{client: h.ID, digest: digest})
	}
	return out, nil
}
