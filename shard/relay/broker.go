package relay

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// DefaultTopic is where events go unless a configuration says otherwise.
const DefaultTopic = "paygrid.payments"

// Broker is how Kafka is reached.
type Broker struct {
	Seeds []string // host:port of some brokers; the others are learnt from them
	TLS   *TLS     // nil = plain text
	SASL  *SASL    // nil = no log-in
}

// TLS names the files of an encrypted connection. All may be empty: then the system's roots are trusted.
type TLS struct {
	CAFile     string `json:"caFile"`     // roots to trust in place of the system's, PEM
	CertFile   string `json:"certFile"`   // our own certificate, PEM, where brokers want one
	KeyFile    string `json:"keyFile"`    // its key
	ServerName string `json:"serverName"` // the name in the brokers' certificate, if it is not the address
}

// SASL is a log-in.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	User      string
	Password  string
}

// Options returns what a client of the broker needs, whether it produces or consumes.
func (b Broker) Options() ([]kgo.Opt, error) {
	if len(b.Seeds) == 0 {
		return nil, fmt.Errorf("relay: Broker.Seeds is empty: name at least one broker as host:port")
	}
	options := []kgo.Opt{kgo.SeedBrokers(b.Seeds...), kgo.ClientID("paygrid")}
	if b.TLS != nil {
		config, err := b.TLS.config()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if b.SASL != nil {
		mechanism, err := b.SASL.mechanism()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}

func (t TLS) config() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("relay: TLS.CAFile: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("relay: TLS.CAFile: %s holds no certificate in PEM", t.CAFile)
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("relay: TLS.CertFile and TLS.KeyFile: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

func (s SASL) mechanism() (sasl.Mechanism, error) {
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.User, Pass: s.Password}.AsSha512Mechanism(), nil
	}
	return nil, fmt.Errorf("relay: SASL.Mechanism %q: want PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", s.Mechanism)
}

// metadataAge bounds how often brokers are asked who leads what.
const metadataAge = 500 * time.Millisecond

// producer makes the producer of one term. It waits for all replicas in sync and numbers its records, so that what it sends
// again is stored once; it never gives a record up by itself for a fault that may pass.
func (r *Relay) producer() (*kgo.Client, error) {
	options, err := r.config.Broker.Options()
	if err != nil {
		return nil, err
	}
	return kgo.NewClient(append(options,
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.DefaultProduceTopic(r.config.Topic),
		kgo.ProducerLinger(0),
		kgo.MetadataMinAge(metadataAge), // how soon a partition's new leader is asked for
		kgo.ProducerBatchMaxBytes(int32(r.config.MaxBytes)),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // by the key's hash, as every Kafka client does it
	)...)
}
