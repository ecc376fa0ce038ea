package shard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Map says which shard owns which bucket, and at which epoch. It is a hint: the bucket row is the truth, so a router
// with an old map is refused by the fence, never wrong.
type Map struct {
	Version int64
	URLs    map[string]string // shard name -> database URL for paygrid_app
	owners  [Buckets]Owner
}

// Owner is who owns a bucket by the map.
type Owner struct {
	Shard string
	Epoch int64
}

// Owner returns the owner of b.
func (m *Map) Owner(b Bucket) Owner { return m.owners[b] }

// Names returns the shards in order.
func (m *Map) Names() []string {
	names := make([]string, 0, len(m.URLs))
	for name := range m.URLs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// mapFile is the JSON form of a Map.
type mapFile struct {
	Version int64       `json:"version"`
	Shards  []mapShard  `json:"shards"`
	Owners  []ownerSpan `json:"owners"`
}

type mapShard struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

type ownerSpan struct {
	From  int    `json:"from"`
	To    int    `json:"to"` // inclusive
	Shard string `json:"shard"`
	Epoch int64  `json:"epoch"`
}

// MapError is a shard map that cannot be used; the one in use stays.
type MapError struct{ Detail string }

func (e *MapError) Error() string { return "shard map: " + e.Detail }

// ParseMap reads the JSON form. Every bucket must have exactly one owner among the shards named.
func ParseMap(data []byte) (*Map, error) {
	var file mapFile
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, &MapError{Detail: err.Error()}
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, &MapError{Detail: "more follows the map: half of another one?"}
	}
	m := &Map{Version: file.Version, URLs: map[string]string{}}
	urls := map[string]bool{}
	for _, s := range file.Shards {
		if s.Name == "" || s.URL == "" || m.URLs[s.Name] != "" {
			return nil, &MapError{Detail: fmt.Sprintf("shard %q: name and url must be there, and the name once", s.Name)}
		}
		if urls[s.URL] {
			return nil, &MapError{Detail: fmt.Sprintf("shard %q: another shard has the same url", s.Name)}
		}
		urls[s.URL], m.URLs[s.Name] = true, s.URL
	}
	for _, span := range file.Owners {
		if err := m.own(span); err != nil {
			return nil, err
		}
	}
	for b, owner := range m.owners {
		if owner.Shard == "" {
			return nil, &MapError{Detail: fmt.Sprintf("bucket %s has no owner", Bucket(b))}
		}
	}
	return m, nil
}

func (m *Map) own(span ownerSpan) error {
	if span.From < 0 || span.To >= Buckets || span.From > span.To || span.Epoch < 1 {
		return &MapError{Detail: fmt.Sprintf("owners %d to %d at epoch %d: out of range", span.From, span.To, span.Epoch)}
	}
	if m.URLs[span.Shard] == "" {
		return &MapError{Detail: fmt.Sprintf("owners %d to %d: unknown shard %q", span.From, span.To, span.Shard)}
	}
	for b := span.From; b <= span.To; b++ {
		if m.owners[b].Shard != "" {
			return &MapError{Detail: fmt.Sprintf("bucket %s has two owners", Bucket(b))}
		}
		m.owners[b] = Owner{Shard: span.Shard, Epoch: span.Epoch}
	}
	return nil
}

// EvenMap spreads the buckets over shards in equal contiguous spans at epoch 1.
func EvenMap(names []string, urls map[string]string) *Map {
	m := &Map{Version: 1, URLs: urls}
	for b := range m.owners {
		m.owners[b] = Owner{Shard: names[b*len(names)/Buckets], Epoch: 1}
	}
	return m
}

// With returns a copy of the map, one version on, in which shard owns b at epoch.
func (m *Map) With(b Bucket, shard string, epoch int64) *Map {
	next := *m
	next.Version++
	next.owners[b] = Owner{Shard: shard, Epoch: epoch}
	return &next
}

// JSON returns the form that ParseMap reads.
func (m *Map) JSON() ([]byte, error) {
	file := mapFile{Version: m.Version}
	for _, name := range m.Names() {
		file.Shards = append(file.Shards, mapShard{Name: name, URL: m.URLs[name]})
	}
	for b, owner := range m.owners {
		last := len(file.Owners) - 1
		if last >= 0 && file.Owners[last].Shard == owner.Shard && file.Owners[last].Epoch == owner.Epoch {
			file.Owners[last].To = b
			continue
		}
		file.Owners = append(file.Owners, ownerSpan{From: b, To: b, Shard: owner.Shard, Epoch: owner.Epoch})
	}
	return json.MarshalIndent(file, "", "  ")
}

// MapFile is a shard map in a file on this machine.
type MapFile struct {
	path string

	mu   sync.Mutex
	last []byte
	read *Map
}

// NewMapFile reads maps from path.
func NewMapFile(path string) *MapFile { return &MapFile{path: path} }

// Load returns the map in the file now; the same pointer while the file's content stays the same.
func (f *MapFile) Load(_ context.Context) (*Map, error) {
	data, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("shard map: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.read != nil && bytes.Equal(data, f.last) {
		return f.read, nil
	}
	m, err := ParseMap(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	f.last, f.read = data, m
	return m, nil
}

// Write puts m in the file's place at once, so that no reader sees half of it. It holds passwords: only its owner may
// read it.
func (f *MapFile) Write(m *Map) error {
	data, err := m.JSON()
	if err != nil {
		return fmt.Errorf("shard map: %w", err)
	}
	next, err := os.CreateTemp(filepath.Dir(f.path), ".shards-*")
	if err != nil {
		return fmt.Errorf("shard map: %w", err)
	}
	_, err = next.Write(append(data, '\n'))
	if err == nil {
		err = next.Sync() // or a crash of the machine could leave an empty file under the name
	}
	if closed := next.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(next.Name(), f.path)
	}
	if err != nil {
		_ = os.Remove(next.Name())
		return fmt.Errorf("shard map: %w", err)
	}
	return nil
}
