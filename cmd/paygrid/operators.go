package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"paygrid/payment"
	"paygrid/psprouter"
	"paygrid/psprouter/adyen"
	"paygrid/psprouter/stripe"
	"paygrid/router"
	"paygrid/shard"
)

// operatorConfig is a person who may run the cluster. Tokens are stored hashed: sha256sum of their text. A person with
// several tokens stands there several times under one ID.
type operatorConfig struct {
	ID          string `json:"id"`
	TokenSHA256 string `json:"tokenSha256"`
}

func (c routerConfig) operators() []router.Operator {
	out := make([]router.Operator, len(c.Operators))
	for n, o := range c.Operators {
		out[n] = router.Operator{ID: o.ID, TokenSHA256: o.TokenSHA256}
	}
	return out
}

// pspNames are the PSPs that are configured.
func (c routerConfig) pspNames() []string {
	var out []string
	if c.Stripe != nil {
		out = append(out, stripe.Name)
	}
	if c.Adyen != nil {
		out = append(out, adyen.Name)
	}
	return out
}

// asker is what the commands of operators have in common: where the cluster is, and who asks.
type asker struct {
	mapPath, configPath, token *string
	asJSON                     *bool
}

// askerFlags defines the flags of a command that asks; person adds those that say who asks.
func askerFlags(flags *flag.FlagSet, person bool) *asker {
	a := &asker{mapPath: flags.String("map", mapFlag(), mapHelp), asJSON: flags.Bool("json", false, "print JSON")}
	if person {
		a.configPath = flags.String("config", "",
			"the routers' configuration, which knows the operators; router.json beside the map if it is missing")
		a.token = flags.String("token", "",
			"your token; if it is missing, the environment variable PAYGRID_TOKEN, which no list of processes shows")
	}
	return a
}

// config reads the routers' configuration.
func (a *asker) config() (routerConfig, error) {
	path := *a.configPath
	if path == "" {
		path = filepath.Join(filepath.Dir(*a.mapPath), "router.json")
	}
	c, err := readConfig(path)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; name the routers' configuration with --config", err)
	}
	return c, err
}

// secret is the token that was given; it is no flag's default, since a help text prints those.
func (a *asker) secret() string { return cmp.Or(*a.token, os.Getenv("PAYGRID_TOKEN")) }

// person names the operator whose token was given.
func (a *asker) person(c routerConfig) (string, error) {
	if a.secret() == "" {
		return "", &usageError{"--token is missing"}
	}
	id, ok, err := router.OperatorOf(c.operators(), a.secret())
	if err == nil && !ok {
		err = errors.New("nobody has this token; the configuration's operators have the hashes of theirs")
	}
	return id, err
}

// desk is an open cluster and the person at it.
type desk struct {
	shards  *shard.Cluster
	service *payment.Service
	config  routerConfig
	person  string
	log     *slog.Logger
}

// sit finds out who asks and opens the cluster. The service has no PSPs: what people know, nobody needs to be asked.
func (a *asker) sit(ctx context.Context, e env) (*desk, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	person, err := a.person(config)
	if err != nil {
		return nil, err
	}
	shards, err := openShards(ctx, *a.mapPath)
	if err != nil {
		return nil, err
	}
	log := newLog(e.err, slog.LevelInfo)
	service, err := payment.New(shards, psprouter.NewRouter(), payment.Config{Now: time.Now, Log: log})
	if err != nil {
		shards.Close()
		return nil, err
	}
	return &desk{shards: shards, service: service, config: config, person: person, log: log}, nil
}

// onShards asks every shard of the map. What one cannot say is an error beside what the others said.
func onShards[T any](shards *shard.Cluster, ask func(shardName string) ([]T, error)) ([]T, error) {
	out := []T{} // JSON shows a list, never null
	var all []error
	for _, name := range slices.Sorted(slices.Values(shards.ShardNames())) {
		some, err := ask(name)
		out = append(out, some...)
		all = append(all, err)
	}
	return out, errors.Join(all...)
}

// listLimit is how much one shard lists at most.
const listLimit = 1000

// age is how long ago something was, as people say it.
func age(since, now time.Time) string { return now.Sub(since).Round(time.Second).String() }
