package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"paygrid/shard"
	"paygrid/shard/relay/consume"
)

// topicFlags say which topic a command reads.
type topicFlags struct {
	config, brokers, topic *string
	follow                 *bool
}

func newTopicFlags(flags *flag.FlagSet) topicFlags {
	return topicFlags{
		config:  flags.String("config", "", "a configuration with the broker's address (default: "+filepath.Join(defaultDir, "router.json")+", if it is there)"),
		brokers: flags.String("brokers", "", "addresses of brokers, comma-separated; goes before KAFKA_BROKERS and the configuration"),
		topic:   flags.String("topic", "", "the topic; goes before KAFKA_TOPIC and the configuration"),
		follow:  flags.Bool("follow", false, "go on at the end of the topic until interrupted"),
	}
}

// open makes a client of the topic's brokers.
func (f topicFlags) open() (client *kgo.Client, topic string, err error) {
	config := routerConfig{}
	path := *f.config
	if path == "" {
		path = filepath.Join(defaultDir, "router.json")
	}
	config, err = readConfig(path)
	if err != nil && (*f.config != "" || !errors.Is(err, os.ErrNotExist)) {
		return nil, "", err
	}
	events := config.events()
	if *f.brokers != "" {
		events.Brokers = strings.Split(*f.brokers, ",")
	}
	if *f.topic != "" {
		events.Topic = *f.topic
	}
	if len(events.Brokers) == 0 {
		return nil, "", &usageError{"no broker is known: name it with --brokers, KAFKA_BROKERS or --config"}
	}
	broker, err := events.broker()
	if err != nil {
		return nil, "", err
	}
	options, err := broker.Options()
	if err != nil {
		return nil, "", err
	}
	client, err = kgo.NewClient(options...)
	return client, events.Topic, err
}

// runEventsTail prints the events of the topic, a line of JSON each.
func runEventsTail(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "events tail", "print the events on the topic from its beginning, one line of JSON each")
	source := newTopicFlags(flags)
	payment := flags.String("payment", "", "only the events of this payment")
	if _, err := parse(flags, args, 0, "flags alone"); err != nil {
		return err
	}
	client, topic, err := source.open()
	if err != nil {
		return err
	}
	defer client.Close()
	encoder := json.NewEncoder(e.out)
	err = consume.Read(ctx, client, topic, *source.follow, func(event consume.Event) error {
		if *payment != "" && event.Payment != *payment {
			return nil
		}
		return encoder.Encode(event)
	}, nil)
	if ctx.Err() != nil {
		return nil // interrupted, as --follow wants it
	}
	return err
}

// runEventsCheck reads the whole topic and judges it.
func runEventsCheck(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "events check",
		"read the whole topic: every bucket's numbers without a gap, every payment's events in order, duplicates equal; exit code 1 on any finding")
	source := newTopicFlags(flags)
	mapPath := flags.String("map", mapFlag(), mapHelp+"; with it, the topic must hold all that was published, but for what is parked")
	alone := flags.Bool("topic-alone", false, "compare with no shard")
	if _, err := parse(flags, args, 0, "flags alone"); err != nil {
		return err
	}
	client, topic, err := source.open()
	if err != nil {
		return err
	}
	defer client.Close()
	check := consume.NewCheck()
	parked := 0
	if !*alone {
		if parked, err = expectPublished(ctx, check, *mapPath); err != nil {
			return err
		}
	}
	if err := checkTopic(ctx, client, topic, *source.follow, check); err != nil {
		return err
	}
	findings := check.Finish()
	for _, f := range findings {
		fmt.Fprintln(e.out, f)
	}
	verdict := "PASS"
	if len(findings) > 0 {
		verdict, err = "FAIL", errFound
	}
	fmt.Fprintf(e.out, "EVENTS CHECK %s topic=%s events=%d duplicates=%d parked=%d findings=%d\n", verdict, topic, check.Events, check.Duplicates,
		parked, len(findings))
	return err
}

