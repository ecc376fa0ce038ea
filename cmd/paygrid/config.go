package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"paygrid/psprouter"
	"paygrid/router"
)

// routerConfig is what a router process must know, as the JSON file of serve router --config. Durations are milliseconds.
type routerConfig struct {
	Map          string           `json:"map"` // the shard map's file
	Clients      []clientConfig   `json:"clients"`
	Operators    []operatorConfig `json:"operators"` // people who may run the cluster
	Stripe       *stripeConfig    `json:"stripe"`
	Adyen        *adyenConfig     `json:"adyen"`
	Rules        psprouter.Rules  `json:"rules"`        // which PSP a payment goes to; empty: the first with a token
	PSPTimeoutMS int64            `json:"pspTimeoutMs"` // how long a PSP's answer is waited for; 10000
	CheckAfterMS int64            `json:"checkAfterMs"` // when a pending attempt is first asked about; 60000
	RecheckMS    int64            `json:"recheckMs"`    // the first pause between two checks, which then doubles; 30000
	VisibleMS    int64            `json:"visibleMs"`    // how long a PSP's having no record proves nothing; 900000
	StatementMS  int64            `json:"statementMs"`  // how long one statement may take before it is read back; 5000
	StepTargetMS int64            `json:"stepTargetMs"` // half of a shard's writes taking longer is stress, and 503 for the least urgent; 250, -1 = never
	DrainDelayMS int64            `json:"drainDelayMs"` // not ready, but serving; 0
	WorkEveryMS  int64            `json:"workEveryMs"`  // between rounds of background work in this process; 0 = none
	Events       *eventsConfig    `json:"events"`       // the broker that events go to; null = none, unless KAFKA_BROKERS names one
	Lanes        int              `json:"lanes"`        // statements of one shard under way at once; 4
	Serializable bool             `json:"serializable"` // SERIALIZABLE on PostgreSQL too
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
	AllowUGX           bool   `json:"allowUgx"` // the account was seen to take shillings in hundredths
	// WebhookSecrets are all that are valid now; WebhookSecretsEnv names an environment variable with a comma-separated list.
	WebhookSecrets    []string `json:"webhookSecrets"`
	WebhookSecretsEnv string   `json:"webhookSecretsEnv"`
	Live              bool     `json:"live"`
}

// adyenConfig is one Adyen merchant account. Secrets are named as in stripeConfig.
type adyenConfig struct {
	BaseURL            string   `json:"baseUrl"`
	APIKeyEnv          string   `json:"apiKeyEnv"`
	APIKey             string   `json:"apiKey"`
	MerchantAccount    string   `json:"merchantAccount"`
	ReturnURL          string   `json:"returnUrl"`
	SeveralCaptures    bool     `json:"severalCaptures"`
	NotProcessedHeader string   `json:"notProcessedHeader"`
	HMACKeys           []string `json:"hmacKeys"`
	HMACKeysEnv        string   `json:"hmacKeysEnv"`
	Live               bool     `json:"live"`
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
	case c.Stripe == nil && c.Adyen == nil:
		return c, fmt.Errorf("%s: stripe, adyen: no PSP is configured", path)
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

// secret is the value of the environment variable that name names, or plain where none is named.
func secret(field, name, plain string) (string, error) {
	if name == "" {
		return plain, nil
	}
	value := os.Getenv(name)
	if value == "" {
		return "", fmt.Errorf("%s: the environment variable %s is empty", field, name)
	}
	return value, nil
}

// secrets is the same for a list, comma-separated in the environment.
func secrets(field, name string, plain []string) ([]string, error) {
	if name == "" {
		return plain, nil
	}
	value, err := secret(field, name, "")
	return strings.Split(value, ","), err
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
