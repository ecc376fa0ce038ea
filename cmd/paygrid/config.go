package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"paygrid/router"
)

// routerConfig is what a router process must know, as the JSON file of serve router --config. Durations are milliseconds.
type routerConfig struct {
	Map          string         `json:"map"` // the shard map's file
	Clients      []clientConfig `json:"clients"`
	Stripe       *stripeConfig  `json:"stripe"`
	PSPTimeoutMS int64          `json:"pspTimeoutMs"` // how long a PSP's answer is waited for; 10000
	CheckAfterMS int64          `json:"checkAfterMs"` // when a pending attempt is first asked about; 60000
	StatementMS  int64          `json:"statementMs"`  // how long one statement may take before it is read back; 5000
	DrainDelayMS int64          `json:"drainDelayMs"` // not ready, but serving; 0
	WorkEveryMS  int64          `json:"workEveryMs"`  // between rounds of background work in this process; 0 = none
	Lanes        int            `json:"lanes"`        // statements of one shard under way at once; 4
	Serializable bool           `json:"serializable"` // SERIALIZABLE on PostgreSQL too
}

// clientConfig is a caller of the API. The key is stored hashed: sha256sum of its text.
type clientConfig struct {
	ID        string `json:"id"`
	KeySHA256 string `json:"keySha256"`
}

// stripeConfig is one Stripe account. The secret key comes from the environment variable that SecretKeyEnv names, or, for
// simulators, from SecretKey.
type stripeConfig struct {
	BaseURL            string `json:"baseUrl"`
	SecretKeyEnv       string `json:"secretKeyEnv"`
	SecretKey          string `json:"secretKey"`
	SeveralCaptures    bool   `json:"severalCaptures"`
	NotProcessedHeader string `json:"notProcessedHeader"`
}

func readConfig(path string) (routerConfig, error) {
	var c routerConfig
	data, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case c.Map == "":
		return c, fmt.Errorf("%s: map: name the shard map's file", path)
	case len(c.Clients) == 0:
		return c, fmt.Errorf("%s: clients: name at least one", path)
	case c.Stripe == nil:
		return c, fmt.Errorf("%s: stripe: no PSP is configured", path)
	}
	return c, nil
}

// write keeps the file to its owner: it can hold a simulator's key.
func (c routerConfig) write(path string) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o600)
}

func (c routerConfig) clients() []router.Client {
	out := make([]router.Client, len(c.Clients))
	for n, client := range c.Clients {
		out[n] = router.Client{ID: client.ID, KeySHA256: client.KeySHA256}
	}
	return out
}

func (c stripeConfig) secret() (string, error) {
	if c.SecretKeyEnv == "" {
		return c.SecretKey, nil
	}
	secret := os.Getenv(c.SecretKeyEnv)
	if secret == "" {
		return "", fmt.Errorf("stripe: the environment variable %s is empty", c.SecretKeyEnv)
	}
	return secret, nil
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