func checkTopic(ctx context.Context, client *kgo.Client, topic string, follow bool, check *consume.Check) error {
	starts, err := kadm.NewClient(client).ListStartOffsets(ctx, topic)
	if err != nil {
		return err
	}
	starts.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			check.Truncated()
		}
	})
	err = consume.Read(ctx, client, topic, follow, func(event consume.Event) error {
		check.Add(event)
		return nil
	}, func(bad *consume.EventError) error {
		check.Find("%v", bad)
		return nil
	})
	if follow && ctx.Err() != nil {
		return nil
	}
	return err
}

// maxParked bounds how many parked payments of a shard the commands look at.
const maxParked = 10_000

// expectPublished tells a check what the relays' cursors say was published, before the topic is read, and what is parked.
func expectPublished(ctx context.Context, check *consume.Check, mapPath string) (parked int, err error) {
	shards, err := openShards(ctx, mapPath)
	if err != nil {
		return 0, err
	}
	defer shards.Close()
	for _, name := range shards.ShardNames() {
		heads, err := shards.Heads(ctx, name)
		if err != nil {
			return 0, err
		}
		var buckets []shard.Bucket
		for _, h := range heads {
			buckets = append(buckets, h.Bucket)
		}
		cursors, err := shards.Cursors(ctx, name, buckets)
		if err != nil {
			return 0, err
		}
		for b, through := range cursors {
			check.Expect(int(b), 0, through)
		}
		n, err := excuseParked(ctx, shards, name, cursors, check)
		if err != nil {
			return 0, err
		}
		parked += n
	}
	return parked, nil
}

func excuseParked(ctx context.Context, shards *shard.Cluster, name string, cursors map[shard.Bucket]int64, check *consume.Check) (int, error) {
	held, err := shards.Parked(ctx, name, maxParked)
	if err != nil {
		return 0, err
	}
	for _, p := range held {
		events, err := shards.HeldEvents(ctx, name, p, cursors[p.Bucket], maxParked, 0)
		if err != nil {
			return 0, err
		}
		for _, event := range events {
			check.Excuse(int(event.Bucket), event.Seq)
		}
	}
	return len(held), nil
}

// runEventsParked lists the payments whose events wait.
func runEventsParked(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "events parked", "list the payments whose events wait because one of them was refused, on all shards")
	mapPath := flags.String("map", mapFlag(), mapHelp)
	asJSON := flags.Bool("json", false, "print JSON")
	if _, err := parse(flags, args, 0, "flags alone"); err != nil {
		return err
	}
	shards, err := openShards(ctx, *mapPath)
	if err != nil {
		return err
	}
	defer shards.Close()
	all := []shard.ParkedPayment{}
	for _, name := range shards.ShardNames() {
		some, err := shards.Parked(ctx, name, maxParked)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	if *asJSON {
		return printJSON(e.out, all)
	}
	w := tabwriter.NewWriter(e.out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "payment\tstate\tevent\ttries\tsince\treason\n")
	for _, p := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", p.PaymentID, p.State, shard.EventID(p.Bucket, p.Seq), p.Tries, p.ParkedAt.UTC().Format(time.RFC3339), p.Reason)
	}
	return w.Flush()
}

// runEventsRedrive wants a parked payment's events tried once more.
func runEventsRedrive(ctx context.Context, e env, args []string) error {
	flags := newFlags(e, "events redrive", "try a parked payment's events once more, after its cause was mended; if they fail it is parked again")
	mapPath := flags.String("map", mapFlag(), mapHelp)
	rest, err := parse(flags, args, 1, "one payment ID")
	if err != nil {
		return err
	}
	shards, err := openShards(ctx, *mapPath)
	if err != nil {
		return err
	}
	defer shards.Close()
	if err := shards.Redrive(ctx, rest[0]); err != nil {
		return err
	}
	fmt.Fprintf(e.out, "%s will be tried by the relay of its shard\n", rest[0])
	return nil
}
