package shard_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"paygrid/shard"
)

var twoURLs = map[string]string{"a": "postgres://a", "b": "postgres://b"}

func TestParseMapRefuses(t *testing.T) {
	const shards = `"shards": [{"name": "a", "url": "u1"}, {"name": "b", "url": "u2"}]`
	for name, c := range map[string]struct{ text, detail string }{
		"no JSON":           {`{`, "EOF"},
		"empty file":        {``, "EOF"},
		"nothing":           {`{}`, "0000 has no owner"},
		"gap":               {`{` + shards + `, "owners": [{"from": 0, "to": 4094, "shard": "a", "epoch": 1}]}`, "4095 has no owner"},
		"overlap":           {`{` + shards + `, "owners": [{"from": 0, "to": 4095, "shard": "a", "epoch": 1}, {"from": 7, "to": 7, "shard": "b", "epoch": 2}]}`, "0007 has two owners"},
		"unknown shard":     {`{` + shards + `, "owners": [{"from": 0, "to": 4095, "shard": "c", "epoch": 1}]}`, `unknown shard "c"`},
		"no shard":          {`{` + shards + `, "owners": [{"from": 0, "to": 4095, "epoch": 1}]}`, `unknown shard ""`},
		"doubled url":       {`{"shards": [{"name": "a", "url": "u1"}, {"name": "b", "url": "u1"}]}`, `shard "b": another`},
		"doubled name":      {`{"shards": [{"name": "a", "url": "u1"}, {"name": "a", "url": "u2"}]}`, "the name once"},
		"no url":            {`{"shards": [{"name": "a"}]}`, "url must be there"},
		"unknown member":    {`{"shard": []}`, `unknown field "shard"`},
		"backwards":         {`{` + shards + `, "owners": [{"from": 9, "to": 8, "shard": "a", "epoch": 1}]}`, "out of range"},
		"below the first":   {`{` + shards + `, "owners": [{"from": -1, "to": 8, "shard": "a", "epoch": 1}]}`, "out of range"},
		"beyond the last":   {`{` + shards + `, "owners": [{"from": 0, "to": 4096, "shard": "a", "epoch": 1}]}`, "out of range"},
		"no epoch":          {`{` + shards + `, "owners": [{"from": 0, "to": 4095, "shard": "a"}]}`, "out of range"},
		"two maps in a row": {`{` + shards + `, "owners": [{"from": 0, "to": 4095, "shard": "a", "epoch": 1}]} {}`, "more follows"},
	} {
		var refused *shard.MapError
		if _, err := shard.ParseMap([]byte(c.text)); !errors.As(err, &refused) || !strings.Contains(refused.Detail, c.detail) {
			t.Errorf("%s: %v, want %q in it", name, err, c.detail)
		}
	}
}

func TestEvenMap(t *testing.T) {
	for n := 1; n <= 7; n++ {
		names, urls := []string{}, map[string]string{}
		for k := range n {
			name := string(rune('a' + k))
			names, urls[name] = append(names, name), "postgres://"+name
		}
		m := shard.EvenMap(names, urls)
		owned := map[string]int{}
		for b := range shard.Bucket(shard.Buckets) {
			owner := m.Owner(b)
			owned[owner.Shard]++
			if owner.Epoch != 1 || b > 0 && owner.Shard < m.Owner(b-1).Shard {
				t.Fatalf("%d shards: bucket %s is owned by %+v", n, b, owner)
			}
		}
		for name, count := range owned {
			if count < shard.Buckets/n || count > shard.Buckets/n+1 {
				t.Errorf("%d shards: %s owns %d buckets", n, name, count)
			}
		}
	}
}

// TestMapJSONRoundTrip: any assignment of buckets survives writing and reading.
func TestMapJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := shard.EvenMap([]string{"a", "b"}, twoURLs)
		for range rapid.IntRange(0, 20).Draw(t, "moves") {
			m = m.With(shard.Bucket(rapid.IntRange(0, shard.Buckets-1).Draw(t, "bucket")),
				rapid.SampledFrom([]string{"a", "b"}).Draw(t, "shard"), rapid.Int64Range(1, 9).Draw(t, "epoch"))
		}
		text, err := m.JSON()
		if err != nil {
			t.Fatal(err)
		}
		again, err := shard.ParseMap(text)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(m, again) {
			t.Fatal("the map read is not the map written")
		}
	})
}

func TestMapWithLeavesTheOldMapAlone(t *testing.T) {
	m := shard.EvenMap([]string{"a", "b"}, twoURLs)
	next := m.With(7, "b", 2)
	if m.Owner(7) != (shard.Owner{Shard: "a", Epoch: 1}) || next.Owner(7) != (shard.Owner{Shard: "b", Epoch: 2}) || next.Version != m.Version+1 {
		t.Errorf("was %+v, is %+v, version %d", m.Owner(7), next.Owner(7), next.Version)
	}
}

func FuzzParseMap(f *testing.F) {
	text, err := shard.EvenMap([]string{"a", "b"}, twoURLs).JSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"owners": [{"from": -9223372036854775808, "to": 9223372036854775807, "epoch": 1}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := shard.ParseMap(text)
		if err != nil {
			return
		}
		for b := range shard.Bucket(shard.Buckets) {
			if owner := m.Owner(b); m.URLs[owner.Shard] == "" || owner.Epoch < 1 {
				t.Fatalf("bucket %s is owned by %+v", b, owner)
			}
		}
	})
}

// TestMapFileWrite: the file holds passwords, so only its owner reads it; and a reader sees the old map or the new one.
func TestMapFileWrite(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	file := shard.NewMapFile(filepath.Join(dir, "shards.json"))
	if _, err := file.Load(ctx); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	m := shard.EvenMap([]string{"a", "b"}, twoURLs)
	must(t, file.Write(m))
	info, err := os.Stat(filepath.Join(dir, "shards.json"))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode().Perm())
	}
	first, err := file.Load(ctx)
	must(t, err)
	if again, err := file.Load(ctx); err != nil || again != first {
		t.Errorf("the same content gives another map (%v)", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 40 {
			if err := file.Write(m.With(shard.Bucket(n), "b", 2)); err != nil {
				t.Error(err)
			}
		}
	}()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
			if _, err := shard.NewMapFile(filepath.Join(dir, "shards.json")).Load(ctx); err != nil {
				t.Errorf("a reader beside the writer: %v", err)
				reading = false
			}
		}
	}
	<-done
	left, err := filepath.Glob(filepath.Join(dir, ".shards-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestMapFileWriteFails: where the new file cannot be put in place nothing is left behind.
func TestMapFileWriteFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "shards.json")
	must(t, os.MkdirAll(filepath.Join(path, "occupied"), 0o700)) // a folder has the name
	if err := shard.NewMapFile(path).Write(shard.EvenMap([]string{"a"}, twoURLs)); err == nil {
		t.Error("a folder was replaced")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".shards-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
