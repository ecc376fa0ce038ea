package main

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"paygrid/psprouter"
	"paygrid/psprouter/adyen"
	"paygrid/psprouter/stripe"
)

// newPSPs makes the adapters that are configured and the choice among them; the function closes their connections once no
// call is under way.
func newPSPs(c routerConfig, now func() time.Time, registry prometheus.Registerer) (*psprouter.Router, func(), error) {
	var psps []psprouter.PSP
	var closers []func()
	if c.Stripe != nil {
		adapter, err := newStripe(c)
		if err != nil {
			return nil, nil, err
		}
		psps, closers = append(psps, adapter), append(closers, adapter.Close)
	}
	if c.Adyen != nil {
		adapter, err := newAdyen(c)
		if err != nil {
			return nil, nil, err
		}
		psps, closers = append(psps, adapter), append(closers, adapter.Close)
	}
	router, err := psprouter.NewConfigured(c.Rules, now, rand.Int64N, registry, psps...)
	return router, func() {
		for _, close := range closers {
			close()
		}
	}, err
}

func newStripe(c routerConfig) (*stripe.Adapter, error) {
	key, err := secret("stripe.secretKeyEnv", c.Stripe.SecretKeyEnv, c.Stripe.SecretKey)
	hooks, err2 := secrets("stripe.webhookSecretsEnv", c.Stripe.WebhookSecretsEnv, c.Stripe.WebhookSecrets)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	return stripe.New(stripe.Config{BaseURL: c.Stripe.BaseURL, SecretKey: key, Timeout: milliseconds(c.PSPTimeoutMS),
		SeveralCaptures: c.Stripe.SeveralCaptures, NotProcessedHeader: c.Stripe.NotProcessedHeader, WebhookSecrets: hooks, Live: c.Stripe.Live,
		VisibilityWindow: milliseconds(c.VisibleMS), AllowUGX: c.Stripe.AllowUGX})
}

func newAdyen(c routerConfig) (*adyen.Adapter, error) {
	key, err := secret("adyen.apiKeyEnv", c.Adyen.APIKeyEnv, c.Adyen.APIKey)
	hooks, err2 := secrets("adyen.hmacKeysEnv", c.Adyen.HMACKeysEnv, c.Adyen.HMACKeys)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	return adyen.New(adyen.Config{BaseURL: c.Adyen.BaseURL, APIKey: key, MerchantAccount: c.Adyen.MerchantAccount, HMACKeys: hooks,
		Live: c.Adyen.Live, ReturnURL: c.Adyen.ReturnURL, Timeout: milliseconds(c.PSPTimeoutMS), SeveralCaptures: c.Adyen.SeveralCaptures,
		VisibilityWindow: milliseconds(c.VisibleMS), NotProcessedHeader: c.Adyen.NotProcessedHeader})
}
